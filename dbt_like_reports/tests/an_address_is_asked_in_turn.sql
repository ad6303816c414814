-- From one start to the next at an address lies the gap of the policy, whatever hosts are asked there and by whom.
-- tables: fetches, orders
with asked as (
    select
        address,
        host,
        url,
        round,
        request_id,
        started_at,
        ended_at,
        first_byte_s,
        worker is null as by_server,
        coalesce(worker, '') as worker,
        terms.address_gap_s
    from fetches
    join terms using (host, policy_id)
    where address is not null
),

-- A request waits for its turn by the policy that its worker had then, and is noted under that of its end: the shorter
-- gap of that and of the worker's last request to end before is what it surely waited for.
waited as (
    select
        asked.address,
        asked.host,
        asked.url,
        asked.round,
        asked.request_id,
        asked.started_at,
        asked.ended_at,
        asked.first_byte_s,
        asked.by_server,
        least(asked.address_gap_s, coalesce(settled.address_gap_s, asked.address_gap_s)) as gap_s
    from asked
    asof left join asked as settled on asked.worker = settled.worker and asked.started_at >= settled.ended_at
),

-- A server sees a request when it has come, and how long it was on its way is not known; but our first byte came back
-- later. Without that the pair is not judged.
pairs as (
    select
        address,
        host,
        url,
        round,
        started_at,
        gap_s,
        case
            when not by_server then 0
            when first_byte_s is null or lag(first_byte_s) over earlier is null then gap_s
            else greatest(first_byte_s, lag(first_byte_s) over earlier)
        end as late_s,
        lag(host) over earlier as previous_host,
        lag(url) over earlier as previous_url,
        lag(started_at) over earlier as previous_started_at,
        lag(ended_at) over earlier as previous_ended_at,
        lag(gap_s) over earlier as previous_gap_s
    from waited
    window earlier as (partition by address order by started_at, request_id)
)

select
    address,
    previous_host,
    previous_url,
    previous_started_at,
    host,
    url,
    round,
    started_at,
    gap_s
from pairs
where
    -- Slots of workers that do not agree on the gap may meet.
    previous_gap_s = gap_s
    and (epoch_us(started_at) - epoch_us(previous_started_at)) / 1e6 < gap_s - late_s - 0.003
    -- A host that is asked twice at once is found as such.
    and not (host = previous_host and started_at < previous_ended_at)
order by address, started_at
