"""Describe the pages of a round: their main text, its fingerprints, and whether it is still what it was.

Keeps what pages of a host have in common (core.templates) in memory between the rounds of a worker, and gives the rows
of `templates` from which another worker goes on. A row lags behind by a third of the host's pages at the most: that
much is counted anew after a takeover, and until then a template may miss some blocks.

Invariant: a page is stripped by a template that has counted it, and compared with its last version by the template of
then. What is described here is of the text alone: two workers that counted the same pages say the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from crawl_pipeline.core import changes, fingerprint, rotation, stripping, templates, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.rotation import Rotation
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, PAGES, TEMPLATES
from crawl_pipeline.core.templates import Counts, Hashes
from crawl_pipeline.fetch.bodies import ReadPage
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.lake import Lake, Lease

PAGE = ["url_hash", "token_count", "main_hash", "simhash", "minhash", "removed_blocks", "removed_share", "noise_share",
        "thin"]  # fmt: skip
VERSION = ["url_hash", "main_hash", "main_sketch", "template_count", "main_blocks", "alike"]
Blocks = Sequence[int] | None
"""The blocks of a page's main text in their order, if they are followed."""
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **{name: (PAGES.schema | CHANGE_FREQUENCY.schema).get(name, pl.Boolean) for name in dict.fromkeys(PAGE + VERSION)}
}


@dataclass(slots=True)
class Templates:
    """What a worker knows of the templates of its hosts."""

    counts: dict[str, Counts] = field(default_factory=dict)
    rotation: dict[str, Rotation] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    """Pages that were counted when the host's row was written."""
    buckets: frozenset[int] = frozenset()

    def read(self, lake: Lake, lease: Lease) -> None:
        """Take over what was stored for the buckets, once."""
        if new := set(lease.buckets) - self.buckets:
            for row in lake.scan(TEMPLATES, buckets=sorted(new)).collect().iter_rows(named=True):
                self.counts[row["host"]] = templates.from_row(row)
                self.rotation[row["host"]] = rotation.from_row(row)
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

    def rotate(self, hosts: Sequence[str], last: Sequence[Blocks], now: Sequence[Blocks]) -> set[str]:
        """Count what came and went on the pages of these hosts since they were read last; hosts where more rotates."""
        readings: dict[str, list[tuple[Sequence[int], Sequence[int]]]] = {}
        for host, before, after in zip(hosts, last, now, strict=True):
            if before is not None and after is not None:
                readings.setdefault(host, []).append((self._bare(host, before), after))
        of = {host: self.rotation.setdefault(host, Rotation.none()) for host in readings}
        return {host for host, pairs in readings.items() if of[host].add(pairs, self.counts[host].pages)}

    def taken_out(self, host: str, at: int | None = None) -> Hashes:
        """The blocks that are taken out of the host's pages: its template, and what rotates; `at`: as it was then."""
        counts, noise = self.counts[host], self.rotation.get(host, Rotation.none()).noise(at)
        template = counts.template() if at is None else counts.template_for(at)
        return np.union1d(template, noise) if len(noise) else template

    def is_noise(self, host: str, before: Blocks, now: Blocks) -> bool:
        """Whether two readings of a page differ, and in noise alone."""
        if before is None or now is None or before == now or host not in self.rotation:
            return False
        return rotation.equal(before, now, self.counts[host].template(), self.rotation[host].noise())

    def rows(self, hosts: dict[str, int], policy: Policy) -> pl.DataFrame:
        """Rows of those hosts (with their buckets) whose counts have grown enough, or of which more blocks moved."""
        worth = [host for host in hosts if self._is_worth_storing(host, policy)]
        self.stored |= {host: self.counts[host].pages for host in worth}
        moving = {host: self.rotation.setdefault(host, Rotation.none()) for host in worth}
        for known in moving.values():
            known.events = 0
        return TEMPLATES.frame(
            [{"bucket": hosts[host], "host": host} | templates.row(self.counts[host]) | rotation.row(known)
             for host, known in moving.items()]
        )  # fmt: skip

    def _is_worth_storing(self, host: str, policy: Policy) -> bool:
        moved = host in self.rotation and self.rotation[host].is_worth_storing()
        counts, stored = self.counts[host], self.stored.get(host, 0)
        return moved or templates.is_worth_storing(counts, stored, policy.text.template_pages)

    def _bare(self, host: str, blocks: Sequence[int]) -> list[int]:
        """What is left of an earlier reading by the template of now: what has become template has not gone."""
        template = set(self.counts[host].template().tolist())
        return [block for block in blocks if block not in template]


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
    for host, of_host in by_host.items():
        known.add(host, of_host, policy)
    rows = _described(read, known, before, policy)
    return Described(rows, known.rows({_host(visit): visit.bucket for visit in read}, policy))


