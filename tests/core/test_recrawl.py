"""What visits teach of a page's rate of change, and when it is visited again."""

import math
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from crawl_rows import NOON, after, due, history, host, hosts, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import prior, recrawl, worth
from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, TIME

DAY = 86_400.0
POLICY = policy()
PRIOR_B_DAYS = prior.SHAPE * POLICY.recrawl.first_s / DAY


def visit(outcome="fetched", text_hash=None, ended_at=NOON, **columns):
    row = {"bucket": 0, "round": 1, "url_hash": 1, "host": "a.test", "outcome": outcome, "text_hash": text_hash,
           "ended_at": ended_at} | columns  # fmt: skip
    return pl.DataFrame([row], schema=recrawl.VISIT)


def learn_all(visits, rules=POLICY):
    """The row after these visits in turn."""
    known = CHANGE_FREQUENCY.empty()
    for one in visits:
        learnt = recrawl.learn(known, one, rules)
        known = learnt if learnt.height else known
    return known.row(0, named=True)


def posterior(row, prior_b=PRIOR_B_DAYS):
    """Shape and rate parameter of the Gamma posterior: the evidence on top of the prior."""
    return prior.SHAPE + row["evidence_a"], prior_b + row["evidence_b"]


def believed(a, b, prior_b=PRIOR_B_DAYS, **columns):
    """A page whose visits have come to this posterior."""
    return history(evidence_a=a - prior.SHAPE, evidence_b=b - prior_b, **columns)


def pages(days, texts):
    """Visits every so many days that found these texts."""
    return [visit(text_hash=text, ended_at=after(n * days * DAY)) for n, text in enumerate(texts)]


def test_a_first_visit_teaches_nothing_but_the_text():
    row = learn_all([visit(text_hash=7, etag='"x"', last_modified="then")])

    assert (row["visit_count"], row["change_count"], row["changed_at"]) == (1, 0, None)
    assert posterior(row) == pytest.approx((prior.SHAPE, PRIOR_B_DAYS))
    assert (row["text_hash"], row["etag"], row["last_modified"], row["fetched_at"]) == (7, '"x"', "then", NOON)
    assert row["interval_s"] == POLICY.recrawl.first_s


def test_the_same_text_is_a_visit_without_a_change_and_another_is_a_change():
    row = learn_all(pages(1, [7, 7, 8]))

    assert (row["visit_count"], row["change_count"], row["changed_at"]) == (3, 1, after(2 * DAY))


def test_not_modified_is_a_visit_without_a_change_and_keeps_text_and_validators():
    row = learn_all([visit(text_hash=7, etag='"x"'), visit("not_modified", ended_at=after(DAY))])

    assert (row["visit_count"], row["change_count"], row["text_hash"], row["etag"]) == (2, 0, 7, '"x"')
    assert row["fetched_at"] == after(DAY)


@pytest.mark.parametrize("outcome", sorted(set(OUTCOMES) - {"fetched", "not_modified"}))
def test_what_is_no_answer_teaches_nothing(outcome):
    assert recrawl.learn(history(visit_count=3), visit(outcome), POLICY).is_empty()


def test_an_unchanged_visit_adds_its_days_to_the_evidence():
    row = learn_all(pages(3, [7, 7]))

    assert posterior(row) == pytest.approx((prior.SHAPE, PRIOR_B_DAYS + 3))


