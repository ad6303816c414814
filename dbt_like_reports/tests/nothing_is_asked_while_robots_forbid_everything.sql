-- Nothing is asked of an origin while its last robots.txt answer, or the lack of one, forbids everything.
-- tables: fetches, robots
with asked as (
    select origin, url, round, cause, started_at
    from fetches
    where cause <> 'robots'
),

answers as (
    select
        origin,
        fetched_at,
        reason,
        -- What was made of the answer, and what its status says by RFC 9309 2.3.1.4.
        state = 'disallow_all' or http_status = 429 or http_status >= 500 as unreachable
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
        answers.unreachable,
        answers.reason
    from asked
    asof join answers
        on asked.origin = answers.origin
        and asked.started_at >= answers.fetched_at
)

select origin, url, round, cause, started_at, fetched_at as robots_fetched_at, reason
from governed
where unreachable
order by origin, started_at
