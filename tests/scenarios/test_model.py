"""Whatever people, workers and crashes do in whatever order, the crawl does what a frontier of a few lines would.

The model knows the web: what is reachable from the seeds that were given, through hosts that are not paused, is what a
crawl must have fetched once it is left in peace. In between nothing is lost, nothing doubled, nothing forgotten.
"""

import shutil
import tempfile
from collections import Counter
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import trio
from crawls import ALMOST, Crawl, Died, DiesAtCommit, dying_after, policy, stalling, taking
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from crawl_pipeline import corpus, ordering, rebucketing
from crawl_pipeline.core import urls
from crawl_pipeline.lake import Lake, LeaseHeld, LeaseLost
from crawl_pipeline.testing import site
from crawl_pipeline.testing.sites import at_first, html, throttled
from tests.effort import times

LEASE_S = 120.0
BUSY_S = 40
LINKS: dict[str, dict[str, list[str]]] = {
    "a.test": {"/": ["/1", "/2", "http://b.test/"], "/1": ["/3", "/2"], "/2": ["http://c.test/x"], "/3": ["/"]},
    "b.test": {"/": ["/1"], "/1": ["/2", "http://d.test/"], "/2": ["http://a.test/1"]},
    "c.test": {"/": ["/x"], "/x": ["/y"], "/y": ["/z", "http://b.test/2"], "/z": []},
    "d.test": {"/": ["/1", "/2", "/3", "/4", "/5"], **{f"/{n}": ["/"] for n in range(1, 6)}},
}
"""host -> path -> links. Hosts lie in different buckets; c.test asks for three seconds, d.test is busy at first."""
HOSTS = st.sampled_from(sorted(LINKS))


def web() -> list[Any]:
    made = []
    for host, pages in LINKS.items():
        content = {path: html(f"{host}{path}", links) for path, links in pages.items()}
        made.append(site(host, content, crawl_delay_s=3 if host == "c.test" else None))
    busy = made.pop()
    return [*made, type(busy)(busy.name, at_first(busy.site, throttled(BUSY_S), requests=1))]


def reachable(seeds: set[str], paused: set[str]) -> set[str]:
    """Pages that a crawl fetches from these seeds while these hosts are paused."""
    found, left = set[str](), list(seeds)
    while left:
        url = left.pop()
        host, path = urls.host(url), url.removeprefix(f"http://{urls.host(url)}")
        if url not in found and host not in paused and path in LINKS[host]:
            found.add(url)
            left += [link if "://" in link else f"http://{host}{link}" for link in LINKS[host][path]]
    return found


