-- How fresh the pages of each seed list are expected to be, weighted by importance, and how late their visits are.
-- tables: frontier, change_frequency, hosts, pages
--   tag: name of the seed list, inherited by what is found from it; `all pages` is the first row, `no tag` what has none
--   host_count: hosts of these pages
--   page_count: URLs with a stored page that their last visit still found, or found unchanged
--   expected_freshness: chance that a stored page is still as it is on the web, weighted by score and by copies
--   median_age_days: since the last visit that read the page or was told that it is unchanged [days]
--   age_p95_days: age that 5 % of the pages are above [days]
--   lag_p95_days: by how much visits that are due are late, 5 % of pages by more [days]
with tagged as (
    select coalesce(tag, 'no tag') as tag, host, importance, freshness, age_days, late_days
    from freshness
)

select
    coalesce(tag, 'all pages') as tag,
    count(distinct host) as host_count,
    count(*) as page_count,
    sum(importance * freshness) / nullif(sum(importance), 0) as expected_freshness,
    median(age_days) as median_age_days,
    quantile_cont(age_days, 0.95) as age_p95_days,
    quantile_cont(late_days, 0.95) as lag_p95_days
from tagged
group by grouping sets ((tag), ())
having count(*) > 0
order by grouping(tag) desc, expected_freshness, tag
