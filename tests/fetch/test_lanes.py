"""Lanes ask each host one thing at a time and never too soon, and lose nothing between cuts."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import httpx
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_runs import (
    BUCKETS,
    NOON,
    ask_all,
    lanes_over,
    on_mock_clock,
    outcomes,
    pages,
    policy,
    queue,
    seconds_after_noon,
    target,
)

from crawl_pipeline.core import robots as robots_rules
from crawl_pipeline.core import urls
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.fetch.reading import InlineReaders
from crawl_pipeline.fetch.visits import RobotsAnswer
from crawl_pipeline.testing import FakeWeb, Host, site
from crawl_pipeline.testing.sites import (
    always,
    at_first,
    failing,
    html,
    plain,
    redirect,
    robots,
    robots_text,
    routes,
    sitemap,
    slow,
    throttled,
    tree,
    unavailable,
    validated,
)

ALMOST = 1e-6  # the mock clock adds binary fractions


def polite(web: FakeWeb, host: str = "a.test", rest_s: float = 1.0) -> bool:
    """Whether the web's own log shows no overlap and no rest shorter than promised."""
    return not web.overlaps(host) and all(rest >= rest_s - ALMOST for rest in web.rests_s(host))


def answered(text: str = "", host: str = "a.test", lives_s: float = 1e6) -> dict[str, RobotsAnswer]:
    """A robots.txt answer that is known already."""
    origin = f"http://{host}"
    rules = robots_rules.read(text.encode(), "ExampleBot", url=f"{origin}/robots.txt")
    bucket = urls.bucket(urls.site(host), BUCKETS)
    return {origin: RobotsAnswer(bucket, host, origin, 1, NOON, NOON + timedelta(seconds=lives_s), "rules", rules)}


class LooksAhead(FakeWeb):
    """A web whose names take a while to look up."""

    async def prefetch(self, hosts, at_once):
        self.ahead = [*getattr(self, "ahead", []), (trio.current_time(), list(hosts), at_once)]


def test_names_of_the_hosts_on_a_new_list_are_looked_up_before_their_turn_who_is_asked_first_first():
    web = LooksAhead(*(site(f"{name}.test", pages=2) for name in "abc"))
    rests = {"a": 9, "b": 30, "c": 2}
    queues = [queue(f"{name}.test", "/", next_allowed_at=NOON + timedelta(seconds=s)) for name, s in rests.items()]

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load(queues)
            await trio.sleep(1)
            lanes.load([*queues, queue("d.test", "/")])
            await trio.sleep(0.1)
        return [(hosts, at_once) for _, hosts, at_once in web.ahead], {row.host for row in web.log}

    assert on_mock_clock(main) == ([(["c.test", "a.test", "b.test"], 16), (["d.test"], 16)], {"d.test"})


# The promise.


def test_a_host_is_asked_one_thing_at_a_time_with_the_delay_between():
    web = FakeWeb(site("a.test", pages=10, first_byte_s=0.7))

    cut = ask_all(web, queue("a.test", "/", *pages(9, 1)))

    assert set(outcomes(cut).values()) == {"fetched"}
    assert len(web.log) == 11
    assert polite(web)


def test_robots_txt_is_asked_first_and_once_for_all():
    web = FakeWeb(site("a.test", pages=5))

    ask_all(web, queue("a.test", *pages(4, 1)))

    assert web.paths("a.test") == ["/robots.txt", "/1", "/2", "/3", "/4"]


def test_every_request_says_who_asks():
    web = FakeWeb(site("a.test"))

    ask_all(web, queue("a.test", "/1"))

    assert {row.user_agent for row in web.log} == {"ExampleBot/1.0 (+https://example.org/)"}


def test_the_promise_of_an_earlier_round_is_kept():
    web = FakeWeb(site("a.test"))

    cut = ask_all(web, queue("a.test", "/1", next_allowed_at=NOON + timedelta(seconds=30)))

    assert [seconds_after_noon(request.exchange.started_at) for request in cut.requests] == [30, 31]


