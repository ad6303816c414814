"""The best plan under a budget and the limits of hosts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_pipeline.core import bound

NO_LIMITS = np.full(1, np.inf)


def test_five_pages_of_the_literature_get_their_published_visits():
    """Cho and Garcia-Molina 2000: rates of one to five changes a day, five visits."""
    found = bound.best(np.arange(1.0, 6.0), np.ones(5), np.zeros(5, int), NO_LIMITS, 5.0)

    assert found.visits == pytest.approx([1.15, 1.36, 1.35, 1.14, 0.0], abs=0.005)
    assert found.visits.sum() == pytest.approx(5.0, rel=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.02, 3))
def test_no_change_of_the_plan_within_its_limits_is_better(seed, per_page):
    """Whatever a pair of pages trades, nothing is gained."""
    chance = np.random.default_rng(seed)
    rates, weights = np.exp(chance.normal(-3, 2, 30)), chance.pareto(1.2, 30) + 1
    hosts = chance.integers(0, 4, 30)
    limits = chance.uniform(0.1, 10, 4)
    found = bound.best(rates, weights, hosts, limits, 30 * per_page)
    asked = np.bincount(hosts, weights=found.visits, minlength=4)

    assert (asked <= limits * (1 + 1e-5)).all()
    assert asked.sum() <= 30 * per_page * (1 + 1e-5)
    least = (weights * found.freshness).sum()
    for one, other in chance.integers(0, 30, (50, 2)):
        if one != other and hosts[one] == hosts[other]:
            moved = found.visits.copy()
            some = moved[one] * 0.1
            moved[one], moved[other] = moved[one] - some, moved[other] + some
            assert (weights * bound.freshness(rates, moved)).sum() <= least * (1 + 1e-7)


def test_a_host_that_may_be_asked_less_has_a_price_of_its_own():
    rates, weights, hosts = np.full(4, 0.1), np.ones(4), np.array([0, 0, 1, 1])
    free = bound.best(rates, weights, hosts, np.array([np.inf, np.inf]), 1.0)
    held = bound.best(rates, weights, hosts, np.array([0.1, np.inf]), 1.0)

    assert free.host_prices == pytest.approx([0.0, 0.0], abs=1e-9)
    assert held.host_prices[0] > 0
    assert held.host_prices[1] == pytest.approx(0.0, abs=1e-9)
    assert held.visits == pytest.approx([0.05, 0.05, 0.45, 0.45], rel=1e-4)
    assert held.price < free.price
    assert held.expected(weights) < free.expected(weights)


def test_where_only_hosts_are_limited_one_more_visit_of_the_budget_is_worth_nothing():
    found = bound.best(np.full(2, 0.1), np.ones(2), np.array([0, 1]), np.array([0.2, 0.3]), 100.0)

    assert found.price == 0.0
    assert found.visits == pytest.approx([0.2, 0.3], rel=1e-4)
