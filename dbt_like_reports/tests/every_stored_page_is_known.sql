-- A URL is seen if and only if it has a frontier row, so every stored page has one.
-- tables: pages, frontier
with known as (
    select bucket, url_hash
    from frontier
)

select stored.bucket, stored.round, stored.url
from pages as stored
anti join known on stored.bucket = known.bucket and stored.url_hash = known.url_hash
order by stored.round, stored.url