def test_a_slow_host_is_asked_less_often():
    web = FakeWeb(site("a.test", pages=5, first_byte_s=2))

    ask_all(web, queue("a.test", *pages(4, 1)), rules=policy(politeness={"download_factor": 5.0}))

    assert web.rests_s("a.test") == pytest.approx([1, 10, 10, 10])


def test_hosts_do_not_wait_for_each_other():
    web = FakeWeb(site("a.test", pages=4), site("b.test", pages=4, first_byte_s=20))

    cut = ask_all(web, queue("a.test", *pages(3, 1)), queue("b.test", *pages(3, 1)))

    times = {host: max(row.ended for row in web.asked(host)) - web.log[0].started for host in ("a.test", "b.test")}
    assert times["a.test"] == pytest.approx(3)
    assert times["b.test"] > 60
    assert len(cut.visits) == 6


# Crawl-delay.


def test_a_crawl_delay_is_obeyed_from_the_very_next_request():
    web = FakeWeb(site("a.test", pages=4, crawl_delay_s=7))

    cut = ask_all(web, queue("a.test", *pages(3, 1)))

    assert polite(web, rest_s=7)
    assert cut.hosts[0].pace.crawl_delay_s == 7
    assert [request.gap_s for request in cut.requests] == [7] * 4


def test_a_crawl_delay_learnt_earlier_is_obeyed():
    web = FakeWeb(site("a.test", pages=4))

    ask_all(web, queue("a.test", *pages(3, 1), pace=HostPace(crawl_delay_s=5), robots=answered("")))

    assert web.gaps_s("a.test") == pytest.approx([5, 5])


# robots.txt.


def test_what_robots_forbid_is_not_asked_and_names_its_line():
    web = FakeWeb(site("a.test", pages=5, disallow=["/2", "/3"]))

    cut = ask_all(web, queue("a.test", *pages(4, 1)))

    assert outcomes(cut) == {"/1": "fetched", "/2": "disallowed", "/3": "disallowed", "/4": "fetched"}
    assert web.paths("a.test") == ["/robots.txt", "/1", "/4"]
    refused = next(visit for visit in cut.visits if visit.target.url.endswith("/2"))
    assert refused.reason == "Disallow: /2"
    assert refused.robots_until == cut.robots[0].expires_at
    assert refused.request is None


def test_of_a_robots_txt_without_end_the_first_500_kib_count():
    endless = "User-agent: *\nDisallow: /2\n" + "# filler\n" * 1_000_000 + "Disallow: /\n"
    web = FakeWeb(site("a.test", pages=5, robots_txt=endless))

    cut = ask_all(web, queue("a.test", "/1", "/2"))

    assert outcomes(cut) == {"/1": "fetched", "/2": "disallowed"}
    assert cut.robots[0].state == "rules"


def test_robots_known_already_are_not_asked_again():
    web = FakeWeb(site("a.test"))

    cut = ask_all(web, queue("a.test", "/1", "/2", robots=answered("User-agent: *\nDisallow: /2\n")))

    assert web.paths("a.test") == ["/1"]
    assert outcomes(cut) == {"/1": "fetched", "/2": "disallowed"}
    assert cut.requests[0].robots_id == 1


def test_expired_robots_are_asked_again():
    web = FakeWeb(site("a.test"))

    ask_all(web, queue("a.test", "/1", robots=answered("User-agent: *\nDisallow: /\n", lives_s=-1)))

    assert web.paths("a.test") == ["/robots.txt", "/1"]


def test_robots_that_expire_while_the_host_is_asked_are_asked_again_before_the_next_page():
    web = FakeWeb(site("a.test", pages=8))

    ask_all(web, queue("a.test", *pages(6, 1), robots=answered(lives_s=2.5)))

    assert web.paths("a.test") == ["/1", "/2", "/3", "/robots.txt", "/4", "/5", "/6"]


def test_robots_that_expire_during_the_wait_are_asked_again_first():
    web = FakeWeb(site("a.test"))

    ask_all(web, queue("a.test", "/1", robots=answered(lives_s=20), next_allowed_at=NOON + timedelta(seconds=30)))

    assert web.paths("a.test") == ["/robots.txt", "/1"]


