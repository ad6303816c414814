"""Ordinary webs are crawled whole, each page once, as their owners allow."""

import pytest
from crawls import Crawl, policy, taking

from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import html, plain, redirect, robots, robots_text, routes, sitemap, tree
from tests.effort import long, some

NEVER_AGAIN = {"again": False}


def test_every_reachable_page_is_fetched_exactly_once(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=20), site("b.test", pages=8)).seed("http://a.test/", "http://b.test/")

    worked = crawl.work()

    assert crawl.stored("a.test") == sorted(["/", *(f"/{n}" for n in range(1, 20))])
    assert crawl.stored("b.test") == sorted(["/", *(f"/{n}" for n in range(1, 8))])
    assert len(set(crawl.asked("a.test"))) == len(crawl.asked("a.test")) == 20
    assert worked.stopped.startswith("nothing to ask before")
    crawl.check()
    crawl.check_requests()


@pytest.mark.parametrize("commit_s", some([4.0, 0.3]))
def test_lanes_go_on_while_rounds_are_written_and_nothing_is_lost_or_doubled(tmp_path, commit_s):
    crawl = Crawl(tmp_path, site("a.test", pages=15, first_byte_s=0.4), site("b.test", pages=5, first_byte_s=3))
    crawl.seed("http://a.test/", "http://b.test/")

    crawl.work(in_thread=taking(commit_s))

    assert len(crawl.stored("a.test")) == len(crawl.asked("a.test")) == 15
    assert len(crawl.stored("b.test")) == len(crawl.asked("b.test")) == 5
    crawl.check()
    crawl.check_requests()


def test_a_page_read_while_a_round_is_written_is_no_reason_to_stop(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3), site("b.test", pages=7, first_byte_s=2.5))
    crawl.seed("http://a.test/", "http://b.test/")

    crawl.work(in_thread=taking(1.0), rules=policy(round={"shortest_s": 0.5}))

    assert len(crawl.stored("b.test")) == 7
    crawl.check()


def test_a_host_is_asked_as_often_as_promised_and_seldom_less(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=60)).seed("http://a.test/")

    crawl.work(in_thread=taking(0.2))

    gaps = crawl.web.gaps_s("a.test")
    assert sum(gaps) < 60 * 1.0 * 1.25
    crawl.check()


def test_what_robots_forbid_is_never_asked(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=31, disallow=["/1", "/22"])).seed("http://a.test/")

    crawl.work()

    assert not [path for path in crawl.asked("a.test") if path.startswith(("/1", "/22"))]
    assert crawl.url("http://a.test/1")["status"] == "refused"
    assert crawl.url("http://a.test/1")["reason"] == "Disallow: /1"
    assert crawl.web.paths("a.test").count("/robots.txt") == 1
    crawl.check()


def test_a_crawl_delay_is_kept_across_rounds(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=10, crawl_delay_s=4)).seed("http://a.test/")

    crawl.work(in_thread=taking(0.5))

    assert len(crawl.stored("a.test")) == 10
    crawl.check(rest_s=4)


def test_a_page_that_only_a_sitemap_names_is_found(tmp_path):
    content = routes({
        "/": html("Home"), "/hidden": html("Hidden"), "/maps/1.xml": lambda request: sitemap(request, ["/hidden"]),
        "/moved.xml": redirect("/maps/1.xml"),
    })  # fmt: skip
    text = robots_text(sitemaps=["http://a.test/moved.xml"])
    crawl = Crawl(tmp_path, Host("a.test", robots(content, text))).seed("http://a.test/")

    crawl.work()

    assert crawl.stored("a.test") == ["/", "/hidden"]
    assert (crawl.url("http://a.test/hidden")["kind"], crawl.url("http://a.test/hidden")["depth"]) == ("listed", 1)
    crawl.check()


def test_a_policy_without_sitemaps_reads_none(tmp_path):
    content = routes({"/": html("Home"), "/map.xml": lambda request: sitemap(request, ["/hidden"])})
    text = robots_text(sitemaps=["http://a.test/map.xml"])
    crawl = Crawl(tmp_path, Host("a.test", robots(content, text)), rules=policy(scope={"sitemaps": False}))

    crawl.seed("http://a.test/").work()

    assert crawl.asked("a.test") == ["/"]


def test_links_are_followed_to_the_depth_of_the_scope(tmp_path):
    chain = routes({"/": html("0", ["/1"])} | {f"/{n}": html(str(n), [f"/{n + 1}"]) for n in range(1, 9)})
    crawl = Crawl(tmp_path, Host("a.test", robots(chain, "")), rules=policy(scope={"depth": 3}))

    crawl.seed("http://a.test/").work()

    assert crawl.asked("a.test") == ["/", "/1", "/2", "/3"]
    assert crawl.tally("refused") == {"over scope.depth": 1}
    crawl.check()


