-- No host with many URLs to fetch is out of reach for days.
-- tables: hosts, frontier, pages, fetches, orders
-- advice: see the reason with `crawl explain` for one of its URLs; write to the owner if robots.txt answers 5xx, `crawl resume` a host that was paused
select host, reason, until_at, last_trouble, waiting_count
from ref('hosts_in_trouble')
where waiting_count >= 100 and (reason = 'paused by an order' or until_at > as_of() + interval '1 day')