@pytest.mark.parametrize(
    "answer", [unavailable(), plain("", 500), throttled(), failing(httpx.ConnectError), failing(httpx.ReadTimeout)]
)
def test_robots_that_cannot_be_read_forbid_everything(answer):
    web = FakeWeb(site("a.test", robots_txt=answer))

    cut = ask_all(web, queue("a.test", *pages(4)))

    assert web.paths("a.test") == ["/robots.txt"]
    assert set(outcomes(cut).values()) == {"robots_unreachable"}
    assert all(visit.reason for visit in cut.visits)
    assert {visit.robots_until for visit in cut.visits} == {cut.robots[0].fetched_at + timedelta(seconds=600)}


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_robots_that_are_not_there_allow_everything(status):
    web = FakeWeb(site("a.test", robots_txt=plain("User-agent: *\nDisallow: /\n", status)))

    assert outcomes(ask_all(web, queue("a.test", "/1"))) == {"/1": "fetched"}


def test_each_origin_of_a_host_has_its_robots_and_all_share_one_turn():
    web = FakeWeb(site("a.test", pages=3))
    secure = target("https://a.test/2")

    cut = ask_all(web, queue("a.test", "/1", secure))

    assert [answer.origin for answer in cut.robots] == ["http://a.test", "https://a.test"]
    assert polite(web)


# robots.txt that leads elsewhere.


def moved(to: str, pages_: int = 6) -> Host:
    return Host("a.test", robots(tree(pages_), redirect(to)))


def test_robots_that_redirect_to_another_host_are_read_there():
    text = robots_text(["/2"])
    web = FakeWeb(moved("http://b.test/robots.txt"), site("b.test", robots_txt=text))

    cut = ask_all(web, queue("a.test", *pages(3, 1)))

    assert outcomes(cut) == {"/1": "fetched", "/2": "disallowed", "/3": "fetched"}
    assert web.paths("b.test") == ["/robots.txt"]


def test_a_host_that_robots_lead_to_keeps_its_own_pace():
    web = FakeWeb(moved("http://b.test/robots.txt"), site("b.test", pages=6, first_byte_s=0.3, crawl_delay_s=3))

    cut = ask_all(web, queue("a.test", *pages(3, 1)), queue("b.test", *pages(3, 1)))

    assert polite(web, "a.test", 3)
    assert polite(web, "b.test", 1)
    assert all(rest >= 3 - ALMOST for rest in web.rests_s("b.test")[1:])
    assert len(cut.visits) == 6


def test_a_crawl_delay_read_elsewhere_counts_for_the_host_that_was_asked_for_and_no_promise_of_the_other_changes():
    web = FakeWeb(moved("http://b.test/other.txt"), Host("b.test", routes({
        "/other.txt": plain(robots_text(crawl_delay_s=9)), "/robots.txt": plain(""), "/1": html("One"),
    })))  # fmt: skip

    cut = ask_all(web, queue("a.test", "/1", "/2"), queue("b.test", "/1"))

    assert polite(web, "a.test", 9)
    gaps = {(request.host, request.exchange.url): request.gap_s for request in cut.requests}
    assert gaps["a.test", "http://a.test/robots.txt"] == 9
    assert gaps["b.test", "http://b.test/other.txt"] == 1


def test_a_guest_of_a_host_waits_for_what_was_promised_to_it():
    web = FakeWeb(moved("http://b.test/robots.txt"), site("b.test"))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", "/1")], lambda host: queue(host, next_allowed_at=NOON + timedelta(seconds=40)))
            await lanes.worth_cutting(25)
            cut = lanes.cut()
            while not lanes.idle:
                await trio.sleep(1)
            return cut, lanes.cut()

    early, late = on_mock_clock(main)

    started = [seconds_after_noon(row.exchange.started_at) for row in late.requests if row.host == "b.test"]
    assert started == [40]
    assert early.carried[queue("a.test").bucket] == 1


