"""A page that loses its last link becomes an orphan, is visited late, and is a page like others when a link is back."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from crawls import DAY, NOON, Crawl, policy

from crawl_pipeline import maintenance, ordering, past, reports
from crawl_pipeline.maintenance import Maintained
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import html, plain, redirect, robots, robots_text, routes, validated
from tests.effort import long

LONGEST = 30 * DAY
RULES = policy(recrawl={"first_s": DAY, "longest_s": LONGEST})
PAGE = "http://a.test/page"


def linking(*editions: list[str]) -> Any:
    """A page that links to something else each time; the last edition stays."""
    return lambda request: html("Home", editions[min(request.nth_here, len(editions) - 1)])


def a_site(tmp_path: Any, pages: dict[str, Any], **told: Any) -> Crawl:
    host = Host("a.test", robots(routes(pages), robots_text(**told)))
    return Crawl(tmp_path, host, rules=RULES).seed("http://a.test/")


def day_after_day(crawl: Crawl, days: int = 1) -> None:
    """Work, and let two days pass, so that all pages fall due again."""
    for _ in range(days):
        crawl.work(seconds=60)
        crawl.wait(2 * DAY)


def maintain(crawl: Crawl) -> Maintained:
    async def now() -> Any:
        return crawl.now

    at = crawl.run(now)
    return maintenance.maintain(crawl.lake, RULES, clock=lambda: at)


def test_a_page_that_loses_its_last_link_becomes_an_orphan_and_is_visited_late(tmp_path):
    crawl = a_site(tmp_path, {"/": linking(["/page", "/other"], ["/other"]), "/page": html("P"), "/other": html("O")})
    day_after_day(crawl)
    assert maintain(crawl).orphans == 0
    day_after_day(crawl)

    done = maintain(crawl)

    assert (done.orphans, done.linked_again) == (1, 0)
    row = crawl.url(PAGE)
    assert (row["status"], row["outcome"]) == ("orphan", "fetched")
    assert timedelta(days=30) < row["due_at"] - NOON < timedelta(days=33)
    assert crawl.url("http://a.test/other")["status"] == "fetched"
    day_after_day(crawl, 3)
    assert crawl.asked("a.test").count("/page") == 2
    crawl.check()


def test_an_orphan_that_is_still_there_stays_one_however_often_it_is_visited(tmp_path):
    crawl = a_site(tmp_path, {"/": linking(["/page"], []), "/page": html("P")})
    day_after_day(crawl, 2)
    maintain(crawl)
    crawl.wait(LONGEST)
    day_after_day(crawl)

    assert crawl.asked("a.test").count("/page") == 3
    row = crawl.url(PAGE)
    assert row["status"] == "orphan"
    assert row["due_at"] - NOON > timedelta(days=60)
    assert maintain(crawl).idle is False  # files, not orphans
    assert crawl.url(PAGE) == row | {"layer": "base"}


def test_an_orphan_that_is_gone_is_gone(tmp_path):
    page = {"/page": lambda request: html("P") if request.nth_here < 2 else plain("x", 404)}
    crawl = a_site(tmp_path, {"/": linking(["/page"], [])} | page)
    day_after_day(crawl, 2)
    maintain(crawl)
    crawl.wait(LONGEST)
    day_after_day(crawl)

    assert crawl.url(PAGE)["status"] == "gone"


@long
def test_a_link_that_comes_back_makes_it_a_page_like_others(tmp_path):
    crawl = a_site(tmp_path, {"/": linking(["/page"], [], ["/page"]), "/page": html("P")})
    day_after_day(crawl, 2)
    assert maintain(crawl).orphans == 1
    day_after_day(crawl, 3)

    done = maintain(crawl)

    row = crawl.url(PAGE)
    assert (done.orphans, done.linked_again) == (0, 1)
    assert row["status"] == "fetched"
    assert row["due_at"] - NOON < timedelta(days=10)
    asked = crawl.asked("a.test").count("/page")
    day_after_day(crawl)
    assert crawl.asked("a.test").count("/page") == asked + 1
    crawl.check()


def test_a_source_that_has_not_changed_keeps_its_links_alive(tmp_path):
    pages = validated(routes({"/": html("Home", ["/page"]), "/page": html("P")}))
    crawl = Crawl(tmp_path, Host("a.test", robots(pages, "")), rules=RULES).seed("http://a.test/")
    day_after_day(crawl, 3)

    assert crawl.tally()["not_modified"] > 1
    assert maintain(crawl).orphans == 0
    assert crawl.url(PAGE)["status"] == "fetched"


def test_a_page_that_its_sitemap_no_longer_lists_is_an_orphan_unless_a_page_links_to_it(tmp_path):
    def listing(request: Any) -> Any:
        paths = ["/page", "/linked", "/listed"] if not request.nth_here else ["/listed"]
        rows = "".join(f"<url><loc>http://a.test{path}</loc></url>" for path in paths)
        return plain(f"<urlset>{rows}</urlset>", content_type="application/xml")

    pages = {"/map.xml": listing, "/": html("Home", ["/linked"])}
    pages |= {path: html(path) for path in ("/page", "/linked", "/listed")}
    crawl = a_site(tmp_path, pages, sitemaps=["http://a.test/map.xml"])
    day_after_day(crawl, 3)

    assert maintain(crawl).orphans == 1
    statuses = dict(crawl.rows("frontier", "url", "status").iter_rows())
    assert statuses.pop(PAGE) == "orphan"
    assert set(statuses.values()) == {"fetched"}


def test_seeds_and_targets_of_redirects_are_no_orphans_though_no_page_links_to_them(tmp_path):
    pages = {"/": linking(["/later", "/moved"], ["/moved"]), "/later": html("L"), "/moved": redirect("/target"),
             "/target": html("T")}  # fmt: skip
    crawl = a_site(tmp_path, pages)
    day_after_day(crawl)
    crawl.seed("http://a.test/later")
    day_after_day(crawl, 2)

    assert maintain(crawl).orphans == 0
    assert {crawl.url(f"http://a.test{path}")["status"] for path in ("/", "/later", "/target")} == {"fetched"}


def test_a_link_of_another_bucket_counts_and_a_page_s_link_to_itself_does_not(tmp_path):
    own = {"/self": html("S", ["/self"])}
    first = site("h0.test", own | {"/": linking(["http://h1.test/", "/self"], ["http://h1.test/"])})
    second, third = site("h1.test", {"/": linking(["http://h2.test/"], [])}), site("h2.test", pages=1)
    rules = policy(recrawl=RULES.recrawl.model_dump(), scope={"follow": "everywhere"})
    crawl = Crawl(tmp_path, first, second, third, rules=rules, buckets=4).seed("http://h0.test/")
    day_after_day(crawl, 2)
    maintain(crawl)

    orphans = crawl.rows("frontier").filter(status="orphan")["url"].sort().to_list()
    assert orphans == ["http://h0.test/self", "http://h2.test/"]


def test_what_maintenance_says_is_a_round_that_moves_no_cursor_and_is_not_taken_for_a_selection(tmp_path):
    crawl = a_site(tmp_path, {"/": linking(["/page"], []), "/page": html("P")})
    day_after_day(crawl, 2)
    before = crawl.rows("rounds").sort("round").group_by("bucket").last().sort("bucket")
    maintain(crawl)

    ledger = crawl.rows("rounds").sort("round")
    row = ledger.row(-1, named=True)
    was = before.filter(bucket=row["bucket"]).row(0, named=True)
    assert row["note"] == "maintenance: 1 pages became orphans, 0 are linked to again"
    assert all(row[name] == was[name] for name in ("links_seen", "orders_seen", "known_count"))
    with pytest.raises(past.NotThen):
        past.of_round(crawl.lake, row["round"])
    crawl.check()
    assert maintain(crawl).orphans == 0
    assert crawl.rows("rounds").height == ledger.height
    crawl.run(partial(crawl.worker, 30.0))
    crawl.check()


def test_an_interval_that_is_set_by_an_order_holds_for_orphans_and_what_is_forgotten_is_none(tmp_path):
    crawl = a_site(tmp_path, {"/": linking(["/page", "/other"], []), "/page": html("P"), "/other": html("O")})
    day_after_day(crawl)
    ordering.set_key(crawl.lake, RULES, "recrawl.longest_s", str(10 * DAY), now=NOON)
    ordering.forget(crawl.lake, hrefs=["http://a.test/other"], now=NOON)
    day_after_day(crawl)

    assert maintain(crawl).orphans == 1
    assert timedelta(days=10) < crawl.url(PAGE)["due_at"] - NOON < timedelta(days=13)
    assert crawl.rows("frontier").filter(url="http://a.test/other").is_empty()  # maintenance has erased it
    assert all(result.holds for result in reports.run_tests(crawl.lake))
