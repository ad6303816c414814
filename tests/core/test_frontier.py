"""The fold: what each outcome makes of a URL."""

from datetime import timedelta

import polars as pl
import pytest
from crawl_rows import NOON, after, due, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import frontier
from crawl_pipeline.core.outcome import OUTCOMES, STATUSES
from crawl_pipeline.core.tables import FRONTIER, TIME

VISIT = {
    "url_hash": pl.Int64,
    "outcome": pl.String,
    "reason": pl.String,
    "ended_at": TIME,
    "robots_until": TIME,
    "host_aside": pl.Boolean,
}
INTERVALS = {"url_hash": pl.Int64, "interval_s": pl.Float64, "evidence_a": pl.Float32, "evidence_b": pl.Float32}
EVIDENCE = {"evidence_a": [1.23456], "evidence_b": [98_765.4]}
LATER = after(100)
UNTIL = after(600)


def visits(before, outcome, at=LATER, **columns):
    rows = [{"url_hash": key, "outcome": outcome, "ended_at": at, "robots_until": UNTIL, "host_aside": False} | columns
            for key in before["url_hash"]]  # fmt: skip
    return pl.DataFrame(rows, schema=VISIT)


def fold(outcome, before=None, interval_s=None, rules=None, **columns):
    """The one row that a visit with this outcome leads to."""
    before = due("a.test", 1) if before is None else before
    told = pl.DataFrame({"url_hash": before["url_hash"], "interval_s": [interval_s], **EVIDENCE}, schema=INTERVALS)
    if interval_s is None:
        told = told.clear()
    return frontier.advance(before, visits(before, outcome, **columns), told, rules or policy()).row(0, named=True)


