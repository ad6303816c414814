"""One connection per origin, to an address that was checked, carrying one request at a time.

The transport resolves a name, refuses the host if any of its addresses is refused or blocked, and connects to the very
address it checked: a name that changes its mind between the two (DNS rebinding) changes nothing. It writes
the target byte for byte, reads the answer with llhttp, and keeps the connection for the next request of the
lane when the answer left it usable. One that was closed meanwhile is replaced before anything is sent; one that
breaks under a request is a failure with a reason of its own (BROKE_WHILE_KEPT), since the host may have read it.

It never follows, decodes, retries, waits for politeness, or reads the environment: no proxy, no netrc, no key
log. It is not for direct use: `exchange` is the only function that may open a request, because it writes the
row.
"""

import contextlib
import functools
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from ipaddress import IPv4Network, IPv6Network
from typing import Protocol

import httpx
import trio

from crawl_pipeline.core.addresses import Networks, allowed, blocked
from crawl_pipeline.fetch.connection import (
    BROKEN,
    Connection,
    Dial,
    Place,
    dial_tcp,
    place,
    receive,
    secured,
    silent,
    trust,
)
from crawl_pipeline.fetch.turns import NoTurn, Turn, at_once
from crawl_pipeline.fetch.wire import ResponseReader, WireError, request_head

MOST_ADDRESSES = 4  # of one host, tried in turn
HEAD_BYTES = 65_536  # for callers that come through httpx and bring no limit

BROKE_WHILE_KEPT = "the kept connection was closed before an answer"

Pulse = Callable[[str], None]  # called with the address connected to before each wait for the peer


class Resolves(Protocol):
    """Gives the addresses of a host, best first, or raises WireError("dns_error")."""

    async def resolve(self, host: str) -> tuple[str, ...]: ...
    async def prefetch(self, hosts: Iterable[str], at_once: int) -> None: ...


def no_pulse(address: str) -> None:
    """Mark nothing."""


class Answer:
    """An answer whose head is there and whose body is still to be read; close it, whatever happens."""

    __slots__ = ("_connection", "_keep", "_pulse", "_reader", "address", "headers", "status")

    def __init__(
        self,
        connection: Connection,
        reader: ResponseReader,
        pulse: Pulse,
        keep: Callable[[Connection], bool],
    ) -> None:
        self.status = reader.status
        self.headers = reader.headers
        self.address: str | None = connection.address
        self._connection: Connection | None = connection
        self._reader = reader
        self._pulse = pulse
        self._keep = keep

    @property
    def wire_bytes(self) -> int:
        """Bytes received so far, head and framing included."""
        return self._reader.received

    async def piece(self) -> bytes | None:
        """Give the next bytes of the body, still coded; b"" if only framing came, None at the end."""
        data = self._reader.take()
        if not data and not self._reader.done and self._connection is not None:
            self._pulse(self._connection.address)
            await receive(self._connection, self._reader)
            data = self._reader.take()
        if not data and (self._reader.done or self._connection is None):
            await self.close()
            return None
        return data

    async def close(self) -> None:
        """Give the connection back if the answer was read to its end, close it otherwise."""
        self._pulse = no_pulse  # it may hold what holds us, bodies and all: let go without the collector
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not (self._reader.reusable and self._keep(connection)):
            await trio.aclose_forcefully(connection.stream)


