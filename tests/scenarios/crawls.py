"""Whole crawls over a web in memory and a real lake, on a clock that jumps: short ways to run them, and to look."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import trio
from trio.testing import MockClock

from crawl_pipeline import reports, rounds, server_log
from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import ORDERS
from crawl_pipeline.fetch.reading import InlineReaders
from crawl_pipeline.lake import Lake
from crawl_pipeline.modules.loading import load
from crawl_pipeline.rounds import Done, Worked
from crawl_pipeline.testing import FakeWeb, Host

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
BUCKETS = 2
DAY = 86_400.0
ALMOST = 1e-3  # the lake keeps microseconds, the mock clock adds binary fractions


def policy(**sections: Any) -> Policy:
    """One second between requests, no factor on download times, no chance, but for these sections."""
    calm = {"delay_s": 1.0, "download_factor": 0.0, "backoff_jitter": 0.0}
    agent = {"name": "ExampleBot", "contact": "https://example.org/"}
    fixed = {"politeness": calm, "fetch": {"unconditional": 0.0}}
    own = {name: values | sections.get(name, {}) for name, values in fixed.items()}
    return Policy.model_validate({"agent": agent} | sections | own)


class Crawl:
    """One lake and one web, and the time that passes for both."""

    def __init__(self, root: Path, *hosts: Host, rules: Policy | None = None, buckets: int = BUCKETS) -> None:
        self.lake = Lake.create(str(root / "lake"), buckets)
        self.web = FakeWeb(*hosts)
        self.rules = rules or policy()
        self.clock = MockClock(autojump_threshold=0)
        self._began: float | None = None

    # What people do.

    def order(self, kind: str, *names: str) -> "Crawl":
        """Order something of URLs or hosts."""
        rows: list[dict[str, object]] = [
            {"kind": kind, "url": name if "://" in name else None, "tag": None, "ordered_at": NOON,
             "host": urls.host(name) if "://" in name else name, "ordered_by": "a test"}
            for name in names
        ]  # fmt: skip
        self.lake.give(ORDERS.frame(rows))
        return self

    def seed(self, *seeds: str) -> "Crawl":
        return self.order("seed", *seeds)

    # What workers do.

    def work(self, seconds: float = 600, **wanted: Any) -> Worked:
        """Let one worker work; time goes on from where the last one stopped."""
        worked: Worked = self.run(lambda: self.worker(seconds, **wanted))
        return worked

    def run(self, main: Callable[[], Any]) -> Any:
        """Run something on the crawl's clock."""
        return trio.run(main, clock=self.clock)

    def wait(self, seconds: float) -> None:
        """Let time pass without anybody at work."""
        self.run(partial(trio.sleep, seconds))

    @property
    def now(self) -> datetime:
        """The time of the crawl; inside `run` only."""
        if self._began is None:
            self._began = trio.current_time()
        return NOON + timedelta(seconds=trio.current_time() - self._began)

    async def worker(
        self, seconds: float = 600, *, name: str = "w1", buckets: Sequence[int] | None = None,
        in_thread: rounds.InThread | None = None, tell: rounds.Tell = lambda done: None,
        stop: trio.Event | None = None, lake: Any = None, rules: Policy | None = None, readers: Any = None,
    ) -> Worked:  # fmt: skip
        rules = rules or self.rules
        reading = readers or InlineReaders(rules, self.lake.buckets, load(rules))
        outside = rounds.Outside(self.web, reading, in_thread or inline)
        wanted = range(self.lake.buckets) if buckets is None else buckets
        return await rounds.work(
            lake or self.lake, rules, outside, buckets=wanted, worker=name, seconds=seconds, now=self.now, tell=tell,
            stop=stop,
        )  # fmt: skip

    # What there is to see.

    def rows(self, table: str, *columns: str) -> pl.DataFrame:
        frame = self.lake.scan(table).collect()
        return frame.select(columns) if columns else frame

    def documents(self) -> pl.DataFrame:
        """Stored pages with body and text."""
        key = ["content_round", "body_hash", "charset"]
        kept = self.rows("contents", "round", "body_hash", "charset", "body", "text").rename({"round": key[0]})
        return self.rows("pages").join(kept, on=key, how="left", validate="m:1")

    def stored(self, host: str) -> list[str]:
        """Paths of stored pages, as often as they are stored."""
        pages = self.rows("pages").filter(host=host)
        return sorted(url.removeprefix(f"http://{host}") for url in pages["url"])

    def url(self, url: str) -> dict[str, Any]:
        """The frontier row of a URL."""
        return self.rows("frontier").filter(url=url).row(0, named=True)

    def outcomes(self) -> dict[str, str]:
        return dict(self.rows("frontier", "url", "outcome").iter_rows())

    def tally(self, column: str = "outcomes") -> Counter[str]:
        """Sum of a tally over all rounds."""
        found: Counter[str] = Counter()
        for parts in self.rows("rounds")[column]:
            for part in [] if parts is None else parts:
                found[part["name"]] += part["count"]
        return found

    def asked(self, host: str) -> list[str]:
        """Paths that the web saw, robots.txt left out."""
        return [path for path in self.web.paths(host) if path != "/robots.txt"]

    def server_log(self) -> pl.DataFrame:
        """The web's own log, as the log of a server is read."""
        began = NOON - timedelta(seconds=self._began or 0.0)
        rows = [{"host": row.host, "path": row.path, "started_at": began + timedelta(seconds=row.started),
                 "ended_at": began + timedelta(seconds=row.ended), "http_status": row.status,
                 "user_agent": row.user_agent, "address": self.web.hosts.get(row.host, [None])[0]}
                for row in self.web.log]  # fmt: skip
        return pl.DataFrame(rows, schema=server_log.LINES, orient="row").sort("started_at", maintain_order=True)

    # What must always hold.

    def check(self, rest_s: float = 1.0) -> None:
        """Every promise in SQL, the web's own log, and the accounting of all rounds."""
        broken = [result for result in reports.run_tests(self.lake) if not result.holds]
        assert not broken, [(result.name, result.offending) for result in broken]
        for host in {row.host for row in self.web.log}:
            assert not self.web.overlaps(host)
            assert all(rest >= rest_s - ALMOST for rest in self.web.rests_s(host)), (host, self.web.rests_s(host))
        self.check_accounts()

    def check_accounts(self) -> None:
        """Known = admitted; read = admitted + refused; selected = outcomes; requests in the lake = requests seen."""
        ledger = self.rows("rounds")
        frontier = self.rows("frontier")
        assert ledger["admitted_count"].sum() == frontier.height
        assert frontier["url_hash"].is_unique().all()
        assert ledger["links_read_count"].sum() == ledger["admitted_count"].sum() + self.tally("refused").total()
        assert ledger["selected_count"].sum() == self.tally().total()
        known = self.rows("hosts").select(pl.col("known_count").sum()).item()
        assert known == frontier.height
        parked = dict(frontier.filter(status="parked").group_by("host").len().iter_rows())
        assert {
            host: count for host, count in self.rows("hosts", "host", "parked_count").iter_rows() if count
        } == parked
        assert frontier.filter(status="parked")["due_at"].is_null().all()
        last = ledger.filter(pl.col("bucket") < self.lake.buckets).sort("round").group_by("bucket").last()
        assert last["parked_count"].sum() == sum(parked.values())
        assert last["known_count"].sum() == frontier.height

    def check_requests(self) -> None:
        """The lake's log of requests is the web's, where no worker has died."""
        ours = Counter(self.rows("fetches", "url")["url"])
        assert ours == Counter(f"http://{row.host}{row.path}" for row in self.web.log)


