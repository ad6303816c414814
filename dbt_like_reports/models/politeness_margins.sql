-- How long hosts rested, as a share of what they were owed: 1 is exact, less is a broken promise, more is time not used.
-- tables: fetches, robots, orders
--   host: `all hosts` is the first row
--   rest_count: rests between two requests that were owed
--   least_margin: the shortest rest over what was owed; under 1 a promise was broken
--   p05_margin: 5 % of the rests are under this
--   median_margin: half of the rests are under this
--   median_owed_s: half of the rests that were owed are under this [s]
with margins as (
    select host, owed_s, waited_s / owed_s as margin
    from rests
    where owed_s > 0
)

select
    coalesce(host, 'all hosts') as host,
    count(*) as rest_count,
    min(margin) as least_margin,
    quantile_cont(margin, 0.05) as p05_margin,
    median(margin) as median_margin,
    median(owed_s) as median_owed_s
from margins
group by grouping sets ((host), ())
having count(*) > 0
order by grouping(host) desc, least_margin, host
