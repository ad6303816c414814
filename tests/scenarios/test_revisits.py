"""Pages come back when they fall due: unchanged ones cheaply and later, changed ones sooner."""

from collections import Counter
from datetime import timedelta

import polars as pl
from crawls import DAY, NOON, Crawl, policy, taking

from crawl_pipeline import explaining
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import (
    Answer,
    Request,
    html,
    plain,
    robots,
    robots_text,
    routes,
    slow,
    tree,
    validated,
)

DAILY = {"recrawl": {"first_s": DAY, "shortest_s": 3_600.0}}


def changing(path: str, otherwise):
    """One page that says something else each time."""
    return routes({path: lambda request: html("News", text=f"edition number {request.nth_here}")}, otherwise=otherwise)


def visits(crawl: Crawl) -> dict[str, tuple[int, int]]:
    """Per path of a.test: visits that told something, and changes."""
    known = crawl.rows("frontier", "url", "url_hash").join(crawl.rows("change_frequency"), on="url_hash")
    rows = known.select("url", "visit_count", "change_count").iter_rows()
    return {url.removeprefix("http://a.test"): (count, changes) for url, count, changes in rows}


def test_an_unchanged_page_that_the_web_validates_is_answered_304_and_counts_as_a_visit_without_change(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(validated(tree(4)), "")), rules=policy(**DAILY))
    crawl.seed("http://a.test/").work()
    crawl.wait(2 * DAY)
    crawl.work()

    assert visits(crawl) == dict.fromkeys(["/", "/1", "/2", "/3"], (2, 0))
    assert (crawl.tally()["fetched"], crawl.tally()["not_modified"]) == (4, 4)
    assert len(crawl.stored("a.test")) == 4
    assert crawl.url("http://a.test/1")["status"] == "fetched"
    assert crawl.url("http://a.test/1")["due_at"] > NOON + timedelta(days=3)
    crawl.check()
    crawl.check_requests()


def test_an_unchanged_page_without_validators_is_a_visit_without_change_too(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3), rules=policy(**DAILY)).seed("http://a.test/")
    crawl.work()
    crawl.wait(2 * DAY)
    crawl.work()

    assert visits(crawl) == dict.fromkeys(["/", "/1", "/2"], (2, 0))
    assert crawl.stored("a.test") == ["/", "/", "/1", "/1", "/2", "/2"]
    crawl.check()


def test_a_changed_page_counts_a_change_and_comes_back_sooner_than_the_others(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(changing("/1", tree(3)), "")), rules=policy(**DAILY))
    crawl.seed("http://a.test/").work()
    crawl.wait(2 * DAY)
    crawl.work()

    assert visits(crawl) == {"/": (2, 0), "/1": (2, 1), "/2": (2, 0)}
    assert crawl.url("http://a.test/1")["due_at"] < crawl.url("http://a.test/2")["due_at"]
    crawl.check()


def test_a_revisit_that_crosses_a_commit_keeps_its_history(tmp_path):
    rules = policy(**DAILY, round={"seconds": 4.0, "shortest_s": 0.5})
    late = Host("a.test", robots(slow(validated(tree(6)), first_byte_s=2.7), ""))
    crawl = Crawl(tmp_path, late, site("b.test", pages=5),
                  rules=rules)  # fmt: skip
    crawl.seed("http://a.test/", "http://b.test/").work(in_thread=taking(1.1))
    crawl.wait(2 * DAY)
    crawl.work(in_thread=taking(1.1))

    told = visits(crawl)
    assert {path: told[path] for path in ("/", "/1", "/2", "/3", "/4", "/5")} == dict.fromkeys(
        ["/", "/1", "/2", "/3", "/4", "/5"], (2, 0)
    )
    assert set(crawl.rows("change_frequency")["text_hash"].is_null()) == {False}
    crawl.check()


def test_nothing_is_asked_before_it_falls_due(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3), rules=policy(**DAILY)).seed("http://a.test/")
    crawl.work()
    crawl.wait(DAY / 2)
    worked = crawl.work()

    assert len(crawl.asked("a.test")) == 3
    assert worked.stopped.startswith("nothing to ask before 2026-03-02 12:00:0")


def test_without_recrawl_nothing_is_ever_asked_again(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3), rules=policy(recrawl={"again": False})).seed("http://a.test/")
    crawl.work()
    crawl.wait(400 * DAY)
    worked = crawl.work()

    assert len(crawl.asked("a.test")) == 3
    assert worked.stopped == "nothing due"


def test_an_outage_is_no_observation(tmp_path):
    down = Answer(500, (("content-type", "text/html"),), b"")
    page = {"/": lambda request: down if request.nth_here == 1 else html("Home")}
    crawl = Crawl(tmp_path, site("a.test", page), rules=policy(**DAILY)).seed("http://a.test/")
    crawl.work()
    crawl.wait(2 * DAY)
    crawl.work(seconds=30)

    assert visits(crawl) == {"/": (1, 0)}
    assert crawl.url("http://a.test/")["outcome"] == "unavailable"

    crawl.work(seconds=300)
    assert visits(crawl) == {"/": (2, 0)}
    crawl.check()


