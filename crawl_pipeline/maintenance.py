"""Maintenance: keep a lake small. If nobody is at work, erase what was ordered to be forgotten and delete what was kept
long enough; fold state, join small files, sweep rows that nobody sees, delete old files.

Decides the order and what is left alone; how each is done safely is the lake's. Never asks a host, never waits for a
bucket: those that are held, or were left behind by a worker that vanished, are passed over and named. (Who takes over
after a worker must let hosts rest from the end of that worker's lease, and only another worker remembers that.)

Invariant: every visible row is the same before and after, and between any two steps, but for pages that become orphans
and back (`orphaning`; only if a policy is given, which says when they are visited), and for contents that were stored
twice, of which all pages then name the first. Each step is one commit, or two that may be a day apart, so that a
maintenance that is killed leaves a lease which runs out and nothing else; the next one may take that over.
"""

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from crawl_pipeline import erasing, ordering, orphaning, retaining
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import Table
from crawl_pipeline.erasing import Erased
from crawl_pipeline.lake import WEEK, Lake, Lease, LeaseHeld, LeaseLost, Overtaken, Size, check_retention
from crawl_pipeline.retaining import Retained
from crawl_pipeline.standstill import LEASE_S, renewed

SMALL_FILES = 8
"""Small files of a log's partition that are left alone: they cost a reader less than rewriting them every day."""
SETTLED = timedelta(days=1)
"""For how long the copies of a content must have been committed before all but the first are dropped."""
NOTHING_ERASED, NOTHING_RETAINED = Erased(()), Retained()
HOLDER = "maintenance-"
"""How the name of a maintenance begins in `leases`."""

