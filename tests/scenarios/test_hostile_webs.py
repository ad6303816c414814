"""Webs without end and hosts in trouble: budgets end the first, patience the second, and neither harms others."""

from datetime import date, timedelta

import httpx
import polars as pl
import pytest
from crawls import ALMOST, DAY, NOON, Crawl, policy, taking

from crawl_pipeline.explaining import explain
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.shapes import calendar, endless_depth, facets, redirect_loop, redirect_maze, session_ids
from crawl_pipeline.testing.sites import (
    always,
    at_first,
    below,
    failing,
    html,
    redirect,
    robots,
    robots_text,
    routes,
    throttled,
    tree,
    unavailable,
)
from tests.effort import long, some


def trap_at(prefix: str, shape, pages: int = 5) -> Host:
    """A good tree of pages with a trap beside it."""
    return Host("a.test", robots(below(prefix, shape, tree(pages, {"/": [prefix]})), ""))


def test_a_calendar_trap_ends_at_the_budget_and_the_good_pages_are_fetched(tmp_path):
    crawl = Crawl(tmp_path, trap_at("/cal", calendar("/cal")),
                  rules=policy(budget={"urls_per_host": 25}, traps={"act": "record"}))  # fmt: skip

    crawl.seed("http://a.test/").work()

    assert {"/", "/1", "/2", "/3", "/4"} <= set(crawl.stored("a.test"))
    assert len(crawl.asked("a.test")) == 25
    assert crawl.tally("refused")["over budget.urls_per_host"] > 0
    crawl.check()


def test_session_ids_end_at_the_budget(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(session_ids(5), "")), rules=policy(budget={"urls_per_host": 20}))

    crawl.seed("http://a.test/").work()

    assert len(crawl.asked("a.test")) == 20
    crawl.check()


def test_endless_folders_end_at_the_path_depth(tmp_path):
    crawl = Crawl(
        tmp_path,
        Host("a.test", robots(endless_depth(), "")),
        rules=policy(budget={"repeated_segment": 6, "repeats_in_a_row": 9}),
    )

    crawl.seed("http://a.test/").work()

    assert len(crawl.asked("a.test")) == 7
    assert crawl.tally("refused") == {"over budget.repeated_segment": 1}
    crawl.check()


def test_facets_end_at_the_number_of_parameters_and_the_budget(tmp_path):
    rules = policy(budget={"query_parameters": 1, "urls_per_host": 100}, traps={"probes_per_host": 0})
    crawl = Crawl(tmp_path, Host("a.test", robots(facets("/shop"), "")), rules=rules)

    crawl.seed("http://a.test/").work()

    assert len(crawl.asked("a.test")) == 16
    assert crawl.tally("refused")["over budget.query_parameters"] > 0
    crawl.check()


def test_subdomains_without_end_meet_one_budget(tmp_path):
    hosts = [site(f"h{n}.a.test", pages=1, links={"/": [f"http://h{n + 1}.a.test/"]}) for n in range(30)]
    crawl = Crawl(tmp_path, *hosts, rules=policy(budget={"urls_per_site": 6}))

    crawl.seed("http://h0.a.test/").work()

    assert len({row.host for row in crawl.web.log}) == 6
    crawl.check()


def test_a_redirect_loop_stops(tmp_path):
    loop = redirect_loop("/x", "/y", "/z")
    crawl = Crawl(tmp_path, Host("a.test", robots(below("/", loop), "")))

    crawl.seed("http://a.test/x").work()

    assert crawl.asked("a.test") == ["/x", "/y", "/z"]
    assert crawl.tally() == {"redirected": 3}
    crawl.check()


def test_a_redirect_maze_ends_at_the_hops_of_the_scope(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(redirect_maze(), "")), rules=policy(scope={"hops": 3}))

    crawl.seed("http://a.test/maze").work()

    assert len(crawl.asked("a.test")) == 4
    assert crawl.tally("refused") == {"over scope.hops": 1}
    crawl.check()


def test_a_page_behind_a_redirect_counts_its_hops_anew(tmp_path):
    content = routes({
        "/": html("0", ["/r1"]), "/r1": redirect("/r2"), "/r2": redirect("/1"), "/1": html("1", ["/r3"]),
        "/r3": redirect("/r4"), "/r4": redirect("/2"), "/2": html("2"),
    })  # fmt: skip
    crawl = Crawl(tmp_path, Host("a.test", robots(content, "")), rules=policy(scope={"hops": 2}))

    crawl.seed("http://a.test/").work()

    assert crawl.stored("a.test") == ["/", "/1", "/2"]
    assert crawl.url("http://a.test/2")["depth"] == 2


# Trouble.


