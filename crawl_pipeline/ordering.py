"""All that people may order, in one place: seeds, pauses, settings, recrawls, what is to be forgotten.

An order is a row; the owner of its bucket obeys it in its next round, and settings are obeyed by every worker. What is
given at a time is one commit: all of it or, if anything is wrong with it, nothing. What orders come to is told by
core.orders; this file checks what was typed and writes rows, and reads them back. It changes no state.
"""

import getpass
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline.core import orders, parameters, settings, traps, urls
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.orders import NOTHING, InForce, OrderError, Tag
from crawl_pipeline.core.parameters import DROPPED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import ORDERS
from crawl_pipeline.lake import Lake

SHOWN = 20
"""How many wrong names an error lists."""
LONGEST = 200
"""Characters of a tag and of what is said of it: a tag stands in every row that was found through it."""
LEAST_URGENT = 100
"""The last band there can be."""

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Giver:
    """Who gives an order, and by which request: of one giver, one key is one order, however often it comes."""

    name: str
    key: str | None = None
    digest: int | None = None
    """hash64 of what the request asks: the same key with another digest is a mistake."""


class Repeated(Exception):
    """The request was obeyed already: nothing was ordered again."""


def seed(
    lake: Lake,
    hrefs: Iterable[str],
    *,
    tag: str | None,
    now: datetime,
    by: str | Giver | None = None,
    facts: Tag | None = None,
) -> int:
    """Order URLs to be crawled; return how many, each spelling counted once.

    `facts` say what the tag is. A tag means one thing: facts that contradict earlier ones are refused.
    """
    facts = _checked(tag, facts or Tag())
    found = _canonical(hrefs)
    rows: list[Row] = [{"kind": "seed", "url": url, "host": urls.host(url), "tag": tag, **facts.facts} for url in found]

    def agrees(before: InForce) -> None:
        known = before.tags.get(str(tag), Tag())
        if known.contradicts(facts):
            raise OrderError(
                f"the tag {tag!r} means {known}, and was now given with {facts}: a tag means one thing, so nothing was "
                "ordered; leave the facts out, or choose another tag"
            )

    return _give(lake, rows, now, by, agrees)


def pause(lake: Lake, hosts: Sequence[str], *, paused: bool, now: datetime, by: str | Giver | None = None) -> int:
    """Order that known hosts are not asked, or asked again."""
    scopes = [_host(host) for host in hosts]
    _expect_known(lake, scopes)
    return _give(lake, [{"kind": "pause" if paused else "resume", **scope} for scope in scopes], now, by)


def recrawl(
    lake: Lake, *, hrefs: Iterable[str] = (), hosts: Iterable[str] = (), sites: Iterable[str] = (), now: datetime,
    by: str | Giver | None = None,
) -> int:  # fmt: skip
    """Order that known URLs are visited again, as soon as politeness allows."""
    scopes = _scopes(hrefs, hosts, sites)
    _expect_known(lake, scopes)
    return _give(lake, [{"kind": "recrawl", **scope} for scope in scopes], now, by)


def recrawl_buckets(
    lake: Lake, buckets: Iterable[int], *, visited_before: datetime, pattern: str | None = None, now: datetime,
    by: str | None = None,
) -> int:  # fmt: skip
    """Order that pages of these buckets are visited again: those last visited before then, whose URLs match.

    Return how many orders that makes. One that was given before is not given again.
    """
    wanted = sorted(set(buckets))
    if wrong := [bucket for bucket in wanted if not 0 <= bucket < lake.buckets]:
        raise OrderError(f"expected buckets from 0 to {lake.buckets - 1}, found {wrong}, so nothing was ordered")
    if pattern is not None and (not pattern or not pattern.isascii() or not pattern.isprintable()):
        raise OrderError(
            f"expected a pattern that canonical URLs can match, such as */news/*, found {_short(repr(pattern))}, "
            "so nothing was ordered"
        )
    same = (pl.col("kind") == "recrawl") & (pl.col("visited_before") == visited_before)
    given = lake.scan("orders", where=same & pl.col("pattern").eq_missing(pattern)).select("of_bucket").collect()
    rows: list[Row] = [
        {"kind": "recrawl", "of_bucket": bucket, "visited_before": visited_before, "pattern": pattern}
        for bucket in wanted if bucket not in given["of_bucket"]
    ]  # fmt: skip
    return _give(lake, rows, now, by)


