"""Sitemaps: a large one does not flood its host; each is read again by its own rule, and let go when not named."""

from typing import Any

import pytest
from crawls import DAY, Crawl, policy

from crawl_pipeline import explaining, maintenance
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import html, plain, robots, robots_text, routes, validated
from tests.effort import long

MAP = "http://a.test/map.xml"
PORTIONS = {
    "sitemap": {"portion_s": 60.0, "share": 0.5},
    "traps": {"probes_per_host": 0},
}  # at one request a second 30 URLs a portion
DAILY = {"recrawl": {"first_s": 30 * DAY}, "sitemap": {"first_s": DAY, "shortest_s": DAY / 2, "longest_s": 7 * DAY}}


def xml(*paths: str, kind: str = "url", lastmod: Any = lambda path: None, more: str = "") -> Any:
    days = {path: f"<lastmod>{lastmod(path)}</lastmod>" if lastmod(path) else "" for path in paths}
    rows = "".join(f"<{kind}><loc>http://a.test{path}</loc>{day}{more}</{kind}>" for path, day in days.items())
    root = "urlset" if kind == "url" else "sitemapindex"
    return plain(f"<{root}>{rows}</{root}>", content_type="application/xml")


def a_site(tmp_path: Any, pages: dict[str, Any], rules: Any, *more: Host, sitemaps: Any = (MAP,)) -> Crawl:
    """A host whose robots.txt names sitemaps: always the same, or what a function makes of its n-th request."""
    told = sitemaps if callable(sitemaps) else lambda nth: sitemaps
    text = {"/robots.txt": lambda request: plain(robots_text(sitemaps=list(told(request.nth_here))))}
    host = Host("a.test", routes(text, otherwise=routes(pages)))
    return Crawl(tmp_path, host, *more, rules=rules).seed("http://a.test/")


def explained(crawl: Crawl, url: str) -> str:
    return explaining.explain(crawl.lake, crawl.rules, url, at(crawl)).because


def at(crawl: Crawl) -> Any:
    async def now() -> Any:
        return crawl.now

    return crawl.run(now)


def chain(length: int, last: list[str]) -> dict[str, Any]:
    """Pages that link to the next one each."""
    steps = {f"/c{n}": html(f"Step {n}", [f"/c{n + 1}"] if n + 1 < length else last) for n in range(length)}
    return {"/": html("Home", ["/c0"])} | steps


@long
def test_a_large_sitemap_leaves_turns_to_what_pages_link_to_and_nothing_is_lost(tmp_path):
    """Of 150 listed pages the newest come first; a chain of links is walked meanwhile, and its end leads on."""
    paths = [f"/l{n}" for n in range(150)]
    pages = chain(4, ["/l149"]) | {path: html(f"Listed {path}") for path in paths}
    listing = {"/map.xml": xml(*paths, lastmod=lambda path: f"2026-01-{31 - int(path[2:]) // 5:02d}")}
    rules = policy(**PORTIONS, round={"seconds": 30.0, "shortest_s": 2.0})
    other = site("b.test", pages=5)
    crawl = a_site(tmp_path, pages | listing, rules, other).seed("http://b.test/")
    crawl.work(seconds=100)

    first = crawl.asked("a.test")
    assert explained(crawl, "http://a.test/l140").startswith("only a sitemap names it: it waits for its turn")
    crawl.work(seconds=500)
    asked = crawl.asked("a.test")

    assert sorted(asked) == sorted([*pages, "/map.xml"])
    assert asked.index("/c3") < 100
    # A link to the page that would have been last of all brought its turn forward.
    assert asked.index("/c3") < asked.index("/l149") < asked.index("/l125")
    assert not set(first) & set(paths[60:149])
    places = [asked.index(path) for path in paths]
    assert max(places[:30]) < min(places[60:149])
    crawl.check()


@long
def test_a_sitemap_that_changes_is_read_more_often_than_one_that_does_not_and_that_costs_a_304(tmp_path):
    """Pages come back after a month; sitemaps by their own rule."""
    news, still = "/news.xml", "/still.xml"
    maps = {
        news: lambda request: xml("/", f"/news{request.nth_here}"),
        still: validated(lambda request: xml("/")),
        "/": html("Home"),
    }
    crawl = a_site(tmp_path, maps, policy(**DAILY), sitemaps=["http://a.test" + news, "http://a.test" + still])
    for _ in range(9):
        crawl.work(seconds=30)
        crawl.wait(1.1 * DAY)

    asked = crawl.asked("a.test")
    assert asked.count("/") == 1
    assert asked.count(news) == 9
    assert 2 < asked.count(still) < 6
    answers = crawl.rows("fetches").filter(url="http://a.test" + still)["http_status"].to_list()
    assert answers.count(200) < answers.count(304)
    crawl.check()