async def inline(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call at once: what would be a thread takes no time."""
    return function(*arguments)


def taking(seconds: float) -> rounds.InThread:
    """A thread whose work takes so long, while lanes go on: the web is asked meanwhile."""

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        result = function(*arguments)
        await trio.sleep(seconds)
        return result

    return in_thread


class Died(Exception):
    """What kills a worker in a test."""


def dying_after(rounds_: int) -> rounds.Tell:
    """Kill the worker once it has committed so many rounds."""
    seen: list[Done] = []

    def tell(done: Done) -> None:
        seen.append(done)
        if len(seen) == rounds_:
            raise Died

    return tell


class DiesAtCommit:
    """A lake whose n-th commit never comes: all rows of the round are written, none exists."""

    def __init__(self, crawl: Crawl, nth: int) -> None:
        self._lake, self._left = crawl.lake, nth

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def commit(self, lease: Any, rows: pl.DataFrame) -> None:
        self._left -= 1
        if not self._left:
            raise Died
        self._lake.commit(lease, rows)


def stalling(nth: int, seconds: float) -> Any:
    """A thread that is held up for so long before its n-th round is settled: a machine that slept."""
    settled = 0

    async def in_thread(function: Any, *arguments: Any) -> Any:
        nonlocal settled
        if getattr(function, "__name__", "") == "_settle":
            settled += 1
            await trio.sleep(seconds if settled == nth else 0)
        return await inline(function, *arguments)

    return in_thread
