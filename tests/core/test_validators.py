"""Validators are kept if they can be sent back as they stand, and held back from hosts whose validators lie."""

import polars as pl
import pytest
from crawl_rows import NOON, history, host, hosts, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import urls
from crawl_pipeline.core.validators import MOST, REMEMBERED, checks, counted, held_back, is_caught, sendable

DATE = "Sat, 28 Feb 2026 10:00:00 GMT"


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


@pytest.mark.parametrize(
    ("date", "kept"),
    [
        ("Sun, 01 Mar 2026 11:58:59 GMT", True),
        ("Sun, 01 Mar 2026 11:59:00 GMT", False),
        ("Sun, 01 Mar 2026 12:00:00 GMT", False),
        ("Fri, 01 Jan 2038 00:00:00 GMT", False),
    ],
)
def test_a_date_within_a_minute_of_the_answer_or_yet_to_come_is_not_kept(date, kept):
    assert sendable(None, date, NOON) == (None, date if kept else None)


# Who is found out.


def test_one_lie_among_few_answers_is_enough_and_one_among_many_is_not():
    assert [checked for checked in range(1, 20) if is_caught(checked, 1)] == list(range(1, 7))


@given(st.integers(0, 200), st.integers(0, 200))
def test_who_never_lied_is_never_found_out_and_who_always_lies_is(checked, lied):
    assert not is_caught(checked, 0)
    assert is_caught(lied, lied) == (lied > 0)


@given(st.integers(1, 100), st.integers(0, 100))
def test_a_lie_more_never_clears_a_host_and_an_honest_answer_more_never_convicts_it(checked, lied):
    lied = min(lied, checked)
    if is_caught(checked, lied):
        assert is_caught(checked + 1, lied + 1)
    else:
        assert not is_caught(checked + 1, lied)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=20))
def test_counts_stay_within_their_bound_and_lies_are_never_more_than_checks(rounds):
    checked, lied = 0, 0
    for answers, of_these in rounds:
        checked, lied = counted(checked, lied, (answers, min(answers, of_these)))
        assert 0 <= lied <= checked <= max(REMEMBERED, 100)


@given(st.integers(1, 39))
def test_a_host_that_was_found_out_and_mends_its_ways_is_believed_again(lies):
    checked, lied, visits = lies, lies, 0
    while is_caught(checked, lied):
        checked, lied = counted(checked, lied, (1, 0))
        visits += 1
    assert visits <= 80


# Whose validators are held back.

URLS = pl.DataFrame(
    {
        "url_hash": [urls.url_hash(f"http://a.test/{n}") for n in range(4_000)],
        "host": ["a.test", "liar.test"] * 2_000,
        "etag": ['"x"', '"x"', None, None] * 1_000,
        "last_modified": [None, None, DATE, None] * 1_000,
    }
)
JUDGED = hosts(
    host("a.test"),
    host("liar.test", validators_checked=4, validators_lied=4),
    host("new.test", validators_checked=None),
)


def why(seed=1, rules=None):
    """Each URL with why its validators are not sent."""
    return URLS.with_columns(held_back=held_back(URLS, JUDGED, rules or policy(), seed))


def test_of_a_host_that_was_not_found_out_the_policys_share_is_drawn():
    drawn = why(rules=policy(fetch={"unconditional": 0.2})).filter(host="a.test")["held_back"]

    assert set(drawn) == {"sample", None}
    assert 0.17 < drawn.count() / len(drawn) < 0.23


def test_each_round_draws_others():
    drawn = [set(why(seed).filter(held_back="sample")["url_hash"]) for seed in (1, 2)]

    assert drawn[0] != drawn[1]
    assert set(why(1).filter(held_back="sample")["url_hash"]) == drawn[0]


def test_of_a_host_that_was_found_out_all_are_held_back():
    told = why(rules=policy(fetch={"unconditional": 0.0}))

    assert set(told.filter(pl.col("etag").is_not_null(), host="liar.test")["held_back"]) == {"caught"}
    assert told.filter(host="a.test")["held_back"].null_count() == 2_000


def test_where_there_are_none_or_the_policy_sends_none_nothing_is_held_back():
    assert set(why().filter(pl.col("etag").is_null() & pl.col("last_modified").is_null())["held_back"]) == {None}
    assert set(why(rules=policy(fetch={"conditional": False}))["held_back"]) == {None}


# What a visit without validators tells.


def told(held_back="sample", outcome="fetched", text=7, etag='"x"', date=DATE, before=('"x"', DATE), alike=None):
    """The checks of one visit to a page that had the text 7."""
    visits = pl.DataFrame(
        {"url_hash": [1], "host": ["a.test"], "outcome": [outcome], "held_back": [held_back], "text_hash": [text],
         "alike": [alike], "etag": [etag], "last_modified": [date]},
        schema_overrides={"held_back": pl.String, "etag": pl.String, "last_modified": pl.String, "alike": pl.Boolean},
    )  # fmt: skip
    return checks(visits, history(url_hash=1, text_hash=7, etag=before[0], last_modified=before[1])).get("a.test")


@pytest.mark.parametrize(
    ("visit", "count"),
    [
        ({}, (1, 0)),
        ({"text": 8}, (1, 1)),
        ({"text": 8, "alike": True}, (1, 0)),
        ({"text": 8, "held_back": "caught"}, (1, 1)),
        ({"text": 8, "date": None}, (1, 1)),  # the tag decides
        ({"etag": '"y"'}, None),
        ({"text": 8, "etag": None, "before": (None, DATE)}, (1, 1)),
        ({"text": 8, "etag": None, "date": None, "before": (None, None)}, None),
        ({"text": 8, "held_back": None}, None),
        ({"outcome": "not_modified"}, None),
    ],
)
def test_an_answer_that_would_have_been_a_304_is_a_check_and_another_text_then_a_lie(visit, count):
    assert told(**visit) == count
