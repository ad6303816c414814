"""The audit is audited: a clean crawl gives no finding, and each way to break a promise is found by its own sentence.

The log of a real crawl is changed as if the crawl had misbehaved, in one row or two, wherever Hypothesis chooses, and
judged again: once as the crawl's own log, once as the log of the server that was asked.
"""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from crawls import Crawl, policy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_pipeline import auditing, corpus, server_log
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import politeness
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.server_log import AsLake
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import at_first, robots, robots_text, slow, throttled, tree, unavailable


class Rows(dict[str, list[dict[str, Any]]]):
    """Rows of tables, too many to be printed."""

    def __repr__(self) -> str:
        return f"<rows of {', '.join(self)}>"


RULES = policy(
    politeness={"delay_s": 1.0, "download_factor": 2.0, "backoff_first_s": 2.0, "aside_first_s": 20.0},
    round={"seconds": 20.0, "shortest_s": 2.0}, retry={"first_s": 5.0}, recrawl={"first_s": 90_000.0},
)  # fmt: skip
READ = ("fetches", "robots", "orders", "rounds", "pages")


def pages(count: int, took_s: float) -> Any:
    return slow(tree(count), first_byte_s=took_s)


@pytest.fixture(scope="module")
def crawl(tmp_path_factory) -> Crawl:
    """Hosts with all that there is to be obeyed, crawled by two workers, a day apart, one host paused between.

    The last two share an address.
    """
    calm, pace = robots_text(["/private", "/*secret$"]), robots_text(["/private"], crawl_delay_s=5.0)
    crawl = Crawl(
        tmp_path_factory.mktemp("audit"),
        Host("calm.test", robots(pages(25, 0.3), calm)),
        Host("pace.test", robots(pages(8, 0.2), pace)),
        Host("wait.test", robots(at_first(pages(6, 0.2), throttled(30), requests=2), calm)),
        Host("ill.test", robots(at_first(pages(6, 0.2), unavailable(), seconds=70), calm)),
        Host("left.test", robots(pages(2, 0.01), calm)),
        Host("right.test", robots(pages(8, 0.01), calm)),
        rules=RULES,
    )
    crawl.web.hosts["right.test"] = crawl.web.hosts["left.test"]
    names = ("calm", "pace", "wait", "ill", "left", "right")
    crawl.seed(*(f"http://{name}.test/" for name in names)).work(seconds=200, name="first")
    crawl.order("pause", "ill.test")
    crawl.wait(90_000)
    crawl.work(seconds=120, name="second")
    return crawl


@pytest.fixture(scope="module")
def own(crawl: Crawl) -> Rows:
    pages = crawl.rows("pages", "bucket", "round", "url").to_dicts()
    return Rows({name: crawl.rows(name).to_dicts() for name in READ if name != "pages"} | {"pages": pages})


@pytest.fixture(scope="module")
def servers(crawl: Crawl) -> Rows:
    """The server's log, in the shape of a lake."""
    frames = server_log.as_lake(crawl.lake, crawl.server_log()).frames
    return Rows({name: frame.to_dicts() for name, frame in frames.items()})


def copied(rows: Rows) -> Rows:
    return Rows({name: [dict(row) for row in some] for name, some in rows.items()})


def lake_of(rows: Rows) -> AsLake:
    return AsLake({name: TABLES[name].frame(rows.get(name, [])) for name in READ})


def broken(rows: Rows) -> set[str]:
    """The sentences that do not hold of the crawl's own log."""
    return {r.name for finding in auditing.audit(lake_of(rows)).findings for r in finding.results if not r.holds}


def broken_for_the_server(rows: Rows) -> set[str]:
    both = server_log.Result("known_to_both", "", (), pl.DataFrame())
    found = auditing.audit_server(lake_of(rows), both, 0)
    return {r.name for finding in found.findings for r in finding.results if not r.holds}


# Ways to break a promise. Each is given the rows, and where to do it.

Where = Callable[[list[Any]], Any]


NEIGHBOURS = ("left.test", "right.test")


def by_host(rows: Rows) -> list[list[dict[str, Any]]]:
    hosts: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows["fetches"], key=lambda row: row["started_at"]):
        hosts.setdefault(row["host"], []).append(row)
    return list(hosts.values())


