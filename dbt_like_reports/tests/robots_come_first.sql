-- Nothing is asked of an origin before its robots.txt was answered, nor after the last answer has expired or is a day old.
-- tables: fetches, robots
with asked as (
    select origin, url, round, cause, started_at
    from fetches
    where cause <> 'robots'
),

answers as (
    select origin, fetched_at, expires_at
    from robots
),

governed as (
    select
        asked.origin,
        asked.url,
        asked.round,
        asked.cause,
        asked.started_at,
        answers.fetched_at,
        answers.expires_at
    from asked
    asof left join answers
        on asked.origin = answers.origin
        and asked.started_at >= answers.fetched_at
)

select origin, url, round, cause, started_at, fetched_at as robots_fetched_at, expires_at as robots_expired_at
from governed
where expires_at is null or started_at > least(expires_at, fetched_at + interval 24 hours)  -- RFC 9309 2.4
order by origin, started_at
