-- What each host costs for a page that is worth keeping: requests, bytes, and seconds of its patience.
-- tables: fetches, pages, clusters
--   host: `all hosts` is the first row
--   request_count: requests sent to it, whatever their cause
--   useful_count: stored pages with a text of their own: no copies, not thin, no error page in disguise
--   requests_per_useful: of all kinds, robots.txt and sitemaps too
--   bytes_per_useful: body bytes as they came, for each useful page [bytes]
--   patience_s_per_useful: time for which a request ran or the host rested after it [s]
with spent as (
    select
        host,
        count(*) as request_count,
        coalesce(sum(wire_bytes), 0)::bigint as wire_bytes,
        sum(epoch_us(ended_at) - epoch_us(started_at)) / 1e6 + coalesce(sum(gap_s), 0) as patience_s
    from fetches
    group by host
),

useful as (
    select host, count(distinct url_hash) as useful_count
    from pages
    where not coalesce(thin, false)
        and not coalesce(soft404, false)
        and url_hash not in (select url_hash from clusters where canonical is not null and url <> canonical)
    group by host
)

select
    coalesce(host, 'all hosts') as host,
    sum(request_count)::bigint as request_count,
    coalesce(sum(useful_count), 0)::bigint as useful_count,
    sum(request_count) / nullif(sum(useful_count), 0) as requests_per_useful,
    sum(wire_bytes) / nullif(sum(useful_count), 0) as bytes_per_useful,
    sum(patience_s) / nullif(sum(useful_count), 0) as patience_s_per_useful
from spent
left join useful using (host)
group by grouping sets ((host), ())
having count(*) > 0
order by grouping(host) desc, requests_per_useful desc nulls first, host
