-- Every request names its outcome and the address it went to, unless the outcome says that it reached none.
-- tables: fetches
with judged as (
    select
        host,
        url,
        round,
        started_at,
        address,
        http_status,
        outcome,
        outcome in ('dns_error', 'address_refused', 'connect_error', 'timeout') as reached_none
    from fetches
)

select host, url, round, started_at, address, http_status, outcome
from judged
where outcome is null or (address is null and (http_status is not null or not reached_none))
order by host, started_at
