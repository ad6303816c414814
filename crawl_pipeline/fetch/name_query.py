"""One question to the name servers: the addresses of a name in one family, or why there are none, and for how long.

A chain of CNAMEs counts as long as its shortest link. That a name or its addresses do not exist is an answer too, and
says itself how long it may be believed: the SOA's minimum (RFC 2308 5). Servers that fail, refuse or are silent say
nothing about the name; that is kept apart (`failed`).

It caches nothing, never looks at the system's hosts file, and never searches domains: `www` is not `www.here.example`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import dns.asyncbackend
import dns.asyncresolver
import dns.exception
import dns.message
import dns.name
import dns.resolver
import trio

Addresses = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """What came of one question; `ttl_s` is the servers' own, 0 where they said nothing."""

    addresses: Addresses
    ttl_s: float = 0.0
    reason: str = ""
    failed: bool = False


class NameQuery:
    """Puts questions to some name servers; used inside one Trio run."""

    def __init__(self, name_servers: Sequence[str], port: int, timeout_s: float) -> None:
        self._name_servers, self._port, self._timeout_s = tuple(name_servers), port, timeout_s
        self._asker: dns.asyncresolver.Resolver | None = None

    async def ask(self, host: str, family: str) -> Said:
        """Ask for a host's addresses of one family, "A" or "AAAA"."""
        try:
            # dnspython counts by the wall clock; Trio's deadline is the one that binds.
            with trio.fail_after(self._timeout_s):
                answer = await self._dns().resolve(
                    dns.name.from_text(host.rstrip(".") + "."),
                    family,
                    search=False,
                    raise_on_no_answer=False,
                    lifetime=self._timeout_s,
                    backend=dns.asyncbackend.get_backend("trio"),
                )
        except dns.resolver.NXDOMAIN as denial:
            return Said((), _believed_s(denial), "the name does not exist")
        except (dns.exception.Timeout, trio.TooSlowError):
            return Said((), reason=f"no answer within {self._timeout_s:g} s", failed=True)
        except dns.resolver.NoNameservers:
            return Said((), reason="the name servers refuse or fail", failed=True)
        except (UnicodeError, dns.name.LabelTooLong, dns.name.NameTooLong, dns.name.EmptyLabel) as nonsense:
            return Said((), float("inf"), f"{type(nonsense).__name__}: {nonsense}")
        except (dns.exception.DNSException, OSError) as trouble:
            return Said((), reason=f"{type(trouble).__name__}: {trouble}", failed=True)
        addresses = tuple(record.address for record in answer.rrset or ())
        reason = "" if addresses else "the name has no address"
        return Said(addresses, float(answer.chaining_result.minimum_ttl), reason)

    def _dns(self) -> dns.asyncresolver.Resolver:
        if self._asker is None:
            self._asker = dns.asyncresolver.Resolver(configure=not self._name_servers)
            if self._name_servers:
                self._asker.nameservers = list(self._name_servers)
            self._asker.port = self._port
        return self._asker


def _believed_s(denial: dns.resolver.NXDOMAIN) -> float:
    """For how long a denial may be believed; without a SOA dnspython's short default counts."""
    answers = [one for one in denial.kwargs["responses"].values() if isinstance(one, dns.message.QueryMessage)]
    try:
        return min((float(one.resolve_chaining().minimum_ttl) for one in answers), default=0.0)
    except dns.exception.DNSException:  # an answer beside a denial, a chain too long: believed for the floor
        return 0.0