def forget(
    lake: Lake, *, hrefs: Iterable[str] = (), hosts: Iterable[str] = (), sites: Iterable[str] = (), now: datetime,
    by: str | Giver | None = None,
) -> int:  # fmt: skip
    """Order that URLs, known or not, are never asked for again nor shown, until a later seed lifts that."""
    return _give(lake, [{"kind": "forget", **scope} for scope in _scopes(hrefs, hosts, sites)], now, by)


def release(lake: Lake, names: Sequence[str], *, now: datetime, by: str | Giver | None = None) -> int:
    """Order that patterns are not held for traps any more, nor parameters dropped.

    Each is HOST/PATTERN or HOST?NAME as it is shown, or a HOST with all.
    """
    scopes = [_pattern(name) for name in names]
    acted = lake.scan("patterns", where=pl.col("action").is_in([traps.THROTTLED, traps.BLOCKED, DROPPED]))
    known = acted.select("host", "pattern").collect()
    wrong = [
        f"{name}: {_why_nothing(known, scope)}; see `crawl sql 'from traps'`"
        for name, scope in zip(names, scopes, strict=True) if known.filter(**scope).is_empty()
    ]  # fmt: skip
    _refuse("these cannot be released", wrong)
    return _give(lake, [{"kind": "release", **scope} for scope in scopes], now, by)


def _why_nothing(acted: pl.DataFrame, scope: Row) -> str:
    others = acted.filter(host=scope["host"])["pattern"].sort().to_list()
    if not others:
        return "nothing is done about any pattern of this host"
    shown = [f"{scope['host']}{pattern}" for pattern in others[:SHOWN]]
    return f"nothing is done about this pattern; of this host something is done about {', '.join(shown)}"


def set_key(
    lake: Lake, policy: Policy, key: str, value: str, *, host: str | None = None, now: datetime,
    by: str | Giver | None = None,
) -> Policy:  # fmt: skip
    """Order a key of the policy to be something else; return the policy as it is from then on.

    `policy`: what the policy file says.
    """
    return change_policy(lake, policy, {key: value}, host=host, now=now, by=by)


def change_policy(
    lake: Lake, policy: Policy, values: Mapping[str, str], *, unset: Sequence[str] = (), host: str | None = None,
    now: datetime, by: str | Giver | None = None,
) -> Policy:  # fmt: skip
    """Order several keys at once to be something else, or what the policy file says; all for one host, or for all."""
    name = None if host is None else str(_host(host)["host"])
    told = {one.place: one for one in (settings.setting(key, value, name) for key, value in values.items())}
    back = [settings.Setting(key, "", name) for key in dict.fromkeys(unset)]
    made = policy

    def fits(before: InForce) -> None:
        nonlocal made
        for one in back:
            _expect_set(before, one)
        left = {place: one for place, one in before.settings.items() if place not in {gone.place for gone in back}}
        made = settings.overlay(policy, {**left, **told}.values())

    rows: list[Row] = [{"kind": "unset", "host": one.host, "policy_key": one.key} for one in back]
    rows += [{"kind": "set", "host": one.host, "policy_key": one.key, "policy_value": one.value}
             for one in told.values()]  # fmt: skip
    _give(lake, rows, now, by, fits)
    return made


def unset_key(lake: Lake, key: str, *, host: str | None = None, now: datetime, by: str | Giver | None = None) -> None:
    """Order a key to be what the policy file says."""
    name = None if host is None else str(_host(host)["host"])
    one = settings.Setting(key, "", name)

    _give(lake, [{"kind": "unset", "host": name, "policy_key": key}], now, by,
          lambda before: _expect_set(before, one))  # fmt: skip