def pairs(rows: Rows, fit: Callable[[dict[str, Any], dict[str, Any]], bool] = lambda r, s: True) -> list[Any]:
    """Requests that follow each other, within a minute."""
    every = [(r, s) for host in by_host(rows) for r, s in pairwise(host) if host[0]["host"] not in NEIGHBOURS]
    return [(r, s) for r, s in every if s["started_at"] - r["ended_at"] < timedelta(minutes=1) and fit(r, s)]


def move(row: dict[str, Any], to: datetime) -> None:
    row["ended_at"] += to - row["started_at"]
    row["started_at"] = to


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def calm(r: dict[str, Any], s: dict[str, Any]) -> bool:
    return not r["retry_after_s"] and r["host"] != "pace.test"


def too_early(rows: Rows, where: Where) -> None:
    r, s = where(pairs(rows, calm))
    move(s, r["ended_at"] + seconds(0.5))


def within_the_crawl_delay(rows: Rows, where: Where) -> None:
    r, s = where(pairs(rows, lambda r, s: r["host"] == "pace.test"))
    move(s, r["ended_at"] + seconds(4.5))


def across_a_round_border(rows: Rows, where: Where) -> None:
    r, s = where(pairs(rows, lambda r, s: calm(r, s) and r["round"] != s["round"]))
    move(s, r["ended_at"] + seconds(0.9))


def within_the_back_off(rows: Rows, where: Where) -> None:
    trouble = ("unavailable", "throttled")
    r, s = where(pairs(rows, lambda r, s: r["host"] == "ill.test" and r["outcome"] in trouble))
    move(s, r["ended_at"] + seconds(2.5))


def while_put_aside(rows: Rows, where: Where) -> None:
    *_, (r, s) = pairs(rows, lambda r, s: r["host"] == "ill.test" and r["outcome"] == "unavailable")
    move(s, r["ended_at"] + seconds(where([10, 19.5])))


def beside_a_neighbour(rows: Rows, where: Where) -> None:
    hosts = {host[0]["host"]: host for host in by_host(rows)}
    left, right = hosts["left.test"], hosts["right.test"]
    last = [row for row in left if row["started_at"] < left[0]["started_at"] + seconds(3_600)][-1]
    r = where([row for row in right if last["ended_at"] < row["started_at"] < last["ended_at"] + seconds(3_600)])
    move(last, r["started_at"] + seconds(where([-0.1, 0.0, 0.1])))


def while_another_is_answered(rows: Rows, where: Where) -> None:
    r, s = where(pairs(rows, lambda r, s: r["cause"] == "page" and r["ended_at"] > r["started_at"]))
    move(s, r["started_at"] + (r["ended_at"] - r["started_at"]) / 2)


def before_retry_after(rows: Rows, where: Where) -> None:
    r, s = where(pairs(rows, lambda r, s: bool(r["retry_after_s"])))
    move(s, r["ended_at"] + seconds(29))


def what_is_disallowed(rows: Rows, where: Where) -> None:
    row = where([row for row in rows["fetches"] if row["cause"] == "page"])
    row["url"] = row["origin"] + where(["/private", "/private/x?y=1"])


def what_a_wildcard_disallows(rows: Rows, where: Where) -> None:
    row = where([row for row in rows["fetches"] if row["cause"] == "page" and row["host"] != "pace.test"])
    row["url"] = row["origin"] + "/a/b-secret"


def by_a_robots_txt_that_is_a_day_old(rows: Rows, where: Where) -> None:
    row = where(rows["robots"])
    row["fetched_at"] -= seconds(86_400)


def without_robots_txt(rows: Rows, where: Where) -> None:
    origin = where(rows["robots"])["origin"]
    rows["robots"] = [row for row in rows["robots"] if row["origin"] != origin]


def after_a_robots_txt_that_failed(rows: Rows, where: Where) -> None:
    where(rows["robots"])["http_status"] = where([500, 503, 429])


def under_another_name(rows: Rows, where: Where) -> None:
    where(rows["fetches"])["user_agent"] = where(["Mozilla/5.0", "ExampleBot/1.0", ""])


def more_than_a_day_may_have(rows: Rows, where: Where) -> None:
    [order] = [order for order in rows["orders"] if order["kind"] == "policy"]
    most = f"fetches_per_host_day = {RULES.budget.fetches_per_host_day}"
    order["policy_toml"] = order["policy_toml"].replace(most, f"fetches_per_host_day = {where([1, 5, 20])}")


