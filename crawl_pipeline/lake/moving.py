"""Moving: every row of state is laid out anew for another number of buckets; then one commit makes that number true.

Decides which bucket a host goes to, and in which commits its rows are written. Logs stay as they are: they are history,
and keep the bucket that wrote them.

The rows are written beside those in force, under the number of a layout that nobody reads yet. `adopt` stamps that
number and the new count on `rounds`, in the same commit as the first round of every new bucket. A crash before it
leaves the old layout in force, and rows that a sweep deletes; a crash after it leaves the new one, and the old rows.

Invariant: a row of state is written to exactly one bucket of the new layout; its own round, and so what superseded it,
stay. Counts are powers of two and a bucket is the low bits of a hash, so that a new bucket takes rows from the old ones
with the same low bits only: all others are not even read for it, and a host whose low bits say so does not move.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import deltalake
import polars as pl
import pyarrow as pa

from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import HOSTS, ROUNDS, Table
from crawl_pipeline.lake import folding, layouts, leases, visible, writing
from crawl_pipeline.lake.delta import Change, DeltaTable
from crawl_pipeline.lake.folding import Shape
from crawl_pipeline.lake.layouts import Layout
from crawl_pipeline.lake.leases import Lease, check_fences, fences
from crawl_pipeline.lake.visible import Wanted, committed

BUCKETS_AT_ONCE = 64
"""Buckets that one commit writes at most: each has a file open."""


@dataclass(frozen=True, slots=True)
class Move:
    """From how many buckets to which layout, and for each host where it was and where it goes (`was`, `bucket`)."""

    buckets: int
    to: Layout
    places: pl.DataFrame

    def sources(self, bucket: int) -> list[int]:
        """The old buckets that a new one takes rows from."""
        low = min(self.buckets, self.to.buckets)
        return list(range(bucket % low, self.buckets, low))


def plan(tables: Mapping[str, DeltaTable], buckets: int, to: Layout) -> Move:
    """Say where every host goes."""
    hosts = visible.scan(tables, HOSTS, Wanted()).select("host", "site", was="bucket").collect()
    sites = {site: urls.bucket(site, to.buckets) for site in hosts["site"].unique()}
    moved = hosts.with_columns(bucket=pl.col("site").replace_strict(sites, default=None, return_dtype=pl.Int16))
    low = min(buckets, to.buckets)
    astray = moved.filter(pl.col("bucket") % low != pl.col("was") % low)
    if astray.height:
        raise ValueError(
            f"expected each host in the bucket of its site, found elsewhere {astray['host'].to_list()[:5]}"
        )
    return Move(buckets, to, moved.select("host", "was", "bucket"))


def portions(tables: Mapping[str, DeltaTable], table: Table, move: Move, most: int) -> Iterator[tuple[int, ...]]:
    """New buckets that one commit is to write: of about so many rows together, judged by the files of the old ones."""
    live = visible.files(tables, table, Wanted())
    size = dict(live.group_by("bucket").agg(pl.col("rows").sum()).iter_rows())
    share = max(1, move.to.buckets // move.buckets)
    portion, rows = list[int](), 0
    for bucket in range(move.to.buckets):
        own = sum(size.get(source, 0) for source in move.sources(bucket)) // share
        if portion and (rows + own > most or len(portion) == BUCKETS_AT_ONCE):
            yield tuple(portion)
            portion, rows = [], 0
        portion, rows = [*portion, bucket], rows + own
    yield tuple(portion)


def lay_out(tables: Mapping[str, DeltaTable], table: Table, move: Move, buckets: Sequence[int], shape: Shape) -> None:
    """Write the rows of some new buckets; doing it again replaces them."""

    state, rounds = tables[table.name], tables["rounds"]

    def decide(opened: deltalake.DeltaTable) -> Change:
        # All that Delta is asked for, before its writer asks for rows: it cannot be called from within a write.
        live = layouts.seen(state.files(opened), layouts.at(rounds))
        pairs = committed(rounds, rounds.live(), None, None)
        batches = (batch for bucket in buckets for batch in _bucket(state, live, pairs, move, bucket, shape))
        names = ", ".join(map(str, buckets))
        return Change(
            pa.RecordBatchReader.from_batches(table.empty().to_arrow().schema, batches),
            f"layout = {move.to.number} and bucket in ({names})",
        )

    state.commit(decide)


def _bucket(
    state: DeltaTable, live: pl.DataFrame, pairs: pl.DataFrame, move: Move, bucket: int, shape: Shape
) -> Iterator[pa.RecordBatch]:
    files = live.filter(pl.col("bucket").is_in(move.sources(bucket)))
    hosts = move.places.filter(bucket=bucket).select("host").lazy()
    seen = folding.newest(state, files, pairs)
    place = {"bucket": pl.lit(bucket, pl.Int16), "layout": pl.lit(move.to.number, pl.Int64)}

    def now(where: pl.Expr | None) -> pl.LazyFrame:
        return seen(where).join(hosts, on="host", how="semi").with_columns(**place)

    yield from folding.base_rows(now, state.table, int(files["rows"].sum()), shape)


def rows(tables: Mapping[str, DeltaTable], table: Table, layout: Layout) -> pl.LazyFrame:
    """Rows of a layout, in force or not."""
    opened = tables[table.name]
    return opened.rows(opened.live().filter(pl.col("layout") == layout.number))


def check(tables: Mapping[str, DeltaTable], table: Table, layout: Layout) -> None:
    """Raise ValueError unless the layout has exactly as many rows as readers see now."""
    expected = visible.scan(tables, table, Wanted()).select(pl.len()).collect().item()
    found = rows(tables, table, layout).select(pl.len()).collect().item()
    if expected != found:
        raise ValueError(
            f"{table.name}: expected {expected} rows in the new layout, found {found}: each row needs its host's row "
            "in `hosts`; the old layout stays in force"
        )


def adopt(tables: Mapping[str, DeltaTable], lease: Lease, layout: Layout, frame: pl.DataFrame) -> Lease:
    """Commit the first round of each new bucket, and with it the layout, which has that round's number.

    Give the lease of what buckets are left.

    Raise LeaseLost if somebody took a bucket over.
    """
    leases.extend(tables["leases"], layout.buckets)
    new = replace(lease, buckets=tuple(range(layout.buckets)), round=layout.number)
    given = frame.with_columns(
        epoch=pl.col("bucket").replace_strict(dict(lease.epochs), default=0, return_dtype=pl.Int64),
        worker=pl.lit(lease.holder),
    )
    rows = writing.checked(ROUNDS, new, given)

    def decide(opened: deltalake.DeltaTable) -> Change:
        check_fences(lease, opened.transaction_version)
        return Change(rows, writing.of_round(ROUNDS, new), {**fences(lease), **layout.stamps})

    tables["rounds"].commit(decide)
    kept = {bucket: epoch for bucket, epoch in lease.epochs.items() if bucket < layout.buckets}
    return replace(lease, buckets=tuple(kept), epochs=kept, layout=layout.number)
