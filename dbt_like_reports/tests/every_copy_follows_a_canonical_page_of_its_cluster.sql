-- Every page of a cluster follows one canonical page, which is in the cluster and follows itself.
-- tables: clusters
select
    page.url,
    page.cluster_id,
    page.canonical
from clusters as page
left join clusters as canonical
    on page.canonical = canonical.url
    and page.cluster_id = canonical.cluster_id
    and canonical.canonical = canonical.url
where page.canonical is not null and canonical.url is null
order by page.url
