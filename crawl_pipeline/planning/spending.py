"""What a round may spend of the crawl's budget, and what visits cost: read from the last rounds, told with this one.

Reads `rounds` alone; core.market decides. A bucket's share, what it has left and its price stand in its last row.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from crawl_pipeline.core import market
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.planning.sight import Sight

_LAST = ["bucket", "round", "started_at", "known_count", "price", "budget_left"]


@dataclass(frozen=True, slots=True)
class Spending:
    """Per leased bucket: its share of the budget, what it may spend now, the price so far, and since when it holds.

    All are empty where the crawl has no budget.
    """

    shares: Mapping[int, float]
    saved: Mapping[int, float]
    prices: Mapping[int, float | None]
    since: Mapping[int, datetime]
    per_second: float
    in_hand: int = 0
    """URLs that are being asked already: paid for, and not counted yet."""
    unpaid: float | None = None

    @property
    def most(self) -> int | None:
        """URLs that all leased buckets together can pay for; None: as many as politeness allows."""
        return max(int(self._free + 1e-9), 0) if self.saved else None

    @property
    def _free(self) -> float:
        return sum(self.saved.values()) - self.in_hand

    def price_of(self, bucket: int, now: datetime) -> float | None:
        """The price that this round leaves behind."""
        if bucket not in self.saved:
            return None
        seconds = (now - self.since[bucket]).total_seconds() if bucket in self.since else 0.0
        return market.moved(self.prices.get(bucket), self.unpaid, seconds)

    def left_in(self, bucket: int, asked: int) -> float | None:
        """What the bucket has left after a round in which all leased buckets asked for so many pages."""
        if bucket not in self.saved:
            return None
        return (sum(self.saved.values()) - asked) * self.shares[bucket] / sum(self.shares.values())

    def next_at(self, now: datetime) -> datetime | None:
        """When there is one page more to spend."""
        if self.most is None or self.most > 0 or not self.per_second:
            return None
        return now + timedelta(seconds=(1 - self._free) / self.per_second)


def read(sight: Sight, policy: Policy, in_hand: int) -> Spending:
    """What the leased buckets may spend; what is being asked already is paid for."""
    of_day = policy.budget.fetches_per_day
    if not of_day:
        return Spending({}, {}, {}, {}, 0.0)
    rows = sight.lake.scan("rounds", at=sight.at).select(_LAST).sort("round").group_by("bucket").last().collect()
    last = {row["bucket"]: row for row in rows.iter_rows(named=True)}
    everything, buckets = int(rows["known_count"].fill_null(0).sum()), sight.lake.buckets
    shares = {
        bucket: market.share((last.get(bucket) or {}).get("known_count") or 0, everything, buckets)
        for bucket in sight.lease.buckets
    }
    list_s = policy.round.seconds + policy.round.ahead_s
    told = {bucket: row for bucket, row in last.items() if bucket in shares and row["budget_left"] is not None}
    left, prices, since = (
        {bucket: row[name] for bucket, row in told.items()} for name in ("budget_left", "price", "started_at")
    )
    saved = {
        bucket: market.saved(left.get(bucket, 0.0), since.get(bucket), sight.now, of_day / 86_400 * part, list_s)
        for bucket, part in shares.items()
    }
    return Spending(shares, saved, prices, since, of_day / 86_400 * sum(shares.values()), in_hand)
