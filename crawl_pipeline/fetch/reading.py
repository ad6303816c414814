"""Read bodies in worker processes that may be killed.

A body goes in; text, hashes and links come out. Parsing hostile markup can take minutes or crash natively and neither
thread nor cancellation stops it, so it runs in processes: a batch has a deadline, and of a batch that misses it or dies
each page is tried alone, so that only the culprit is lost. Nothing is fetched here.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, get_args

import polars as pl
import trio
import trio_parallel

from crawl_pipeline.core import directives, hints, page, references, sitemap, templates, urls
from crawl_pipeline.core.contents import content_hash
from crawl_pipeline.core.elements import Kind
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.references import Place
from crawl_pipeline.fetch.analysing import Analyst, Strikes, hired
from crawl_pipeline.fetch.bodies import Body, FoundLinks, ReadPage, Result
from crawl_pipeline.fetch.handing_over import handed_over, of_types, with_told
from crawl_pipeline.fetch.remembering import Memory
from crawl_pipeline.fetch.slate import Slate, on_slate
from crawl_pipeline.modules import calling
from crawl_pipeline.modules.calling import Told
from crawl_pipeline.modules.loading import NONE, Modules


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """What a worker process must know; small, since it travels with every batch."""

    agent: str
    buckets: int
    limits: page.Limits
    images: bool = False
    endings: frozenset[str] = frozenset()
    """Links that modules want followed."""
    remembered: int = 0

    @classmethod
    def of(cls, policy: Policy, buckets: int, modules: Modules = NONE) -> "ReadingRules":
        """The part of the policy that reading needs."""
        limits = page.Limits(body_bytes=int(policy.parse.body_mb * 1e6), links=policy.parse.links)
        return cls(policy.agent.name, buckets, limits, modules.images, modules.endings, policy.contents.remembered)


def read_all(bodies: Sequence[Body], rules: ReadingRules) -> list[Result]:
    """Read a batch of bodies; what cannot be read gives its reason."""
    return [read(body, rules) for body in bodies]


def read(body: Body, rules: ReadingRules) -> Result:
    """Read one body as a page, a sitemap or a file."""
    try:
        if body.cause == "file":
            return _read_file(body, rules)
        return _read_sitemap(body, rules) if body.cause == "sitemap" else _read_page(body, rules)
    except (page.Malformed, sitemap.TooLarge) as trouble:
        return str(trouble)
    except Exception as fault:  # a page that trips our own code costs that page, not the batch or the round
        return f"our reader failed: {type(fault).__name__}: {fault}"


class Readers:
    """Worker processes that read bodies in batches. Use as `async with`; hand bodies over with `give`."""

    def __init__(self, policy: Policy, buckets: int, modules: Modules = NONE) -> None:
        self._rules = ReadingRules.of(policy, buckets, modules)
        self.modules = modules
        self._strikes = Strikes(modules.strikes)
        self._round: Analyst | None = None
        self._seconds = policy.parse.seconds
        self._batch_pages = policy.parse.batch_pages
        self._processes = policy.parse.processes or os.cpu_count() or 1
        self._waiting, self._queue = trio.open_memory_channel[tuple[Body, Callable[[Result], None]]](
            2 * self._batch_pages * self._processes
        )

    async def give(self, body: Body, then: Callable[[Result], None]) -> None:
        """Have a body read; `then` is called with the result. Waits while the processes are behind."""
        await self._waiting.send((body, then))

    async def run(self) -> None:
        """Read what is given until cancelled."""
        async with AsyncExitStack() as stack:
            if self.modules.of_phase("round"):
                self._round = await stack.enter_async_context(hired(self.modules, self._strikes, _leave_signals))
            context = await stack.enter_async_context(trio_parallel.open_worker_context(init=_leave_signals))
            async with trio.open_nursery() as nursery:
                for _ in range(self._processes):
                    nursery.start_soon(self._serve, partial(context.run_sync, kill_on_cancel=True))

    async def of_round(self, frames: Mapping[str, pl.DataFrame]) -> list[Told]:
        """What modules make of a round's rows."""
        given = {one.name: of_types(frames, one) for one in self.modules.of_phase("round")}
        while given and self._round is None:  # `run` has not begun
            await trio.lowlevel.checkpoint()
        return [await self._round.of_round(one, given[one.name])
                for one in self.modules.of_phase("round") if self._round is not None]  # fmt: skip

    async def _serve(self, run_sync: Callable[..., Awaitable[Any]]) -> None:
        async with AsyncExitStack() as stack:
            slate = stack.enter_context(Slate())
            analyst = None
            if self.modules.of_phase("read"):
                analyst = await stack.enter_async_context(hired(self.modules, self._strikes, _leave_signals))
            await self._serve_on(slate, run_sync, analyst)

    async def _serve_on(self, slate: Slate, run_sync: Callable[..., Awaitable[Any]], analyst: Analyst | None) -> None:
        while True:
            batch = [await self._queue.receive()]
            while len(batch) < self._batch_pages:
                try:
                    batch.append(self._queue.receive_nowait())
                except trio.WouldBlock:
                    break
            bodies = [body for body, _ in batch]
            results = await self._read(bodies, slate, run_sync)
            if analyst is not None:
                results = await self._told(bodies, results, analyst)
            for (_, then), result in zip(batch, results, strict=True):
                then(result)

    async def _told(self, bodies: list[Body], results: list[Result], analyst: Analyst) -> list[Result]:
        """The results, with what modules make of them."""
        given = {place: content for place, (body, result) in enumerate(zip(bodies, results, strict=True))
                 if (content := handed_over(body, result, self.modules)) is not None}  # fmt: skip
        answers = dict(zip(given, await analyst.read(list(given.values())), strict=True)) if given else {}
        return [with_told(result, answers.get(place, [])) for place, result in enumerate(results)]

    async def _read(self, bodies: list[Body], slate: Slate, run_sync: Callable[..., Awaitable[Any]]) -> list[Result]:
        with trio.move_on_after(self._seconds):
            try:
                results: list[Result] = slate.read(await run_sync(on_slate, read_all, slate.write(bodies), self._rules))
                return results
            except trio_parallel.BrokenWorkerError:
                if len(bodies) == 1:
                    return ["reading it killed its process"]
        if len(bodies) == 1:
            return [f"not read within {self._seconds:g} s"]
        return [result for body in bodies for result in await self._read([body], slate, run_sync)]


