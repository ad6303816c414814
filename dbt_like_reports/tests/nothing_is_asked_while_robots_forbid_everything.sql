-- Nothing is asked of an origin while its last robots.txt answer, or the lack of one, forbids everything.
-- tables: fetches, robots
with asked as (
    select origin, url, round, cause, started_at
    from fetches
    where cause <> 'robots'
),

answers as (
    select origin, fetched_at, state, reason
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
        answers.state,
        answers.reason
    from asked
    asof join answers
        on asked.origin = answers.origin
        and asked.started_at >= answers.fetched_at
)

select origin, url, round, cause, started_at, fetched_at as robots_fetched_at, reason
from governed
where state = 'disallow_all'
order by origin, started_at
