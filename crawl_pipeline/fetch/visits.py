"""What the lanes are given and what they give back: plain facts, no behaviour of their own.

A target is one URL to ask for; a visit is what came of it; a request is one thing sent, whatever its cause. Visits and
requests leave the lanes in cuts, each in exactly one.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime

from crawl_pipeline.core.politeness import HostPace
from crawl_pipeline.core.robots import Rules
from crawl_pipeline.fetch.bodies import ReadPage
from crawl_pipeline.fetch.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Target:
    """One URL to ask for; what its links will inherit, and the validators of its stored page."""

    url: str
    url_hash: int
    kind: str
    depth: int
    hops: int
    tag: str | None
    etag: str | None = None
    last_modified: str | None = None
    held_back: str | None = None
    """Why the validators are not sent though they are known: see core.validators."""

    @property
    def cause(self) -> str:
        """Why the request will be sent: for a page, for a sitemap, or to see what is answered."""
        return self.kind if self.kind in ("sitemap", "probe") else "page"


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """One answer of a robots.txt: a row of `robots`, and the rules it gave."""

    bucket: int
    host: str
    origin: str
    robots_id: int
    fetched_at: datetime
    expires_at: datetime
    state: str
    rules: Rules
    http_status: int | None = None
    reason: str | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class HostQueue:
    """One host's part of a fetch list, with all that politeness must remember of it."""

    host: str
    bucket: int
    pace: HostPace
    next_allowed_at: datetime | None
    robots: Mapping[str, RobotsAnswer]
    targets: tuple[Target, ...]
    left_today: int | None = None
    """Pages the host may still be asked for on this day, where that is little; counted from the last cut."""
    site_left_today: int | None = None
    """The same of all hosts of its site together."""


Elsewhere = Callable[[str], HostQueue | str]
"""What is known of a host that another host's robots.txt leads to, or why this worker may not ask it."""


@dataclass(slots=True)
class Request:
    """One request and the promise made after it."""

    bucket: int
    host: str
    exchange: Exchange
    outcome: str
    gap_s: float
    policy_id: str
    robots_id: int | None = None
    location: str | None = None
    host_aside: bool = False
    """The host is put aside: what failed is the host's doing, not the URL's."""
    usage: str | None = None
    """How the site prefers its answer to be used, as it is recorded."""


@dataclass(slots=True)
class Visit:
    """What came of one target."""

    bucket: int
    target: Target
    outcome: str
    ended_at: datetime
    reason: str | None = None
    robots_until: datetime | None = None
    request: Request | None = None
    page: ReadPage | None = None


@dataclass(frozen=True, slots=True)
class HostState:
    """A host as the lanes leave it at a cut."""

    host: str
    bucket: int
    pace: HostPace
    next_allowed_at: datetime
    robots: tuple[RobotsAnswer, ...]
    addresses: tuple[str, ...]
    asked: Mapping[date, int]
    """Pages asked for, by UTC day."""

    @property
    def asked_count(self) -> int:
        """Pages asked for since the cut before."""
        return sum(self.asked.values())


@dataclass(frozen=True, slots=True)
class Cut:
    """All that came of the lanes since the cut before."""

    visits: list[Visit]
    requests: list[Request]
    robots: list[RobotsAnswer]
    hosts: list[HostState]
    carried: Counter[int] = field(default_factory=Counter)


def first(got: Exchange, name: str) -> str | None:
    """The first field of this lower-case name."""
    return next(iter(got.values(name)), None)
