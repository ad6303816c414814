-- Nothing is asked of a host within the Retry-After of any answer before, up to the policy's cap.
-- tables: fetches, orders
with asked_for as (
    select
        fetches.host,
        fetches.url,
        fetches.request_id,
        fetches.ended_at,
        fetches.ended_at + to_microseconds((least(fetches.retry_after_s, terms.retry_after_cap_s) * 1e6)::bigint)
            as until_at
    from fetches
    join terms using (host, policy_id)
    where fetches.retry_after_s > 0
)

select
    fetches.host,
    fetches.url,
    fetches.round,
    fetches.started_at,
    asked_for.url as answered_url,
    asked_for.ended_at as answered_at,
    asked_for.until_at
from fetches
join asked_for
    on fetches.host = asked_for.host
    and fetches.request_id <> asked_for.request_id
    and fetches.started_at >= asked_for.ended_at
    and fetches.started_at < asked_for.until_at - interval 1 millisecond
order by fetches.host, fetches.started_at
