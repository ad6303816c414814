"""A web on loopback: the same sites behind a real HTTP/1.1 server, one process, one log line per request.

The host is chosen by the Host header. Every host has a loopback address of its own where the system
routes all of 127/8 (Linux does), and shares 127.0.0.1 where it does not; all listen on one port. The
server parses with h11, which shares nothing with the crawler's parser, so a request that is not quite
HTTP is refused here. A log line is written whole when its request ends and is in the file at once,
whoever is killed.

    python -m crawl_pipeline.testing.loopback_web --web MODULE:NAME --port 0 --log FILE --ready FILE
"""

import argparse
import importlib
import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h11
import trio

from crawl_pipeline.testing.access_log import Row, rows
from crawl_pipeline.testing.loopback import announce, bind
from crawl_pipeline.testing.sites import Answer, Front, NotYet, Request, Site, Web, plain, site

EXAMPLE = Web(hosts=(site("example.test"), site("slow.test", first_byte_s=1.0)), entries=(("example.test", "/"),))
IDLE_S = 75.0  # nginx's default for an idle connection


@dataclass(frozen=True, slots=True)
class Served:
    """Where a web is served."""

    web: Web  # with its port
    port: int
    hosts: Mapping[str, list[str]]
    log: Path

    def url(self, host: str, target: str = "/") -> str:
        return Request(host, target, self.port).url

    def rows(self) -> list[Row]:
        return rows(self.log)

    def ready(self) -> dict[str, Any]:
        """What a crawler needs to know, as JSON."""
        return {"port": self.port, "seeds": self.web.seeds, "hosts": dict(self.hosts), "log": str(self.log)}


class Server:
    """Answers connections from sites and writes the log."""

    def __init__(self, web: Web, log: Path) -> None:
        self._sites: dict[str, Site] = {host.name: host.site for host in web.hosts}
        self._port = web.port
        self._front = Front()
        self._log = log.open("a", encoding="utf-8", buffering=1)
        self._ids = len(rows(log))
        self._anchor = time.time() - trio.current_time()  # the wall clock may be set; the log's never goes back

    def close(self) -> None:
        self._log.close()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Answer one connection until it is closed, or was silent for too long."""
        connection = h11.Connection(h11.SERVER)
        try:
            while await self._answer_one(stream, connection):
                connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            stream.socket.close()

    async def _answer_one(self, stream: trio.SocketStream, connection: h11.Connection) -> bool:
        """Answer one request; False when the connection is at its end."""
        try:
            asked = await _head(stream, connection)
        except h11.RemoteProtocolError as trouble:
            await self._refuse(stream, connection, trouble)
            return False
        if asked is None:
            return False
        started = trio.current_time()
        request = self._request(asked, started)
        answer = await self._ask(request)
        await trio.sleep(answer.first_byte_s)
        if answer.failure is not None:
            self._write(request, started, None, 0, stream)
            _reset_on_close(stream.socket)
            return False
        await self._send(request, started, answer, stream, connection)
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    async def _send(
        self,
        request: Request,
        started: float,
        answer: Answer,
        stream: trio.SocketStream,
        connection: h11.Connection,
    ) -> None:
        """Send an answer, its row written just before its last bytes go out.

        So whoever has the answer finds the row, and no request that follows an answer seems to overlap it.
        """
        *parts, last = _wire(connection, answer)
        sent = 0
        try:
            for part, length in parts:
                await stream.send_all(part)
                sent += length
                await trio.sleep(answer.drip_s)
        except BaseException:
            self._write(request, started, answer.status, sent, stream)
            raise
        self._write(request, started, answer.status, sent + last[1], stream)
        await stream.send_all(last[0])

    def _request(self, asked: h11.Request, now: float) -> Request:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in asked.headers}
        host = headers.get("host", "").rpartition(":")[0] or headers.get("host", "")
        return self._front.request(host.lower(), asked.target.decode("latin-1"), now, headers, self._port)

    async def _ask(self, request: Request) -> Answer:
        answers = self._sites.get(request.host)
        while answers is not None:
            try:
                return answers(request)
            except NotYet:
                await trio.sleep(0.02)
        return plain(f"{request.host} is not served here\n", 421)

    async def _refuse(self, stream: trio.SocketStream, connection: h11.Connection, trouble: Exception) -> None:
        if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            refusal = plain(f"{trouble}\n", 400)
            await self._send(Request("", ""), trio.current_time(), refusal, stream, connection)

    def _write(
        self, request: Request, started: float, status: int | None, sent: int, stream: trio.SocketStream
    ) -> None:
        self._ids += 1
        began, ended = (int((self._anchor + t) * 1e6) for t in (started, trio.current_time()))
        ends = [_name(ask) for ask in (stream.socket.getpeername, stream.socket.getsockname)]
        row = Row(self._ids, request.host, request.target, began, ended, status, sent, request.user_agent, *ends)
        self._log.write(json.dumps(asdict(row)) + "\n")


async def _head(stream: trio.SocketStream, connection: h11.Connection) -> h11.Request | None:
    """The next request, read to its end; None when the other side has gone or says nothing."""
    asked: h11.Request | None = None
    with trio.move_on_after(IDLE_S):
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                asked = event
            elif isinstance(event, h11.EndOfMessage):
                return asked
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return None
    return None


def _wire(connection: h11.Connection, answer: Answer) -> list[tuple[bytes, int]]:
    """An answer as the writes that carry it, each with its number of body bytes; a short one is one write."""
    framing = ("transfer-encoding", "chunked") if answer.chunked else ("content-length", str(len(answer.body)))
    headers = [*answer.headers, *([] if answer.status == 304 else [framing])]
    out = connection.send(h11.Response(status_code=answer.status, headers=headers, reason=b"")) or b""
    writes: list[tuple[bytes, int]] = []
    pieces = answer.pieces() or [b""]
    for piece in pieces[:-1]:
        writes.append((out + (connection.send(h11.Data(data=piece)) or b""), len(piece)))
        out = b""
    out += connection.send(h11.Data(data=pieces[-1])) or b""
    out += connection.send(h11.EndOfMessage()) or b""
    return [*writes, (out, len(pieces[-1]))]


def _name(ask: Callable[[], Any]) -> str:
    try:
        address, port = ask()[:2]
    except OSError:  # the other side has gone already
        return ""
    return f"{address}:{port}"


def _reset_on_close(connection: trio.socket.SocketType) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def serve(
    web: Web, *, port: int = 0, log: Path, task_status: trio.TaskStatus[Served] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; reports where once every host can be asked."""
    sockets, hosts = bind([host.name for host in web.hosts], port)
    served_port = sockets[0].getsockname()[1]
    web = web.at(served_port)
    server = Server(web, log)
    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(listener)) for listener in sockets]
    task_status.started(Served(web, served_port, hosts, log))
    try:
        await trio.serve_listeners(server.serve, listeners)
    finally:
        server.close()


