"""Retry-After is a number of seconds from now, or nothing."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.retry_after import CAP_S, retry_after_s

NOW = datetime(2026, 7, 1, 12, tzinfo=UTC)


@given(st.text(max_size=40))
def test_any_value_is_none_or_within_bounds(value: str) -> None:
    seconds = retry_after_s(value, NOW)
    assert seconds is None or 0 <= seconds <= CAP_S


@given(st.integers(0, CAP_S))
def test_every_form_of_a_date_means_the_same(seconds: int) -> None:
    at = NOW + timedelta(seconds=seconds)
    for form in ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"):
        assert retry_after_s(at.strftime(form), NOW) == seconds
    assert retry_after_s(f" {seconds:012} ", NOW) == seconds


@pytest.mark.parametrize(
    "value", ["", "-1", "1.5", "1e3", "soon", "١", "Thu, 31 Feb 2026 12:00:00 GMT", "Thu, 02 Foo 2026 12:00:00 GMT"]
)
def test_what_is_no_delay_and_no_date_is_no_wish(value: str) -> None:
    assert retry_after_s(value, NOW) is None


def test_a_two_digit_year_far_ahead_is_in_the_past() -> None:
    assert retry_after_s("Sunday, 06-Nov-94 08:49:37 GMT", NOW) == 0


@given(st.integers(0, 999_999))
def test_nobody_comes_back_before_the_date(microseconds: int) -> None:
    now = NOW + timedelta(microseconds=microseconds)
    seconds = retry_after_s("Wed, 01 Jul 2026 12:00:10 GMT", now)
    assert seconds is not None
    assert now + timedelta(seconds=seconds) >= NOW + timedelta(seconds=10)


def test_a_date_in_the_past_means_now_and_a_far_one_the_cap() -> None:
    assert retry_after_s("Wed, 01 Jul 2026 11:00:00 GMT", NOW) == 0
    assert retry_after_s("Wed, 01 Jul 2099 11:00:00 GMT", NOW) == CAP_S
    assert retry_after_s("9" * 5_000, NOW) == CAP_S
