-- A request starts no sooner after the one before it at the same host than was promised then, within 1 ms.
-- tables: fetches
with asked as (
    select
        host,
        url,
        round,
        started_at,
        lag(url) over earlier as previous_url,
        lag(ended_at) over earlier as previous_ended_at,
        lag(gap_s) over earlier as promised_s
    from fetches
    window earlier as (partition by host order by started_at, request_id)
),

waits as (
    select
        host,
        url,
        round,
        started_at,
        previous_url,
        previous_ended_at,
        promised_s,
        (epoch_us(started_at) - epoch_us(previous_ended_at)) / 1e6 as waited_s
    from asked
)

select host, previous_url, previous_ended_at, url, round, started_at, promised_s, waited_s
from waits
where waited_s < promised_s - 0.001
order by host, started_at