def test_while_robots_answer_5xx_nobody_is_asked_and_later_all_are(tmp_path):
    down = unavailable()
    content = {"/robots.txt": lambda request: down if request.at_s < 500 else html("x", status=404)}
    crawl = Crawl(tmp_path, Host("a.test", routes(content, otherwise=tree(5)))).seed("http://a.test/")

    first = crawl.work(seconds=300)

    assert crawl.web.paths("a.test") == ["/robots.txt"]
    assert first.stopped == "nothing to ask before 2026-03-01 12:10:00 UTC"
    assert crawl.url("http://a.test/")["status"] == "waiting"

    crawl.wait(600)
    crawl.work(seconds=300)

    assert crawl.stored("a.test") == ["/", "/1", "/2", "/3", "/4"]
    crawl.check()
    crawl.check_requests()


def test_a_worker_with_time_enough_waits_for_robots_itself(tmp_path):
    content = {"/robots.txt": lambda request: unavailable() if request.at_s < 30 else html("x", status=404)}
    crawl = Crawl(
        tmp_path, Host("a.test", routes(content, otherwise=tree(3))), rules=policy(robots={"unreachable_s": 60.0})
    )

    crawl.seed("http://a.test/").work(seconds=300)

    assert len(crawl.stored("a.test")) == 3
    crawl.check()


def test_429_slows_the_host_and_only_the_host(tmp_path):
    crawl = Crawl(
        tmp_path, Host("a.test", robots(at_first(tree(6), throttled(40), requests=1), "")), site("b.test", pages=12)
    )

    crawl.seed("http://a.test/", "http://b.test/").work()

    assert crawl.web.rests_s("a.test")[1] >= 40 + 8 - ALMOST
    assert all(rest >= 1 + 8 - ALMOST for rest in crawl.web.rests_s("a.test")[2:])
    assert max(crawl.web.gaps_s("b.test")) < 5
    assert len(crawl.stored("a.test")) == 6
    crawl.check()
    crawl.check_requests()


def test_a_host_that_is_told_to_wait_long_is_left_alone_across_workers(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(at_first(tree(3), throttled(5_000), requests=1), "")))
    crawl.seed("http://a.test/")

    for _ in range(4):
        crawl.work(seconds=60)
        crawl.wait(60)
    assert len(crawl.web.log) == 2

    crawl.wait(5_000)
    crawl.work(seconds=120)
    assert len(crawl.stored("a.test")) == 3
    crawl.check()


def test_a_host_that_is_down_is_put_aside_longer_each_time_while_others_do_not_notice(tmp_path):
    rules = policy(politeness={"backoff_first_s": 1.0, "backoff_cap_s": 8.0, "aside_first_s": 60.0},
                   round={"seconds": 100.0, "lease_s": 200.0})  # fmt: skip
    down = Host("a.test", robots(always(failing(httpx.ConnectError)), ""))
    crawl = Crawl(tmp_path, down, site("b.test", pages=40), rules=rules)

    crawl.seed(*(f"http://a.test/{n}" for n in range(30)), "http://b.test/").work(seconds=600)

    # A minute of failures; then a request after 60 s, 120 s, 240 s, and the back-off.
    asides = [rest for rest in crawl.web.rests_s("a.test") if rest > 20]
    assert [rest >= wait for rest, wait in zip(asides, (60, 120, 240), strict=True)] == [True] * 3
    assert len(crawl.stored("b.test")) == 40
    assert max(crawl.web.gaps_s("b.test")) < 1.2
    crawl.check()


@long
def test_hosts_that_were_down_for_a_day_lose_no_url_to_it(tmp_path):
    def down(answers):
        return robots(at_first(answers, failing(httpx.ConnectTimeout), seconds=DAY), "")

    crawl = Crawl(tmp_path, Host("many.test", down(tree(9))), Host("one.test", down(tree(1))))
    crawl.seed("http://one.test/", "http://many.test/", *(f"http://many.test/{n}" for n in range(1, 9)))
    for _ in range(8):
        crawl.work(seconds=60)
        crawl.wait(3 * 3_600)
    said = explain(crawl.lake, crawl.rules, "http://one.test/", NOON + timedelta(hours=23)).because
    asked = [len(crawl.asked("many.test")), len(crawl.asked("one.test"))]

    crawl.wait(DAY)
    crawl.work(seconds=300)

    assert said.startswith("it waits after timeout: host put aside, until 2026-03-0")
    assert max(asked) <= 11
    assert crawl.tally("left_out")["host put aside"] > 0
    assert set(crawl.rows("frontier")["status"]) == {"fetched"}
    assert len(crawl.stored("many.test")) == 9
    assert crawl.stored("one.test") == ["/"]
    crawl.check()


def test_a_page_that_fails_on_a_host_that_answers_is_given_up(tmp_path):
    rules = policy(retry={"first_s": 1.0}, politeness={"backoff_first_s": 0.5})
    crawl = Crawl(tmp_path, Host("a.test", robots(routes({"/1": always(unavailable())}, tree(80)), "")), rules=rules)

    crawl.seed("http://a.test/").work(seconds=75)

    assert crawl.web.count("http://a.test/1") == 5
    assert crawl.url("http://a.test/1")["status"] == "dead"
    assert len(crawl.stored("a.test")) > 10
    crawl.check()


