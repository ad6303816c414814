-- A second reader of robots.txt, which shares nothing with the crawl's, allows every URL that was asked for.
-- tables: fetches, robots, orders
with asked as (
    select origin, host, url, round, cause, started_at, policy_id
    from fetches
    where cause <> 'robots'
),

answers as (
    select origin, fetched_at, state, robots_id, body
    from robots
),

governed as (
    select
        asked.origin,
        asked.host,
        asked.url,
        asked.round,
        asked.cause,
        asked.started_at,
        asked.policy_id,
        answers.robots_id,
        answers.fetched_at,
        answers.body
    from asked
    asof join answers
        on asked.origin = answers.origin
        and asked.started_at >= answers.fetched_at
    where answers.state = 'rules'
),

judged as (
    select
        governed.origin,
        governed.url,
        governed.round,
        governed.cause,
        governed.started_at,
        governed.robots_id,
        governed.fetched_at,
        robots_forbids(governed.body, terms.agent, governed.url) as line
    from governed
    join terms on governed.host = terms.host and governed.policy_id = terms.policy_id
)

select origin, url, round, cause, started_at, fetched_at as robots_fetched_at, robots_id, line
from judged
where line is not null
order by origin, started_at
