"""A lake that stands still: every bucket held by one, and every link and order that waits taken in.

Decides how buckets are come by and what a round without requests is. Asks no host.

Two things need it: state that is laid out anew, and erasure, which must know that no round is under way. Buckets of a
crawl that runs are taken as its workers give them back; a worker cannot take them again, so that all are held once the
last one has ended.

Invariant: while the lake is held, whatever else commits a round of it is refused.
"""

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import polars as pl

from crawl_pipeline import harvest, patterning, planning
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, HOSTS
from crawl_pipeline.describing import Templates
from crawl_pipeline.fetch.visits import Cut
from crawl_pipeline.lake import Lake, LakeBusy, LakeUnwritable, Lease, LeaseHeld, LeaseLost

CAUGHT_UP_AT_ONCE = 16
"""Buckets that catch up in one round: what waits for them is in memory together."""
LEASE_S = 60.0
"""How long buckets are held by somebody who was killed at upkeep; who lives renews the lease meanwhile."""
RENEWALS = 3
"""Renewals in the time of a lease, so that two may fail."""
LOOK_S = 2.0
"""How often buckets that are held are asked for again."""
NOTHING = Cut([], [], [], [])

Clock = Callable[[], datetime]
Tell = Callable[[str], None]
Sleep = Callable[[float], None]


