"""A raw TCP server on loopback that plays scripted answers byte for byte, for tests and conformance cases.

`routes` maps a path to answers: the n-th request for the path gets the n-th, later ones the last. An answer
is a list of steps: send, sleep, close, reset. Anything else gets 404.
"""

import base64
import functools
import socket
import ssl
import struct
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

Step = Mapping[str, Any]

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@dataclass
class Loopback:
    """What the server was asked, and how it answers."""

    routes: Mapping[str, Sequence[Sequence[Step]]]
    tls: ssl.SSLContext | None = None
    port: int = 0
    targets: list[str] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    connections: int = 0
    _asked: Counter[str] = field(default_factory=Counter)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def origin(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.authority}"

    async def start(self, nursery: trio.Nursery) -> None:
        """Listen, and serve until the nursery is cancelled."""
        for step in (step for answers in self.routes.values() for steps in answers for step in steps):
            if "gen" in step:  # made beforehand: making one takes as long as some limits
                bomb(step["mb"], nested=step["gen"] == "gzip_bomb_nested")
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, self._serve, listeners)

    async def _serve(self, tcp: trio.SocketStream) -> None:
        self.connections += 1
        stream: trio.abc.Stream = tcp
        try:
            if self.tls:
                stream = trio.SSLStream(tcp, self.tls, server_side=True, https_compatible=True)
            while await self._answer(stream, tcp, await read_head(stream)):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError, EOFError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _answer(self, stream: trio.abc.Stream, tcp: trio.SocketStream, head: bytes) -> bool:
        """Play the steps of one answer; False when the connection is to be closed."""
        target = head.split(b" ")[1].decode("latin-1")
        self.targets.append(target)
        self.heads.append(head)
        path = target.partition("?")[0]
        answers = self.routes.get(path)
        if not answers:
            await stream.send_all(NOT_FOUND)
            return True
        steps = answers[min(self._asked[path], len(answers) - 1)]
        self._asked[path] += 1
        for step in steps:
            if step.get("close"):
                return False
            if step.get("reset"):
                tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            await self._play(stream, step)
        return True

    async def _play(self, stream: trio.abc.Stream, step: Step) -> None:
        if "send" in step:
            await stream.send_all(step["send"].replace("{authority}", self.authority).encode())
        elif "send_b64" in step:
            await stream.send_all(base64.b64decode(step["send_b64"]))
        elif "repeat" in step:
            await self._repeat(stream, step)
        elif "sleep_s" in step:
            await trio.sleep(step["sleep_s"])
        elif "gen" in step:
            await stream.send_all(bomb(step["mb"], nested=step["gen"] == "gzip_bomb_nested"))

    async def _repeat(self, stream: trio.abc.Stream, step: Step) -> None:
        text, times, interval_s = step["repeat"].encode(), step["times"], step.get("interval_s", 0)
        if interval_s:
            for _ in range(times):
                await stream.send_all(text)
                await trio.sleep(interval_s)
            return
        block = max(1, 65_536 // max(1, len(text)))
        for sent in range(0, times, block):
            await stream.send_all(text * min(block, times - sent))


async def read_head(stream: trio.abc.Stream) -> bytes:
    """Read one request head; EOFError when the client has left."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = await stream.receive_some(65_536)
        if not data:
            raise EOFError
        head += data
    return head


@functools.lru_cache
def bomb(mb: int, *, nested: bool) -> bytes:
    """A complete response whose gzipped body is `mb` MiB of zeros, gzipped once more if nested."""
    packer = zlib.compressobj(9, wbits=31)
    body = b"".join(packer.compress(bytes(1 << 20)) for _ in range(mb)) + packer.flush()
    if nested:
        outer = zlib.compressobj(9, wbits=31)
        body = outer.compress(body) + outer.flush()
    coding = "gzip, gzip" if nested else "gzip"
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
