"""Find pages that are nearly the same, over all buckets, as they come: one clustering after another until none is left.

A clustering reads what rounds have committed since the last one, a bounded number of pages, and costs by that number.
Its rows and how far every bucket was read are one commit. So a clustering that is killed has changed nothing, and is
done by the next one.

Decides how far to read; what becomes of it is in `clustering`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline import clustering, known_texts, ordering
from crawl_pipeline.clustering import News
from crawl_pipeline.core.clusters import Crowd
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Clustered, Lake

Clock = Callable[[], datetime]
Tell = Callable[["Found"], None]


@dataclass(frozen=True, slots=True)
class Found:
    """What clusterings came to: how many there were, pages read and rows changed, clusters merged, crowded keys."""

    clusterings: int
    number: int
    pages: int
    changed: int
    merged: int
    crowds: tuple[Crowd, ...]
    seconds: float


def _now() -> datetime:
    return datetime.now(UTC)


def find(lake: Lake, policy: Policy, *, clock: Clock = _now, tell: Tell = lambda found: None) -> Found:
    """Cluster all that has been committed; `tell` hears of each clustering. `policy` is what the policy file says.

    Raise Overtaken if another process was at it too: what that did stands, and nothing of ours since.
    """
    rules = ordering.policy_in_force(lake, policy)
    before = lake.clustered
    known, files = known_texts.take(lake, before.number, rules.duplicates.crowd)
    told, forgotten = list[Found](), _forgotten(lake)
    while not (news := _news(lake, before, rules, forgotten)).empty:
        began = clock()
        done = clustering.cluster(lake, known, news, rules, began)
        before = lake.commit_clustering(before, done.rows, news.seen)
        seconds = (clock() - began).total_seconds()
        told.append(Found(1, before.number, news.pages.height, done.rows.height, done.merged, (), seconds))
        tell(told[-1])
    known_texts.leave(lake, before.number, known, files)
    lake.fold_clusters()
    pages, changed, merged = (sum(getattr(one, name) for one in told) for name in ("pages", "changed", "merged"))
    seconds = sum(one.seconds for one in told)
    return Found(len(told), before.number, pages, changed, merged, tuple(known.crowded()), seconds)


def line(found: Found) -> str:
    """One clustering in words."""
    return (
        f"clustering {found.number}: {found.pages:,} pages, {found.changed:,} rows changed, "
        f"{found.merged:,} clusters merged, {found.seconds:.2f} s"
    )


def standing(lake: Lake) -> dict[str, int | float]:
    """How many pages there are in how many clusters, how like their texts are, and of how many no text is kept."""
    rows = lake.scan("clusters")
    shared, of_copy = pl.col("canonical").is_not_null(), pl.col("canonical") != pl.col("url")
    is_near = of_copy & (pl.col("similarity") < 1)
    figures = rows.select(
        pages=pl.len(), clusters=pl.col("cluster_id").n_unique(),
        clusters_of_several=pl.col("cluster_id").filter(shared).n_unique(), copies=of_copy.sum(),
        largest=pl.col("cluster_id").value_counts().struct.field("count").max(),
        similarity_mean=pl.col("similarity").filter(is_near).mean(),
        similarity_least=pl.col("similarity").filter(is_near).min(),
    )  # fmt: skip
    bare = lake.scan("pages", where=pl.col("main_hash").is_null()).select(pl.col("url_hash").n_unique())
    told = figures.collect().row(0, named=True)
    return {name: value or 0 for name, value in told.items()} | {"without_text": bare.collect().item()}


def largest(lake: Lake, most: int = 20) -> pl.DataFrame:
    """The largest clusters (canonical, pages, hosts, similarity: the least)."""
    shared = lake.scan("clusters", where=pl.col("canonical").is_not_null())
    of_each = shared.group_by("canonical").agg(
        pages=pl.len(), hosts=pl.col("host").n_unique(), similarity=pl.col("similarity").min()
    )
    return of_each.sort(["pages", "canonical"], descending=[True, False]).head(most).collect()


def crowds(lake: Lake, found: Found) -> pl.DataFrame:
    """Keys that very many texts share (texts, url: a page with the text that all were compared with)."""
    told = pl.DataFrame(
        [(crowd.texts, crowd.main_hash) for crowd in found.crowds], {"texts": pl.Int64, "main_hash": pl.Int64},
        orient="row",
    ).group_by("main_hash").agg(pl.col("texts").max(), keys=pl.len())  # fmt: skip
    pages = lake.scan("clusters", where=pl.col("main_hash").is_in(told["main_hash"].implode()))
    named = pages.group_by("main_hash").agg(pl.col("url").first()).collect()
    return told.join(named, on="main_hash", how="left").sort("texts", "main_hash", descending=True)


def _news(lake: Lake, before: Clustered, rules: Policy, forgotten: pl.Series) -> News:
    """What was committed since, up to so many pages."""
    rounds = _unread(lake, before, rules.duplicates.pages)
    since = int(rounds["round"][0]) - 1 if rounds.height else before.number
    pages = _of(rounds, lake.scan("pages", since=since), clustering.READ)
    # A page that was read twice is looked at in two clusterings: each is a visit of its own.
    again = pages.filter(pl.col("url_hash").cum_count().over("url_hash", order_by="round") > 1)["round"].min()
    if again is not None:
        rounds, pages = (rows.filter(pl.col("round") < again) for rows in (rounds, pages))
    fetches = lake.scan("fetches", since=since, where=clustering.missed())
    missed = _of(rounds, fetches, ["bucket", "round", "url_hash"]).unique("url_hash")
    seen = rounds.group_by("bucket").agg(pl.col("round").max())
    pages = pages.filter(~pl.col("url_hash").is_in(forgotten.implode()))
    return News(
        pages, missed.join(pages, on="url_hash", how="anti"), _clustered(lake, forgotten), dict(seen.iter_rows())
    )


def _unread(lake: Lake, before: Clustered, most: int) -> pl.DataFrame:
    """The first rounds that were not read yet (bucket, round), of so many pages together or one."""
    rounds = lake.scan("rounds").select("bucket", "round", "page_count").collect()
    seen = pl.col("bucket").replace_strict(dict(before.seen), default=0, return_dtype=pl.Int64)
    new = rounds.filter(pl.col("round") > seen).sort("round", "bucket")
    return new.filter(pl.col("page_count").cum_sum().shift(1, fill_value=0) < most).select("bucket", "round")


def _of(rounds: pl.DataFrame, rows: pl.LazyFrame, columns: list[str]) -> pl.DataFrame:
    return rows.select(columns).join(rounds.lazy(), on=["bucket", "round"], how="semi").collect()


def _forgotten(lake: Lake) -> pl.Series:
    """URLs that were ordered to be forgotten. Most lakes were never asked to forget anything."""
    if lake.scan("orders", where=pl.col("kind") == "forget").head(1).collect().is_empty():
        return pl.Series(dtype=pl.Int64)
    return lake.scan("frontier", where=pl.col("status") == "forgotten").select("url_hash").collect()["url_hash"]


def _clustered(lake: Lake, url_hashes: pl.Series) -> pl.Series:
    """Those of the URLs that are in a cluster."""
    if url_hashes.is_empty():
        return url_hashes
    return lake.scan("clusters", url_hashes=url_hashes).select("url_hash").collect()["url_hash"]
