"""What a plan sees of the lake: one set of table versions, the leased buckets, how far the logs were read before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from crawl_pipeline.lake import Lake, Lease


@dataclass(frozen=True, slots=True)
class Cursors:
    """How far the logs have been read, per leased bucket."""

    links_seen: Mapping[int, list[int]]
    orders_seen: Mapping[int, int]
    known_count: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier plan saw: table versions, and how far it read the logs; later rows of them do not count."""

    at: Mapping[str, int]
    until: Cursors


@dataclass(frozen=True, slots=True)
class Sight:
    """The lake as one plan sees it: every scan reads the versions that were current when it began."""

    lake: Lake
    lease: Lease
    at: Mapping[str, int]
    now: datetime
    until: Cursors | None = None
    """How far the logs may be read; None: to their ends."""

    def rows(
        self, table: str, where: pl.Expr | None = None, url_hashes: pl.Series | None = None,
        parts: Sequence[int] | None = None,
    ) -> pl.LazyFrame:  # fmt: skip
        """Rows of a table for the leased buckets, of all parts or some."""
        return self.lake.scan(
            table, buckets=self.lease.buckets, where=where, at=self.at, url_hashes=url_hashes, parts=parts
        )


def read_cursors(lake: Lake, lease: Lease, at: Mapping[str, int] | None = None) -> Cursors:
    """Where each leased bucket stands, from its last committed round, or stood at these versions."""
    last = lake.scan("rounds", buckets=lease.buckets, at=at).sort("round").group_by("bucket").last().collect()
    rows = {row["bucket"]: row for row in last.iter_rows(named=True)}
    nowhere = [0] * lake.buckets
    return Cursors(
        {b: list(rows[b]["links_seen"]) if b in rows else list(nowhere) for b in lease.buckets},
        {b: rows[b]["orders_seen"] if b in rows else -1 for b in lease.buckets},
        {b: rows[b]["known_count"] if b in rows else 0 for b in lease.buckets},
    )