def _leave_signals() -> bool:
    """In the process: let the worker say when to stop; a signal to the whole group is for the worker alone."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return True


class InlineReaders:
    """Reads bodies at once in this process: for tests on a mock clock, which know no hostile pages."""

    def __init__(self, policy: Policy, buckets: int, modules: Modules = NONE) -> None:
        self._rules = ReadingRules.of(policy, buckets, modules)
        self.modules = modules

    async def give(self, body: Body, then: Callable[[Result], None]) -> None:
        """Read the body, call modules, and then `then`."""
        result = read(body, self._rules)
        content = handed_over(body, result, self.modules)
        wanted = [one for one in self.modules.of_phase("read") if content and one.declares.wants(content.media_type)]
        then(with_told(result, [calling.read(content, one.spec, one.declares.limits) for one in wanted if content]))

    async def of_round(self, frames: Mapping[str, pl.DataFrame]) -> list[Told]:
        """What modules make of a round's rows."""
        return [calling.of_round(of_types(frames, one), one.spec, one.declares.limits)
                for one in self.modules.of_phase("round")]  # fmt: skip

    async def run(self) -> None:
        """Have nothing to do."""
        await trio.sleep_forever()


def _read_file(body: Body, rules: ReadingRules) -> ReadPage:
    """What no page reader reads: its bytes are what it says."""
    wishes = directives.from_header(body.x_robots_tag, rules.agent)
    named = content_hash(body.body)
    return ReadPage(
        links=FoundLinks(), text_hash=int.from_bytes(named[:8], "little", signed=True), body_hash=named,
        noindex=wishes.noindex, is_file=True,
    )  # fmt: skip


