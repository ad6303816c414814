"""Recrawl whole buckets: which of their known pages are meant, the order that makes them due, and how many are left.

A wish is fixed by when it was made: pages visited since are done, so that it can be repeated, after a crash or by
several at once, and no page is visited twice for it. What is due already needs no order. Knows no Dagster; asks nobody:
rounds do, and while they work for a wish, what is new waits (`recrawl.only`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import polars as pl

from crawl_pipeline import ordering
from crawl_pipeline.core import orders, selection
from crawl_pipeline.core.outcome import OUTCOMES, PARKED
from crawl_pipeline.core.patterns import matches_any
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake

Mode = Literal["due", "older_than", "pattern", "all"]

_TOLD = [name for name, meaning in OUTCOMES.items() if meaning.again in ("recrawl", "gone")]
"""Outcomes of visits that told something of their pages."""
_KEPT = pl.col("status").is_in([PARKED, "forgotten"]).not_()


@dataclass(frozen=True, slots=True)
class Wish:
    """Which known pages are to be visited again: those `due`, those `older_than` days, whose URL matches, or all."""

    mode: Mode
    made_at: datetime
    days: float = 30.0
    pattern: str = "*"

    @property
    def visited_before(self) -> datetime:
        """Pages visited since are not meant."""
        return self.made_at - timedelta(days=self.days) if self.mode == "older_than" else self.made_at

    @property
    def matching(self) -> str | None:
        """The pattern, if URLs must match one."""
        return self.pattern if self.mode == "pattern" else None

    def __str__(self) -> str:
        said = {"older_than": f" {self.days:g} days", "pattern": f" {self.pattern}"}
        return f"{self.mode}{said.get(self.mode, '')}, asked at {self.made_at:%F %T} UTC"


@dataclass(frozen=True, slots=True)
class Worth:
    """How many known pages of a bucket may be asked for now, within politeness, and what that is worth."""

    pages: int
    worth: float


def order(lake: Lake, buckets: Collection[int], wish: Wish, by: str | None = None) -> int:
    """Give the orders that make the pages due, those that were not given yet; return how many that was."""
    if wish.mode == "due":
        return 0
    return ordering.recrawl_buckets(
        lake, buckets, visited_before=wish.visited_before, pattern=wish.matching, now=wish.made_at, by=by
    )


def waiting(lake: Lake, buckets: Sequence[int], wish: Wish) -> dict[int, int]:
    """How many pages of each bucket still wait for the visit that was wished for."""
    meant = pl.any_horizontal(_meant(bucket, wish) for bucket in buckets)
    found = lake.scan("frontier", buckets=buckets, where=_KEPT & meant)
    counted = dict(found.group_by("bucket").len().collect().iter_rows())
    return {bucket: counted.get(bucket, 0) for bucket in buckets}


def worth(lake: Lake, bucket: int, policy: Policy, now: datetime, seconds: float) -> Worth:
    """What recrawling a bucket for so many seconds would bring: the pages of its first list, and their worth."""
    known = (pl.col("due_at") <= now) & pl.col("visited_at").is_not_null() & _KEPT
    due = lake.scan("frontier", buckets=[bucket], where=known).drop("url", "reason", "tag").collect()
    hosts = lake.scan("hosts", buckets=[bucket]).collect()
    judged = selection.judge(due, hosts, policy, now, 0, seconds)
    chosen = judged.filter(pl.col("left_out").is_null() & ~pl.col("discovery"))
    return Worth(chosen.height, float(chosen["worth"].sum()))


def only_known(policy: Policy) -> Policy:
    """The policy of rounds that work for a wish: what is new waits, and so does not take the time."""
    return policy.model_copy(update={"recrawl": policy.recrawl.model_copy(update={"only": True})})


def _meant(bucket: int, wish: Wish) -> pl.Expr:
    """Rows of `frontier` whose visit is wished for and has not been made."""
    if wish.mode == "due":
        among = (pl.col("bucket") == bucket) & (pl.col("due_at") <= wish.made_at)
        return (among & pl.col("outcome").is_not_null()).fill_null(value=False)
    # An order takes away the last visit (frontier.obey) and leaves its outcome, until the page is asked for again.
    ordered = (pl.col("bucket") == bucket) & pl.col("visited_at").is_null() & pl.col("outcome").is_in(_TOLD)
    if wish.matching is not None:
        ordered &= matches_any(pl.col("url"), [wish.matching])
    return orders.of_bucket(bucket, wish.visited_before, wish.matching) | ordered.fill_null(value=False)
