"""A fetch list never exceeds a quota, is the same for the same seed, and starves nobody."""

import math
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from crawl_rows import NOON, after, due, host, hosts, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import selection
from crawl_pipeline.core.selection import Selection, left_today, select, turns, uniform
from tests.effort import times

ROUND = {"seconds": 15.0, "ahead_s": 10.0}
LONG = policy(round=ROUND)


def quota(rows, rules, now, seconds=None):
    return selection.quota(rows, left_today(rows, rules, now), rules, now, seconds)


def tally(found: Selection) -> dict[str, int]:
    return dict(found.left_out.group_by("name").agg(pl.col("count").sum()).iter_rows())


# Quotas.


@pytest.mark.parametrize(
    ("columns", "sections", "found"),
    [
        ({}, {}, (13, "host's turn is full")),
        ({"next_allowed_at": after(-100)}, {}, (13, "host's turn is full")),
        ({"next_allowed_at": after(5)}, {}, (11, "host's turn is full")),
        ({"next_allowed_at": after(24.9)}, {}, (1, "host's turn is full")),
        ({"next_allowed_at": after(25)}, {}, (0, "host waits")),
        ({"next_allowed_at": after(1e6)}, {}, (0, "host waits")),
        ({"next_allowed_at": after(1e6), "aside_s": 600.0}, {}, (0, "host put aside")),
        ({"aside_s": 600.0}, {}, (1, "host's turn is full")),
        ({"crawl_delay_s": 10.0}, {}, (3, "host's turn is full")),
        ({"crawl_delay_s": 60.0}, {}, (1, "host's turn is full")),
        ({"backoff_s": 8.0}, {}, (3, "host's turn is full")),
        ({"download_s": 2.0}, {}, (3, "host's turn is full")),
        ({"paused": True}, {}, (0, "host paused")),
        ({"day": NOON.date(), "day_count": 15}, {"host": {"a.test": {"fetches_per_day": 20}}},
         (5, "host's day is full")),
        ({"day": NOON.date(), "day_count": 25}, {"host": {"a.test": {"fetches_per_day": 20}}},
         (0, "host's day is full")),
        ({"day": after(-86_400).date(), "day_count": 25}, {"budget": {"fetches_per_host_day": 20}},
         (13, "host's turn is full")),
        ({}, {"host": {"a.test": {"delay_s": 5.0}}}, (6, "host's turn is full")),
    ],
)  # fmt: skip
def test_a_host_is_listed_no_more_urls_than_it_can_be_asked_until_the_next_list_comes(columns, sections, found):
    rows = hosts(host("a.test", **columns))

    assert quota(rows, policy(round=ROUND, **sections), NOON).row(0)[1:] == found


@given(st.floats(0.1, 60), st.floats(0, 30), st.floats(0, 60))
def test_a_quota_fits_into_the_time_of_its_list_with_the_gaps_promised(delay_s, wait_s, crawl_delay_s):
    rules = policy(round=ROUND, politeness={"delay_s": delay_s})
    row = host("a.test", next_allowed_at=after(wait_s), crawl_delay_s=crawl_delay_s)

    count = quota(hosts(row), rules, NOON)["quota"].item()

    gap_s = max(delay_s, crawl_delay_s)
    assert count == 0 or wait_s + (count - 1) * gap_s <= 25 + 1e-6
    assert wait_s + count * gap_s >= 25 - 1e-5


def test_less_time_than_a_list_lasts_means_a_smaller_quota():
    rows = hosts(host("a.test", next_allowed_at=after(4)), host("b.test"))

    assert quota(rows, LONG, NOON, seconds=3)["quota"].to_list() == [0, 2]
    assert quota(rows, LONG, NOON, seconds=1e9)["quota"].to_list() == [11, 13]
    assert quota(rows, LONG, NOON, seconds=-1)["quota"].to_list() == [0, 0]


# The list.


def test_who_is_left_out_is_tallied_with_its_reason():
    listed = pl.concat([due("a.test", 20), due("b.test", 3), due("c.test", 2), due("d.test", 1)])
    known = hosts(host("a.test"), host("b.test", paused=True), host("c.test", next_allowed_at=after(3600)))

    found = select(listed, known, LONG, NOON, seed=1)

    assert found.fetch_list["host"].to_list() == ["a.test"] * 13
    assert tally(found) == {"host's turn is full": 7, "host paused": 3, "host waits": 2, "host unknown": 1}


def test_a_full_round_leaves_out_with_that_reason():
    listed = pl.concat([due(f"h{n}.test", 5) for n in range(10)])
    known = hosts(*(host(f"h{n}.test") for n in range(10)))

    found = select(listed, known, policy(round={"urls": 12}), NOON, seed=1)

    assert found.fetch_list.height == 12
    assert tally(found) == {"round full": 38}


