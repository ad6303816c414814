"""New URLs and visits share a list: what is worth more first, and a floor for both."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import sharing

FLOOR = 0.1


def rows(discovery, visits, quota=1_000, host="a.test", first=0):
    """Due rows of a host: new URLs with these worths, in the order of their draws, and visits with these."""
    both = [(True, place, worth) for place, worth in enumerate(discovery)]
    both += [(False, place, worth) for place, worth in enumerate(visits)]
    return pl.DataFrame(
        [{"url_hash": first + n, "host": host, "discovery": new, "draw": float(place), "worth": float(worth),
          "quota": quota} for n, (new, place, worth) in enumerate(both)],
        schema={"url_hash": pl.Int64, "host": pl.String, "discovery": pl.Boolean, "draw": pl.Float64,
                "worth": pl.Float64, "quota": pl.Int64},
    )  # fmt: skip


def kinds(found):
    """The kinds of a host's URLs in order: n for new, v for a visit."""
    return "".join("n" if new else "v" for new in found.sort("rank")["discovery"])


def test_what_is_worth_more_comes_first():
    assert kinds(sharing.ranked(rows([5, 3], [6, 4, 1]), FLOOR)) == "vnvnv"


def test_visits_go_by_their_worth_and_new_urls_by_their_draw():
    found = sharing.ranked(rows([1, 9], [2, 8]), FLOOR).sort("rank")

    assert found.filter(~pl.col("discovery"))["worth"].to_list() == [8, 2]
    assert found.filter("discovery")["draw"].to_list() == [0, 1]


def test_where_one_kind_is_worth_more_the_other_still_has_its_floor():
    for new, known in ((9, 1), (1, 9)):
        order = kinds(sharing.ranked(rows([new] * 200, [known] * 200), FLOOR))
        rare = "v" if new == 9 else "n"
        assert [order[: 10 * n].count(rare) for n in (1, 5, 20)] == [1, 5, 20]


def test_a_kind_alone_takes_the_whole_list():
    assert kinds(sharing.ranked(rows([], [3, 2, 1]), FLOOR)) == "vvv"
    assert kinds(sharing.ranked(rows([1] * 30, []), FLOOR)) == "n" * 30


worths = st.lists(st.floats(0, 100), max_size=25)


@given(worths, worths, worths, worths, st.integers(1, 12), st.sampled_from([0.1, 0.25, 0.5]))
def test_ranks_are_places_of_one_list_per_host_and_both_kinds_have_their_floor(one, two, three, four, quota, floor):
    both = pl.concat([rows(one, two, quota), rows(three, four, quota, "b.test", 100)])
    found = sharing.ranked(both, floor)

    assert sorted(found["url_hash"]) == sorted(both["url_hash"])
    for _, of_host in found.group_by("host"):
        listed = of_host.filter(pl.col("rank") <= quota)
        assert sorted(listed["rank"]) == list(range(1, min(quota, of_host.height) + 1))
        for _, kind in of_host.group_by("discovery"):
            sure = min(int(listed.height * floor), kind.height)
            assert listed.join(kind, on="url_hash", how="semi").height >= sure


@given(worths, worths, st.integers(0, 12))
def test_the_first_of_all_hosts_are_so_many_and_the_best_of_visits(one, two, most):
    both = pl.concat([rows(one, two), rows(two, one, host="b.test", first=100)])
    found = sharing.first(sharing.ranked(both, FLOOR), most, FLOOR)

    assert found.height == min(most, both.height)
    taken, left = (side.filter(~pl.col("discovery"))["worth"].to_list() for side in
                   (found, both.join(found, on="url_hash", how="anti")))  # fmt: skip
    assert not taken or not left or min(taken) >= max(left)
