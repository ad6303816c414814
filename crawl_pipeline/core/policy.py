"""Every number and name a person may tune: its default, its unit and its reason, in one place.

A policy is text in, frozen values out: `load` reads TOML and refuses what it does not know, `render` writes the TOML
with every default commented. It never reads a file, the environment or a clock. The agent's name and contact page
have no default: a crawl that will not say who it is does not start.
"""

import ipaddress
import json
import tomllib
from datetime import date, time
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import xxhash
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from crawl_pipeline.core import urls
from crawl_pipeline.core.addresses import Networks

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# No number needs to be larger: a longer time is over 30 years, and more of anything does not fit into memory.
MOST = 1_000_000_000
Count = Annotated[int, Field(ge=0, le=MOST)]
PositiveInt = Annotated[int, Field(gt=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST)]
HostName = Annotated[str, Field(pattern=r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$|^\[[0-9a-f:.]+\]$")]
Patterns = list[str]


class PolicyError(ValueError):
    """The policy cannot be used; the message says which key, what was expected, what was found."""


class Section(BaseModel):
    """What all sections share: unknown keys and wrong types are refused, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def key(default: Any, says: str, **limits: Any) -> Any:
    """Declare one key: its default (... for none), and what it means, unit first."""
    return Field(default, description=says, **limits)


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


class Round(Section):
    """How long a round is and how much it may hold."""

    seconds: PositiveFloat = key(25.0, "s; longest time between two commits; a commit is the checkpoint")
    ahead_s: float = key(
        10.0, "s; a fetch list lasts so much longer than a round: hosts are asked on while it is written and the next "
        "one planned", ge=0, le=MOST)  # fmt: skip
    shortest_s: PositiveFloat = key(
        2.0, "s; a round may be cut after this when its hosts lose time because they have been asked all"
    )
    lease_s: PositiveFloat = key(120.0, "s; a bucket's lease, renewed by each round; outlasts a round and its commit")
    urls: PositiveInt = key(20_000, "URLs on one fetch list at most: bounds memory")
    body_mb: PositiveFloat = key(256.0, "MB of decoded bodies a round may hold before it is cut: bounds memory")
    hosts: PositiveInt = key(1_000, "hosts asked at the same time")
    floor: float = key(
        0.1, "share of a list, and of each host's part, that new URLs have for sure, and visits to known pages too; "
        "the rest goes to what is worth most", gt=0, le=0.5)  # fmt: skip


class Bands(Section):
    """Priority classes: the share of draws each band gets while all have URLs waiting."""

    weights: list[PositiveFloat] = key(
        [16.0, 8.0, 4.0, 2.0, 1.0], "weight of band 1, 2, ...: low bands are served in proportion, never starved",
        min_length=1, max_length=100)  # fmt: skip
    depth_share: float = key(0.7, "share of the score kept per link of distance from a seed", gt=0, le=1)


class Rank(Section):
    """How important a page is by the links that lead to it: what `crawl rank` makes of them."""

    same_host: float = key(0.3, "what a link within a host counts; one from another host counts 1", ge=0, le=1)
    full_at: PositiveFloat = key(
        16.0, "rank from which a page has full importance (score 1); 1 is a page that nothing links to"
    )


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
    media_types: list[str] = key(["text/html", "application/xhtml+xml"],
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


class Parse(Section):
    """Limits of reading one page, in worker processes that may be killed."""

    processes: Count = key(0, "worker processes; 0: one per core")
    seconds: PositiveFloat = key(10.0, "s; longest time for one page, then it is malformed")
    body_mb: PositiveFloat = key(3.0, "MB; larger pages are malformed")
    links: PositiveInt = key(5_000, "links taken from one page")
    batch_pages: PositiveInt = key(16, "pages handed to a process at a time")


class Text(Section):
    """What of a page is its main text, and when that has changed."""

    template_pages: PositiveInt = key(10, "pages of a host that a short block must stand on to be its template")
    template_share: float = key(0.01, "share of the host's pages that it must stand on too", ge=0, le=1)
    alike: float = key(
        0.98, "estimated Jaccard index from which a page that differs from its last version has not changed", gt=0, le=1
    )


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


class Scope(Section):
    """Which URLs belong to the crawl."""

    follow: Literal["sites", "hosts", "everywhere"] = key(
        "sites", "links are followed within: sites (of seeds), hosts (of seeds), everywhere")  # fmt: skip
    include: Patterns = key([], "URL patterns (* any text); if given, a URL must match one")
    exclude: Patterns = key([], "URL patterns (* any text) that are never asked for")
    depth: Count = key(16, "links between a seed and the furthest page")
    hops: Count = key(5, "redirects in a row that are followed")
    nofollow: bool = key(True, "obey nofollow of links, pages and X-Robots-Tag")
    noindex: bool = key(True, "do not keep body and text of pages that say noindex")
    no_training: Literal["record", "no_body"] = key(
        "record", "what a page with the preference train-ai=n (Content-Usage) means to us: record, which it always is; "
        "no_body, do not keep its body and text either")  # fmt: skip
    sitemaps: bool = key(True, "read the sitemaps that robots.txt names")


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


class Budget(Section):
    """How much of one host or site is taken; what bounds every trap in the end."""

    urls_per_host: PositiveInt = key(100_000, "known URLs of one host")
    urls_per_site: PositiveInt = key(1_000_000, "known URLs of one site")
    fetches_per_host_day: PositiveInt = key(20_000, "pages asked of one host in a UTC day")
    fetches_per_day: Count = key(
        0, "pages asked for in a day by all workers together, evenly over the day; 0: as many as politeness allows"
    )
    fetches_per_site_day: PositiveInt = key(100_000, "pages asked of all hosts of one site in a UTC day")
    trust_first: PositiveInt = key(
        500, "URLs, and pages in a day, that a host or site which no seed names has at once; trust adds to them"
    )
    trust_first_share: float = key(0.001, "or this share of the whole, if that is more; 1: all of it", ge=0, le=1)
    trust_growth: float = key(
        10.0, "URLs, and pages in a day, that each different text adds: a host stalls if fewer than one in so many "
        "pages is new", ge=0, le=MOST)  # fmt: skip
    url_length: PositiveInt = key(2_000, "characters of a canonical URL")
    path_depth: PositiveInt = key(12, "non-empty path segments")
    query_parameters: Count = key(10, "parameters in the query")
    repeated_segment: PositiveInt = key(3, "times one path segment may stand in a URL")
    repeats_in_a_row: PositiveInt = key(
        2, "times in a row that a path segment may stand; several segments that make six or more in all, once less; "
        "numbers are free")  # fmt: skip
    skip_extensions: list[str] = key(
        ["7z", "avi", "bin", "bmp", "bz2", "css", "csv", "deb", "dmg", "doc", "docx", "eot", "exe", "flac", "gif",
         "gz", "ico", "iso", "jar", "jpeg", "jpg", "js", "json", "m4a", "m4v", "mov", "mp3", "mp4", "mpeg", "mpg",
         "msi", "ogg", "otf", "pdf", "png", "ppt", "pptx", "rar", "rpm", "svg", "swf", "tar", "tgz", "tif", "tiff",
         "ttf", "wav", "webm", "webp", "whl", "wmv", "woff", "woff2", "xls", "xlsx", "xz", "zip", "zst"],
        "file name endings that are not asked for",
    )  # fmt: skip


class Duplicates(Section):
    """Which pages count as copies of others, and how much less often copies are visited."""

    weight: float = key(
        0.1, "share of its visits that a page keeps that is a copy of another; 1: all (copies of copies change little)",
        gt=0, le=1)  # fmt: skip
    leave_below: float = key(
        0.75, "likeness of two texts below which a changed page counts as unlike its cluster; it joined at 0.81",
        ge=0, le=0.81)  # fmt: skip
    leave_after: PositiveInt = key(
        2, "visits in a row that find a page unlike its cluster, or gone, after which it leaves it"
    )
    crowd: PositiveInt = key(
        1_000, "texts that may share a key of their MinHashes before it counts as a template's: they are then compared "
        "with one of them only")  # fmt: skip
    pages: PositiveInt = key(50_000, "pages taken in one clustering: bounds memory")


class Seen(Section):
    """How it is found out which linked URLs are known."""

    filter_from: Count = key(
        5_000_000, "known URLs of a bucket from which on a Bloom filter is asked first; 18 to 14 bits of memory per URL"
    )
    false_positives: float = key(
        0.001, "share of new URLs that a filter may think known: they are looked up in vain", gt=0, le=0.1
    )


class Contents(Section):
    """How bodies are stored: each once."""

    filter_from: Count = key(
        5_000_000, "stored contents from which on Bloom filters say which files may hold one; 5 bytes of memory each"
    )
    false_positives: float = key(
        1e-6, "share of new contents that the filter of a file may think known: the file is read in vain", gt=0, le=0.1
    )
    remembered: Count = key(
        500,
        "pages that each reading process remembers, so that copies are not parsed again; up to 0.1 MB each; 0: none",
    )


Days = Annotated[int, Field(gt=0, le=1_826)]
"""Five years at most."""


class Retention(Section):
    """How long what was stored is kept, in whole months: each goes once it has been over for so many days."""

    bodies_days: Days = key(
        1_826, "days; body and text of a page, since a visit last found it so: what is current while its page is "
        "visited stays"
    )  # fmt: skip
    pages_days: Days = key(1_826, "days; what else is known of a stored page: title, hashes, fingerprints; as above")
    modules_days: Days = key(1_826, "days; rows of modules, as above")
    requests_days: Days = key(1_826, "days; the log of requests, and robots.txt answers")
    links_days: Days = key(1_826, "days; links that pages had")
    bodies_of: dict[Annotated[str, Field(pattern=r"^(tag|topic|type) \S")], Days] = key(
        {}, 'days; bodies of pages of a class, where that is less: by tag, topic or media type, such as '
        '{"topic news" = 90, "type text/plain" = 30}'
    )  # fmt: skip

    @model_validator(mode="after")
    def _bodies_have_pages(self) -> Self:
        if self.bodies_days > self.pages_days:
            raise ValueError(
                f"retention.bodies_days ({self.bodies_days}) must be at most retention.pages_days ({self.pages_days}): "
                "a body is found by its page"
            )
        return self


class Retry(Section):
    """When a URL that failed is tried again."""

    attempts: PositiveInt = key(5, "failed fetches in a row after which a URL is dead")
    first_s: PositiveFloat = key(60.0, "s; wait after the first failure; doubles each time")
    cap_s: PositiveFloat = key(86_400.0, "s; longest wait")


class Recrawl(Section):
    """When a page that was fetched is visited again."""

    again: bool = key(True, "pages are visited again when they fall due; false: each page once")
    only: bool = key(False, "only what was asked for before is asked for; what is new waits")
    objective: Literal["binary", "harmonic"] = key(
        "binary", "what visits are to buy: binary, days in which copies equal their pages; harmonic, fewer changes "
        "missed, which never gives up on pages that change fast")  # fmt: skip
    first_s: PositiveFloat = key(604_800.0, "s; wait after the first fetch")
    shortest_s: PositiveFloat = key(3_600.0, "s; never sooner")
    longest_s: PositiveFloat = key(7_776_000.0, "s; never later")
    forget_s: PositiveFloat = key(
        15_552_000.0, "s; what visits have taught counts half after this: habits change (half a year costs nothing)"
    )
    lastmod: bool = key(
        True, "what sitemaps say of changes counts, of hosts whose dates have proved right: it brings visits forward, "
        "and pages of which nothing is said wait longer")  # fmt: skip
    gone_s: list[PositiveFloat] = key(
        [86_400.0, 604_800.0, 2_592_000.0, 7_776_000.0, 31_536_000.0],
        "s; a page that is gone is looked at again after the first of these; found gone again and again after the "
        "next, and then after the last each time", min_length=1, max_length=20)  # fmt: skip
    never_s: PositiveFloat = key(
        2_592_000.0, "s; at least as long waits what never was a page here, or is refused rather than gone"
    )


class Sitemap(Section):
    """When sitemaps are read again, and how the URLs that they name take their turns."""

    first_s: PositiveFloat = key(86_400.0, "s; wait after the first reading")
    shortest_s: PositiveFloat = key(3_600.0, "s; never sooner")
    longest_s: PositiveFloat = key(604_800.0, "s; never later: news in a sitemap that seldom changes waits so long")
    body_mb: PositiveFloat = key(50.0, "MB of a sitemap, before and after content decoding (sitemaps.org: at most 50)")
    depth: Count = key(3, "indexes between a sitemap and the one that robots.txt names")
    share: float = key(
        0.5, "share of the requests a host can be asked for in a portion's time that go to URLs new from its sitemaps",
        gt=0, le=1)  # fmt: skip
    portion_s: PositiveFloat = key(
        600.0, "s; new URLs of sitemaps fall due in portions so far apart, the most recently modified first"
    )


class Traps(Section):
    """When the URLs of a pattern are held for a trap, by a sequential test of the pages it gave (Wald 1945)."""

    act: Literal["block", "throttle", "record"] = key(
        "block", "the most that is done by itself about a pattern: block all but a probe; throttle; record, nothing"
    )
    ordinary: float = key(0.5, "share of worthless pages that a pattern may have and be no trap", gt=0, lt=1)
    trap: float = key(0.9, "share of worthless pages of a trap; must be more than ordinary", gt=0, lt=1)
    block_error: float = key(
        1e-4,
        "how likely a pattern with the ordinary share is blocked; it is suspicious at the root of this",
        gt=0,
        lt=0.5,
    )
    clear_error: float = key(1e-2, "how likely a trap is cleared", gt=0, lt=0.5)
    weight: float = key(0.1, "times the weight in the draw, for URLs of a suspicious pattern", gt=0, le=1)
    doubt_urls: PositiveInt = key(
        16, "URLs on one fetch list of a pattern of which more pages were worthless than good, until that is settled"
    )
    probe_share: float = key(0.01, "share of a blocked pattern's URLs that is asked for all the same", ge=0, le=1)
    probe_urls: Count = key(3, "about so many such URLs of one pattern in probe_s at most")
    probe_s: PositiveFloat = key(2_592_000.0, "s; after this another such share is drawn")
    linking_sites: PositiveInt = key(3, "other sites that link to URLs of a pattern, from which on it is never blocked")
    thin_tokens: Count = key(10, "tokens of main text under which a page counts as worthless")
    released_s: PositiveFloat = key(2_592_000.0, "s; a pattern that a person released is not blocked again sooner")
    probes_per_host: Count = key(
        2, "URLs that nobody can have made that a host is asked for, again after probe_s, to know its soft 404s"
    )
    parameter_ordinary: float = key(
        0.5, "share of equal pages among URLs that differ in a parameter, where the parameter may matter", gt=0, lt=1
    )
    parameter_equal: float = key(
        0.98, "the same where the parameter does not matter; must be more than parameter_ordinary", gt=0, lt=1
    )
    parameters: Count = key(50, "parameters that are told apart per host; 0: URLs are crawled with all of them")
    patterns: PositiveInt = key(500, "patterns that are told apart per host; the others count as one")
    signatures: PositiveInt = key(512, "earlier pages of a host that a page is compared with: bounds memory")

    @model_validator(mode="after")
    def _trap_is_worse(self) -> Self:
        if self.trap <= self.ordinary:
            raise ValueError(f"traps.trap ({self.trap}) must be more than traps.ordinary ({self.ordinary})")
        if self.parameter_equal <= self.parameter_ordinary:
            raise ValueError(
                f"traps.parameter_equal ({self.parameter_equal}) must be more than traps.parameter_ordinary "
                f"({self.parameter_ordinary})"
            )
        return self


class Modules(Section):
    """What else is made of what is fetched: see docs/modules.md."""

    use: list[str] = key(
        [], "modules that are called, by name: png_archive, copyright_monitor, what installed packages register, or "
        "package.module:Name"
    )  # fmt: skip
    settings: dict[str, dict[str, Any]] = key(
        {}, "what a module is told, in [modules.settings.NAME]; it says which keys"
    )
    strikes: PositiveInt = key(3, "hangs and crashes in a row after which a worker calls a module no more")


class HostRule(Section):
    """What is different for one host; keys left out keep the general value."""

    delay_s: PositiveFloat | None = key(None, "s; gap after each request")
    urls: PositiveInt | None = key(None, "known URLs")
    fetches_per_day: PositiveInt | None = key(None, "pages asked in a UTC day")


class Policy(Section):
    """All rules of a crawl. `policy.id` names exactly these values."""

    agent: Agent
    round: Round = Round()
    bands: Bands = Bands()
    rank: Rank = Rank()
    politeness: Politeness = Politeness()
    robots: Robots = Robots()
    fetch: Fetch = Fetch()
    parse: Parse = Parse()
    text: Text = Text()
    addresses: Addresses = Addresses()
    resolver: Resolver = Resolver()
    scope: Scope = Scope()
    block: Block = Block()
    budget: Budget = Budget()
    duplicates: Duplicates = Duplicates()
    seen: Seen = Seen()
    contents: Contents = Contents()
    retention: Retention = Retention()
    retry: Retry = Retry()
    recrawl: Recrawl = Recrawl()
    sitemap: Sitemap = Sitemap()
    traps: Traps = Traps()
    modules: Modules = Modules()
    host: dict[HostName, HostRule] = {}

    @cached_property
    def id(self) -> str:
        """Digest of all values: two policies with one id decide alike."""
        return xxhash.xxh3_64_hexdigest(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode())

    def delay_s(self, host: str) -> float:
        """The configured gap of a host."""
        rule = self.host.get(host)
        return (rule and rule.delay_s) or self.politeness.delay_s

    @property
    def address_gap_s(self) -> float:
        """The gap between two starts at an address: no longer than the one that its only host would be given."""
        return min(self.politeness.address_gap_s, self.politeness.delay_s)

    def fetches_per_day(self, host: str) -> int:
        """How many pages a host may be asked for in a UTC day."""
        rule = self.host.get(host)
        return (rule and rule.fetches_per_day) or self.budget.fetches_per_host_day

    @model_validator(mode="after")
    def _lease_outlasts_round(self) -> Self:
        if self.round.lease_s < self.round.seconds + self.fetch.total_s:
            raise ValueError(
                f"round.lease_s ({self.round.lease_s}) must be at least round.seconds + fetch.total_s "
                f"({self.round.seconds + self.fetch.total_s}): a lease must outlast the last request of its round"
            )
        return self


def load(text: str) -> Policy:
    """Read a policy from TOML. Unknown keys, wrong types and senseless values raise PolicyError."""
    try:
        return Policy.model_validate(read_toml(text))
    except ValidationError as error:
        raise PolicyError("the policy cannot be used:\n" + "\n".join(map(in_words, error.errors()))) from error


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML; whatever is none raises PolicyError: also what Python's reader gives up on in its own words."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and a number of more digits than Python reads
        twice = "; TOML allows nothing twice: fill keys in where they stand" if "twice" in str(error) else ""
        raise PolicyError(f"the policy is not TOML: {error}{twice}") from error
    except RecursionError as error:
        raise PolicyError("the policy is not TOML: expected a value, found lists too deep to be read") from error


def render(policy: Policy | None = None) -> str:
    """Write a policy as TOML, each key with its meaning; without one, the defaults with the agent left to fill in."""
    blocks = []
    for name, section in sections().items():
        values = getattr(policy, name) if policy else None
        if name == "host":
            blocks += [_render_host(host, rule) for host, rule in sorted((values or {}).items())]
        else:
            blocks.append("\n".join([f"# {section.__doc__}", f"[{name}]", *_render_keys(section, values)]))
    return "\n\n".join(blocks) + "\n"


def sections() -> dict[str, type[Section]]:
    """Every section by name; `host` stands for the sections [host."name"]."""
    kinds = {name: field.annotation for name, field in Policy.model_fields.items()}
    return {
        name: kind if isinstance(kind, type) and issubclass(kind, Section) else HostRule for name, kind in kinds.items()
    }


def in_words(error: Any) -> str:
    """One of pydantic's errors as a person reads it."""
    where = ".".join(str(part) for part in error["loc"]) or "policy"
    if error["type"] == "extra_forbidden":
        section = sections().get(str(error["loc"][0])) if len(error["loc"]) > 1 else None
        known = (section or Policy).model_fields
        return f"  {where}: there is no such key; known here: {', '.join(known)}"
    if error["type"] == "string_pattern_mismatch" and error["input"] == "":
        return f"  {where}: expected text, found none: fill it in{_says(error['loc'])}"
    if error["type"] == "string_pattern_mismatch":
        return f"  {where}: expected other text, found {error['input']!r}{_says(error['loc'])}"
    found = "" if error["type"] == "missing" else f"; found {error['input']!r}"
    says = _says(error["loc"])
    return f"  {where}: {error['msg']}{found if len(found) < 200 else ''}{says}"


def _says(place: tuple[Any, ...]) -> str:
    """What the key at this place of the policy means, in brackets."""
    section = sections().get(str(place[0])) if place else None
    name = next((part for part in reversed(place) if isinstance(part, str)), "")  # after it, a place in a list
    field = section.model_fields.get(name) if section else None
    return f" ({field.description})" if field else ""


_SECTIONS_BELOW = (dict[str, dict[str, Any]],)
"""Types of keys that a person gives as sections; TOML refuses those where the key stands too, though it is empty."""


def _render_keys(section: type[Section], values: Section | None) -> list[str]:
    lines = []
    for name, field in section.model_fields.items():
        value = getattr(values, name) if values else field.get_default()
        text = '""  # fill in' if values is None and field.is_required() else as_toml(value)
        lines.append(f"# {field.description}")
        if (values and value) or field.annotation not in _SECTIONS_BELOW:
            lines.append(f"{name} = {text}")
        else:
            lines.append(f"# {name}: given as sections of their own, below this one")
    return lines


def _render_host(name: str, rule: HostRule) -> str:
    given = rule.model_dump(exclude_none=True)
    return "\n".join([f"[host.{as_toml(name)}]", *(f"{key} = {as_toml(value)}" for key, value in given.items())])


def as_toml(value: object) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's escapes are JSON's
    if isinstance(value, list):
        return "[" + ", ".join(as_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_toml(name)} = {as_toml(item)}" for name, item in sorted(value.items())) + "}"
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
    return repr(value)
