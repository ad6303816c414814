"""Validators are kept if they can be sent back as they stand."""

import pytest
from crawl_rows import NOON
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.validators import MOST, sendable

DATE = "Tue, 30 Jun 2026 10:00:00 GMT"


@pytest.mark.parametrize("etag", ['"abc"', 'W/"abc"', "abc", '"with space"', '""', "x" * MOST])
def test_a_tag_is_kept_as_it_came(etag):
    assert sendable(etag, None, NOON) == (etag, None)


@pytest.mark.parametrize(
    "etag", [None, "", " ", '"a\r\nX-Evil: 1"', '"a\nb"', '"\x00"', '"\u20ac"', '"\xe9"', "x" * (MOST + 1)]
)
def test_a_tag_that_would_end_its_line_or_is_endless_is_not_kept(etag):
    assert sendable(etag, None, NOON) == (None, None)


@pytest.mark.parametrize("date", [DATE, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"])
def test_a_date_of_http_is_kept_as_it_came(date):
    assert sendable(None, date, NOON) == (None, date)


@pytest.mark.parametrize("date", [None, "", "yesterday", "2026-06-30T10:00:00Z", f"{DATE}\r\nX-Evil: 1", "0"])
def test_what_is_no_date_is_not_kept(date):
    assert sendable('"x"', date, NOON) == ('"x"', None)


@given(st.text(), st.text())
def test_whatever_a_host_says_what_is_kept_is_one_line(etag, date):
    assert not any(sign in (kept or "") for kept in sendable(etag, date, NOON) for sign in "\r\n\0")
