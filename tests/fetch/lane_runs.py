"""Lanes over a web in memory on a clock that jumps: short ways to run them, and nothing else."""

from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import trio
from trio.testing import MockClock

from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.lanes import Lanes
from crawl_pipeline.fetch.reading import InlineReaders
from crawl_pipeline.fetch.visits import Cut, HostQueue, Target

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
BUCKETS = 4


def on_mock_clock(main: Callable[[], Awaitable[Any]]) -> Any:
    return trio.run(main, clock=MockClock(autojump_threshold=0))


def policy(**sections: Any) -> Policy:
    """One second between requests, no factor on download times, no chance, but for these sections."""
    calm = {"delay_s": 1.0, "download_factor": 0.0, "backoff_jitter": 0.0}
    agent = {"name": "ExampleBot", "contact": "https://example.org/"}
    return Policy.model_validate({"agent": agent} | sections | {"politeness": calm | sections.get("politeness", {})})


def target(url: str, **columns: Any) -> Target:
    plain = {"url": url, "url_hash": urls.url_hash(url), "kind": "link", "depth": 0, "hops": 0, "tag": None}
    return Target(**(plain | columns))


def queue(host: str, *paths: str | Target, **columns: Any) -> HostQueue:
    targets = tuple(target(f"http://{host}{path}") if isinstance(path, str) else path for path in paths)
    known = {"pace": HostPace(), "next_allowed_at": None, "robots": {}} | columns
    return HostQueue(host, urls.bucket(urls.site(host), BUCKETS), targets=targets, **known)


def pages(count: int, start: int = 0) -> list[str]:
    return [f"/{n}" for n in range(start, start + count)]


@asynccontextmanager
async def lanes_over(web: httpx.AsyncBaseTransport, rules: Policy | None = None, readers: Any = None):
    """Lanes that live as long as the block."""
    rules = rules or policy()
    async with trio.open_nursery() as nursery:
        reading = readers or InlineReaders(rules, BUCKETS)
        nursery.start_soon(reading.run)
        yield Lanes(nursery, web, reading, rules, Clock.start(NOON))
        nursery.cancel_scope.cancel()


def ask_all(
    web: httpx.AsyncBaseTransport, *queues: HostQueue, rules: Policy | None = None, seconds: float = 1e6
) -> Cut:
    """Ask for everything on these lists and cut once."""

    async def main() -> Cut:
        async with lanes_over(web, rules) as lanes:
            lanes.load(queues, queue)
            with trio.move_on_after(seconds):
                while not lanes.idle:
                    await trio.sleep(0.05)
            return lanes.cut()

    return on_mock_clock(main)


def outcomes(cut: Cut) -> dict[str, str]:
    """What came of each path or URL."""
    return {visit.target.url.removeprefix("http://a.test"): visit.outcome for visit in cut.visits}


def seconds_after_noon(moment: datetime) -> float:
    return (moment - NOON) / timedelta(seconds=1)
