-- The pages of a host are expected to be fresh, each by its importance, with a chance of a half at least.
-- tables: frontier, change_frequency, hosts, pages
-- advice: give the host more visits (a shorter delay by agreement, a higher budget) or look for a trap that eats them; `crawl freshness` says what its politeness costs
select host, page_count, expected_freshness, lag_p95_days
from ref('page_freshness')
where page_count >= 20 and expected_freshness < 0.5
