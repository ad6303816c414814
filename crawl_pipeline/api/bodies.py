"""What requests may say and answers do: bodies of the HTTP API, with their limits.

Only shapes and sizes are judged here; what a URL, a host or a key of the policy is, say the same rules that judge
what is typed on the command line.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from crawl_pipeline.order_log import Entry
from crawl_pipeline.ordering import LEAST_URGENT, LONGEST

MOST_URLS = 10_000
MOST_NAMES = 1_000
MOST_KEYS = 100
LONGEST_URL = 8_192

Url = Annotated[str, Field(min_length=1, max_length=LONGEST_URL)]
Name = Annotated[str, Field(min_length=1, max_length=253)]
Word = Annotated[str, Field(min_length=1, max_length=LONGEST)]
MOST = 2**53
"""The largest number that every reader of JSON takes as it stands."""
_SCALAR = {"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": -MOST, "maximum": MOST},
                     {"type": "string", "maxLength": 2_000}]}  # fmt: skip


def _is_value(value: Any) -> Any:
    """Refuse what cannot be a value in a policy. Judged by hand: a union would say which of its parts did not fit."""
    of_list = isinstance(value, list) and len(value) <= MOST_NAMES
    if not all(map(_is_scalar, value if of_list else [value])):
        raise ValueError(f"expected a finite number, text, true, false, or a list of at most {MOST_NAMES:,} of these")
    return value


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 2_000 and not any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, (bool, int, float)) and -MOST <= value <= MOST  # NaN is not


Value = Annotated[
    Any, AfterValidator(_is_value),
    WithJsonSchema({"anyOf": [*_SCALAR["anyOf"], {"type": "array", "items": _SCALAR, "maxItems": MOST_NAMES}]}),
]  # fmt: skip

BANDS = {"high": 1, "normal": 2, "low": 4}
"""Bands at which pages of a list of this priority start."""


class Body(BaseModel):
    """A body without keys that are not known."""

    model_config = ConfigDict(extra="forbid")


class Seeds(Body):
    """URLs to be crawled: all of them or, if one is wrong, none. A tag keeps its topic, region and band."""

    urls: Annotated[list[Url], Field(min_length=1, max_length=MOST_URLS)]
    tag: Word | None = Field(None, description="name of the list; inherited by all that is found from it")
    topic: Word | None = Field(None, description="what the list of this tag is about")
    region: Word | None = Field(None, description="where the hosts of the list are, such as eu")
    band: Annotated[int, Field(strict=True, ge=1, le=LEAST_URGENT)] | None = Field(
        None, description="priority class at which its pages start; 1 is most urgent"
    )
    priority: Literal["high", "normal", "low"] | None = Field(
        None, description="instead of a band: high is 1, normal 2, low 4; without a tag the tag is `priority-` and this"
    )

    @model_validator(mode="after")
    def _one_of_band_and_priority(self) -> Self:
        if self.band is not None and self.priority is not None:
            raise ValueError("expected a band or a priority, found both")
        return self


class Policy(Body):
    """Keys of the policy that are to be something else, for all hosts or one: all or, if one is wrong, none."""

    set: Annotated[dict[Name, Value], Field(max_length=MOST_KEYS)] = Field(
        {}, description='keys as in docs/policy.md with their values, such as {"politeness.delay_s": 5}'
    )
    unset: Annotated[list[Name], Field(max_length=MOST_KEYS)] = Field(
        [], description="keys that are again what the policy file says"
    )
    host: Name | None = Field(None, description="set keys of this host's section: delay_s, urls, fetches_per_day")
    max_depth: Annotated[int, Field(strict=True, ge=1, le=1_000)] | None = Field(
        None, description="the same as budget.path_depth: segments of a URL's path"
    )
    per_host_qps: Annotated[float, Field(strict=True, gt=0, le=10)] | None = Field(
        None, description="requests per second and host: politeness.delay_s is one over it"
    )
    per_host_daily_budget: Annotated[int, Field(strict=True, ge=1, le=10**9)] | None = Field(
        None, description="the same as budget.fetches_per_host_day, or a host's fetches_per_day"
    )
    respect_robots: Literal[True] | None = Field(None, description="robots.txt is always respected: true or absent")

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.keys and not self.unset:
            raise ValueError("expected something to set or unset, found nothing")
        if self.host is not None and self.max_depth is not None:
            raise ValueError("expected max_depth for all hosts, found it for one")
        if twice := self._named.keys() & self.set.keys():
            raise ValueError(f"expected each key to be said once, found it twice: {', '.join(sorted(twice))}")
        if twice := self.keys.keys() & set(self.unset):
            raise ValueError(f"expected each key to be set or unset, found both: {', '.join(sorted(twice))}")
        return self

    @property
    def keys(self) -> dict[str, Any]:
        """Every key that is to be set, by its own name."""
        return self._named | self.set

    @property
    def _named(self) -> dict[str, Any]:
        of_host = self.host is not None
        named = {
            "budget.path_depth": self.max_depth,
            "delay_s" if of_host else "politeness.delay_s": self.per_host_qps and round(1 / self.per_host_qps, 6),
            "fetches_per_day" if of_host else "budget.fetches_per_host_day": self.per_host_daily_budget,
        }
        return {key: value for key, value in named.items() if value is not None}


class Scopes(Body):
    """What an order is about: URLs, hosts, sites (registrable domains)."""

    urls: Annotated[list[Url], Field(max_length=MOST_URLS)] = []
    hosts: Annotated[list[Name], Field(max_length=MOST_NAMES)] = []
    sites: Annotated[list[Name], Field(max_length=MOST_NAMES)] = []

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.urls or self.hosts or self.sites):
            raise ValueError("expected at least one URL, host or site, found none")
        return self


class Patterns(Body):
    """URL patterns that are held for traps: each HOST/PATTERN, or a HOST with all of its own."""

    patterns: Annotated[list[Url], Field(min_length=1, max_length=MOST_NAMES)]


class Given(BaseModel):
    """An order as it was given. The same request with the same Idempotency-Key is answered the same."""

    order: int = Field(description="its number: GET /api/v1/orders/{order} says who has obeyed")
    ordered_at: datetime
    ordered_by: str
    kinds: list[str]
    count: int = Field(description="rows of `orders`: URLs, hosts, sites or keys")
    names: list[str] = Field(description="what it is about, the first twenty")


class Order(Given):
    """An order, and which buckets have still to obey."""

    obeyed: bool
    waits_for: list[int] = Field(description="buckets whose next round obeys")
    erased_at: datetime | None = Field(
        description="of an order to forget: when `crawl erase` had proved that no file holds what it named"
    )


class Orders(BaseModel):
    """Orders, newest first."""

    orders: list[Order]


class Set(BaseModel):
    """One key that an order set."""

    key: str
    host: str | None
    value: str
    order: int
    ordered_by: str
    ordered_at: datetime | None


class InForce(BaseModel):
    """The policy in force: what the file says, with what was set by orders."""

    policy_id: str
    policy: dict[str, Any]
    set: list[Set]


class Stall(BaseModel):
    """URLs that are due and not asked for, and why."""

    reason: str
    urls: int
    hint: str


class Status(BaseModel):
    """How the crawl does right now; pace and active hosts are those of the last ten minutes."""

    at: datetime
    pages_per_sec: float = Field(description="pages stored, over the last ten minutes")
    requests_per_sec: float = Field(description="requests of any cause, over the last ten minutes")
    frontier_size: int = Field(description="known URLs")
    due: int = Field(description="of these, due now, whatever holds them back")
    pages_due_again: int = Field(description="pages that were fetched before and are due again")
    avg_recrawl_lag_hours: float | None = Field(description="for how long these have been due, on average")
    longest_recrawl_lag_hours: float | None = Field(description="and at most")
    hosts: int = Field(description="known hosts")
    hosts_active: int = Field(description="hosts that were asked in the last ten minutes")
    hosts_paused: int
    hosts_backing_off: int
    paused: list[str] = Field(description="paused hosts, the first twenty")
    rounds: int
    last_round_at: datetime | None
    next_due_at: datetime | None = Field(description="when the next URL falls due, of what is not due yet")
    workers: list[str] = Field(description="who holds buckets")
    orders_waiting: int = Field(description="orders that some bucket has still to obey")
    stalls: list[Stall] = Field(description="what is due and not asked for, the most first")


class Explanation(BaseModel):
    """Facts about a URL, and one sentence that says why."""

    url: str
    because: str
    facts: dict[str, Any]


def given(entry: Entry) -> Given:
    """An order as it was given."""
    return Given(order=entry.order, ordered_at=entry.ordered_at, ordered_by=entry.ordered_by, kinds=list(entry.kinds),
                 count=entry.count, names=list(entry.names))  # fmt: skip


def order(entry: Entry) -> Order:
    """An order, and who has obeyed."""
    waits = list(entry.waits_for or ())
    return Order(**given(entry).model_dump(), obeyed=not waits, waits_for=waits, erased_at=entry.erased_at)
