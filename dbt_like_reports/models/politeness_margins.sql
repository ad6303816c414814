-- How long hosts rested, as a share of what they were owed: 1 is exact, less is a broken promise, more is time not used.
-- tables: fetches, robots, orders
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