@given(st.floats(0.1, 5), st.floats(0.5, 50), st.floats(0.1, 30))
def test_a_change_matches_mean_and_variance_of_the_true_posterior(a, b, days):
    """It is rate^(a-1) e^(-b rate) (1 - e^(-gap rate)): changed within the gap, nobody knows when."""
    known = believed(a, b, visit_count=1, change_count=0, fetched_at=NOON, text_hash=7)
    row = recrawl.learn(known, visit(text_hash=8, ended_at=after(days * DAY)), POLICY).row(0, named=True)

    share = 0.5 ** (days * DAY / POLICY.recrawl.forget_s)
    a, b = prior.SHAPE + (a - prior.SHAPE) * share, PRIOR_B_DAYS + (b - PRIOR_B_DAYS) * share

    # With moments of Gamma(a, b) and of Gamma(a, b + gap), weighted: E[x^k f] = M_k(b) - (b/(b+g))^a M_k(b+g).
    rest = (b / (b + days)) ** a
    norm = 1 - rest
    mean = (a / b - rest * a / (b + days)) / norm
    second = (a * (a + 1) / b**2 - rest * a * (a + 1) / (b + days) ** 2) / norm
    shape, scale = posterior(row)
    assert shape / scale == pytest.approx(mean, rel=1e-3)
    assert shape / scale**2 == pytest.approx(second - mean**2, rel=1e-3)


@given(st.lists(st.tuples(st.floats(0.01, 60), st.integers(0, 2)), min_size=1, max_size=12))
def test_whatever_visits_find_the_interval_stays_within_the_limits(gaps):
    at, visits = 0.0, [visit(text_hash=0)]
    for days, text in gaps:
        at += days * DAY
        visits.append(visit(text_hash=text, ended_at=after(at)))

    row = learn_all(visits)

    assert POLICY.recrawl.shortest_s <= row["interval_s"] <= POLICY.recrawl.longest_s
    assert min(posterior(row)) > 0
    assert row["visit_count"] == len(gaps) + 1
    assert 0 <= row["change_count"] < row["visit_count"]


def test_two_visits_in_close_succession_do_no_harm():
    row = learn_all([visit(text_hash=7), visit(text_hash=8, ended_at=after(1e-6)), visit(text_hash=8, ended_at=NOON)])

    assert math.isfinite(row["evidence_a"])
    assert math.isfinite(row["interval_s"])


@pytest.mark.parametrize("outcome", ["fetched", "not_modified"])
def test_a_visit_that_is_applied_again_teaches_nothing(outcome):
    known = recrawl.learn(history(fetched_at=NOON, text_hash=7, evidence_a=1.0, evidence_b=3.0, visit_count=1,
                                  change_count=0), visit(outcome, 8, ended_at=after(DAY)), POLICY)  # fmt: skip

    assert recrawl.learn(known, visit(outcome, 8, ended_at=after(DAY)), POLICY).is_empty()


def test_half_of_the_evidence_is_forgotten_in_the_policys_time():
    rules = policy(recrawl={"forget_s": 10 * DAY})
    known = history(fetched_at=NOON, text_hash=7, evidence_a=2.0, evidence_b=6.0, visit_count=9, change_count=2)

    row = recrawl.learn(known, visit(text_hash=7, ended_at=after(10 * DAY)), rules).row(0, named=True)

    assert posterior(row) == pytest.approx((1.4, PRIOR_B_DAYS + 3 + 10))


def test_changes_of_late_count_more_than_those_of_long_ago():
    early, late = learn_all(pages(30, [1, 2, 3, 3, 3])), learn_all(pages(30, [1, 1, 1, 2, 3]))

    assert late["interval_s"] < 0.95 * early["interval_s"]


@given(st.floats(0.4, 50), st.floats(0.01, 100), st.floats(0.001, 60))
def test_a_change_never_lengthens_the_wait_and_no_change_never_shortens_it(a, b, days):
    """Forgetting pulls towards the first wait, so that is set to the wait at hand."""
    known = believed(a, b, prior.SHAPE * b / a, visit_count=1, change_count=0, fetched_at=NOON, text_hash=7)
    rules = policy(recrawl={"first_s": b / a * DAY, "shortest_s": 1e-3, "longest_s": 1e9})
    still, moved = (
        recrawl.learn(known, visit(text_hash=text, ended_at=after(days * DAY)), rules)["interval_s"].item()
        for text in (7, 8)
    )

    assert moved <= b / a * DAY * (1 + 1e-6)
    assert still >= b / a * DAY * (1 - 1e-6)


