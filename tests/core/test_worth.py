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


# Signals.


def signals(count, recall, precision):
    return worth.Signals(one(count), one(recall), one(precision))


@given(st.floats(0.1, 5), st.floats(0.5, 50), st.floats(0.1, 30))
def test_a_sitemap_that_is_not_believed_makes_no_difference(a, b, days):
    plain = worth.of_visit(one(a), one(b), one(days), "binary")

    assert worth.of_visit(one(a), one(b), one(days), "binary", signals(3.0, 0.0, 1.0)) == pytest.approx(plain)


@pytest.mark.parametrize(("count", "recall", "precision"), [(0, 0.9, 0.9), (1, 0.8, 0.7), (2, 0.6, 0.6)])
def test_the_worth_with_signals_is_the_freshness_up_to_now_less_what_its_end_is_worth(count, recall, precision):
    """The definition, by simulation: cycles end when freshness has fallen to what it is now."""
    rate, days, chance = 0.2, 4.0, np.random.default_rng(1)
    missed, told, step = (1 - recall) * rate, rate * recall / precision, -np.log1p(-precision)
    level, ticks = missed * days + count * step, np.arange(0.0, 200.0, 0.02)
    lengths, fresh = [], []
    for _ in range(1_500):
        at = np.cumsum(chance.exponential(1 / told, 200))
        fallen = missed * ticks + step * np.searchsorted(at, ticks)
        alive = fallen < level
        lengths.append(alive.sum() * 0.02)
        fresh.append(np.exp(-fallen[alive]).sum() * 0.02)
    expected = np.mean(fresh) - np.exp(-level) * np.mean(lengths)

    # A rate that is all but certain, so that what signals teach of it changes nothing.
    found = worth.of_told(one(1e7), one(1e7 / rate), one(days), signals(count, recall, precision))[0]
    assert found == pytest.approx(expected, rel=0.06)


def test_a_signal_makes_a_visit_worth_more_and_the_promise_of_signals_less():
    a, b, days = one(2.0), one(20.0), one(5.0)
    for objective in ("binary", "harmonic"):
        plain = worth.of_visit(a, b, days, objective)
        quiet, told, twice = (
            worth.of_visit(a, b, days, objective, signals(float(count), 0.8, 0.8)) for count in (0, 1, 2)
        )
        assert quiet < plain < told < twice
