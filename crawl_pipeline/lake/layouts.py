"""Layouts: how many buckets the lake has, and which rows of state were written for that number.

Decides nothing; reads and stamps three transaction identifiers of `rounds`: `layout`, `buckets`, `fewest`. Every row of
state carries the number of its layout: 0, or that of the rebucketing that wrote it (see `moving`). Readers see rows of
the layout that is stamped on the version of `rounds` they read, and no others.

Logs keep the bucket that wrote them. Counts are powers of two and a bucket is the low bits of a hash, so that the logs
of a host lie in buckets with the same low bits, as many as the fewest buckets there have ever been tell apart.

Invariant: the identifiers change in one commit, made by a holder of all buckets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import deltalake
import polars as pl

from crawl_pipeline.core.tables import ROUNDS
from crawl_pipeline.lake.delta import Change, DeltaTable, LakeMismatch

NUMBER, BUCKETS, FEWEST = "layout", "buckets", "fewest"
"""Names of the identifiers. (A bucket's own, its fence, is `b` and three or more digits.)"""


@dataclass(frozen=True, slots=True)
class Layout:
    """The number that rows of state carry, the buckets they are spread over, and the fewest there have ever been."""

    number: int
    buckets: int
    fewest: int

    @property
    def stamps(self) -> Mapping[str, int]:
        """What makes it the one in force."""
        return {NUMBER: self.number, BUCKETS: self.buckets, FEWEST: self.fewest}

    def once_in(self, buckets: Sequence[int], most: int) -> tuple[int, ...]:
        """The buckets in which logs of hosts of these buckets may lie, of `most` that a lake can have."""
        if not self.number:
            return tuple(buckets)
        low = {bucket % self.fewest for bucket in buckets}
        return tuple(bucket for bucket in range(most) if bucket % self.fewest in low)


def at(rounds: DeltaTable, version: int | None = None) -> Layout:
    """The layout in force now, or at a version of `rounds`."""
    return _layout(*rounds.stamps((NUMBER, BUCKETS, FEWEST), version))


def with_files(rounds: DeltaTable, version: int | None = None) -> tuple[pl.DataFrame, Layout]:
    """The live files of `rounds` beside the layout of the same version: one look at its log."""
    live, stamps = rounds.live_and_stamps((NUMBER, BUCKETS, FEWEST), version)
    return live, _layout(*stamps)


def of(rounds: deltalake.DeltaTable) -> Layout:
    """The layout in force as this table object sees it."""
    return _layout(*map(rounds.transaction_version, (NUMBER, BUCKETS, FEWEST)))


def _layout(number: int | None, buckets: int | None, fewest: int | None) -> Layout:
    if number is None or buckets is None or fewest is None:
        raise LakeMismatch(
            "expected the bucket count among the transaction identifiers of `rounds`, found none: use the program "
            "version that made this lake, or create a new lake and move the data"
        )
    return Layout(number, buckets, fewest)


def begin(rounds: DeltaTable, buckets: int) -> None:
    """Stamp the first layout of a new lake, unless one is: of several who make the lake, the first one's counts."""
    stamps = Layout(0, buckets, buckets).stamps

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        stamped = opened.transaction_version(NUMBER) is not None
        return None if stamped else Change(ROUNDS.empty(), transactions=stamps)

    rounds.commit(decide)


def expect(buckets: int, found: Layout) -> None:
    """Raise LakeMismatch if the lake has another number of buckets than whoever opened it believes."""
    if found.buckets != buckets:
        raise LakeMismatch(
            f"expected a lake of {buckets} buckets, found {found.buckets}: it was rebucketed since it was opened; open "
            f"it again (for Dagster: set CRAWL_BUCKETS={found.buckets} and reload the definitions)"
        )


def seen(live: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    """The files of a table that belong to the layout: all, unless it is a table of state."""
    return live.filter(pl.col("layout") == layout.number) if "layout" in live.columns else live
