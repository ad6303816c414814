"""Rebucketing: give a lake another number of buckets. URLs, what is known of hosts, and politeness move together.

Decides the order of the steps; how each is done safely is the lake's. Asks no host, and needs every bucket: workers
must have stopped. First every bucket catches up, in an ordinary round without requests, so that no link waits that is
addressed to an old bucket. Then all state is laid out anew, beside what is in force. One commit makes the new layout
true, as the first round of every new bucket. Then what the old one was is deleted.

Invariant: before that commit the lake is as it was, after it everything has moved. So it can be killed at any moment,
and repeated or not. A host that a vanished worker may have asked rests as it would after any takeover: the catching up
sees to that.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline import ordering, planning
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import HOSTS, ROUNDS, TABLES
from crawl_pipeline.lake import Lake, LeaseLost, Move, check_count
from crawl_pipeline.standstill import Standstill

STATE = tuple(table for table in TABLES.values() if table.kind == "state")

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
    still = Standstill.take(lake, policy, "rebucketing", policy.round.lease_s, clock=clock, tell=tell)
    work = _Work(lake, policy, clock, tell, still)
    try:
        moved = work.move(buckets) if buckets != before else HOSTS.empty()
        work.clear()
    finally:
        with suppress(LeaseLost):  # whoever took over needs no word from us
            still.release()
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
    still: Standstill

    def move(self, buckets: int) -> pl.DataFrame:
        """Catch up, lay out, adopt; give the rows of the hosts that changed buckets."""
        self.still.catch_up()
        move = self.lake.plan_move(self.still.lease, buckets)
        for table in STATE:
            for portion in self.lake.portions(table, move):
                self.tell(f"{table.name}: lay out {len(portion)} of {buckets} buckets")
                self.lake.lay_out(table, move, portion)
                self.still.renew()
        rows = self._first_rounds(move)
        self.tell(f"adopt {buckets} buckets")
        self.still.lease = self.lake.adopt(self.still.lease, move, rows)
        moved = move.places.filter(pl.col("bucket") != pl.col("was"))
        return self.lake.scan("hosts").join(moved.lazy(), on="host", how="semi").collect()

    def clear(self) -> None:
        """Delete rows of state that nobody sees any more, and leases of buckets that are no more."""
        for table in STATE:
            self.tell(f"{table.name}: delete the old layout")
            self.lake.sweep(self.still.lease, table)
            self.still.renew()
        self.lake.drop_leases()

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
        orders_seen = planning.read_cursors(self.lake, self.still.lease).orders_seen
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