def _kinds(found: page.Page, endings: frozenset[str]) -> tuple[str, ...]:
    """How links are told of: a reference to a file that a module wants by its ending is one of its own kind."""
    kinds = tuple(map(_TOLD.__getitem__, found.kinds))
    if not endings:
        return kinds
    return tuple(
        "file" if kind != "canonical" and _ending(place.url) in endings else kind
        for place, kind in zip(found.places, kinds, strict=True)
    )


_TOLD: Mapping[str, str] = dict.fromkeys(get_args(Kind), "link") | {"canonical": "canonical", "image": "image"}


def _ending(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2].rpartition(".")[2].lower()


_MEMORY = Memory[ReadPage]()


def _read_page(body: Body, rules: ReadingRules) -> ReadPage:
    body_hash = content_hash(body.body)
    key = (rules, body_hash, body.content_type, body.x_robots_tag)
    known = _MEMORY.recall(key, body.url)
    if known is not None:
        return known
    found = page.read(
        body.body, body.url, body.content_type, body.x_robots_tag, rules.agent, limits=rules.limits, images=rules.images
    )
    made = _made(found, body_hash, rules)
    size = len(found.text) + 2 * made.links.size
    _MEMORY.keep(key, body.url, found.references, found.base_href, made, size, rules.remembered)
    return made


def _made(found: page.Page, body_hash: bytes, rules: ReadingRules) -> ReadPage:
    count = len(found.places)
    nofollow = (True,) * count if found.nofollow else found.nofollows
    links = columns(found.places, _kinds(found, rules.endings), nofollow, rules.buckets)
    return ReadPage(
        links=links, text=found.text, blocks=templates.hashes(found.text), regions=found.regions,
        text_hash=urls.hash64(found.text), word_count=words(found.text),
        body_hash=body_hash, title=found.title, lang=found.lang,
        charset=found.charset, canonical_url=found.canonical, noindex=found.noindex, nofollow=found.nofollow,
        robots_directives=found.robots_directives or None,
    )  # fmt: skip


def _read_sitemap(body: Body, rules: ReadingRules) -> ReadPage:
    found = sitemap.read(body.body, body.url)
    own_site = urls.site(urls.host(body.url))
    # A sitemap speaks for its own site only (sitemaps.org, "Sitemap file location").
    entries = [entry for entry in sitemap.named(found) if urls.site(urls.host(entry.loc)) == own_site]
    kind = "sitemap" if found.type == "index" else "listed"
    dates = hints.sifted([entry.lastmod for entry in entries])
    count, places = len(entries), [references.place(entry.loc) for entry in entries]
    links = replace(
        columns(places, (kind,) * count, (False,) * count, rules.buckets),
        lastmod_at=tuple(dates), said_rate=tuple(entry.rate for entry in entries),
    )  # fmt: skip
    # What it names is what it says: bytes differ with every time stamp in a comment or a gzip header.
    said = "\n".join(f"{entry.loc} {date}" for entry, date in zip(entries, dates, strict=True))
    named = "\n".join(entry.loc for entry in entries)
    return ReadPage(links=links, text_hash=urls.hash64(said), named_hash=urls.hash64(named))


def columns(places: Sequence[Place], kinds: tuple[str, ...], nofollow: tuple[bool, ...], buckets: int) -> FoundLinks:
    """Links as they are handed over; of their dates and rates nothing is known."""
    if not places:
        return FoundLinks()
    found, hashes, hosts = zip(*places, strict=True)
    bucket_of = {host: _bucket_of_host(host, buckets) for host in set(hosts)}
    own, unknown = tuple(map(bucket_of.__getitem__, hosts)), (None,) * len(places)
    return FoundLinks(found, hashes, hosts, own, kinds, nofollow, unknown, unknown)


def words(text: str) -> int:
    """How many words a text of folded white space has."""
    return text.count(" ") + text.count("\n") + 1 if text else 0


@lru_cache(maxsize=100_000)
def _bucket_of_host(host: str, buckets: int) -> int:
    return urls.bucket(urls.site(host), buckets)
