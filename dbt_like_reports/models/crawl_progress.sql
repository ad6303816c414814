-- What each round selected, what became of it, and how fast it went.
-- tables: rounds
with rounds_in_all as (
    select
        round,
        count(*) as bucket_count,
        min(started_at) as started_at,
        sum(selected_count)::bigint as selected_count,
        sum(request_count)::bigint as request_count,
        sum(page_count)::bigint as page_count,
        sum(admitted_count)::bigint as admitted_count,
        max(fetch_s) as fetch_s
    from rounds
    group by round
),

tallies as (
    select round, unnest(outcomes) as tally
    from rounds
),

by_outcome as (
    select round, tally.name as outcome, sum(tally.count)::bigint as url_count
    from tallies
    group by round, tally.name
),

outcomes_in_words as (
    select round, string_agg(outcome || ' ' || url_count, ', ' order by url_count desc, outcome) as outcomes
    from by_outcome
    where url_count > 0
    group by round
)

select
    round,
    started_at,
    bucket_count,
    selected_count,
    coalesce(outcomes, 'nothing selected') as outcomes,
    request_count,
    page_count,
    admitted_count,
    fetch_s,
    page_count / nullif(fetch_s, 0) as pages_per_s
from rounds_in_all
left join outcomes_in_words using (round)
order by round
