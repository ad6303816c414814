"""Leases: who may write which bucket, until when, and what a late writer is told.

Decides from the rows of `leases` alone; time is handed in. Never waits, never reads other tables.

A lease is free if it was released or its deadline has passed. Taking it adds one to its epoch. The number of the
round it is for is the version of `leases` that the commit made: unique, and larger than every number before.

Invariant: for each bucket the epoch in `leases` only grows, and one holder at most got each epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import deltalake
import polars as pl

from crawl_pipeline.core.tables import LEASES
from crawl_pipeline.lake.delta import Change, DeltaTable


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to some buckets until a deadline, and the number of the round it is for.

    `crashed` names the buckets whose former holder neither released nor renewed, with the deadline that passed: that
    holder may have asked hosts until then without having said so. `layout` is the one its rows of state are written in.
    """

    buckets: tuple[int, ...]
    epochs: Mapping[int, int]
    holder: str
    deadline_at: datetime
    round: int
    crashed: Mapping[int, datetime]
    layout: int = 0


def _spelled(buckets: Sequence[int]) -> str:
    """Bucket numbers as `crawl run --buckets` takes them, such as 0-3,7."""
    first = [n for n in sorted(set(buckets)) if n - 1 not in buckets]
    last = [n for n in sorted(set(buckets)) if n + 1 not in buckets]
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in zip(first, last, strict=True))


class LeaseHeld(Exception):
    """Somebody else holds buckets that were asked for."""

    def __init__(self, buckets: Sequence[int], holder: str, deadline_at: datetime) -> None:
        super().__init__(
            f"expected free buckets, found {_spelled(buckets)} held by {holder!r} until {deadline_at:%F %T} UTC, "
            "which it puts off while it works: wait, stop it, or name other buckets"
        )
        self.buckets = tuple(buckets)
        self.holder = holder
        self.deadline_at = deadline_at


class LeaseLost(Exception):
    """Somebody else took the buckets over after the lease had expired."""

    def __init__(self, buckets: Sequence[int], holder: str) -> None:
        super().__init__(
            f"expected {holder!r} to hold the buckets {list(buckets)}, found them taken over or given back: "
            "stop asking hosts, drop the round and claim again"
        )
        self.buckets = tuple(buckets)
        self.holder = holder


def first_rows(buckets: int) -> pl.DataFrame:
    """Rows of `leases` for a new lake: all free, epoch nought."""
    return LEASES.frame([{"bucket": bucket, "epoch": 0, "released": True} for bucket in range(buckets)])


def fence(bucket: int) -> str:
    """Name under which a bucket's epoch stands in the transaction identifiers of a table."""
    return f"b{bucket:03d}"


def fences(lease: Lease) -> dict[str, int]:
    """The epochs that every commit under this lease carries."""
    return {fence(bucket): epoch for bucket, epoch in lease.epochs.items()}


def check_fences(lease: Lease, stored: Callable[[str], int | None]) -> None:
    """Raise LeaseLost if a larger epoch is stored for one of the buckets."""
    lost = [bucket for bucket, epoch in lease.epochs.items() if (stored(fence(bucket)) or 0) > epoch]
    if lost:
        raise LeaseLost(lost, lease.holder)


def claim(
    leases: DeltaTable, buckets: Sequence[int], count: int, holder: str, now: datetime, lease_s: float, skip_held: bool
) -> Lease:
    """Take the free ones of the buckets in one commit; the lake has `count` of them."""
    claimed = _Claim(tuple(sorted(set(buckets))), holder, now, deadline(now, lease_s), skip_held, {}, {})
    version = leases.commit(lambda opened: claimed.decide(rows_of(leases, opened).filter(pl.col("bucket") < count)))
    assert version is not None  # a claim always writes or raises
    taken = claimed.epochs
    crashed = {bucket: at for bucket, at in claimed.crashed.items() if bucket in taken}
    return Lease(tuple(taken), taken, holder, claimed.deadline_at, version, crashed)


def renew(leases: DeltaTable, lease: Lease, now: datetime, lease_s: float) -> Lease:
    """Move the deadline and take a new round number."""
    until = deadline(now, lease_s)

    def decide(opened: deltalake.DeltaTable) -> Change:
        _own_rows(rows_of(leases, opened), lease)
        return _change(lease.epochs, lease.holder, until, released=False)

    version = leases.commit(decide)
    assert version is not None
    return replace(lease, deadline_at=until, round=version)


def release(leases: DeltaTable, lease: Lease) -> None:
    """Give the buckets back; doing it twice is harmless."""

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        own = _own_rows(rows_of(leases, opened), lease, or_released=True)
        if own["released"].all():
            return None
        return _change(lease.epochs, lease.holder, lease.deadline_at, released=True)

    leases.commit(decide)


