-- Nothing is asked of a host under a policy that blocks it, or its site.
-- tables: fetches, orders
with policies as (
    select policy_id, policy_toml
    from orders
    where kind = 'policy'
),

lists as (
    select policy_id, 'host' as unit, regexp_extract(policy_toml, '(?s)\[block\].{0,}?\nhosts = \[([^\n]{0,})\]', 1) as names
    from policies
    union all
    select policy_id, 'site' as unit, regexp_extract(policy_toml, '(?s)\[block\].{0,}?\nsites = \[([^\n]{0,})\]', 1) as names
    from policies
),

blocked as (
    select policy_id, unit, trim(unnest(string_split(names, ', ')), '"') as name
    from lists
    where names <> ''
)

select fetches.host, fetches.round, fetches.url, fetches.cause, fetches.started_at, blocked.unit, blocked.name
from fetches
inner join blocked
    on fetches.policy_id = blocked.policy_id
    and (fetches.host = blocked.name or (blocked.unit = 'site' and ends_with(fetches.host, '.' || blocked.name)))
order by fetches.host, fetches.started_at