def _expect_set(before: InForce, one: settings.Setting) -> None:
    if one.place not in before.settings:
        there = ", ".join(other.name for other in before.settings.values()) or "none"
        raise OrderError(f"{one.name} is not set by an order, so nothing was ordered; set are: {there}")


def keep_policy(lake: Lake, policy: Policy, now: datetime) -> None:
    """Keep a snapshot of the policy with the orders, once, so that rounds under it can be explained later."""
    same = lake.scan("orders", where=(pl.col("kind") == "policy") & (pl.col("policy_id") == policy.id))
    if same.select(pl.len()).collect().item() == 0:
        _give(lake, [{"kind": "policy", "policy_id": policy.id, "policy_toml": policies.render(policy)}], now, None)


# What orders come to.


def in_force(
    lake: Lake, before: InForce = NOTHING, at: Mapping[str, int] | None = None, until: int | None = None
) -> InForce:
    """What all orders come to, or those up to a number, given what earlier ones came to; `at` as in `Lake.scan`."""
    where = None if until is None else pl.col("order") <= until
    return _read(lake.scan("orders", where=where, at=at), before)


def policy_in_force(lake: Lake, policy: Policy) -> Policy:
    """What the policy file says with what was set by orders; raise PolicyError if that does not fit."""
    return settings.overlay(policy, in_force(lake).settings.values())


def policy_told(lake: Lake, policy: Policy) -> dict[str, Any]:
    """The policy in force by its keys, and each key that was set: by which order, of whom, when."""
    told = in_force(lake).settings.values()
    made = settings.overlay(policy, told)
    return {"policy_id": made.id, "policy": made.model_dump(mode="json"), "set": [
        {"key": one.key, "host": one.host, "value": one.value, "order": one.order, "ordered_by": one.ordered_by,
         "ordered_at": one.ordered_at} for one in told]}  # fmt: skip


def _read(log: pl.LazyFrame, before: InForce) -> InForce:
    """Fold what is new in the log. Of seeds, of which there may be millions, only what bears on something is read."""
    new = log.filter(pl.col("order") > before.last)
    is_seed = pl.col("kind") == "seed"
    told = new.filter(pl.col("kind").is_in(["set", "unset", "forget"])).collect()
    facts = ["order", "kind", "tag", "topic", "region", "band"]
    tags = new.filter(is_seed & pl.col("tag").is_not_null()).select(facts).unique().collect()
    last = new.select(pl.col("order").max()).collect().item()
    parts = [told, ORDERS.frame(tags)]
    if before.forgets or "forget" in told["kind"]:
        parts.append(ORDERS.frame(new.filter(is_seed).select("order", "kind", "url", "host").collect()))
    folded = orders.fold(before, pl.concat(parts))
    return folded if last is None else replace(folded, last=max(folded.last, last))


def about(lake: Lake, url: str) -> list[dict[str, Any]]:
    """Every order given about a URL, its host, its site or its bucket, oldest first; seeds of other URLs are not."""
    host = urls.host(url)
    whole = pl.col("url").is_null() & ((pl.col("host") == host) | pl.col("host").is_null())
    of_site = pl.col("host").is_not_null() | (pl.col("site") == urls.site(host))
    of_bucket = pl.col("of_bucket") == urls.bucket(urls.site(host), lake.buckets)
    given = lake.scan("orders", where=(pl.col("url") == url) | (whole & of_site) | of_bucket).sort("order").collect()
    shown = (
        "order",
        "ordered_at",
        "ordered_by",
        "kind",
        "url",
        "host",
        "site",
        "tag",
        "policy_key",
        "policy_value",
        "pattern",
        "of_bucket",
        "visited_before",
    )
    return given.select(shown).to_dicts()


def in_words(order: Mapping[str, Any]) -> str:
    """An order as people speak of it."""
    whole = order["host"] or order["site"] or _of_bucket(order)
    what = order["policy_key"] or order["url"] or f"{whole}{order['pattern'] or ''}"
    return f"order {order['order']} of {order['ordered_by']} at {order['ordered_at']:%F %T} UTC, {order['kind']} {what}"


