"""What visiting a page now is worth, and how long after a visit a next one is worth a price.

A visit buys freshness: days in which our copy is expected to equal the live page, on top of what it would be without.
For any curve of staleness D(t) since the last visit that is t D(t) - the integral of D up to t, and visiting
whatever is worth most keeps to the best plan that a budget allows (Olston and Pandey 2008). Where the rate of change
is known the curve is 1 - e^(-rate t); with a Gamma posterior of the rate it is 1 - (b / (b + t))^a (Lomax), which
also values what is not known yet: for a <= 1 the worth grows without end, so no page is given up.

`binary` counts days with the right copy. `harmonic` counts the n-th change missed as 1 / n (Kolobov et al. 2019): it
never gives up on a page that changes fast. Days and rates per day; elementwise on arrays, no state.

Invariant: the worth grows with the time since the last visit, so that each price has one date.
"""

from typing import Literal

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Objective = Literal["binary", "harmonic"]

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


def of_visit(a: Numbers, b: Numbers, days: Numbers, objective: Objective) -> Numbers:
    """What a visit is worth so many days after the last one, by the policy's objective."""
    return of_posterior(a, b, days) if objective == "binary" else of_missed(a / b, days)


def days_until(a: Numbers, b: Numbers, price: Numbers, objective: Objective, least: float, most: float) -> Numbers:
    """How many days after its last visit a page is worth a price, between `least` and `most`."""
    if objective == "harmonic":
        half = price / 2  # of the root of rate t^2 = price (1 + rate t)
        return np.clip(half + np.sqrt(half * half + price * b / a), least, most)
    low, high = np.full(a.shape, np.log(least)), np.full(a.shape, np.log(most))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        enough = of_posterior(a, b, np.exp(middle)) >= price
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    days: Numbers = np.exp(high)
    return days
