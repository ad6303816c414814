"""Describe the pages of a round: their main text, its fingerprints, and whether it is still what it was.

Keeps what pages of a host have in common (core.templates) in memory between the rounds of a worker, and gives the rows
of `templates` from which another worker goes on. A row lags behind by a third of the host's pages at the most: that
much is counted anew after a takeover, and until then a template may miss some blocks.

Invariant: a page is stripped by a template that has counted it, and compared with its last version by the template of
then. What is described here is of the text alone: two workers that counted the same pages say the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from crawl_pipeline.core import changes, fingerprint, stripping, templates, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, PAGES, TEMPLATES
from crawl_pipeline.core.templates import Counts, Hashes
from crawl_pipeline.fetch.bodies import ReadPage
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.lake import Lake, Lease

PAGE = ["url_hash", "token_count", "main_hash", "simhash", "minhash", "removed_blocks", "removed_share", "noise_share",
        "thin"]  # fmt: skip
VERSION = ["url_hash", "main_hash", "main_sketch", "template_count", "alike"]
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{name: (PAGES.schema | CHANGE_FREQUENCY.schema).get(name, pl.Boolean) for name in dict.fromkeys(PAGE + VERSION)}
}


@dataclass(slots=True)
class Templates:
    """What a worker knows of the templates of its hosts."""

    counts: dict[str, Counts] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    """Pages that were counted when the host's row was written."""
    buckets: frozenset[int] = frozenset()

    def read(self, lake: Lake, lease: Lease) -> None:
        """Take over what was stored for the buckets, once."""
        if new := set(lease.buckets) - self.buckets:
            for row in lake.scan(TEMPLATES, buckets=sorted(new)).collect().iter_rows(named=True):
                self.counts[row["host"]] = templates.from_row(row)
                self.stored[row["host"]] = row["counted_count"]
            self.buckets |= new

    def add(self, host: str, visits: Sequence[Visit], policy: Policy) -> Counts:
        """Count the pages of one host."""
        blocks = [templates.distinct(visit.page.blocks) for visit in visits if visit.page]
        numbers = [visit.target.url_hash for visit in visits]
        rules = policy.text
        known = self.counts.get(host, Counts())
        self.counts[host] = templates.add(known, blocks, numbers, rules.template_pages, rules.template_share)
        return self.counts[host]

    def rows(self, hosts: dict[str, int], policy: Policy) -> pl.DataFrame:
        """Rows of those hosts (with their buckets) whose counts have grown enough."""
        worth = [
            host
            for host in hosts
            if templates.is_worth_storing(self.counts[host], self.stored.get(host, 0), policy.text.template_pages)
        ]
        self.stored |= {host: self.counts[host].pages for host in worth}
        return TEMPLATES.frame(
            [{"bucket": hosts[host], "host": host} | templates.row(self.counts[host]) for host in worth]
        )


@dataclass(frozen=True, slots=True)
class Described:
    """One row per page that was read, and rows of `templates`."""

    rows: pl.DataFrame
    templates: pl.DataFrame

    @property
    def pages(self) -> pl.DataFrame:
        """Columns of `pages`, by url_hash."""
        return self.rows.select(PAGE)

    @property
    def versions(self) -> pl.DataFrame:
        """What `core.recrawl` compares, by url_hash."""
        return self.rows.select(VERSION)


def describe(known: Templates, visits: Sequence[Visit], before: pl.DataFrame, policy: Policy) -> Described:
    """Describe what was read; before: rows of `change_frequency` of the pages."""
    read = sorted((visit for visit in visits if visit.page and visit.page.text is not None), key=_host)
    if not read:
        return Described(pl.DataFrame(schema=_SCHEMA), TEMPLATES.empty())
    by_host: dict[str, list[Visit]] = {}
    for visit in read:
        by_host.setdefault(_host(visit), []).append(visit)
    counts = {host: known.add(host, of_host, policy) for host, of_host in by_host.items()}
    rows = _described(read, [counts[_host(visit)] for visit in read], before, policy)
    return Described(rows, known.rows({_host(visit): visit.bucket for visit in read}, policy))


def _described(read: Sequence[Visit], counts: Sequence[Counts], before: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    pages = [visit.page for visit in read if visit.page]
    of_host = {id(of): of.template() for of in counts}
    now = _stripped(pages, [of_host[id(of)] for of in counts])
    rows = pl.DataFrame(
        {"url_hash": [visit.target.url_hash for visit in read], "template_count": [of.pages for of in counts]}
    ).hstack(now)
    known = rows.select("url_hash").join(
        before.select("url_hash", "main_hash", "main_sketch", "template_count").unique("url_hash"),
        on="url_hash", how="left", maintain_order="left",
    )  # fmt: skip
    then = _as_then(pages, counts, known["template_count"].to_list(), now, of_host)
    alike = changes.alike(then, known, policy.text.alike)
    thin = pl.col("token_count") < fingerprint.FEWEST
    return rows.with_columns(alike, thin=thin).select(pl.col(name).cast(of) for name, of in _SCHEMA.items())


def _stripped(pages: Sequence[ReadPage], of_host: Sequence[Hashes]) -> pl.DataFrame:
    """Strip pages and take fingerprints of what is left; only equality counts where nearly all would have gone."""
    texts = [page.text or "" for page in pages]
    stripped = stripping.strip(texts, [page.blocks for page in pages], [page.regions for page in pages], of_host)
    marks = fingerprint.signatures(stripped["main"])
    whole = stripped["removed_share"] > stripping.MOST_REMOVED
    found = stripped.drop("main").hstack(marks)
    found = found.with_columns(pl.when(~whole).then(pl.col(name)).alias(name) for name in ("simhash", "minhash"))
    return found.with_columns(changes.sketch(found["minhash"]))


def _as_then(
    pages: Sequence[ReadPage], counts: Sequence[Counts], at: Sequence[int | None], now: pl.DataFrame,
    of_host: dict[int, Hashes],
) -> pl.DataFrame:  # fmt: skip
    """main_hash and main_sketch by the templates as they were: done again only for pages whose template has grown."""
    then = {}
    for place, (of, count) in enumerate(zip(counts, at, strict=True)):
        if count is not None and len(template := of.template_for(count)) != len(of_host[id(of)]):
            then[place] = template
    columns = now.select("main_hash", "main_sketch")
    if not then:
        return columns
    again = _stripped([pages[place] for place in then], list(then.values())).select(columns.columns)
    numbered = columns.with_row_index("place")
    changed = again.with_columns(place=pl.Series(list(then), dtype=pl.UInt32))
    return numbered.update(changed, on="place", include_nulls=True).select(columns.columns)


def _host(visit: Visit) -> str:
    return urls.host(visit.target.url)
