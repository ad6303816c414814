"""Writing a round: rows are checked, then replace what the round wrote before; the row in `rounds` comes last.

Decides what one commit contains. Invariant: a commit replaces rows of its own round and buckets, nothing else, so
that it can be repeated, and so that it never collides with the commits of other holders.
"""

from collections.abc import Callable
from dataclasses import replace

import deltalake
import polars as pl

from crawl_pipeline.core.tables import ORDERS, ROUNDS, Table
from crawl_pipeline.lake import layouts
from crawl_pipeline.lake.delta import Change, DeltaTable
from crawl_pipeline.lake.leases import Lease, check_fences, fences
from crawl_pipeline.lake.visible import owner


def raise_fence(rounds: DeltaTable, lease: Lease, buckets: int) -> Lease:
    """Make the lease's epochs known to `rounds`: from here on no former holder can commit.

    The lease that comes back names the layout in force. Raise LakeMismatch if that is not one of so many buckets.
    """
    layout = 0

    def decide(opened: deltalake.DeltaTable) -> Change:
        nonlocal layout
        check_fences(lease, opened.transaction_version)
        found = layouts.of(opened)
        layouts.expect(buckets, found)
        layout = found.number
        return Change(ROUNDS.empty(), transactions=fences(lease))

    rounds.commit(decide)
    return replace(lease, layout=layout)


def write(opened: DeltaTable, lease: Lease, frame: pl.DataFrame) -> None:
    """Replace the round's rows of the leased buckets in one log or state table."""
    table = opened.table
    if table.kind not in ("log", "state") or owner(table) is None:
        raise ValueError(f"expected a log or state table whose rows belong to rounds, found {table.name!r}")
    rows = checked(table, lease, frame)

    def decide(found: deltalake.DeltaTable) -> Change | None:
        # Nothing to write and nothing there: spare the log a version.
        if rows.is_empty() and opened.files(found).filter(_may_hold(lease, table)).is_empty():
            return None
        return Change(rows, of_round(table, lease))

    opened.commit(decide)


def commit(rounds: DeltaTable, lease: Lease, frame: pl.DataFrame) -> None:
    """Write the round's own rows, which makes its other rows visible; refused once somebody else took over."""
    given = frame.with_columns(
        epoch=pl.col("bucket").replace_strict(dict(lease.epochs), default=None, return_dtype=pl.Int64),
        worker=pl.lit(lease.holder),
    )
    rows = checked(ROUNDS, lease, given)
    if rows.is_empty():
        raise ValueError(f"expected a row in rounds for at least one of the buckets {list(lease.buckets)}, found none")

    def decide(opened: deltalake.DeltaTable) -> Change:
        check_fences(lease, opened.transaction_version)
        return Change(rows, of_round(ROUNDS, lease), fences(lease))

    rounds.commit(decide)


def give(opened: DeltaTable, orders: pl.DataFrame, check: Callable[[pl.LazyFrame], None]) -> int:
    """Append orders under the number of their commit, if `check` does not raise at those before."""
    number, rows = 0, ORDERS.empty()

    def decide(found: deltalake.DeltaTable) -> Change | None:
        nonlocal number, rows
        # A former attempt may stand although its answer was lost. (The same order, given at the same time by the same
        # person elsewhere, counts as this one: nothing is lost by that.)
        before = opened.rows(opened.files(found))
        if number and before.filter(order=number).collect().equals(rows):
            return None
        check(before)
        number = found.version() + 1
        rows = ORDERS.frame(orders.with_columns(order=pl.lit(number, pl.Int64)))
        return Change(rows, transactions={"orders": number}, retries=0)

    opened.commit(decide)
    return number


def record(opened: DeltaTable, rows: pl.DataFrame) -> int:
    """Append rows to a log of no round under the number of their commit, which fills the table's first column."""
    column, number = opened.table.column_names[0], 0

    def decide(found: deltalake.DeltaTable) -> Change | None:
        nonlocal number
        told = opened.table.frame(rows.with_columns(pl.lit(number, pl.Int64).alias(column)))
        if number and opened.rows(opened.files(found)).filter(pl.col(column) == number).collect().equals(told):
            return None  # it stands, and the answer was lost
        number = found.version() + 1
        return Change(told.with_columns(pl.lit(number, pl.Int64).alias(column)), retries=0)

    opened.commit(decide)
    return number


def checked(table: Table, lease: Lease, frame: pl.DataFrame) -> pl.DataFrame:
    """Give the frame in the table's order and types, or raise ValueError: it is our own fault then.

    Where rows lie is the lake's own affair: rows of state get the layout of the lease, and part 0 (only a fold deals
    rows out to parts), whatever they bring.
    """
    absent = {"round": pl.lit(lease.round, pl.Int64), "layer": pl.lit("tail")}
    stamps = [value.alias(name) for name, value in absent.items()
              if name in table.column_names and name not in frame.columns]  # fmt: skip
    place = {"layout": pl.lit(lease.layout, pl.Int64), "part": pl.lit(0, pl.Int16)}
    stamps += [value.alias(name) for name, value in place.items() if name in table.column_names]
    frame = frame.with_columns(stamps)
    if dict(frame.schema) != dict(table.schema):
        raise ValueError(
            f"{table.name}: expected the columns {dict(table.schema)}, found {dict(frame.schema)}: "
            "build the frame with Table.frame"
        )
    bucket = owner(table)
    assert bucket is not None  # callers write rows of rounds only
    _expect(table, frame, bucket, list(lease.buckets))
    _expect(table, frame, "round", [lease.round])
    if "layer" in table.column_names:
        _expect(table, frame, "layer", ["tail"])
    if table.kind in ("state", "ledger") and frame.select(table.key).is_duplicated().any():
        raise ValueError(f"{table.name}: expected one row per {table.key}, found several: keep the last one")
    within = [name for name in table.sorted_by if name != "round"]  # all of these rows are of one
    rows = frame.select(table.column_names)
    return rows.sort(within, maintain_order=True) if within else rows


def _expect(table: Table, frame: pl.DataFrame, column: str, values: list[int] | list[str]) -> None:
    others = frame.filter(~pl.col(column).is_in(values).fill_null(value=False))[column].unique()
    if others.len():
        raise ValueError(f"{table.name}: expected {column} to be one of {values}, found also {others.to_list()[:5]}")


def of_round(table: Table, lease: Lease) -> str:
    """Predicate for the rows of this round. Statistics on `round` spare files of other rounds, partitioned or not."""
    layer = f" and layer = 'tail' and layout = {lease.layout}" if "layer" in table.column_names else ""
    return f"{owner(table)} in ({', '.join(map(str, lease.buckets))}) and round = {lease.round}{layer}"


def _may_hold(lease: Lease, table: Table) -> pl.Expr:
    of_round = (pl.col("min_round") <= lease.round) & (pl.col("max_round") >= lease.round)
    return of_round & pl.col("bucket").is_in(lease.buckets) if "bucket" in table.partitioned_by else of_round
