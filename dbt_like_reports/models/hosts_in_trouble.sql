-- Hosts that are not asked as they might be, why, and until when.
-- tables: hosts, frontier
--   host: name of the host
--   reason: the first that holds of: paused, robots.txt forbids everything, put aside, backing off, failing
--   until_at: when the host may be asked again; null until somebody says so, or if it may be asked now [UTC]
--   failure_count: failures in a row
--   backoff_s: part of the gap after a request that trouble added [s]
--   aside_s: for how long it was put aside at last [s]
--   waiting_count: URLs of the host that wait to be fetched for the first time, or again after trouble
with waiting as (
    select host, count(*) as waiting_count
    from frontier
    where status = 'waiting'
    group by host
),

judged as (
    select
        host,
        coalesce(paused, false) as is_paused,
        next_allowed_at,
        next_allowed_at > as_of() as is_waited_for,
        list_min([r.expires_at for r in robots if r.expires_at > as_of()]) as robots_at,
        len([r for r in robots if r.expires_at > as_of() and r.state = 'disallow_all']) > 0
        and len([r for r in robots if r.expires_at > as_of() and r.state <> 'disallow_all']) = 0 as is_closed,
        coalesce(failures, 0) as failure_count,
        coalesce(backoff_s, 0) as backoff_s,
        coalesce(aside_s, 0) as aside_s,
        coalesce(waiting_count, 0) as waiting_count,
        case
            when is_paused then 'paused by an order'
            when is_closed then 'robots.txt unreachable or not to be read'
            when aside_s > 0 and is_waited_for then 'put aside after failures'
            when backoff_s > 0 and is_waited_for then 'backing off'
            when failure_count > 0 then 'failing'
        end as reason
    from hosts
    left join waiting using (host)
)

select
    host,
    reason,
    case
        when is_paused then null
        when is_closed then robots_at
        when is_waited_for then next_allowed_at
    end as until_at,
    failure_count,
    backoff_s,
    aside_s,
    waiting_count
from judged
where reason is not null
order by waiting_count desc, host
