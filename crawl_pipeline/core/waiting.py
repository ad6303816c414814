"""Which buckets have work waiting, about how much, and how to share it out between runs.

Decides from a few small frames: the newest round of each bucket, what recent rounds wrote for whom, orders, leases.
Reads nothing, starts nothing, and never looks at a frontier: what a round knew at its end stands in its row.

Invariant: a bucket that is held by somebody is in no group, and no group spans one.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core import blocks, traps, urls

LAST = (
    "bucket", "round", "ended_at", "due_count", "next_due_at", "left_out", "links_seen", "orders_seen",
)  # fmt: skip
"""Columns of `rounds` that `look` needs of each bucket's newest row."""

ASKED_AGAIN = timedelta(minutes=10)
"""Due URLs whose hosts may not be asked yet are looked at again so long after the round that found them waiting."""

FOR_GOOD = ("host paused", blocks.HOSTS, blocks.SITES, blocks.URLS, traps.HELD_BACK, traps.HELD_PATH)
FOR_A_WHILE = ("host waits", "host put aside", "host's day is full", "site's day is full", "robots.txt unreachable")


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits: `work` says about how many URLs, per bucket; `next_at` when more falls due, as far as is known."""

    work: Mapping[int, int]
    leased: frozenset[int]
    next_at: datetime | None
    rounds: Mapping[int, int]

    @property
    def free(self) -> dict[int, int]:
        """The work that nobody is at."""
        return {bucket: work for bucket, work in sorted(self.work.items()) if bucket not in self.leased}


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring buckets for one run, first and last included."""

    first: int
    last: int
    work: int


def look(
    last: pl.DataFrame, written: pl.DataFrame, orders: pl.DataFrame, leases: pl.DataFrame, now: datetime
) -> Waiting:
    """Say what waits in each bucket.

    `last`: the newest row of `rounds` per bucket (columns LAST). `written`: bucket, round and links_to of all rounds
    that some bucket has not read. `orders`: order, host, site and of_bucket. `leases`: one row per bucket of the lake.
    """
    rows = list(last.iter_rows(named=True))
    parts = [_due(rows, now), _links(rows, written), _orders(rows, orders, leases.height)]
    buckets = leases["bucket"].to_list()
    work = {bucket: sum(part.get(bucket, 0) for part in parts) for bucket in buckets}
    held = leases.filter(~pl.col("released") & (pl.col("deadline_at") > now))["bucket"]
    return Waiting(
        {bucket: count for bucket, count in work.items() if count},
        frozenset(held),
        min((at for row in rows for at in _later(row) if at > now), default=None),
        {row["bucket"]: row["round"] for row in rows},
    )


def oldest_unread(last: pl.DataFrame, buckets: int) -> int:
    """The round after which somebody has not read all links; 0 while some bucket has never looked."""
    if last.height < buckets:
        return 0
    return min((min(seen) for seen in last["links_seen"].to_list()), default=0)


def groups(waiting: Waiting, runs: int) -> list[Group]:
    """Share the free work between at most so many runs, as evenly as neighbourhood allows; the rest can wait.

    Buckets without work may lie within a group: they cost a row each. Heaviest first.
    """
    work = waiting.free
    if not work:
        return []
    low, high = max(work.values()), sum(work.values())
    while low < high:  # the smallest load per run with which so many runs are enough
        middle = (low + high) // 2
        low, high = (low, middle) if len(_filled(work, waiting.leased, middle)) <= runs else (middle + 1, high)
    made = _filled(work, waiting.leased, low)
    return sorted(made, key=lambda group: -group.work)[:runs]


def best(worths: Mapping[int, float], share: float = 0.8) -> list[int]:
    """The fewest buckets that hold such a share of all that is to be gained, in their order."""
    ranked, found, sought = (
        sorted(worths, key=lambda bucket: -worths[bucket]),
        list[int](),
        share * sum(worths.values()),
    )
    for bucket in ranked:
        if found and sum(worths[other] for other in found) >= sought:
            break
        found.append(bucket)
    return sorted(found)


