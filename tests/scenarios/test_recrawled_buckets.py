"""Whole buckets are visited again as people wish, once for each wish, whatever happens meanwhile."""

from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from crawls import NOON, Crawl, Died, dying_after, policy

from crawl_pipeline import ordering, recrawling
from crawl_pipeline.core import urls
from crawl_pipeline.core.orders import OrderError
from crawl_pipeline.recrawling import Wish
from crawl_pipeline.testing import site

ALL = range(2)
OWN = urls.bucket("a.test", 2)


def crawled(root: Path, **sections: Any) -> Crawl:
    """Four pages of one host, all visited."""
    crawl = Crawl(root, site("a.test", pages=4), site("b.test", pages=2), rules=policy(**sections))
    crawl.seed("http://a.test/").work()
    assert len(crawl.asked("a.test")) == 4
    crawl.wait(3_600)
    return crawl


def test_all_pages_of_a_bucket_are_visited_again_once_for_a_wish_and_again_for_another(tmp_path: Path):
    crawl = crawled(tmp_path)
    wish = Wish("all", crawl.run(now(crawl)))

    assert recrawling.waiting(crawl.lake, ALL, wish) == {OWN: 4, 1 - OWN: 0}
    assert recrawling.order(crawl.lake, [OWN], wish) == 1
    assert recrawling.waiting(crawl.lake, ALL, wish)[OWN] == 4
    crawl.wait(5)
    crawl.work()

    assert len(crawl.asked("a.test")) == 8
    assert recrawling.waiting(crawl.lake, ALL, wish)[OWN] == 0
    assert recrawling.order(crawl.lake, ALL, wish) == 1  # the other bucket; the order for this one stands
    crawl.lake.give(
        crawl.rows("orders").filter(kind="recrawl", of_bucket=OWN).drop("order")
    )  # given twice all the same
    crawl.work()
    assert len(crawl.asked("a.test")) == 8

    crawl.wait(3_600)
    recrawling.order(crawl.lake, [OWN], Wish("all", crawl.run(now(crawl))))
    crawl.work()
    assert len(crawl.asked("a.test")) == 12
    crawl.check()


def test_a_pattern_and_an_age_choose_among_the_pages(tmp_path: Path):
    crawl = crawled(tmp_path)
    paths = sorted(set(crawl.asked("a.test")))
    made_at = crawl.run(now(crawl))
    by_pattern, old = Wish("pattern", made_at, pattern=f"*{paths[-1]}"), Wish("older_than", made_at, days=1 / 12)

    assert recrawling.waiting(crawl.lake, [OWN], by_pattern) == {OWN: 1}
    assert recrawling.waiting(crawl.lake, [OWN], old) == {OWN: 0}
    assert recrawling.waiting(crawl.lake, [OWN], Wish("older_than", made_at, days=0.01)) == {OWN: 4}
    recrawling.order(crawl.lake, [OWN], by_pattern)
    recrawling.order(crawl.lake, [OWN], old)
    crawl.work()

    assert sorted(crawl.asked("a.test")) == sorted([*paths, paths[-1]])
    assert "visited before" in ordering.in_words(ordering.about(crawl.lake, f"http://a.test{paths[-1]}")[-1])


def test_what_is_due_needs_no_order_and_new_urls_wait_while_only_known_ones_are_asked_for(tmp_path: Path):
    crawl = crawled(tmp_path, recrawl={"first_s": 3_000.0})
    wish = Wish("due", crawl.run(now(crawl)))
    crawl.seed("http://b.test/")

    assert recrawling.waiting(crawl.lake, [OWN], wish) == {OWN: 4}
    assert recrawling.order(crawl.lake, ALL, wish) == 0
    worked = crawl.work(rules=recrawling.only_known(crawl.rules))

    assert len(crawl.asked("a.test")) == 8
    assert crawl.asked("b.test") == []
    assert worked.stopped.startswith("nothing to ask before")
    assert crawl.tally("left_out")["new URLs wait"] >= 1
    assert recrawling.waiting(crawl.lake, [OWN], wish) == {OWN: 0}
    crawl.work()
    assert len(crawl.asked("b.test")) == 2
    crawl.check()


def test_a_wish_whose_worker_died_is_carried_on_and_not_begun_anew(tmp_path: Path):
    crawl = crawled(tmp_path, round={"shortest_s": 0.5, "seconds": 1.0})
    wish = Wish("all", crawl.run(now(crawl)))
    recrawling.order(crawl.lake, [OWN], wish)

    with pytest.raises(ExceptionGroup) as died:
        crawl.work(tell=dying_after(2))
    assert died.group_contains(Died)
    left = recrawling.waiting(crawl.lake, [OWN], wish)[OWN]
    crawl.wait(300)
    again = recrawling.order(crawl.lake, [OWN], wish)
    crawl.work()

    assert 0 < left < 4
    assert again == 0
    assert recrawling.waiting(crawl.lake, [OWN], wish) == {OWN: 0}
    assert len(crawl.asked("a.test")) <= 9  # what was being asked when it died is asked again
    crawl.check_accounts()


@pytest.mark.parametrize(("buckets", "pattern", "said"), [
    ([0, 2], None, r"expected buckets from 0 to 1, found \[2\]"),
    ([0], "", "expected a pattern"),
    ([0], "*/ä/*", "expected a pattern"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(tmp_path: Path, buckets: list[int], pattern: str | None, said: str):
    lake = Crawl(tmp_path).lake

    with pytest.raises(OrderError, match=said):
        ordering.recrawl_buckets(lake, buckets, visited_before=NOON, pattern=pattern, now=NOON)
    assert lake.scan("orders").collect().is_empty()


def now(crawl: Crawl) -> Any:
    """The time of the crawl, told by its clock."""

    async def look() -> Any:
        return crawl.now + timedelta(seconds=0)

    return partial(look)