class Frontier(RuleBasedStateMachine):
    """The crawl under test beside the model: seeds, paused hosts, and how many workers died."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="model-"))
        self.crawl = Crawl(self.folder, *web(), buckets=2, rules=policy(
            scope={"follow": "everywhere"}, round={"seconds": 20.0, "shortest_s": 4.0}))  # fmt: skip
        self.seeds, self.paused, self.forgotten = set[str](), set[str](), set[str]()
        self.crashes = self.workers = self.recrawls = 0
        self.known, self.fetched = set[str](), set[str]()
        self.promised: dict[str, datetime] = {}

    @initialize(host=HOSTS)
    def begin(self, host: str) -> None:
        self.seed(host)

    # What people do.

    @rule(host=HOSTS)
    def seed(self, host: str) -> None:
        if host in self.forgotten:
            return  # a seed would lift that; test_orders looks at it
        self.crawl.seed(f"http://{host}/")
        self.seeds.add(f"http://{host}/")

    @rule(host=HOSTS)
    def pause(self, host: str) -> None:
        self.crawl.order("pause", host)
        self.paused.add(host)

    @rule(host=HOSTS)
    def resume(self, host: str) -> None:
        self.crawl.order("resume", host)
        self.paused.discard(host)

    @precondition(lambda self: self.known)
    @rule(host=HOSTS, delay_s=st.sampled_from([2.0, 4.0]))
    def set_delay(self, host: str, delay_s: float) -> None:
        ordering.set_key(self.crawl.lake, self.crawl.rules, "delay_s", str(delay_s), host=host, now=self.now)

    @precondition(lambda self: self.fetched)
    @rule()
    def order_a_recrawl(self) -> None:
        ordering.recrawl(self.crawl.lake, hosts=[urls.host(min(self.fetched))], now=self.now)
        self.recrawls += 1

    @precondition(lambda self: any("d.test" in url for url in self.known))
    @rule()
    def forget(self) -> None:
        ordering.forget(self.crawl.lake, hosts=["d.test"], now=self.now)
        self.forgotten.add("d.test")

    @rule(seconds=st.sampled_from([1, 30, LEASE_S + 1]))
    def wait(self, seconds: float) -> None:
        self.crawl.wait(seconds)

    # What workers do.

    @rule(seconds=st.sampled_from([3, 12, 40]), thread_s=st.sampled_from([0.0, 0.4]))
    def work(self, seconds: float, thread_s: float) -> None:
        self._work(seconds=seconds, in_thread=taking(thread_s))

    @rule(rounds=st.integers(1, 4))
    def die_after_a_commit(self, rounds: int) -> None:
        self._work(tell=dying_after(rounds), seconds=40)

    @rule(commit=st.integers(1, 4))
    def die_before_a_commit(self, commit: int) -> None:
        self._work(lake=DiesAtCommit(self.crawl, commit), seconds=40)

    @rule(at_s=st.floats(0.1, 20))
    def be_killed(self, at_s: float) -> None:
        async def killed() -> None:
            with trio.move_on_after(at_s) as scope:
                await self.crawl.worker(name=self._name(), in_thread=taking(0.3), seconds=40)
            self.crashes += scope.cancelled_caught

        self._expecting_leases(partial(self.crawl.run, killed))

    @rule(nth=st.integers(1, 3))
    def sleep_past_the_lease_while_an_heir_works(self, nth: int) -> None:
        async def late() -> None:
            try:
                await self.crawl.worker(name=self._name(), in_thread=stalling(nth, 2 * LEASE_S), seconds=40)
            except* (LeaseLost, LeaseHeld) as lost:
                self.crashes += lost.subgroup(LeaseLost) is not None

        async def both() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(late)
                await trio.sleep(LEASE_S + 70)
                try:
                    await self.crawl.worker(name=self._name(), seconds=30)
                except LeaseHeld:
                    return

        self.crawl.run(both)

    @rule(double=st.booleans())
    def rebucket(self, double: bool) -> None:
        buckets, now = self.crawl.lake.buckets, self.now
        wanted = min(8, 2 * buckets) if double else max(1, buckets // 2)
        self._expecting_leases(
            lambda: rebucketing.rebucket(self.crawl.lake, self.crawl.rules, wanted, clock=lambda: now)
        )
        self.crawl.lake = Lake.open(self.crawl.lake.root)

    def _name(self) -> str:
        self.workers += 1
        return f"w{self.workers}"

    def _work(self, **wanted: Any) -> None:
        asked, paused = len(self.crawl.web.log), set(self.paused)
        try:
            self._expecting_leases(partial(self.crawl.work, name=self._name(), **wanted))
        except* Died:
            self.crashes += 1
        assert paused.isdisjoint(row.host for row in self.crawl.web.log[asked:])

    def _expecting_leases(self, step: Any) -> None:
        """A lease that nobody gave back keeps others out until its deadline: only after a crash, and no longer."""
        try:
            step()
        except LeaseHeld as refusal:
            held = refusal
        else:
            return
        assert self.crashes
        assert held.deadline_at > self.now

    @property
    def now(self) -> datetime:
        async def read() -> datetime:
            return self.crawl.now

        return self.crawl.run(read)

    # What holds at all times.

    @invariant()
    def no_url_is_lost_or_doubled(self) -> None:
        frontier = self.crawl.rows("frontier", "url", "outcome")
        known, fetched = set(frontier["url"]), set(frontier.filter(outcome="fetched")["url"])
        assert frontier.height == len(known)
        assert self.known <= known
        assert {url for url in self.fetched if urls.host(url) not in self.forgotten} <= fetched
        assert fetched <= reachable(self.seeds, set())
        self.known, self.fetched = known, fetched

    @invariant()
    def a_crash_costs_one_batch_at_most(self) -> None:
        pages = Counter((row.host, row.path) for row in self.crawl.web.log if row.status == 200)
        most = 1 + self.crashes + self.recrawls
        assert all(count <= most for (_, path), count in pages.items() if path != "/robots.txt")

    @invariant()
    def no_promise_to_a_host_is_shortened(self) -> None:
        promised = dict(self.crawl.rows("hosts", "host", "next_allowed_at").drop_nulls().iter_rows())
        assert all(promised[host] >= at for host, at in self.promised.items())
        self.promised = promised
        for host in LINKS:
            rests = self.crawl.web.rests_s(host)
            assert all(rest >= (3 if host == "c.test" else 1) - ALMOST for rest in rests), (host, rests)
        for before, after in pairwise(self.crawl.web.asked("d.test")):
            assert before.status != 429 or after.started - before.ended >= BUSY_S - ALMOST

    def teardown(self) -> None:
        try:
            self._in_peace()
        finally:
            shutil.rmtree(self.folder)

    def _in_peace(self) -> None:
        self.crawl.wait(2 * LEASE_S)
        for host in sorted(self.paused):
            self.resume(host)
        self.work(seconds=1_000, thread_s=0.0)
        shown = set(corpus.query(self.crawl.lake, "select url from pages")["url"])
        assert reachable(self.seeds, self.forgotten) <= shown <= reachable(self.seeds, set())
        assert self.forgotten.isdisjoint(map(urls.host, shown))
        self.no_url_is_lost_or_doubled()
        self.no_promise_to_a_host_is_shortened()
        self.crawl.check()


TestFrontier = Frontier.TestCase
TestFrontier.settings = settings(
    max_examples=times(1, 8),
    stateful_step_count=times(6, 8),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
