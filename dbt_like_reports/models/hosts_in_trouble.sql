-- Hosts that are not asked as they might be, why, and until when.
-- tables: hosts, frontier, pages, fetches, orders
--   host: name of the host
--   reason: the first that holds of: paused, robots.txt forbids everything, put aside, backing off, failing
--   until_at: when the host may be asked again; null until somebody says so, or if it may be asked now [UTC]
--   failure_count: requests in a row that counted against it
--   backoff_s: part of the gap after a request that trouble added [s]
--   aside_s: for how long it was put aside at last [s]
--   last_trouble: outcome, and reason, of the last request that counted against it
--   waiting_count: URLs of the host that wait to be fetched for the first time, or again after trouble
select
    host,
    state as reason,
    until_at,
    failures as failure_count,
    backoff_s,
    aside_s,
    last_trouble,
    waiting as waiting_count
from hosts_now
where in_trouble
order by waiting_count desc, host