def expect_none_held(leases: DeltaTable, now: datetime) -> None:
    """Raise LeaseHeld if anybody holds a bucket."""
    held = leases.read(lambda opened: rows_of(leases, opened)).filter(
        ~pl.col("released") & (pl.col("deadline_at") > now)
    )
    if not held.is_empty():
        last = held.sort("deadline_at").row(-1, named=True)
        raise LeaseHeld(held["bucket"].to_list(), last["worker"], last["deadline_at"])


def extend(leases: DeltaTable, count: int) -> None:
    """Add free rows, so that there is one for each of so many buckets; nobody can claim beyond the lake's own count.

    A bucket that was there before goes on from its last epoch, which the table's identifiers remember.
    """

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        absent = sorted(set(range(count)) - set(rows_of(leases, opened)["bucket"]))
        epochs = [opened.transaction_version(fence(bucket)) or 0 for bucket in absent]
        rows = LEASES.frame(pl.DataFrame({"bucket": absent, "epoch": epochs}).with_columns(released=True))
        return Change(rows, f"bucket in ({', '.join(map(str, absent))})") if absent else None

    leases.commit(decide)


def drop(leases: DeltaTable, count: int) -> None:
    """Delete the rows of buckets beyond the lake's count, which are no more."""

    def decide(opened: deltalake.DeltaTable) -> Change | None:
        beyond = rows_of(leases, opened).filter(pl.col("bucket") >= count)
        return Change(LEASES.empty(), f"bucket >= {count}") if beyond.height else None

    leases.commit(decide)


def deadline(now: datetime, lease_s: float) -> datetime:
    """When a lease taken now ends."""
    if now.utcoffset() != timedelta(0):
        raise ValueError(f"expected `now` in UTC, found {now!r}: pass datetime.now(UTC) or the like")
    return now + timedelta(seconds=lease_s)


def rows_of(leases: DeltaTable, opened: deltalake.DeltaTable) -> pl.DataFrame:
    """The rows of `leases` as this table object sees them."""
    return leases.rows(leases.files(opened)).sort("bucket").collect()


@dataclass(frozen=True, slots=True)
class _Claim:
    """One call of claim. `epochs` holds what the last attempt wrote, to know it again if its answer got lost."""

    buckets: tuple[int, ...]
    holder: str
    now: datetime
    deadline_at: datetime
    skip_held: bool
    epochs: dict[int, int]
    crashed: dict[int, datetime]

    def decide(self, rows: pl.DataFrame) -> Change:
        asked = rows.filter(pl.col("bucket").is_in(self.buckets))
        if asked.height != len(self.buckets) or not self.buckets:
            raise ValueError(f"expected buckets from 0 to {rows.height - 1}, found {list(self.buckets)}")
        found = list(asked.iter_rows(named=True))
        held = [row for row in found if not self._free(row)]
        if held and not (self.skip_held and len(held) < len(found)):
            first = min(held, key=lambda row: row["deadline_at"])
            raise LeaseHeld([row["bucket"] for row in held], first["worker"], first["deadline_at"])
        free = [row for row in found if row not in held]
        for row in free:
            if row["released"]:
                self.crashed.pop(row["bucket"], None)
            elif not self._mine(row):
                self.crashed[row["bucket"]] = row["deadline_at"]
        self.epochs.clear()
        self.epochs.update({row["bucket"]: row["epoch"] + 1 for row in free})
        return _change(self.epochs, self.holder, self.deadline_at, released=False)

    def _free(self, row: dict[str, object]) -> bool:
        until = row["deadline_at"]
        return bool(row["released"]) or (isinstance(until, datetime) and until <= self.now) or self._mine(row)

    def _mine(self, row: dict[str, object]) -> bool:
        bucket, epoch = row["bucket"], row["epoch"]
        tried = isinstance(bucket, int) and self.epochs.get(bucket) == epoch
        return tried and row["worker"] == self.holder and row["deadline_at"] == self.deadline_at


def _own_rows(rows: pl.DataFrame, lease: Lease, or_released: bool = False) -> pl.DataFrame:
    asked = rows.filter(pl.col("bucket").is_in(lease.buckets))
    epochs = pl.DataFrame({"bucket": list(lease.epochs), "own": list(lease.epochs.values())},
                          schema={"bucket": pl.Int16, "own": pl.Int64})  # fmt: skip
    lost = asked.join(epochs, on="bucket").filter(
        (pl.col("epoch") != pl.col("own"))
        | (pl.col("worker") != lease.holder)
        | (pl.col("released") & pl.lit(not or_released))
    )
    if lost.height:
        raise LeaseLost(lost["bucket"].to_list(), lease.holder)
    return asked


def _change(epochs: Mapping[int, int], holder: str, until: datetime, *, released: bool) -> Change:
    rows = LEASES.frame(
        [{"bucket": bucket, "epoch": epoch, "worker": holder, "deadline_at": until, "released": released}
         for bucket, epoch in epochs.items()]
    )  # fmt: skip
    return Change(
        rows, f"bucket in ({', '.join(map(str, epochs))})", {fence(bucket): at for bucket, at in epochs.items()}
    )
