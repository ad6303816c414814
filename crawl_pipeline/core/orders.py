"""What people's orders come to, taken one after the other: settings, what each tag means, what is forgotten.

A fold: what was in force and newer rows of `orders` in, what is in force out. The last word counts, so it does no harm
to read an order twice, or to take the log in pieces. Nothing is obeyed here: planning does that, bucket by bucket, and
`outcome.ORDERED` says what an order makes of a known URL.

What is forgotten is told from the orders alone, so that it holds for URLs and hosts that nobody knows yet. A forgotten
site is lifted host by host: a seed speaks for its URL and its host, not for all names below a domain.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import polars as pl

from crawl_pipeline.core import urls
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.patterns import matches_any
from crawl_pipeline.core.settings import Setting

KINDS = ("seed", "policy", "pause", "resume", "set", "unset", "recrawl", "forget", "release")
FOR_OWNERS = ("seed", "pause", "resume", "recrawl", "forget", "release")
"""Kinds that the owner of a bucket applies to its state; each names a URL, a host, a site, or the bucket."""
FORGOTTEN = "forgotten by order"
"""Why a new URL of something forgotten is refused."""


class OrderError(ValueError):
    """An order cannot be carried out as it was given; nothing was ordered."""


@dataclass(frozen=True, slots=True)
class Tag:
    """What a seed list is: its subject, where its hosts are, the band at which its pages start."""

    topic: str | None = None
    region: str | None = None
    band: int | None = None

    def __str__(self) -> str:
        said = [f"{name} {value}" for name, value in self.facts.items() if value is not None]
        return ", ".join(said) or "nothing"

    @property
    def facts(self) -> dict[str, str | int | None]:
        """Its facts by name."""
        return {"topic": self.topic, "region": self.region, "band": self.band}

    def contradicts(self, other: "Tag") -> bool:
        """Tell whether both say something of one fact, and not the same."""
        theirs = other.facts
        return any(
            mine is not None and theirs[name] is not None and mine != theirs[name] for name, mine in self.facts.items()
        )

    def filled(self, other: "Tag") -> "Tag":
        """This tag, with the facts of the other where it says nothing."""
        return Tag(self.topic or other.topic, self.region or other.region, self.band or other.band)


@dataclass(frozen=True, slots=True)
class InForce:
    """What all orders up to number `last` come to."""

    last: int = -1
    settings: Mapping[tuple[str, ...], Setting] = field(default_factory=dict)
    tags: Mapping[str, Tag] = field(default_factory=dict)
    urls: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()
    sites: frozenset[str] = frozenset()
    spared: frozenset[str] = frozenset()
    """Hosts of forgotten sites that a later seed named."""
    forgets: bool = False
    """Something was forgotten once, whether it still is or not."""


NOTHING = InForce()


def fold(before: InForce, rows: pl.DataFrame) -> InForce:
    """What is in force once these rows of `orders` are taken too, in their order."""
    settings, tags, told = dict(before.settings), dict(before.tags), _Forgotten.of(before)
    for row in rows.sort("order", maintain_order=True).iter_rows(named=True):
        if row["kind"] in ("set", "unset"):
            one = _setting(row)
            settings.pop(one.place, None)
            if row["kind"] == "set":
                settings[one.place] = one
        elif row["kind"] == "forget":
            told.forget(row)
        elif row["kind"] == "seed":
            told.lift(row)
            if row["tag"] is not None:
                given = Tag(row["topic"], row["region"], row["band"])
                tags[row["tag"]] = tags.get(row["tag"], Tag()).filled(given)
    newest = rows["order"].max()
    return replace(
        before, last=max(before.last, int(str(newest)) if newest is not None else -1), settings=settings, tags=tags,
        urls=frozenset(told.urls), hosts=frozenset(told.hosts), sites=frozenset(told.sites),
        spared=frozenset(told.spared), forgets=told.forgets,
    )  # fmt: skip


def is_forgotten(in_force: InForce) -> pl.Expr:
    """Whether a URL is forgotten: an expression over url_hash, host and site."""
    of_site = pl.col("site").is_in(list(in_force.sites)) & ~pl.col("host").is_in(list(in_force.spared))
    return (
        pl.col("url_hash").is_in(list(in_force.urls)) | pl.col("host").is_in(list(in_force.hosts)) | of_site
    ).fill_null(value=False)


def start_score(in_force: InForce) -> pl.Expr:
    """The score at which the pages of a seed list start, over `tag`: that of its band, 1 where nothing is said."""
    scores = {tag: 2.0 ** (1 - facts.band) for tag, facts in in_force.tags.items() if facts.band is not None}
    return pl.col("tag").replace_strict(scores, default=1.0, return_dtype=pl.Float64).fill_null(1.0)


def named(orders: pl.DataFrame, hosts: pl.DataFrame) -> pl.Expr:
    """Which URLs the orders name, an expression over rows of `frontier`. `hosts`: host and site of all there are."""
    urls_ = [urls.url_hash(url) for url in orders["url"].drop_nulls()]
    whole = orders.filter(pl.col("url").is_null())
    sites = whole.filter(pl.col("host").is_null())["site"].implode()
    among = [*whole["host"].drop_nulls(), *hosts.filter(pl.col("site").is_in(sites))["host"]]
    of_buckets = whole.filter(pl.col("host").is_null() & pl.col("site").is_null())
    return pl.any_horizontal(
        pl.col("url_hash").is_in(urls_), pl.col("host").is_in(among),
        *(of_bucket(row["of_bucket"], row["visited_before"], row["pattern"]) for row in of_buckets.to_dicts()),
    )  # fmt: skip


def of_bucket(bucket: int, visited_before: datetime | None, pattern: str | None) -> pl.Expr:
    """Which URLs a recrawl of a bucket names: pages visited before then. To order it twice is to order it once.

    For what is ordered has no visit (see frontier.obey), and what has been visited since has a later one.
    """
    among = (pl.col("bucket") == bucket) & (pl.col("visited_at") < visited_before)
    return (among if pattern is None else among & matches_any(pl.col("url"), [pattern])).fill_null(value=False)


def words(known: pl.DataFrame, orders: pl.DataFrame, hosts: pl.DataFrame, in_force: InForce) -> pl.DataFrame:
    """Add `word`, the key of ORDERED that changes a known URL; those that none changes are left out.

    A recrawl passes by what is parked: budgets hold.

    known: rows of `frontier` with their `site`; orders: those that their owner has not applied yet.
    """
    forgotten, was = is_forgotten(in_force), pl.col("status") == "forgotten"
    recrawled = named(orders.filter(pl.col("kind") == "recrawl"), hosts)
    word = (
        pl.when(forgotten & ~was).then(pl.lit("forget"))
        .when(~forgotten & was).then(pl.lit("seed"))
        .when(~forgotten & recrawled & (pl.col("status") != PARKED)).then(pl.lit("recrawl"))
    )  # fmt: skip
    return known.with_columns(word=word).filter(pl.col("word").is_not_null())


@dataclass(slots=True)
class _Forgotten:
    """What is forgotten while orders are folded."""

    urls: set[int]
    hosts: set[str]
    sites: set[str]
    spared: set[str]
    forgets: bool

    @classmethod
    def of(cls, before: InForce) -> "_Forgotten":
        return cls(set(before.urls), set(before.hosts), set(before.sites), set(before.spared), before.forgets)

    def forget(self, row: Mapping[str, object]) -> None:
        url, host, site = row["url"], row["host"], row["site"]
        self.forgets = True
        if url is not None:
            self.urls.add(urls.url_hash(str(url)))
        elif host is not None:
            self.hosts.add(str(host))
        else:
            self.sites.add(str(site))
            self.spared = {host for host in self.spared if urls.site(host) != site}

    def lift(self, row: Mapping[str, object]) -> None:
        if not self.forgets or row["url"] is None:
            return
        host = str(row["host"])
        self.urls.discard(urls.url_hash(str(row["url"])))
        self.hosts.discard(host)
        if urls.site(host) in self.sites:
            self.spared.add(host)


def _setting(row: Mapping[str, object]) -> Setting:
    host, key = row["host"], str(row["policy_key"])
    return Setting(
        key, str(row["policy_value"]), None if host is None else str(host), int(str(row["order"])),
        str(row["ordered_by"]), row["ordered_at"],  # type: ignore[arg-type]  # a column of times
    )  # fmt: skip