def test_a_guest_leaves_a_promise_that_the_hosts_own_list_keeps_in_a_later_round():
    web = FakeWeb(moved("http://b.test/robots.txt"), site("b.test", pages=3, first_byte_s=0.5))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", "/1")], queue)
            await trio.sleep(0.7)
            states = lanes.cut().hosts
            lanes.load([queue("a.test", "/1"), queue("b.test", "/1", robots=answered(host="b.test"))], queue)
            while not lanes.idle:
                await trio.sleep(0.05)
            return states

    states = on_mock_clock(main)

    assert polite(web, "b.test")
    assert {state.host for state in states} == {"a.test", "b.test"}


def test_a_crawl_delay_that_comes_late_counts_from_the_last_request_whoever_made_it():
    """The robots.txt of a leads to a slow host; meanwhile that of c leads to a."""
    late = replace(plain(robots_text(crawl_delay_s=9)), first_byte_s=4)
    web = FakeWeb(
        moved("http://b.test/robots.txt"),
        Host("b.test", always(late)),
        Host("c.test", robots(tree(2), redirect("http://a.test/robots.txt"))),
    )  # fmt: skip

    cut = ask_all(web, queue("a.test", "/1"), queue("c.test", "/1"))

    assert web.rests_s("a.test") == pytest.approx([1, 9])
    assert [request.gap_s for request in cut.requests if request.host == "a.test"] == [1, 9, 9]


def test_two_hosts_whose_robots_lead_to_each_other_come_to_an_end():
    web = FakeWeb(
        moved("http://b.test/robots.txt"), Host("b.test", robots(tree(3), redirect("http://a.test/robots.txt")))
    )

    cut = ask_all(web, queue("a.test", "/1"), queue("b.test", "/1"), seconds=3_600)

    assert len(cut.visits) == 2
    assert polite(web, "a.test")
    assert polite(web, "b.test")


def test_robots_that_lead_to_a_host_not_to_be_asked_before_the_end_leave_the_list_for_later():
    web = FakeWeb(moved("http://b.test/robots.txt"), site("b.test"))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.stop_at = trio.current_time() + 20
            lanes.load(
                [queue("a.test", "/1", "/2")], lambda host: queue(host, next_allowed_at=NOON + timedelta(seconds=1_000))
            )
            with trio.fail_after(1):
                while not lanes.idle:
                    await trio.sleep(0.05)
            return lanes.cut()

    cut = on_mock_clock(main)

    assert cut.visits == []
    assert +cut.carried == {queue("a.test").bucket: 2}
    assert len(cut.requests) == 1


# Trouble.


def test_429_with_retry_after_is_obeyed():
    web = FakeWeb(Host("a.test", robots(at_first(tree(5), throttled(60), requests=1), "")))

    cut = ask_all(web, queue("a.test", "/1", "/2", "/3"))

    assert outcomes(cut) == {"/1": "throttled", "/2": "fetched", "/3": "fetched"}
    assert web.rests_s("a.test") == pytest.approx([1, 68, 9])


def test_503_doubles_the_wait_and_calm_halves_it():
    web = FakeWeb(Host("a.test", robots(at_first(tree(9), unavailable(), requests=2), "")))
    rules = policy(politeness={"backoff_first_s": 4.0, "calm_answers": 2})

    cut = ask_all(web, queue("a.test", "/1", "/2", *pages(6, 3)), rules=rules)

    assert web.rests_s("a.test") == pytest.approx([1, 1 + 4, 1 + 8, 1 + 8, 1 + 4, 1 + 4, 1 + 2, 1 + 2])
    assert Counter(outcomes(cut).values()) == {"unavailable": 2, "fetched": 6}


def test_trouble_of_one_host_is_no_trouble_of_another():
    web = FakeWeb(site("a.test", pages=4, status=503), site("b.test", pages=4))

    ask_all(web, queue("a.test", *pages(3, 1)), queue("b.test", *pages(3, 1)))

    assert web.gaps_s("b.test") == pytest.approx([1, 1, 1])


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (plain("x", 404), "gone"), (plain("x", 403), "forbidden"), (plain("x", 200), "not_html"),
        (redirect("/2"), "redirected"), (redirect("javascript:x"), "redirect_error"),
        (failing(httpx.ConnectError), "connect_error"), (failing(httpx.ReadTimeout), "timeout"),
    ],
)  # fmt: skip
def test_what_came_of_a_page_is_its_outcome(answer, outcome):
    web = FakeWeb(site("a.test", {"/1": answer}))

    cut = ask_all(web, queue("a.test", "/1"))

    assert outcomes(cut) == {"/1": outcome}
    assert [request.outcome for request in cut.requests] == ["fetched", outcome]