WEEK, MONTH = 604_800, 2_592_000
CONSEQUENCES = {
    "fetched": ("fetched", after(100 + WEEK)),
    "not_modified": ("fetched", after(100 + WEEK)),
    "redirected": ("redirected", after(100 + WEEK)),
    "disallowed": ("refused", UNTIL),
    "robots_unreachable": ("waiting", UNTIL),
    "throttled": ("waiting", LATER),
    "unavailable": ("waiting", after(160)),
    "gone": ("gone", after(100 + MONTH)),
    "forbidden": ("unfit", after(100 + MONTH)),
    "client_error": ("unfit", after(100 + MONTH)),
    "not_html": ("unfit", after(100 + WEEK)),
    "too_large": ("unfit", after(100 + WEEK)),
    "malformed": ("unfit", after(100 + WEEK)),
    "truncated": ("waiting", after(160)),
    "decode_error": ("waiting", after(160)),
    "protocol_error": ("waiting", after(160)),
    "timeout": ("waiting", after(160)),
    "connect_error": ("waiting", after(160)),
    "dns_error": ("waiting", after(160)),
    "tls_error": ("waiting", after(160)),
    "address_refused": ("dead", None),
    "redirect_error": ("unfit", after(100 + MONTH)),
    "carried": ("waiting", NOON),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_has_its_consequence(outcome):
    row = fold(outcome, reason="as it was")

    assert (row["status"], row["due_at"]) == CONSEQUENCES[outcome]
    assert (row["outcome"], row["reason"]) == (outcome, "as it was")


def test_waits_double_with_each_failure_and_the_last_gives_up():
    before, waits = due("a.test", 1), []
    for _ in range(4):
        at = before["due_at"].item()
        before = frontier.advance(before, visits(before, "timeout", at), pl.DataFrame(schema=INTERVALS), policy())
        waits.append((before["due_at"].item() - at).total_seconds())
    last = fold("timeout", before, ended_at=before["due_at"].item())

    assert waits == [60, 120, 240, 480]
    assert (last["status"], last["due_at"], last["attempts"]) == ("dead", None, 5)


@pytest.mark.parametrize("outcome", sorted(name for name, means in OUTCOMES.items() if means.again == "retry"))
def test_what_fails_while_its_host_is_put_aside_costs_no_attempt_and_waits_with_the_host(outcome):
    row = fold(outcome, due("a.test", 1, attempts=4), host_aside=True)

    assert (row["status"], row["outcome"], row["attempts"], row["due_at"]) == ("waiting", outcome, 4, LATER)


def test_the_wait_after_a_failure_is_capped():
    rules = policy(retry={"attempts": 50, "first_s": 60, "cap_s": 1_000})

    assert fold("timeout", due("a.test", 1, attempts=40), rules=rules)["due_at"] == after(1_100)


@pytest.mark.parametrize(
    ("outcome", "attempts"),
    [("timeout", 4), ("fetched", 0), ("gone", 0), ("carried", 3), ("throttled", 3), ("robots_unreachable", 3)],
)
def test_only_an_answer_ends_a_row_of_failures(outcome, attempts):
    assert fold(outcome, due("a.test", 1, attempts=3))["attempts"] == attempts


def test_a_page_is_visited_again_after_the_interval_learnt_for_it():
    assert fold("fetched", interval_s=5_000)["due_at"] == after(5_100)


def test_a_page_that_was_there_is_looked_for_after_1_7_30_90_days_and_then_once_a_year():
    waits = [fold("gone", due("a.test", 1, gone_count=n), interval_s=9.0)["due_at"] - after(100) for n in range(6)]

    assert [wait.days for wait in waits] == [1, 7, 30, 90, 365, 365]


@pytest.mark.parametrize(("outcome", "interval_s"), [("gone", None), ("forbidden", 9.0), ("client_error", 9.0)])
def test_what_never_was_a_page_or_is_refused_is_not_looked_at_sooner_than_after_a_month(outcome, interval_s):
    waits = [fold(outcome, due("a.test", 1, gone_count=n), interval_s)["due_at"] - after(100) for n in range(4)]

    assert [wait.days for wait in waits] == [30, 30, 30, 90]


@pytest.mark.parametrize(("outcome", "count"), [("gone", 4), ("fetched", None), ("timeout", 3), ("throttled", 3)])
def test_an_outage_is_no_visit_that_found_a_page_gone(outcome, count):
    assert fold(outcome, due("a.test", 1, gone_count=3), 9.0)["gone_count"] == count


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_visit_that_is_applied_again_changes_nothing(outcome):
    before = due("a.test", 1, attempts=2)
    told = pl.DataFrame({"url_hash": before["url_hash"], "interval_s": [5_000.0], **EVIDENCE}, schema=INTERVALS)
    once = frontier.advance(before, visits(before, outcome), told, policy())

    assert frontier.advance(once, visits(before, outcome), told, policy()).equals(once)


@pytest.mark.parametrize("outcome", ["fetched", "not_modified", "gone", "not_html", "redirected"])
def test_without_recrawl_each_page_is_asked_once(outcome):
    assert fold(outcome, interval_s=5_000, rules=policy(recrawl={"again": False}))["due_at"] is None


def test_without_recrawl_a_failure_is_still_tried_again():
    assert fold("timeout", rules=policy(recrawl={"again": False}))["due_at"] == after(160)


def test_a_carried_url_stays_what_it_was():
    row = fold("carried", due("a.test", 1, status="fetched", due_at=after(-50)))

    assert (row["status"], row["due_at"]) == ("fetched", after(-50))


def test_the_evidence_of_visits_is_kept_to_four_digits():
    row = fold("fetched", interval_s=10.0)

    assert (row["evidence_a"], row["evidence_b"]) == (pytest.approx(1.235), pytest.approx(98_770))


def test_only_visited_urls_come_out_and_keep_what_a_visit_does_not_tell():
    before = due("a.test", 5, depth=3, score=0.5, kind="listed", tag="t")

    rows = frontier.advance(before, visits(before.head(2), "fetched"), pl.DataFrame(schema=INTERVALS), policy())

    assert rows.height == 2
    assert rows.schema == FRONTIER.schema
    assert rows.select("depth", "score", "kind", "tag").unique().row(0) == (3, 0.5, "listed", "t")


@given(st.lists(st.sampled_from(sorted(OUTCOMES)), min_size=1, max_size=15))
def test_whatever_happens_a_url_has_a_status_and_a_date_unless_it_is_dead(outcomes):
    before = due("a.test", 1)
    for outcome in outcomes:
        at = before["due_at"].item() or LATER
        told = visits(before, outcome, at, robots_until=at + timedelta(days=1))
        before = frontier.advance(before, told, pl.DataFrame(schema=INTERVALS), policy())
    row = before.row(0, named=True)

    assert row["status"] in STATUSES
    assert row["due_at"] is not None or row["status"] == "dead"
    assert 0 <= row["attempts"] <= 15


def test_a_made_up_url_at_which_its_host_fails_is_not_tried_again_soon():
    row = fold("protocol_error", due("a.test", 1, kind="probe"))

    assert (row["due_at"] - NOON).days >= 29
    assert row["attempts"] == 0