@contextmanager
def serving(web: Web, *, log: Path, port: int = 0) -> Iterator[Served]:
    """Serve from a thread of this process for as long as the block runs."""
    served: list[Served | BaseException] = []
    stop: list[Callable[[], None]] = []
    ready = threading.Event()

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            served.append(
                await nursery.start(lambda task_status: serve(web, port=port, log=log, task_status=task_status))
            )
            token = trio.lowlevel.current_trio_token()
            stop.append(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))
            ready.set()

    def work() -> None:
        try:
            trio.run(run)
        except BaseException as trouble:
            served.insert(0, trouble)
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="loopback-web", daemon=True)
    thread.start()
    ready.wait()
    if not isinstance(served[0], Served):
        raise served[0]
    try:
        yield served[0]
    finally:
        stop[0]()
        thread.join()


# The process.


def run(web: Web, *, port: int, log: Path, ready: Path | None) -> None:
    """Serve in this process until SIGTERM, SIGINT, or until the parent process has gone."""
    trio.run(_run, web, port, log, ready)


async def _run(web: Web, port: int, log: Path, ready: Path | None) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_signal, nursery.cancel_scope)
        nursery.start_soon(_cancel_with_parent, nursery.cancel_scope, os.getppid())
        served = await nursery.start(lambda task_status: serve(web, port=port, log=log, task_status=task_status))
        announce(served.ready(), ready)


async def _cancel_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


async def _cancel_with_parent(scope: trio.CancelScope, parent: int) -> None:
    """Polling is the one way that works on every system and for every kind of parent's death."""
    while os.getppid() == parent:
        await trio.sleep(0.5)
    scope.cancel()


def arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The options of every served web."""
    parser.add_argument("--port", type=int, default=0, help="port of every host; 0 takes a free one (default)")
    parser.add_argument("--log", type=Path, required=True, help="access log, JSON lines, appended to")
    parser.add_argument(
        "--ready", type=Path, help="file for {port, seeds, hosts, log} once all hosts answer; else stdout"
    )
    return parser


def main() -> None:
    parser = arguments(argparse.ArgumentParser(description="Serve a web of sites on loopback."))
    parser.add_argument(
        "--web",
        default="crawl_pipeline.testing.loopback_web:EXAMPLE",
        metavar="MODULE:NAME",
        help="a Web, or a function that makes one",
    )
    options = parser.parse_args()
    module, _, name = options.web.partition(":")
    found = getattr(importlib.import_module(module), name)
    run(found if isinstance(found, Web) else found(), port=options.port, log=options.log, ready=options.ready)


if __name__ == "__main__":
    main()