class WireTransport(httpx.AsyncBaseTransport):
    """HTTP/1.1 over Trio for http and https."""

    def __init__(
        self,
        resolver: Resolves,
        allow: tuple[IPv4Network | IPv6Network, ...] = (),
        *,
        block: Networks | None = None,
        tls: ssl.SSLContext | None = None,
        dial: Dial | None = None,
    ) -> None:
        self._resolver = resolver
        self._allow = allow
        self._block = block or Networks(())
        self._tls = tls
        self._dial = dial or dial_tcp
        self._kept: dict[str, dict[str, Connection]] = {}  # by host, then by origin

    async def ask(
        self,
        url: str,
        headers: Iterable[tuple[str, str]],
        *,
        method: str = "GET",
        connect_s: float = 10.0,
        head_bytes: int = HEAD_BYTES,
        pulse: Pulse = no_pulse,
        turn: Turn = at_once,
    ) -> Answer:
        """Send a request and read the head of its answer; `pulse` marks each wait for the peer.

        `turn` is waited for before an address is asked; a connection that was kept may be gone when it comes.
        """
        to = place(url)
        head = request_head(method, to.target, to.authority, headers)
        turn = _once(turn)
        if (address := self._kept_address(to)) is not None:
            await turn(address)
        kept = await self._take(to)
        if kept is not None:
            reader = ResponseReader(head_bytes, without_body=method == "HEAD")
            try:
                return await self._send(kept, to, head, reader, pulse)
            except WireError as trouble:
                if reader.received:
                    raise
                raise WireError("connect_error", BROKE_WHILE_KEPT) from trouble
        fresh = await self._connect(to, connect_s, turn)
        reader = ResponseReader(head_bytes, without_body=method == "HEAD")
        return await self._send(fresh, to, head, reader, pulse)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Serve httpx: the same request, with httpx's own classes around it."""
        url = request.extensions.get("url") or str(request.url)
        times = request.extensions.get("timeout") or {}
        names = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in request.headers.raw if n.lower() != b"host"]
        with trio.fail_after(times.get("read") or float("inf")):
            answer = await self.ask(url, names, method=request.method, connect_s=times.get("connect") or 10.0)
        return httpx.Response(
            answer.status,
            headers=[(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers],
            stream=_Body(answer, times.get("read") or float("inf")),
            extensions={"address": answer.address, "http_version": b"HTTP/1.1"},
            request=request,
        )

    async def prefetch(self, hosts: Iterable[str], at_once: int) -> None:
        """Look up the names of hosts (as they stand in URLs) that are about to be asked, at most so many at a time."""
        await self._resolver.prefetch([host.strip("[]") for host in hosts], at_once)

    async def close_host(self, host: str) -> None:
        """Close the kept connections to a host (as it stands in its URLs), whatever scheme and port."""
        kept = self._kept.pop(host, {})
        with trio.CancelScope(shield=True):  # nobody else knows of them any more
            for connection in kept.values():
                await trio.aclose_forcefully(connection.stream)

    async def aclose(self) -> None:
        """Close all kept connections."""
        for host in list(self._kept):
            await self.close_host(host)

    def _kept_address(self, to: Place) -> str | None:
        kept = self._kept.get(to.host, {}).get(to.origin)
        return None if kept is None else kept.address

    async def _take(self, to: Place) -> Connection | None:
        """Take the kept connection of an origin, unless it has been closed or said something unasked."""
        connection = self._kept.get(to.host, {}).pop(to.origin, None)
        if connection is not None and not await silent(connection, secure=to.secure):
            await trio.aclose_forcefully(connection.stream)
            return None
        return connection

    async def _send(
        self,
        connection: Connection,
        to: Place,
        head: bytes,
        reader: ResponseReader,
        pulse: Pulse,
    ) -> Answer:
        try:
            with contextlib.suppress(*BROKEN):  # what counts is whether an answer stands there already
                await connection.stream.send_all(head)
            while not reader.status:
                pulse(connection.address)
                await receive(connection, reader)
        except BaseException:
            await trio.aclose_forcefully(connection.stream)
            raise
        return Answer(connection, reader, pulse, functools.partial(self._keep, to))

    def _keep(self, to: Place, connection: Connection) -> bool:
        """Keep a connection for the next request of its lane, unless one is kept already."""
        return self._kept.setdefault(to.host, {}).setdefault(to.origin, connection) is connection

    async def _connect(self, to: Place, connect_s: float, turn: Turn) -> Connection:
        """Open a connection to the first checked address that accepts one, each in its turn and within `connect_s`."""
        trouble = WireError("dns_error", "no address")
        for tried, address in enumerate(await self._checked(to.host)):
            try:
                await turn(address)
            except NoTurn:
                if not tried:
                    raise
                break
            with trio.move_on_after(connect_s) as scope:
                try:
                    return await self._open(address, to)
                except OSError as refusal:
                    trouble = WireError("connect_error", f"{address}: {refusal.strerror or refusal}")
            if scope.cancelled_caught:
                trouble = WireError("timeout", f"{address}: no connection within {connect_s:g} s")
        raise trouble

    async def _checked(self, host: str) -> tuple[str, ...]:
        addresses = await self._resolver.resolve(host.strip("[]"))
        if barred := [address for address in addresses if blocked(address, self._block)]:
            raise WireError("address_refused", f"blocked by block.networks: {host} leads to {barred[0]}")
        refused = [address for address in addresses if not allowed(address, self._allow)]
        if refused:
            raise WireError(
                "address_refused", f"{host} leads to {refused[0]}, which is not public and not in addresses.allow"
            )
        return addresses[:MOST_ADDRESSES]

    async def _open(self, address: str, to: Place) -> Connection:
        stream = await self._dial(address, to.port)
        socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        if to.secure:
            self._tls = self._tls or trust()
            stream = await secured(stream, to.host, self._tls)
        return Connection(stream, address, socket)


def _once(turn: Turn) -> Turn:
    """Wait once for an address: a kept connection that turned out to be closed is replaced in the same turn."""
    come: dict[str, float] = {}

    async def first_time(address: str) -> float:
        if address not in come:
            come[address] = await turn(address)
        return come[address]

    return first_time


class _Body(httpx.AsyncByteStream):
    """The rest of an answer as httpx wants it, each wait bounded."""

    def __init__(self, answer: Answer, read_s: float) -> None:
        self._answer = answer
        self._read_s = read_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            with trio.fail_after(self._read_s):
                piece = await self._answer.piece()
            if piece is None:
                return
            yield piece

    async def aclose(self) -> None:
        await self._answer.close()
