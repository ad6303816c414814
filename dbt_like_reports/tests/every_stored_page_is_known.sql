-- A URL is seen if and only if it has a frontier row, so every stored page has one.
-- tables: pages, frontier
with known as (
    select url_hash
    from frontier
)

select stored.bucket, stored.round, stored.url
from pages as stored
anti join known on stored.url_hash = known.url_hash  -- wherever it lies: a page stays in the bucket it was stored in
order by stored.round, stored.url
