-- How fresh the pages of each host are expected to be, weighted by importance, and how late their visits are.
-- tables: frontier, change_frequency, hosts, pages
--   host: `all hosts` is the first row
--   page_count: URLs with a stored page that their last visit still found, or found unchanged
--   expected_freshness: chance that a stored page is still as it is on the web, weighted by score and by copies
--   median_age_days: since the last visit that read the page or was told that it is unchanged
--   lag_p95_days: by how much visits that are due are late
--   useful_share: of the visits after the first, those that found a change
-- A rate is believed to lie around its mean by a Gamma law of shape 0.4 and what visits add, so that the chance of no
-- change for t days is (1 + t / b) ^ -a. Before a second visit the mean is that of the host, or 0.05 a day.
with believed as (
    select
        host,
        coalesce(score, 0) * coalesce(weight, 1) as importance,
        greatest(0.4 + coalesce(evidence_a, 0), 0.05) as a,
        coalesce(rate, rate_sum / nullif(rate_count, 0), 0.05) as mean_rate,
        greatest(date_diff('second', fetched_at, as_of()), 0) / 86400.0 as age_days,
        greatest(date_diff('second', due_at, as_of()), 0) / 86400.0 as late_days,
        visit_count,
        change_count
    from change_frequency
    join (select url_hash, score, due_at from frontier where status in ('fetched', 'orphan')) using (url_hash)
    semi join pages using (url_hash)
    left join (select host, rate_sum, rate_count from hosts) using (host)
)

select
    coalesce(host, 'all hosts') as host,
    count(*) as page_count,
    sum(importance * pow(1 + age_days * mean_rate / a, -a)) / nullif(sum(importance), 0) as expected_freshness,
    median(age_days) as median_age_days,
    quantile_cont(age_days, 0.95) as age_p95_days,
    quantile_cont(late_days, 0.95) as lag_p95_days,
    sum(change_count) / nullif(sum(greatest(visit_count - 1, 0)), 0) as useful_share
from believed
group by grouping sets ((host), ())
having count(*) > 0
order by grouping(host) desc, expected_freshness, host
