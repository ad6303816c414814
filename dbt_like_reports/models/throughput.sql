-- How many requests were made and pages stored in each hour, and what they weighed.
-- tables: fetches, pages
--   hour_at: when the hour began [UTC]
--   request_count: requests that started in it
--   page_count: pages stored that were fetched in it
--   host_count: hosts that were asked in it
--   wire_bytes: body bytes of its answers as they came [bytes]
with asked as (
    select
        time_bucket(interval '1 hour', started_at) as hour_at,
        count(*) as request_count,
        count(distinct host) as host_count,
        coalesce(sum(wire_bytes), 0)::bigint as wire_bytes
    from fetches
    group by 1
),

stored as (
    select time_bucket(interval '1 hour', fetched_at) as hour_at, count(*) as page_count
    from pages
    group by 1
)

select hour_at, request_count, coalesce(page_count, 0) as page_count, host_count, wire_bytes
from asked
left join stored using (hour_at)
order by hour_at
