"""Read bodies in worker processes that may be killed.

A body goes in; text, hashes and links come out. Parsing hostile markup can take minutes or crash natively and neither
thread nor cancellation stops it, so it runs in processes: a batch has a deadline, and of a batch that misses it or dies
each page is tried alone, so that only the culprit is lost. Nothing is fetched here.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import trio
import trio_parallel

from crawl_pipeline.core import page, sitemap, templates, urls
from crawl_pipeline.core.contents import content_hash
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.slate import Slate, on_slate


@dataclass(frozen=True, slots=True)
class Body:
    """One body to read, with what of its answer matters for reading it."""

    url: str
    cause: str
    body: bytes
    content_type: str | None
    x_robots_tag: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """Links of one body, column by column."""

    urls: tuple[str, ...] = ()
    hashes: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    buckets: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    nofollow: tuple[bool, ...] = ()
    lastmod_at: tuple[datetime | None, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes the links hold."""
        return sum(map(len, self.urls)) + 200 * len(self.urls)


@dataclass(frozen=True, slots=True)
class ReadPage:
    """What one body holds."""

    links: FoundLinks
    text: str | None = None
    blocks: bytes = b""
    """For each line of the text the hash by which templates know it, 32 bits; 0 for a long one."""
    regions: bytes = b""
    """What each line stands in: see core.text."""
    text_hash: int | None = None
    word_count: int = 0
    body_hash: bytes | None = None
    title: str | None = None
    lang: str | None = None
    charset: str | None = None
    canonical_url: str | None = None
    noindex: bool = False
    nofollow: bool = False
    robots_directives: str | None = None


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """What a worker process must know; small, since it travels with every batch."""

    agent: str
    buckets: int
    limits: page.Limits

    @classmethod
    def of(cls, policy: Policy, buckets: int) -> "ReadingRules":
        """The part of the policy that reading needs."""
        limits = page.Limits(body_bytes=int(policy.parse.body_mb * 1e6), links=policy.parse.links)
        return cls(policy.agent.name, buckets, limits)


Result = ReadPage | str
"""A page, or the reason why it is malformed."""


def read_all(bodies: Sequence[Body], rules: ReadingRules) -> list[Result]:
    """Read a batch of bodies; what cannot be read gives its reason."""
    return [read(body, rules) for body in bodies]


def read(body: Body, rules: ReadingRules) -> Result:
    """Read one body as what it was asked for: a page or a sitemap."""
    try:
        return _read_sitemap(body, rules) if body.cause == "sitemap" else _read_page(body, rules)
    except (page.Malformed, sitemap.TooLarge) as trouble:
        return str(trouble)
    except Exception as fault:  # a page that trips our own code costs that page, not the batch or the round
        return f"our reader failed: {type(fault).__name__}: {fault}"


class Readers:
    """Worker processes that read bodies in batches. Use as `async with`; hand bodies over with `give`."""

    def __init__(self, policy: Policy, buckets: int) -> None:
        self._rules = ReadingRules.of(policy, buckets)
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
        async with trio_parallel.open_worker_context(init=_leave_signals) as context, trio.open_nursery() as nursery:
            for _ in range(self._processes):
                nursery.start_soon(self._serve, partial(context.run_sync, kill_on_cancel=True))

    async def _serve(self, run_sync: Callable[..., Awaitable[Any]]) -> None:
        with Slate() as slate:
            await self._serve_on(slate, run_sync)

    async def _serve_on(self, slate: Slate, run_sync: Callable[..., Awaitable[Any]]) -> None:
        while True:
            batch = [await self._queue.receive()]
            while len(batch) < self._batch_pages:
                try:
                    batch.append(self._queue.receive_nowait())
                except trio.WouldBlock:
                    break
            results = await self._read([body for body, _ in batch], slate, run_sync)
            for (_, then), result in zip(batch, results, strict=True):
                then(result)

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

    def __init__(self, policy: Policy, buckets: int) -> None:
        self._rules = ReadingRules.of(policy, buckets)

    async def give(self, body: Body, then: Callable[[Result], None]) -> None:
        """Read the body and call `then`."""
        then(read(body, self._rules))

    async def run(self) -> None:
        """Have nothing to do."""
        await trio.sleep_forever()


def _read_page(body: Body, rules: ReadingRules) -> ReadPage:
    found = page.read(body.body, body.url, body.content_type, body.x_robots_tag, rules.agent, limits=rules.limits)
    kinds = ["canonical" if link.kind == "canonical" else "link" for link in found.links]
    links = _columns(
        [link.url for link in found.links], kinds, [link.nofollow or found.nofollow for link in found.links],
        [None] * len(kinds), rules.buckets,
    )  # fmt: skip
    return ReadPage(
        links=links, text=found.text, blocks=templates.hashes(found.text), regions=found.regions,
        text_hash=urls.hash64(found.text), word_count=len(found.text.split()),
        body_hash=content_hash(body.body), title=found.title, lang=found.lang,
        charset=found.charset, canonical_url=found.canonical, noindex=found.noindex, nofollow=found.nofollow,
        robots_directives=found.robots_directives or None,
    )  # fmt: skip


def _read_sitemap(body: Body, rules: ReadingRules) -> ReadPage:
    found = sitemap.read(body.body, body.url)
    own_site = urls.site(urls.host(body.url))
    # A sitemap speaks for its own site only (sitemaps.org, "Sitemap file location").
    entries = [entry for entry in sitemap.named(found) if urls.site(urls.host(entry.loc)) == own_site]
    kind = "sitemap" if found.type == "index" else "listed"
    links = _columns(
        [entry.loc for entry in entries], [kind] * len(entries), [False] * len(entries),
        [entry.lastmod for entry in entries], rules.buckets,
    )  # fmt: skip
    # What it names is what it says: bytes differ with every time stamp in a comment or a gzip header.
    return ReadPage(links=links, text_hash=urls.hash64("\n".join(f"{entry.loc} {entry.lastmod}" for entry in entries)))


def _columns(
    found: list[str], kinds: list[str], nofollow: list[bool], lastmod_at: list[datetime | None], buckets: int
) -> FoundLinks:
    hosts = [urls.host(url) for url in found]
    return FoundLinks(
        tuple(found), tuple(map(urls.url_hash, found)), tuple(hosts),
        tuple(_bucket_of_host(host, buckets) for host in hosts), tuple(kinds), tuple(nofollow), tuple(lastmod_at),
    )  # fmt: skip


@lru_cache(maxsize=100_000)
def _bucket_of_host(host: str, buckets: int) -> int:
    return urls.bucket(urls.site(host), buckets)