def test_a_redirect_names_its_target_and_is_not_followed():
    web = FakeWeb(site("a.test", {"/1": redirect("/2#x")}))

    cut = ask_all(web, queue("a.test", "/1"))

    assert cut.visits[0].request.location == "http://a.test/2"
    assert web.count("http://a.test/2") == 0


def test_a_page_the_reader_cannot_read_is_malformed_and_so_is_its_request():
    web = FakeWeb(site("a.test", {"/1": html("x", text="y" * 10_000)}))

    cut = ask_all(web, queue("a.test", "/1"), rules=policy(parse={"body_mb": 0.005}))

    assert outcomes(cut) == {"/1": "malformed"}
    assert cut.requests[-1].outcome == "malformed"


def test_a_sitemap_is_read_under_whatever_media_type():
    web = FakeWeb(site("a.test", {"/map": lambda request: sitemap(request, ["/1", "/2"])}))

    cut = ask_all(web, queue("a.test", target("http://a.test/map", kind="sitemap")))

    assert cut.visits[0].page.links.urls == ("http://a.test/1", "http://a.test/2")
    assert cut.requests[-1].exchange.cause == "sitemap"


def test_validators_are_sent_and_a_304_is_not_modified():
    web = FakeWeb(Host("a.test", robots(validated(tree(3)), "")))
    tag = dict(ask_all(web, queue("a.test", "/1")).requests[-1].exchange.headers)["etag"]

    known = queue("a.test", target("http://a.test/1", etag=tag))
    again, never = ask_all(web, known), ask_all(web, known, rules=policy(fetch={"conditional": False}))

    assert outcomes(again) == {"/1": "not_modified"}
    assert outcomes(never) == {"/1": "fetched"}


def test_a_304_that_nobody_asked_for_is_no_page():
    web = FakeWeb(site("a.test", {"/1": plain("", 304)}))

    assert outcomes(ask_all(web, queue("a.test", "/1"))) == {"/1": "client_error"}


# The end.


def test_no_request_starts_at_or_after_the_end():
    web = FakeWeb(site("a.test", pages=30, first_byte_s=0.5))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.stop_at = trio.current_time() + 6
            end = lanes.stop_at
            lanes.load([queue("a.test", *pages(20, 1))])
            while not lanes.idle:
                await trio.sleep(0.05)
            return lanes.cut(), end

    cut, end = on_mock_clock(main)

    assert max(row.started for row in web.log) < end
    assert len(cut.visits) == 4
    assert cut.carried.total() == 16


def test_a_lane_that_could_only_ask_after_the_end_does_not_wait_for_it():
    web = FakeWeb(site("a.test"))

    async def main():
        async with lanes_over(web) as lanes:
            began = trio.current_time()
            lanes.stop_at = began + 60
            lanes.load([queue("a.test", "/1", next_allowed_at=NOON + timedelta(seconds=61))])
            while not lanes.idle:
                await trio.sleep(0.05)
            return trio.current_time() - began

    assert on_mock_clock(main) < 1


def test_finishing_wakes_sleepers_and_counts_dropped_lists_as_carried():
    web = FakeWeb(site("a.test", pages=9, crawl_delay_s=60))

    async def main():
        async with lanes_over(web) as lanes:
            selected = lanes.load([queue("a.test", *pages(8, 1))])
            await trio.sleep(70)
            lanes.stop_at = trio.current_time()
            with trio.fail_after(1):
                await lanes.finished()
            return selected, lanes.cut()

    selected, cut = on_mock_clock(main)

    assert len(cut.visits) == 1
    assert selected.total() == len(cut.visits) + cut.carried.total()


def test_finishing_waits_for_the_request_under_way():
    web = FakeWeb(site("a.test", first_byte_s=5))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", "/1", "/2", robots=answered())])
            await trio.sleep(1)
            await lanes.finished()
            return lanes.cut()

    assert outcomes(on_mock_clock(main)) == {"/1": "fetched"}


