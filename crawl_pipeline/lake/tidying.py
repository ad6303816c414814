"""Tidying: small files of a log are rewritten as one sorted file per partition, so that reading it stays cheap.

Decides which files from the log's statistics. Never changes what a reader sees, and leaves the newest files alone:
their rounds may still be written.

Delta's own compaction is not used. Two of them at once both stand and double every row (deltalake 1.6.6: the files
they remove count as merely moved, in the check for conflicts). This is an overwrite like any other: it replaces the
rows of a range of rounds by the same rows, and collides with whatever touched them meanwhile.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import deltalake
import polars as pl
import pyarrow as pa

from crawl_pipeline.lake.delta import Change, DeltaTable


@dataclass(frozen=True, slots=True)
class Crowd:
    """A partition with too many small files: its values, and the rounds to rewrite."""

    partition: tuple[tuple[str, int | str], ...]
    first_round: int
    last_round: int

    def predicate(self) -> str:
        """Which rows to replace."""
        values = [f"{name} = {value!r}" for name, value in self.partition]
        return " and ".join([*values, f"round >= {self.first_round}", f"round <= {self.last_round}"])


def tidy(opened: DeltaTable, buckets: Sequence[int] | None, files: int, size: int) -> bool:
    """Rewrite the small files of every partition that has more than `files` of them; say if there was one."""

    def decide(found: deltalake.DeltaTable) -> Change | None:
        live = opened.files(found)
        crowds = crowded(live, opened.table.partitioned_by, buckets, files, size)
        if not crowds:
            return None
        batches = (batch for crowd in crowds for batch in _rows(opened, live, crowd))
        return Change(
            pa.RecordBatchReader.from_batches(opened.table.empty().to_arrow().schema, batches),
            " or ".join(f"({crowd.predicate()})" for crowd in crowds),
            {"tidy": found.version() + 1},
        )

    if opened.commit(decide) is None:
        return False
    opened.checkpoint()  # so that opening forgets the small files
    return True


def crowded(
    live: pl.DataFrame, partitioned_by: Sequence[str], buckets: Sequence[int] | None, files: int, size: int
) -> list[Crowd]:
    """Choose the partitions that have more than `files` files below `size` bytes, and of each all but the newest."""
    small = live.filter(pl.col("size") < size)
    if buckets is not None and "bucket" in partitioned_by:
        small = small.filter(pl.col("bucket").is_in(buckets))
    groups = small.partition_by(partitioned_by, as_dict=True) if partitioned_by else {(): small}
    chosen = {
        values: group.sort("max_round").head(-max(1, files // 4))
        for values, group in sorted(groups.items())
        if group.height > files
    }
    return [
        Crowd(tuple(zip(partitioned_by, values, strict=True)), *_range(group))
        for values, group in chosen.items()
        if group.height > 1
    ]


def _range(chosen: pl.DataFrame) -> tuple[int, int]:
    return chosen.select(pl.col("min_round").min(), pl.col("max_round").max()).row(0)


def _rows(opened: DeltaTable, live: pl.DataFrame, crowd: Crowd) -> Iterator[pa.RecordBatch]:
    """Give every row the predicate covers, also those in files that were not chosen."""
    touched = live.filter(
        pl.all_horizontal(pl.lit(value=True), *(pl.col(name) == value for name, value in crowd.partition))
    )
    for first, last in _pieces(opened, touched, crowd):
        files = touched.filter((pl.col("min_round") <= last) & (pl.col("max_round") >= first))
        rows = opened.rows(files).filter(pl.col("round").is_between(first, last))
        found = rows.sort(opened.table.sorted_by, maintain_order=True).collect()
        yield from found.rechunk().to_arrow().to_batches()


def _pieces(opened: DeltaTable, live: pl.DataFrame, crowd: Crowd) -> list[tuple[int, int]]:
    """Ranges of rounds to be held in memory at a time: all, or one by one if the table is in the order of rounds."""
    first, last = crowd.first_round, crowd.last_round
    if opened.table.sorted_by[0] != "round":
        return [(first, last)]
    among = live.filter((pl.col("min_round") <= last) & (pl.col("max_round") >= first))
    rounds = opened.rows(among).select("round").filter(pl.col("round").is_between(first, last)).unique().collect()
    return [(number, number) for number in rounds["round"].sort()]
