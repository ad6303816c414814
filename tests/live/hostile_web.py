"""A raw server on loopback for hosts that mean harm or are broken: what each sends, and what must come of it.

CASES is the table: a host per case, what it sends, and the outcome that the taxonomy gives its page. The server knows
no HTTP beyond the end of a request's head; it writes an access log like any server, a line per request.
"""

import gzip
import json
import socket
import ssl
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import brotli
import trio
import trustme
import zstandard

from crawl_pipeline.testing.access_log import Row
from crawl_pipeline.testing.loopback import bind

LATE_S = 0.15
"""A server learns late that a client has left; by so much the log may be wrong about it, to the client's favour."""


@dataclass(frozen=True, slots=True)
class Drip:
    """Send a byte at a time."""

    text: bytes
    every_s: float = 0.1


@dataclass(frozen=True, slots=True)
class Endless:
    """Send the same for as long as somebody reads."""

    text: bytes


Step = bytes | Drip | Endless | Literal["close", "reset", "silence"]
Steps = tuple[Step, ...]


def answer(body: bytes = b"", *fields: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """A whole answer, of which every part may be a lie."""
    lines = [f"HTTP/1.1 {status}", *fields, f"Content-Length: {len(body) if length is None else length}", "", ""]
    return "\r\n".join(lines).encode() + body


def page(*links: str) -> bytes:
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return answer(
        f"<!DOCTYPE html><title>page</title><p>Words on a page.</p>{anchors}".encode(), "Content-Type: text/html"
    )


def redirect(to: str) -> Steps:
    return (answer(b"", f"Location: {to}", status="302 Found"),)


def status(line: str, *fields: str) -> Steps:
    return (answer(b"no\n", *fields, status=line),)


def coded(coding: str, body: bytes) -> Steps:
    return (answer(body, f"Content-Encoding: {coding}", "Content-Type: text/html"),)


def tomorrow(seconds: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds))


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
NOTHING: Steps = status("404 Not Found")
PAGE: Steps = (page(),)
ZEROS = bytes(64 << 20)
GZIPPED = gzip.compress(ZEROS, 1)
TRAILED = CHUNKED + b"1a\r\n<p>A page with a trailer.\r\n0\r\nX-Sum: 1\r\nSet-Cookie: a=b\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    """What a host sends for its pages and its robots.txt, and what must come of them."""

    outcome: str
    """Of its page at /."""
    page: Steps = PAGE
    robots: Steps = NOTHING
    more: Mapping[str, Steps] | None = None
    """What it sends for other paths."""
    request: str | None = None
    """Outcome of a request, where that is not the page's own: of robots.txt, as a rule."""
    tls: str | None = None
    """The certificate of its https, or "none": plain HTTP on the port of a https URL."""
    named: bool = True
    """Whether the name leads to an address."""
    listens: bool = True


def _unreachable(request: str, **terms: object) -> Case:
    return Case("robots_unreachable", request=request, **terms)  # type: ignore[arg-type]