def test_hosts_come_before_many_pages_of_one():
    listed = pl.concat([due(f"h{n}.test", 10) for n in range(10)])
    known = hosts(*(host(f"h{n}.test") for n in range(10)))

    found = select(listed, known, policy(round={"urls": 25}), NOON, seed=3)

    assert sorted(found.fetch_list.group_by("host").len()["len"]) == [2] * 5 + [3] * 5


def test_no_more_hosts_are_asked_at_a_time_than_the_policy_says():
    listed = pl.concat([due(f"h{n}.test", 10) for n in range(10)])
    known = hosts(*(host(f"h{n}.test") for n in range(10)))

    found = select(listed, known, policy(round={"hosts": 4}), NOON, seed=3)

    assert found.fetch_list["host"].n_unique() == 4
    assert found.fetch_list.height == 40


def test_nothing_due_selects_nothing():
    found = select(due("a.test", 0), hosts(host("a.test")), LONG, NOON, seed=1)

    assert found.fetch_list.is_empty()
    assert found.left_out.is_empty()


crowds = st.lists(
    st.tuples(st.integers(0, 30), st.floats(0, 40), st.booleans(), st.integers(0, 9)), min_size=1, max_size=6
)


def crowd(sizes):
    rows = [host(f"h{n}.test", next_allowed_at=after(wait), paused=paused, day=NOON.date(), day_count=asked)
            for n, (_, wait, paused, asked) in enumerate(sizes)]  # fmt: skip
    bands = [due(f"h{n}.test", size, band=1 + n % 5) for n, (size, *_) in enumerate(sizes)]
    return pl.concat(bands), hosts(*rows)


@given(crowds, st.integers(1, 60), st.integers(1, 6), st.integers(0, 2**62))
def test_every_due_url_is_listed_or_left_out_for_one_reason_and_no_quota_is_exceeded(sizes, urls, most, seed):
    listed, known = crowd(sizes)
    rules = policy(round={"urls": urls, "hosts": most}, budget={"fetches_per_host_day": 9})

    found = select(listed, known, rules, NOON, seed)

    assert found.fetch_list.height + found.left_out["count"].sum() == listed.height
    assert found.fetch_list["url_hash"].is_unique().all()
    assert found.fetch_list.height <= urls
    counts = found.fetch_list.group_by("host").len().join(quota(known, rules, NOON), on="host")
    assert (counts["len"] <= counts["quota"]).all()
    assert counts.height <= most


@given(crowds, st.integers(0, 2**62), st.randoms(use_true_random=False))
def test_the_same_seed_gives_the_same_list_in_whatever_order_rows_come(sizes, seed, chance):
    listed, known = crowd(sizes)
    places = list(range(listed.height))
    chance.shuffle(places)

    one, other = (select(some, known, LONG, NOON, seed).fetch_list for some in (listed, listed[places]))

    assert one["url"].to_list() == other["url"].to_list()


def test_another_seed_gives_another_list():
    listed, known = due("a.test", 200), hosts(host("a.test"))

    one, other = (select(listed, known, LONG, NOON, seed).fetch_list for seed in (1, 2))

    assert set(one["url"]) != set(other["url"])


# Chance.


def test_uniform_numbers_are_uniform_for_neighbouring_seeds_and_hashes():
    """Chi-square over 64 cells, 63 degrees of freedom: above 114 in one of 10,000 cases."""
    hashes = np.arange(-5_000, 5_000, dtype=np.int64)
    for seed in (0, 1, 2, 2**63 - 1):
        drawn = uniform(hashes, seed)
        cells = np.bincount((drawn * 64).clip(0, 63).astype(int), minlength=64)
        assert drawn.min() > 0
        assert drawn.max() <= 1
        assert ((cells - 10_000 / 64) ** 2 / (10_000 / 64)).sum() < 114


def test_draws_of_two_seeds_are_not_correlated():
    """Of 20,000 independent pairs the correlation has a standard error of 0.007."""
    hashes = np.arange(20_000, dtype=np.int64) * 7919
    for seed in range(5):
        assert abs(np.corrcoef(uniform(hashes, seed), uniform(hashes, seed + 1))[0, 1]) < 0.03


def test_low_bands_are_served_in_proportion_to_their_weight():
    """First draws of some hundred rounds among five bands: each share within four standard errors of weight / 31."""
    listed = pl.concat([due("a.test", 1, start=10 + band, band=band) for band in range(1, 6)])
    known = hosts(host("a.test"))
    one_each = policy(round={"seconds": 1.0, "shortest_s": 0.5, "ahead_s": 0.0})
    rounds = times(300, 1_000)

    firsts = [select(listed, known, one_each, NOON, seed).fetch_list["band"].item() for seed in range(rounds)]

    for band, weight in zip(range(1, 6), (16, 8, 4, 2, 1), strict=True):
        share = weight / 31
        error = math.sqrt(share * (1 - share) / rounds)
        assert abs(firsts.count(band) / rounds - share) < 4 * error, band


