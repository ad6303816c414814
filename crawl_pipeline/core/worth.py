"""What visiting a page now is worth, and how long after a visit a next one is worth a price.

A visit buys freshness: days in which our copy is expected to equal the live page, on top of what it would be without.
For any curve of staleness D(t) since the last visit that is t D(t) - the integral of D up to t, and visiting
whatever is worth most keeps to the best plan that a budget allows (Olston and Pandey 2008). Where the rate of change
is known the curve is 1 - e^(-rate t); with a Gamma posterior of the rate it is 1 - (b / (b + t))^a (Lomax), which
also values what is not known yet: for a <= 1 the worth grows without end, so no page is given up.

`binary` counts days with the right copy. `harmonic` counts the n-th change missed as 1 / n (Kolobov et al. 2019): it
never gives up on a page that changes fast. Days and rates per day; elementwise on arrays, no state.

Where a host's sitemap tells of changes (`hints`), the page ages by what it does not tell of and by each signal: with
the share r of changes told of and the share p of signals that are right, P(fresh | t, n signals) is
e^(-(1 - r) rate t) (1 - p)^n (Busa-Fekete et al. 2025). The worth is what the whole cycle up to that point brings above
its end: the expected days of freshness until freshness has fallen so far, less that level times their expected number.
Without signals that is the curve's above.

Invariant: the worth grows with the time since the last visit, so that each price has one date.
"""

from dataclasses import dataclass
from math import factorial
from typing import Literal

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Objective = Literal["binary", "harmonic"]

_SIGNALS = 6
"""Signals since the last visit that are told apart: hardly anything is fresh after more."""
_STEPS = 48
"""Halvings of the span in which a date is looked for: 16 years to less than a second."""


def of_known_rate(rate: Numbers, days: Numbers) -> Numbers:
    """Days of freshness gained by a visit now, if the page changes at this rate."""
    x = rate * days
    # 1 - (1 + x) e^-x loses its digits where x is small; there it is x^2/2 - x^3/3.
    share = np.where(x < 1e-4, x * x * (0.5 - x / 3), -np.expm1(-x) - x * np.exp(-x))
    return share / rate


def of_posterior(a: Numbers, b: Numbers, days: Numbers) -> Numbers:
    """Days of freshness gained by a visit now, if the rate is Gamma(a, b): the closed form of the Lomax curve."""
    log = np.log1p(days / b)
    less = a - 1
    one = np.abs(less) < 1e-6
    fresh = np.where(one, b * log, b * -np.expm1(-less * log) / np.where(one, 1.0, less))
    return np.maximum(fresh - days * np.exp(-a * log), 0.0)


def life(a: Numbers, b: Numbers, days: Numbers) -> Numbers:
    """Days of so many in which a copy is expected to be right that is made at their beginning."""
    return of_posterior(a, b, days) + days * np.exp(-a * np.log1p(days / b))


def of_missed(rate: Numbers, days: Numbers) -> Numbers:
    """The same for `harmonic`: the price at which the best interval of a page of this rate is so many days."""
    return rate * days * days / (1 + rate * days)


@dataclass(frozen=True, slots=True)
class Signals:
    """How often a sitemap told of a change since the last visit, and what is believed of it: recall 0 for nothing."""

    count: Numbers
    recall: Numbers
    precision: Numbers


def of_told(a: Numbers, b: Numbers, days: Numbers, signals: Signals) -> Numbers:
    """Days of freshness gained by a visit now, if the rate was Gamma(a, b) and a sitemap tells of changes.

    The signals, or their absence, are observations of the rate themselves.
    """
    per_change, missed = signals.recall / signals.precision, 1 - signals.recall
    seen = b + per_change * days
    fresh = np.exp(a * (np.log(seen) - np.log(seen + missed * days)))
    worths: Numbers = _until(a, b, days, missed + per_change) - fresh * _until(a, b, days, per_change)
    some = np.flatnonzero((signals.count > 0) & (signals.recall > 0))
    if len(some):
        count = np.minimum(signals.count[some], _SIGNALS)
        rate = (a[some] + count) / seen[some]
        worths[some] = _of_signals(rate, days[some], count, signals.recall[some], signals.precision[some])
    gained: Numbers = np.maximum(worths, 0.0)
    return gained


def _until(a: Numbers, b: Numbers, days: Numbers, share: Numbers) -> Numbers:
    """The integral of (b / (b + share t))^a up to so many days."""
    some = np.maximum(share, 1e-9)
    log = np.log1p(some * days / b)
    less = a - 1
    one = np.abs(less) < 1e-6
    whole = np.where(one, b * log, b * -np.expm1(-less * log) / np.where(one, 1.0, less)) / some
    return np.where(share < 1e-9, days, whole)


def _of_signals(rate: Numbers, days: Numbers, count: Numbers, recall: Numbers, precision: Numbers) -> Numbers:
    """The same for a known rate after signals: sums over how many come before freshness has fallen to its level now."""
    missed, told = np.maximum((1 - recall) * rate, 1e-9), rate * recall / precision
    step = -np.log1p(-precision)
    level = missed * days + count * step
    length, fresh = np.zeros(len(rate)), np.zeros(len(rate))
    for n in range(_SIGNALS + 1):
        alive = np.maximum(level - n * step, 0.0) / missed
        length += _gamma(n, told * alive) / told
        right = (1 - precision) ** n * (told / (missed + told)) ** n / (missed + told)
        fresh += right * _gamma(n, (missed + told) * alive)
    return np.asarray(fresh - np.exp(-level) * length, dtype=np.float64)


def _gamma(n: int, x: Numbers) -> Numbers:
    """The chance of more than n events of a Poisson process where x are expected."""
    x = np.minimum(x, 700.0)
    terms = np.zeros(len(x))
    for k in range(n + 1):
        terms += x**k / factorial(k)
    return np.asarray(1 - np.exp(-x) * terms, dtype=np.float64)


def of_visit(a: Numbers, b: Numbers, days: Numbers, objective: Objective, signals: Signals | None = None) -> Numbers:
    """What a visit is worth so many days after the last one, by the policy's objective."""
    if objective == "binary":
        return of_posterior(a, b, days) if signals is None else of_told(a, b, days, signals)
    if signals is None:
        return of_missed(a / b, days)
    # A signal ages the page by as many days as the changes that are not told of would take for it.
    missed = np.maximum((1 - signals.recall) * a / b, 1e-9)
    told = np.where(signals.recall > 0, signals.count * -np.log1p(-np.minimum(signals.precision, 0.99)) / missed, 0.0)
    return of_missed(missed, days + told)


def days_until(
    a: Numbers, b: Numbers, price: Numbers, objective: Objective, least: float, most: float,
    signals: Signals | None = None,
) -> Numbers:  # fmt: skip
    """How many days after its last visit a page is worth a price, between `least` and `most`."""
    if objective == "harmonic" and signals is None:
        half = price / 2  # of the root of rate t^2 = price (1 + rate t)
        return np.clip(half + np.sqrt(half * half + price * b / a), least, most)
    low, high = np.full(a.shape, np.log(least)), np.full(a.shape, np.log(most))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        enough = of_visit(a, b, np.exp(middle), objective, signals) >= price
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    days: Numbers = np.exp(high)
    return days