def test_the_first_wait_keeps_to_the_limits():
    rules = policy(recrawl={"first_s": 50 * DAY, "longest_s": 20 * DAY})

    assert learn_all([visit(text_hash=7)], rules)["interval_s"] == 20 * DAY


@pytest.mark.parametrize(("etag", "alike"), [('"x"', True), ('"y"', False)])
def test_what_304s_seemed_to_say_is_taken_back_when_the_text_changed_under_the_same_tag(etag, alike):
    first = visit(text_hash=7, etag='"x"')
    same = [visit("not_modified", etag='"x"', ended_at=after(n * DAY)) for n in range(1, 10)]
    last = visit(text_hash=8, etag=etag, ended_at=after(10 * DAY))

    kept, unasked = learn_all([first, *same, last]), learn_all([first, last])

    means = [b / a for a, b in map(posterior, (kept, unasked))]
    assert (means[0] == pytest.approx(means[1], rel=0.05)) == alike
    assert kept["text_read_at"] == unasked["text_read_at"] == after(10 * DAY)


def test_a_new_page_without_validators_has_none():
    row = learn_all([visit(text_hash=7, etag='"x"'), visit(text_hash=8, ended_at=after(DAY), last_modified="then")])

    assert (row["etag"], row["last_modified"]) == (None, "then")


def test_the_newest_interval_of_a_page_is_from_this_visit_or_from_those_before():
    known = pl.concat([history(url_hash=key, interval_s=10.0, evidence_a=0.5) for key in (1, 2)])

    found = recrawl.intervals(known, history(url_hash=2, interval_s=20.0, evidence_a=1.5))

    assert set(found.select("url_hash", "interval_s", "evidence_a").iter_rows()) == {(1, 10.0, 0.5), (2, 20.0, 1.5)}


HONEST = {"changed": 30.0, "told": 29.0, "moved": 30.0, "foretold": 3.0}
LYING = {"changed": 30.0, "told": 25.0, "moved": 90.0, "foretold": 26.0}


def hinted(lastmod_at, rules=POLICY, counts=HONEST, price=None, **columns):
    """The row of a page that was visited at noon, due in 9 days, once a sitemap has been read after 2 days."""
    row = {"bucket": 0, "status": "fetched", "visited_at": NOON, "lastmod_at": after(-50 * DAY)} | columns
    page = due("a.test", 1, **row | {"due_at": after(9 * DAY)})
    said = page.select("url_hash", pl.lit(lastmod_at, TIME).alias("lastmod_at"))
    known = hosts(host("a.test", sitemap_dates=counts))
    moved = recrawl.hinted(page, said, known, {0: price}, rules, after(2 * DAY))
    assert moved.schema == FRONTIER.schema
    return moved.row(0, named=True) if moved.height else None


def test_a_sitemap_that_is_believed_brings_the_visit_forward_when_it_tells_of_a_later_change():
    row = hinted(after(DAY))

    assert (row["due_at"], row["moved_count"], row["lastmod_at"]) == (after(2 * DAY), 1, after(DAY))


@pytest.mark.parametrize("counts", [LYING, None, {name: count / 2 for name, count in HONEST.items()}])
def test_a_sitemap_that_lies_or_is_not_known_yet_moves_no_date_and_is_remembered(counts):
    row = hinted(after(DAY), counts=counts, moved_count=2)

    assert (row["due_at"], row["moved_count"], row["lastmod_at"]) == (after(9 * DAY), 3, after(DAY))


def test_a_sitemap_brings_no_visit_nearer_to_the_last_one_than_the_shortest_wait():
    assert hinted(after(DAY), policy(recrawl={"shortest_s": 5 * DAY}))["due_at"] == after(5 * DAY)


@pytest.mark.parametrize("lastmod_at", [None, after(-50 * DAY), after(-90 * DAY), after(3 * DAY)])
def test_a_date_that_is_missing_or_not_later_or_yet_to_come_changes_nothing(lastmod_at):
    assert hinted(lastmod_at) is None