CASES: dict[str, Case] = {
    # Slow.
    "slow-head": Case("timeout", (HEAD, Drip(b"X-Slow: " + b"a" * 999))),
    "slow-body": Case("timeout", (answer(b"<p>", length=999), Drip(b"a" * 999))),
    "silent": Case("timeout", ("silence",)),
    "silent-in-body": Case("timeout", (answer(b"<p>", length=999), "silence")),
    # Too much.
    "one-long-field": Case("protocol_error", (HEAD + b"X: ", Endless(b"a" * 1000))),
    "many-fields": Case("protocol_error", (HEAD, Endless(b"a:\r\n" * 1000))),
    "interim-flood": Case("protocol_error", (Endless(b"HTTP/1.1 102 Processing\r\n\r\n" * 100),)),
    "gzip-bomb": Case("too_large", coded("gzip", GZIPPED)),
    "gzip-in-gzip-bomb": Case("too_large", coded("gzip, gzip", gzip.compress(GZIPPED))),
    "gzip-of-many-members": Case("decode_error", coded("gzip", gzip.compress(b"a") * 9000)),
    "members-before-junk": Case("fetched", coded("gzip", gzip.compress(b"<p>a") * 250 + bytes(300_000))),
    "deflate-bomb": Case("too_large", coded("deflate", zlib.compress(ZEROS, 1))),
    "brotli-bomb": Case("too_large", coded("br", brotli.compress(ZEROS, quality=1))),
    "zstd-bomb": Case("too_large", coded("zstd", zstandard.compress(ZEROS))),
    "four-codings": Case("decode_error", coded("gzip, gzip, gzip, gzip", b"x")),
    "endless-body": Case("too_large", (HEAD + b"\r\n", Endless(b"a" * 1000))),
    "endless-chunks": Case("too_large", (CHUNKED, Endless(b"3e8\r\n" + b"a" * 1000 + b"\r\n"))),
    "endless-framing": Case("too_large", (CHUNKED, Endless(b"1;" + b"x" * 1000 + b"\r\na\r\n"))),
    "endless-extension": Case("protocol_error", (CHUNKED + b"1;", Endless(b"x" * 1000))),
    "endless-trailers": Case("protocol_error", (CHUNKED + b"0\r\n", Endless(b"X: " + b"x" * 1000 + b"\r\n"))),
    "says-it-is-large": Case("too_large", (answer(b"", length=10**12), "silence")),
    "large-page": Case("malformed", (answer(b"<p>" + b"words " * 50_000),)),
    # Broken off.
    "reset-at-once": Case("connect_error", ("reset",)),
    "reset-in-head": Case("truncated", (HEAD + b"X-Half", "reset")),
    "reset-in-body": Case("truncated", (answer(b"<p>half", length=999), "reset")),
    "closed-at-once": Case("protocol_error", ("close",)),
    "closed-in-head": Case("truncated", (HEAD + b"X-Half", "close")),
    "closed-in-chunk": Case("truncated", (CHUNKED + b"ff\r\nhalf", "close")),
    "length-too-long": Case("truncated", (answer(b"<p>half", length=999), "close")),
    "cut-gzip": Case("truncated", coded("gzip", gzip.compress(b"<p>half")[:-6])),
    # Doubtful.
    "length-too-short": Case("fetched", (answer(b"<p>Words and more than it said", length=9),)),
    "two-lengths": Case("protocol_error", (answer(b"<p>Words", "Content-Length: 3"),)),
    "one-length-twice": Case("fetched", (answer(b"<p>Words", "Content-Length: 8"),)),
    "smuggled-second-answer": Case("fetched", (page() + answer(b"<p>evil"),)),
    "closes-a-kept-connection": Case("fetched", (page("/2"), "close"), robots=(*NOTHING, "close"), more={"/2": PAGE}),
    "trailers": Case("fetched", (TRAILED,)),
    "body-after-304": Case("client_error", (answer(b"<p>Body", status="304 Not Modified"),)),
    "no-http": Case("protocol_error", (b"<html><p>HTTP/0.9 once was enough.", "close")),
    "another-protocol": Case("protocol_error", (b"SSH-2.0-OpenSSH_9.9\r\n", "silence")),
    "noise": Case("protocol_error", (bytes(range(256)) * 40, "close")),
    "null-in-field": Case("protocol_error", (HEAD + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",)),
    "null-in-name": Case("protocol_error", (HEAD + b"X\0: a\r\nContent-Length: 0\r\n\r\n",)),
    "switches": Case("protocol_error", (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", "silence")),
    "continue": Case("fetched", (b"HTTP/1.1 100 Continue\r\n\r\n" + page(),)),
    "early-hints": Case("fetched", (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * 3 + page(),)),
    "status-999": Case("client_error", status("999 Denied")),
    # Elsewhere.
    "loop": Case("redirected", redirect("/b"), more={"/b": redirect("/c"), "/c": redirect("/")}),
    "chain": Case("redirected", redirect("/1"), more={f"/{n}": redirect(f"/{n + 1}") for n in range(1, 9)}),
    "to-private": Case("redirected", redirect("http://10.0.0.1/admin"), request="redirected"),
    "to-metadata": Case("redirected", redirect("http://169.254.169.254/latest/meta-data")),
    "to-ftp": Case("redirect_error", redirect("ftp://files.test/")),
    "to-file": Case("redirect_error", redirect("file:///etc/passwd")),
    "to-script": Case("redirect_error", redirect("javascript:alert(1)")),
    "to-nowhere": Case("redirect_error", status("302 Found")),
    # Away.
    "429": Case("throttled", status("429 Too Many Requests")),
    "429-seconds": Case("throttled", status("429 Too Many Requests", "Retry-After: 4")),
    "429-date": Case("throttled", status("429 Too Many Requests", f"Retry-After: {tomorrow(86_400)}")),
    "429-absurd": Case("throttled", status("429 Too Many Requests", f"Retry-After: {'9' * 500}")),
    "429-nonsense": Case("throttled", status("429 Too Many Requests", "Retry-After: -1, soon")),
    "503": Case("unavailable", status("503 Service Unavailable")),
    "503-seconds": Case("throttled", status("503 Service Unavailable", "Retry-After: 3")),
    "gone": Case("gone", status("410 Gone")),
    "forbidden": Case("forbidden", status("451 Unavailable For Legal Reasons")),
    "picture": Case("not_html", (answer(b"GIF89a", "Content-Type: image/gif"),)),
    # robots.txt.
    "robots-forbid": Case("disallowed", robots=(answer(b"User-agent: *\nDisallow: /\n"),)),
    "robots-hang": _unreachable("timeout", robots=("silence",)),
    "robots-drip": _unreachable("timeout", robots=(answer(b"", length=999), Drip(b"#" * 999))),
    "robots-fail": _unreachable("unavailable", robots=status("500 Oops")),
    "robots-429": _unreachable("throttled", robots=status("429 Too Many Requests", "Retry-After: 5")),
    "robots-bomb": _unreachable("too_large", robots=coded("gzip", GZIPPED)),
    "robots-endless": Case("fetched", robots=(HEAD + b"\r\n", Endless(b"Disallow: /private\n" * 50))),
    "robots-forbid-endlessly": Case(
        "disallowed", robots=(HEAD + b"\r\nUser-agent: *\nDisallow: /\n", Endless(b"# more\n" * 99))
    ),
    "robots-noise": Case("fetched", robots=(answer(bytes(range(256)) * 400),)),
    "robots-loop": Case("fetched", robots=redirect("/robots2"), more={"/robots2": redirect("/robots.txt")}),
    "robots-to-private": _unreachable("address_refused", robots=redirect("http://inside.test/robots.txt")),
    # TLS.
    "tls-good": Case("fetched", tls="good"),
    "tls-closes-a-kept-connection": Case("fetched", robots=(*NOTHING, "close"), tls="good"),
    "tls-expired": _unreachable("tls_error", tls="expired"),
    "tls-of-another": _unreachable("tls_error", tls="other"),
    "tls-self-signed": _unreachable("tls_error", tls="self-signed"),
    "tls-answered-in-plain": _unreachable("tls_error", tls="none"),
    "tls-hangs": _unreachable("timeout", tls="hangs"),
    # Nobody there.
    "no-such-name": _unreachable("dns_error", named=False),
    "refuses": _unreachable("connect_error", listens=False),
}  # fmt: skip

INSIDE = "inside.test"
"""A name that leads to an address which is not public."""
TLS_WORDS = {
    "tls-expired": "certificate has expired", "tls-of-another": "Hostname mismatch",
    "tls-self-signed": "unable to get local issuer certificate", "tls-answered-in-plain": "wrong version number",
}  # fmt: skip


class Left(Exception):
    """The client has left."""


@dataclass(slots=True)
class Hostile:
    """Where the hosts of CASES are, and what their server remembers."""

    port: int
    addresses: Mapping[str, list[str]]
    most_open: int = 0
    open: int = 0

    def url(self, case: str) -> str:
        scheme = "https" if CASES[case].tls else "http"
        return f"{scheme}://{case}.test:{self.port}/"


def certificates(authority: trustme.CA) -> dict[str, ssl.SSLContext]:
    """The server's side of TLS for each kind of certificate, by kind."""
    own_names = [f"{case}.test" for case, terms in CASES.items() if terms.tls]

    def context(by: trustme.CA, *names: str, days: int = 9) -> ssl.SSLContext:
        own, now = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), datetime.now(UTC)
        day = timedelta(days=1)
        by.issue_cert(*names, not_before=now - 9 * day, not_after=now + days * day).configure_cert(own)
        return own

    return {
        "good": context(authority, *own_names), "expired": context(authority, *own_names, days=-1),
        "other": context(authority, "other.example"), "self-signed": context(trustme.CA(), *own_names),
    }  # fmt: skip


class Server:
    """Plays the case that belongs to the address it is asked at, and writes the log."""

    def __init__(self, hostile: Hostile, tls: Mapping[str, ssl.SSLContext], log: Path) -> None:
        self._hostile, self._tls, self.log = hostile, tls, log.open("a", encoding="utf-8", buffering=1)
        self._host_at = {own[0]: name for name, own in hostile.addresses.items()}
        self._ids = Counter[str]()
        self._anchor = time.time() - trio.current_time()

    async def serve(self, tcp: trio.SocketStream) -> None:
        self._hostile.open += 1
        self._hostile.most_open = max(self._hostile.most_open, self._hostile.open)
        try:
            await self._serve(tcp)
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError, Left):
            pass
        finally:
            self._hostile.open -= 1
            tcp.socket.close()

    async def _serve(self, tcp: trio.SocketStream) -> None:
        host = self._host_at[tcp.socket.getsockname()[0]]
        case = CASES[host.removesuffix(".test")]
        if case.tls == "hangs":
            await tcp.receive_some(1)
            await trio.sleep(60)
            return
        if case.tls == "none":
            await tcp.receive_some(65_536)
            await tcp.send_all(answer(b"<p>plain", status="400 Bad Request"))
            return
        stream: trio.abc.Stream = tcp
        if case.tls:
            stream = trio.SSLStream(tcp, self._tls[case.tls], server_side=True, https_compatible=True)
        while await self._answer_one(stream, tcp, host, case):
            pass

    async def _answer_one(self, stream: trio.abc.Stream, tcp: trio.SocketStream, host: str, case: Case) -> bool:
        head = await _head(stream)
        started, path = trio.current_time(), head.split(b" ")[1].decode("latin-1")
        pages = {"/": case.page, "/robots.txt": case.robots} | dict(case.more or {})
        steps = pages.get(path, NOTHING)
        line = _Line(host, path, _field(head, b"user-agent"), started)
        left = False
        try:
            left = await self._play(stream, tcp, steps, line)
        finally:
            self._write(line, tcp, left=left)
        return not left and "close" not in steps and "reset" not in steps

    async def _play(self, stream: trio.abc.Stream, tcp: trio.SocketStream, steps: Steps, line: "_Line") -> bool:
        """Play the steps; True if the client left before their end."""
        finished = False
        async with trio.open_nursery() as nursery:
            if any(not isinstance(step, bytes) and step not in ("close", "reset") for step in steps):
                nursery.start_soon(_until_it_leaves, stream, nursery.cancel_scope)
            try:
                for step in steps:
                    await _do(stream, tcp, step, line)
                finished = True
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            nursery.cancel_scope.cancel()
        return not finished

    def _write(self, line: "_Line", tcp: trio.SocketStream, *, left: bool) -> None:
        self._ids["rows"] += 1
        ended = max(line.started, trio.current_time() - LATE_S) if left else line.ended or trio.current_time()
        began, until = (int((self._anchor + t) * 1e6) for t in (line.started, ended))
        address, port = tcp.socket.getsockname()[:2]
        row = Row(self._ids["rows"], line.host, line.path, began, until, line.status, line.sent, line.user_agent,
                  "127.0.0.1:0", f"{address}:{port}")  # fmt: skip
        self.log.write(json.dumps(asdict(row)) + "\n")


@dataclass(slots=True)
class _Line:
    host: str
    path: str
    user_agent: str
    started: float
    ended: float | None = None
    status: int | None = None
    sent: int = 0


async def _do(stream: trio.abc.Stream, tcp: trio.SocketStream, step: Step, line: _Line) -> None:
    if isinstance(step, bytes):
        if line.status is None and step.startswith(b"HTTP/1.1 ") and step[9:12].isdigit() and step[9:10] != b"1":
            line.status = int(step[9:12])
        line.ended = trio.current_time()
        line.sent += len(step)
        await stream.send_all(step)
    elif isinstance(step, Drip):
        for n in range(len(step.text)):
            await stream.send_all(step.text[n : n + 1])
            await trio.sleep(step.every_s)
    elif isinstance(step, Endless):
        while True:
            await stream.send_all(step.text)
            await trio.lowlevel.checkpoint()
    elif step == "silence":
        await trio.sleep(60)
    elif step == "reset":
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _until_it_leaves(stream: trio.abc.Stream, scope: trio.CancelScope) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.receive_some(1)
    scope.cancel()


async def _head(stream: trio.abc.Stream) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head:
        data = await stream.receive_some(65_536)
        if not data:
            raise Left
        head += data
    return head


def _field(head: bytes, name: bytes) -> str:
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    return next((value.strip().decode("latin-1") for own, _, value in lines if own.lower() == name), "")


@contextmanager
def serving(authority: trustme.CA, log: Path) -> Iterator[Hostile]:
    """Serve every case from a thread for as long as the block runs."""
    names = [f"{case}.test" for case in CASES]
    sockets, addresses = bind(names, 0, network=2)
    port = sockets[0].getsockname()[1]
    listening = []
    host_at = {own[0]: name for name, own in addresses.items()}
    for listener in sockets:
        if CASES[host_at[listener.getsockname()[0]].removesuffix(".test")].listens:
            listening.append(trio.SocketListener(trio.socket.from_stdlib_socket(listener)))
        else:
            listener.close()
    hostile = Hostile(port, addresses)
    stop: list[Callable[[], None]] = []
    ready = threading.Event()

    async def run() -> None:
        server = Server(hostile, certificates(authority), log)
        with closing(server.log):
            async with trio.open_nursery() as nursery:
                token = trio.lowlevel.current_trio_token()
                stop.append(lambda: token.run_sync_soon(nursery.cancel_scope.cancel))
                nursery.start_soon(trio.serve_listeners, server.serve, listening)
                ready.set()

    thread = threading.Thread(target=trio.run, args=(run,), name="hostile-web", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield hostile
    finally:
        stop[0]()
        thread.join()
