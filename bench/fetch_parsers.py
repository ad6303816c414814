"""What one GET costs the asker in CPU, by who speaks HTTP: a bare socket, llhttp, h11, httpcore, and our `exchange`.

A server process on loopback answers every request with the same page over one kept connection. Only the CPU
time of the asking process counts, so the figures do not depend on how busy the machine is; ratios to the bare
socket are what is compared. Each way is run in turns, the best turn counts.
"""

import argparse
import datetime
import multiprocessing
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from typing import Any

import h11
import httpcore
import trio

from bench.figures import report
from crawl_pipeline.fetch.exchange import Clock, Exchange, Limits, exchange
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import WireTransport

PAGE_BYTES = 48_000
# As many fields as documentation sites send.
HEAD = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 01 Jun 2026 12:00:00 GMT\r\n"
    b"Content-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\nConnection: keep-alive\r\n"
    b'ETag: "abc"\r\nLast-Modified: Mon, 01 Jun 2026 11:00:00 GMT\r\nCache-Control: max-age=60\r\n'
    b"Vary: Accept-Encoding\r\nX-Frame-Options: DENY\r\n\r\n"
)
FIELDS = {"User-Agent": "BenchBot/1.0 (+https://bot.example)", "Accept": "text/html"}
TARGETS = [("exchange_over_httpcore", "<=", 0.5)]

Get = Callable[[], Awaitable[int]]


def serve(ready: Any, page_bytes: int) -> None:
    """Answer every request on every connection with the page, a thread for each connection."""
    answer = HEAD % page_bytes + b"x" * page_bytes
    listener = socket.create_server(("127.0.0.1", 0))
    ready.send(listener.getsockname()[1])
    while True:
        client, _ = listener.accept()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=answer_all, args=(client, answer), daemon=True).start()


def answer_all(client: socket.socket, answer: bytes) -> None:
    """Answer one connection until the asker leaves."""
    with client:
        while client.recv(65_536):
            client.sendall(answer)


async def raw(port: int) -> Get:
    """A bare Trio stream that only counts bytes: the floor."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    asks = f"GET /page HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()

    async def get() -> int:
        await stream.send_all(asks)
        data = await stream.receive_some(65_536)
        head = data.index(b"\r\n\r\n") + 4
        rest = PAGE_BYTES + head - len(data)
        pieces = [data[head:]]
        while rest > 0:
            pieces.append(await stream.receive_some(65_536))
            rest -= len(pieces[-1])
        return len(b"".join(pieces))

    return get


async def with_llhttp(port: int) -> Get:
    """Our transport alone: llhttp on a Trio stream."""
    transport = loopback_transport()
    url, fields = f"http://127.0.0.1:{port}/page", list(FIELDS.items())

    async def get() -> int:
        answer = await transport.ask(url, fields)
        pieces = []
        while (piece := await answer.piece()) is not None:
            pieces.append(piece)
        return len(b"".join(pieces))

    return get


class NoLog:
    """Rows are counted elsewhere."""

    def add(self, row: Exchange, /) -> None:
        """Forget it."""


async def with_exchange(port: int) -> Get:
    """Everything: deadline, limits, decoding, the row."""
    transport, limits, log = loopback_transport(), Limits(), NoLog()
    clock = Clock.start(datetime.datetime.now(datetime.UTC))
    url = f"http://127.0.0.1:{port}/page"

    async def get() -> int:
        row = await exchange(transport, url, cause="page", headers=FIELDS, limits=limits, clock=clock, log=log)
        return len(row.body)

    return get


async def with_h11(port: int) -> Get:
    """h11 on a Trio stream."""
    stream, connection = await trio.open_tcp_stream("127.0.0.1", port), h11.Connection(h11.CLIENT)
    asks = h11.Request(method="GET", target="/page", headers=[("Host", f"127.0.0.1:{port}"), *FIELDS.items()])

    async def get() -> int:
        await stream.send_all((connection.send(asks) or b"") + (connection.send(h11.EndOfMessage()) or b""))
        pieces = []
        while not isinstance(event := connection.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65_536))
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
        connection.start_next_cycle()
        return len(b"".join(pieces))

    return get


async def with_httpcore(port: int) -> Get:
    """One httpcore connection for the host, no pool."""
    connection = httpcore.AsyncHTTPConnection(httpcore.Origin(b"http", b"127.0.0.1", port))
    url = f"http://127.0.0.1:{port}/page"

    async def get() -> int:
        response = await connection.request("GET", url, headers=list(FIELDS.items()))
        return len(response.content)

    return get


def loopback_transport() -> WireTransport:
    """Our transport, with loopback allowed."""
    return WireTransport(Resolver(), (ip_network("127.0.0.0/8"),))


WAYS = {
    "raw": raw,
    "llhttp": with_llhttp,
    "exchange": with_exchange,
    "h11": with_h11,
    "httpcore": with_httpcore,
}


async def cpu_per_get(way: Callable[[int], Awaitable[Get]], port: int, gets: int) -> float:
    """Give the CPU microseconds of one GET, after a short warm-up."""
    get = await way(port)
    for _ in range(50):
        assert await get() == PAGE_BYTES
    began = time.process_time()
    for _ in range(gets):
        await get()
    return (time.process_time() - began) / gets * 1e6


def measure(gets: int, turns: int) -> dict[str, float]:
    """Run all ways in turns against one server process; give the best CPU time of each, in microseconds."""
    ready, reports = multiprocessing.Pipe(duplex=False)
    server = multiprocessing.Process(target=serve, args=(reports, PAGE_BYTES), daemon=True)
    server.start()
    try:
        port = ready.recv()
        best = {name: float("inf") for name in WAYS}
        for _ in range(turns):
            for name, way in WAYS.items():
                best[name] = min(best[name], trio.run(cpu_per_get, way, port, gets))
        return best
    finally:
        server.terminate()
        server.join()


def main() -> None:
    """Measure, print a table, and one JSON object if asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gets", type=int, default=1_000)
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    best = measure(given.gets, given.turns)
    print(f"{'way':<10} {'CPU us/GET':>10} {'GETs/CPU s':>10} {'x raw':>6}")
    for name, cost in best.items():
        print(f"{name:<10} {cost:>10.0f} {1e6 / cost:>10.0f} {cost / best['raw']:>6.2f}")
    figures = {f"{name}_us": round(cost, 1) for name, cost in best.items()}
    figures["exchange_over_httpcore"] = round(best["exchange"] / best["httpcore"], 2)
    figures |= {f"{name}_over_raw": round(cost / best["raw"], 2) for name, cost in best.items()}
    settings = {"gets": given.gets, "turns": given.turns, "page_bytes": PAGE_BYTES}
    report("fetch_parsers", figures, TARGETS, settings, as_json=given.json)


if __name__ == "__main__":
    main()
