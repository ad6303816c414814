"""Content-seen: which of the bodies that a round has read are stored already, and by which round.

Reads only. A content counts as stored if a committed round has stored it, whatever bucket that was in: what a page
relies on is there for every reader that sees the page. That is always asked of `contents` itself. In a large lake,
filters tell which of its files to ask: a file's filter knows the hashes in it.

* A file never changes, so neither does its filter: no filter is ever out of date. A file that is new has none yet and
  is read; one that was joined to others is no longer among the live ones, and its filter is dropped.
* A filter holds rows of rounds that are not committed too: they may be by the time it is asked.
* Without a filter, or with one that is wrong in a rare case, files are read in vain. Nothing else can happen.

Workers that store the same content at the same time do not see each other's, and both store it. That costs bytes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from crawl_pipeline.core.contents import Key, short
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.seen import Filter
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.lake import Lake

Stored = Mapping[Key, int]
"""Contents, and for each the first round that stored it."""


@dataclass(slots=True)
class ContentSeen:
    """Filters of the files of `contents`, kept from round to round."""

    filters: dict[str, Filter] = field(default_factory=dict)

    def stored(self, lake: Lake, visits: Iterable[Visit], policy: Policy) -> Stored:
        """Those contents of the visits that a committed round has stored."""
        hashes = {visit.page.body_hash for visit in visits if visit.page and visit.page.body_hash is not None}
        if not hashes:
            return {}
        asked = pl.Series("body_hash", sorted(hashes), dtype=pl.Binary)
        large = lake.size("contents").rows >= policy.contents.filter_from
        files = self._may_hold(lake, asked, policy) if large else None
        among = pl.col("body_hash").is_in(asked.implode())
        rows = lake.scan("contents", where=among, files=files).group_by("body_hash", "charset")
        found = rows.agg(pl.col("round").min()).collect()
        return {(body_hash, charset or ""): round_ for body_hash, charset, round_ in found.iter_rows()}

    def _may_hold(self, lake: Lake, asked: pl.Series, policy: Policy) -> list[str]:
        """Files that may hold some of the hashes."""
        live = lake.files("contents")
        kept = {file: self.filters.get(file) or _filter(lake, file, policy) for file in live}
        self.filters = kept
        numbers = short(asked)
        return [file for file, of in kept.items() if of.maybe(numbers).any()]


def _filter(lake: Lake, file: str, policy: Policy) -> Filter:
    hashes = lake.rows_in("contents", [file]).select("body_hash").collect()["body_hash"]
    return Filter.of(short(hashes), policy.contents.false_positives)
