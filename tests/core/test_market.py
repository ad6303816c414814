"""A bucket spends its share of the budget evenly, and the price follows what could not be paid for."""

import pytest
from crawl_rows import NOON, after
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import market


def test_the_shares_of_all_buckets_are_the_whole():
    known = [0, 10, 90, 900]

    shares = [market.share(count, sum(known), len(known)) for count in known]

    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(1 / 8)
    assert market.share(0, 0, 4) == pytest.approx(1 / 4)


@given(st.lists(st.tuples(st.floats(1, 90_000), st.floats(0, 1)), min_size=1, max_size=40), st.floats(0.001, 3))
def test_no_more_is_spent_than_was_earned_and_saved_at_the_beginning(rounds, per_second):
    first = market.saved(0.0, None, NOON, per_second, 35.0)
    left, spent, at = first, 0.0, 0.0
    for seconds, greed in rounds:
        left = market.saved(left, after(at), after(at + seconds), per_second, 35.0)
        at += seconds
        asked = int(left * greed)
        left, spent = left - asked, spent + asked
        assert left <= max(1.0, per_second * market.SAVED_S) + 1e-6

    assert spent <= first + per_second * at + 1e-6


def test_the_price_goes_half_the_way_to_what_could_not_be_paid_for():
    assert market.moved(1.0, 4.0, market.HALF_S) == pytest.approx(2.0)
    assert market.moved(4.0, 1.0, market.HALF_S) == pytest.approx(2.0)
    assert market.moved(1.0, 4.0, 0.0) == pytest.approx(1.0)


def test_the_first_price_is_what_could_not_be_paid_for_and_there_is_none_before():
    assert market.moved(None, None, 100.0) is None
    assert market.moved(None, 3.0, 100.0) == 3.0


def test_the_price_falls_while_everything_can_be_paid_for():
    assert market.moved(1.0, None, market.FALLS_S) == pytest.approx(0.5)
