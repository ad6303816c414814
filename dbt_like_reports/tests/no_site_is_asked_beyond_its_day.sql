-- The hosts of a site are together asked for no more pages in a UTC day than the policy allows.
-- tables: fetches, orders, hosts
with days as (
    select
        hosts.site,
        fetches.started_at::date as day,
        count(*) as request_count,
        max(terms.fetches_per_site_day) as allowed_count
    from fetches
    join terms using (host, policy_id)
    join hosts on fetches.host = hosts.host
    where fetches.cause <> 'robots'
    group by hosts.site, fetches.started_at::date
)

select site, day, request_count, allowed_count
from days
where request_count > allowed_count
order by site, day
