-- No origin's robots.txt fails to be read for three days.
-- tables: robots
-- advice: nothing is asked of it meanwhile (RFC 9309 2.3.1.4); open its robots.txt in a browser, and write to the owner if that shows it; `crawl explain` tells what was found
with answers as (
    select host, origin, fetched_at, state, coalesce(reason, 'status ' || http_status) as reason
    from robots
),

last_read as (
    select origin, max(fetched_at) as read_at
    from answers
    where state <> 'disallow_all'
    group by origin
),

failing as (
    select
        host,
        origin,
        min(fetched_at) as since_at,
        max(fetched_at) as last_tried_at,
        count(*) as try_count,
        max_by(reason, fetched_at) as last_reason
    from answers
    left join last_read using (origin)
    where read_at is null or fetched_at > read_at
    group by host, origin
)

select host, origin, since_at, last_tried_at, try_count, last_reason
from failing
where last_tried_at >= since_at + interval '3 days'
order by since_at, host
