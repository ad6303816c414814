"""Folding: a bucket's tail is merged into its base, so that reading state stays cheap.

Decides which buckets are due from file statistics, and what their new files hold. Never changes what a reader sees:
a base row superseded by a committed tail row goes, the newest committed row of each key becomes base.

A base is written in the order in which it is read: by due day, then host, then URL (`laid_out`), and the URLs of a
large host in slices (`slicing`). A large bucket is folded some days at a time, so that memory follows `Shape.rows`
and not the size of the bucket.

Invariant: the rows of a round that may still commit stay in the tail. Rows of earlier rounds that are not committed
when a fold looks can never be: their holders are fenced off. They are dropped.

One commit replaces the files of all folded buckets, made with the table object they were read from. So a tail that
was added meanwhile makes it collide and look again, and a crash before it leaves the old files in force.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import deltalake
import polars as pl
import pyarrow as pa

from crawl_pipeline.core.tables import Table
from crawl_pipeline.lake import slicing
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


@dataclass(frozen=True, slots=True)
class Shape:
    """How a base is cut: rows of one host from which on it has slices of that size, and rows sorted at a time."""

    slice_rows: int = 250_000
    rows: int = 1_000_000


SHAPE = Shape()


def fold(rounds: DeltaTable, state: DeltaTable, lease: Lease, due: Due, shape: Shape = SHAPE) -> tuple[int, ...]:
    """Fold the leased buckets that are due; give them."""
    folded: tuple[int, ...] = ()

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        nonlocal folded
        rounds.read(lambda known: check_fences(lease, known.transaction_version))
        live = state.files(opened).filter(pl.col("layout") == lease.layout)
        folded = due_buckets(live, lease.buckets, due)
        if not folded:
            return None
        check_fences(lease, opened.transaction_version)
        pairs = committed(rounds, rounds.live(), folded, None)
        schema = state.table.empty().to_arrow().schema
        batches = _batches(state, live, pairs, folded, lease.round, shape)
        return Change(
            pa.RecordBatchReader.from_batches(schema, batches),
            f"bucket in ({', '.join(map(str, folded))}) and layout = {lease.layout}",
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
    state: DeltaTable, live: pl.DataFrame, pairs: pl.DataFrame, buckets: tuple[int, ...], this_round: int, shape: Shape
) -> Iterator[pa.RecordBatch]:
    """Give the new rows bucket by bucket, of a large one some days at a time, so that memory is bounded."""
    for bucket in buckets:
        files = live.filter(pl.col("bucket") == bucket)
        yield from base_rows(newest(state, files, pairs), state.table, int(files["rows"].sum()), shape)
        tail = state.rows(files.filter(pl.col("layer") == "tail"))
        open_rows = tail.filter(pl.col("round") >= this_round).join(pairs.lazy(), on=["bucket", "round"], how="anti")
        yield from _in_one(open_rows.collect())


Now = Callable[[pl.Expr | None], pl.LazyFrame]
"""The newest rows of a bucket that satisfy a condition."""


def newest(state: DeltaTable, files: pl.DataFrame, pairs: pl.DataFrame) -> Now:
    """Look at the newest committed row of each key in some files: what a reader sees of them."""
    base = state.rows(files.filter(pl.col("layer") == "base"))
    tail = state.rows(files.filter(pl.col("layer") == "tail"))
    return partial(overlay, base, of_rounds(tail, "bucket", pairs), state.table.key)


def base_rows(now: Now, table: Table, size: int, shape: Shape) -> Iterator[pa.RecordBatch]:
    """Give the base of one bucket from its newest rows, of which there are `size` at the most."""
    cuts = slicing.cuts(now(None), shape.slice_rows) if "part" in table.column_names and size > shape.slice_rows else {}
    for span in _spans(now(None), table, shape.rows) if size > shape.rows else [None]:
        rows = laid_out(now(span).with_columns(layer=pl.lit("base")), table).collect()
        yield from _in_one(slicing.sliced(rows, cuts) if "part" in table.column_names else rows)


def _in_one(rows: pl.DataFrame) -> list[pa.RecordBatch]:
    """One batch: the writer deals batches out to its threads, so that only the order within one is kept."""
    return list(rows.rechunk().to_arrow().to_batches())


def _spans(now: pl.LazyFrame, table: Table, most: int) -> Iterator[pl.Expr | None]:
    """Conditions that cut the rows into runs of due days of at most so many rows, or of one day."""
    due = _due_at(table)
    if due is None:
        yield None
        return
    days = now.group_by(day=due.dt.truncate("1d")).len().drop_nulls().sort("day").collect()
    first, rows = None, 0
    for day, count in days.iter_rows():
        if first is not None and rows + count > most:
            yield (due >= first) & (due < day)
            first, rows = None, 0
        first, rows = day if first is None else first, rows + count
    if first is not None:
        yield (due >= first) & (due < days["day"][-1] + timedelta(days=1))
    yield due.is_null()


def laid_out(rows: pl.LazyFrame, table: Table) -> pl.LazyFrame:
    """Sort rows as they lie in a base: what falls due on one day together, so that a reader of due rows skips the rest.

    A round asks for URLs of many hosts. In the order of hosts alone they are spread over the whole base, and each
    round would read all of it.
    """
    due = _due_at(table)
    days = [] if due is None else [due.dt.truncate("1d")]
    return rows.sort(*days, *table.sorted_by, nulls_last=True)


def _due_at(table: Table) -> pl.Expr | None:
    """When a row falls due, by the columns of its table; None for a table whose rows do not."""
    if "due_at" in table.column_names:
        return pl.col("due_at")
    if "interval_s" in table.column_names:
        return pl.col("fetched_at") + pl.duration(microseconds=pl.col("interval_s") * 1e6)
    return None
