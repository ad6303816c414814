-- What becomes of all known URLs on their way to distinct pages, stage by stage.
-- tables: frontier, fetches, pages, clusters
--   stage: where a URL has come to; distinct pages are no copies of others
--   url_count: URLs that have come so far
--   share: of the URLs that are known
with asked as (
    select url_hash, bool_or(http_status is not null) as answered
    from fetches
    where cause = 'page'
    group by url_hash
),

stored as (
    select distinct url_hash from pages
),

copies as (
    select count(*) as copy_count
    from clusters
    where canonical is not null and url <> canonical and url_hash in (select url_hash from stored)
),

counted as (
    select 1 as place, 'known' as stage, count(*) as url_count from frontier
    union all
    select 2, 'asked for', count(*) from asked
    union all
    select 3, 'answered', count(*) filter (answered) from asked
    union all
    select 4, 'stored', count(*) from stored
    union all
    select 5, 'distinct', (select count(*) from stored) - copy_count from copies
)

select stage, url_count, url_count / nullif(max(url_count) filter (place = 1) over (), 0) as share
from counted
order by place
