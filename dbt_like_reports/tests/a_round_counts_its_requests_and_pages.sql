-- The requests and pages a round counted are the rows that it wrote, or more where some were erased since.
-- tables: rounds, fetches, pages, erasures
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

erased as (
    select
        max(until_at) filter (table_name = 'fetches') as requests_until_at,
        max(until_at) filter (table_name = 'pages') as pages_until_at
    from erasures
),

counted as (
    select
        bucket,
        round,
        request_count,
        coalesce(request_rows, 0) as request_rows,
        page_count,
        coalesce(page_rows, 0) as page_rows,
        coalesce(ended_at < requests_until_at, false) as requests_erased,
        coalesce(ended_at < pages_until_at, false) as pages_erased
    from rounds
    cross join erased
    left join requests using (bucket, round)
    left join stored using (bucket, round)
)

select bucket, round, request_count, request_rows, page_count, page_rows
from counted
where case when requests_erased then request_count < request_rows else request_count is distinct from request_rows end
    or case when pages_erased then page_count < page_rows else page_count is distinct from page_rows end
order by round, bucket
