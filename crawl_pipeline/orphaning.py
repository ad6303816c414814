"""Find pages that no page links to any more, and orphans that are linked to again; a round of its own says so.

Part of maintenance: under its lease, before state is folded. The rule is core.orphans'; this reads and writes. A round
is written only if a page has changed its state; it selects nothing, and hands on the cursors of the round before.

Bounds: bucket by bucket. Of a bucket the candidates' hashes and its sources' hashes are held, never rows of links or
pages: those are streamed, five columns of the links to the bucket and two of `pages` and `fetches`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline.core import orphans, robots, urls
from crawl_pipeline.core.outcome import ORPHAN
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER, ROUNDS
from crawl_pipeline.lake import Lake, Lease


def find(lake: Lake, lease: Lease, policy: Policy, now: datetime) -> tuple[int, int]:
    """Turn pages into orphans and back, in one round; give how many of each."""
    last = lake.scan("rounds", buckets=lease.buckets).sort("round").group_by("bucket").last().collect()
    found = [_of_bucket(lake, bucket, policy, now) for bucket in sorted(last["bucket"])]
    rows = pl.concat(found or [FRONTIER.empty()])
    if rows.is_empty():
        return 0, 0
    rows = rows.with_columns(round=pl.lit(lease.round, pl.Int64), layer=pl.lit("tail"))
    lake.write(lease, "frontier", rows)
    lake.commit(lease, _ledger(last, rows, lake.buckets, now))
    lost = rows.filter(pl.col("status") == ORPHAN).height
    return lost, rows.height - lost


def _of_bucket(lake: Lake, bucket: int, policy: Policy, now: datetime) -> pl.DataFrame:
    one = [bucket]
    may_be = orphans.may_be(pl.col("kind"), pl.col("status"))
    hashes = lake.scan("frontier", buckets=one, where=may_be).select("url_hash", "url", "status").collect()
    if hashes.is_empty():
        return FRONTIER.empty()
    of_bucket = lake.scan("links", buckets=lake.once_in(one))
    links = of_bucket.select("url_hash", "source_hash", "source_bucket", "round", "kind")
    sources = links.select("source_hash", "source_bucket").unique().collect(engine="streaming")
    stored = _stored(lake, sources)
    sitemaps = lake.scan("frontier", buckets=one, where=pl.col("kind") == "sitemap").select("url_hash").collect()
    let_go = orphans.let_go(sitemaps["url_hash"], links.filter(pl.col("kind") == "sitemap"), stored)
    alive = orphans.linked(links, stored, let_go).collect(engine="streaming")["url_hash"]
    seeded = _seeds(lake, hashes)
    alive = pl.concat([alive, seeded])
    is_linked = pl.col("url_hash").is_in(alive.implode())
    changed = hashes.filter((pl.col("status") == ORPHAN) == is_linked)["url_hash"]
    pages = lake.scan("frontier", buckets=one, url_hashes=changed).collect()
    visits = lake.scan("change_frequency", buckets=one, url_hashes=changed).collect()
    return orphans.turned(pages, alive, visits, policy, now)


def _stored(lake: Lake, sources: pl.DataFrame) -> pl.LazyFrame:
    """The rounds in which sources of links were stored or, if sitemaps or robots.txt, read (url_hash, round)."""
    buckets, wanted = (
        lake.once_in(sources["source_bucket"].unique().to_list()),
        sources.lazy().select(url_hash="source_hash"),
    )
    read = (pl.col("cause") == "sitemap") & (pl.col("outcome") == "fetched")
    told = [lake.scan("pages", buckets=buckets), lake.scan("fetches", buckets=buckets, where=read)]
    hashes = [rows.select("url_hash", "round") for rows in (*told, _robots(lake, buckets))]
    return pl.concat([rows.join(wanted, on="url_hash", how="semi") for rows in hashes])


def _robots(lake: Lake, buckets: Sequence[int]) -> pl.LazyFrame:
    """The rounds in which each robots.txt said what it says, or was not there; while unreachable it says nothing."""
    said = pl.col("state").is_in(["rules", "allow_all"])
    newest = lake.scan("robots", buckets=buckets, where=said).group_by("origin").agg(pl.col("round").max()).collect()
    hashes = [urls.url_hash(robots.robots_url(origin)) for origin in newest["origin"]]
    return newest.lazy().select(pl.Series("url_hash", hashes, dtype=pl.Int64), "round")


def _seeds(lake: Lake, hashes: pl.DataFrame) -> pl.Series:
    """Those that a person named as seeds, after they had been found as links."""
    seeds = lake.scan("orders", where=pl.col("kind") == "seed").select("url")
    return hashes.lazy().join(seeds, on="url", how="semi").select("url_hash").collect()["url_hash"]


def _ledger(last: pl.DataFrame, rows: pl.DataFrame, buckets: int, now: datetime) -> pl.DataFrame:
    """A row of `rounds` per bucket with changes: nothing was selected or read, all cursors stay."""
    changed = {bucket: of for (bucket,), of in rows.group_by("bucket")}
    nothing = {"selected_count": 0, "outcomes": [], "left_out": [], "links_read_count": 0, "admitted_count": 0,
               "refused": [], "request_count": 0, "page_count": 0, "content_count": 0, "wire_bytes": 0,
               "links_to": [0] * buckets, "plan_s": 0.0, "fetch_s": 0.0, "policy_id": None, "seed": None,
               "started_at": now, "ended_at": now}  # fmt: skip
    return ROUNDS.frame(
        [row | nothing | {"round": None} | _said(row, changed[row["bucket"]]) for row in last.iter_rows(named=True)
         if row["bucket"] in changed]
    ).drop("round")  # fmt: skip


def _said(row: dict[str, Any], changed: pl.DataFrame) -> dict[str, Any]:
    lost = changed.filter(pl.col("status") == ORPHAN).height
    dates = [row["next_due_at"], changed["due_at"].min()]
    return {
        "next_due_at": min((date for date in dates if date is not None), default=None),
        "note": f"maintenance: {lost} pages became orphans, {changed.height - lost} are linked to again",
    }
