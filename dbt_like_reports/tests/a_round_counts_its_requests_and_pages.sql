-- The requests and pages a round counted are the rows that it wrote, those of forgotten URLs among them.
-- tables: rounds, fetches, pages
with requests as (
    select bucket, round, count(*) as request_rows
    from fetches
    group by bucket, round
),

stored as (
    select bucket, round, count(*) as page_rows
    from snapshot.stored_pages
    group by bucket, round
),

counted as (
    select
        bucket,
        round,
        request_count,
        coalesce(request_rows, 0) as request_rows,
        page_count,
        coalesce(page_rows, 0) as page_rows
    from rounds
    left join requests using (bucket, round)
    left join stored using (bucket, round)
)

select bucket, round, request_count, request_rows, page_count, page_rows
from counted
where request_count is distinct from request_rows or page_count is distinct from page_rows
order by round, bucket
