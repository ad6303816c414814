"""Rebucketing: give a lake another number of buckets. URLs, what is known of hosts, and politeness move together.

Decides the order of the steps; how each is done safely is the lake's. Asks no host, and needs every bucket: workers
must have stopped. First every bucket catches up, in an ordinary round without requests, so that no link waits that is
addressed to an old bucket. Then all state is laid out anew, beside what is in force. One commit makes the new layout
true, as the first round of every new bucket. Then what the old one was is deleted.

Invariant: before that commit the lake is as it was, after it everything has moved. So it can be killed at any moment,
and repeated or not. A host that a vanished worker may have asked rests as it would after any takeover: the catching up
sees to that.
"""

import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline import harvest, ordering, patterning, planning
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, HOSTS, ROUNDS, TABLES
from crawl_pipeline.describing import Templates
from crawl_pipeline.fetch.visits import Cut
from crawl_pipeline.lake import Lake, Lease, LeaseLost, Move, check_count
from crawl_pipeline.planning.earlier import EarlierPages

STATE = tuple(table for table in TABLES.values() if table.kind == "state")
CAUGHT_UP_AT_ONCE = 16
"""Buckets that catch up in one round: what waits for them is in memory together."""
NOTHING = Cut([], [], [], [])

Clock = Callable[[], datetime]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Rebucketed:
    """From how many buckets to how many, how many hosts and URLs there are, and how many of them changed buckets."""

    before: int
    after: int
    hosts: int
    urls: int
    moved_hosts: int
    moved_urls: int
    seconds: float


def _now() -> datetime:
    return datetime.now(UTC)


def rebucket(
    lake: Lake, policy: Policy, buckets: int, *, clock: Clock = _now, tell: Tell = lambda step: None
) -> Rebucketed:
    """Give the lake so many buckets; where it has them already, delete what a killed rebucketing left.

    `tell` hears of each step before it is done. Raise LeaseHeld if a bucket is held, LakeMismatch if the lake was
    rebucketed since it was opened, LeaseLost if a worker took a bucket over because this took longer than a lease.
    """
    check_count(buckets)
    began, before = clock(), lake.buckets
    policy = ordering.policy_in_force(lake, policy)
    ordering.keep_policy(lake, policy, began)
    name = f"rebucketing-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    work = _Work(lake, policy, clock, tell, lake.claim(range(before), name, began, policy.round.lease_s))
    try:
        moved = work.move(buckets) if buckets != before else HOSTS.empty()
        work.clear()
    finally:
        with suppress(LeaseLost):  # whoever took over needs no word from us
            lake.release(work.lease)
    known = lake.scan("hosts").select(pl.len(), pl.col("known_count").sum()).collect()
    hosts, urls = known.row(0)
    took_s = (clock() - began).total_seconds()
    return Rebucketed(before, buckets, hosts, urls, moved.height, int(moved["known_count"].sum()), took_s)


@dataclass(slots=True)
class _Work:
    """One rebucketing under its lease."""

    lake: Lake
    policy: Policy
    clock: Clock
    tell: Tell
    lease: Lease

    def move(self, buckets: int) -> pl.DataFrame:
        """Catch up, lay out, adopt; give the rows of the hosts that changed buckets."""
        self._catch_up()
        move = self.lake.plan_move(self.lease, buckets)
        for table in STATE:
            for portion in self.lake.portions(table, move):
                self.tell(f"{table.name}: lay out {len(portion)} of {buckets} buckets")
                self.lake.lay_out(table, move, portion)
                self._renew()
        rows = self._first_rounds(move)
        self.tell(f"adopt {buckets} buckets")
        self.lease = self.lake.adopt(self.lease, move, rows)
        moved = move.places.filter(pl.col("bucket") != pl.col("was"))
        return self.lake.scan("hosts").join(moved.lazy(), on="host", how="semi").collect()

    def clear(self) -> None:
        """Delete rows of state that nobody sees any more, and leases of buckets that are no more."""
        for table in STATE:
            self.tell(f"{table.name}: delete the old layout")
            self.lake.sweep(self.lease, table)
            self._renew()
        self.lake.drop_leases()

    def _renew(self) -> None:
        self.lease = self.lake.renew(self.lease, self.clock(), self.policy.round.lease_s)

    def _catch_up(self) -> None:
        """Admit every link and obey every order that waits, in rounds without requests."""
        for first in range(0, len(self.lease.buckets), CAUGHT_UP_AT_ONCE):
            some = self.lease.buckets[first : first + CAUGHT_UP_AT_ONCE]
            self.tell(f"catch up in {len(some)} of {len(self.lease.buckets)} buckets")
            self._round(
                replace(self.lease, buckets=some, epochs={bucket: self.lease.epochs[bucket] for bucket in some})
            )
            self._renew()

    def _round(self, lease: Lease) -> None:
        lake, policy, began = self.lake, self.policy, self.clock()
        plan = planning.plan(lake, lease, planning.read_cursors(lake, lease), policy, began, (), {}, seconds=0.0)
        made = harvest.frames(
            plan, NOTHING, FRONTIER.empty(), CHANGE_FREQUENCY.empty(), lake.buckets, policy, {}, Templates()
        )
        made["patterns"] = patterning.rows(lake, plan, NOTHING, made, FRONTIER.empty(), EarlierPages())
        timings = harvest.Timings(began, self.clock(), (self.clock() - began).total_seconds(), 0.0)
        lake.write_all(lease, made)
        lake.commit(lease, harvest.ledger(plan, NOTHING, {}, made, timings, policy, lake.buckets))

    def _first_rounds(self, move: Move) -> pl.DataFrame:
        """Rows of `rounds` for the new buckets: all links have been read, and so much is known and due."""
        laid_out = {table.name: self.lake.laid_out(table, move) for table in STATE}
        began, now, count = self.clock(), self.clock(), move.to.buckets
        due = pl.col("due_at")
        sizes = laid_out["frontier"].group_by("bucket").agg(
            known_count=pl.len(), parked_count=(pl.col("status") == PARKED).sum(),
            due_count=(due <= now).sum(), next_due_at=due.filter(due > now).min()
        ).collect()  # fmt: skip
        known = {row["bucket"]: row for row in sizes.iter_rows(named=True)}
        orders_seen = planning.read_cursors(self.lake, self.lease).orders_seen
        rows = [
            {"bucket": bucket, "known_count": 0, "parked_count": 0, "due_count": 0,
             "links_seen": [move.to.number] * count,
             "orders_seen": min(orders_seen[source] for source in move.sources(bucket)), **known.get(bucket, {})}
            for bucket in range(count)
        ]  # fmt: skip
        nought = dict.fromkeys(
            ("selected_count", "links_read_count", "admitted_count", "request_count", "page_count", "wire_bytes"), 0
        )
        shared = nought | {
            "policy_id": self.policy.id, "seed": move.to.number, "started_at": began, "ended_at": now,
            "outcomes": [], "left_out": [], "refused": [], "links_to": [0] * count, "plan_s": 0.0, "fetch_s": 0.0,
            "note": f"rebucketed from {move.buckets} to {count} buckets",
        }  # fmt: skip
        return ROUNDS.frame([row | shared for row in rows]).drop("round", "epoch", "worker")
