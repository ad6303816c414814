"""The tables of a ranking: which one is in force, how far it read, and how it is committed.

Decides nothing about ranks. `ranks` is written as a whole in one commit, with its number, the layout whose buckets it
names and how far it read each bucket's rounds, made from the very version in which the number before was found. So a
ranking exists as a whole or not at all, and of two at once the later is refused (`Overtaken`). What it says of hosts
follows, table by table; if that was cut short the next one does it, be there news or not.

Invariant: the number grows by one with each ranking; `host_ranks` and `host_graph` are of it or of an earlier one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import deltalake
import polars as pl

from crawl_pipeline.lake.delta import Change, DeltaTable
from crawl_pipeline.lake.layouts import Layout
from crawl_pipeline.lake.numbered import commit_next

NUMBER, LAYOUT = "ranking", "layout"
"""Names of the identifiers. How far a bucket was read is `read-` and its number."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """A ranking: its number, 0 if there was none, the layout of its buckets, and the last round it read of each."""

    number: int
    layout: int
    seen: Mapping[int, int]


def standing(ranks: DeltaTable, buckets: Sequence[int], version: int | None = None) -> Ranking:
    """The ranking in force now, or at a version of `ranks`."""
    names = [f"read-{bucket}" for bucket in buckets]
    number, layout, *read = ranks.read(
        lambda opened: [opened.transaction_version(name) for name in (NUMBER, LAYOUT, *names)], version
    )
    return Ranking(number or 0, layout or 0, {b: to for b, to in zip(buckets, read, strict=True) if to is not None})


def commit(
    ranks: DeltaTable, before: Ranking, rows: pl.DataFrame, seen: Mapping[int, int], layout: Layout
) -> Ranking:  # fmt: skip
    """Put a new ranking in the place of the last one; raise Overtaken if that is not the one it began with."""
    whole = _numbered(ranks, rows, before.number + 1)
    stamps = {LAYOUT: layout.number, **{f"read-{bucket}": to for bucket, to in seen.items()}}
    number = commit_next(ranks, NUMBER, before.number, whole, stamps, replaces="ranking >= 0")
    return Ranking(number, layout.number, {**before.seen, **seen})


def told(table: DeltaTable) -> int:
    """The ranking that a table of hosts is of."""
    return table.read(lambda opened: opened.transaction_version(NUMBER) or 0)


def tell(table: DeltaTable, number: int, rows: pl.DataFrame) -> None:
    """Write what a ranking says of hosts, unless a later one has."""
    whole = _numbered(table, rows, number)

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        if (opened.transaction_version(NUMBER) or 0) >= number:
            return None
        return Change(whole, "ranking >= 0", {NUMBER: number}, retries=0)

    table.commit(decide)


def _numbered(table: DeltaTable, rows: pl.DataFrame, number: int) -> pl.DataFrame:
    frame = table.table.frame(rows.with_columns(ranking=pl.lit(number, pl.Int64)))
    return frame.sort(table.table.sorted_by)
