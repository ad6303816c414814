-- Which pages are the same or nearly the same, cluster by cluster, the largest first.
-- tables: clusters
--   canonical: URL of the page that counts for all of the cluster
--   page_count: pages of the cluster, the canonical one too
--   host_count: hosts of these pages
--   same_text_count: copies with the very same main text as the text that the cluster stands for
--   near_text_count: copies with nearly the same
--   least_similarity: the least likeness of a page, an estimated Jaccard index
--   example: one of the copies
with members as (
    select
        cluster_id,
        canonical,
        url,
        host,
        similarity,
        url <> canonical as is_copy,
        reason = 'same text' as has_same_text
    from clusters
    where canonical is not null
)

select
    canonical,
    count(*) as page_count,
    count(distinct host) as host_count,
    count(*) filter (where is_copy and has_same_text) as same_text_count,
    count(*) filter (where is_copy and not has_same_text) as near_text_count,
    min(similarity) as least_similarity,
    min(url) filter (where is_copy) as example
from members
group by cluster_id, canonical
order by page_count desc, canonical