def now() -> datetime:
    """The time of the machine."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Standstill:
    """The lake under the lease of all its buckets."""

    lake: Lake
    policy: Policy
    """What is in force."""
    clock: Clock
    tell: Tell
    lease: Lease
    lease_s: float

    @classmethod
    def take(
        cls, lake: Lake, policy: Policy, what: str, lease_s: float, *, wait_s: float = 0.0, clock: Clock = now,
        tell: Tell = lambda step: None, sleep: Sleep = time.sleep,
    ) -> "Standstill":  # fmt: skip
        """Take every bucket, those that are held as soon as they are given back; `what` names the holder.

        Raise LeaseHeld, with nothing held, if some are not free after `wait_s`.
        """
        name, began, lease = f"{what}-{_unique()}", clock(), None
        while True:
            lease, held = _more(lake, lease, name, clock(), lease_s)
            if lease is not None and held is None:
                return cls(lake, policy, clock, tell, lease, lease_s)
            assert held is not None  # else all were free
            if clock() >= began + timedelta(seconds=wait_s):
                if lease is not None:
                    lake.release(lease)
                raise held
            tell(f"wait for {len(held.buckets)} of {lake.buckets} buckets, the first held by {held.holder}")
            sleep(LOOK_S)

    def renew(self) -> None:
        """Prolong the lease and begin a new round."""
        self.lease = self.lake.renew(self.lease, self.clock(), self.lease_s)

    def release(self) -> None:
        """Give the buckets back."""
        self.lake.release(self.lease)

    def catch_up(self, *, recount: bool = False) -> None:
        """Admit every link and obey every order that waits, in rounds without requests.

        `recount`: count what hosts and buckets know anew, since rows of the frontier were deleted.
        """
        wanted = self.lease.buckets
        for first in range(0, len(wanted), CAUGHT_UP_AT_ONCE):
            some = wanted[first : first + CAUGHT_UP_AT_ONCE]
            self.tell(f"catch up in {len(some)} of {len(self.lease.buckets)} buckets")
            epochs = {bucket: self.lease.epochs[bucket] for bucket in some}
            self._round(replace(self.lease, buckets=some, epochs=epochs), recount=recount)
            self.renew()

    def _round(self, lease: Lease, *, recount: bool) -> None:
        lake, policy, began = self.lake, self.policy, self.clock()
        counts = _counts(lake, lease) if recount else None
        cursors = planning.read_cursors(lake, lease)
        if counts is not None:
            of_buckets = dict(counts.group_by("bucket").agg(pl.col("known_count").sum()).iter_rows())
            cursors = replace(cursors, known_count={bucket: of_buckets.get(bucket, 0) for bucket in lease.buckets})
        plan = planning.plan(lake, lease, cursors, policy, began, (), {}, seconds=0.0)
        changed = HOSTS.empty() if counts is None else _recounted(plan.hosts, counts)
        plan = replace(plan, hosts=pl.concat([plan.hosts.join(changed, on="host", how="anti"), changed]))
        made = harvest.frames(
            plan, NOTHING, FRONTIER.empty(), CHANGE_FREQUENCY.empty(), lake.buckets, policy, {}, Templates()
        )
        others = changed.join(made["hosts"], on="host", how="anti")
        others = others.with_columns(round=pl.lit(lease.round, pl.Int64), layer=pl.lit("tail"))
        made["hosts"] = pl.concat([made["hosts"], others])
        made |= patterning.rows(lake, plan, NOTHING, made, FRONTIER.empty(), patterning.Learning())
        timings = harvest.Timings(began, self.clock(), (self.clock() - began).total_seconds(), 0.0)
        lake.write_all(lease, made)
        lake.commit(lease, harvest.ledger(plan, NOTHING, {}, made, timings, policy, lake.buckets))


def _counts(lake: Lake, lease: Lease) -> pl.DataFrame:
    """How many URLs each host has, and how many of them are parked."""
    parked = (pl.col("status") == PARKED).sum().cast(pl.Int64)
    rows = lake.scan("frontier", buckets=lease.buckets).group_by("bucket", "host")
    return rows.agg(known_count=pl.len().cast(pl.Int64), parked_count=parked).collect()


def _recounted(hosts: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """The hosts whose counts are others now."""
    found = hosts.join(counts.select("host", pl.exclude("bucket", "host").name.suffix("_now")), on="host", how="left")
    now = {name: pl.col(f"{name}_now").fill_null(0) for name in ("known_count", "parked_count")}
    other = pl.any_horizontal(pl.col(name).fill_null(0) != value for name, value in now.items())
    return found.filter(other).with_columns(**now).select(hosts.columns)


def _more(
    lake: Lake, lease: Lease | None, name: str, at: datetime, lease_s: float
) -> tuple[Lease | None, LeaseHeld | None]:
    """Take what buckets are free beside those of the lease; give that of all, and who holds others."""
    have = lease.buckets if lease else ()
    try:
        taken = lake.claim([b for b in range(lake.buckets) if b not in have], name, at, lease_s, skip_held=True)
    except LeaseHeld as held:
        return (lake.renew(lease, at, lease_s) if lease else None), held
    both = _together(lease, taken)
    if len(both.buckets) == lake.buckets:
        return (lake.renew(both, at, lease_s) if lease else both), None
    rows = lake.leases().filter(~pl.col("bucket").is_in(both.buckets))
    first = rows.sort("deadline_at").row(0, named=True)
    return both, LeaseHeld(rows["bucket"].to_list(), first["worker"], first["deadline_at"] or at)


def _together(one: Lease | None, other: Lease) -> Lease:
    """The lease of the buckets of both, which one holder has."""
    if one is None:
        return other
    epochs = dict(sorted({**one.epochs, **other.epochs}.items()))
    return replace(other, buckets=tuple(epochs), epochs=epochs, crashed={**one.crashed, **other.crashed})


def _unique() -> str:
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


@contextmanager
def renewed(lake: Lake, lease: Lease, clock: Clock) -> Iterator[None]:
    """Renew a lease while a long step is under way."""
    ended = threading.Event()
    beating = threading.Thread(target=renew_until, args=(lake.root, lease, clock, ended), daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()


def renew_until(root: str, lease: Lease, clock: Clock, ended: threading.Event) -> None:
    """Move the deadline of the lease on while a long step is under way; the step itself finds out if it is lost."""
    lake = None
    while not ended.wait(LEASE_S / RENEWALS):
        lake = lake or Lake.open(root)
        try:
            lake.renew(lease, clock(), LEASE_S)
        except LakeBusy:
            continue
        except (LeaseLost, LakeUnwritable):
            return
