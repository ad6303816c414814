"""How a crawl does right now, in few figures that cost little: pace, size, who is asked, what lags, what stalls, why.

Reads `rounds`, `leases`, `hosts`, the last minutes of `fetches` and three columns of the frontier; writes nothing. What
takes all of history stands in `standing`. Figures are over what was committed: a round under way is not in them.
"""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from crawl_pipeline import order_log
from crawl_pipeline.core import traps
from crawl_pipeline.core.orders import FOR_OWNERS
from crawl_pipeline.lake import Lake

WINDOW = timedelta(minutes=10)
"""Pace and active hosts are those of the last rounds, so far back."""
READ = ["bucket", "round", "started_at", "ended_at", "page_count", "request_count", "next_due_at", "left_out"]
STALLS = 12
"""Stalls that are told, those of most URLs first."""


@dataclass(frozen=True, slots=True)
class Stall:
    """URLs that are due and not asked for, and why."""

    reason: str
    urls: int
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The figures; None where there is nothing to tell yet."""

    at: datetime
    pages_per_sec: float
    requests_per_sec: float
    frontier_size: int
    due: int
    pages_due_again: int
    avg_recrawl_lag_hours: float | None
    longest_recrawl_lag_hours: float | None
    hosts: int
    hosts_active: int
    hosts_paused: int
    hosts_backing_off: int
    paused: tuple[str, ...]
    rounds: int
    last_round_at: datetime | None
    next_due_at: datetime | None
    workers: tuple[str, ...]
    orders_waiting: int
    stalls: tuple[Stall, ...]

    def figures(self) -> dict[str, Any]:
        """The same by name."""
        return asdict(self)


def pulse(lake: Lake, now: datetime) -> Pulse:
    """Take the pulse of a lake."""
    rounds = lake.scan("rounds", buckets=range(lake.buckets)).select(READ).collect()
    recent = rounds.filter(pl.col("ended_at") > now - WINDOW)
    last = rounds.sort("round").group_by("bucket").last()
    hosts = _hosts(lake)
    leases = lake.leases().filter(~pl.col("released"))
    held = leases.filter(pl.col("deadline_at") > now)
    seconds, of_buckets = _seconds(recent, now), _frontier(lake, now)
    return Pulse(
        now, _per_second(recent["page_count"], seconds), _per_second(recent["request_count"], seconds),
        **_sums(of_buckets, now), hosts=hosts.height, hosts_active=_active(lake, recent), **_troubled(hosts),
        rounds=rounds["round"].n_unique(), last_round_at=_time(rounds["ended_at"].max()),
        next_due_at=_time(last.filter(pl.col("next_due_at") > now)["next_due_at"].min()),
        workers=tuple(sorted(set(held["worker"]))), orders_waiting=_orders_waiting(lake),
        stalls=_stalls(of_buckets, last, leases, now),
    )  # fmt: skip


def _seconds(recent: pl.DataFrame, now: datetime) -> float:
    """How long the recent rounds span: a crawl that has just begun is not measured by ten minutes."""
    first = _time(recent["started_at"].min())
    return max((now - max(first, now - WINDOW)).total_seconds(), 1.0) if first else 1.0


def _per_second(counts: pl.Series, seconds: float) -> float:
    return round(int(counts.sum()) / seconds, 3)


def _frontier(lake: Lake, now: datetime) -> pl.DataFrame:
    """Of each bucket: known URLs, what is due, and how long pages that are due again have been so together."""
    due = pl.col("due_at") <= now
    again = due & (pl.col("status") == "fetched")
    lag = (pl.lit(now) - pl.col("due_at").filter(again)).dt.total_seconds() / 3600
    of_each = lake.scan("frontier").group_by("bucket").agg(
        known=pl.len(), due=due.sum(), again=again.sum(), lag=lag.sum(), longest=lag.max()
    )  # fmt: skip
    return of_each.collect()


def _sums(of_buckets: pl.DataFrame, now: datetime) -> dict[str, Any]:
    again, longest = int(of_buckets["again"].sum()), of_buckets["longest"].max()
    return {
        "frontier_size": int(of_buckets["known"].sum()), "due": int(of_buckets["due"].sum()), "pages_due_again": again,
        "avg_recrawl_lag_hours": round(float(of_buckets["lag"].sum()) / again, 3) if again else None,
        "longest_recrawl_lag_hours": None if longest is None else round(float(str(longest)), 3),
    }  # fmt: skip


def _hosts(lake: Lake) -> pl.DataFrame:
    paused = pl.col("paused").fill_null(value=False)
    return lake.scan("hosts").select("host", paused=paused, resting=pl.col("backoff_s") > 0).collect()


def _troubled(hosts: pl.DataFrame) -> dict[str, Any]:
    paused = hosts.filter("paused")["host"].sort()
    return {
        "hosts_paused": paused.len(), "hosts_backing_off": int(hosts["resting"].sum()),
        "paused": tuple(paused.head(order_log.NAMED)),
    }  # fmt: skip


def _active(lake: Lake, recent: pl.DataFrame) -> int:
    """Hosts that were asked in the recent rounds."""
    if recent.is_empty():
        return 0
    sent = lake.scan("fetches", since=int(str(recent["round"].min())) - 1)
    return int(sent.select(pl.col("host").n_unique()).collect().item())


def _orders_waiting(lake: Lake) -> int:
    """Orders that some bucket has still to obey."""
    seen = order_log.seen(lake)
    new = lake.scan("orders", where=(pl.col("order") > min(seen.values())) & pl.col("kind").is_in([*FOR_OWNERS, "set",
                    "unset"])).select("order").unique().collect()["order"]  # fmt: skip
    waiting = (order_log.one(lake, order) for order in new.sort().tail(order_log.NAMED))
    return sum(bool(entry and entry.waits_for) for entry in waiting) + max(0, new.len() - order_log.NAMED)


def _stalls(
    of_buckets: pl.DataFrame, last: pl.DataFrame, leases: pl.DataFrame, now: datetime
) -> tuple[Stall, ...]:  # fmt: skip
    """What is due and is not asked for, by reason: what the newest round said, and of buckets without a worker, that.

    There, what only held at the moment of that round is no reason any more.
    """
    held = leases.filter(pl.col("deadline_at") > now)["bucket"].implode()
    vanished = leases.filter(pl.col("deadline_at") <= now)["bucket"].implode()
    items = last.select("bucket", pl.col("left_out")).explode("left_out").unnest("left_out").drop_nulls()
    items = items.filter(pl.col("bucket").is_in(held) | ~pl.col("name").is_in(MOMENTARY))
    told = [Stall(reason, count, HINTS.get(reason, ""))
            for reason, count in items.group_by("name").agg(pl.col("count").sum()).iter_rows()]  # fmt: skip
    excused = items.group_by("bucket").agg(pl.col("count").sum())
    idle = of_buckets.join(excused, on="bucket", how="left").select(
        "bucket", idle=pl.col("due").cast(pl.Int64) - pl.col("count").fill_null(0)
    )  # fmt: skip
    idle = idle.filter((pl.col("idle") > 0) & ~pl.col("bucket").is_in(held))
    for reason, among in ((VANISHED, pl.col("bucket").is_in(vanished)), (NOBODY, ~pl.col("bucket").is_in(vanished))):
        count = int(idle.filter(among)["idle"].sum())
        told += [Stall(reason, count, HINTS[reason])] if count else []
    return tuple(sorted(told, key=lambda stall: (-stall.urls, stall.reason))[:STALLS])


MOMENTARY = ("host waits", "host's turn is full", "round full", "host unknown", traps.ON_TRIAL)
"""Reasons of a round that a later round may not have."""
NOBODY, VANISHED = "no worker holds their bucket", "the worker of their bucket vanished"
HINTS = {
    NOBODY: "start one: crawl run, or the sensor buckets_with_work",
    VANISHED: "the next worker takes the bucket over: crawl run",
    "robots.txt unreachable": "nobody is asked while robots.txt cannot be read; it is read again by itself",
    traps.HELD_BACK: "crawl sql \"from traps\" shows the evidence, crawl release takes it back",
}  # fmt: skip
"""What to do about a stall, where there is something to do or to know."""


def _time(value: Any) -> datetime | None:
    return value if isinstance(value, datetime) else None
