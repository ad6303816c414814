-- Every stored page has the content that it names: its body, its text, and no others.
-- tables: pages, contents
with found as (
    select round as content_round, body_hash, charset, body_bytes, count(*) as copies
    from contents
    group by all
)

select stored.bucket, stored.round, stored.url, stored.content_round, found.copies, found.body_bytes
from pages as stored
left join found using (content_round, body_hash, charset)
where stored.content_round is not null
    and (found.copies is distinct from 1 or found.body_bytes is distinct from stored.body_bytes)
order by stored.round, stored.url
