"""From a host name to its addresses: fixed entries, literals, then DNS, with a cache.

IPv4 comes before IPv6. A name is looked up once however many ask at the same time. Answers are kept for their TTL,
denials for what their zone says (RFC 2308), both within a floor and a ceiling; failures of name servers for a short
time of their own (RFC 9520). While the servers fail, an answer that has run out is used for a while longer (RFC 8767):
an outage of DNS is no trouble of the hosts. A denial is never overruled so.

It never decides whether an address may be connected to. The cache's clock is handed in; without one it is Trio's.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import trio

from crawl_pipeline.fetch.name_query import Addresses, NameQuery, Said
from crawl_pipeline.fetch.wire import WireError

_LOOPBACK: Addresses = ("127.0.0.1", "::1")  # what localhost is, whatever a name server says (RFC 6761 6.3)


@dataclass(frozen=True, slots=True)
class Times:
    """How long answers are kept and looked for, in seconds."""

    ttl_floor_s: float = 60.0
    ttl_ceiling_s: float = 86_400.0
    negative_ttl_s: float = 3_600.0
    failure_ttl_s: float = 30.0
    stale_s: float = 86_400.0
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Known:
    """What a name was found to be: addresses, or why there are none; and until when that is believed."""

    addresses: Addresses
    reason: str
    until: float
    stale_until: float = 0.0


class Resolver:
    """Resolves names for one process; made and used inside one Trio run."""

    def __init__(
        self,
        hosts: Mapping[str, Sequence[str]] | None = None,
        name_servers: Sequence[str] = (),
        times: Times | None = None,
        *,
        port: int = 53,
        most_names: int = 100_000,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._fixed = {name.lower(): tuple(addresses) for name, addresses in (hosts or {}).items()}
        self._times = times or Times()
        self._query = NameQuery(name_servers, port, self._times.timeout_s)
        self._most_names = most_names
        self._now = now
        self._known: dict[str, Known] = {}
        self._flights: dict[str, trio.Event] = {}

    async def resolve(self, host: str) -> Addresses:
        """Give the addresses of a host, or raise WireError("dns_error")."""
        return self._without_asking(host) or await self._remembered(host)

    async def prefetch(self, hosts: Iterable[str], at_once: int) -> None:
        """Look up hosts that are about to be asked, in this order; failures are remembered like any other."""
        limit = trio.CapacityLimiter(at_once)

        async def one(host: str) -> None:
            try:
                await self.resolve(host)
            except WireError:
                pass
            finally:
                limit.release_on_behalf_of(host)

        async with trio.open_nursery() as nursery:
            for host in dict.fromkeys(hosts):
                await limit.acquire_on_behalf_of(host)
                nursery.start_soon(one, host)

    def _without_asking(self, host: str) -> Addresses:
        """Fixed entries first, the exact name before `*.suffix`, the longest suffix first; then literals."""
        if self._fixed:
            labels = host.lower().rstrip(".").split(".")
            for name in (".".join(labels), *("*." + ".".join(labels[n:]) for n in range(1, len(labels)))):
                if name in self._fixed:
                    return self._fixed[name]
        if host[-1:].isdigit() or ":" in host:
            return _literal(host)
        return _LOOPBACK if host.rstrip(".").rpartition(".")[2] == "localhost" else ()

    async def _remembered(self, host: str) -> Addresses:
        """Answer from the cache; one asker at a time fills it, the others wait for that."""
        while True:
            known = self._known.get(host)
            if known is not None and known.until > self._now():
                return _answer(host, known)
            flight = self._flights.get(host)
            if flight is None:
                return _answer(host, await self._fly(host))
            await flight.wait()

    async def _fly(self, host: str) -> Known:
        self._flights[host] = trio.Event()
        try:
            known = self._judged(await self._both(host), self._known.get(host))
        finally:
            # A flight that was cancelled lets the next one in line start its own.
            self._flights.pop(host).set()
        self._remember(host, known)
        return known

    def _remember(self, host: str, known: Known) -> None:
        self._known.pop(host, None)
        while len(self._known) >= self._most_names:
            del self._known[next(iter(self._known))]
        self._known[host] = known

    async def _both(self, host: str) -> tuple[Said, Said]:
        """Ask for both families at once; one that fails does not spoil the other."""
        said: dict[str, Said] = {}

        async def one(family: str) -> None:
            said[family] = await self._query.ask(host, family)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "A")
            nursery.start_soon(one, "AAAA")
        return said["A"], said["AAAA"]

    def _judged(self, said: tuple[Said, Said], before: Known | None) -> Known:
        """What the two answers mean, and until when; `before` is what was known of the name."""
        now, times = self._now(), self._times
        addresses = tuple(dict.fromkeys(said[0].addresses + said[1].addresses))
        if addresses:
            until = now + _within(
                min(one.ttl_s for one in said if one.addresses), times.ttl_floor_s, times.ttl_ceiling_s
            )
            return Known(addresses, "", until, until + times.stale_s)
        failed = [one for one in said if one.failed]
        if not failed:
            ttl_s = _within(min(one.ttl_s for one in said), times.ttl_floor_s, times.negative_ttl_s)
            return Known((), said[0].reason, now + ttl_s)
        until = now + times.failure_ttl_s
        if before is not None and before.addresses and before.stale_until > now:
            return replace(before, until=min(until, before.stale_until))
        return Known((), failed[0].reason, until)


def _within(ttl_s: float, floor_s: float, ceiling_s: float) -> float:
    return min(max(ttl_s, floor_s), ceiling_s)


def _answer(host: str, known: Known) -> Addresses:
    if not known.addresses:
        raise WireError("dns_error", f"{host}: {known.reason}")
    return known.addresses


def _literal(host: str) -> Addresses:
    """An address stands for itself; a host that only looks like one has no addresses (WHATWG URL 3.5)."""
    try:
        return (str(ipaddress.ip_address(host.strip("[]"))),)
    except ValueError:
        return ()
