"""Sections about asking: who we say we are, where we connect to, how hosts are treated, what is never asked for."""

import ipaddress
from functools import cached_property
from typing import Self

from pydantic import field_validator, model_validator

from crawl_pipeline.core import urls
from crawl_pipeline.core.addresses import Networks
from crawl_pipeline.core.policy.keys import (
    MOST,
    Count,
    HostName,
    MediaType,
    Patterns,
    PositiveFloat,
    PositiveInt,
    Section,
    key,
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Agent(Section):
    """Who we say we are."""

    name: str = key(..., "product token that robots.txt groups are matched with (RFC 9309 2.2.1): letters, - and _",
                    pattern=r"^[A-Za-z_-]{1,64}$")  # fmt: skip
    contact: str = key(
        ..., "http(s) page or mailto: address where a site owner reaches you; sent with every request, so in ASCII",
        pattern=r"^(https?://[!-.0-~]|mailto:[!-~]+@)[!-~]{1,400}$")  # fmt: skip
    version: str = key("1.0", "sent after the name", pattern=r"^[A-Za-z0-9._-]{1,64}$")

    @property
    def header(self) -> str:
        """The User-Agent sent with every request."""
        return f"{self.name}/{self.version} (+{self.contact})"


class Addresses(Section):
    """Where we connect to."""

    allow: list[str] = key([], "networks (CIDR) that may be asked though they are not public, such as 127.0.0.0/8")

    @cached_property
    def networks(self) -> tuple[Network, ...]:
        """The allowed networks, parsed."""
        return tuple(ipaddress.ip_network(text) for text in self.allow)

    @model_validator(mode="after")
    def _are_networks(self) -> Self:
        assert self.networks or not self.allow
        return self


class Resolver(Section):
    """How host names become addresses."""

    hosts: dict[str, list[str]] = key(
        {}, 'names with fixed addresses, as {"a.test" = ["127.0.0.5"]}; *.suffix matches all names below'
    )
    name_servers: list[str] = key([], "IP addresses of name servers; empty: the system's")
    ttl_floor_s: PositiveFloat = key(60.0, "s; an answer is kept at least so long")
    ttl_ceiling_s: PositiveFloat = key(86_400.0, "s; an answer is kept at most so long")
    negative_ttl_s: PositiveFloat = key(
        3_600.0, "s; that a name does not exist is believed at most so long, less where its zone says so (RFC 2308)"
    )
    failure_ttl_s: PositiveFloat = key(
        30.0, "s; after name servers failed or were silent a name is not asked for again"
    )
    stale_s: float = key(
        86_400.0, "s; while name servers fail, an answer that has run out is used so much longer (RFC 8767); 0: never",
        ge=0, le=MOST)  # fmt: skip
    prefetch: Count = key(16, "names of hosts next in line that are looked up at a time before their turn; 0: none")
    timeout_s: PositiveFloat = key(5.0, "s; for one look-up")

    @field_validator("name_servers")
    @classmethod
    def _are_addresses(cls, found: list[str]) -> list[str]:
        return [str(ipaddress.ip_address(text)) for text in found]

    @field_validator("hosts")
    @classmethod
    def _have_addresses(cls, found: dict[str, list[str]]) -> dict[str, list[str]]:
        return {name.lower(): cls._are_addresses(addresses) for name, addresses in found.items()}


class Politeness(Section):
    """What every host is promised: one request at a time, and a gap from its end to the next start."""

    delay_s: PositiveFloat = key(2.0, "s; gap after each request, whatever else is said")
    download_factor: float = key(
        5.0, "times the last request's duration is waited too: slow hosts are asked less", ge=0
    )
    download_gap_cap_s: PositiveFloat = key(30.0, "s; most that download_factor may ask for")
    crawl_delay_cap_s: PositiveFloat = key(
        31_536_000.0, "s; most that a Crawl-delay may ask for; a year: who asks for days is asked that seldom"
    )
    retry_after_cap_s: PositiveFloat = key(604_800.0, "s; most that a Retry-After may ask for; a week")
    backoff_first_s: PositiveFloat = key(8.0, "s; extra gap after a first 429, 503 or timeout; doubles each time")
    backoff_cap_s: PositiveFloat = key(3_600.0, "s; most that the extra gap grows to, but for the jitter")
    backoff_jitter: float = key(
        0.5, "share of the extra gap that chance may add: hosts that failed together do not come back together",
        ge=0, le=1)  # fmt: skip
    calm_answers: PositiveInt = key(10, "answers without trouble after which the extra gap is halved")
    address_gap_s: float = key(
        0.5, "s; from one start to the next at an address, whatever hosts share it; delay_s if that is less; 0: none",
        ge=0, le=MOST)  # fmt: skip
    site_requests: PositiveInt = key(4, "requests at a time to all hosts of one site")
    aside_after: PositiveInt = key(
        3,
        "failures in a row after which a host that has failed for aside_first_s is put aside; its URLs are not blamed",
    )
    aside_first_s: PositiveFloat = key(600.0, "s; first time that a host is put aside for; doubles each time it fails")
    aside_cap_s: PositiveFloat = key(86_400.0, "s; most that a host is put aside for: then one request finds out")


class Robots(Section):
    """How long a robots.txt answer counts."""

    ttl_s: float = key(86_400.0, "s; age at which it is asked for again (RFC 9309 2.4: at most 24 h)", gt=0, le=86_400)
    unreachable_s: PositiveFloat = key(
        600.0, "s; while unreachable nothing may be asked; asked again after this, doubled each time"
    )
    hops: PositiveInt = key(5, "redirects followed for robots.txt (RFC 9309 2.3.1.2: at least 5)", ge=5)


class Fetch(Section):
    """Limits of one request."""

    total_s: PositiveFloat = key(30.0, "s; from connecting to the last byte")
    connect_s: PositiveFloat = key(10.0, "s; to one address, TLS included")
    read_s: PositiveFloat = key(20.0, "s; longest silence while reading")
    header_kb: PositiveInt = key(64, "KB of response headers")
    wire_mb: PositiveFloat = key(5.0, "MB received before content decoding")
    body_mb: PositiveFloat = key(10.0, "MB after content decoding")
    media_types: list[MediaType] = key(["text/html", "application/xhtml+xml"],
                                 "media types whose bodies are read; others are recorded and closed")  # fmt: skip
    keep_alive_s: float = key(
        4.0, "s; a connection is closed if its host is next asked later: idle hosts cost none. Under the 5 s after "
        "which many servers close, so that both do not happen at once", ge=0, le=MOST)  # fmt: skip
    ca_file: str = key(
        "", "PEM file of certificate authorities that are trusted beside the system's; the worker reads it at its start"
    )
    conditional: bool = key(True, "send If-None-Match and If-Modified-Since when a page is visited again")
    unconditional: float = key(
        0.05, "share of such visits that are drawn to go without, to find out whose validators lie", ge=0, le=1
    )


class Retry(Section):
    """When a URL that failed is tried again."""

    attempts: PositiveInt = key(5, "failed fetches in a row after which a URL is dead")
    first_s: PositiveFloat = key(60.0, "s; wait after the first failure; doubles each time")
    cap_s: PositiveFloat = key(86_400.0, "s; longest wait")


class Block(Section):
    """What is never asked for, whatever else is said; for networks see each key."""

    hosts: list[HostName] = key([], "host names, as they stand in URLs: none of their URLs is asked for")
    sites: list[HostName] = key([], "registrable domains: none of their hosts is asked")
    urls: Patterns = key([], "URL patterns (* any text): no such page is asked for")
    networks: list[str] = key(
        [], "networks (CIDR) that are never connected to, though addresses.allow may name them; one such address of a "
        "name is enough"
    )  # fmt: skip

    @cached_property
    def host_names(self) -> frozenset[str]:
        """The blocked hosts as a set."""
        return frozenset(self.hosts)

    @cached_property
    def site_names(self) -> frozenset[str]:
        """The blocked sites as a set."""
        return frozenset(self.sites)

    @cached_property
    def addresses(self) -> Networks:
        """The blocked networks, parsed."""
        return Networks(self.networks)

    @field_validator("sites")
    @classmethod
    def _are_sites(cls, found: list[str]) -> list[str]:
        for name in found:
            if (site := urls.site(name)) != name:
                raise ValueError(f"expected sites, found {name!r}, a host of {site}: name the site, or use block.hosts")
        return found

    @field_validator("networks")
    @classmethod
    def _are_networks(cls, found: list[str]) -> list[str]:
        Networks(found)
        return found
