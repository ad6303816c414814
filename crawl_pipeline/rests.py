"""How long hosts rested, and how long they were owed: SQL text for two views, which the audit of politeness stands on.

`terms` says what a policy promised a host, from the policy's text as it was kept. `rests` says, for each request but a
host's first, how long the host had rested, and how long it was owed: computed anew from terms, robots.txt and the
answers before, never read from what the crawl noted (`fetches.gap_s`). What cannot be proved from the log is left out
of what was owed: the invariant is that no kept promise looks broken. A run of trouble is counted from the last answer
without trouble, robots.txt or change of policy: how much trouble there was before is not known, only that it may have
been, so that a host may have been put aside sooner than the run alone would have it.
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
    promise.aside_after,
    promise.aside_first_s,
    promise.aside_cap_s,
    promise.address_gap_s,
    promise.fetches_per_day,
    promise.fetches_per_site_day
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
    "aside_after": "failures in a row after which the host is put aside",
    "aside_first_s": "first time that it is put aside for; doubles with each failure [s]",
    "aside_cap_s": "most that it is put aside for [s]",
    "address_gap_s": "from one start to the next at an address [s]",
    "fetches_per_day": "pages that may be asked for in a UTC day",
    "fetches_per_site_day": "pages that may be asked for of all hosts of its site in a UTC day",
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
        outcome = 'throttled' as throttled,
        outcome in (
            'throttled', 'unavailable', 'protocol_error', 'timeout', 'connect_error', 'dns_error', 'tls_error'
        )
        -- An answer that began and did not end in time tells of its page: the host rests by the time it took.
        and not (outcome = 'timeout' and http_status is not null) as trouble,
        -- What ends a run of trouble: an answer; and what may have begun with a pace of its own or by other numbers.
        outcome not in (
            'throttled', 'unavailable', 'protocol_error', 'timeout', 'connect_error', 'dns_error', 'tls_error',
            'carried'
        )
        or cause = 'robots'
        or policy_id is distinct from lag(policy_id) over (partition by host order by started_at, request_id) as fresh
    from fetches
),

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
        count(*) filter (fresh) over so_far as run
    from asked
    window so_far as (
        partition by host order by started_at, request_id rows between unbounded preceding and current row
    )
),

told as (
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
        run,
        trouble and not throttled as failed,
        min(ended_at) filter (trouble) over so_far as troubled_at,
        count(*) filter (trouble) over so_far as troubles,
        count(*) filter (throttled) over so_far as throttles
    from runs
    window so_far as (
        partition by host, run order by started_at, request_id rows between unbounded preceding and current row
    )
),

-- Failures: other trouble since the host last said 429.
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
        troubled_at,
        troubles,
        throttles,
        count(*) filter (failed) over (
            partition by host, run, throttles
            order by started_at, request_id
            rows between unbounded preceding and current row
        ) as failures
    from told
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
        lag(epoch_us(ended_at) - epoch_us(troubled_at)) over earlier / 1e6 as failing_s,
        lag(troubles) over earlier as troubles,
        lag(throttles) over earlier as throttles,
        lag(failures) over earlier as failures,
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
        pairs.failing_s,
        pairs.troubles,
        pairs.throttles,
        pairs.failures,
        pairs.policy_id,
        answers.body as robots_body
    from pairs
    asof left join answers on pairs.host = answers.host and pairs.started_at >= answers.fetched_at
),

delays as (
    select body, agent, robots_delay_s(body, agent) as delay_s
    from (select distinct robots_body as body, agent from governed join terms using (host, policy_id))
),

-- Of each reason to wait, as much as is certain. Every 429 of a run has doubled the back-off, and nothing has halved
-- it. The last failures have doubled it too, if they were not enough to put the host aside. How often it has been put
-- aside before is not certain.
reasons as (
    select
        governed.bucket,
        governed.host,
        governed.round,
        governed.cause,
        governed.url,
        governed.started_at,
        governed.previous_url,
        governed.previous_ended_at,
        governed.failures,
        governed.troubles >= terms.aside_after and governed.failing_s >= terms.aside_first_s as surely_aside,
        case
            when terms.delay_s is not null
                then greatest(
                    terms.delay_s,
                    least(terms.download_factor * governed.previous_took_s, terms.download_gap_cap_s),
                    least(coalesce(delays.delay_s, 0), terms.crawl_delay_cap_s)
                )
        end as gap_s,
        doubled(terms.backoff_first_s, governed.throttles, terms.backoff_cap_s) as backoff_s,
        doubled(
            terms.backoff_first_s, governed.throttles + governed.failures, terms.backoff_cap_s
        ) as longer_backoff_s,
        least(terms.aside_first_s, terms.aside_cap_s) as aside_s
    from governed
    left join terms on governed.host = terms.host and governed.policy_id = terms.policy_id
    left join delays on governed.robots_body = delays.body and terms.agent = delays.agent
    where governed.previous_ended_at is not null
)

select
    bucket,
    host,
    round,
    cause,
    url,
    started_at,
    previous_url,
    previous_ended_at,
    (epoch_us(started_at) - epoch_us(previous_ended_at)) / 1e6 as waited_s,
    case
        when gap_s is null then null
        when failures = 0 then gap_s + backoff_s
        when surely_aside then greatest(gap_s, aside_s) + backoff_s
        else least(gap_s + longer_backoff_s, greatest(gap_s, aside_s) + backoff_s)
    end as owed_s
from reasons
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
