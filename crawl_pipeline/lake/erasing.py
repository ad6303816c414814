"""Erasing: rows are rewritten without what must vanish; then old files go at once, and the log with its statistics.

Decides nothing about which rows those are. For whoever holds every bucket, so that no round is under way: its files
are not in the log yet, and a reader's old version loses its files here. That ends the week in which a version can be
read again, for the tables that are erased from and no others.

* A rewriting is an overwrite like any other and collides with whatever touched the same rows. Its predicate names
  partitions and rounds, never what is erased: it stands in the log.
* Files that no version uses any more go, and strays of writers that were killed. Where a writer may still be at work
  that holds no bucket, as at clusters and orders, strays of the last hour stay; so do they everywhere if a holder
  vanished, for it may come back.
* The log is cut before its newest version, since older entries have the least and greatest host and hash of each file.

Invariant: at every moment a reader of the newest version finds all files of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import deltalake
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from crawl_pipeline.core.tables import CONTENTS, Table
from crawl_pipeline.lake.delta import Change, DeltaTable

ROWS = 500_000
"""Rows that are rewritten at a time: bounds memory. Of bodies, those of one round."""
SETTLED = timedelta(hours=1)
"""How old a file without a commit is that nobody is about to commit any more."""
ERASED = "erased"
LOG = "_delta_log"
_NUMBERS = ("round", "clustering", "ranking", "order")


class Cut(Protocol):
    """What is cut out of tables."""

    def gone(self, table: Table, /) -> pl.Expr:
        """Rows of a table that vanish."""
        ...

    def touched(self, table: Table, /) -> pl.Expr:
        """Rows of a table that vanish or lose something."""
        ...

    def left(self, rows: pl.DataFrame, table: Table, /) -> pl.DataFrame:
        """The rows as they are afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What a rewriting did to one table: rows that vanished, and rows that lost something."""

    gone: int
    changed: int


def rewrite(opened: DeltaTable, cut: Cut) -> Rewritten:
    """Write the touched rows anew, without what is cut out."""
    done = Rewritten(0, 0)

    def decide(found: deltalake.DeltaTable) -> Change | None:
        nonlocal done
        live = opened.files(found)
        number = _number(opened.table)
        place = [*opened.table.partitioned_by, *([] if number is None else [number]), "_all"]
        rows = opened.rows(live).with_columns(_all=pl.lit(value=True))
        if opened.table.kind == "control":
            return None  # says nothing of pages
        hits = rows.filter(cut.touched(opened.table)).group_by(place).agg(
            gone=cut.gone(opened.table).sum(), touched=pl.len()
        ).collect(engine="streaming")  # fmt: skip
        if hits.is_empty():
            return None
        lost = int(hits["gone"].sum())
        done = Rewritten(lost, int(hits["touched"].sum()) - lost)
        sizes = rows.select(place).join(hits.lazy(), on=place, how="semi", nulls_equal=True).group_by(place).len()
        portions = list(_portions(opened.table, sizes.collect(engine="streaming")))
        batches = (batch for portion in portions for batch in _left(opened, live, portion, cut))
        return Change(
            pa.RecordBatchReader.from_batches(opened.table.empty().to_arrow().schema, batches),
            " or ".join(f"({portion.predicate()})" for portion in portions),
        )

    opened.commit(decide)
    return done


@dataclass(frozen=True, slots=True)
class _Portion:
    """Some rounds of a partition: what is rewritten in one piece; of a table without such numbers, all of it."""

    partition: Mapping[str, int | str]
    number: str | None
    rounds: tuple[int, ...]

    def predicate(self) -> str:
        values = [f'"{name}" = {value!r}' for name, value in self.partition.items()]
        numbers = [] if self.number is None else [f'"{self.number}" in ({", ".join(map(str, self.rounds))})']
        return " and ".join([*values, *numbers]) or "true"

    def rows(self) -> pl.Expr:
        values = [pl.col(name) == value for name, value in self.partition.items()]
        numbers = [] if self.number is None else [pl.col(self.number).is_in(self.rounds)]
        return pl.all_horizontal(pl.lit(value=True), *numbers, *values)


def _number(table: Table) -> str | None:
    """The round, or what stands for it."""
    return next((name for name in _NUMBERS if name in table.column_names), None)


def _portions(table: Table, sizes: pl.DataFrame) -> Iterator[_Portion]:
    partition, number = list(table.partitioned_by), _number(table)
    most = 1 if table is CONTENTS else ROWS
    for values, group in sorted((sizes.partition_by(partition, as_dict=True) if partition else {(): sizes}).items()):
        where = dict(zip(partition, values, strict=True))
        if number is None:
            yield _Portion(where, None, ())
            continue
        ordered = group.sort(number).with_columns(part=(pl.col("len").cum_sum() - 1) // most)
        for (_,), rounds in sorted(ordered.partition_by("part", as_dict=True).items()):
            yield _Portion(where, number, tuple(rounds[number]))


def _left(opened: DeltaTable, live: pl.DataFrame, portion: _Portion, cut: Cut) -> list[pa.RecordBatch]:
    there = [pl.col(name) == value for name, value in portion.partition.items()]
    files = live.filter(pl.all_horizontal(pl.lit(value=True), *there))
    rows = opened.rows(files).filter(portion.rows()).collect()
    left = cut.left(rows, opened.table).select(opened.table.column_names)
    ordered = left.sort(opened.table.sorted_by, maintain_order=True) if opened.table.sorted_by else left
    return list(ordered.rechunk().to_arrow().to_batches())


# What is no longer used.


@dataclass(frozen=True, slots=True)
class Deleted:
    """Files that were deleted and their bytes, and files that are left since somebody may be about to commit them."""

    files: int
    bytes: int
    left: int


def drop_files(opened: DeltaTable, now: datetime, *, at_rest: bool) -> Deleted:
    """Delete all files that are not of the newest version, then all of the log that is older than that.

    `at_rest`: nobody can be about to commit a file.
    """
    opened.read(lambda found: found.vacuum(0, dry_run=False, enforce_retention_duration=False))
    opened.commit(lambda found: Change(opened.table.empty(), transactions={ERASED: found.version() + 1}))
    before = opened.checkpoint()
    store = opened.store()
    live = {uri.removeprefix(opened.uri + "/") for uri in opened.live(before)["uri"]}
    others = [file for file in listed(store) if not file.path.startswith(LOG) and file.path not in live]
    gone = [file for file in others if at_rest or file.mtime is None or file.mtime < now - SETTLED]
    for file in gone:
        store.delete_file(file.path)
    old = [file for file in listed(store, LOG) if _version(file.path) < before]
    for file in old:
        store.delete_file(file.path)
    every = [*gone, *old]
    return Deleted(len(every), sum(file.size or 0 for file in every), len(others) - len(gone))


def listed(store: fs.FileSystem, folder: str = "") -> list[fs.FileInfo]:
    """Every file in a folder and below."""
    found = store.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    return [file for file in found if file.type == fs.FileType.File]


def _version(path: str) -> float:
    """The version that a file of the log is of; those of none stay."""
    name = path.rpartition("/")[2].partition(".")[0]
    return int(name) if name.isdigit() else float("inf")


def rows_in(store: fs.FileSystem, path: str) -> Iterator[pl.DataFrame]:
    """The rows that a Parquet file holds, some at a time: all of them, whatever the log says."""
    with store.open_input_file(path) as content:
        for batch in pq.ParquetFile(content).iter_batches(batch_size=8_192):
            yield pl.DataFrame(pl.from_arrow(batch))
