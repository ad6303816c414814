"""Folding: a bucket's tail is merged into its base, so that reading state stays cheap.

Decides which buckets are due from file statistics, and what their new files hold. Never changes what a reader sees:
a base row superseded by a committed tail row goes, the newest committed row of each key becomes base.

Invariant: the rows of a round that may still commit stay in the tail. Rows of earlier rounds that are not committed
when a fold looks can never be: their holders are fenced off. They are dropped.

One commit replaces the files of all folded buckets, made with the table object they were read from. So a tail that
was added meanwhile makes it collide and look again, and a crash before it leaves the old files in force.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import deltalake
import polars as pl
import pyarrow as pa

from crawl_pipeline.core.tables import Table
from crawl_pipeline.lake.delta import Change, DeltaTable
from crawl_pipeline.lake.leases import Lease, check_fences, fences
from crawl_pipeline.lake.visible import committed, of_rounds, overlay


@dataclass(frozen=True, slots=True)
class Due:
    """When a tail is long enough: by its rows, as a share of the base but not for a few, or by its rounds.

    Rewriting sixteen small buckets costs 100 ms, reading ten more tail files of each costs 10 ms, so that a small
    bucket waits for the number of its rounds.
    """

    share: float
    rounds: int
    least: int


def fold(rounds: DeltaTable, state: DeltaTable, lease: Lease, due: Due) -> tuple[int, ...]:
    """Fold the leased buckets that are due; give them."""
    folded: tuple[int, ...] = ()

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        nonlocal folded
        rounds.read(lambda known: check_fences(lease, known.transaction_version))
        live = state.files(opened)
        folded = due_buckets(live, lease.buckets, due)
        if not folded:
            return None
        check_fences(lease, opened.transaction_version)
        pairs = committed(rounds, rounds.live(), folded, None)
        schema = state.table.empty().to_arrow().schema
        batches = _batches(state, live, pairs, folded, lease.round)
        return Change(
            pa.RecordBatchReader.from_batches(schema, batches),
            f"bucket in ({', '.join(map(str, folded))})",
            fences(lease),
        )

    state.commit(decide)
    return folded


def due_buckets(live: pl.DataFrame, buckets: tuple[int, ...], due: Due) -> tuple[int, ...]:
    """Say which buckets' tails are long enough, from the statistics of their files."""
    tail = pl.col("layer") == "tail"
    sizes = (
        live.filter(pl.col("bucket").is_in(buckets))
        .group_by("bucket")
        .agg(
            tail=pl.col("rows").filter(tail).sum(),
            base=pl.col("rows").filter(~tail).sum(),
            rounds=pl.col("min_round").filter(tail).n_unique(),
        )
    )
    large = (pl.col("tail") > due.share * pl.col("base")) & (pl.col("tail") >= due.least)
    return tuple(sizes.filter((pl.col("tail") > 0) & (large | (pl.col("rounds") > due.rounds)))["bucket"].sort())


def _batches(
    state: DeltaTable, live: pl.DataFrame, pairs: pl.DataFrame, buckets: tuple[int, ...], this_round: int
) -> Iterator[pa.RecordBatch]:
    """Give the new rows bucket by bucket, so that one bucket at a time is in memory."""
    for bucket in buckets:
        files = live.filter(pl.col("bucket") == bucket)
        base = state.rows(files.filter(pl.col("layer") == "base"))
        tail = state.rows(files.filter(pl.col("layer") == "tail"))
        now = overlay(base, of_rounds(tail, "bucket", pairs), state.table.key)
        open_rows = tail.filter(pl.col("round") >= this_round).join(pairs.lazy(), on=["bucket", "round"], how="anti")
        folded = laid_out(now.with_columns(layer=pl.lit("base")), state.table)
        for part in pl.collect_all([folded, open_rows]):
            # One batch: the writer deals batches out to its threads, so that only the order within one is kept.
            yield from part.rechunk().to_arrow().to_batches()


def laid_out(rows: pl.LazyFrame, table: Table) -> pl.LazyFrame:
    """Sort rows as they lie in a base: what falls due on one day together, so that a reader of due rows skips the rest.

    A round asks for URLs of many hosts. In the order of hosts alone they are spread over the whole base, and each
    round would read all of it.
    """
    due = {
        "due_at": pl.col("due_at"),
        "interval_s": pl.col("fetched_at") + pl.duration(microseconds=pl.col("interval_s") * 1e6),
    }
    days = [at.dt.truncate("1d") for name, at in due.items() if name in table.column_names]
    return rows.sort(*days, *table.sorted_by, nulls_last=True)
