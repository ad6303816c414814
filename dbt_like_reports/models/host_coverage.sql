-- How far each host has been crawled, and how its requests kept the gaps it was promised.
-- tables: frontier, fetches
--   host: name of the host
--   known_count: its known URLs
--   fetched_count: of these, those whose last visit gave a page or found it unchanged
--   waiting_count: of these, those that wait for a fetch
--   redirected_count: of these, those that name another URL
--   refused_count: of these, those that robots.txt forbids
--   failed_count: of these, those that are no page, gone or given up
--   request_count: requests sent to it, whatever their cause
--   first_request_at: when the first of them started [UTC]
--   last_request_at: when the last of them started [UTC]
--   wire_bytes: body bytes received from it, before decoding [bytes]
--   min_waited_over_promised: least rest before a request over the gap that was noted for it; 1 is exact
--   median_waited_over_promised: the same of half of its rests
with urls as (
    select
        host,
        count(*) as known_count,
        count(*) filter (status = 'fetched') as fetched_count,
        count(*) filter (status = 'waiting') as waiting_count,
        count(*) filter (status = 'redirected') as redirected_count,
        count(*) filter (status = 'refused') as refused_count,
        count(*) filter (status in ('unfit', 'gone', 'dead')) as failed_count
    from frontier
    group by host
),

asked as (
    select
        host,
        started_at,
        wire_bytes,
        lag(gap_s) over earlier as promised_s,
        (epoch_us(started_at) - epoch_us(lag(ended_at) over earlier)) / 1e6 as waited_s
    from fetches
    window earlier as (partition by host order by started_at, request_id)
),

requests as (
    select
        host,
        count(*) as request_count,
        min(started_at) as first_request_at,
        max(started_at) as last_request_at,
        sum(wire_bytes)::bigint as wire_bytes,
        min(waited_s / nullif(promised_s, 0)) as min_waited_over_promised,
        median(waited_s / nullif(promised_s, 0)) as median_waited_over_promised
    from asked
    group by host
)

select
    host,
    coalesce(known_count, 0) as known_count,
    coalesce(fetched_count, 0) as fetched_count,
    coalesce(waiting_count, 0) as waiting_count,
    coalesce(redirected_count, 0) as redirected_count,
    coalesce(refused_count, 0) as refused_count,
    coalesce(failed_count, 0) as failed_count,
    coalesce(request_count, 0) as request_count,
    first_request_at,
    last_request_at,
    coalesce(wire_bytes, 0) as wire_bytes,
    min_waited_over_promised,
    median_waited_over_promised
from urls
full join requests using (host)
order by known_count desc, host