# Memory.


def test_a_full_memory_pauses_the_lanes_until_the_next_cut():
    web = FakeWeb(site("a.test", {f"/{n}": html("x", text="y" * 40_000) for n in range(9)}))

    async def main():
        async with lanes_over(web, policy(round={"body_mb": 0.1})) as lanes:
            lanes.load([queue("a.test", *pages(9))])
            await lanes.worth_cutting(25)
            await trio.sleep(1_000)
            first = lanes.cut()
            await trio.sleep(1_000)
            return first, lanes.cut()

    first, second = on_mock_clock(main)

    assert (len(first.visits), len(second.visits)) == (2, 2)  # 80 KB each: the body and its text


def test_a_full_memory_does_not_keep_the_work_from_ending():
    web = FakeWeb(site("a.test", {f"/{n}": html("x", text="y" * 40_000) for n in range(9)}))

    async def main():
        async with lanes_over(web, policy(round={"body_mb": 0.1})) as lanes:
            selected = lanes.load([queue("a.test", *pages(9))])
            await trio.sleep(100)
            lanes.stop_at = trio.current_time()
            with trio.fail_after(1):
                await lanes.finished()
            return selected, lanes.cut()

    selected, cut = on_mock_clock(main)

    assert selected.total() == len(cut.visits) + cut.carried.total() == 9


# Cuts.


def test_a_slow_host_does_not_delay_the_cut_of_others():
    web = FakeWeb(site("a.test", pages=3), site("b.test", pages=3), site("c.test", first_byte_s=20))

    async def main():
        async with lanes_over(web) as lanes:
            began = trio.current_time()
            lanes.load([queue("a.test", "/1"), queue("b.test", "/1"), queue("c.test", "/1")])
            await lanes.worth_cutting(2)
            early, after_s = lanes.cut(), trio.current_time() - began
            lanes.load([])
            await trio.sleep(60)
            return early, after_s, lanes.cut()

    early, after_s, late = on_mock_clock(main)

    assert {visit.target.url for visit in early.visits} == {"http://a.test/1", "http://b.test/1"}
    assert after_s < 3
    assert {visit.target.url for visit in late.visits} == {"http://c.test/1"}


@pytest.mark.parametrize("costs_s", [0.0, 2.0, 4.0])
def test_a_round_is_cut_when_its_hosts_have_lost_as_much_time_as_the_next_commit_and_plan_take(costs_s):
    web = FakeWeb(site("a.test", pages=30), site("b.test", pages=30), site("c.test", pages=30))

    async def main():
        async with lanes_over(web) as lanes:
            began = trio.current_time()
            lanes.load([*(queue(host, *pages(30), robots=answered(host=host)) for host in ("a.test", "b.test")),
                        queue("c.test", "/1", robots=answered(host="c.test"))])  # fmt: skip
            await lanes.worth_cutting(3, costs_s)
            return trio.current_time() - began

    # From the second 1 on one host of three loses time, and nothing is cut before the second 3.
    assert on_mock_clock(main) == pytest.approx(max(3, 1 + 3 * costs_s), abs=0.2)


class LateReaders(InlineReaders):
    """Readers that take a page at once and give it back later."""

    async def give(self, body, then):
        async def later():
            await trio.sleep(3)
            await super(LateReaders, self).give(body, then)

        trio.lowlevel.spawn_system_task(later)


def test_a_host_whose_last_page_is_read_after_a_cut_counts_as_losing_time_in_the_next_round():
    web = FakeWeb(site("a.test", pages=60), site("b.test"))

    async def main():
        async with lanes_over(web, readers=LateReaders(policy(), BUCKETS)) as lanes:
            lanes.load([queue("b.test", "/1", robots=answered(host="b.test"))])
            await trio.sleep(1.5)  # b.test has answered and rested, and its page is still being read
            lanes.cut()
            began = trio.current_time()
            lanes.load([queue("a.test", *pages(60), robots=answered())])
            await lanes.worth_cutting(4)
            return trio.current_time() - began

    assert on_mock_clock(main) < 5