def a_paused_host(rows: Rows, where: Where) -> None:
    rounds = {(row["bucket"], row["round"]): row for row in rows["rounds"]}

    def planned(row: dict[str, Any]) -> bool:
        ledger = rounds[row["bucket"], row["round"]]
        return row["started_at"] > ledger["started_at"] + seconds(ledger["plan_s"])

    row = where([row for row in rows["fetches"] if planned(row)])
    order = rounds[row["bucket"], row["round"]]["orders_seen"]
    rows["orders"].append({"kind": "pause", "order": order, "host": row["host"]})


def by_a_second_worker(rows: Rows, where: Where) -> None:
    where(rows["fetches"])["worker"] = "another"


def by_a_holder_of_long_ago(rows: Rows, where: Where) -> None:
    row = where([row for row in rows["fetches"] if row["host"] == "calm.test" and row["worker"] == "second"][1:])
    early = min((r for r in rows["rounds"] if r["bucket"] == row["bucket"]), key=lambda r: r["round"])
    for old, step in ((row, -1), (early, 1)):
        ledger = next(r for r in rows["rounds"] if (r["bucket"], r["round"]) == (old["bucket"], old["round"]))
        ledger["request_count"] += step
    row["round"], row["worker"] = early["round"], early["worker"]


def and_forgotten(rows: Rows, where: Where) -> None:
    rows["fetches"].remove(where(rows["fetches"]))


REST = "a_host_rests_as_long_as_it_is_owed"
WAYS = {
    too_early: REST,
    within_the_crawl_delay: REST,
    across_a_round_border: REST,
    within_the_back_off: REST,
    while_put_aside: REST,
    beside_a_neighbour: "an_address_is_asked_in_turn",
    while_another_is_answered: "a_host_is_never_asked_twice_at_once",
    before_retry_after: "a_host_is_left_alone_as_long_as_it_asks",
    what_is_disallowed: "robots_allow_what_is_asked",
    what_a_wildcard_disallows: "robots_allow_what_is_asked",
    by_a_robots_txt_that_is_a_day_old: "robots_come_first",
    without_robots_txt: "robots_come_first",
    after_a_robots_txt_that_failed: "nothing_is_asked_while_robots_forbid_everything",
    under_another_name: "every_request_says_who_asks",
    more_than_a_day_may_have: "no_host_is_asked_beyond_its_day",
}
OWN_WAYS = {
    a_paused_host: "a_paused_host_is_not_asked",
    by_a_second_worker: "one_worker_at_a_time_asks_a_host",
    by_a_holder_of_long_ago: "one_worker_at_a_time_asks_a_host",
    and_forgotten: "a_round_counts_its_requests_and_pages",
}
few = settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def test_a_clean_crawl_gives_no_finding(crawl, own, servers):
    assert broken(own) == set()
    assert broken_for_the_server(servers) == set()
    assert server_log.known_to_both(crawl.lake, crawl.server_log()).holds


def test_a_server_whose_clock_is_behind_by_what_it_rounds_off_knows_the_requests_at_the_ends_of_its_log(crawl):
    behind = crawl.server_log().with_columns(pl.col("started_at", "ended_at") - timedelta(milliseconds=1))
    cut = behind.filter(pl.col("ended_at") <= behind["ended_at"].median())
    assert server_log.known_to_both(crawl.lake, behind).holds
    assert server_log.known_to_both(crawl.lake, cut).holds


def test_a_clean_crawl_has_all_that_is_to_be_obeyed(own):
    found = auditing.audit(lake_of(own))
    assert found.unjudged == 0
    assert min(finding.judged for finding in found.findings) > 40
    assert len({row["round"] for row in own["fetches"]}) > 3
    assert {row["worker"] for row in own["fetches"]} == {"first", "second"}
    assert [row for row in own["fetches"] if row["retry_after_s"]]


@pytest.mark.parametrize("way", [*WAYS, *OWN_WAYS], ids=lambda way: way.__name__)
@few
@given(data=st.data())
def test_what_was_asked_is_found_by_its_own_sentence(own, way, data):
    rows = copied(own)
    way(rows, lambda some: data.draw(st.sampled_from(some)))
    assert broken(rows) == {(WAYS | OWN_WAYS)[way]}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@few
@given(data=st.data())
def test_the_server_finds_it_too(servers, way, data):
    if way is across_a_round_border:
        return  # a server knows no rounds
    rows = copied(servers)
    way(rows, lambda some: data.draw(st.sampled_from(some)))
    assert broken_for_the_server(rows) == {WAYS[way]}


