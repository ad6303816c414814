"""One clustering: from pages that were read, missed or forgotten to the rows of `clusters` that are others now.

`core.departures` says which text a page stands for, `core.clusters` which texts belong together, `core.canonical` which
page of a cluster counts. Here is what is looked up for that: rows of the pages that came, and of the clusters that they
or their texts entered or left; no others.

Reads the lake and writes nothing. What is known of texts is changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from crawl_pipeline import known_texts
from crawl_pipeline.core import canonical, departures, fingerprint, urls
from crawl_pipeline.core.clusters import Applied, Clusters
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CLUSTERS
from crawl_pipeline.lake import Lake

MISSED = ("gone", "redirected", "forbidden", "client_error", "not_html", "redirect_error")
"""Outcomes of a visit that found no page where one was."""
SAME, NEAR = "same text", "nearly the same text"
READ = ["bucket", "round", "url", "url_hash", "host", "canonical_url", *known_texts.SIGNATURE]
_KEPT = ["url_hash", "url", "host", "canonical_url", "main_hash", "cluster_id", "similarity", "canonical", "reason",
         "score", "found_at", "doubts", "misses", "since_at"]  # fmt: skip


@dataclass(frozen=True, slots=True)
class News:
    """What rounds have committed: pages that were read (READ), visits that found none (url_hash), pages of clusters
    that were forgotten since, and per bucket the last round that was looked at."""

    pages: pl.DataFrame
    missed: pl.DataFrame
    forgotten: pl.Series
    seen: Mapping[int, int]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to take in."""
        return not (self.pages.height or self.missed.height or len(self.forgotten))


@dataclass(frozen=True, slots=True)
class Done:
    """What a clustering came to: rows of `clusters`, and how many clusters were joined to others."""

    rows: pl.DataFrame
    merged: int


def missed() -> pl.Expr:
    """Which requests looked for a page and found none."""
    return (pl.col("cause") == "page") & pl.col("outcome").is_in(MISSED)


def cluster(lake: Lake, known: Clusters, news: News, policy: Policy, now: datetime) -> Done:
    """Take in what is new."""
    came = pl.concat([news.pages["url_hash"], news.missed["url_hash"], news.forgotten]).unique()
    stored = lake.scan("clusters", url_hashes=came).select(_KEPT).collect()
    visited = pl.concat([_read(known, news.pages, stored, policy), _absent(stored, news, policy)])
    added, applied = _exchange(known, visited, news.pages)
    rows = pl.concat([_others(lake, known, visited, added, applied), visited])
    return Done(_rows(_settled(lake, known, rows), now), applied.merged.height)


# Which text each page stands for.


