"""Which rows and values of a table vanish when a page, a host or a site is erased, and how they are known again.

Pure: what is to vanish in, expressions over a table's columns out. A table is judged by the names of its columns, each
of which means the same everywhere, so that a table that is added, by a module too, is covered.

A row goes if it is of an erased page or host. A row of something else that names one loses that value: a canonical URL,
the source of a link, an example. A request for a page of a host that stays is kept without the page: when, how long,
what came of it is what the crawl's promises to that host are judged by. Orders that forbid something stay, and what
they name: it is what keeps the page away.

What is not searched: bodies, texts and titles of other pages. What another site says of a page is that site's.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import (
    CHANGE_FREQUENCY,
    CONTENTS,
    FETCHES,
    HOST_GRAPH,
    HOSTS,
    LINKS,
    MERGES,
    ORDERS,
    TABLES,
    Table,
)

KEY = ("content_round", "body_hash", "charset")
"""What a page names its content by."""
WORDS = frozenset(("text", "title", "body", "policy_toml"))
"""Columns that hold what pages, robots.txt and people say, not what they are."""
OURS = "user_agent"
"""What the crawl says of itself, the address of its contact page within: people's words, as the policy is."""
STAYING = ("forget", "set", "unset", "pause", "resume", "policy", "release")
"""Orders that are kept whatever they name."""
DIGESTS = ("text_hash", "main_hash")
PAUSED = pl.col("paused").fill_null(value=False)
"""Hosts that a person asked to be left alone: that is remembered, though nothing else of them is."""
_HOSTS = ("host", "source_host")
_HASHES = ("source_hash", "cluster_before")
_URLS = ("source_url", "canonical_url", "canonical", "location")
_OF_REQUEST = ("url", "url_hash", "location", "reason", "etag", "last_modified", "content_type")
_KEYS = pl.Schema({"content_round": pl.Int64(), "body_hash": pl.Binary(), "charset": pl.String()})
_HOST = r"^[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?(\[[^\]]*\]|[^/:?#]*)"


@dataclass(frozen=True, slots=True)
class Marks:
    """What is erased: pages by URL, by hash (those of the hosts too), hosts (those of the sites too), sites; digests of
    texts and bodies that no page has that stays, and the contents that go (`KEY`)."""

    urls: frozenset[str] = frozenset()
    hashes: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))
    hosts: frozenset[str] = frozenset()
    sites: frozenset[str] = frozenset()
    digests: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Int64))
    bodies: pl.Series = field(default_factory=lambda: pl.Series(dtype=pl.Binary))
    contents: pl.DataFrame = field(default_factory=_KEYS.to_frame)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to erase."""
        return not (len(self.hashes) or self.hosts or self.contents.height)

    @property
    def site_hashes(self) -> list[int]:
        """The sites as `linking_sites` and `linked_from` name them."""
        return [urls.hash64(site) for site in sorted(self.sites)]

    def gone(self, table: Table) -> pl.Expr:
        """Rows of a table that vanish."""
        return gone(table, self)

    def touched(self, table: Table) -> pl.Expr:
        """Rows of a table that vanish or lose something."""
        return touched(table, self)

    def left(self, rows: pl.DataFrame, table: Table) -> pl.DataFrame:
        """The rows as they are afterwards."""
        return erased(rows, table, self)


class Rule(NamedTuple):
    """A column of rows that stay, which of them lose its value, and what they have instead."""

    column: str
    where: pl.Expr
    instead: pl.Expr


def keys_of(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Names of contents; files have no charset."""
    charset = pl.col("charset").fill_null("") if "charset" in rows.collect_schema() else pl.lit("")
    return rows.select("content_round", "body_hash", charset.alias("charset"))


def of_page(table: Table, marks: Marks) -> pl.Expr:
    """Rows of a table that are of an erased page or host."""
    own = []
    if "url_hash" in table.column_names:
        own.append(_in(pl.col("url_hash"), marks.hashes))
    own += [pl.col(name).is_in(sorted(marks.hosts)) for name in _HOSTS if name in table.column_names]
    return pl.any_horizontal(pl.lit(value=False), *own).fill_null(value=False)


def gone(table: Table, marks: Marks) -> pl.Expr:
    """Rows of a table that vanish."""
    special = _GONE.get(table.name)
    return (of_page(table, marks) if special is None else special(marks)).fill_null(value=False)


def _contents_gone(marks: Marks) -> pl.Expr:
    named = pl.struct(content_round="round", body_hash="body_hash", charset=pl.col("charset").fill_null(""))
    return named.is_in(marks.contents.to_struct().implode()) if marks.contents.height else pl.lit(value=False)


def _orders_gone(marks: Marks) -> pl.Expr:
    of_host = pl.col("url").is_null() & pl.col("host").is_in(sorted(marks.hosts))
    of_site = pl.col("url").is_null() & pl.col("host").is_null() & pl.col("site").is_in(sorted(marks.sites))
    named = _of_url(pl.col("url"), marks) | of_host.fill_null(value=False) | of_site.fill_null(value=False)
    return named & ~pl.col("kind").is_in(STAYING)


