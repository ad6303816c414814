"""The crawl's budget of pages per day: what a bucket may spend of it, and the price that visits have.

A bucket earns its share evenly over time and saves an hour's at the most, so that a crawl that stood still does not
make up for it in one go. The price is what the best visit was worth that a round could not pay for any more. It moves
slowly, by half the way in HALF_S; where nothing was left unpaid for it falls. It is told with the round, so that
whoever holds the bucket next goes on from there. Pages get their dates by it (recrawl), which is why a round looks at
those alone that are worth about the price, and not at all it knows.

Invariant: over any time no more is spent than was earned in it and saved before.
"""

from datetime import datetime

SAVED_S = 3_600.0
HALF_S = 21_600.0
FALLS_S = 86_400.0
"""Time in which the price is halved while money is left over."""


def share(known: int, all_known: int, buckets: int) -> float:
    """A bucket's part of the budget: half of it is dealt evenly, half by known URLs."""
    return 0.5 / buckets + 0.5 * (known / all_known if all_known else 1 / buckets)


def saved(left: float, since: datetime | None, now: datetime, per_second: float, list_s: float) -> float:
    """How many pages may be asked for: what was left, and what was earned since."""
    if since is None:
        return max(1.0, per_second * list_s)
    earned = left + per_second * max((now - since).total_seconds(), 0.0)
    return min(earned, max(1.0, per_second * max(SAVED_S, 2 * list_s)))


def moved(price: float | None, unpaid: float | None, seconds: float) -> float | None:
    """The price after a round. `unpaid`: what the best visit was worth that could not be paid for; None: all were."""
    if unpaid is None:
        return None if price is None else price * 0.5 ** (seconds / FALLS_S)
    if price is None or price <= 0:
        return unpaid
    return float(price * (unpaid / price) ** (1 - 0.5 ** (seconds / HALF_S))) if unpaid > 0 else price
