-- Every link a round read from the log was admitted or refused for a reason.
-- tables: rounds
with sums as (
    select
        bucket,
        round,
        links_read_count,
        admitted_count,
        coalesce(list_sum([tally.count for tally in refused]), 0)::bigint as refused_count
    from rounds
)

select bucket, round, links_read_count, admitted_count, refused_count
from sums
where links_read_count is distinct from admitted_count + refused_count
order by round, bucket