@pytest.mark.parametrize("stamp", ["<!-- {} -->", "<x>{}</x>"])
def test_a_sitemap_that_names_the_same_has_not_changed_whatever_its_bytes(tmp_path, stamp):
    def listing(request: Any) -> Any:
        return plain(f"<urlset>{stamp.format(request.nth_here)}<url><loc>http://a.test/</loc></url></urlset>")

    crawl = a_site(tmp_path, {"/": html("Home"), "/map.xml": listing}, policy(**DAILY))
    for _ in range(3):
        crawl.work(seconds=30)
        crawl.wait(8 * DAY)

    told = crawl.rows("frontier").filter(url=MAP).join(crawl.rows("change_frequency"), on="url_hash")
    assert told.select("visit_count", "change_count").row(0) == (3, 0)


@long
def test_a_sitemap_that_is_no_longer_named_is_let_go_with_what_it_named_and_read_again_once_it_is(tmp_path):
    index, part, page = MAP, "http://a.test/part.xml", "http://a.test/page"
    pages = {
        "/": html("Home"), "/page": html("Page"), "/map.xml": xml("/part.xml", "/map.xml", kind="sitemap"),
        "/part.xml": xml("/page"),
    }  # fmt: skip
    crawl = a_site(tmp_path, pages, policy(**DAILY), sitemaps=lambda nth: [] if nth in (1, 2) else [index])

    def days(count: int) -> None:
        for _ in range(count):
            crawl.work(seconds=30)
            crawl.wait(1.1 * DAY)

    def maintain() -> Any:
        now = at(crawl)
        return maintenance.maintain(crawl.lake, crawl.rules, clock=lambda: now)

    def states() -> list[str]:
        return [crawl.url(url)["status"] for url in (index, part, page)]

    days(1)
    assert maintain().orphans == 0
    assert states() == ["fetched"] * 3
    days(1)  # robots.txt is read again, and names it no longer
    assert maintain().orphans == 3
    assert states() == ["orphan"] * 3
    assert crawl.url(index)["due_at"] is None
    assert explained(crawl, index).startswith("neither robots.txt nor an index names it any more")
    before = crawl.asked("a.test").count("/map.xml")
    crawl.wait(30 * DAY)
    days(1)  # "/" falls due, and robots.txt is asked for
    assert crawl.asked("a.test").count("/map.xml") == before
    crawl.wait(90 * DAY)
    days(1)
    assert maintain().linked_again >= 1
    days(1)
    assert crawl.asked("a.test").count("/map.xml") == before + 1
    crawl.check()


def test_translations_that_a_sitemap_names_are_pages_of_its_site_like_others(tmp_path):
    more = '<x:link rel="alternate" hreflang="de" href="http://a.test/de"/>' + (
        '<x:link rel="alternate" hreflang="fr" href="http://b.test/fr"/>'
    )
    pages = {"/": html("Home"), "/en": html("Hello"), "/de": html("Guten Tag"), "/map.xml": xml("/en", more=more)}
    crawl = a_site(tmp_path, pages, policy(scope={"follow": "everywhere"}), site("b.test", {"/fr": html("Bonjour")}))
    crawl.work()

    assert crawl.stored("a.test") == ["/", "/de", "/en"]
    assert crawl.url("http://a.test/de")["kind"] == "listed"
    assert crawl.asked("b.test") == []
    crawl.check()


def test_indexes_that_name_indexes_without_end_are_left_after_a_few(tmp_path):
    def endless(request: Any) -> Any:
        number = int(request.target.strip("/i.xml") or 0)
        return xml(f"/i{number + 1}.xml", kind="sitemap")

    host = Host("a.test", robots(routes({"/": html("Home")}, otherwise=endless), robots_text(sitemaps=["/i0.xml"])))
    crawl = Crawl(tmp_path, host).seed("http://a.test/")
    crawl.work()

    assert [path for path in crawl.asked("a.test") if path != "/"] == [f"/i{n}.xml" for n in range(4)]
    assert crawl.tally("refused")["over sitemap.depth"] == 1
    crawl.check()
