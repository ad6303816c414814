-- A host that a person paused is not asked from the round on that read the order, until one reads that it is resumed.
-- tables: fetches, rounds, orders
with told as (
    select host, kind, "order" as number
    from orders
    where kind in ('pause', 'resume')
),

known as (
    select
        fetches.host,
        fetches.url,
        fetches.round,
        fetches.started_at,
        arg_max(told.kind, told.number) as last_kind,
        max(told.number) as last_order
    from fetches
    join rounds
        on fetches.bucket = rounds.bucket
        and fetches.round = rounds.round
        -- Until the round was planned, the list of the one before went on.
        and epoch_us(fetches.started_at) > epoch_us(rounds.started_at) + rounds.plan_s * 1e6
    join told on fetches.host = told.host and told.number <= rounds.orders_seen
    group by fetches.host, fetches.url, fetches.round, fetches.started_at, fetches.request_id
)

select host, url, round, started_at, last_order
from known
where last_kind = 'pause'
order by host, started_at
