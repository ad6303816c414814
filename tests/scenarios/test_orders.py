"""People are obeyed in the next round, by running workers and after crashes, and orders read twice do no harm."""

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from crawls import ALMOST, NOON, Crawl, Died, DiesAtCommit, policy, taking

from crawl_pipeline import corpus, ordering, worker
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.orders import OrderError, Tag
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.core.tables import ORDERS
from crawl_pipeline.rounds import Done
from crawl_pipeline.testing import site
from crawl_pipeline.testing.sites import html, redirect
from tests.effort import long, some


def test_a_paused_host_stays_quiet_and_others_are_crawled(tmp_path):
    crawl = Crawl(tmp_path, site("a.test"), site("b.test", pages=5)).seed("http://a.test/", "http://b.test/")

    worked = crawl.order("pause", "a.test").work()

    assert crawl.web.asked("a.test") == []
    assert len(crawl.stored("b.test")) == 5
    assert crawl.tally("left_out")["host paused"] >= 1
    assert worked.stopped != "its time is over"
    crawl.check()


def test_a_host_that_is_resumed_is_crawled(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3)).seed("http://a.test/").order("pause", "a.test")
    crawl.work()
    crawl.order("resume", "a.test").work()

    assert len(crawl.stored("a.test")) == 3
    crawl.check()


def test_a_host_can_be_paused_before_it_is_known(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2, links={"/1": ["http://www.a.test/"]}), site("www.a.test"))
    crawl.order("pause", "www.a.test").work()
    crawl.seed("http://a.test/").work()

    assert len(crawl.stored("a.test")) == 2
    assert crawl.web.asked("www.a.test") == []
    assert crawl.url("http://www.a.test/")["status"] == "waiting"
    crawl.check()


def test_a_pause_counts_from_the_next_round_on(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=60), rules=policy(round={"seconds": 5.0, "shortest_s": 2.0}))
    asked: list[int] = []

    def tell(done) -> None:
        asked.append(len(crawl.web.log))
        if len(asked) == 2:
            crawl.order("pause", "a.test")

    crawl.seed("http://a.test/").work(tell=tell)

    assert len(asked) >= 3
    assert len(crawl.web.log) <= asked[1] + 1
    crawl.check()


def test_the_last_word_counts(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2)).seed("http://a.test/")
    for word in ("pause", "resume", "pause", "resume"):
        crawl.order(word, "a.test")
    crawl.work()

    assert len(crawl.stored("a.test")) == 2


def test_a_seed_of_a_paused_host_waits_for_it(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2)).order("pause", "a.test").seed("http://a.test/")
    crawl.work()
    assert crawl.web.log == ()

    crawl.wait(3_600)
    crawl.order("resume", "a.test").work()
    assert len(crawl.stored("a.test")) == 2
    crawl.check()


# Settings.

SHORT = policy(round={"seconds": 5.0, "shortest_s": 2.0})


def after(crawl: Crawl, rounds: int, order: Callable[[], Any]) -> Callable[[Done], None]:
    """Give an order while a worker runs: once it has committed so many rounds. Twice, for that does no harm."""
    done: list[int] = []

    def tell(told: Done) -> None:
        done.append(told.round)
        if len(done) == rounds:
            order()
            order()

    return tell


def rests_since(crawl: Crawl, host: str, round_: int) -> list[float]:
    """Seconds between requests to a host that both started after the commit of the worker's n-th round."""
    ended = crawl.rows("rounds").sort("round")["ended_at"].unique(maintain_order=True)[round_ - 1]
    since = sum(row.host == host and row.ended <= (ended - NOON).total_seconds() for row in crawl.web.log)
    return crawl.web.rests_s(host)[since:]


@long
def test_a_delay_that_is_set_holds_from_the_next_round_on_and_until_it_is_unset(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=20), site("b.test", pages=20), rules=SHORT)
    crawl.seed("http://a.test/", "http://b.test/")

    def slower() -> None:
        ordering.set_key(crawl.lake, SHORT, "delay_s", "4", host="a.test", now=NOON)

    crawl.work(seconds=40, tell=after(crawl, 2, slower))
    asked = len(crawl.asked("a.test"))

    assert crawl.web.rests_s("a.test")[0] < 2
    assert min(rests_since(crawl, "a.test", 3)) >= 4 - ALMOST
    assert max(crawl.web.rests_s("b.test")) < 2
    crawl.check()

    ordering.unset_key(crawl.lake, "delay_s", host="a.test", now=NOON)
    crawl.work(seconds=600)
    assert max(crawl.web.rests_s("a.test")[asked + 3 :]) < 2
    assert len(crawl.stored("a.test")) == len(crawl.stored("b.test")) == 20
    crawl.check()


