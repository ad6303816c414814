-- Between two requests a host rests as long as policy, Crawl-delay, duration and trouble ask, computed anew.
-- tables: fetches, robots, orders
select host, previous_url, previous_ended_at, url, round, started_at, owed_s, waited_s
from rests
where waited_s between 0 and owed_s - 0.001  -- a request that overlaps is found as such
order by host, started_at
