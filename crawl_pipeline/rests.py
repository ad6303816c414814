"""How long hosts rested, and how long they were owed: SQL text for two views, which the audit of politeness stands on.

`terms` says what a policy promised a host, from the policy's text as it was kept. `rests` says, for each request but a
host's first, how long the host had rested, and how long it was owed: computed anew from terms, robots.txt and the
answers before, never read from what the crawl noted (`fetches.gap_s`). What cannot be proved from the log is left out
of what was owed: the invariant is that no kept promise looks broken.
"""

TERMS = """
with policies as (
    select policy_id, any_value(policy_toml) as policy_toml
    from orders
    where kind = 'policy' and policy_toml is not null
    group by policy_id
),

asked as (
    select distinct host, policy_id
    from fetches
),

promises as (
    select asked.host, asked.policy_id, promised(policies.policy_toml, asked.host) as promise
    from asked
    join policies using (policy_id)
)

select
    host,
    policy_id,
    promise.agent,
    promise.user_agent,
    promise.delay_s,
    promise.download_factor,
    promise.download_gap_cap_s,
    promise.crawl_delay_cap_s,
    promise.retry_after_cap_s,
    promise.backoff_first_s,
    promise.backoff_cap_s,
    promise.fetches_per_day
from promises
where promise is not null
"""

TERMS_COLUMNS = {
    "host": "host name",
    "policy_id": "digest of the policy under which it was asked",
    "agent": "product token, by which robots.txt names us",
    "user_agent": "User-Agent that the policy declares",
    "delay_s": "gap after each request [s]",
    "download_factor": "times the last request's duration is waited",
    "download_gap_cap_s": "most that download_factor may ask for [s]",
    "crawl_delay_cap_s": "most that a Crawl-delay may ask for [s]",
    "retry_after_cap_s": "most that a Retry-After may ask for [s]",
    "backoff_first_s": "extra gap after a first trouble; doubles with each [s]",
    "backoff_cap_s": "most that the extra gap grows to [s]",
    "fetches_per_day": "pages that may be asked for in a UTC day",
}

RESTS = """
with asked as (
    select
        bucket,
        host,
        url,
        round,
        cause,
        started_at,
        ended_at,
        request_id,
        policy_id,
        outcome in (
            'throttled', 'unavailable', 'protocol_error', 'timeout', 'connect_error', 'dns_error', 'tls_error'
        ) as trouble,
        outcome = 'throttled' as throttled
    from fetches
),

-- Back-off doubles for certain while a host says 429 again and again; any other trouble is counted as a first one. That
-- asks for less than was promised, never for more.
runs as (
    select
        bucket,
        host,
        url,
        round,
        cause,
        started_at,
        ended_at,
        request_id,
        policy_id,
        trouble,
        throttled,
        count(*) filter (not throttled) over (
            partition by host order by started_at, request_id rows between unbounded preceding and current row
        ) as calm_before
    from asked
),

paced as (
    select
        bucket,
        host,
        url,
        round,
        cause,
        started_at,
        ended_at,
        request_id,
        policy_id,
        trouble,
        count(*) filter (throttled) over (
            partition by host, calm_before
            order by started_at, request_id
            rows between unbounded preceding and current row
        ) as troubles
    from runs
),

pairs as (
    select
        bucket,
        host,
        url,
        round,
        cause,
        started_at,
        lag(url) over earlier as previous_url,
        lag(ended_at) over earlier as previous_ended_at,
        lag((epoch_us(ended_at) - epoch_us(started_at)) / 1e6) over earlier as previous_took_s,
        lag(case when trouble then greatest(troubles, 1) else 0 end) over earlier as previous_troubles,
        lag(policy_id) over earlier as policy_id
    from paced
    window earlier as (partition by host order by started_at, request_id)
),

answers as (
    select host, fetched_at, body
    from robots
),

governed as (
    select
        pairs.bucket,
        pairs.host,
        pairs.url,
        pairs.round,
        pairs.cause,
        pairs.started_at,
        pairs.previous_url,
        pairs.previous_ended_at,
        pairs.previous_took_s,
        pairs.previous_troubles,
        pairs.policy_id,
        answers.body as robots_body
    from pairs
    asof left join answers on pairs.host = answers.host and pairs.started_at >= answers.fetched_at
),

delays as (
    select body, agent, robots_delay_s(body, agent) as delay_s
    from (select distinct robots_body as body, agent from governed join terms using (host, policy_id))
)

select
    governed.bucket,
    governed.host,
    governed.round,
    governed.cause,
    governed.url,
    governed.started_at,
    governed.previous_url,
    governed.previous_ended_at,
    (epoch_us(governed.started_at) - epoch_us(governed.previous_ended_at)) / 1e6 as waited_s,
    greatest(
        terms.delay_s,
        least(terms.download_factor * governed.previous_took_s, terms.download_gap_cap_s),
        least(coalesce(delays.delay_s, 0), terms.crawl_delay_cap_s)
    ) + case
        when governed.previous_troubles > 0
            then least(terms.backoff_first_s * pow(2, least(governed.previous_troubles, 60) - 1), terms.backoff_cap_s)
        else 0
    end as owed_s
from governed
left join terms on governed.host = terms.host and governed.policy_id = terms.policy_id
left join delays on governed.robots_body = delays.body and terms.agent = delays.agent
where governed.previous_ended_at is not null
"""

RESTS_COLUMNS = {
    "bucket": "host bucket",
    "host": "host name",
    "round": "the round of the later request",
    "cause": "why the later request was sent",
    "url": "what it asked for",
    "started_at": "when it started [UTC]",
    "previous_url": "what the request before it asked for",
    "previous_ended_at": "when that ended [UTC]",
    "waited_s": "how long the host rested; negative if the two overlap [s]",
    "owed_s": "how long it was owed, Retry-After apart; null if the policy is not kept [s]",
}
