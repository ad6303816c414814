-- What each round selected, what became of it, and how fast it went.
-- tables: rounds
--   round: number of the round, over all buckets
--   started_at: when the first of its buckets began [UTC]
--   bucket_count: buckets that took part
--   selected_count: URLs on its fetch lists
--   outcomes: what became of them, the most frequent first
--   request_count: requests sent, whatever their cause
--   page_count: pages stored
--   admitted_count: links that became known URLs
--   fetch_s: the longest time that one of its buckets asked hosts [s]
--   pages_per_s: pages stored in a second of that time
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
