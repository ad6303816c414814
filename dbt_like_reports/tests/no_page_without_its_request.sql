-- Every stored page has the request that fetched it, in the same round, unless requests of its age are not kept.
-- tables: pages, fetches, erasures
with answered as (
    select bucket, round, url_hash
    from fetches
    where cause = 'page' and outcome = 'fetched'
),

expired as (
    select max(until_at) as until_at
    from erasures
    where table_name = 'fetches' and "order" is null
)

select stored.bucket, stored.round, stored.url, stored.fetched_at
from pages as stored
anti join answered
    on stored.bucket = answered.bucket
    and stored.round = answered.round
    and stored.url_hash = answered.url_hash
cross join expired
where stored.fetched_at >= coalesce(expired.until_at, timestamptz '-infinity')
order by stored.round, stored.url
