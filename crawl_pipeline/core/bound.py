"""The most freshness that a budget can buy under the limits of hosts: what a schedule is held against.

Pages change like Poisson processes of known rates and are visited at even intervals. To maximise the sum of
weight x freshness with all visits within the budget and each host within its limit, every page's marginal gain must
equal one price, raised where a host's limit binds (Karush, Kuhn, Tucker):

    weight x P(2, rate / visits) / rate = price of the budget + price of the host

P(2, x) = 1 - (1 + x) e^-x, the Gamma distribution of shape two, whose inverse is a table. At any price a host takes
what it would or what it may, so one bisection finds the budget's price, and one for all full hosts at once theirs
(after the polite LambdaCrawl of Kolobov et al. 2019). A bound and never a schedule: nothing is asked by it.

Invariant: no budget and no limit is exceeded, and no page is visited whose weight / rate is below its price.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from crawl_pipeline.core.worth import Numbers

_STEPS = 60
_X = np.geomspace(1e-7, 40.0, 40_000)
_P = np.where(_X < 1e-3, _X * _X * (0.5 - _X / 3), -np.expm1(-_X) - _X * np.exp(-_X))

Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bound:
    """The best plan: visits per day of each page, and the prices in weighted days of freshness per visit."""

    visits: Numbers
    price: float
    host_prices: Numbers
    freshness: Numbers

    def expected(self, weights: Numbers) -> float:
        """Importance-weighted freshness under this plan."""
        return float((weights * self.freshness).sum() / weights.sum())


def best(rates: Numbers, weights: Numbers, hosts: Places, limits: Numbers, budget: float) -> Bound:
    """Find the best visits per day. `hosts`: the place of each page's host in `limits`; both limits per day."""
    top = float(np.log((weights / rates).max())) + 1e-6  # at this price nothing is worth a visit
    full = _sums(rates, weights, hosts, limits, np.full(limits.shape, -60.0))
    low, high = -60.0, top
    if np.minimum(full, limits).sum() <= budget:
        high = low  # the limits of hosts alone bind: one more visit would cost nothing
    for _ in range(_STEPS):
        middle = (low + high) / 2
        asked = np.minimum(_sums(rates, weights, hosts, limits, np.full(limits.shape, middle)), limits).sum()
        low, high = (middle, high) if asked > budget else (low, middle)
    own = _of_full_hosts(rates, weights, hosts, limits, high, top)
    visits = _visits(rates, weights, np.exp(own[hosts]))
    price = float(np.exp(high)) if high > -60.0 else 0.0
    return Bound(visits, price, np.exp(own) - np.exp(high), freshness(rates, visits))


def freshness(rates: Numbers, visits: Numbers) -> Numbers:
    """Share of the time in which the copy is right, visited at even intervals (Cho and Garcia-Molina 2003)."""
    x = rates / np.maximum(visits, 1e-300)
    return np.where(visits > 0, -np.expm1(-np.minimum(x, 700.0)) / x, 0.0)


def _of_full_hosts(
    rates: Numbers, weights: Numbers, hosts: Places, limits: Numbers, price: float, top: float
) -> Numbers:  # fmt: skip
    """Log prices per host: the budget's, or of those that would take more than they may, their own."""
    low, high = np.full(limits.shape, price), np.full(limits.shape, top)
    over = _sums(rates, weights, hosts, limits, low) > limits
    for _ in range(_STEPS):
        middle = (low + high) / 2
        more = _sums(rates, weights, hosts, limits, middle) > limits
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(over, high, price)


def _sums(rates: Numbers, weights: Numbers, hosts: Places, limits: Numbers, log_prices: Numbers) -> Numbers:
    visits = _visits(rates, weights, np.exp(log_prices[hosts]))
    return np.bincount(hosts, weights=visits, minlength=len(limits)).astype(np.float64)


def _visits(rates: Numbers, weights: Numbers, prices: Numbers) -> Numbers:
    """Visits per day of each page at a price: none where a visit is never worth it."""
    share = prices * rates / weights
    x = np.where(share < _P[0], np.sqrt(2 * share), np.interp(share, _P, _X))
    return np.where(share < 1, rates / np.maximum(x, 1e-300), 0.0)
