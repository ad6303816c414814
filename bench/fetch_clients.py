"""One client, all hosts of a farm at once, the same pages: what it costs in CPU. Runs in a process of its own.

    python -m bench.fetch_clients WAY SETTINGS.json

Ways: `raw` (blocking sockets, host after host, which only count bytes: the floor), `httpx` (a client for each host on
Trio), `lanes` (our fetch path: lanes, exchange, transport, a row per request; no parsing, no lake), `lanes_read` (the
same, and every page read in the readers' processes). Each has one kept connection per host and one request at a time
on it; robots.txt is known beforehand, delays are next to nothing. Setting up is not counted. Prints one JSON object.
"""

import json
import socket
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import trio
import trio.testing

from bench import farm_crawl
from crawl_pipeline.core import policy, robots, urls
from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.fetch.bodies import Body, FoundLinks, ReadPage, Result
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.lanes import Lanes
from crawl_pipeline.fetch.reading import InlineReaders, Readers
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import WireTransport
from crawl_pipeline.fetch.visits import HostQueue, RobotsAnswer, Target

BUCKETS = 16
CUT_S = 0.5
"""How often the lanes are relieved of what they have done, as a round would."""

Settings = dict[str, Any]
"""port; hosts: name to address; paths: asked of each host, in this order."""


class Spent:
    """CPU seconds of this process and its children from here on."""

    def __init__(self) -> None:
        self._began = self._now()

    def __call__(self) -> float:
        """How much so far."""
        return self._now() - self._began

    def _now(self) -> float:
        own = psutil.Process()
        times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
        return float(sum(one.user + one.system for one in times))


async def raw(settings: Settings) -> tuple[int, float]:
    """Blocking sockets, one after the other."""
    spent, pages = Spent(), 0
    for host, address in settings["hosts"].items():
        with socket.create_connection((address, settings["port"])) as connection:
            for path in settings["paths"]:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{settings['port']}\r\n\r\n".encode())
                pages += receive(connection)
    return pages, spent()


def receive(connection: socket.socket) -> bool:
    """Read one answer that says its length; tell whether it was a page."""
    data = connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
    pieces, have = [body], len(body)
    while have < length:
        pieces.append(connection.recv(65_536))
        have += len(pieces[-1])
    return head.startswith(b"HTTP/1.1 200") and len(b"".join(pieces)) == length


async def through_httpx(settings: Settings) -> tuple[int, float]:
    """A client for each host: one client for all has a pool that looks through all connections."""
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
    clients = {host: httpx.AsyncClient(verify=False, trust_env=False, limits=limits) for host in settings["hosts"]}
    done = []

    async def ask(host: str, address: str) -> None:
        for path in settings["paths"]:
            url = f"http://{address}:{settings['port']}{path}"
            answer = await clients[host].get(url, headers={"Host": f"{host}:{settings['port']}"})
            done.append(answer.status_code == 200 and len(answer.content) > 0)
        await clients[host].aclose()

    spent = Spent()
    async with trio.open_nursery() as nursery:
        for host, address in settings["hosts"].items():
            nursery.start_soon(ask, host, address)
    return sum(done), spent()


class Unread(InlineReaders):
    """Takes bodies and reads none."""

    async def give(self, body: Body, then: Callable[[Result], None]) -> None:
        """Call `then` with an empty page."""
        then(ReadPage(links=FoundLinks()))


async def lanes(settings: Settings) -> tuple[int, float]:
    """Our fetch path alone."""
    return await _through_lanes(settings, Unread(rules_of(settings), BUCKETS))


async def lanes_read(settings: Settings) -> tuple[int, float]:
    """Our fetch path and our readers."""
    return await _through_lanes(settings, Readers(rules_of(settings), BUCKETS))


async def _through_lanes(settings: Settings, readers: Readers | InlineReaders) -> tuple[int, float]:
    rules, pages = rules_of(settings), 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(readers.run)
        await _warm(readers)
        loaded = queues(settings)
        transport = WireTransport(Resolver(rules.resolver.hosts), rules.addresses.networks)
        asking = Lanes(nursery, transport, readers, rules, Clock.start(datetime.now(UTC)))
        spent = Spent()
        asking.load(loaded)
        while not asking.idle:
            await asking.worth_cutting(CUT_S)
            pages += sum(visit.outcome == "fetched" for visit in asking.cut().visits)
        pages += sum(visit.outcome == "fetched" for visit in asking.cut().visits)
        used = spent()
        nursery.cancel_scope.cancel()
    return pages, used


async def _warm(readers: Readers | InlineReaders) -> None:
    """Have every process of the readers started."""
    left = psutil.cpu_count() or 1
    done = trio.Event()

    def then(_: Result) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set()

    await trio.testing.wait_all_tasks_blocked()
    for _ in range(left):  # each to another process that waits
        await readers.give(Body("http://a.test/", "page", b"<p>warm", "text/html"), then)
    await done.wait()


def rules_of(settings: Settings) -> policy.Policy:
    """The policy of the crawl benches, with delays of next to nothing and rounds as long as a cut."""
    hosts = "\n".join(f'"{host}" = ["{address}"]' for host, address in settings["hosts"].items())
    text = farm_crawl.POLICY.format(delay_s=settings.get("delay_s", 1e-6), hosts=hosts, port=settings["port"])
    rules = policy.load(text)
    return rules.model_copy(update={"round": rules.round.model_copy(update={"seconds": CUT_S})})


def queues(settings: Settings) -> list[HostQueue]:
    """All hosts with all their pages, and a robots.txt that allows them."""
    soon = datetime.now(UTC) + timedelta(hours=1)
    made = []
    for host in settings["hosts"]:
        bucket = urls.bucket(urls.site(host), BUCKETS)
        origin = f"http://{host}:{settings['port']}"
        answer = RobotsAnswer(bucket, host, origin, 1, soon, soon, "rules", robots.Rules())
        pages = [f"{origin}{path}" for path in settings["paths"]]
        targets = tuple(Target(url, urls.url_hash(url), "link", 1, 0, None) for url in pages)
        made.append(HostQueue(host, bucket, HostPace(), None, {origin: answer}, targets))
    return made


WAYS: dict[str, Callable[[Settings], Coroutine[Any, Any, tuple[int, float]]]] = {
    "raw": raw,
    "httpx": through_httpx,
    "lanes": lanes,
    "lanes_read": lanes_read,
}


def main() -> None:
    """Run one way and print what it took."""
    way, given = sys.argv[1:]
    pages, cpu_s = trio.run(WAYS[way], json.loads(Path(given).read_text()))
    print(json.dumps({"pages": pages, "cpu_s": cpu_s}))


if __name__ == "__main__":
    main()
