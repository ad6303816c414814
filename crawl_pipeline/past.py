"""A selection of the past, made again: what a worker knew when it planned a round, the policy then, the same draw.

Finds the round a time belongs to, and plans it as its worker did, from the versions of the tables it saw, with its
seed, its cursors and its time, under its policy or another. Takes no lease and writes nothing.

What cannot be known again: how much of the worker's time was left when that was less than a round, and a URL that
was in hand without a request of its own (its host's robots.txt was being asked). Both touch the last or the next few
URLs of a list; `recorded` says how many the worker counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from crawl_pipeline import planning
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.lake import WEEK, Lake, Lease, TooLongAgo
from crawl_pipeline.planning import Cursors, Past, Plan

HOLDER = "what-if"
_ROUND = ["bucket", "round", "epoch", "policy_id", "seed", "started_at", "selected_count", "links_seen", "orders_seen"]


class NotThen(Exception):
    """There is no selection of that time or round to look at."""


@dataclass(frozen=True, slots=True)
class Then:
    """A selection of the past: of a round, or the one that could be made where no round has followed yet (0)."""

    round: int
    seed: int
    now: datetime
    buckets: tuple[int, ...]
    policy_id: str | None
    recorded: int
    until: Cursors
    epochs: dict[int, int]


def at_time(lake: Lake, at: datetime, now: datetime) -> list[Then]:
    """The rounds that were under way at a time, or came next, each with its buckets; last those that had none since."""
    _check_time(lake, at, now)
    planned = pl.col("policy_id").is_not_null()
    later = lake.scan("rounds", where=planned & (pl.col("ended_at") > at)).select(_ROUND).collect()
    first = later.sort("round").group_by("bucket").first()
    followed = [_then(rows) for _, rows in sorted(first.group_by("round"), key=lambda group: group[0])]
    idle = sorted(set(range(lake.buckets)) - set(first["bucket"]))
    return [*followed, *([_not_yet(lake, idle, at)] if idle else [])]


def of_round(lake: Lake, number: int) -> Then:
    """One round."""
    rows = lake.scan("rounds", where=(pl.col("round") == number) & pl.col("policy_id").is_not_null()).select(_ROUND)
    found = rows.collect()
    if found.is_empty():
        raise NotThen(f"expected the number of a round that selected URLs, found {number}: `rounds` lists them")
    return _then(found)


def policy_of(lake: Lake, then: Then) -> Policy:
    """The policy a round was planned under, from its snapshot."""
    kept = lake.scan(
        "orders", where=(pl.col("kind") == "policy") & (pl.col("policy_id") == pl.lit(then.policy_id, pl.String))
    ).collect()
    if kept.is_empty():
        raise NotThen(
            f"expected a snapshot of the policy {then.policy_id} in `orders`, found none: name a file with --against"
        )
    try:
        return policies.load(kept["policy_toml"][0])
    except PolicyError as error:
        raise NotThen(
            f"the policy {then.policy_id} of that time cannot be read by this version: {error}\n"
            "name a file with --against"
        ) from error


def plan(lake: Lake, then: Then, policy: Policy) -> Plan:
    """Plan a selection again, under a policy."""
    at = versions(lake, then)
    lease = Lease(then.buckets, then.epochs, HOLDER, then.now, then.seed, _crashed(lake, then))
    cursors = planning.read_cursors(lake, lease, at)
    return planning.plan(lake, lease, cursors, policy, then.now, in_hand(lake, then), {}, past=Past(at, then.until))


def versions(lake: Lake, then: Then) -> dict[str, int]:
    """Versions of the tables as the round's worker found them."""
    if not then.round:
        return lake.versions()
    try:
        return lake.versions_before(then.buckets, then.round)
    except TooLongAgo as gone:
        last = lake.scan("rounds").select(pl.col("ended_at").max()).collect().item()
        raise NotThen(
            f"what was known on {then.now:%F %T} UTC has been deleted by maintenance, which keeps a week: name a time "
            f"from {last - timedelta(hours=WEEK):%F %T} UTC on"
        ) from gone


def _check_time(lake: Lake, at: datetime, now: datetime) -> None:
    if at > now:
        raise NotThen(f"expected a time that has passed, found {at:%F %T} UTC: it is {now:%F %T} UTC")
    firsts = [lake.scan(table).select(pl.col(column).min()).collect().item()
              for table, column in (("orders", "ordered_at"), ("rounds", "started_at"))]  # fmt: skip
    began = min((first for first in firsts if first is not None), default=None)
    if began is None:
        raise NotThen("nothing has been ordered or selected in this lake yet: `crawl seed`, then `crawl run`")
    if at < began:
        raise NotThen(f"expected a time since {began:%F %T} UTC, when the lake began, found {at:%F %T} UTC")


def _then(rows: pl.DataFrame) -> Then:
    """A round from its rows of `rounds`."""
    by_bucket = {row["bucket"]: row for row in rows.sort("bucket").iter_rows(named=True)}
    one: dict[str, Any] = next(iter(by_bucket.values()))
    until = Cursors(
        {bucket: row["links_seen"] for bucket, row in by_bucket.items()},
        {bucket: row["orders_seen"] for bucket, row in by_bucket.items()}, {},
    )  # fmt: skip
    return Then(
        one["round"], one["seed"], one["started_at"], tuple(by_bucket), one["policy_id"],
        int(rows["selected_count"].sum()), until, {bucket: row["epoch"] for bucket, row in by_bucket.items()},
    )  # fmt: skip


def _not_yet(lake: Lake, buckets: Sequence[int], at: datetime) -> Then:
    """Buckets without a round since: their state has not moved, what was linked and ordered later does not count."""
    done = lake.scan("rounds", where=pl.col("ended_at") <= at).select("bucket", "round", "policy_id").collect()
    last = dict(done.group_by("bucket").agg(pl.col("round").max()).iter_rows())
    ordered = lake.scan("orders", where=pl.col("ordered_at") <= at).select(pl.col("order").max()).collect().item()
    seen = [last.get(source, 0) for source in range(lake.buckets)]
    orders = -1 if ordered is None else ordered
    policy = done.filter(pl.col("policy_id").is_not_null()).sort("round")["policy_id"]
    until = Cursors(dict.fromkeys(buckets, seen), dict.fromkeys(buckets, orders), {})
    seed = lake.versions()["leases"] + 1
    return Then(0, seed, at, tuple(buckets), policy[-1] if len(policy) else None, 0, until, {})


def in_hand(lake: Lake, then: Then) -> list[int]:
    """What was being asked or read when the round was planned: its requests had begun, and were written later."""
    if not then.round:
        return []
    begun = (pl.col("started_at") < then.now) & (pl.col("cause") != "robots")
    rows = lake.scan("fetches", buckets=then.buckets, where=begun, since=then.round - 1)
    return rows.select("url_hash").collect()["url_hash"].to_list()


def _crashed(lake: Lake, then: Then) -> dict[int, datetime]:
    """Buckets that the round took over from a worker that vanished, with the end of that worker's lease."""
    if not then.round:
        return {}
    try:
        rows = lake.scan("leases", at={"leases": then.round - 1}).collect()
    except (OSError, pl.exceptions.ComputeError):  # old files of `leases` go first; then hosts seem to wait less
        return {}
    left = rows.filter(~pl.col("released") & pl.col("bucket").is_in(then.buckets))
    return {row["bucket"]: row["deadline_at"] for row in left.iter_rows(named=True)
            if row["epoch"] < then.epochs[row["bucket"]]}  # fmt: skip
