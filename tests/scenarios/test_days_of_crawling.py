"""A crawl that goes on for days: new pages are found while known ones are visited again, within one budget."""

from datetime import timedelta

import polars as pl
from crawls import DAY, NOON, Crawl, policy

from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, Request, html, robots, routes, tree
from tests.effort import times

DAYS, A_DAY = times(4, 8), 24


def words(name: str) -> str:
    return " ".join(f"{name}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")


def news(request: Request) -> Answer:
    """A front page that names one article more every quarter of a day; articles never change."""
    issue = int(request.at_s / DAY * 4)
    if request.target == "/":
        return html("News", [f"/{number}" for number in range(issue + 1)], words(f"front{issue}x"))
    return html(request.target, text=words(f"article{request.target[1:]}x"))


def test_new_pages_are_found_and_known_ones_visited_again_day_after_day_within_the_budget(tmp_path):
    rules = policy(recrawl={"first_s": DAY / 2, "shortest_s": 3_600.0}, budget={"fetches_per_day": A_DAY})
    manual = Host("manual.test", robots(tree(30), ""))
    crawl = Crawl(tmp_path, Host("news.test", robots(routes({}, otherwise=news), "")), manual, rules=rules)
    crawl.seed("http://news.test/", "http://manual.test/")
    for _ in range(DAYS * 4):
        crawl.work(seconds=120)
        crawl.wait(DAY / 4 - 120)

    asked = crawl.rows("fetches").filter(cause="page").with_columns(day=(pl.col("started_at") - NOON).dt.total_days())
    first = asked.group_by("url").agg(first=pl.col("started_at").min())
    of_day = asked.join(first, on="url").with_columns(new=pl.col("started_at") == pl.col("first"))
    # Every day has both: what is new, and visits to what is known. The budget holds, an hour's savings apart.
    counts = of_day.group_by("day").agg(pl.len(), pl.col("new").sum(), again=(~pl.col("new")).sum()).sort("day")
    assert counts["new"].min() >= 1
    assert counts["again"][1:].min() >= 1
    assert counts["len"].max() <= A_DAY + 2
    # The front page is known to change, the manual not to: one is asked many times as often as a page of the other.
    times = dict(asked.group_by("url").len().iter_rows())
    manuals = [count for url, count in times.items() if "manual" in url]
    assert times["http://news.test/"] > 2 * sum(manuals) / len(manuals)
    # No article waits longer than two days, however many pages there are of the manual.
    issued = {f"http://news.test/{n}": NOON + timedelta(days=n / 4) for n in range((DAYS - 2) * 4)}
    found = dict(first.iter_rows())
    assert max(found[url] - at for url, at in issued.items()) < timedelta(days=2)
    crawl.check()
    crawl.check_requests()
