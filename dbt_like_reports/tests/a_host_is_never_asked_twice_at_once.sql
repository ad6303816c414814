-- A host is asked for one thing at a time: no request starts before every earlier one to its host has ended.
-- tables: fetches
with asked as (
    select
        host,
        url,
        round,
        worker,
        started_at,
        max(ended_at) over (
            partition by host
            order by started_at, request_id
            rows between unbounded preceding and 1 preceding
        ) as busy_until
    from fetches
)

select host, url, round, worker, started_at, busy_until
from asked
where started_at < busy_until
order by host, started_at