def _of_bucket(order: Mapping[str, Any]) -> str:
    return f"bucket {order['of_bucket']}, visited before {order['visited_before']:%F %T} UTC" + (
        ", of " if order["pattern"] else ""
    )


# What was typed.

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def _canonical(hrefs: Iterable[str]) -> list[str]:
    found, wrong = dict[str, None](), list[str]()
    for href in hrefs:
        if _CONTROL.search(href.strip()):  # browsers pass by a line's end in a URL; of a list it joins two lines
            wrong.append(_short(f"{href!r}: expected a URL without control characters"))
            continue
        try:
            url = urls.canonical(href)
        except urls.NotCrawlable as refusal:
            wrong.append(_short(f"{href}: {refusal}"))
            continue
        if urls.can_exist(urls.host(url)):
            found[url] = None
        else:
            wrong.append(_short(f"{href}: expected a host name of parts of 1 to 63 letters"))
    _refuse("these are not URLs that can be crawled", wrong)
    return list(found)


def _short(said: str) -> str:
    """What was typed, as far as a person wants it repeated."""
    return said if len(said) <= 3 * LONGEST else f"{said[: 2 * LONGEST]} ... {said[-LONGEST:]}"


def _scopes(hrefs: Iterable[str], hosts: Iterable[str], sites: Iterable[str]) -> list[Row]:
    """URLs, hosts and sites as orders name them: a URL with its host, a host, or a site alone."""
    of_urls: list[Row] = [{"url": url, "host": urls.host(url)} for url in _canonical(hrefs)]
    return [*of_urls, *map(_host, dict.fromkeys(hosts)), *map(_site, dict.fromkeys(sites))]


def _host(name: str) -> Row:
    """A host in its one spelling. What a URL may have around it is refused rather than passed by: it may be a slip."""
    if _CONTROL.search(name) or any(mark in name for mark in "@#\\"):
        raise OrderError(f"expected a host name and nothing else, found {_short(repr(name))}, so nothing was ordered")
    try:
        url = urls.canonical(f"http://{name}/")
    except urls.NotCrawlable as refusal:
        raise OrderError(f"expected a host name, found {name!r} ({refusal}), so nothing was ordered") from refusal
    if url != f"http://{urls.host(url)}/":
        raise OrderError(
            f"expected a host name without scheme, port and path, found {name!r}, so nothing was ordered; "
            f"did you mean {urls.host(urls.canonical(name) if '://' in name else url)}?"
        )
    if not urls.can_exist(urls.host(url)) or "*" in name:
        raise OrderError(
            f"expected a host name of parts of 1 to 63 letters, found {_short(repr(name))}, so nothing was ordered: "
            "name each host; --site is for all hosts of a site"
        )
    return {"host": urls.host(url)}


def _pattern(name: str) -> Row:
    """A host, or a host with one of its patterns, which begin with a slash, or of its parameters, which do with `?`."""
    name = name.removeprefix("http://").removeprefix("https://")
    end = min((at for mark in ("/", parameters.MARK) if (at := name.find(mark)) >= 0), default=len(name))
    host, rest = name[:end], name[end:]
    if host and rest == f"/{traps.REST}":
        return _host(host) | {"pattern": traps.REST}
    return _host(host) | ({"pattern": rest} if rest else {})


def _site(name: str) -> Row:
    host = str(_host(name)["host"])
    if (site := urls.site(host)) != host:
        raise OrderError(
            f"expected a site, found {name!r}, a host of the site {site}, so nothing was ordered: "
            f"give --site {site}, or --host"
        )
    if urls.is_public_suffix(host):
        raise OrderError(
            f"expected a site, found {name!r}, under which strangers have sites of their own, so nothing was ordered: "
            "name each site"
        )
    return {"site": site}


