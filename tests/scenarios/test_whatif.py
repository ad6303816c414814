"""A selection of the past can be made again exactly, and made otherwise under another policy, with reasons."""

import math
import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from crawls import DAY, NOON, Crawl, policy, taking

from crawl_pipeline import explaining, past, whatif
from crawl_pipeline.past import NotThen
from crawl_pipeline.testing import site
from crawl_pipeline.whatif import BOTH, ONLY_NEW, ONLY_OLD, Compared

RULES = {"recrawl": {"first_s": DAY}, "round": {"urls": 4, "seconds": 10.0, "shortest_s": 4.0}}
OLD = policy(**RULES)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """Two hosts that are crawled, visited again two days later, and kept small in between."""
    crawl = Crawl(tmp_path_factory.mktemp("whatif"), site("a.test", pages=8, first_byte_s=0.3),
                  site("c.test", pages=2, first_byte_s=4.0), rules=OLD)  # fmt: skip
    crawl.seed("http://a.test/", "http://c.test/").work(seconds=60, in_thread=taking(0.3))
    crawl.wait(2 * DAY)
    crawl.work(seconds=60, in_thread=taking(0.3))
    return crawl


def later(crawl: Crawl) -> datetime:
    return NOON + timedelta(days=4)


def compared(crawl: Crawl, number: int, **sections: object) -> Compared:
    return whatif.compare(crawl.lake, past.of_round(crawl.lake, number), policy(**RULES | sections))


def rounds(crawl: Crawl) -> pl.DataFrame:
    """Sums of each round."""
    sums = [pl.col(name).sum() for name in ("selected_count", "admitted_count")]
    return crawl.rows("rounds").group_by("round").agg(*sums, pl.col("started_at").first()).sort("round")


def first_of_second_visit(crawl: Crawl) -> int:
    return int(rounds(crawl).filter(pl.col("started_at") > NOON + timedelta(days=1))["round"][0])


def test_under_the_same_policy_every_round_selects_again_what_it_selected(crawl):
    asked = crawl.rows("fetches").filter(pl.col("cause") == "page")
    in_hand = clean = 0
    for number, selected, *_ in rounds(crawl).iter_rows():
        again = compared(crawl, number)
        fetched = asked.filter(round=number)["url"]

        assert set(again.urls["selected"]) <= {BOTH}
        assert again.old_count + again.in_hand == selected == again.then.recorded
        in_hand += again.in_hand
        if not again.in_hand and fetched.len() == selected > 0:
            assert sorted(fetched) == sorted(again.urls["url"])
            clean += 1
    assert in_hand > 0
    assert clean > 1


def test_another_quota_is_told_as_the_reason(crawl):
    number = first_of_second_visit(crawl)
    found = compared(crawl, number, host={"a.test": {"fetches_per_day": 1}})

    lost = found.urls.filter(selected=ONLY_OLD)
    assert lost.height
    assert set(lost["host"]) == {"a.test"}
    assert all(text.startswith("left out: host's day is full (number") for text in lost["new"])
    assert found.sums("reason").row(0)[:3] == (ONLY_OLD, "left out: host's day is full", lost.height)
    assert found.sums("host").filter(selected=ONLY_OLD)["host"].to_list() == ["a.test"]


def test_a_larger_round_selects_more_and_says_that_the_old_was_full(crawl):
    found = compared(crawl, first_of_second_visit(crawl), round={"urls": 100, "seconds": 10.0})

    more = found.urls.filter(selected=ONLY_NEW)
    assert more.height == found.urls.height - 4
    assert set(more["old"].str.extract(r"^([^(]+) \(")) == {"left out: round full"}
    assert all("number" in text and "worth" in text for text in more["new"])


def test_what_the_policy_would_not_admit_is_told_by_its_rule(crawl):
    number = int(rounds(crawl).filter(pl.col("admitted_count") > 2)["round"][0])
    found = compared(crawl, number, scope={"exclude": ["*a.test/*"]})

    lost = found.urls.filter(selected=ONLY_OLD)
    assert "refused by admission: excluded by scope.exclude" in set(lost["new"])


def test_a_time_finds_the_round_that_was_under_way_or_came_next(crawl):
    number = first_of_second_visit(crawl)
    started = rounds(crawl).filter(round=number)["started_at"][0]

    under_way = past.at_time(crawl.lake, started + timedelta(seconds=1), later(crawl))
    next_one = past.at_time(crawl.lake, started - timedelta(hours=1), later(crawl))

    assert [then.round for then in under_way] == [number]
    assert [then.round for then in next_one] == [number]
    assert next_one[0].now == started


def test_where_no_round_has_followed_two_policies_are_compared_as_of_that_time(crawl):
    """A week after the last round everything is due: the old policy takes 4, the new one all."""
    now = later(crawl) + timedelta(days=7)
    (found,) = whatif.whatif(crawl.lake, policy(**RULES | {"round": {"urls": 100}}), now, now)

    assert found.then.round == 0
    assert found.old_count == 4
    assert found.counts()["count"].sum() > 4
    assert set(found.urls["selected"]) == {BOTH, ONLY_NEW}


