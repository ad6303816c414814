"""What a reader may see: rows of committed rounds, and of a state table the newest row per key in the layout in force.

Reads only. Files are chosen from the log's statistics before any is opened; the rest is left to the lazy frame, so
that columns and filters reach the Parquet reader.

Invariant: `rounds` is read before the table it judges. Rows are written before their round is committed, so every
row of a round found there is found in the table as well.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from crawl_pipeline.core.tables import Table
from crawl_pipeline.lake import keyed, layouts
from crawl_pipeline.lake.delta import DeltaTable
from crawl_pipeline.lake.layouts import Layout


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows a reader asks for."""

    buckets: tuple[int, ...] | None = None
    where: pl.Expr | None = None
    since: int | None = None  # only rounds after this one
    among: int | None = None  # the number of buckets that `buckets` is meant for, unless `at` says when
    at: Mapping[str, int] | None = None  # table versions
    url_hashes: pl.Series | None = None  # only rows of these URLs
    parts: Collection[int] | None = None  # of a base
    files: Collection[str] | None = None  # only rows in these


def owner(table: Table) -> str | None:
    """Column naming the bucket whose round wrote a row; None where rows belong to no round."""
    return next((name for name in ("source_bucket", "bucket") if name in table.column_names), None)


def addressee(table: Table) -> str | None:
    """Column naming the bucket a row is for."""
    return next((name for name in ("target_bucket", "bucket") if name in table.column_names), None)


def scan(tables: Mapping[str, DeltaTable], table: Table, wanted: Wanted) -> pl.LazyFrame:
    """Give the visible rows."""
    if table.kind == "derived" and "layer" in table.column_names:
        return _derived(tables[table.name], wanted)
    if table.kind in ("derived", "ledger", "control") or owner(table) is None:
        return _plain(tables[table.name], wanted)
    if table.kind == "state":
        return _state(tables, table, wanted)
    return _log(tables, table, _live(tables["rounds"], Wanted(at=wanted.at)), wanted)  # before the table: see above


def files(tables: Mapping[str, DeltaTable], table: Table, wanted: Wanted) -> pl.DataFrame:
    """Give the live files of a table in the layout in force."""
    if "layout" not in table.column_names:  # of no layout, or of any
        return _live(tables[table.name], wanted)
    return _in_force(tables, table, wanted)[2]


def _in_force(
    tables: Mapping[str, DeltaTable], table: Table, wanted: Wanted
) -> tuple[pl.DataFrame, Layout, pl.DataFrame]:
    """The files of `rounds`, the layout in force, and the table's files in it."""
    at = None if wanted.at is None else wanted.at["rounds"]
    rounds, layout = layouts.with_files(tables["rounds"], at)  # before the table: see above
    live = layouts.seen(_live(tables[table.name], wanted), layout)
    if at is None and layouts.at(tables["rounds"]) != layout:  # rebucketed, and may be swept, between the two looks
        return _in_force(tables, table, wanted)
    return rounds, layout, live


def committed(rounds: DeltaTable, live: pl.DataFrame, buckets: Sequence[int] | None, after: int | None) -> pl.DataFrame:
    """Give the (bucket, round) pairs of committed rounds. A file of one round is known without opening it."""
    wanted = live.lazy()
    if buckets is not None:
        wanted = wanted.filter(pl.col("bucket").is_in(buckets))
    if after is not None:
        wanted = wanted.filter(pl.col("max_round") > after)
    single = pl.col("min_round") == pl.col("max_round")
    known = wanted.filter(single).select("bucket", round="min_round").unique()
    merged, pairs = pl.collect_all([wanted.filter(~single), known])
    if merged.is_empty():
        return pairs
    return pl.concat([pairs, rounds.rows(merged).select("bucket", "round").collect()]).unique()


def overlay(
    base: pl.LazyFrame, tail: pl.LazyFrame, key: Sequence[str], where: pl.Expr | None = None, by: str = "round"
) -> pl.LazyFrame:
    """Lay the newest tail row of each key over the base; `by` says which is newer.

    A superseded row stays hidden even if the row that superseded it does not satisfy `where`: the newest round of
    each key is found among all rows of the tail, from key and round alone, and only then does `where` choose.
    """
    newest = tail.group_by(key).agg(pl.col(by).max())
    kept = (base if where is None else base.filter(where)).join(newest, on=list(key), how="anti")
    fresh = (tail if where is None else tail.filter(where)).join(newest, on=[*key, by], how="semi")
    return pl.concat([kept, fresh])


