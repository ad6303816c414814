"""START HERE: a worker leases buckets and runs rounds until its time is over.

Each line of `_rounds` is a decision (planning, harvest: core applied to the lake's rows), an act of the lake, or an act
of the lanes. A round is a unit of commit: what it wrote exists once its row stands in `rounds`, and that commit renews
the lease. It is no barrier for hosts: while a round is written and the next one planned, in a thread, the lanes go on
asking. A crash leaves nothing half visible: what was asked since the last commit is asked again, after a wait.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import httpx
import polars as pl
import trio

from crawl_pipeline import harvest, module_rows, ordering, patterning, planning
from crawl_pipeline.contents import ContentSeen
from crawl_pipeline.core import robots
from crawl_pipeline.core.orders import NOTHING, InForce
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.slots import Slots
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER
from crawl_pipeline.describing import Templates
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.lanes import Lanes
from crawl_pipeline.fetch.reading import InlineReaders, Readers
from crawl_pipeline.fetch.visits import Cut
from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.modules.calling import Told
from crawl_pipeline.planning import Cursors, Plan, Ranks, SeenSet

FOLDED = ("frontier", "hosts", "change_frequency", "templates", "patterns")
TIDIED = ("rounds", "fetches", "links", "robots", "pages", "contents", "module_failures")
FOLD_EVERY, TIDY_EVERY = 5, 30
"""Rounds between two looks for long tails of state, and for small files in the logs."""
SPARE = 0.1
"""Share of a lease that is kept for the last commit: no request may last into it."""

InThread = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Done:
    """One committed round: its rows of `rounds`."""

    round: int
    rows: pl.DataFrame


@dataclass(slots=True)
class Worked:
    """What a worker did with its time: its rounds, and why it stopped."""

    worker: str
    buckets: tuple[int, ...]
    rounds: list[Done] = field(default_factory=list)
    stopped: str = "its time is over"

    @property
    def rows(self) -> pl.DataFrame:
        """All rows of `rounds` that the worker committed."""
        return pl.concat([done.rows for done in self.rounds])


@dataclass(frozen=True, slots=True)
class Outside:
    """What a worker needs of the world; tests hand in a web in memory and readers without processes."""

    transport: httpx.AsyncBaseTransport
    readers: Readers | InlineReaders
    in_thread: InThread = trio.to_thread.run_sync


Tell = Callable[[Done], None]


async def work(
    lake: Lake, policy: Policy, outside: Outside, *, buckets: Sequence[int], worker: str, seconds: float, now: datetime,
    tell: Tell = lambda done: None, stop: trio.Event | None = None,
) -> Worked:  # fmt: skip
    """Lease what is free of the buckets and run rounds for so many seconds, or until nothing falls due in them.

    `stop` ends the time early, in order: the last request ends, the last round is committed, the lease given back.
    Raises LeaseHeld if none of the buckets is free, LeaseLost if another worker took over, LakeMismatch if a module's
    table is there with other columns.
    """
    clock = Clock.start(now)
    if tables := outside.readers.modules.tables:
        await outside.in_thread(lake.declare, tables)
    claim = partial(lake.claim, skip_held=True)
    lease = await outside.in_thread(claim, buckets, worker, now, policy.round.lease_s)
    worked = Worked(worker, lease.buckets)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outside.readers.run)
        slots = Slots.of(policy.address_gap_s, lake.buckets, lease.buckets)
        lanes = Lanes(nursery, outside.transport, outside.readers, policy, clock, slots)
        ends = trio.current_time() + seconds
        shift = _Shift(lake, policy, outside.in_thread, outside.readers, lanes, clock, ends, worked, tell)
        nursery.start_soon(shift.stop_on, trio.Event() if stop is None else stop)
        await shift.run(lease)
        nursery.cancel_scope.cancel()
    return worked


@dataclass(slots=True)
class _Shift:
    """A worker's time with its lease: what goes from one round to the next."""

    lake: Lake
    policy: Policy
    in_thread: InThread
    readers: Readers | InlineReaders
    lanes: Lanes
    clock: Clock
    ends: float
    worked: Worked
    tell: Tell
    in_force: InForce = NOTHING
    kept_policy: str = ""
    before: pl.DataFrame = field(default_factory=FRONTIER.empty)
    visited_before: pl.DataFrame = field(default_factory=CHANGE_FREQUENCY.empty)
    rules: dict[int, robots.Rules] = field(default_factory=dict)
    seen: SeenSet = field(default_factory=SeenSet)
    ranks: Ranks = field(default_factory=Ranks)
    contents: ContentSeen = field(default_factory=ContentSeen)
    mind: patterning.Learning = field(default_factory=patterning.Learning)
    templates: Templates = field(default_factory=Templates)
    asking: trio.CancelScope = field(default_factory=trio.CancelScope)
    patience_s: float = 0.0
    between_s: float = 0.0
    """What the last commit and plan took, from the cut to the next list."""

    async def run(self, lease: Lease) -> None:
        """Run rounds, then give the lease back."""
        lease = await self._rounds(lease)
        await self.in_thread(self.seen.save, self.lake)
        await trio.sleep(self.lanes.address_gap_s)  # who takes over next owes our last addresses this gap
        await self.in_thread(self.lake.release, lease)

    async def stop_on(self, stop: trio.Event) -> None:
        """End the worker's time when told to."""
        await stop.wait()
        self.ends = self.lanes.stop_at = trio.current_time()
        self.worked.stopped = "it was told to stop"
        self.asking.cancel()

    async def _rounds(self, lease: Lease) -> Lease:
        cursors = await self.in_thread(planning.read_cursors, self.lake, lease)
        ended = self.clock.now()
        while True:
            began = self.clock.now()
            known = lease, cursors, began, self.lanes.in_hand, self._time_left(lease)
            plan: Plan = await self.in_thread(self._plan, *known)
            planned_s = (self.clock.now() - began).total_seconds()
            selected = self._load(plan)
            self.between_s = (self.clock.now() - ended).total_seconds()
            last = await self._asked(plan)
            cut = self.lanes.cut()
            ended = self.clock.now()
            timings = harvest.Timings(began, ended, planned_s, (ended - began).total_seconds() - planned_s)
            cursors = plan.cursors
            made = await self._made(plan, cut)
            lease = await self.in_thread(self._settle, plan, cut, selected, timings, made)
            if last:
                return lease

    def _plan(self, lease: Lease, cursors: Cursors, now: datetime, in_hand: Sequence[int], seconds: float) -> Plan:
        plan = planning.plan(
            self.lake,
            lease,
            cursors,
            self.policy,
            now,
            in_hand,
            self.rules,
            seconds,
            before=self.in_force,
            seen=self.seen,
            ranks=self.ranks,
        )
        self.in_force = plan.in_force
        if plan.policy.id != self.kept_policy:
            ordering.keep_policy(self.lake, plan.policy, now)
            self.kept_policy = plan.policy.id
        return plan

    def _time_left(self, lease: Lease) -> float:
        """Seconds in which a request may start: the worker's own, and so many that none could outlast the lease."""
        lease_s = (lease.deadline_at - self.clock.now()).total_seconds()
        return min(
            self.ends - trio.current_time(), lease_s - self.policy.fetch.total_s - SPARE * self.policy.round.lease_s
        )

    def _load(self, plan: Plan) -> dict[int, int]:
        """Hand the fetch list to the lanes, and keep what the fold must know of all that can be visited."""
        self.lanes.stop_at = trio.current_time() + self._time_left(plan.lease)
        asked = pl.col("url_hash").is_in(self.lanes.in_hand)
        # What was asked for while this plan was made may stand in both.
        self.before = _first_of_each(plan.changed.filter(asked), self.before.filter(asked), plan.fetch_list)
        self.visited_before = _first_of_each(self.visited_before.filter(asked), plan.visited_before)
        news = plan.admitted.height + plan.fetch_list.filter(pl.col("attempts") > 0).height
        rules = self.policy.round
        self.patience_s = rules.shortest_s if news else min(2 * max(self.patience_s, rules.shortest_s), rules.seconds)
        self.lanes.obey(plan.policy)
        return dict(self.lanes.load(plan.queues, plan.elsewhere))

    async def _asked(self, plan: Plan) -> bool:
        """Let the lanes ask until the round is worth its commit; tell whether it is the last one."""
        with trio.CancelScope(deadline=self.ends) as self.asking:
            if self.lanes.idle and not self.lanes.in_hand and not plan.admitted.height:
                return await self._rest(plan)
            await self.lanes.worth_cutting(self.patience_s, self.between_s)
        if trio.current_time() < self.ends:
            return False
        await self.lanes.finished()
        return True

    async def _rest(self, plan: Plan) -> bool:
        """Nothing can be asked now: sleep until something can, or stop if that is beyond the worker's time."""
        wait_s = (plan.next_at - self.clock.now()).total_seconds() if plan.next_at else float("inf")
        if trio.current_time() + wait_s >= self.ends:
            if self.ends - trio.current_time() > self.policy.round.shortest_s:
                known = plan.next_at is not None
                self.worked.stopped = f"nothing to ask before {plan.next_at:%F %T} UTC" if known else "nothing due"
            return True
        await trio.sleep(min(max(wait_s, 0.05), self.policy.round.seconds))
        return False

    async def _made(self, plan: Plan, cut: Cut) -> dict[str, pl.DataFrame] | None:
        """The round's rows, with what modules make of them; None if no module is to see them: `_settle` makes them."""
        modules = self.readers.modules
        if not modules.of_phase("round"):
            return None
        made: dict[str, pl.DataFrame] = await self.in_thread(self._frames, plan, cut)
        told: list[Told] = await self.readers.of_round(made)
        return module_rows.together(made, module_rows.of_round(told, made["pages"], modules, plan.lease))

    def _frames(self, plan: Plan, cut: Cut) -> dict[str, pl.DataFrame]:
        modules, first = self.readers.modules, not self.worked.rounds
        stored = self.contents.stored(self.lake, cut.visits, plan.policy)
        self.templates.read(self.lake, plan.lease)
        made = harvest.frames(
            plan, cut, self.before, self.visited_before, self.lake.buckets, plan.policy, stored, self.templates, modules
        )  # fmt: skip
        made |= patterning.rows(self.lake, plan, cut, made, self.before, self.mind)
        return module_rows.together(made, module_rows.of_absent(modules, plan.lease) if first else {})

    def _settle(
        self, plan: Plan, cut: Cut, selected: dict[int, int], timings: harvest.Timings,
        made: dict[str, pl.DataFrame] | None,
    ) -> Lease:  # fmt: skip
        """Write the round, commit it, renew the lease: the next round's number."""
        made = self._frames(plan, cut) if made is None else made
        rows = harvest.ledger(plan, cut, selected, made, timings, plan.policy, self.lake.buckets)
        self.lake.write_all(plan.lease, made)
        self.lake.commit(plan.lease, rows)
        self.seen.committed(plan.lease, plan.admitted)
        self.worked.rounds.append(Done(plan.lease.round, rows))
        self.tell(self.worked.rounds[-1])
        # Counted from the cut: what the commit took is taken off the lease.
        lease = self.lake.renew(plan.lease, timings.ended_at, self.policy.round.lease_s)
        self._keep_small(lease)
        return lease

    def _keep_small(self, lease: Lease) -> None:
        """Fold tails that have grown long, and now and then join the small files of the logs."""
        count = len(self.worked.rounds)
        for table in FOLDED if count % FOLD_EVERY == 0 else ():
            self.lake.fold(lease, table)
        if count % TIDY_EVERY == 0:
            for table in (*TIDIED, *(table.name for table in self.readers.modules.tables.values())):
                self.lake.tidy(table, buckets=lease.buckets)


def _first_of_each(*rows: pl.DataFrame) -> pl.DataFrame:
    return pl.concat(rows).unique("url_hash", keep="first", maintain_order=True)
