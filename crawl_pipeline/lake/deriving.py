"""What is derived from all buckets at once, by one writer at a time: clusters of pages, and which of them were merged.

Decides nothing about clusters. A clustering reads logs of every bucket up to some round each, and commits its rows, its
number and how far it read in one commit, made from the very version in which it found the number before. So a
clustering exists as a whole or not at all, none reads a row twice or passes one over, and of two at once the later is
refused (`Overtaken`) and has changed nothing.

What was merged follows from its rows. It is logged afterwards, or by the next clustering if that was cut short.

Invariant: the number in `clusters` grows by one with each clustering; `merges` lags behind by no more than its tail.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import deltalake
import polars as pl

from crawl_pipeline.core.tables import MERGES
from crawl_pipeline.lake.delta import Change, DeltaTable
from crawl_pipeline.lake.numbered import commit_next
from crawl_pipeline.lake.visible import overlay

NUMBER, LOGGED = "clustering", "merges-logged"
"""Names of the identifiers. How far a bucket was read is `read-` and its number."""
FILES = 32
"""Files of merges from which on they are joined."""
ROWS, ROUNDS = 20_000, 50
"""A tail of so many rows is folded when it is half as long as the base, and one of so many clusterings in any case."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """The last clustering: its number, and per bucket the last round whose rows it read."""

    number: int
    seen: Mapping[int, int]


def clustered(clusters: DeltaTable, rounds: DeltaTable) -> Clustered:
    """Where clustering stands."""
    buckets = rounds.live()["bucket"].unique().to_list()
    return clusters.read(lambda opened: _stand(opened, buckets))


def _stand(opened: deltalake.DeltaTable, buckets: list[int]) -> Clustered:
    read = {bucket: opened.transaction_version(f"read-{bucket}") for bucket in buckets}
    return Clustered(opened.transaction_version(NUMBER) or 0, {b: to for b, to in read.items() if to is not None})


def commit(clusters: DeltaTable, before: Clustered, rows: pl.DataFrame, seen: Mapping[int, int]) -> Clustered:
    """Add the rows of a new clustering as a tail, if it is still the next one; raise Overtaken if not."""
    tail = clusters.table.frame(
        rows.with_columns(clustering=pl.lit(before.number + 1, pl.Int64), layer=pl.lit("tail"))
    ).sort(clusters.table.sorted_by)
    read = {f"read-{bucket}": to for bucket, to in seen.items()}
    return Clustered(commit_next(clusters, NUMBER, before.number, tail, read), {**before.seen, **seen})


def log_merges(clusters: DeltaTable, merges: DeltaTable) -> None:
    """Log what clusterings merged that were not looked at yet: clusters whose representative follows another."""
    logged = merges.read(lambda opened: opened.transaction_version(LOGGED) or 0)
    live = clusters.live()
    number = clusters.read(lambda opened: opened.transaction_version(NUMBER) or 0)
    if number == logged:
        return
    new = clusters.rows(live.filter(pl.col("layer") == "tail")).filter(pl.col("clustering") > logged)
    rows = merged(new).collect()

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        if (opened.transaction_version(LOGGED) or 0) != logged:
            return None  # somebody else was as quick
        return Change(rows, transactions={LOGGED: number}, retries=0)

    merges.commit(decide)


def merged(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows of `merges` that rows of `clusters` tell of."""
    led = (pl.col("main_hash") == pl.col("cluster_before")) & (pl.col("cluster_id") != pl.col("cluster_before"))
    told = (
        rows.filter(led)
        .group_by(MERGES.key)
        .agg(pl.col("cluster_id", "similarity").first(), merged_at=pl.col("since_at").max())
    )
    return told.select(MERGES.column_names).sort(MERGES.sorted_by)


def fold(clusters: DeltaTable, merges: DeltaTable, *, least: int = ROWS, most: int = ROUNDS) -> bool:
    """Write the newest row of every page as the base, if the tail has grown long; say if so."""
    log_merges(clusters, merges)

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        live = clusters.files(opened)
        if not due(live, least, most):
            return None
        base, tail = (clusters.rows(live.filter(pl.col("layer") == layer)) for layer in ("base", "tail"))
        rows = overlay(base, tail, clusters.table.key, by="clustering").filter(pl.col("cluster_id").is_not_null())
        folded = rows.with_columns(layer=pl.lit("base"), cluster_before=None).cast({"cluster_before": pl.Int64})
        kept = folded.select(clusters.table.column_names).sort(clusters.table.sorted_by).collect()
        return Change(kept, "layer in ('base', 'tail')", retries=0)

    _join(merges)
    return clusters.commit(decide) is not None


def _join(merges: DeltaTable) -> None:
    """Write all merges as one file, if they lie in many."""

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        live = merges.files(opened)
        if live.height <= FILES:
            return None
        return Change(merges.rows(live).sort(MERGES.sorted_by).collect(), "clustering >= 0")

    merges.commit(decide)


def due(live: pl.DataFrame, least: int, most: int) -> bool:
    """Tell whether the tail is worth a fold, from the files alone."""
    tail = live.filter(pl.col("layer") == "tail")
    rows, base = int(tail["rows"].sum()), int(live.filter(pl.col("layer") == "base")["rows"].sum())
    return tail.height > most or (rows >= least and 2 * rows > base)
