"""Listen for the HTTP API: where, with which tokens, until told to stop.

Invariant: it listens on loopback unless somebody has said otherwise in so many words, for it speaks no TLS.
"""

import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from crawl_pipeline import ordering
from crawl_pipeline.api import tokens as of_tokens
from crawl_pipeline.api.connections import Connection
from crawl_pipeline.api.guarding import Guard
from crawl_pipeline.api.routes import Served, application
from crawl_pipeline.api.tokens import Sessions, Tokens
from crawl_pipeline.api.watching import Watch
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake

MOST_AT_ONCE = 128
"""Connections; more are answered 503 at once."""


class ServeError(Exception):
    """The API cannot listen as it was told to."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where to listen."""

    address: str = "127.0.0.1"
    port: int = 8090
    open_to_network: bool = False


class Opened:
    """The lake, opened once, and anew when it has been rebucketed."""

    def __init__(self, root: str) -> None:
        self._root, self._lock, self._lake = root, threading.Lock(), Lake.open(root)

    def __call__(self) -> Lake:
        """Give it."""
        with self._lock:
            if self._lake.layout.buckets != self._lake.buckets:
                self._lake = Lake.open(self._root)
            return self._lake


def tokens(file: Path | None, tell: Callable[[str], None]) -> Tokens:
    """The tokens: of the environment, or of a file, which is made with one if there is none."""
    if token := os.environ.get("CRAWL_API_TOKEN"):
        return Tokens({os.environ.get("CRAWL_API_NAME", "api"): token})
    path = file or of_tokens.home()
    if path.exists():
        return of_tokens.read(path)
    name = os.environ.get("CRAWL_API_NAME") or ordering.me()
    token = of_tokens.make(path, name)
    tell(f"made a token for {name}, in {path}; it is shown this once:\n{token}")
    return of_tokens.read(path)


class Server(uvicorn.Server):
    """A server that tells who looks on when it is told to stop, so that nobody has to be cut off."""

    def __init__(self, config: uvicorn.Config, watch: Watch) -> None:
        super().__init__(config)
        self._watch = watch

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the server."""
        self._watch.stop()
        await super().shutdown(sockets)


def server(
    root: str, policy: Callable[[], Policy], known: Tokens, names: Sequence[str] = (),
    connection: type[Connection] = Connection,
) -> Server:  # fmt: skip
    """A server of the whole API of a lake, guarded; `names` are its own besides those of loopback."""
    opened, sessions = Opened(root), Sessions()
    watch = Watch(opened)
    app = Guard(application(Served(opened, policy, known, sessions, watch)), known, sessions, names)
    return Server(uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=MOST_AT_ONCE,
        timeout_graceful_shutdown=5, timeout_keep_alive=30, proxy_headers=False, lifespan="on", ws="none",
        http=connection,  # by h11, which limits the length of heads, and refuses what is no HTTP
    ), watch)  # fmt: skip


def listen(where: Where) -> socket.socket:
    """A socket that listens there, if it may."""
    if not _is_loopback(where.address) and not where.open_to_network:
        raise ServeError(
            f"expected a loopback address such as 127.0.0.1, found {where.address}: the API speaks no TLS; put a proxy "
            "before it on this machine, or say --open-to-network"
        )
    family = socket.AF_INET6 if ":" in where.address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((where.address, where.port))
        listening.listen(MOST_AT_ONCE)  # who calls before the server is ready waits, and is not refused
    except (OSError, OverflowError) as trouble:
        listening.close()
        raise ServeError(
            f"expected to listen on {where.address} port {where.port}, found: {trouble}; name another with --port"
        ) from trouble
    return listening


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