def _links_gone(marks: Marks) -> pl.Expr:
    """A link belongs to the page that it is in, and names the one that it leads to."""
    of_source = _in(pl.col("source_hash"), marks.hashes) | _of_url(pl.col("source_url"), marks)
    return of_page(LINKS, marks) | of_source


_GONE: Mapping[str, Callable[[Marks], pl.Expr]] = {
    CONTENTS.name: _contents_gone,
    FETCHES.name: lambda marks: pl.col("host").is_in(sorted(marks.hosts)),
    HOST_GRAPH.name: lambda marks: pl.any_horizontal(pl.col("host", "source_host").is_in(sorted(marks.hosts))),
    HOSTS.name: lambda marks: of_page(HOSTS, marks) & ~PAUSED,
    LINKS.name: _links_gone,
    MERGES.name: lambda marks: _in(pl.col("cluster_before"), marks.digests) | _in(pl.col("cluster_id"), marks.digests),
    ORDERS.name: _orders_gone,
}


def rules(table: Table, marks: Marks) -> list[Rule]:
    """What rows that stay lose."""
    if table in (ORDERS, CONTENTS):
        return []
    found = [Rule(name, condition, pl.lit(None)) for name, condition in _values(table, marks)]
    found += [_list_rule(name, element) for name, element in _lists(table, marks)]
    if table is FETCHES:
        asked = _in(pl.col("url_hash"), marks.hashes)
        found = [rule for rule in found if rule.column not in _OF_REQUEST]
        own = {"location": _of_url(pl.col("location"), marks), "reason": mentions(pl.col("reason"), marks)}
        found += [Rule(name, asked | own.get(name, pl.lit(value=False)), pl.lit(None)) for name in _OF_REQUEST]
        # It is made of the URL, among others.
        found.append(Rule("request_id", asked, pl.struct("worker", "started_at", "host", "address").hash(seed=7)
                          .reinterpret(signed=True)))  # fmt: skip
    return found


def _values(table: Table, marks: Marks) -> list[tuple[str, pl.Expr]]:
    own = {column.name: column.dtype for column in table.own}
    found = []
    for name, dtype in table.schema.items():
        if name in _HASHES:
            found.append((name, _in(pl.col(name), marks.hashes) | _in(pl.col(name), marks.digests)))
        elif name in _URLS or (own.get(name) == pl.String and name not in WORDS):
            found.append((name, _of_url(pl.col(name), marks)))
        elif name == "reason" and dtype == pl.String:
            found.append((name, mentions(pl.col(name), marks)))
    return found


def _lists(table: Table, marks: Marks) -> list[tuple[str, pl.Expr]]:
    found = []
    for name, dtype in table.schema.items():
        if name in ("linking_sites", "linked_from") and marks.sites:
            found.append((name, pl.element().is_in(marks.site_hashes)))
        elif name == "texts":
            found.append((name, _in(pl.element(), marks.digests)))
        elif dtype == pl.List(pl.String) and name not in ("addresses",):
            found.append((name, mentions(pl.element(), marks)))
    return found


def _list_rule(name: str, element: pl.Expr) -> Rule:
    named = pl.col(name).list.eval(element.fill_null(value=False))
    return Rule(name, named.list.any().fill_null(value=False),
                pl.col(name).list.eval(pl.element().filter(~element.fill_null(value=False))))  # fmt: skip


def touched(table: Table, marks: Marks) -> pl.Expr:
    """Rows of a table that vanish or lose something."""
    return pl.any_horizontal(gone(table, marks), *(rule.where.fill_null(value=False) for rule in rules(table, marks)))


def erased(rows: pl.DataFrame, table: Table, marks: Marks) -> pl.DataFrame:
    """The rows as they are afterwards."""
    left = rows.filter(~gone(table, marks))
    changed = {
        rule.column: pl.when(rule.where.fill_null(value=False)).then(rule.instead).otherwise(pl.col(rule.column))
        .cast(table.schema[rule.column])
        for rule in rules(table, marks)
    }  # fmt: skip
    return left.with_columns(**changed)


def _in(values: pl.Expr, among: pl.Series) -> pl.Expr:
    return values.is_in(among.implode()).fill_null(value=False) if len(among) else pl.lit(value=False)


def host_of(url: pl.Expr) -> pl.Expr:
    """The host that a URL names."""
    return url.str.extract(_HOST)


def _of_url(url: pl.Expr, marks: Marks) -> pl.Expr:
    named = url.is_in(sorted(marks.urls))
    return (named | host_of(url).is_in(sorted(marks.hosts)) if marks.hosts else named).fill_null(value=False)


def mentions(text: pl.Expr, marks: Marks) -> pl.Expr:
    """Texts that may mention an erased URL: one that goes on after it counts too."""
    needles = [*sorted(marks.urls), *(f"://{host}" for host in sorted(marks.hosts))]
    return text.str.contains_any(needles).fill_null(value=False) if needles else pl.lit(value=False)