def test_one_page_in_trouble_is_tried_again_later_and_then_fetched(tmp_path):
    shaky = {"/1": lambda request: unavailable() if request.nth_here < 2 else html("One")}
    crawl = Crawl(
        tmp_path, Host("a.test", robots(routes(shaky, otherwise=tree(3)), "")), rules=policy(retry={"first_s": 10.0})
    )

    crawl.seed("http://a.test/").work()

    starts = [row.started for row in crawl.web.asked("a.test") if row.path == "/1"]
    assert starts[1] - starts[0] >= 10
    assert starts[2] - starts[1] >= 20
    assert crawl.stored("a.test") == ["/", "/1", "/2"]
    crawl.check()


# Budgets of time.


@pytest.mark.parametrize("first_byte_s", some([2.5, 0.0]))
def test_a_hosts_day_is_never_passed_and_the_worker_does_not_spin_for_midnight(tmp_path, first_byte_s):
    rules = policy(budget={"fetches_per_host_day": 5})
    crawl = Crawl(tmp_path, site("a.test", pages=9, first_byte_s=first_byte_s), rules=rules)

    worked = crawl.seed("http://a.test/").work(seconds=3_600)

    assert len(crawl.asked("a.test")) == 5
    assert worked.stopped == "nothing to ask before 2026-03-02 00:00:00 UTC"
    assert len(worked.rounds) < 12

    crawl.wait(13 * 3_600)
    crawl.work(seconds=600)
    assert len(crawl.stored("a.test")) == 9
    crawl.check()


@pytest.mark.parametrize("plans_take_s", some([3.0, 0.0]))
def test_the_hosts_of_a_site_never_pass_its_day_together(tmp_path, plans_take_s):
    hosts = [site(f"{name}.a.test", pages=9) for name in "xyz"]
    rules = policy(budget={"fetches_per_site_day": 10})
    crawl = Crawl(tmp_path, *hosts, rules=rules).seed(*(f"http://{name}.a.test/" for name in "xyz"))

    crawl.run(lambda: crawl.worker(3_600, in_thread=taking(plans_take_s)))

    assert sum(len(crawl.asked(f"{name}.a.test")) for name in "xyz") == 10
    assert min(len(crawl.asked(f"{name}.a.test")) for name in "xyz") >= 2
    assert crawl.tally("left_out")["site's day is full"] > 0

    crawl.wait(13 * 3_600)
    crawl.work(seconds=3_600)
    assert sum(len(crawl.asked(f"{name}.a.test")) for name in "xyz") == 20
    crawl.check()


def test_what_is_asked_after_midnight_counts_for_the_new_day(tmp_path):
    crawl = Crawl(
        tmp_path,
        site("a.test", pages=60, crawl_delay_s=30),
        rules=policy(budget={"fetches_per_host_day": 20}, round={"seconds": 120.0, "lease_s": 300.0}),
    )
    crawl.work(seconds=1)
    crawl.wait(12 * 3_600 - 150)

    crawl.seed("http://a.test/").work(seconds=7_200)

    pages = crawl.rows("fetches").filter(pl.col("cause") == "page")
    by_day = dict(pages.group_by(pl.col("started_at").dt.date()).len().iter_rows())
    assert by_day == {date(2026, 3, 1): 4, date(2026, 3, 2): 20}
    crawl.check(rest_s=30)


def test_a_host_whose_turn_lies_beyond_the_end_makes_no_idle_rounds(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=5, crawl_delay_s=20)).seed("http://a.test/")

    worked = crawl.work(seconds=35)

    assert crawl.web.paths("a.test") == ["/robots.txt", "/"]
    assert len(worked.rounds) <= 5
    assert worked.stopped == "nothing to ask before 2026-03-01 12:00:40 UTC"
    crawl.check(rest_s=20)


def test_a_waiting_host_does_not_hide_what_falls_due_in_its_bucket(tmp_path):
    shaky = {"/": lambda request: unavailable() if request.nth_here == 0 else html("Home")}
    waits = Host("x.a.test", robots(at_first(tree(3), throttled(5_000), requests=1), ""))
    crawl = Crawl(tmp_path, waits, Host("y.a.test", robots(routes(shaky), "")), buckets=1)

    crawl.seed("http://x.a.test/", "http://y.a.test/").work(seconds=600)

    assert crawl.stored("y.a.test") == ["/"]
    crawl.check()


def test_disallowed_urls_of_a_trap_cost_no_requests(tmp_path):
    host = Host("a.test", robots(below("/cal", calendar("/cal"), tree(3, {"/": ["/cal"]})), robots_text(["/cal"])))
    crawl = Crawl(tmp_path, host)

    crawl.seed("http://a.test/").work()

    assert sorted(crawl.asked("a.test")) == ["/", "/1", "/2"]
    assert crawl.url("http://a.test/cal")["status"] == "refused"
    crawl.check()