def test_a_date_that_lies_before_the_last_visit_is_no_signal_but_one_of_the_same_day_is():
    early, same_day = hinted(after(-3 * DAY)), hinted(NOON.replace(hour=0))

    assert (early["moved_count"], early["due_at"]) == (0, after(9 * DAY))
    assert (same_day["moved_count"], same_day["due_at"]) == (1, after(2 * DAY))


@pytest.mark.parametrize(
    "recrawling", [{"lastmod": False}, {"again": False}, {"shortest_s": 9 * DAY}], ids=lambda each: next(iter(each))
)
def test_no_date_moves_where_the_policy_says_so(recrawling):
    assert hinted(after(DAY), policy(recrawl=recrawling))["due_at"] == after(9 * DAY)


@pytest.mark.parametrize("status", ["waiting", "gone", "dead"])
def test_only_pages_that_were_fetched_are_brought_forward(status):
    assert hinted(after(DAY), status=status)["due_at"] == after(9 * DAY)


def test_with_a_price_a_signal_brings_a_page_forward_only_if_its_visit_is_worth_that():
    cheap, dear = (hinted(after(DAY), price=price, score=0.1, evidence_a=2.0, evidence_b=60.0) for price in (0.1, 9.0))

    assert cheap["due_at"] == after(2 * DAY)
    assert dear["due_at"] == after(9 * DAY)


# What dates teach.


def later(text_hash, days=4.0, **columns):
    """What is learnt of a page of 4 a, 20 b when its second visit finds this text."""
    known = believed(4.0, 20.0, visit_count=1, change_count=0, fetched_at=NOON, text_hash=7, last_modified="before")
    rules = policy(recrawl={"forget_s": 1e9})
    return recrawl.learn(known, visit(text_hash=text_hash, ended_at=after(days * DAY), **columns), rules).row(
        0, named=True
    )


@pytest.mark.parametrize(("dated", "modified", "exact"), [(True, 3.0, True), (False, 3.0, False), (True, -3.0, False)])
def test_a_change_of_known_date_counts_as_one_in_the_time_since_if_the_hosts_dates_are_believed(dated, modified, exact):
    row = later(8, last_modified="now", modified_at=after(modified * DAY), dated=dated)

    assert (posterior(row) == pytest.approx((5.0, 21.0), rel=1e-3)) == exact


def test_the_signals_of_a_believed_sitemap_count_as_changes_as_far_as_they_are_right():
    told = {"lastmod_at": after(3 * DAY), "moved_count": 5, "recall": 0.5, "precision": 0.8}

    assert posterior(later(8, days=10.0, **told)) == pytest.approx((8.0, 25.0), rel=1e-3)
    assert posterior(later(7, days=10.0, **told)) == pytest.approx((4.0, 30.0), rel=1e-3)
    assert later(8, **told)["change_expected"] > 0.99
    assert later(8)["change_expected"] < 0.8


def test_signals_that_come_with_nearly_every_reading_are_no_count_of_changes():
    told = {"lastmod_at": after(3 * DAY), "moved_count": 3, "recall": 0.9, "precision": 0.9}

    assert posterior(later(8, days=4.0, **told)) == pytest.approx(posterior(later(8, days=4.0)))


def test_a_page_whose_sitemap_will_tell_waits_longer_by_itself():
    told = {"lastmod_at": after(-DAY), "moved_count": 0, "recall": 0.8, "precision": 0.9}

    for price in (None, 0.5):
        assert later(7, price=price, **told)["interval_s"] > 1.5 * later(7, price=price)["interval_s"]


