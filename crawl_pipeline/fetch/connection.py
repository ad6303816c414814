"""What is under a request: a URL cut into what a connection needs, and the stream to a checked address.

These functions open, secure, probe and read one connection. Which address is right, whether a connection is
kept and what is sent over it, the transport decides.
"""

import contextlib
import select
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import trio

from crawl_pipeline.fetch.wire import ResponseReader, WireError

READ_BYTES = 65_536
GLANCE_S = 0.001
"""How long is looked whether a kept TLS connection is silent; less than the shortest gap."""
BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)

Dial = Callable[[str, int], Awaitable[trio.abc.Stream]]


class Place(NamedTuple):
    """The parts of a URL that a connection and a request line are made of."""

    origin: str
    secure: bool
    host: str
    port: int
    authority: str
    target: str


@dataclass(slots=True)
class Connection:
    """An open stream, the checked address at its other end, and the TCP socket under it if it has one."""

    stream: trio.abc.Stream
    address: str
    socket: trio.socket.SocketType | None


def place(url: str) -> Place:
    """Cut a canonical URL; credentials in it are left out, they are sent to nobody (RFC 9110 4.2.4)."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if "?" in authority:
        authority, _, query = rest.partition("?")
        slash, path = "/", "?" + query
    authority = authority.rpartition("@")[2]
    name, colon, digits = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        name, digits = authority, ""
    secure = scheme == "https"
    port = int(digits) if digits else 443 if secure else 80
    return Place(f"{scheme}://{authority}", secure, name, port, authority, slash + path or "/")


async def secured(stream: trio.abc.Stream, host: str, tls: ssl.SSLContext) -> trio.abc.Stream:
    """Shake hands for the name in the URL; the address was checked before (RFC 9110 4.3.4)."""
    try:
        name = host.strip("[]").rstrip(".")
        stream_in_tls = trio.SSLStream(stream, tls, server_hostname=name, https_compatible=True)
        await stream_in_tls.do_handshake()
    except (trio.BrokenResourceError, ssl.SSLError, ValueError) as refusal:
        await trio.aclose_forcefully(stream)
        raise WireError("tls_error", _in_words(refusal.__cause__ or refusal)) from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream_in_tls


def _in_words(trouble: BaseException) -> str:
    """What a person reads: the verdict on the certificate, or OpenSSL's reason without its file and line."""
    if verdict := getattr(trouble, "verify_message", ""):
        return str(verdict)
    reason = getattr(trouble, "reason", None)
    return f"no TLS handshake: {reason.replace('_', ' ').lower() if isinstance(reason, str) else trouble}"


async def receive(connection: Connection, reader: ResponseReader) -> None:
    """Read once from the peer into the reader."""
    try:
        data = await connection.stream.receive_some(READ_BYTES)
    except BROKEN as trouble:
        if reader.received:
            raise WireError("truncated", "the connection broke inside the answer") from None
        raise WireError("connect_error", "the connection broke before an answer") from trouble
    if data:
        reader.feed(data)
    else:
        reader.eof()


async def dial_tcp(address: str, port: int) -> trio.abc.Stream:
    """Connect to an address, never to a name."""
    family = trio.socket.AF_INET6 if ":" in address else trio.socket.AF_INET
    socket = trio.socket.socket(family, trio.socket.SOCK_STREAM)
    try:
        await socket.connect((address, port))
    except BaseException:
        socket.close()
        raise
    return trio.SocketStream(socket)


async def silent(connection: Connection, *, secure: bool) -> bool:
    """Whether nothing is to be read: unasked bytes or an end make a kept connection unusable.

    Under TLS the bytes may only be a session ticket, and may have been read with the last answer already: so it is read
    until nothing more is there. An answer that nobody asked for would else be taken for that of the next request.
    """
    if connection.socket is None:
        return True
    if not secure:
        poll = select.poll()
        poll.register(connection.socket.fileno(), select.POLLIN)
        return not poll.poll(0)
    with trio.move_on_after(GLANCE_S):
        with contextlib.suppress(*BROKEN):
            await connection.stream.receive_some(1)
        return False
    return True


def trust(more: str = "") -> ssl.SSLContext:
    """Trust what the system trusts, and the authorities in the PEM file `more`, if given.

    Unlike ssl.create_default_context this heeds no key log variable. Raises OSError (ssl.SSLError is one) if the file
    cannot be read or holds no certificate, ValueError if no file can have that name.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_default_certs()
    if more:
        context.load_verify_locations(cafile=more)
    context.set_alpn_protocols(["http/1.1"])
    return context