def test_two_named_policies_can_be_compared_where_no_snapshot_was_kept(crawl):
    then = replace(past.of_round(crawl.lake, first_of_second_visit(crawl)), policy_id="0000")

    with pytest.raises(NotThen, match="snapshot of the policy"):
        whatif.compare(crawl.lake, then, OLD)
    found = whatif.compare(crawl.lake, then, OLD, OLD)
    assert set(found.urls["selected"]) == {BOTH}


def test_what_the_policy_would_block_is_told(crawl):
    number = first_of_second_visit(crawl)
    url = compared(crawl, number).urls["url"][0]
    by_url = compared(crawl, number, block={"urls": [url]}).urls.filter(url=url)
    by_host = compared(crawl, number, block={"hosts": ["a.test"]}).urls.filter(host="a.test", selected=ONLY_OLD)

    assert by_url["new"].to_list() == ["left out: blocked by block.urls"]
    assert by_host.height
    assert set(by_host["new"].str.extract(r"^([^(]+) \(")) == {"left out: blocked by block.hosts"}


@pytest.mark.parametrize(
    ("at", "told"), [(NOON - timedelta(days=1), "when the lake began"), (NOON + timedelta(days=9), "has passed")]
)
def test_a_time_before_the_lake_or_after_now_is_refused(crawl, at, told):
    with pytest.raises(NotThen, match=told):
        past.at_time(crawl.lake, at, NOON + timedelta(days=8))


def test_what_maintenance_has_deleted_cannot_be_looked_at_and_it_is_said(tmp_path):
    """Files of the first rounds are folded away, made old and deleted."""
    crawl = Crawl(tmp_path, site("a.test", pages=9), rules=OLD).seed("http://a.test/")
    crawl.work(seconds=30)
    lease = crawl.lake.claim([0, 1], "w9", NOON + timedelta(days=1), 60)
    crawl.lake.fold(lease, "frontier", share=0, rounds=0, least=1)
    live = set(crawl.lake.files("frontier"))
    for path in Path(crawl.lake.root, "frontier").rglob("*.parquet"):
        if str(path) not in live:
            path.unlink()

    with pytest.raises(NotThen, match="deleted by maintenance, which keeps a week"):
        compared(crawl, int(rounds(crawl)["round"][3]))


def test_nothing_is_written(crawl):
    def files() -> set[str]:
        return {os.path.join(folder, name) for folder, _, names in os.walk(crawl.lake.root) for name in names}

    before = files()
    compared(crawl, first_of_second_visit(crawl), round={"urls": 100})
    assert files() == before


# One URL.


def explained(crawl: Crawl, url: str, number: int) -> explaining.Explanation:
    return explaining.explain_past(crawl.lake, url, past.of_round(crawl.lake, number))


@pytest.mark.parametrize(("place", "says"), [(0, "it was selected: band"), (-1, "worth")])
def test_a_selected_url_is_explained_with_its_draw_or_worth(crawl, place, says):
    number = rounds(crawl)["round"][0] if place == 0 else first_of_second_visit(crawl)
    url = compared(crawl, number).urls["url"][0]

    found = explained(crawl, url, number)

    draw = found.facts["draw"]
    assert says in found.because
    assert found.because.startswith("it was selected: ")
    assert draw["discovery"] == (place == 0)
    assert draw["draw"] == pytest.approx(-math.log(draw["uniform"]) / draw["weight"])
    assert draw["rank at its host"] <= draw["quota of its host"]
    assert (draw["seed"], found.facts["policy"]) == (number, OLD.id)


def test_a_url_that_was_left_out_is_explained_by_the_same_draw(crawl):
    number = first_of_second_visit(crawl)
    listed = set(compared(crawl, number).urls["url"])
    (first, *_) = sorted({f"http://a.test/{n}" for n in range(1, 8)} - listed)

    found = explained(crawl, first, number)

    assert found.because.startswith("it was left out: ")
    assert found.facts["draw"]["draw"] > 0
    assert found.facts["frontier"]["status"] == "fetched"


def test_what_was_not_known_not_due_or_refused_then_is_explained_as_such(crawl):
    first, *_, last = rounds(crawl)["round"]

    assert explained(crawl, "http://a.test/1", first).because == "it was not known: no link to it had been written"
    assert "not due before 2026-03-0" in explained(crawl, "http://a.test/1", last).because
    assert "not a URL that can be crawled" in explained(crawl, "ftp://a.test/", last).because


def test_a_url_is_explained_by_the_round_that_a_time_finds(crawl):
    number = first_of_second_visit(crawl)
    started = rounds(crawl).filter(round=number)["started_at"][0]

    found = explaining.then(crawl.lake, "http://a.test/1", started + timedelta(seconds=1), None, later(crawl))

    assert found.round == number
    with pytest.raises(NotThen, match="expected the number of a round"):
        explaining.then(crawl.lake, "http://a.test/1", None, 9_999, later(crawl))