def _described(read: Sequence[Visit], known: Templates, before: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    pages, hosts = [visit.page for visit in read if visit.page], [_host(visit) for visit in read]
    keys = pl.DataFrame({"url_hash": [visit.target.url_hash for visit in read]})
    versions = keys.join(
        before.select("url_hash", "main_hash", "main_sketch", "template_count", "main_blocks").unique("url_hash"),
        on="url_hash", how="left", maintain_order="left",
    )  # fmt: skip
    last = [rotation.unpacked(blocks) for blocks in versions["main_blocks"]]
    now, sequences = _read(pages, hosts, known, last)
    then = _as_then(pages, hosts, versions["template_count"].to_list(), now, known)
    noise = [known.is_noise(*of) for of in zip(hosts, last, sequences, strict=True)]
    alike = changes.alike(then, versions, policy.text.alike) | pl.Series(noise)
    thin = pl.col("token_count") < fingerprint.FEWEST
    rows = keys.hstack(now).with_columns(
        alike, thin=thin, template_count=pl.Series([known.counts[host].pages for host in hosts]),
        main_blocks=pl.Series([rotation.packed(blocks) for blocks in sequences], dtype=pl.Binary),
    )  # fmt: skip
    return rows.select(pl.col(name).cast(of) for name, of in _SCHEMA.items())


def _read(
    pages: Sequence[ReadPage], hosts: Sequence[str], known: Templates, last: Sequence[Blocks]
) -> tuple[pl.DataFrame, list[Blocks]]:  # fmt: skip
    """Strip pages, and once more where they show that more of their host's blocks rotate; and their blocks in order."""
    of_host = {host: known.taken_out(host) for host in set(hosts)}
    now = _stripped(pages, [of_host[host] for host in hosts])
    sequences = _sequences(pages, now)
    if grown := known.rotate(hosts, last, sequences):
        places = [place for place, host in enumerate(hosts) if host in grown]
        of_host |= {host: known.taken_out(host) for host in grown}
        again = _stripped([pages[place] for place in places], [of_host[hosts[place]] for place in places])
        numbered = now.with_row_index("place").filter(~pl.col("place").is_in(places))
        changed = again.with_columns(place=pl.Series(places, dtype=pl.UInt32)).select(numbered.columns)
        now = pl.concat([numbered, changed]).sort("place").drop("place")
        sequences = _sequences(pages, now)
    return now, sequences


def _sequences(pages: Sequence[ReadPage], stripped: pl.DataFrame) -> list[Blocks]:
    removed = stripped["removed_blocks"].to_list()
    return [rotation.sequence(page.text or "", page.blocks, gone) for page, gone in zip(pages, removed, strict=True)]


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
    pages: Sequence[ReadPage], hosts: Sequence[str], at: Sequence[int | None], now: pl.DataFrame, known: Templates
) -> pl.DataFrame:  # fmt: skip
    """main_hash and main_sketch by the templates as they were: done again only for pages whose template has grown."""
    of_host = {host: len(known.taken_out(host)) for host in set(hosts)}
    of_then = {(host, count): known.taken_out(host, count) for host, count in {*zip(hosts, at, strict=True)}}
    then = {}
    for place, (host, count) in enumerate(zip(hosts, at, strict=True)):
        if count is not None and len(template := of_then[host, count]) != of_host[host]:
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