Tell = Callable[[str], None]
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A bucket that was left alone, whose it is, and until when."""

    bucket: int
    worker: str
    deadline_at: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    """What was done to one table."""

    table: str
    before: Size
    after: Size
    swept: int = 0
    folded: int = 0
    tidied: bool = False
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Maintained:
    """What a maintenance did: its buckets, those it passed over, and each table before and after."""

    buckets: tuple[int, ...]
    passed_over: tuple[PassedOver, ...]
    tables: tuple[Kept, ...]
    orphans: int = 0
    linked_again: int = 0
    doubles: int = 0
    erased: Erased = NOTHING_ERASED
    retained: Retained = NOTHING_RETAINED
    waits_for: str | None = None

    @property
    def idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (
            self.orphans or self.linked_again or self.doubles or self.erased.orders or self.retained.tables
        ) and not any(kept.swept or kept.folded or kept.tidied or kept.deleted for kept in self.tables)

    def figures(self) -> dict[str, Any]:
        """The same as plain values, with sums over the tables."""
        sums = {
            f"{name}_{when}": sum(getattr(getattr(kept, when), name) for kept in self.tables)
            for name in ("files", "bytes", "rows") for when in ("before", "after")
        }  # fmt: skip
        did = {name: sum(getattr(kept, name) for kept in self.tables) for name in ("swept", "folded", "deleted")}
        return asdict(self) | {
            "erased": self.erased.figures(),
            "retained": self.retained.figures(),
            "total": sums | did,
        }


@dataclass(slots=True)
class _Done:
    """What has been done to one table so far."""

    swept: int = 0
    folded: int = 0
    tidied: bool = False
    deleted: int = 0


def _now() -> datetime:
    return datetime.now(UTC)


def maintain(
    lake: Lake, policy: Policy | None = None, *, hours: int = WEEK, orphans: bool = True, clock: Clock = _now,
    tell: Tell = lambda step: None,
) -> Maintained:  # fmt: skip
    """Do all there is to do; `tell` hears of each step before it is done. Without a policy, which is what the policy
    file says, nothing is erased or deleted by its age, and orphans are not looked for.

    Raise LeaseHeld if another maintenance is at work, RetentionTooShort if `hours` is less than a week.
    """
    check_retention(hours)
    rules = None if policy is None else ordering.policy_in_force(lake, policy)
    names = tuple(lake.tables)
    before = {name: lake.size(name) for name in names}
    erased, retained, waits_for = _kept(lake, policy, clock, tell)
    done, turned, doubles = {name: _Done() for name in names}, (0, 0), 0
    with _leased(lake, clock) as lease:
        passed_over = _passed_over(lake, lease)
        if lease is not None:
            if rules is not None and orphans:
                tell("frontier: look for orphans")
                turned = orphaning.find(lake, lake.renew(lease, clock(), LEASE_S), rules, clock())
            tell("contents: drop what was stored twice")
            doubles = lake.drop_doubles(clock() - SETTLED)
            _under_lease(lake, lease, clock, tell, done)
    tell("clusters: fold")
    done["clusters"].folded += lake.fold_clusters(least=1, most=0)
    for name in names:
        tell(f"{name}: delete old files")
        done[name].deleted = lake.vacuum(name, hours)
        tell(f"{name}: trim the log")
        lake.trim_log(name)
    tables = tuple(Kept(name, before[name], lake.size(name), **asdict(done[name])) for name in names)
    return Maintained(lease.buckets if lease else (), passed_over, tables, *turned, doubles, erased, retained,
                      waits_for)  # fmt: skip


def _kept(lake: Lake, policy: Policy | None, clock: Clock, tell: Tell) -> tuple[Erased, Retained, str | None]:
    """Carry out open orders to forget, and delete what has been kept long enough; or say who is in the way."""
    erased = NOTHING_ERASED
    if policy is None:
        waiting = erasing.open_orders(lake).height
        return erased, NOTHING_RETAINED, f"expected a policy file, found none: {waiting} orders" if waiting else None
    try:
        erased = erasing.erase(lake, policy, clock=clock, tell=tell)
        return erased, retaining.retain(lake, policy, clock=clock, tell=tell), None
    except (LeaseHeld, Overtaken) as held:
        return erased, NOTHING_RETAINED, str(held)


def _under_lease(lake: Lake, lease: Lease, clock: Clock, tell: Tell, done: dict[str, _Done]) -> None:
    for table in filter(_of_rounds, lake.tables.values()):
        lease = lake.renew(lease, clock(), LEASE_S)
        did = done[table.name]
        if table.kind != "ledger":
            tell(f"{table.name}: sweep")
            did.swept = lake.sweep(lease, table)
        if table.kind == "state":
            tell(f"{table.name}: fold")
            did.folded = len(lake.fold(lease, table, share=0, rounds=0, least=1))
        else:
            tell(f"{table.name}: join small files")
            did.tidied = lake.tidy(table, buckets=(*lease.buckets, *lake.gone), files=SMALL_FILES)


def _of_rounds(table: Table) -> bool:
    return table.kind in ("log", "state", "ledger") and "round" in table.column_names


@contextmanager
def _leased(lake: Lake, clock: Clock) -> Iterator[Lease | None]:
    """Hold the buckets that are free, or nothing if none is."""
    lease = _claim(lake, clock())
    if lease is None:
        yield None
        return
    try:
        with renewed(lake, lease, clock):
            yield lease
    finally:
        with suppress(LeaseLost):  # whoever took over needs no word from us
            lake.release(lease)


def _claim(lake: Lake, now: datetime) -> Lease | None:
    _refuse_second(lake, now)
    ours = pl.col("worker").str.starts_with(HOLDER) & (pl.col("deadline_at") <= now)
    free = lake.leases().filter(pl.col("released") | ours)["bucket"].to_list()
    name = f"{HOLDER}{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        return lake.claim(free, name, now, LEASE_S, skip_held=True) if free else None
    except LeaseHeld:
        _refuse_second(lake, now)  # it may have been as quick as we were
        return None


def _refuse_second(lake: Lake, now: datetime) -> None:
    """Raise LeaseHeld if another maintenance holds buckets."""
    held = lake.leases().filter(~pl.col("released") & pl.col("worker").str.starts_with(HOLDER))
    held = held.filter(pl.col("deadline_at") > now).sort("deadline_at")
    if held.height:
        first = held.row(0, named=True)
        raise LeaseHeld(held["bucket"].to_list(), first["worker"], first["deadline_at"])


def _passed_over(lake: Lake, lease: Lease | None) -> tuple[PassedOver, ...]:
    ours = lease.buckets if lease else ()
    others = lake.leases().filter(~pl.col("released") & ~pl.col("bucket").is_in(ours))
    return tuple(PassedOver(**row) for row in others.select("bucket", "worker", "deadline_at").iter_rows(named=True))
