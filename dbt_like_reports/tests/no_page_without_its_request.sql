-- Every stored page has the request that fetched it, in the same round.
-- tables: pages, fetches
with answered as (
    select bucket, round, url_hash
    from fetches
    where cause = 'page' and outcome = 'fetched'
)

select stored.bucket, stored.round, stored.url, stored.fetched_at
from pages as stored
anti join answered
    on stored.bucket = answered.bucket
    and stored.round = answered.round
    and stored.url_hash = answered.url_hash
order by stored.round, stored.url
