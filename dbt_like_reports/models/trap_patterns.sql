-- What is held for traps on each host, and what share of its judged pages the patterns in question took.
-- tables: patterns
--   host: name of the host
--   pattern_count: its URL patterns that are kept
--   throttled_patterns: of these, drawn with a tenth of the weight
--   blocked_patterns: of these, left out but for a probe
--   released_patterns: of these, released by a person
--   judged_count: its pages that were judged, each at its first visit
--   judged_of_held: of these, of patterns that are throttled or blocked
--   worthless_of_held: of these, copies, nearly copies, thin pages and pages that say not found
--   known_count: known URLs of its patterns
--   known_of_held: of these, of patterns that are throttled or blocked
--   held_since: when the first of these patterns began to be held [UTC]
with judged as (
    select
        host,
        action,
        released_at,
        acted_at,
        known_count,
        trial_count,
        exact_count + near_count + thin_count + soft404_count as worthless_count,
        action in ('throttled', 'blocked') as held
    from patterns
)

select
    host,
    count(*) as pattern_count,
    count(*) filter (action = 'throttled') as throttled_patterns,
    count(*) filter (action = 'blocked') as blocked_patterns,
    count(*) filter (released_at is not null) as released_patterns,
    sum(trial_count)::bigint as judged_count,
    coalesce(sum(trial_count) filter (held), 0)::bigint as judged_of_held,
    coalesce(sum(worthless_count) filter (held), 0)::bigint as worthless_of_held,
    sum(known_count)::bigint as known_count,
    coalesce(sum(known_count) filter (held), 0)::bigint as known_of_held,
    min(acted_at) filter (held) as held_since
from judged
group by host
having count(*) filter (held or released_at is not null) > 0
order by blocked_patterns desc, known_of_held desc, host