# The proof: what is left of it.


@dataclass(frozen=True, slots=True)
class Search:
    """How marks are looked for in values and in bytes."""

    marks: Marks
    exact: re.Pattern[bytes] | None
    bare: re.Pattern[bytes] | None
    """A host by its name alone."""
    numbers: frozenset[int]
    bodies: tuple[bytes, ...]

    @classmethod
    def of(cls, marks: Marks) -> "Search":
        """A URL ends where no character follows that would make it another one."""
        ends = rb"(?![A-Za-z0-9_~/%=&?#+-]|[.,;:!@$'()*][A-Za-z0-9])"
        parts = [re.escape(url.encode()) + ends for url in sorted(marks.urls)]
        hosts = [rb"(?i:" + re.escape(host.encode()) + rb")(?![\w-]|\.\w)" for host in sorted(marks.hosts)]
        parts += [rb"://(?:[^/?#@\s\"]*@)?" + host for host in hosts]
        bare = re.compile(b"|".join(rb"(?<![\w.-])" + host for host in hosts)) if hosts else None
        numbers = frozenset(marks.hashes) | frozenset(marks.digests)
        exact = re.compile(b"|".join(parts)) if parts else None
        return cls(marks, exact, bare, numbers, tuple(marks.bodies))

    def named(self, content: bytes) -> bool:
        """Whether bytes name an erased URL."""
        return self.exact is not None and self.exact.search(content) is not None

    def in_bytes(self, content: bytes, *, of_log: bool = False) -> list[str]:
        """What bytes that are no table hold: a URL, a digest, a hash in decimals, a host by its bare name.

        In a table's log a host stands in quotes, and what other pages say does not.
        """
        found = ["URL"] if self.named(content) else []
        if any(body in content or body.hex().encode() in content for body in self.bodies):
            found.append("digest of a body")
        if self.numbers and not self.numbers.isdisjoint(map(int, re.findall(rb"-?\d{9,20}(?!\d)", content))):
            found.append("hash")
        quoted = any(f'"{host}"'.encode() in content for host in self.marks.hosts)
        if quoted or (not of_log and self.bare is not None and self.bare.search(content)):
            found.append("host")
        return found

    def in_rows(self, rows: pl.DataFrame, table: Table) -> list[str]:
        """The columns of stored rows that hold an erased value."""
        if table is ORDERS:
            rows = rows.filter(~pl.col("kind").is_in(STAYING))
        if table is HOSTS:
            rows = rows.filter(~PAUSED)
        # The site of a row that has a host says what that host is part of: one may be forgotten and another stay.
        known = {OURS, *(("site",) if table is not ORDERS and "host" in rows.columns else ())}
        columns = [name for name in rows.columns if name not in WORDS | known]
        # Nearly always there is nothing: all columns of a type are looked at together, and each only if there is.
        return [name for name in columns if self._holds([rows[name]])] if self._holds(rows[columns]) else []

    def mentioned(self, rows: pl.DataFrame) -> int:
        """How many bodies, texts and titles of other pages name an erased URL."""
        count = 0
        for name in WORDS & set(rows.columns):
            values = rows[name].drop_nulls()
            count += sum(self.named(value.encode() if isinstance(value, str) else value) for value in values)
        return count

    def _holds(self, columns: Iterable[pl.Series]) -> bool:
        flat = [values.drop_nulls().alias("") for column in columns for values in _flat(column)]
        numbers, texts, binary = (
            pl.concat([pl.Series(dtype=dtype), *(values for values in flat if values.dtype == dtype)])
            for dtype in (pl.Int64(), pl.String(), pl.Binary())
        )
        marked = pl.concat([self.marks.hashes, self.marks.digests.alias(self.marks.hashes.name)])
        return (
            bool(numbers.is_in(marked.implode()).any())
            or bool(binary.is_in(self.marks.bodies.implode()).any())
            or self._named(texts)
        )

    def _named(self, values: pl.Series) -> bool:
        rows = pl.DataFrame({"value": values.unique()})
        hosts = pl.col("value").is_in([*self.marks.hosts, *self.marks.sites])
        if rows.select(hosts.any()).item():
            return True
        maybe = rows.filter(mentions(pl.col("value"), self.marks))["value"]
        return any(self.named(value.encode()) for value in maybe)


def _flat(values: pl.Series) -> Iterator[pl.Series]:
    """The values of a column, of lists their elements, of structs their fields."""
    if isinstance(values.dtype, pl.List):
        yield from _flat(values.explode())
    elif isinstance(values.dtype, pl.Struct):
        for part in values.struct.unnest():
            yield from _flat(part)
    else:
        yield values


def digests_of(table: Table) -> list[str]:
    """Columns of a table that hold digests of a page's text."""
    return [name for name in DIGESTS if name in table.column_names] if table.name in TABLES else []


LAST = (CHANGE_FREQUENCY.name, "pages", "frontier")
"""Tables that say what is to be erased elsewhere: they are rewritten last, so that a second attempt knows it too."""