def of_rounds(rows: pl.LazyFrame, bucket: str, rounds: pl.DataFrame) -> pl.LazyFrame:
    """Keep rows of the given (bucket, round) pairs."""
    return rows.join(rounds.lazy(), left_on=[bucket, "round"], right_on=["bucket", "round"], how="semi")


def _state(tables: Mapping[str, DeltaTable], table: Table, wanted: Wanted) -> pl.LazyFrame:
    if wanted.since is not None:
        raise ValueError(f"expected no `since` for the state table {table.name}: filter its `round` column instead")
    rounds, layout, live = _in_force(tables, table, wanted)
    if wanted.buckets is not None and wanted.among is not None and wanted.at is None:
        layouts.expect(wanted.among, layout)
    state = tables[table.name]
    base, tails = live.filter(pl.col("layer") == "base"), live.filter(pl.col("layer") == "tail")
    if wanted.parts is not None:
        base = base.filter(pl.col("part").is_in(wanted.parts))
    if tails.is_empty():
        rows = _rows(state, base, wanted)
        return rows if wanted.where is None else rows.filter(wanted.where)
    pairs = committed(tables["rounds"], rounds, wanted.buckets, _before(tails))
    tail = of_rounds(state.rows(tails), "bucket", pairs)
    if wanted.url_hashes is not None:  # before the overlay, which a row of any state must enter: keys are URLs
        tail = tail.filter(keyed.among(wanted.url_hashes))
    return overlay(_rows(state, base, wanted), tail, table.key, wanted.where)


def _derived(opened: DeltaTable, wanted: Wanted) -> pl.LazyFrame:
    """The newest row of each page that is in a cluster. One commit writes all of a clustering, so no row is early."""
    live = _live(opened, wanted)
    base, tails = live.filter(pl.col("layer") == "base"), live.filter(pl.col("layer") == "tail")
    tail = opened.rows(tails)
    based, key = _rows(opened, base, wanted), list(opened.table.key)
    if wanted.url_hashes is not None:
        tail = tail.filter(keyed.among(wanted.url_hashes))
    if wanted.where is not None:  # else the newest of every page is found, though few ever were what is asked for
        ever = pl.concat([rows.filter(wanted.where).select(key) for rows in (based, tail)])
        tail = tail.join(ever, on=key, how="semi")
    newest = overlay(based, tail, key, wanted.where, by="clustering")
    return newest.filter(pl.col("cluster_id").is_not_null())


def _log(tables: Mapping[str, DeltaTable], table: Table, rounds: pl.DataFrame, wanted: Wanted) -> pl.LazyFrame:
    writer = owner(table)
    assert writer is not None  # `scan` sends only rows of rounds here
    live = _live(tables[table.name], wanted)
    after = _before(live) if wanted.since is None else wanted.since
    pairs = committed(tables["rounds"], rounds, wanted.buckets if writer == addressee(table) else None, after)
    return _narrow(of_rounds(_rows(tables[table.name], live, wanted), writer, pairs), table, wanted)


def _plain(opened: DeltaTable, wanted: Wanted) -> pl.LazyFrame:
    return _narrow(_rows(opened, _live(opened, wanted), wanted), opened.table, wanted)


def _rows(opened: DeltaTable, live: pl.DataFrame, wanted: Wanted) -> pl.LazyFrame:
    if wanted.url_hashes is None:
        return opened.rows(live)
    return keyed.rows(opened, live, wanted.url_hashes, wanted.where)


def _live(opened: DeltaTable, wanted: Wanted) -> pl.DataFrame:
    live = opened.live(None if wanted.at is None else wanted.at[opened.table.name])
    asked = []
    if wanted.files is not None:
        asked.append(pl.col("uri").is_in(list(wanted.files)))
    if wanted.buckets is not None and "bucket" in live.columns:
        asked.append(pl.col("bucket").is_in(wanted.buckets))
    if wanted.since is not None and "max_round" in live.columns:
        asked.append(pl.col("max_round") > wanted.since)
    return live.filter(*asked) if asked else live


def _narrow(rows: pl.LazyFrame, table: Table, wanted: Wanted) -> pl.LazyFrame:
    bucket = addressee(table)
    if wanted.buckets is not None and bucket is not None:
        rows = rows.filter(pl.col(bucket).is_in(wanted.buckets))
    if wanted.since is not None and "round" in table.column_names:
        rows = rows.filter(pl.col("round") > wanted.since)
    return rows if wanted.where is None else rows.filter(wanted.where)


def _before(live: pl.DataFrame) -> int | None:
    oldest = live["min_round"].min()
    return oldest - 1 if isinstance(oldest, int) else None
