"""Workers die, stall and stop at any moment; the next one finishes, and the web notices nothing."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
import trio
from crawls import ALMOST, NOON, Crawl, Died, DiesAtCommit, dying_after, policy, stalling, taking

from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.lake import LeaseHeld, LeaseLost
from crawl_pipeline.testing import site
from crawl_pipeline.testing.sites import html
from crawl_pipeline.worker import LOOK_S, STEP_S, stop_on_step
from tests.effort import some

LEASE_S = 120.0


def web_of_two(tmp_path, **sections: Any) -> Crawl:
    crawl = Crawl(tmp_path, site("a.test", pages=10, first_byte_s=0.3), site("c.test", pages=5, crawl_delay_s=3),
                  rules=policy(**sections))  # fmt: skip
    return crawl.seed("http://a.test/", "http://c.test/")


def finished(crawl: Crawl) -> None:
    """Each page stood exactly once among committed rows, and every promise was kept."""
    assert crawl.stored("a.test") == sorted(["/", *(f"/{n}" for n in range(1, 10))])
    assert crawl.stored("c.test") == sorted(["/", *(f"/{n}" for n in range(1, 5))])
    crawl.check()
    assert all(rest >= 3 - ALMOST for rest in crawl.web.rests_s("c.test"))


def deadline_s(crawl: Crawl) -> float:
    """When the last lease ends or ended, in seconds after noon."""
    return max((at - NOON) / timedelta(seconds=1) for at in crawl.lake.leases()["deadline_at"].drop_nulls())


def die(crawl: Crawl, **wanted: Any) -> None:
    with pytest.raises(BaseExceptionGroup) as group:
        crawl.work(**wanted)
    assert group.value.subgroup(Died)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_worker_that_dies_after_a_commit_loses_and_doubles_nothing(tmp_path, rounds):
    crawl = web_of_two(tmp_path)

    die(crawl, tell=dying_after(rounds), in_thread=taking(0.3))
    crawl.wait(LEASE_S)
    crawl.work(name="w2")

    finished(crawl)


@pytest.mark.parametrize("at_s", some([5.2, 1.4]))
def test_a_worker_that_is_killed_at_any_moment_loses_and_doubles_nothing(tmp_path, at_s):
    crawl = web_of_two(tmp_path)

    async def killed() -> None:
        with trio.move_on_after(at_s):
            await crawl.worker(in_thread=taking(0.3))

    crawl.run(killed)
    crawl.wait(LEASE_S)
    crawl.work(name="w2")

    finished(crawl)


def test_what_was_written_and_not_committed_does_not_exist(tmp_path):
    crawl = web_of_two(tmp_path)

    die(crawl, lake=DiesAtCommit(crawl, 3))
    committed = set(crawl.rows("rounds")["round"])

    assert len(committed) == 2
    assert set(crawl.rows("pages")["round"]) <= committed
    assert crawl.rows("pages").height < len(crawl.web.log)
    crawl.check()

    crawl.wait(LEASE_S)
    crawl.work(name="w2")
    finished(crawl)


def test_a_host_waits_its_delay_from_the_end_of_a_dead_workers_lease(tmp_path):
    crawl = web_of_two(tmp_path)
    die(crawl, tell=dying_after(3))
    asked, until_s = len(crawl.web.log), deadline_s(crawl)

    crawl.wait(LEASE_S)
    crawl.work(name="w2")

    later = crawl.web.log[asked:]
    began = crawl.web.log[0].started
    assert min(row.started for row in later if row.host == "a.test") - began >= until_s + 1 - ALMOST
    assert min(row.started for row in later if row.host == "c.test") - began >= until_s + 3 - ALMOST


def test_the_wait_after_a_death_outlives_a_worker_that_asks_nothing(tmp_path):
    crawl = Crawl(tmp_path, site("c.test", pages=6, crawl_delay_s=50)).seed("http://c.test/")
    die(crawl, tell=dying_after(2))
    asked, until_s = len(crawl.web.log), deadline_s(crawl)
    crawl.run(lambda: trio.sleep_until(crawl.web.log[0].started + until_s + 1))

    crawl.work(name="w2", seconds=5)
    assert len(crawl.web.log) == asked
    crawl.work(name="w3", seconds=120)

    assert crawl.web.log[asked].started - crawl.web.log[0].started >= until_s + 50 - ALMOST
    crawl.check(rest_s=50)


def test_nobody_works_on_buckets_that_are_all_taken(tmp_path):
    crawl = web_of_two(tmp_path)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crawl.worker)
            await trio.sleep(3)
            with pytest.raises(LeaseHeld):
                await crawl.worker(name="w2")

    crawl.run(main)

    finished(crawl)
    crawl.check_requests()


def test_a_worker_takes_the_buckets_that_are_free(tmp_path):
    crawl = web_of_two(tmp_path)
    crawl.run(lambda: crawl.worker(buckets=[0]))

    async def main() -> tuple[int, ...]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: crawl.worker(buckets=[0], in_thread=taking(5)))
            await trio.sleep(1)
            return (await crawl.worker(name="w2")).buckets

    assert crawl.run(main) == (1,)
    crawl.run(lambda: crawl.worker(name="w3"))
    finished(crawl)


def test_a_worker_that_lost_its_lease_is_told_so_and_leaves_nothing(tmp_path):
    crawl = web_of_two(tmp_path)
    lost: list[LeaseLost] = []

    async def stalled() -> None:
        try:
            await crawl.worker(in_thread=stalling(2, 1_000))
        except* LeaseLost as group:
            lost.extend(group.exceptions)  # type: ignore[arg-type]

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stalled)
            await trio.sleep(LEASE_S + 10)
            await crawl.worker(name="w2")

    crawl.run(main)

    assert len(lost) == 1
    ledger = crawl.rows("rounds")
    assert ledger.filter(worker="w1")["round"].n_unique() == 1
    assert ledger.filter(worker="w1")["round"].max() < ledger.filter(worker="w2")["round"].min()
    finished(crawl)


def test_a_worker_stops_asking_before_its_lease_ends(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=400, links={"/": [f"/{n}" for n in range(1, 400)]}))
    crawl.seed("http://a.test/")

    async def main() -> float:
        with trio.move_on_after(1_000):
            await crawl.worker(seconds=5_000, in_thread=stalling(3, 10_000), rules=policy(round={"seconds": 80.0}))
        return deadline_s(crawl)

    until_s = crawl.run(main)

    assert max(row.ended for row in crawl.web.log) - crawl.web.log[0].started < until_s


def test_a_worker_told_to_stop_commits_what_it_has_and_gives_its_lease_back(tmp_path):
    crawl = web_of_two(tmp_path)

    async def main() -> tuple[Any, float]:
        stop = trio.Event()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def tell_to_stop() -> None:
                await trio.sleep(6.1)
                stop.set()

            nursery.start_soon(tell_to_stop)
            return await crawl.worker(stop=stop, in_thread=taking(0.2)), trio.current_time() - began

    worked, took_s = crawl.run(main)

    assert worked.stopped == "it was told to stop"
    assert took_s < 8
    assert crawl.lake.leases()["released"].all()
    crawl.check()
    crawl.check_requests()

    crawl.work(name="w2")
    finished(crawl)
    crawl.check_requests()


@pytest.mark.parametrize("step_s", [3_600.0, -3_600.0], ids=["forward", "back"])
def test_a_worker_under_which_the_clock_is_set_stops_in_order(tmp_path, step_s):
    """Set forward, its lease is over for everybody else while it asks on."""
    crawl = web_of_two(tmp_path)

    async def main() -> Any:
        stop, steps, own = trio.Event(), list[float](), Clock.start(crawl.now)

        def wall() -> datetime:
            return crawl.now + timedelta(seconds=step_s * (trio.current_time() - own.anchor > 4.6))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_step, own, wall, stop, steps)
            worked = await crawl.worker(stop=stop)
            nursery.cancel_scope.cancel()
        return worked, steps

    worked, steps = crawl.run(main)

    assert steps == pytest.approx([step_s])
    assert worked.stopped == "it was told to stop"
    assert max(row.started for row in crawl.web.log) < 4.6 + LOOK_S
    assert crawl.lake.leases()["released"].all()
    crawl.check()
    crawl.check_requests()


def test_network_time_that_moves_the_clock_by_little_stops_nobody(tmp_path):
    crawl = web_of_two(tmp_path)

    async def main() -> Any:
        stop, steps, own = trio.Event(), list[float](), Clock.start(crawl.now)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_on_step, own, lambda: crawl.now + timedelta(seconds=0.9 * STEP_S), stop, steps)
            worked = await crawl.worker(stop=stop)
            nursery.cancel_scope.cancel()
        return worked.stopped

    assert crawl.run(main) != "it was told to stop"
    finished(crawl)


def test_a_worker_whose_time_is_over_carries_its_list_to_the_next(tmp_path):
    crawl = web_of_two(tmp_path)

    stopped = {crawl.work(seconds=4.0, in_thread=taking(0.2)).stopped for _ in range(3)}
    crawl.work()

    assert stopped == {"its time is over"}
    assert crawl.tally()["carried"] > 0
    assert all(count == 1 for count in map(crawl.web.count, (f"http://a.test/{n}" for n in range(1, 10))))
    finished(crawl)
    crawl.check_requests()


def test_two_workers_with_disjoint_buckets_exchange_links_until_the_whole_web_is_known(tmp_path):
    """Two hosts in buckets of different owners; each page is named by a page of the other host only."""
    pages = {"b.test": {}, "e.test": {}}
    for n, (host, other) in enumerate([("b.test", "e.test"), ("e.test", "b.test")] * 3):
        pages[host][f"/{n}"] = html(f"Page {n}", [f"http://{other}/{n + 1}"] if n < 5 else [])
    hosts = [site(name, content) for name, content in pages.items()]
    crawl = Crawl(tmp_path, *hosts, buckets=4, rules=policy(scope={"follow": "everywhere"})).seed("http://b.test/0")

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            for name, own in (("w0", [0, 1]), ("w1", [2, 3])):
                nursery.start_soon(partial(crawl.worker, name=name, buckets=own))

    for _ in range(6):
        crawl.run(both)

    assert set(crawl.rows("hosts")["bucket"] // 2) == {0, 1}
    assert crawl.stored("b.test") == ["/0", "/2", "/4"]
    assert crawl.stored("e.test") == ["/1", "/3", "/5"]
    crawl.check()
    crawl.check_requests()