def test_a_page_that_is_gone_is_looked_at_again_after_longer_and_longer_waits_and_learnt_of_once_it_is_back(tmp_path):
    """After 1, 7, 30 and 90 days, then seldom; being away is no observation, what it says on its return is one."""
    here = [True, *[False] * 4, True]
    page = {"/": lambda request: html("Back", text=f"edition {here[request.nth_here]}{request.nth_here // 5}")
            if here[request.nth_here] else plain("x", 404)}  # fmt: skip
    crawl = Crawl(tmp_path, site("a.test", page), rules=policy(**DAILY)).seed("http://a.test/")
    crawl.work()
    waits = []
    for _ in range(5):
        row = crawl.url("http://a.test/")
        waits.append(round((row["due_at"] - row["visited_at"]) / timedelta(days=1)))
        crawl.wait(waits[-1] * DAY)
        crawl.work(seconds=60)

    assert waits == [1, 1, 7, 30, 90]
    row = crawl.url("http://a.test/")
    assert (row["status"], row["gone_count"]) == ("fetched", None)
    assert visits(crawl) == {"/": (2, 1)}
    crawl.check()


def test_robots_that_have_expired_are_asked_again_before_a_page_and_obeyed(tmp_path):
    text = {"/robots.txt": lambda request: plain(robots_text(["/1"] if request.nth_here else []))}
    crawl = Crawl(tmp_path, Host("a.test", routes(text, otherwise=tree(3))), rules=policy(**DAILY))
    crawl.seed("http://a.test/").work()
    crawl.wait(2 * DAY)
    crawl.work()

    assert crawl.web.count("http://a.test/robots.txt") == 2
    assert crawl.web.count("http://a.test/1") == 1
    assert crawl.url("http://a.test/1")["status"] == "refused"
    crawl.check()


def test_what_robots_forbade_is_asked_once_they_allow_it(tmp_path):
    text = {"/robots.txt": lambda request: plain(robots_text([] if request.nth_here else ["/1"]))}
    crawl = Crawl(tmp_path, Host("a.test", routes(text, otherwise=tree(3)))).seed("http://a.test/")
    crawl.work()
    assert crawl.asked("a.test") == ["/", "/2"]

    crawl.wait(1.1 * DAY)
    crawl.work()
    assert crawl.asked("a.test") == ["/", "/2", "/1"]
    crawl.check()


def test_a_new_link_on_a_page_visited_again_is_followed(tmp_path):
    page = {"/": lambda request: html("Home", ["/new"] if request.nth_here else []), "/new": html("New")}
    crawl = Crawl(tmp_path, site("a.test", page), rules=policy(**DAILY)).seed("http://a.test/")
    crawl.work()
    crawl.wait(2 * DAY)
    crawl.work()

    assert crawl.stored("a.test") == ["/", "/", "/new"]
    crawl.check()


PAGES = 22


def dated(name: str, *, honest: bool) -> Host:
    """A site whose sitemap says that all pages have changed on day 0, and eight of them again on day 1."""

    def changed(page: int, day: float) -> float:
        times = [-float(page), 0.3 + page / 200, *([1.3 + page / 200] if page < 8 else [])]
        return max(time for time in times if time <= day)

    def listing(request: Request) -> Answer:
        dates = {page: NOON + timedelta(days=changed(page, request.at_s / DAY)) for page in range(PAGES)}
        rows = (f"<url><loc>http://{name}/{page}</loc><lastmod>{date:%FT%TZ}</lastmod></url>"
                for page, date in dates.items())  # fmt: skip
        return plain(f"<urlset>{''.join(rows)}</urlset>", content_type="application/xml")

    def page(request: Request) -> Answer:
        number = int(request.target[1:])
        edition = changed(number, request.at_s / DAY) if honest else 0
        return html(f"Page {number}", text=" ".join(f"word{number}x{edition}x{n}" for n in range(30)))

    pages = {f"/{number}": page for number in range(PAGES)} | {"/map.xml": listing}
    return Host(name, robots(routes(pages), robots_text(sitemaps=[f"http://{name}/map.xml"])))


def test_a_sitemap_that_has_told_the_truth_brings_visits_forward_and_one_that_has_lied_does_not(tmp_path):
    turns = {"first_s": DAY / 4, "longest_s": DAY / 4, "share": 0.5, "portion_s": 10.0}
    rules = policy(recrawl={"first_s": DAY}, sitemap=turns)
    crawl = Crawl(tmp_path, dated("true.test", honest=True), dated("lying.test", honest=False), rules=rules)
    crawl.seed("http://true.test/0", "http://lying.test/0")
    for days in (0.6, 0.6, 0.3, 0.0):
        crawl.work(seconds=120)
        crawl.wait(days * DAY)

    visits = {host: Counter(crawl.asked(host)) for host in ("true.test", "lying.test")}
    sooner = {f"/{number}" for number in range(8)}
    assert {host: found.pop("/map.xml") for host, found in visits.items()} == {"true.test": 4, "lying.test": 4}
    assert {path for path, count in visits["true.test"].items() if count > 2} == sooner
    assert set(visits["lying.test"].values()) == {2}
    last = crawl.rows("fetches").filter(
        pl.col("started_at") > NOON + timedelta(days=1.5), host="true.test", cause="page"
    )
    begun = last["started_at"].sort()
    assert begun[-1] - begun[0] >= timedelta(seconds=10)  # they came in two portions
    for host, said in (("true.test", "its sitemap tells of 95% of changes"), ("lying.test", "are not believed")):
        assert said in explaining.explain(crawl.lake, rules, f"http://{host}/9", NOON).facts["due because"]
    crawl.check()
