-- A round stores a URL at most once.
-- tables: pages
with stored as (
    select bucket, round, url, count(*) as page_count
    from pages
    group by bucket, round, url
)

select bucket, round, url, page_count
from stored
where page_count > 1
order by round, url