def test_a_host_that_must_rest_or_is_being_asked_loses_no_time():
    web = FakeWeb(site("a.test", pages=30), site("b.test", first_byte_s=9), site("c.test", pages=1))

    async def main():
        async with lanes_over(web, policy(politeness={"delay_s": 8.0, "download_factor": 0.0})) as lanes:
            began = trio.current_time()
            lanes.load([queue("a.test", *pages(30)), queue("b.test", "/1", robots=answered(host="b.test")),
                        queue("c.test", "/1")])  # fmt: skip
            await lanes.worth_cutting(2)
            return trio.current_time() - began

    assert on_mock_clock(main) == pytest.approx(16, abs=0.2)  # c.test: robots.txt, a rest, its page, a rest


def test_a_request_under_way_at_a_cut_belongs_to_the_next_one():
    web = FakeWeb(site("a.test", first_byte_s=10))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", "/1", robots=answered())])
            await trio.sleep(5)
            first = lanes.cut()
            selected = lanes.load([queue("a.test", "/1")])
            await trio.sleep(10)
            return first, selected, lanes.cut()

    first, selected, second = on_mock_clock(main)

    assert (first.visits, first.requests, first.carried.total()) == ([], [], 1)
    assert selected.total() == 1
    assert outcomes(second) == {"/1": "fetched"}
    assert len(second.requests) == 1


def test_a_list_loaded_while_the_lane_sleeps_replaces_the_old_one():
    web = FakeWeb(site("a.test", pages=9))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", "/1", "/2", "/3", robots=answered())])
            await trio.sleep(0.5)
            lanes.cut()
            lanes.load([queue("a.test", "/4", "/5")])
            await trio.sleep(60)

    on_mock_clock(main)

    assert web.paths("a.test") == ["/1", "/4", "/5"]
    assert polite(web)


def test_a_host_without_a_new_list_is_asked_no_more():
    web = FakeWeb(site("a.test", pages=9))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", *pages(5, 1), robots=answered())])
            await trio.sleep(1.5)
            lanes.load([])
            await trio.sleep(60)

    on_mock_clock(main)

    assert web.paths("a.test") == ["/1", "/2"]


def test_a_days_budget_counts_what_was_asked_since_the_last_cut():
    web = FakeWeb(site("a.test", pages=30))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", *pages(10, 1), robots=answered(), left_today=10)])
            await trio.sleep(2.5)
            lanes.cut()
            await trio.sleep(3)
            lanes.load([queue("a.test", *pages(20, 10), left_today=7)])
            await trio.sleep(60)

    on_mock_clock(main)

    assert len(web.log) == 10


def test_the_state_of_a_host_is_told_in_the_cut_after_it_was_asked():
    web = FakeWeb(site("a.test", pages=3, crawl_delay_s=2))

    async def main():
        async with lanes_over(web) as lanes:
            lanes.load([queue("a.test", "/1")])
            await trio.sleep(10)
            return lanes.cut(), lanes.cut()

    first, second = on_mock_clock(main)

    (state,) = first.hosts
    assert (state.host, state.asked_count, state.pace.crawl_delay_s) == ("a.test", 1, 2)
    assert seconds_after_noon(state.next_allowed_at) == 4
    assert [answer.origin for answer in state.robots] == ["http://a.test"]
    assert state.addresses == (web.hosts["a.test"][0],)
    assert second.hosts == []


class SlowReaders(InlineReaders):
    """Readers that take their time, as worker processes do."""

    async def give(self, body, then):
        await trio.sleep(3)
        await super().give(body, then)


def test_a_page_that_is_being_read_at_a_cut_is_carried():
    web = FakeWeb(site("a.test"))

    async def main():
        async with lanes_over(web, readers=SlowReaders(policy(), BUCKETS)) as lanes:
            lanes.load([queue("a.test", "/1", robots=answered())])
            await trio.sleep(1)
            first = lanes.cut()
            await trio.sleep(5)
            return first, lanes.cut()

    first, second = on_mock_clock(main)

    assert (first.visits, first.requests) == ([], [])
    assert len(first.hosts) == 1
    assert outcomes(second) == {"/1": "fetched"}


