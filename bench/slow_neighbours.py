"""What many slow hosts cost a fast one: the fast host's gaps and first byte, alone and among slow neighbours.

The slow hosts accept at once and then send their answer a byte at a time, for as long as they are allowed to (as
Slowloris does to servers). The fast host is nginx, whose log gives the gaps: a lane that waits for its own host only
must not be seen in the gaps of another.
"""

import multiprocessing
import socket
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import trio

from bench import fetch_clients, static_farm
from bench.politeness_share import gaps_s
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.lanes import Lanes
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import WireTransport
from crawl_pipeline.testing import access_log, site_farm
from crawl_pipeline.testing.loopback import addresses

NETWORK = 4  # 127.4.x.y: the slow hosts
DELAY_S = 0.1
BYTE_EVERY_S = 0.2
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Asked:
    """How one host was asked: gaps from nginx's log, first bytes from our own rows, in seconds."""

    median_gap_s: float
    p95_gap_s: float
    median_first_byte_s: float
    pages: int


def drip(listeners: list[socket.socket]) -> None:
    """Answer whoever comes, a byte at a time."""
    for listener in listeners:
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
    threading.Event().wait()


def _accept(listener: socket.socket) -> None:
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_drip, args=(client,), daemon=True).start()


def _drip(client: socket.socket) -> None:
    try:
        with client:
            client.recv(65_536)
            for place in range(100_000):
                client.sendall((HEAD + b"x" * 100)[place % 200 : place % 200 + 1])
                time.sleep(BYTE_EVERY_S)
    except OSError:
        return


def compared(farm: static_farm.StaticFarm, slow: int, pages: int) -> tuple[Asked, Asked]:
    """Ask the farm's first host for so many pages, alone and among the slow; turn and turn about."""
    names = addresses([f"slow{n:03}.test" for n in range(slow)], NETWORK)
    listeners = [socket.create_server((address, farm.port)) for (address,) in names.values()]
    server = multiprocessing.Process(target=drip, args=(listeners,), daemon=True)
    server.start()
    try:
        alone = _asked(farm, {}, pages)
        return alone, _asked(farm, {name: address for name, (address,) in names.items()}, pages)
    finally:
        server.terminate()
        server.join()
        for listener in listeners:
            listener.close()


def _asked(farm: static_farm.StaticFarm, slow: dict[str, str], pages: int) -> Asked:
    fast, (address,) = next(iter(farm.hosts.items()))
    paths = farm.paths(static_farm.LARGE, pages)
    settings = {"port": farm.port, "hosts": slow | {fast: address}, "paths": paths, "delay_s": DELAY_S}
    since = time.time()
    first_bytes = trio.run(_ask, settings, fast, pages)
    gaps = sorted(gaps_s([row for row in _rows(farm) if row.host == fast and row.started_at / 1e6 >= since], since))
    return Asked(
        gaps[len(gaps) // 2], gaps[len(gaps) * 95 // 100], sorted(first_bytes)[len(first_bytes) // 2], len(first_bytes)
    )


def _rows(farm: static_farm.StaticFarm) -> list[access_log.Row]:
    return site_farm.rows(farm.log)


async def _ask(settings: dict[str, Any], fast: str, pages: int) -> list[float]:
    """Load all hosts into one worker's lanes; give the first bytes of the fast one once it is done."""
    rules, found = fetch_clients.rules_of(settings), list[float]()
    async with trio.open_nursery() as nursery:
        transport = WireTransport(Resolver(rules.resolver.hosts), rules.addresses.networks)
        lanes = Lanes(
            nursery,
            transport,
            fetch_clients.Unread(rules, fetch_clients.BUCKETS),
            rules,
            Clock.start(datetime.now(UTC)),
        )
        lanes.load(fetch_clients.queues(settings))
        while len(found) < pages:
            await trio.sleep(fetch_clients.CUT_S)
            rows = [request.exchange for request in lanes.cut().requests if request.host == fast]
            found += [row.first_byte_s for row in rows if row.first_byte_s is not None]
        nursery.cancel_scope.cancel()
    return found
