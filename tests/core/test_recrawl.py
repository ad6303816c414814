"""What visits teach of a page's rate of change, and when it is visited again."""

import math
from datetime import timedelta

import polars as pl
import pytest
from crawl_rows import NOON, after, history, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import recrawl
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, TIME

DAY = 86_400.0
POLICY = policy()
VISIT = {"bucket": pl.Int16, "round": pl.Int64, "url_hash": pl.Int64, "host": pl.String, "outcome": pl.String,
         "ended_at": TIME, "text_hash": pl.Int64, "etag": pl.String, "last_modified": pl.String}  # fmt: skip


def visit(outcome="fetched", text_hash=None, ended_at=NOON, **columns):
    row = {"bucket": 0, "round": 1, "url_hash": 1, "host": "a.test", "outcome": outcome, "text_hash": text_hash,
           "ended_at": ended_at} | columns  # fmt: skip
    return pl.DataFrame([row], schema=VISIT)


def learn_all(visits, rules=POLICY):
    """The row after these visits in turn."""
    known = CHANGE_FREQUENCY.empty()
    for one in visits:
        known = recrawl.learn(known, one, rules)
    return known.row(0, named=True)


def pages(days, texts):
    """Visits every so many days that found these texts."""
    return [visit(text_hash=text, ended_at=after(n * days * DAY)) for n, text in enumerate(texts)]


def test_a_first_visit_teaches_nothing_but_the_text():
    row = learn_all([visit(text_hash=7, etag='"x"', last_modified="then")])

    assert (row["visit_count"], row["change_count"], row["changed_at"]) == (1, 0, None)
    assert (row["gamma_a"], row["gamma_b"]) == (recrawl.PRIOR_A, recrawl.PRIOR_B_DAYS)
    assert (row["text_hash"], row["etag"], row["last_modified"], row["fetched_at"]) == (7, '"x"', "then", NOON)
    assert row["interval_s"] == POLICY.recrawl.first_s


def test_the_same_text_is_a_visit_without_a_change_and_another_is_a_change():
    row = learn_all(pages(1, [7, 7, 8]))

    assert (row["visit_count"], row["change_count"], row["changed_at"]) == (3, 1, after(2 * DAY))


def test_not_modified_is_a_visit_without_a_change_and_keeps_text_and_validators():
    row = learn_all([visit(text_hash=7, etag='"x"'), visit("not_modified", ended_at=after(DAY))])

    assert (row["visit_count"], row["change_count"], row["text_hash"], row["etag"]) == (2, 0, 7, '"x"')
    assert row["fetched_at"] == after(DAY)


@pytest.mark.parametrize("outcome", ["timeout", "gone", "redirected", "carried", "disallowed", "too_large"])
def test_what_is_no_answer_teaches_nothing(outcome):
    assert recrawl.learn(history(visit_count=3), visit(outcome), POLICY).is_empty()


def test_an_unchanged_visit_adds_its_days_to_the_evidence():
    row = learn_all(pages(3, [7, 7]))

    assert (row["gamma_a"], row["gamma_b"]) == (recrawl.PRIOR_A, recrawl.PRIOR_B_DAYS + 3)


@given(st.floats(0.1, 5), st.floats(0.5, 50), st.floats(0.1, 30))
def test_a_change_matches_mean_and_variance_of_the_true_posterior(a, b, days):
    """It is rate^(a-1) e^(-b rate) (1 - e^(-gap rate)): changed within the gap, nobody knows when."""
    known = history(gamma_a=a, gamma_b=b, visit_count=1, change_count=0, fetched_at=NOON, text_hash=7)
    row = recrawl.learn(known, visit(text_hash=8, ended_at=after(days * DAY)), POLICY).row(0, named=True)

    # With moments of Gamma(a, b) and of Gamma(a, b + gap), weighted: E[x^k f] = M_k(b) - (b/(b+g))^a M_k(b+g).
    rest = (b / (b + days)) ** a
    norm = 1 - rest
    mean = (a / b - rest * a / (b + days)) / norm
    second = (a * (a + 1) / b**2 - rest * a * (a + 1) / (b + days) ** 2) / norm
    assert row["gamma_a"] / row["gamma_b"] == pytest.approx(mean, rel=1e-3)
    assert row["gamma_a"] / row["gamma_b"] ** 2 == pytest.approx(second - mean**2, rel=1e-3)


@given(st.lists(st.tuples(st.floats(0.01, 60), st.integers(0, 2)), min_size=1, max_size=12))
def test_whatever_visits_find_the_interval_stays_within_the_limits(gaps):
    at, visits = 0.0, [visit(text_hash=0)]
    for days, text in gaps:
        at += days * DAY
        visits.append(visit(text_hash=text, ended_at=after(at)))

    row = learn_all(visits)

    assert POLICY.recrawl.shortest_s <= row["interval_s"] <= POLICY.recrawl.longest_s
    assert row["gamma_a"] > 0
    assert row["gamma_b"] > 0
    assert row["visit_count"] == len(gaps) + 1
    assert 0 <= row["change_count"] < row["visit_count"]


def test_two_visits_in_one_moment_do_no_harm():
    row = learn_all([visit(text_hash=7), visit(text_hash=8), visit(text_hash=8)])

    assert math.isfinite(row["gamma_a"])
    assert math.isfinite(row["interval_s"])


def test_a_page_that_changes_is_visited_sooner_than_one_that_does_not():
    changing, still = learn_all(pages(2, range(10))), learn_all(pages(2, [7] * 10))

    assert changing["interval_s"] < 3 * DAY < 20 * DAY < still["interval_s"]


def test_a_changed_page_comes_back_sooner_than_it_would_have():
    before, changed = learn_all(pages(7, [7, 7, 7])), learn_all(pages(7, [7, 7, 8]))

    assert changed["interval_s"] < before["interval_s"]


def test_pages_are_learnt_of_apart_from_each_other():
    visits = pl.concat([visit(text_hash=7), visit(text_hash=7, url_hash=2)])
    known = recrawl.learn(CHANGE_FREQUENCY.empty(), visits, POLICY)
    later = pl.concat([visit(text_hash=7, ended_at=after(DAY)), visit(text_hash=8, url_hash=2, ended_at=after(DAY))])

    rows = recrawl.learn(known, later, POLICY).sort("url_hash")

    assert rows["change_count"].to_list() == [0, 1]
    assert rows.schema == CHANGE_FREQUENCY.schema


def test_a_due_date_is_the_interval_after_the_last_visit():
    dates = pl.DataFrame({"at": [NOON], "wait": [90.5]}).select(recrawl.due_at(pl.col("at"), pl.col("wait")))

    assert dates.item() == NOON + timedelta(seconds=90.5)
