-- All that is known of a host stands in one bucket, so that one owner keeps its promise.
-- tables: frontier, hosts, fetches
with laid_out as (
    select coalesce(max(layout), 0) as number  -- the round of the last rebucketing: older requests were asked elsewhere
    from hosts
),

places as (
    select host, bucket from frontier
    union
    select host, bucket from hosts
    union
    select host, bucket from fetches
    where round > (select number from laid_out)
),

spread as (
    select host, count(*) as bucket_count, list(bucket order by bucket) as buckets
    from places
    group by host
)

select host, bucket_count, buckets
from spread
where bucket_count > 1
order by host
