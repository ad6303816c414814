"""Decide which addresses the crawler may connect to.

A name in a link may lead anywhere, also to the machine the crawler runs on, to its neighbours, or to a
cloud's metadata service. Only addresses of the public Internet are allowed, by the IANA special-purpose
registries written out below, so that the answer does not depend on the Python version (`ipaddress.is_global`
also lets IPv4 in IPv6 clothes pass). Never looks a name up. Invariant: an address that embeds an IPv4 address
is allowed only if that one is.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    collapse_addresses,
    ip_address,
    ip_network,
)

Network = IPv4Network | IPv6Network

# https://www.iana.org/assignments/iana-ipv4-special-registry, multicast (RFC 5771) and class E (RFC 1112).
_REFUSED_4 = tuple(
    IPv4Network(n)
    for n in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # metadata and DNS of Azure hosts, though a public address
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
# https://www.iana.org/assignments/iana-ipv6-special-registry: only 2000::/3 is global unicast, less these.
_GLOBAL_6 = IPv6Network("2000::/3")
_REFUSED_6 = tuple(IPv6Network(n) for n in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")


class Networks:
    """A set of networks, of which there may be thousands: an address is looked up, not compared with each."""

    def __init__(self, texts: Iterable[str]) -> None:
        parsed = [ip_network(text) for text in texts]
        v4 = sorted(collapse_addresses(one for one in parsed if isinstance(one, IPv4Network)))
        v6 = sorted(collapse_addresses(one for one in parsed if isinstance(one, IPv6Network)))
        self._firsts = {4: [int(one[0]) for one in v4], 6: [int(one[0]) for one in v6]}
        self._lasts = {4: [int(one[-1]) for one in v4], 6: [int(one[-1]) for one in v6]}

    def __contains__(self, address: IPv4Address | IPv6Address) -> bool:
        place = bisect_right(self._firsts[address.version], int(address)) - 1
        return place >= 0 and int(address) <= self._lasts[address.version][place]


def blocked(ip: str, block: Networks) -> bool:
    """Tell whether `ip`, or the IPv4 address it embeds, lies in a network that is never connected to."""
    try:
        address = ip_address(ip.strip("[]"))
    except ValueError:
        return False  # and not allowed either
    return address in block or _embedded(address) in block


def allowed(ip: str, allow: Sequence[Network] = ()) -> bool:
    """Tell whether the crawler may connect to `ip`; `allow` names networks that are exempt."""
    try:
        address = ip_address(ip.strip("[]"))
    except ValueError:
        return False
    inner = _embedded(address)
    if any(address in network or inner in network for network in allow):
        return True
    if isinstance(inner, IPv4Address):
        return not any(inner in network for network in _REFUSED_4)
    return inner in _GLOBAL_6 and not any(inner in network for network in _REFUSED_6)


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Unwrap IPv4-mapped (RFC 4291), 6to4 (RFC 3056), NAT64 (RFC 6052) and ISATAP (RFC 5214) addresses."""
    if isinstance(address, IPv4Address):
        return address
    isatap = int(address) >> 32 & 0xFDFF_FFFF == 0x5EFE  # whether the address in it is meant to be unique or not
    if address in _NAT64 or isatap:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or address