def test_a_shorter_delay_never_shortens_a_wait_that_was_promised(tmp_path):
    slow = policy(politeness={"delay_s": 20.0}, round={"seconds": 5.0, "shortest_s": 2.0})
    crawl = Crawl(tmp_path, site("a.test", pages=8), rules=slow).seed("http://a.test/")

    def faster() -> None:
        ordering.set_key(crawl.lake, slow, "politeness.delay_s", "1", now=NOON)

    crawl.work(tell=after(crawl, 1, faster))

    rests = crawl.web.rests_s("a.test")
    assert rests[0] >= 20 - ALMOST
    assert rests[-1] < 2
    crawl.check()


def test_every_policy_that_was_in_force_is_kept_and_named_by_rounds_and_requests(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=20), rules=SHORT).seed("http://a.test/")
    made: list[Policy] = []

    def narrower() -> None:
        made.append(ordering.set_key(crawl.lake, SHORT, "budget.urls_per_host", "7", now=NOON))

    crawl.work(tell=after(crawl, 1, narrower))

    kept = crawl.rows("orders").filter(kind="policy").sort("order")
    assert kept["policy_id"].to_list() == [SHORT.id, made[0].id]
    assert policies.load(kept["policy_toml"][1]) == made[0]
    assert crawl.rows("rounds").sort("round")["policy_id"].unique(maintain_order=True).to_list() == [
        SHORT.id,
        made[0].id,
    ]
    assert set(crawl.rows("fetches")["policy_id"]) == {SHORT.id, made[0].id}
    assert crawl.tally("refused")["over budget.urls_per_host"] > 0
    crawl.check()


def test_a_setting_that_the_file_no_longer_allows_ends_no_worker_half_way(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2)).seed("http://a.test/")
    crawl.lake.give(ORDERS.frame([{"kind": "set", "policy_key": "retry.tries", "policy_value": "3",
                                   "ordered_by": "somebody", "ordered_at": NOON}]))  # fmt: skip

    with pytest.raises(PolicyError, match=r"retry.tries: there is no such key(.|\n)*crawl unset retry.tries"):
        worker.run(crawl.lake, crawl.rules, seconds=1)
    assert crawl.lake.leases()["released"].all()

    ordering.unset_key(crawl.lake, "retry.tries", now=NOON)
    assert ordering.policy_in_force(crawl.lake, crawl.rules) == crawl.rules


# Recrawl.


def test_a_recrawl_visits_everything_known_again_whatever_came_of_it(tmp_path):
    pages = {"/": html("Home", ["http://a.test/gone", "http://a.test/on", "http://a.test/x"]),
             "/on": redirect("http://a.test/x"), "/x": html("X")}  # fmt: skip
    crawl = Crawl(tmp_path, site("a.test", pages), site("b.test", pages=2)).seed("http://a.test/", "http://b.test/")
    crawl.work()
    statuses = crawl.rows("frontier").filter(host="a.test")["status"].sort().to_list()

    ordering.recrawl(crawl.lake, sites=["a.test"], now=NOON)
    crawl.wait(100)
    crawl.work()

    assert statuses == ["fetched", "fetched", "gone", "redirected"]
    assert sorted(crawl.asked("a.test")) == sorted(2 * ["/", "/gone", "/on", "/x"])
    assert len(crawl.asked("b.test")) == 2
    crawl.check()


def test_a_dead_url_is_tried_again_with_its_failures_forgiven(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", status=500), rules=policy(retry={"attempts": 1})).seed("http://a.test/")
    crawl.work()
    assert crawl.url("http://a.test/")["status"] == "dead"

    ordering.recrawl(crawl.lake, hrefs=["http://a.test"], now=NOON)
    crawl.wait(3_600)
    crawl.work()

    assert crawl.asked("a.test") == ["/", "/"]
    assert crawl.url("http://a.test/")["attempts"] == 1
    crawl.check()


def test_a_recrawl_is_obeyed_once_by_a_running_worker(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=12), rules=SHORT).seed("http://a.test/")

    crawl.work(tell=after(crawl, 2, lambda: ordering.recrawl(crawl.lake, hosts=["a.test"], now=NOON)))

    counts = Counter(crawl.asked("a.test"))
    assert len(counts) == 12
    assert set(counts.values()) == {1, 2}
    crawl.check()
    crawl.check_requests()


