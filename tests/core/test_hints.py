"""Whose dates of modification are believed: those of hosts whose dates have gone with what visits found."""

from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from crawl_rows import NOON, after, host, hosts, policy

from crawl_pipeline.core import hints, recrawl

HOURS = 3_600.0


def counts(changed, told, moved, foretold=0.0):
    return dict(zip(hints.COUNTS, map(float, (changed, told, moved, foretold)), strict=True))


def test_dates_that_went_with_changes_are_believed_after_twenty_trials_and_no_sooner():
    few, enough = (hints.belief(counts(n, n, n, n / 4)) for n in (19, 20))

    assert (few.recall, few.refuted) == (0.0, False)
    assert enough.recall == enough.precision == hints.CERTAIN


@pytest.mark.parametrize(
    "seen",
    [counts(40, 0, 0), counts(0, 0, 40), counts(40, 12, 12, 4), counts(15, 12, 60, 4), counts(60, 50, 60, 48)],
    ids=["they never move", "nothing ever changes", "few changes are told", "few moves are changes", "chance does it"],
)
def test_dates_that_tell_nothing_are_refuted(seen):
    assert hints.belief(seen) == hints.Belief(refuted=True)


def trial(chance, signals, days, rate):
    """Whether a page has changed and whether its date has moved, when it is visited after so many days."""
    told, own = signals(rate)
    changes = chance.poisson(rate * days)
    seen = chance.binomial(changes, told) + chance.poisson(own * days)
    return changes > 0, seen > 0, 1 - np.exp(-rate * days)


@pytest.mark.parametrize(
    ("signals", "least", "most"),
    [
        (lambda rate: (0.9, 0.1 * rate), 0.95, 1.0),
        (lambda rate: (0.8, 0.4 * rate), 0.6, 1.0),
        (lambda rate: (0.0, rate), 0.0, 0.02),
        (lambda rate: (0.0, 1.0), 0.0, 0.02),
        (lambda rate: (0.0, 0.1), 0.0, 0.02),
    ],
    ids=["honest", "fair", "at other times", "every day", "now and then"],
)
def test_honest_hosts_are_believed_and_liars_are_not_however_far_apart_visits_are(signals, least, most):
    chance, believed = np.random.default_rng(1), 0
    for _ in range(60):
        seen = None
        for _ in range(150):
            rate = 0.1 * np.exp(chance.normal())
            changed, moved, expected = trial(chance, signals, chance.exponential(0.7 / rate), rate)
            more = counts(changed, changed and moved, moved, moved * expected)
            seen = hints.counted(seen, more)
        believed += hints.belief(seen).recall > 0
    assert least <= believed / 60 <= most


def test_a_host_that_begins_to_lie_is_not_believed_for_long():
    seen = None
    for _ in range(150):
        seen = hints.counted(seen, counts(1, 1, 1, 0.3))
    assert hints.belief(seen).recall > 0.9
    for _ in range(200):
        seen = hints.counted(seen, counts(0, 0, 1, 0.3))
    assert hints.belief(seen).refuted


def test_only_visits_that_could_tell_are_trials():
    def visit(**columns):
        return {"host": "a.test", "kind": "link", "outcome": "fetched", "first": False, "changed": True,
                "expected": 0.25, "lastmod_at": NOON, "moved_count": 1, "last_modified": "x",
                "last_modified_before": "w", "modified_days": 1.0} | columns  # fmt: skip

    schema = {name: recrawl.VISIT.get(name) for name in ("lastmod_at", "moved_count", "last_modified")}
    rows = pl.DataFrame(
        [visit(), visit(changed=False), visit(first=True), visit(kind="sitemap"), visit(lastmod_at=None),
         visit(moved_count=0, last_modified=None), visit(outcome="not_modified", changed=False, modified_days=None)],
        schema_overrides=schema,
    )  # fmt: skip
    found = {row.pop("kind"): row for row in hints.trials(rows).iter_rows(named=True)}

    assert found["sitemap_dates"] == {"host": "a.test"} | counts(2, 1, 3, 0.75)
    assert found["page_dates"] == {"host": "a.test"} | counts(2, 2, 3, 0.75)


def test_hosts_of_which_nothing_is_known_are_neither_believed_nor_refuted():
    known = hosts(host("a.test"), host("b.test", sitemap_dates=counts(30, 26, 28, 5)))

    assert hints.of_hosts(known, policy()).rows() == [
        ("a.test", None, None, None, None), ("b.test", pytest.approx(27 / 32), pytest.approx(27 / 30), False, False)
    ]  # fmt: skip


def test_the_time_of_a_build_says_nothing_and_what_was_changed_since_does():
    stamps = [NOON + timedelta(seconds=n) for n in range(40)]
    changed = [after(50 * HOURS), after(90 * HOURS)]

    assert hints.sifted([*stamps, *changed, None]) == [None] * 40 + [*changed, None]


@pytest.mark.parametrize("dates", [[NOON] * 19, [after(n * HOURS) for n in range(50)], [None] * 30, []])
def test_dates_of_few_pages_and_dates_that_differ_are_kept(dates):
    assert hints.sifted(dates) == dates
