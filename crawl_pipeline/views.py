"""Views that answer a question over several tables: what is not fetched and why, how long hosts rested, seed lists.

SQL text only; `corpus` puts it on top of its views of the tables. Words for outcomes are those of core.outcome. What
SQL cannot judge, the rule by which admission refused a link, is left to `crawl explain`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from crawl_pipeline import overviews, rests
from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.tables import COLUMNS, PAGES


@dataclass(frozen=True, slots=True)
class View:
    """One view: what a row is, what each column means, and the select that makes it."""

    name: str
    one_row_is: str
    columns: Mapping[str, str]
    sql: str


_SAYS = " ".join(
    f"when '{name}' then '{meaning.says.replace(chr(39), chr(39) * 2)}'" for name, meaning in OUTCOMES.items()
)

_UNFETCHED = f"""
with last as (
    select bucket, max_by(links_seen, round) as links_seen from rounds group by bucket
),
open as (
    select f.*, h.paused, h.backoff_s, h.next_allowed_at,
        {overviews.ROBOTS_AT} as robots_at, {overviews.CLOSED} as closed,
        case f.outcome {_SAYS} end || coalesce(' (' || f.reason || ')', '') as says
    from frontier f left join hosts h on h.bucket = f.bucket and h.host = f.host
    where not (f.status = 'fetched' and f.kind <> 'sitemap')
      and not exists (from pages p where p.url_hash = f.url_hash)  -- in whatever bucket it was stored
),
known as (
    select bucket, host, url, url_hash, status,
        case
            when status = 'fetched' then 'a sitemap: read for its links, not stored'
            when status = 'orphan' and kind = 'sitemap' then 'a sitemap that is no longer named: not read any more'
            when status = 'parked' then 'parked: ' || open.reason
            when status not in ('waiting', 'refused', 'redirected', 'unfit', 'gone', 'dead') then status
            when status = 'dead' and attempts > 0 then 'dead: failed ' || attempts || ' times, at last: ' || says
            when status <> 'waiting' then status || ': ' || says
            when paused then 'host paused'
            when outcome = 'robots_unreachable' or closed then 'robots.txt unreachable'
            when attempts > 0 then 'failed ' || attempts || case attempts when 1 then ' time' else ' times' end
                || ', at last: ' || says
            when backoff_s > 0 and next_allowed_at > as_of() then 'host backing off'
            when next_allowed_at > as_of() then 'host waits'
            when outcome is null then 'waits for its first turn'
            else 'waits for its turn: ' || says
        end as reason,
        found_at, round, attempts, outcome,
        case
            when status <> 'waiting' or attempts > 0 or outcome = 'robots_unreachable' then due_at
            when paused then null
            when closed then robots_at
            when next_allowed_at > as_of() then next_allowed_at
            else due_at
        end as until_at
    from open
),
found as (
    select target_bucket as bucket, host, url_hash, any_value(url) as url,
        bool_or(round <= coalesce(s.links_seen[source_bucket + 1], 0)) as looked_at,
        min_by(source_bucket, round) as source, min(round) as round
    from links left join last s on s.bucket = target_bucket
    group by target_bucket, host, url_hash
),
strange as (
    select l.* from found l
    where not exists (from frontier f where f.bucket = l.bucket and f.host = l.host and f.url_hash = l.url_hash)
)
select k.bucket, k.host, k.url, true as known, k.status, k.reason,
    case when k.outcome is null then k.found_at else coalesce(r.ended_at, k.found_at) end as since_at, k.until_at
from known k left join rounds r on r.bucket = k.bucket and r.round = k.round
union all
select l.bucket, l.host, l.url, false, null,
    case when looked_at then 'refused at admission' else 'waits to be admitted' end, r.ended_at, null
from strange l left join rounds r on r.bucket = l.source and r.round = l.round
"""

_SEED_LISTS = """
with given as (
    select tag, max(topic) as topic, max(region) as region, max(band) as band, count(distinct url) as seeds
    from orders where kind = 'seed' and tag is not null group by tag
),
stored as (
    select tag, count(distinct url_hash) as pages from pages where tag is not null group by tag
)
select tag, topic, region, coalesce(band, 1) as band, seeds, coalesce(pages, 0) as pages
from given left join stored using (tag)
"""

_DOCUMENTS = """
select p.*, c.body, c.text,
    case when coalesce(len(p.removed_blocks), 0) = 0 then c.text else array_to_string(list_filter(
        string_split(c.text, chr(10)), lambda line, n: not list_contains(p.removed_blocks, n::integer)), chr(10))
    end as main_text