def test_the_lowest_band_is_not_starved_by_a_stream_of_urgent_urls():
    """One low URL among 50 urgent ones, 13 listed a round: unseen for 400 rounds in fewer than 2 of 1,000 cases."""
    low, known = due("a.test", 1, start=900, band=5), hosts(host("a.test"))

    def is_listed(seed: int) -> bool:
        listed = pl.concat([due("a.test", 50, start=1_000 + 50 * seed, band=1), low])
        return low["url"].item() in select(listed, known, LONG, NOON, seed).fetch_list["url"].to_list()

    # It is listed 400 x 13 / (50 x 16) = 6.5 times on average; never with a chance of exp(-6.5).
    assert any(map(is_listed, range(400)))


def test_every_host_with_due_urls_is_served_before_long_when_there_are_too_many_hosts():
    """40 hosts, 10 at a time: a host is passed over 60 times in a row in (3/4)^60, that is 1 of 30 million, cases."""
    listed = pl.concat([due(f"h{n}.test", 1) for n in range(40)])
    known = hosts(*(host(f"h{n}.test") for n in range(40)))
    few = policy(round={"hosts": 10})

    served = {name for seed in range(60) for name in select(listed, known, few, NOON, seed).fetch_list["host"]}

    assert len(served) == 40


# When to look again.


@pytest.mark.parametrize(
    ("columns", "turn"),
    [
        ({}, NOON),
        ({"next_allowed_at": after(-5)}, NOON),
        ({"next_allowed_at": after(50)}, after(50)),
        ({"day": NOON.date(), "day_count": 20}, NOON.replace(hour=0) + timedelta(days=1)),
        ({"day": NOON.date(), "day_count": 20, "next_allowed_at": after(86_400)}, after(86_400)),
    ],
)
def test_a_waiting_host_has_a_time_when_it_may_be_asked(columns, turn):
    known = hosts(host("a.test", **columns), host("b.test"), host("c.test", paused=True))
    listed = pl.concat([due("a.test", 1), due("c.test", 1)])

    assert turns(listed, known, policy(budget={"fetches_per_host_day": 20}), NOON) == [turn]


def test_a_pace_is_read_from_a_row_and_what_is_absent_keeps_its_default():
    row = hosts(host("a.test", crawl_delay_s=3.0, backoff_s=16.0, calm_count=2, failures=1)).row(0, named=True)

    assert selection.pace_of(row) == selection.HostPace(3.0, 16.0, 2, 1, 0.0)


# Visits and the budget.


def visits(name, days, start=500, **columns):
    """Due rows of known pages, last visited so many days ago."""
    rows = [due(name, 1, start + n, status="fetched", outcome="fetched", visited_at=after(-day * 86_400), **columns)
            for n, day in enumerate(days)]  # fmt: skip
    return pl.concat(rows)


def test_of_known_pages_those_are_asked_whose_visit_is_worth_most():
    listed = visits("a.test", range(1, 41))

    found = select(listed, hosts(host("a.test")), LONG, NOON, seed=1).fetch_list

    assert sorted(found["visited_at"]) == sorted(after(-day * 86_400) for day in range(28, 41))


def test_an_important_page_is_visited_before_one_that_waits_as_long():
    listed = pl.concat([visits("a.test", [5] * 20, score=0.1), visits("a.test", [5] * 5, 900, score=0.9)])

    found = select(listed, hosts(host("a.test")), LONG, NOON, seed=1).fetch_list

    assert (found["score"] > 0.5).sum() == 5


def test_neither_new_urls_nor_visits_keep_the_others_from_a_host():
    listed = pl.concat([due("a.test", 300, score=1.0), visits("a.test", [30] * 300, score=1.0)])
    hour = policy(round={"seconds": 400.0, "lease_s": 600.0})

    found = select(listed, hosts(host("a.test")), hour, NOON, seed=1).fetch_list

    new = found["visited_at"].is_null().sum()
    assert 0.1 * found.height - 1 <= new <= 0.9 * found.height + 1


def test_a_budget_is_spent_where_it_is_worth_most_whatever_the_host():
    listed = pl.concat([visits("a.test", [40, 39, 38, 37]), visits("b.test", [1, 2, 3, 4], 800)])
    known = hosts(host("a.test"), host("b.test"))

    found = select(listed, known, LONG, NOON, seed=1, most=3)

    assert found.fetch_list["host"].to_list() == ["a.test"] * 3
    assert tally(found) == {selection.OVER_BUDGET: 5}
    best = found.judged.filter(pl.col("left_out").is_not_null())["worth"].max()
    assert selection.unpaid(found.judged) == best > 0


def test_without_a_budget_nothing_is_unpaid():
    assert selection.unpaid(select(visits("a.test", [1] * 40), hosts(host("a.test")), LONG, NOON, 1).judged) is None


def test_a_sitemap_that_is_read_again_is_drawn_like_what_is_new():
    listed = visits("a.test", [1], kind="sitemap")

    assert selection.judge(listed, hosts(host("a.test")), LONG, NOON, 1)["discovery"].to_list() == [True]