def test_a_first_visit_learns_from_the_age_of_the_page_if_its_date_is_believed():
    listed = {"lastmod_at": after(-40 * DAY), "recall": 0.9, "precision": 0.9}
    answered = {"last_modified": "then", "modified_at": after(-40 * DAY), "dated": True}
    for dates in (listed, answered):
        row = learn_all([visit(text_hash=7, **dates)])
        assert posterior(row) == pytest.approx((prior.SHAPE + 1, PRIOR_B_DAYS + 40), rel=1e-4)
        assert row["interval_s"] > POLICY.recrawl.first_s
    unknown = learn_all([visit(text_hash=7, lastmod_at=after(-40 * DAY))])
    assert unknown["interval_s"] == POLICY.recrawl.first_s


@pytest.mark.parametrize(("pages", "days"), [(0, math.sqrt(7.0)), (1_000, 7.0), (None, 7.0)])
def test_what_a_sitemap_says_of_how_often_a_page_changes_counts_as_one_page_until_pages_speak_against_it(pages, days):
    """The host's pages change once in 7 days; the sitemap says daily."""
    row = learn_all([visit(text_hash=7, said_rate=1.0, prior_count=pages, prior_b=prior.SHAPE * 7)])

    a, b = posterior(row, prior.SHAPE * 7)
    assert b / a == pytest.approx(days, rel=0.02)


def test_a_sitemap_whose_dates_are_refuted_has_changed_only_when_it_names_other_pages():
    def read(named, **columns):
        known = history(fetched_at=NOON, text_hash=7, main_hash=1, visit_count=1, change_count=0, cosmetic_count=0)
        one = visit(text_hash=8, kind="sitemap", main_hash=named, ended_at=after(DAY), **columns)
        return recrawl.learn(known, one, POLICY)["change_count"].item()

    assert [read(1), read(1, refuted=True), read(2, refuted=True)] == [1, 0, 1]


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


# Prices.


def test_with_a_price_a_page_is_due_when_it_is_nearly_worth_it():
    for objective in ("binary", "harmonic"):
        rules = policy(recrawl={"objective": objective})
        row = learn_all([visit(text_hash=7, prior_b=4.0, score=0.5, price=0.2)], rules)
        days = np.array([row["interval_s"] / DAY])
        worth_then = worth.of_visit(np.array([prior.SHAPE]), np.array([4.0]), days, objective)[0]
        assert 0.5 * worth_then == pytest.approx(recrawl.EARLY * 0.2, rel=1e-3)


def test_the_more_important_page_is_due_sooner_and_a_higher_price_makes_all_wait():
    waits = [learn_all([visit(text_hash=7, score=score, price=price)])["interval_s"]
             for score, price in ((1.0, 0.1), (0.5, 0.1), (0.5, 0.2))]  # fmt: skip

    assert waits == sorted(waits)
    assert waits[0] < waits[1] < waits[2]


def test_a_page_that_changes_faster_than_visits_can_follow_waits_as_long_as_may_be_but_never_longer():
    found = [visit(text_hash=n, ended_at=after(n * 2 * DAY), price=3.0, score=1.0) for n in range(40)]

    binary, harmonic = (learn_all(found, policy(recrawl={"objective": name})) for name in ("binary", "harmonic"))

    assert binary["interval_s"] > 10 * DAY
    assert binary["interval_s"] <= POLICY.recrawl.longest_s
    assert harmonic["interval_s"] < 5 * DAY


def test_a_sitemap_has_no_price():
    assert learn_all([visit(text_hash=7, kind="sitemap", price=99.0, score=0.01)])["interval_s"] == DAY


@pytest.mark.parametrize(
    ("judged", "days"),
    [({"recall": 0.9, "precision": 0.9}, 1.0), ({}, 2.5), ({"refuted": True}, 7.0)],
    ids=["believed", "not known", "refuted"],
)
def test_where_visits_have_a_price_sitemaps_are_read_in_proportion_to_visits_and_to_what_they_are_worth(judged, days):
    """The host is asked for two pages in a day; nothing waits longer than a week."""
    row = learn_all([visit(text_hash=7, kind="sitemap", price=1.0, host_visits=2.0, **judged)])

    assert row["interval_s"] == pytest.approx(days * DAY)