@few
@given(data=st.data())
def test_a_request_that_one_side_does_not_know_is_found(crawl, data):
    log = crawl.server_log()
    place = data.draw(st.integers(0, log.height - 1))
    path = f"{log['host'][place]}{log['path'][place]}"

    for spoilt in (log.filter(pl.int_range(pl.len()) != place), pl.concat([log, log[place]]).sort("started_at")):
        found = server_log.known_to_both(crawl.lake, spoilt).offending
        assert [row["host"] + row["path"] for row in found.to_dicts()] == [path]


@few
@given(data=st.data())
def test_a_request_that_the_server_saw_at_another_time_is_found(crawl, data):
    log = crawl.server_log()
    # The ill host is asked for one URL again and again: elsewhere it is clear which request was moved.
    place = data.draw(st.sampled_from([at for at in range(1, log.height - 1) if log["host"][at] != "ill.test"]))
    moved = pl.when(pl.int_range(pl.len()) == place).then(seconds(-20)).otherwise(seconds(0))
    log = log.with_columns(pl.col("started_at") + moved).sort("started_at")

    [found] = server_log.known_to_both(crawl.lake, log).offending.to_dicts()
    assert found["another_time_count"] == 1


def test_a_host_that_rests_exactly_as_long_as_politeness_has_it_is_never_found():
    """Troubles of all kinds in any order, under policies of all kinds: what is owed is never more than was waited."""
    chance = random.Random(7)
    rows = Rows({name: [] for name in READ} | {"rounds": [{"bucket": 0, "round": 1}]})
    for n in range(150):
        host, now, pace = f"h{n}.test", datetime(2026, 3, 1, tzinfo=UTC), HostPace()
        rules = policy(politeness={
            "delay_s": 1.0, "backoff_first_s": chance.choice([1.0, 4.0]), "backoff_cap_s": chance.choice([2.0, 100.0]),
            "aside_after": chance.randint(1, 4), "aside_first_s": chance.choice([0.5, 3.0, 60.0]),
            "aside_cap_s": chance.choice([2.0, 500.0]), "calm_answers": chance.randint(1, 3),
        })  # fmt: skip
        rows["orders"].append({"kind": "policy", "policy_id": rules.id, "policy_toml": policies.render(rules)})
        for at in range(14):
            outcome = chance.choice(["fetched", "throttled", "throttled", "unavailable", "timeout", "carried"])
            rows["fetches"].append({
                "bucket": 0, "round": 1, "host": host, "url": f"http://{host}/{at}", "request_id": at,
                "cause": chance.choice(["page"] * 6 + ["robots"]), "started_at": now, "ended_at": now,
                "outcome": outcome, "policy_id": rules.id, "worker": "w",
            })  # fmt: skip
            pace, gap_s = politeness.after(pace, outcome, 0.0, None, rules, host, now)
            now += seconds(gap_s)

    with corpus.connect(lake_of(rows)) as connection:
        rests = corpus.read(connection, "select * from rests")
    assert rests["owed_s"].null_count() == 0
    assert rests.filter(pl.col("owed_s") > pl.col("waited_s") + 1e-3).is_empty()
    # And it is not owed for nothing: more than the delay in most rests, all of it in many.
    more, all_of_it = rests["owed_s"] > 1.0, rests["owed_s"] > rests["waited_s"] - 1e-3
    assert more.mean() > 0.65
    assert all_of_it.mean() > 0.35


def test_margins_are_at_least_one_and_close_to_it(own, servers):
    for rows in (own, servers):
        overall = auditing.audit(lake_of(rows)).margins.row(0, named=True)
        assert overall["host"] == "all hosts"
        assert 1.0 - 1e-3 <= overall["least_margin"] <= overall["p05_margin"] <= overall["median_margin"] < 1.5


def test_requests_under_a_policy_that_is_not_kept_are_counted(own):
    rows = copied(own)
    rows["orders"] = [order for order in rows["orders"] if order["kind"] != "policy"]
    found = auditing.audit(lake_of(rows))
    assert found.unjudged == found.requests > 0


def test_a_policy_of_another_version_judges_nothing_and_is_counted(own):
    rows = copied(own)
    [order] = [order for order in rows["orders"] if order["kind"] == "policy"]
    order["policy_toml"] = policies.render(RULES) + "\n[no_longer_there]\nkey = 1\n"
    found = auditing.audit(lake_of(rows))
    assert found.unjudged == found.requests > 0
