-- Hosts that are not asked as they might be, why, and until when.
-- tables: hosts
--   reason: the first that holds of: paused, robots.txt forbids everything, put aside, backing off, failing
--   until_at: when the host may be asked again; null until somebody says so
--   waiting_count: known URLs of the host that are not fetched yet
with judged as (
    select
        host,
        case
            when paused then 'paused by an order'
            when len([r for r in robots if r.expires_at > as_of() and r.state = 'disallow_all']) > 0
                and len([r for r in robots if r.expires_at > as_of() and r.state <> 'disallow_all']) = 0
                then 'robots.txt unreachable or not to be read'
            when aside_s > 0 then 'put aside after failures'
            when backoff_s > 0 then 'backing off'
            when failures > 0 then 'failing'
        end as reason,
        paused,
        next_allowed_at,
        list_min([r.expires_at for r in robots if r.expires_at > as_of()]) as robots_at,
        failures,
        backoff_s,
        aside_s,
        greatest(known_count - coalesce(fetched_count, 0), 0) as waiting_count
    from hosts
)

select
    host,
    reason,
    case
        when paused then null
        when reason like 'robots%' then robots_at
        else next_allowed_at
    end as until_at,
    failures as failure_count,
    backoff_s,
    aside_s,
    waiting_count
from judged
where reason is not null
order by waiting_count desc, host
