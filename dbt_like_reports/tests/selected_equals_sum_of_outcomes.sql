-- In every round of every bucket, each selected URL has exactly one outcome: selected = sum of outcomes.
-- tables: rounds
with sums as (
    select
        bucket,
        round,
        selected_count,
        coalesce(list_sum([tally.count for tally in outcomes]), 0)::bigint as outcome_count
    from rounds
)

select bucket, round, selected_count, outcome_count
from sums
where selected_count is distinct from outcome_count
order by round, bucket
