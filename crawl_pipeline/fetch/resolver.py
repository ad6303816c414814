"""From a host name to its addresses: fixed entries, literals, then DNS, with a cache.

IPv4 comes before IPv6. A name is looked up once however many ask at the same time. Answers are kept for their
TTL, within a floor and a ceiling; failures for a time of their own (RFC 2308). The cache's clock is Trio's.

It never decides whether an address may be connected to, never looks at the system's hosts file, and never
searches domains: `www` is not `www.here.example`.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.name
import dns.resolver
import trio

from crawl_pipeline.fetch.wire import WireError

Addresses = tuple[str, ...]

_LOOPBACK: Addresses = ("127.0.0.1", "::1")  # what localhost is, whatever a name server says (RFC 6761 6.3)


@dataclass(frozen=True, slots=True)
class Times:
    """How long answers are kept and looked for, in seconds."""

    ttl_floor_s: float = 60.0
    ttl_ceiling_s: float = 86_400.0
    negative_ttl_s: float = 300.0
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Known:
    """What a name was found to be: addresses, or why there are none."""

    addresses: Addresses
    reason: str
    until: float


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
    ) -> None:
        self._fixed = {name.lower(): tuple(addresses) for name, addresses in (hosts or {}).items()}
        self._times = times or Times()
        self._name_servers = tuple(name_servers)
        self._port = port
        self._most_names = most_names
        self._asker: dns.asyncresolver.Resolver | None = None
        self._known: dict[str, Known] = {}
        self._flights: dict[str, trio.Event] = {}

    async def resolve(self, host: str) -> Addresses:
        """Give the addresses of a host, or raise WireError("dns_error")."""
        return self._without_asking(host) or await self._remembered(host)

    async def prefetch(self, hosts: Iterable[str], at_once: int = 16) -> None:
        """Look up hosts that are about to be asked; failures are remembered like any other."""
        limit = trio.CapacityLimiter(at_once)

        async def one(host: str) -> None:
            async with limit:
                try:
                    await self.resolve(host)
                except WireError:
                    return

        async with trio.open_nursery() as nursery:
            for host in hosts:
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
            if known is not None and known.until > trio.current_time():
                return _answer(host, known)
            flight = self._flights.get(host)
            if flight is None:
                return _answer(host, await self._fly(host))
            await flight.wait()

    async def _fly(self, host: str) -> Known:
        self._flights[host] = trio.Event()
        try:
            known = await self._look_up(host)
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

    async def _look_up(self, host: str) -> Known:
        """Ask for both families at once; one that fails does not spoil the other."""
        found: dict[str, tuple[Addresses, float, str]] = {}

        async def one(family: str) -> None:
            found[family] = await self._query(host, family)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "A")
            nursery.start_soon(one, "AAAA")
        now, times = trio.current_time(), self._times
        addresses = tuple(dict.fromkeys(found["A"][0] + found["AAAA"][0]))
        if not addresses:
            return Known((), found["A"][2] or found["AAAA"][2] or "no address", now + times.negative_ttl_s)
        ttl = min(ttl for own, ttl, _ in found.values() if own)
        return Known(addresses, "", now + min(max(ttl, times.ttl_floor_s), times.ttl_ceiling_s))

    async def _query(self, host: str, family: str) -> tuple[Addresses, float, str]:
        """Ask for one family: its addresses, their TTL, and why there are none."""
        try:
            # dnspython counts by the wall clock; Trio's deadline is the one that binds.
            with trio.fail_after(self._times.timeout_s):
                answer = await self._dns().resolve(
                    dns.name.from_text(host.rstrip(".") + "."),
                    family,
                    search=False,
                    raise_on_no_answer=False,
                    lifetime=self._times.timeout_s,
                    backend=dns.asyncbackend.get_backend("trio"),
                )
        except dns.resolver.NXDOMAIN:
            return (), 0.0, "the name does not exist"
        except (dns.exception.Timeout, trio.TooSlowError):
            return (), 0.0, f"no answer within {self._times.timeout_s:g} s"
        except dns.resolver.NoNameservers:
            return (), 0.0, "the name servers refuse or fail"
        except (dns.exception.DNSException, UnicodeError, OSError) as trouble:
            return (), 0.0, f"{type(trouble).__name__}: {trouble}"
        addresses = tuple(record.address for record in answer.rrset or ())
        return (
            addresses,
            float(answer.chaining_result.minimum_ttl),
            "" if addresses else "the name has no address",
        )

    def _dns(self) -> dns.asyncresolver.Resolver:
        if self._asker is None:
            self._asker = dns.asyncresolver.Resolver(configure=not self._name_servers)
            if self._name_servers:
                self._asker.nameservers = list(self._name_servers)
            self._asker.port = self._port
        return self._asker


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
