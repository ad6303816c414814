"""Each page is visited as often as its history is worth: by its text and not by what servers say, within the budget."""

from datetime import timedelta
from typing import Any

import polars as pl
from crawls import DAY, NOON, Crawl, policy

from crawl_pipeline import explaining, freshness
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import Answer, Request, Site, html, robots, routes, tree
from tests.effort import long

DAILY = {"first_s": DAY, "shortest_s": 3_600.0, "gone_s": [DAY, 2 * DAY]}
VISITS = 8


def words(name: str) -> str:
    """A text of its own for each page: what pages have in common would be stripped as a template."""
    return " ".join(f"the {name} has a line {name}{letter} that is its own" for letter in "abcdefghijklmnopqrst")


def edition(request: Request, name: str) -> str:
    """A text that is another each time."""
    return words(f"{name}{'abcdefghijklmnopqrstuvwxyz'[request.nth_here]}")


def always_the_same_tag(page: Site) -> Site:
    """What a page says changes, its tag never does: who sends the tag back is answered 304."""

    def answer(request: Request) -> Answer:
        if request.headers.get("if-none-match") == '"same"':
            return Answer(304, headers=(("etag", '"same"'),))
        got = page(request)
        return Answer(got.status, body=got.body, headers=(*got.headers, ("etag", '"same"')))

    return answer


def away_for_a_while(request: Request) -> Answer:
    """A page that is not there on its third to fifth visit."""
    return Answer(404) if 3 <= request.nth_here <= 5 else html("Back", text=words("away"))


def pages() -> Host:
    links = ("/news", "/manual", "/clock", "/away")
    index = routes({
        "/": lambda request: html("Index", links, words("index")),
        "/news": lambda request: html("News", text=edition(request, "news")),
        "/manual": lambda request: html("Manual", text=words("manual")),
        "/clock": lambda request: html("Clock", text=f"{words('clock')} 2026-03-{request.nth_here + 1:02d} 12:00:59"),
        "/away": away_for_a_while,
    })  # fmt: skip
    return Host("a.test", robots(index, ""))


def liar() -> Host:
    page = routes({"/": lambda request: html("Tagged", text=edition(request, "liar"))})
    return Host("liar.test", robots(always_the_same_tag(page), ""))


def told(crawl: Crawl) -> dict[str, dict[str, Any]]:
    """What is known of each page, by its URL."""
    both = crawl.rows("frontier", "url", "url_hash", "status", "due_at", "visited_at").join(
        crawl.rows("change_frequency"), on="url_hash", how="left"
    )
    return {row["url"].removeprefix("http://"): row for row in both.iter_rows(named=True)}


def test_news_manuals_liars_clocks_and_pages_that_come_back_are_visited_as_they_change(tmp_path):
    rules = policy(recrawl=DAILY, fetch={"unconditional": 0.9})
    crawl = Crawl(tmp_path, pages(), liar(), rules=rules)
    crawl.seed("http://a.test/", "http://liar.test/").work()
    for _ in range(VISITS):
        crawl.wait(2 * DAY)
        crawl.work()

    known = told(crawl)
    news, manual, clock = (known[f"a.test/{name}"] for name in ("news", "manual", "clock"))
    away, tagged = known["a.test/away"], known["liar.test/"]
    # The news: every visit found another text, so it comes back soonest. The manual: never, so it waits longest.
    assert news["change_count"] == news["visit_count"] - 1 > 3
    assert manual["change_count"] == 0
    assert news["interval_s"] < 3 * DAY < 6 * DAY < manual["interval_s"]
    assert manual["visit_count"] < news["visit_count"]
    # The clock changes at each visit, but nothing that anybody would read again.
    assert clock["change_count"] == 0
    assert clock["interval_s"] > 6 * DAY
    # The tag that stays is found out, and the page is visited like the news.
    assert tagged["change_count"] > 1
    assert tagged["interval_s"] < manual["interval_s"] / 2
    # What was away has been looked for, is known again, and being away was no change.
    assert away["status"] == "fetched"
    assert away["change_count"] == 0
    crawl.check()


@long
def test_a_budget_bounds_what_is_asked_in_a_day_and_the_price_says_what_a_visit_must_be_worth(tmp_path):
    rules = policy(recrawl=DAILY, budget={"fetches_per_day": 12})
    crawl = Crawl(tmp_path, Host("a.test", robots(tree(30), "")), site("b.test", pages=3), rules=rules)
    crawl.seed("http://a.test/", "http://b.test/").work()
    days = 3
    for _ in range(2 * days):
        crawl.wait(DAY / 2)
        crawl.work(seconds=5)

    asked = crawl.rows("fetches").filter(pl.col("cause") == "page")
    assert 0 < asked.height <= 12 * (days + 1)
    rounds = crawl.rows("rounds").sort("round")
    assert rounds["budget_left"].drop_nulls().min() > -5
    assert rounds["price"].drop_nulls().min() > 0

    now = NOON + timedelta(days=days + 1)
    found = explaining.explain(crawl.lake, rules, "http://a.test/1", now).facts["due because"]
    assert "the price is" in found
    reckoned = freshness.reckon(crawl.lake, rules, now)
    assert 0 < reckoned.expected <= 1
    assert 0 < reckoned.planned <= reckoned.best <= 1
    assert reckoned.visits_per_day == 12
    assert set(reckoned.hosts["host"]) == {"a.test", "b.test"}
    assert reckoned.hosts["visits"].sum() <= 12 * (1 + 1e-6)
    assert 0 <= reckoned.brier <= 1
    assert (
        reckoned.calibration["visits"].sum() == crawl.rows("change_frequency").filter(pl.col("visit_count") > 1).height
    )
    crawl.check()