# Forget.


def hidden(crawl: Crawl) -> set[str]:
    """Stored pages that the views do not show."""
    return set(crawl.rows("pages")["url"]) - set(corpus.query(crawl.lake, "select url from pages")["url"])


@pytest.mark.parametrize("scope", some([{"sites": ["a.test"]}, {"hosts": ["a.test"]}]))
def test_a_host_that_is_forgotten_while_a_worker_runs_is_asked_nothing_more(tmp_path, scope):
    crawl = Crawl(tmp_path, site("a.test", pages=20), site("b.test", pages=20), rules=SHORT)
    crawl.seed("http://a.test/", "http://b.test/")

    crawl.work(tell=after(crawl, 2, lambda: ordering.forget(crawl.lake, **scope, now=NOON)), in_thread=taking(0.2))

    second = crawl.rows("rounds").sort("round")["ended_at"].unique(maintain_order=True)[1]
    asked = crawl.rows("fetches").filter(pl.col("host") == "a.test", pl.col("started_at") > second)
    assert asked.height <= 2
    assert len(crawl.stored("b.test")) == 20
    assert set(crawl.rows("frontier").filter(host="a.test")["status"]) == {"forgotten"}
    assert crawl.rows("frontier").filter(host="a.test")["due_at"].is_null().all()
    assert hidden(crawl) == set(crawl.rows("pages").filter(host="a.test")["url"]) != set()
    crawl.check()
    crawl.check_requests()


def test_what_is_under_way_when_it_is_forgotten_is_logged_and_not_kept(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=5, first_byte_s=12.0), site("b.test", pages=5), rules=SHORT)
    crawl.seed("http://a.test/", "http://b.test/")

    crawl.work(tell=after(crawl, 2, lambda: ordering.forget(crawl.lake, hosts=["a.test"], now=NOON)))

    assert crawl.asked("a.test") == ["/"]
    assert crawl.stored("a.test") == []
    assert crawl.url("http://a.test/")["status"] == "forgotten"
    assert crawl.rows("fetches").filter(host="a.test", cause="page").height == 1
    crawl.check()
    crawl.check_requests()


def test_links_to_what_is_forgotten_are_not_even_logged_also_where_nothing_was_known(tmp_path):
    links = ["http://a.test/old", "http://a.test/new", "http://never.test/", "http://www.b.test/"]
    crawl = Crawl(tmp_path, site("a.test", {"/old": html("Old")}), site("c.test", {"/": html("Home", links)}),
                  rules=policy(scope={"follow": "everywhere"}))  # fmt: skip
    crawl.seed("http://a.test/old").work()
    ordering.forget(crawl.lake, hrefs=["http://a.test/new"], hosts=["never.test"], sites=["b.test"], now=NOON)
    ordering.forget(crawl.lake, hrefs=["http://a.test/old"], now=NOON)

    crawl.seed("http://c.test/").work()

    assert crawl.tally("refused") == {}
    assert set(crawl.rows("links")["url"]) <= {"http://c.test/"}
    assert crawl.asked("a.test") == ["/old"]
    assert hidden(crawl) == {"http://a.test/old"}
    crawl.check()


def test_a_later_seed_lifts_what_was_forgotten_of_its_host(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=4)).seed("http://a.test/")
    crawl.work()
    ordering.forget(crawl.lake, hosts=["a.test"], now=NOON)
    ordering.forget(crawl.lake, hrefs=["http://a.test/1"], now=NOON)
    crawl.work()
    assert len(hidden(crawl)) == 4

    crawl.wait(60)
    crawl.seed("http://a.test/").work()

    assert hidden(crawl) == {"http://a.test/1"}
    assert Counter(crawl.asked("a.test")) == {"/": 2, "/1": 1, "/2": 2, "/3": 2}
    crawl.check()


# Across crashes.


@pytest.mark.parametrize("kind", ["forget", "recrawl"])
def test_an_order_read_by_a_round_that_never_came_to_be_is_obeyed_by_the_next_worker(tmp_path, kind):
    crawl = Crawl(tmp_path, site("a.test", pages=3)).seed("http://a.test/")
    crawl.work()
    give = {"forget": ordering.forget, "recrawl": ordering.recrawl}[kind]
    give(crawl.lake, hosts=["a.test"], now=NOON)
    crawl.wait(60)

    with pytest.raises(BaseExceptionGroup) as group:
        crawl.work(lake=DiesAtCommit(crawl, 1))
    assert group.value.subgroup(Died)
    asked = len(crawl.asked("a.test"))
    crawl.wait(300)
    crawl.work(name="w2")

    assert set(crawl.rows("frontier")["status"]) == {"forgotten" if kind == "forget" else "fetched"}
    assert len(crawl.asked("a.test")) - asked == (0 if kind == "forget" else 3)
    crawl.check()