from pages p left join contents c
    on c.round = p.content_round and c.body_hash = p.body_hash and c.charset = p.charset
"""

# A page may be stored many times over the rounds; what it is a copy of is the first page that brought the content.
_COPIES = """
with first as (
    select content_round, body_hash, charset,
        min_by(url, (round, url)) as url, min_by(url_hash, (round, url)) as url_hash
    from pages where content_round is not null group by all
)
select p.bucket, p.round, p.host, p.url, p.url_hash, p.fetched_at, f.url as copy_of, p.content_round, p.body_hash,
    p.body_bytes
from pages p join first f using (content_round, body_hash, charset)
where p.url_hash <> f.url_hash
"""

_TRAPS = """
with waiting as (
    select host, count(*) filter (status = 'waiting') as waiting from frontier group by host
)
select p.bucket, p.host, p.pattern, p.action, p.acted_at, p.probe_at, p.trap_score as score,
    p.known_count as known, p.trial_count as judged,
    p.exact_count + p.near_count + p.thin_count + p.soft404_count + coalesce(p.failed_count, 0) as worthless,
    p.exact_count as exact, p.near_count as near, p.thin_count as thin, p.soft404_count as soft404,
    coalesce(p.failed_count, 0) as failed,
    coalesce(p.own_link_count / nullif(p.out_link_count, 0), 0) as own_link_share,
    coalesce(p.step_link_count / nullif(p.out_link_count, 0), 0) as step_link_share,
    p.new_url_count as new_urls, coalesce(len(p.linked_from), 0) as linking_sites, p.listed, p.examples, p.released_at,
    coalesce(w.waiting, 0) as waiting_on_host
from patterns p left join waiting w using (host)
where p.action in ('throttled', 'blocked', 'dropped') or p.released_at is not null
"""

_SOFT_404S = """
select p.bucket, p.round, p.host, p.url, p.url_hash, p.fetched_at, p.title, a.probed_url, a.acted_at as probed_at
from pages p join (
    select host, min_by(probed_url, acted_at) as probed_url, min(acted_at) as acted_at
    from patterns where answer in ('page', 'redirect') group by host
) a using (host)
where p.soft404
"""

_PAGE_RANKS = """
select r.page_rank as rank, f.url, f.host, f.status, f.score, f.band, h.linking_site_count as linking_sites,
    f.visited_at, r.url_hash, r.ranking