def _checked(tag: str | None, facts: Tag) -> Tag:
    """The facts of a tag, if they can be ones."""
    if tag is None and facts != Tag():
        raise OrderError(f"expected a tag that {facts} is said of, found none, so nothing was ordered: give --tag NAME")
    for name, value in {"tag": tag, **facts.facts}.items():
        if isinstance(value, str) and (not value.strip() or not value.isprintable()):
            raise OrderError(
                f"expected a {name} of printable text, found {_short(repr(value))}, so nothing was ordered"
            )
        if isinstance(value, str) and len(value) > LONGEST:
            raise OrderError(
                f"expected a {name} of at most {LONGEST} characters, found {len(value):,}, so nothing was ordered"
            )
    if facts.band is not None and not 1 <= facts.band <= LEAST_URGENT:
        raise OrderError(f"expected a band within 1 and {LEAST_URGENT}, found {facts.band}, so nothing was ordered")
    return facts


def _expect_known(lake: Lake, scopes: Sequence[Row]) -> None:
    """Refuse names that no frontier row, host or seed of the lake bears: a slip of the pen would do nothing."""
    forgotten, wrong = orders.is_forgotten(in_force(lake)), list[str]()
    for column in ("url", "host", "site"):
        named = pl.DataFrame(
            [(str(scope[column]), urls.site(str(scope.get("host", scope.get("site")))), str(scope.get("host")))
             for scope in scopes if next(iter(scope)) == column],
            schema={column: pl.String, "of_site": pl.String, "of_host": pl.String}, orient="row",
        )  # fmt: skip
        known = _known(
            lake, column, named[column], sorted({urls.bucket(site, lake.buckets) for site in named["of_site"]})
        )
        wrong += [
            f"{name}: no such {column} is known here, check the spelling" for name in named[column] if name not in known
        ]
        if column == "url":
            hashes = pl.Series([urls.url_hash(url) for url in named["url"]], dtype=pl.Int64)
            of_urls = named.select("url", host="of_host", site="of_site").with_columns(url_hash=hashes)
            wrong += [f"{url}: it was ordered to be forgotten; a seed lifts that"
                      for url in of_urls.filter(forgotten)["url"] if url in known]  # fmt: skip
    _refuse("these cannot be ordered", wrong)


def _known(lake: Lake, column: str, names: pl.Series, buckets: list[int]) -> set[str]:
    """Which of the names are known: one look for all of them, since there may be thousands."""
    if names.is_empty():
        return set()
    among = pl.col(column).is_in(names.implode())
    rows = lake.scan("frontier" if column == "url" else "hosts", buckets=buckets, where=among)
    known = set(rows.select(column).unique().collect()[column])
    if column == "host" and len(known) < names.n_unique():
        seeds = lake.scan("orders", where=(pl.col("kind") == "seed") & among)
        known |= set(seeds.select(column).unique().collect()[column])
    return known


def _refuse(what: str, wrong: Sequence[str]) -> None:
    if wrong:
        more = [f"and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        lines = "\n".join(f"  {line}" for line in [*wrong[:SHOWN], *more])
        raise OrderError(f"{what}, so nothing was ordered:\n{lines}")


def me() -> str:
    """Who gives orders: the user's name, or their number where the machine has no name for it, as in containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _give(
    lake: Lake,
    rows: Sequence[Row],
    now: datetime,
    by: str | Giver | None,
    check: Callable[[InForce], None] = lambda _: None,
) -> int:
    """Append the rows as one commit if `check` agrees with what is in force just before it."""

    giver = by if isinstance(by, Giver) else Giver(by or me())

    def look(log: pl.LazyFrame) -> None:
        if giver.key is not None and not of_request(log, giver).head(1).collect().is_empty():
            raise Repeated(f"the request {giver.key!r} of {giver.name} has its order already")
        check(_read(log, NOTHING))

    stamps: dict[str, Any] = {
        "ordered_at": now, "ordered_by": giver.name, "request_key": giver.key, "request_hash": giver.digest,
    }  # fmt: skip
    if rows:
        lake.give(ORDERS.frame([row | stamps for row in rows]), look)
    return len(rows)


def of_request(log: pl.LazyFrame, giver: Giver) -> pl.LazyFrame:
    """The rows of `orders` that a request brought."""
    return log.filter((pl.col("request_key") == giver.key) & (pl.col("ordered_by") == giver.name))
