-- How fresh the pages of each host are expected to be, weighted by importance, and how late their visits are.
-- tables: frontier, change_frequency, hosts, pages
--   host: `all hosts` is the first row
--   page_count: URLs with a stored page that their last visit still found, or found unchanged
--   expected_freshness: chance that a stored page is still as it is on the web, weighted by score and by copies
--   median_age_days: since the last visit that read the page or was told that it is unchanged [days]
--   age_p95_days: age that 5 % of the pages are above [days]
--   lag_p95_days: by how much visits that are due are late, 5 % of pages by more [days]
--   useful_share: of the visits after the first, those that found a change
select
    coalesce(host, 'all hosts') as host,
    count(*) as page_count,
    sum(importance * freshness) / nullif(sum(importance), 0) as expected_freshness,
    median(age_days) as median_age_days,
    quantile_cont(age_days, 0.95) as age_p95_days,
    quantile_cont(late_days, 0.95) as lag_p95_days,
    sum(changes) / nullif(sum(greatest(visits - 1, 0)), 0) as useful_share
from freshness
group by grouping sets ((host), ())
having count(*) > 0
order by grouping(host) desc, expected_freshness, host