def test_links_out_of_the_seeds_sites_are_refused_and_those_within_are_followed(tmp_path):
    crawl = Crawl(
        tmp_path, site("a.test", pages=1, links={"/": ["http://b.test/", "http://www.a.test/"]}), site("b.test"),
        site("www.a.test", pages=3),
    )  # fmt: skip

    crawl.seed("http://a.test/").work()

    assert crawl.asked("b.test") == []
    assert len(crawl.stored("www.a.test")) == 3
    assert crawl.tally("refused")["outside scope.follow"] == 1
    crawl.check()


def test_a_page_that_says_noindex_is_followed_and_not_kept(tmp_path):
    noindex = html("Private", ["/next"], "secret words", head='<meta name="robots" content="noindex">')
    crawl = Crawl(tmp_path, Host("a.test", routes({"/": noindex, "/next": html("Next", text="public words")})))

    crawl.seed("http://a.test/").work()

    pages = {row["url"]: row for row in crawl.documents().iter_rows(named=True)}
    assert pages["http://a.test/"]["noindex"]
    assert (pages["http://a.test/"]["body"], pages["http://a.test/"]["text"]) == (None, None)
    assert "public words" in pages["http://a.test/next"]["text"]
    crawl.check()


def test_a_page_that_says_nofollow_leads_nowhere(tmp_path):
    nofollow = html("Home", ["/next"], head='<meta name="robots" content="nofollow">')
    crawl = Crawl(tmp_path, Host("a.test", routes({"/": nofollow, "/next": html("Next")})))

    crawl.seed("http://a.test/").work()

    assert crawl.asked("a.test") == ["/"]
    assert crawl.tally("refused") == {"nofollow": 1}


def test_every_unfetched_url_has_an_explanation(tmp_path):
    content = {"/": html("Home", ["/gone", "/text", "/forbidden", "/broken", "/moved"]), "/text": plain("x"),
               "/forbidden": plain("x", 403), "/broken": plain("x", 500), "/moved": redirect("/new"),
               "/new": html("New")}  # fmt: skip
    crawl = Crawl(tmp_path, site("a.test", content), rules=policy(retry={"attempts": 2}))

    crawl.seed("http://a.test/").work()

    assert {url.removeprefix("http://a.test"): name for url, name in crawl.outcomes().items()} == {
        "/": "fetched", "/gone": "gone", "/text": "not_html", "/forbidden": "forbidden", "/broken": "unavailable",
        "/moved": "redirected", "/new": "fetched",
    }  # fmt: skip
    assert crawl.url("http://a.test/broken")["status"] == "dead"
    assert crawl.web.count("http://a.test/broken") == 2
    crawl.check()


def test_a_seed_that_is_given_again_is_seen(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3)).seed("http://a.test/")
    crawl.work()
    crawl.seed("http://a.test/", "http://a.test/2").work()

    assert crawl.asked("a.test") == ["/", "/1", "/2"]
    assert crawl.tally("refused")["seen"] == 2
    crawl.check()


def test_a_lake_without_orders_says_that_nothing_is_due(tmp_path):
    crawl = Crawl(tmp_path, site("a.test"))

    worked = crawl.work()

    assert worked.stopped == "nothing due"
    assert set(worked.rows["note"]) == {"nothing due"}
    assert crawl.web.log == ()


def test_a_name_that_does_not_resolve_slows_nobody_and_gives_up(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=5)).seed("http://a.test/", "http://nowhere.test/")

    crawl.work()

    assert len(crawl.stored("a.test")) == 5
    assert crawl.url("http://nowhere.test/")["outcome"] == "robots_unreachable"
    crawl.check()


def test_a_robots_txt_that_leads_to_another_host_is_polite_to_both(tmp_path):
    crawl = Crawl(
        tmp_path, Host("a.test", robots(tree(8), redirect("http://b.test/robots.txt"))),
        site("b.test", pages=8, first_byte_s=0.3, disallow=["/5"]),
    )  # fmt: skip

    crawl.seed("http://a.test/", "http://b.test/").work(in_thread=taking(0.4))

    assert "/5" not in crawl.asked("a.test")
    assert len(crawl.stored("a.test")) == len(crawl.stored("b.test")) == 7
    crawl.check()
    crawl.check_requests()


@pytest.mark.parametrize("busy_s", some([2.0, 0.0]))
@long
def test_hosts_are_asked_on_while_rounds_are_written_and_planned(tmp_path, busy_s):
    names = [f"h{n}.test" for n in range(4)]
    crawl = Crawl(tmp_path, *(site(name, pages=120) for name in names), rules=policy(round={"seconds": 10.0}))
    crawl.seed(*(f"http://{name}/" for name in names))

    crawl.work(seconds=80, in_thread=taking(busy_s))

    asked = [row.started for row in crawl.web.log if 30 <= row.started < 75]
    assert len(asked) >= 0.97 * 4 * 45 / 1.05  # each request takes 0.05 s, and a second of rest
    crawl.check()