def _read(known: Clusters, pages: pl.DataFrame, stored: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Rows of pages that were read; `main_hash` is what they stand for from now on, other columns are as before."""
    words = pl.col("token_count") > 0
    pages = pages.with_columns(main_hash=pl.when(words).then("main_hash"))
    rows = pages.join(stored.select(pl.exclude("url", "host")), on="url_hash", how="left",
                      suffix="_stood", maintain_order="left").rename({"main_hash_stood": "stood"})  # fmt: skip
    head = rows["cluster_id"].fill_null(0)
    heads = known.signatures_of(head)
    compared = rows.with_columns(
        like=known.likeness(head, rows), near=fingerprint.near(heads, rows), alone=pl.col("canonical").is_null(),
        holds=(pl.col("stood") == pl.col("cluster_id")).fill_null(value=False) & (known.held(head) <= 1),
        rewrite=_uneasy() | pl.col("canonical_url").ne_missing(pl.col("canonical_url_stood")),
        misses=pl.lit(0, pl.Int16),
    )  # fmt: skip
    return _as_rows(departures.stand(compared, policy).with_columns(main_hash="stands"))


def _absent(stored: pl.DataFrame, news: News, policy: Policy) -> pl.DataFrame:
    """Rows of pages that were missed, or are to be forgotten; `main_hash` is null for those that leave."""
    forgotten = pl.col("url_hash").is_in(news.forgotten.implode())
    rows = stored.filter(pl.col("url_hash").is_in(news.missed["url_hash"].implode()) | forgotten)
    misses = pl.col("misses").fill_null(0) + 1
    stays = (misses < policy.duplicates.leave_after) & ~forgotten
    return _as_rows(
        rows.with_columns(
            stood="main_hash", main_hash=pl.when(stays).then("main_hash"), misses=misses, rewrite=pl.lit(value=True)
        )
    )


def _uneasy() -> pl.Expr:
    """Visits had found the page changed or missing."""
    return pl.any_horizontal(pl.col("doubts", "misses").fill_null(0).gt(0))


def _as_rows(rows: pl.DataFrame) -> pl.DataFrame:
    types = {name: CLUSTERS.schema[name] for name in _KEPT}
    columns = [pl.col(name).cast(dtype) for name, dtype in types.items()]
    return rows.select(*columns, pl.col("stood").cast(pl.Int64), pl.col("rewrite").fill_null(value=False))


def _exchange(known: Clusters, visited: pl.DataFrame, pages: pl.DataFrame) -> tuple[pl.Series, Applied]:
    """Let pages take up and give up texts: those that are new, and what came of it. A text that no page stands for any
    more is gone."""
    counts = _counted(visited)
    text = counts["text"]
    counts = counts.with_columns(there=pl.Series(known.at(text) >= 0), holders=known.held(text) + counts["count"])
    added = counts.filter(~pl.col("there") & (pl.col("holders") > 0))["text"]
    gone = counts.filter(pl.col("there") & (pl.col("holders") <= 0))["text"]
    signed = pages.select(known_texts.SIGNATURE).filter(pl.col("main_hash").is_in(added.implode()))
    applied = known.apply(signed, gone)
    left = counts.filter(pl.col("holders") > 0)
    known.hold(left["text"], left["holders"])
    return added, applied


def _counted(visited: pl.DataFrame) -> pl.DataFrame:
    """How many pages more, or fewer, stand for each text."""
    moved = visited.filter(pl.col("main_hash").ne_missing(pl.col("stood")))
    taken = moved.select(text="main_hash", count=pl.lit(1, pl.Int32))
    given = moved.select(text="stood", count=pl.lit(-1, pl.Int32))
    both = pl.concat([taken, given]).drop_nulls("text")
    return both.group_by("text", maintain_order=True).agg(pl.col("count").sum())


# Clusters that are others now.


def _others(lake: Lake, known: Clusters, visited: pl.DataFrame, added: pl.Series, applied: Applied) -> pl.DataFrame:
    """Rows of the other pages of all clusters that a page or a text has entered or left."""
    now = known.of(visited["main_hash"].drop_nulls().unique())["cluster_id"]
    changed = applied.changed
    touched = pl.concat([changed["cluster_id"], changed["cluster_before"], visited["cluster_id"], now])
    # What is stored cannot name a cluster after a text that has just come.
    ids = touched.drop_nulls().unique()
    ids = ids.filter(~ids.is_in(added.implode()))
    if ids.is_empty():
        return visited.clear()
    rows = lake.scan("clusters", where=pl.col("cluster_id").is_in(ids.implode())).select(_KEPT).collect()
    others = rows.join(visited, on="url_hash", how="anti")
    return _as_rows(others.with_columns(stood="main_hash", rewrite=pl.lit(value=False)))


def _settled(lake: Lake, known: Clusters, rows: pl.DataFrame) -> pl.DataFrame:
    """Give rows their cluster, its canonical page and the reason as they are now; what was stays beside, `_before`."""
    was = ["cluster_id", "similarity", "canonical", "reason"]
    rows = rows.with_columns(pl.col(was).name.suffix("_before")).drop("cluster_id", "similarity")
    placed = known.of(rows["main_hash"].fill_null(0))
    rows = rows.hstack(placed.select("cluster_id", "similarity"))
    rows = rows.with_columns(pages=pl.col("cluster_id").count().over("cluster_id"))
    shared = _known_to_frontier(lake, rows.filter(pl.col("cluster_id").is_not_null() & (pl.col("pages") > 1)))
    alone = rows.join(shared, on="url_hash", how="anti").with_columns(canonical=None, reason=None)
    chosen = canonical.choose(shared)
    texts = shared.select("url", canonical_hash="main_hash")
    joined = (
        shared.drop("canonical", "reason")
        .join(chosen, on="cluster_id", how="left")
        .join(texts, left_on="canonical", right_on="url", how="left")
    )
    same = pl.col("main_hash") == pl.col("canonical_hash")
    reason = pl.when(pl.col("url") == pl.col("canonical")).then(pl.concat_str(pl.lit("canonical: "), "by"))
    told = joined.with_columns(reason=reason.when(same).then(pl.lit(SAME)).otherwise(pl.lit(NEAR)))
    return pl.concat([alone.cast({"canonical": pl.String, "reason": pl.String}), told.select(alone.columns)])


def _known_to_frontier(lake: Lake, rows: pl.DataFrame) -> pl.DataFrame:
    """Fill in score and date of those pages that share a cluster for the first time."""
    asked = rows.filter(pl.col("found_at").is_null())
    if asked.is_empty():
        return rows
    buckets = {urls.bucket(urls.site(host), lake.buckets) for host in asked["host"].unique()}
    found = lake.scan("frontier", buckets=sorted(buckets), url_hashes=asked["url_hash"])
    facts = found.select("url_hash", "score", "found_at").collect()
    return rows.update(facts, on="url_hash", how="left")


def _rows(rows: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """The rows to write: those where anything is other than it was."""
    told = ("cluster_id", "similarity", "canonical", "reason")
    other = [pl.col(name).ne_missing(pl.col(f"{name}_before")) for name in told]
    stood = pl.col("main_hash").ne_missing(pl.col("stood"))
    moved = pl.col("canonical").ne_missing(pl.col("canonical_before")) | pl.col("since_at").is_null()
    left = pl.col("cluster_id").ne_missing(pl.col("cluster_id_before"))
    changed = rows.filter(pl.any_horizontal(*other, stood, "rewrite", _uneasy())).with_columns(
        cluster_before=pl.when(left).then("cluster_id_before"),
        since_at=pl.when(moved).then(pl.lit(now)).otherwise("since_at"),
        main_hash=pl.coalesce("main_hash", "stood"),
    )
    return CLUSTERS.frame(changed.select(name for name in CLUSTERS.column_names if name in changed.columns))
