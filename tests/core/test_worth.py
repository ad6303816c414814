"""What a visit is worth: closed forms against what they stand for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import worth

SHAPES, RATES, DAYS = st.floats(0.1, 50), st.floats(0.01, 1_000), st.floats(0.001, 400)


def one(number):
    return np.array([number])


def gained(fresh, days, steps=200_000):
    """The definition: what freshness is lost by waiting, t D(t) less the integral of D, summed up in small steps."""
    middles = (np.arange(steps) + 0.5) * days / steps
    return fresh(middles).mean() * days - days * fresh(days)


@pytest.mark.parametrize(("a", "b"), [(0.4, 8.0), (1.0, 3.0), (1.0 + 1e-7, 3.0), (7.5, 20.0)])
@pytest.mark.parametrize("days", [0.01, 1.0, 90.0])
def test_the_worth_of_a_visit_is_the_freshness_lost_without_it(a, b, days):
    found = worth.of_posterior(one(a), one(b), one(days))[0]

    assert found == pytest.approx(gained(lambda t: (b / (b + t)) ** a, days), rel=1e-4)


@pytest.mark.parametrize("rate", [1 / 3650, 0.05, 24.0])
def test_with_much_evidence_the_worth_is_that_of_a_known_rate(rate):
    days = np.array([0.25, 7.0, 90.0])

    known = worth.of_known_rate(np.full(3, rate), days)

    assert worth.of_posterior(np.full(3, 1e6), np.full(3, 1e6 / rate), days) == pytest.approx(known, rel=1e-3)
    assert known == pytest.approx([gained(lambda t: np.exp(-rate * t), day) for day in days], rel=1e-3)


@given(SHAPES, RATES, DAYS, st.floats(1.01, 3))
def test_the_worth_grows_with_the_time_since_the_last_visit(a, b, days, longer):
    for objective in ("binary", "harmonic"):
        sooner, later = (worth.of_visit(one(a), one(b), one(t), objective)[0] for t in (days, days * longer))
        assert later >= sooner


@given(SHAPES, RATES, st.floats(0.05, 80))
def test_a_page_is_due_when_it_is_worth_the_price(a, b, days):
    for objective in ("binary", "harmonic"):
        price = worth.of_visit(one(a), one(b), one(days), objective)
        if price[0] > 1e-9 * days:  # else it is lost in rounding
            found = worth.days_until(one(a), one(b), price, objective, 0.01, 90.0)[0]
            again = worth.of_visit(one(a), one(b), one(found), objective)
            assert again == pytest.approx(price, rel=1e-4)


def test_a_page_that_never_is_worth_the_price_is_due_at_the_longest_wait():
    a, b = np.array([50.0]), np.array([1.0])  # fifty changes a day: a visit buys half an hour

    assert worth.days_until(a, b, one(0.5), "binary", 0.04, 90.0)[0] == pytest.approx(90.0)
    assert worth.days_until(a, b, one(0.5), "harmonic", 0.04, 90.0)[0] < 1.0


def test_a_page_of_unknown_rate_is_never_given_up():
    worths = worth.of_posterior(np.full(4, 0.4), np.full(4, 8.0), np.array([1e1, 1e3, 1e5, 1e7]))

    assert (np.diff(worths) > worths[:-1]).all()