# Nothing is lost, whatever is loaded and cut when.

HOSTS = ("a.test", "b.test", "c.test")


def unruly() -> FakeWeb:
    """A quick host, a slow one, and one that throttles and forbids."""
    return FakeWeb(
        Host("a.test", robots(tree(40), robots_text(["/7", "/8"]))),
        Host("b.test", robots(slow(tree(40), first_byte_s=2.3), redirect("http://c.test/robots.txt"))),
        Host("c.test", robots(at_first(tree(40), throttled(3), requests=2), robots_text(crawl_delay_s=1.5))),
    )


steps = st.lists(
    st.tuples(
        st.floats(0, 12),
        st.dictionaries(st.sampled_from(HOSTS), st.lists(st.integers(0, 45), max_size=8, unique=True)),
        st.floats(0, 3),
    ),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=40)
@given(steps, st.booleans())
def test_selected_is_the_sum_of_outcomes_and_each_target_leaves_in_one_cut(rounds, slow_readers):
    web = unruly()
    rules = policy(politeness={"backoff_first_s": 2.0})
    readers = SlowReaders(rules, BUCKETS) if slow_readers else None
    done: list[str] = []
    requests: list[tuple[str, object]] = []

    async def main():
        async with lanes_over(web, rules, readers) as lanes:
            for lasts_s, lists, commit_s in [*rounds, (None, {}, 0)]:
                todo = {host: [f"/{n}" for n in numbers] for host, numbers in lists.items()}
                in_hand = set(lanes.in_hand)
                fresh = [queue(host, *(p for p in paths if urls.url_hash(f"http://{host}{p}") not in in_hand))
                         for host, paths in todo.items()]  # fmt: skip
                await trio.sleep(commit_s)  # a plan is old when it is loaded
                selected = lanes.load(fresh)
                if lasts_s is None:
                    await lanes.finished()
                else:
                    await trio.sleep(lasts_s)
                cut = lanes.cut()
                for bucket in range(BUCKETS):
                    visited = sum(visit.bucket == bucket for visit in cut.visits)
                    assert selected[bucket] == visited + cut.carried[bucket]
                assert len({visit.target.url for visit in cut.visits}) == len(cut.visits)
                done.extend(visit.target.url for visit in cut.visits if visit.request)
                requests.extend((row.exchange.url, row.exchange.started_at) for row in cut.requests)
                await trio.sleep(commit_s)
            assert not lanes.in_hand

    on_mock_clock(main)

    asked = Counter(f"http://{row.host}{row.path}" for row in web.log)
    assert Counter(url for url, _ in requests) == asked
    assert len(set(requests)) == len(requests)
    assert Counter(done) == Counter({url: count for url, count in asked.items() if not url.endswith("/robots.txt")})
    for host in HOSTS:
        assert polite(web, host)


def test_lists_are_drained_by_one_task_per_host_however_often_they_are_loaded():
    web = FakeWeb(Host("a.test", robots(always(html("x")), "")))

    async def main():
        async with lanes_over(web) as lanes:
            for n in range(50):
                lanes.load([queue("a.test", *pages(3, 3 * n))])
                await trio.sleep(0.31)
                lanes.cut()

    on_mock_clock(main)

    assert polite(web)


@pytest.mark.parametrize(("retry_after_s", "after_s"), [(5_000, 3), (50, 18)])
def test_a_wait_longer_than_the_lease_makes_a_round_worth_its_commit(retry_after_s, after_s):
    """A shorter one outlives a crash by itself: nobody takes a bucket over before its lease has run out."""
    told = Host("a.test", robots(at_first(tree(6), throttled(retry_after_s), requests=1), ""))
    rules = policy(round={"seconds": 18.0, "shortest_s": 3.0, "lease_s": 60.0})

    async def main():
        async with lanes_over(FakeWeb(told, site("b.test", pages=60)), rules) as lanes:
            lanes.load([queue("a.test", "/"), queue("b.test", *pages(60))])
            began = trio.current_time()
            await lanes.worth_cutting(patience_s=1_000)
            return trio.current_time() - began

    assert on_mock_clock(main) == pytest.approx(after_s, abs=0.1)