def test_orders_that_one_bucket_has_obeyed_are_not_obeyed_again_beside_one_that_has_not(tmp_path):
    """b.test and e.test lie in different buckets; only one of them has a worker when the order comes."""
    crawl = Crawl(tmp_path, site("b.test", pages=2), site("e.test", pages=2)).seed("http://b.test/", "http://e.test/")
    crawl.work()
    ordering.recrawl(crawl.lake, hosts=["b.test", "e.test"], now=NOON)
    crawl.wait(60)
    for buckets in ([0], [0, 1]):
        crawl.work(buckets=buckets)
        crawl.wait(60)

    assert {len(crawl.asked(host)) for host in ("b.test", "e.test")} == {4}
    crawl.check()


# Seed lists.


def test_a_tag_carries_topic_region_and_band_to_all_that_is_found_through_it(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3, links={"/1": ["http://b.test/"]}), site("b.test", pages=2),
                  site("c.test", pages=2), rules=policy(scope={"follow": "everywhere"}))  # fmt: skip
    facts = Tag("maths", "eu", 3)
    ordering.seed(crawl.lake, ["http://a.test/"], tag="lesser", facts=facts, now=NOON)
    ordering.seed(crawl.lake, ["http://c.test/"], tag="greater", now=NOON)
    crawl.work()

    assert dict(crawl.rows("hosts", "host", "region").iter_rows()) == {"a.test": "eu", "b.test": "eu", "c.test": None}
    assert crawl.url("http://a.test/")["band"] == 3
    assert crawl.url("http://b.test/")["band"] > 3
    assert crawl.url("http://c.test/")["band"] == 1
    assert set(crawl.rows("pages").filter(host="b.test")["tag"]) == {"lesser"}
    lists = corpus.query(crawl.lake, "select * from seed_lists order by tag")
    assert lists.rows() == [("greater", None, None, 1, 1, 2), ("lesser", "maths", "eu", 3, 1, 5)]
    crawl.check()


def test_a_tag_means_one_thing(tmp_path):
    crawl = Crawl(tmp_path)
    ordering.seed(crawl.lake, ["http://a.test/"], tag="t", facts=Tag("maths", "eu"), now=NOON)

    for facts in (Tag(), Tag("maths"), Tag(region="eu", band=2), Tag(band=2)):
        ordering.seed(crawl.lake, ["http://a.test/"], tag="t", facts=facts, now=NOON)
    with pytest.raises(OrderError, match=r"'t' means topic maths, region eu, band 2, .* given with topic art, band 2"):
        ordering.seed(crawl.lake, ["http://b.test/"], tag="t", facts=Tag("art", band=2), now=NOON)

    assert set(crawl.rows("orders")["host"]) == {"a.test"}


def test_who_has_no_name_on_the_machine_orders_by_number(tmp_path, monkeypatch):
    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # as in a container that is run as any user
    crawl = Crawl(tmp_path, site("a.test"))

    ordering.seed(crawl.lake, ["http://a.test/"], tag=None, now=NOON)

    assert crawl.lake.scan("orders").collect()["ordered_by"].to_list() == [f"user {2**31 - 7}"]


def test_many_names_are_looked_up_together_and_each_unknown_one_is_told(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3)).seed("http://a.test/", "http://b.test/")
    crawl.work()
    known = [str(url) for url in crawl.lake.scan("frontier").collect()["url"]]

    with pytest.raises(OrderError) as refused:
        ordering.recrawl(
            crawl.lake,
            hrefs=[*known, "http://a.test/no"],
            hosts=["b.test", "c.test"],
            sites=["a.test", "d.test"],
            now=NOON,
        )

    assert [line.split(":")[-2].split("/")[-1].strip() for line in str(refused.value).splitlines()[1:]] == [
        "no", "c.test", "d.test",
    ]  # fmt: skip
    assert ordering.recrawl(crawl.lake, hrefs=known, hosts=["b.test"], sites=["a.test"], now=NOON) == len(known) + 2
