"""A web in memory: an httpx transport that answers from sites, on Trio's clock, and remembers every
request.

No socket is opened. One web goes with one clock: a test of several `trio.run` calls hands the same
MockClock to each. Latencies are Trio sleeps, so under `trio.testing.MockClock` an hour takes no time. A
request lasts from the call until its body was read to the end, or was closed.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import httpx
import trio

from crawl_pipeline.testing.sites import Answer, Front, Host, NotYet, Request


@dataclass(frozen=True, slots=True)
class Asked:
    """One request in the log; times are Trio's."""

    host: str
    path: str  # path and query, as in the request line
    started: float
    ended: float
    status: int | None  # None: it failed
    user_agent: str


class FakeWeb(httpx.AsyncBaseTransport):
    """Hosts in memory. A host that is not there fails as one whose name does not resolve."""

    def __init__(self, *hosts: Host) -> None:
        self._sites = {host.name: host.site for host in hosts}
        self._front = Front()
        self._log: list[Asked] = []
        self.hosts = {name: [f"127.1.{i >> 8}.{i & 255}"] for i, name in enumerate(self._sites, start=1)}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host, target = request.url.host, _target(request)
        started, place = trio.current_time(), len(self._log)
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen = self._front.request(host, target, started, headers, request.url.port)
        # Logged at once, so that a request that never ends is seen too.
        self._log.append(Asked(host, target, started, float("inf"), None, seen.user_agent))
        try:
            answer = await self._answer(seen)
        except BaseException:
            self._end(place, None)
            raise
        stream = _Body(answer, lambda: self._end(place, answer.status))
        extensions = {"http_version": b"HTTP/1.1", "address": self.hosts[host][0]}
        head = [*answer.headers, ("content-length", str(len(answer.body)))]
        return httpx.Response(answer.status, headers=head, stream=stream, extensions=extensions, request=request)

    async def addresses(self, host: str) -> list[str]:
        """Where a host is; several may be put at one address in `hosts`."""
        return self.hosts.get(host, [])

    async def _answer(self, request: Request) -> Answer:
        site = self._sites.get(request.host)
        if site is None:
            raise httpx.ConnectError(f"{request.host}: name does not resolve")
        while True:
            try:
                answer = site(request)
                break
            except NotYet:
                await trio.sleep(0.02)
        await trio.sleep(answer.first_byte_s)
        if answer.failure is not None:
            raise answer.failure(f"{request.url}: as the site was told to")
        return answer

    def _end(self, place: int, status: int | None) -> None:
        if self._log[place].ended == float("inf"):
            self._log[place] = replace(self._log[place], ended=trio.current_time(), status=status)

    # Questions.

    @property
    def log(self) -> tuple[Asked, ...]:
        """Every request in the order it came."""
        return tuple(self._log)

    def asked(self, host: str) -> list[Asked]:
        return [row for row in self._log if row.host == host]

    def paths(self, host: str) -> list[str]:
        """What this host was asked for, in order, robots.txt included."""
        return [row.path for row in self.asked(host)]

    def count(self, url: str) -> int:
        """How often this URL was asked for."""
        parsed = httpx.URL(url)
        return self.paths(parsed.host).count(parsed.raw_path.decode("ascii"))

    def gaps_s(self, host: str) -> list[float]:
        """Seconds from the start of each request to the start of the next, robots.txt included."""
        return [b.started - a.started for a, b in pairwise(self.asked(host))]

    def rests_s(self, host: str) -> list[float]:
        """Seconds from the end of each request to the start of the next; negative where they overlap."""
        return [b.started - a.ended for a, b in pairwise(self.asked(host))]

    def overlaps(self, host: str) -> list[tuple[Asked, Asked]]:
        """Pairs of requests of which the second began before the first had ended."""
        rows = self.asked(host)
        return [(a, b) for i, a in enumerate(rows) for b in rows[i + 1 :] if b.started < a.ended]


class _Body(httpx.AsyncByteStream):
    """The answer's body in its pieces; says when it is over, once."""

    def __init__(self, answer: Answer, over: Callable[[], None]) -> None:
        self._answer = answer
        self._over = over

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for i, piece in enumerate(self._answer.pieces()):
            await trio.sleep(self._answer.drip_s if i else 0)
            yield piece
        self._over()

    async def aclose(self) -> None:
        self._over()


def _target(request: httpx.Request) -> str:
    """The request line's target: httpx lets a caller give it byte for byte."""
    target = request.extensions.get("target", request.url.raw_path)
    return bytes(target).decode("ascii")
