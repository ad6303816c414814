-- Of the visits that are due to a host, few are later than a week.
-- tables: frontier, change_frequency, hosts, pages
-- advice: let rounds run more often or longer, or raise the budget; `crawl status` says what due URLs wait for
select host, page_count, lag_p95_days
from ref('page_freshness')
where page_count >= 20 and lag_p95_days > 7