from ranks r join frontier f on f.url_hash = r.url_hash left join host_ranks h on h.host = f.host
"""

_DUPLICATES = """
select url, canonical, reason, similarity, host, since_at, cluster_id, url_hash
from clusters where canonical <> url
"""

VIEWS = (
    View(
        "unfetched", "a URL without a stored page, known or only linked to, and why", {
            "bucket": "host bucket of the URL",
            "host": "host name of the URL",
            "url": "canonical URL",
            "known": "it has a frontier row; false: admission refused its links, or has not read them yet",
            "status": "frontier state of the URL; null if it is not known",
            "reason": "why there is no page, in words; the rule that refused a link is told by `crawl explain`",
            "since_at": "when it was found; if it was asked for, the end of the round it got its state in [UTC]",
            "until_at": "the next try, the host's turn, robots.txt read again; null: not by itself [UTC]",
        }, _UNFETCHED,
    ),
    View(
        "documents", "a stored page with its body and text", {
            **{name: COLUMNS[name].meaning for name in PAGES.column_names},
            "body": COLUMNS["body"].meaning,
            "text": COLUMNS["text"].meaning,
            "main_text": "the text without its removed blocks: what fingerprints are made of",
        }, _DOCUMENTS,
    ),
    View(
        "copies", "a stored page whose content another URL had brought: nothing was stored again but its row", {
            "bucket": COLUMNS["bucket"].meaning,
            "round": COLUMNS["round"].meaning,
            "host": COLUMNS["host"].meaning,
            "url": COLUMNS["url"].meaning,
            "url_hash": COLUMNS["url_hash"].meaning,
            "fetched_at": COLUMNS["fetched_at"].meaning,
            "copy_of": "the URL that brought the content",
            "content_round": COLUMNS["content_round"].meaning,
            "body_hash": COLUMNS["body_hash"].meaning,
            "body_bytes": "what it would have cost to store it again, before compression [bytes]",
        }, _COPIES,
    ),
    View(
        "duplicates", "a page that is the same as another one, or nearly", {
            "url": "canonical URL of the page",
            "canonical": "URL of the page that counts for all of its cluster",
            "reason": "same text, or nearly the same text, as the canonical page",
            "similarity": "likeness, an estimated Jaccard index, of its text and the one that represents the cluster",
            "host": "host name of the URL",
            "since_at": "when the page came to have this canonical page [UTC]",
            "cluster_id": "hash of the text that represents the cluster; join it with clusters.cluster_id",
            "url_hash": "hash64 of the URL; join it with pages.url_hash, frontier.url_hash",
        }, _DUPLICATES,
    ),
    View(
        "page_ranks", "a known URL that a link counts for, with its rank", {
            "rank": COLUMNS["page_rank"].meaning,
            "url": "canonical URL",
            "host": "host name of the URL",
            "status": "frontier state of the URL",
            "score": "priority within 0 and 1 when the URL was last selected, or admitted",
            "band": "priority class of that score",
            "linking_sites": "other sites that link to its host",
            "visited_at": COLUMNS["visited_at"].meaning,
            "url_hash": "hash64 of the URL; join it with pages.url_hash, links.url_hash",
            "ranking": COLUMNS["ranking"].meaning,
        }, _PAGE_RANKS,
    ),
    View(
        "page_meta", "a URL with a stored page: what is known of it in short",
        overviews.PAGE_META_COLUMNS, overviews.PAGE_META,
    ),
    View(
        "freshness", "a stored page that its last visit still found: how fresh it is believed to be",
        overviews.FRESHNESS_COLUMNS, overviews.FRESHNESS,
    ),
    View("terms", "what one policy promised one host that was asked under it", rests.TERMS_COLUMNS, rests.TERMS),
    View("rests", "the rest of a host between two requests", rests.RESTS_COLUMNS, rests.RESTS),
    View("hosts_now", "a host and how it stands now", overviews.HOSTS_NOW_COLUMNS, overviews.HOSTS_NOW),
    View(
        "traps", "a URL pattern that is throttled or blocked, a parameter that is dropped, or what a person released", {
            "bucket": "host bucket of the host",
            "host": "host name of its URLs",
            "pattern": "the pattern, or ? and a parameter; `crawl release HOSTPATTERN`, both as they stand here, takes "
                       "the action back",
            "action": "throttled: drawn with a tenth of the weight; blocked: all but a probe is left out; dropped: "
                      "URLs are known without the parameter",
            "acted_at": "when that began [UTC]",
            "probe_at": "when another share is let through, to look again; null: not blocked [UTC]",
            "score": "of the sequential test, without what links and names add to it",
            "known": "its known URLs",
            "judged": "its pages that were judged, each at its first visit; of a parameter: pairs of pages",
            "worthless": "of these, worthless; of a parameter: equal",
            "exact": "of these, with the same main text as an earlier page of the host; of a parameter: equal",
            "near": "of these, near-duplicates of one",
            "thin": "of these, with next to no text",
            "soft404": "of these, the host's way to say not found",
            "failed": "of these, URLs whose answer began, and came too slowly, too long or wrongly",
            "own_link_share": "share of the links of its pages that lead to the same pattern",
            "step_link_share": "share of them that lead to the page's own URL with other numbers",
            "new_urls": "URLs that became known through its pages",
            "linking_sites": "other sites that link to it, as far as they are kept: from traps.linking_sites on it is "
                             "never blocked",
            "listed": "a sitemap names a URL of it: then it is never blocked",
            "examples": "latest pages that were judged worthless, and why",
            "released_at": "when a person released it [UTC]",
            "waiting_on_host": "URLs of the host that wait, of all patterns",
        }, _TRAPS,
    ),
    View(
        "soft_404s", "a stored page that is what its host shows for URLs that do not exist", {
            "bucket": "host bucket the page was stored in",
            "round": "round that stored it",
            "host": "host name of its URL",
            "url": "its URL",
            "url_hash": "hash64 of the URL; join it with pages.url_hash, frontier.url_hash",
            "fetched_at": "when the fetch ended [UTC]",
            "title": "its title",
            "probed_url": "the first URL that nobody can have made that the host answered so",
            "probed_at": "when it did [UTC]",
        }, _SOFT_404S,
    ),
    View(
        "seed_lists", "one tag: what its seed list is, and what came of it", {
            "tag": "name of the seed list; join it with pages.tag, frontier.tag",
            "topic": "what the list is about",
            "region": "where its hosts are",
            "band": "priority class at which its pages start",
            "seeds": "URLs that people gave under the tag",
            "pages": "URLs with a stored page that were found through it",
        }, _SEED_LISTS,
    ),
)  # fmt: skip
