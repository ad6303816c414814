-- No host is asked for more pages in a UTC day than the policy allows.
-- tables: fetches, orders
with days as (
    select
        fetches.host,
        fetches.started_at::date as day,
        count(*) as request_count,
        max(terms.fetches_per_day) as allowed_count
    from fetches
    join terms using (host, policy_id)
    where fetches.cause <> 'robots'
    group by fetches.host, fetches.started_at::date
)

select host, day, request_count, allowed_count
from days
where request_count > allowed_count
order by host, day
