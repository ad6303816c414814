"""Recrawl on the wire: what a second visit sends, and when a host is asked.

Both run the crawl's own lanes over a web in memory, on a clock that jumps; the web's own log is the answer.
"""

import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.lane import HostLane
from crawl_pipeline.fetch.robots_desk import anything
from crawl_pipeline.fetch.turns import at_once
from crawl_pipeline.fetch.visits import HostQueue
from crawl_pipeline.testing import FakeWeb, Host
from crawl_pipeline.testing.sites import Answer, Request, html, not_found, plain, with_retry_after
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input
from tests.scenarios.crawls import DAY, NOON, Crawl
from tests.scenarios.crawls import policy as crawl_policy

# The cases' dates lie shortly before this.
NOW = datetime(2026, 7, 1, tzinfo=UTC)
CONDITIONAL = ("if-none-match", "if-modified-since", "if-match", "if-unmodified-since", "if-range")


def conditional(given: Input) -> dict[str, Json]:
    """Crawl one page twice; the first answer carried the validators. A body that is not stored was too large."""
    stored, seen = given["stored"], list[Mapping[str, str]]()
    fields = {"etag": "etag", "last_modified": "last-modified"}
    validators = tuple((fields[name], stored[name]) for name in fields if stored.get(name))

    def answer(request: Request) -> Answer:
        if request.path == "/robots.txt":
            return not_found(request)
        seen.append(request.headers)
        page = html("Page", text="x" * (1 if stored.get("body", True) else 2_000_000))
        return Answer(200, (*page.headers, *validators), page.body)

    with tempfile.TemporaryDirectory() as root:
        rules = crawl_policy(fetch={"body_mb": 1.0, "unconditional": 0.0}, recrawl={"first_s": DAY})
        crawl = Crawl(Path(root), Host("r.example", answer), rules=rules)
        crawl.work()  # with nothing to ask, so that time begins
        crawl.wait((NOW - NOON).total_seconds())
        crawl.seed("http://r.example/").work()
        crawl.wait(2 * DAY)
        crawl.work()
    if len(seen) != 2:
        raise RuntimeError(f"expected two visits, found {len(seen)}")
    return {"headers": {name: seen[1][name] for name in CONDITIONAL if name in seen[1]}}


def politeness(given: Input) -> dict[str, Json]:
    """Let one lane per host ask for the URLs as they become ready."""
    starts = trio.run(_starts, given["limits"], given["events"], clock=MockClock(autojump_threshold=0))
    return {"start_times": starts, "second": starts[1] if len(starts) > 1 else None}


async def _starts(limits: Input, events: Sequence[Input]) -> list[float | None]:
    began = trio.current_time()
    web = FakeWeb(*[Host(host, partial(_answer, limits, events)) for host in {event["host"] for event in events}])
    rules = _policy(limits)
    clock = Clock.start(datetime(2026, 7, 1, tzinfo=UTC))
    delays = limits.get("crawl_delay", {})
    lanes = {
        host: HostLane(HostQueue(host, 0, HostPace(crawl_delay_s=delays.get(host)), None, {}, ()), web, rules, clock,
                       lambda request: None, lambda: float("inf"), trio.CapacityLimiter(1), at_once)
        for host in web.hosts
    }  # fmt: skip
    async with trio.open_nursery() as nursery:
        for place, event in sorted(enumerate(events), key=lambda each: float(each[1]["t"])):
            await trio.sleep_until(began + event["t"])
            nursery.start_soon(_ask, lanes[event["host"]], event, place)
            await wait_all_tasks_blocked()  # so that it stands in the line before the next one comes
    started = {row.path: round(row.started - began, 3) for row in web.log}
    return [started.get(f"/{place}") for place in range(len(events))]


async def _ask(lane: HostLane, event: Input, place: int) -> None:
    await lane.ask(f"{event.get('scheme', 'http')}://{event['host']}/{place}", "page", anything, {})


def _answer(limits: Input, events: Sequence[Input], request: Request) -> Answer:
    status = events[int(request.path[1:])].get("status", 200)
    wait_s = limits.get("retry_after", {}).get(request.host) if status in (429, 503) else None
    return with_retry_after(plain("x", status), wait_s)


def _policy(limits: Input) -> Policy:
    """The reasons to wait that the case names, and none of our own: no factor, no back-off to speak of."""
    rules = {"delay_s": float(limits["min_delay_s"])} if "min_delay_s" in limits else {}
    calm = {"download_factor": 0.0, "backoff_first_s": 1e-6, "backoff_cap_s": 1e-6}
    agent = {"name": AGENT, "contact": "https://bot.example/"}
    return Policy.model_validate({"agent": agent, "politeness": calm | rules})


ADAPTERS: Adapters = {
    ("recrawl", "conditional"): conditional,
    ("recrawl", "politeness"): politeness,
}