def _filled(work: Mapping[int, int], leased: AbstractSet[int], most: int) -> list[Group]:
    made: list[Group] = []
    for bucket, count in work.items():
        before = made[-1] if made else None
        if before and before.work + count <= most and leased.isdisjoint(range(before.last, bucket)):
            made[-1] = Group(before.first, bucket, before.work + count)
        else:
            made.append(Group(bucket, bucket, count))
    return made


def _due(rows: list[dict[str, object]], now: datetime) -> dict[int, int]:
    """Due URLs whose hosts may be asked, as far as the newest round of the bucket knew."""
    return {row["bucket"]: _due_in(row, now) for row in rows}  # type: ignore[misc]


def _due_in(row: Mapping[str, object], now: datetime) -> int:
    ended_at, next_due_at = row["ended_at"], row["next_due_at"]
    assert isinstance(ended_at, datetime)
    kept_back = FOR_GOOD if now - ended_at >= ASKED_AGAIN else (*FOR_GOOD, *FOR_A_WHILE)
    known = max(0, int(str(row["due_count"] or 0)) - _left_out(row, kept_back))
    fell_due = isinstance(next_due_at, datetime) and ended_at < next_due_at <= now
    return known + int(fell_due)


def _left_out(row: Mapping[str, object], reasons: tuple[str, ...]) -> int:
    tally = row["left_out"]
    return sum(part["count"] for part in tally if part["name"] in reasons) if isinstance(tally, list) else 0


def _later(row: Mapping[str, object]) -> list[datetime]:
    """When this bucket is worth another look."""
    ended_at, next_due_at = row["ended_at"], row["next_due_at"]
    times = [next_due_at] if isinstance(next_due_at, datetime) else []
    if isinstance(ended_at, datetime) and _left_out(row, FOR_A_WHILE):
        times.append(ended_at + ASKED_AGAIN)
    return times


def _links(rows: list[dict[str, object]], written: pl.DataFrame) -> dict[int, int]:
    """Links that were written for a bucket and that it has not read: newer than its cursor for their source."""
    seen = pl.DataFrame(
        [(row["bucket"], source, last) for row in rows for source, last in enumerate(_numbers(row["links_seen"]))],
        schema={"target": pl.Int64, "bucket": pl.Int16, "seen": pl.Int64}, orient="row",
    )  # fmt: skip
    links = (
        written.filter(pl.col("links_to").list.sum() > 0)
        .select("bucket", "round", "links_to", target=pl.int_ranges(0, pl.col("links_to").list.len()))
        .explode("links_to", "target")
        .filter(pl.col("links_to") > 0)
        .join(seen, on=["target", "bucket"], how="left")
        .filter(pl.col("round") > pl.col("seen").fill_null(0))
    )
    return dict(links.group_by("target").agg(pl.col("links_to").cast(pl.Int64).sum()).iter_rows())


def _orders(rows: list[dict[str, object]], orders: pl.DataFrame, buckets: int) -> dict[int, int]:
    """Orders about a URL, a host, a site or all of a bucket that it has not applied."""
    hosts, sites = (orders[name].drop_nulls().unique() for name in ("host", "site"))
    owner = {host: urls.bucket(urls.site(host), buckets) for host in hosts}
    owner |= {site: urls.bucket(site, buckets) for site in sites}
    applied = {row["bucket"]: row["orders_seen"] for row in rows}
    unread = (
        orders.with_columns(about=pl.coalesce("host", "site"))
        .with_columns(
            bucket=pl.coalesce(
                pl.col("of_bucket").cast(pl.Int64),
                pl.col("about").replace_strict(owner, default=None, return_dtype=pl.Int64),
            )
        )
        .drop_nulls("bucket")
        .with_columns(seen=pl.col("bucket").replace_strict(applied, default=-1, return_dtype=pl.Int64))
        .filter(pl.col("order") > pl.col("seen"))
    )
    return dict(unread.group_by("bucket").len().iter_rows())


def _numbers(value: object) -> list[int]:
    return value if isinstance(value, list) else []
