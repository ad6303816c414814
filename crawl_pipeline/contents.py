"""Content-seen: which of the bodies that a round has read are stored already, and by which round.

Reads only. A content counts as stored if a committed round has stored it, whatever bucket that was in: what a page
relies on is there for every reader that sees the page. Workers that store the same content at the same time do not see
each other's and both store it; that costs bytes, and nothing else.
"""

from collections.abc import Iterable, Mapping

import polars as pl

from crawl_pipeline.core.contents import Key
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.lake import Lake

Stored = Mapping[Key, int]
"""Contents, and for each the first round that stored it."""


def stored(lake: Lake, visits: Iterable[Visit]) -> Stored:
    """Those contents of the visits that a committed round has stored."""
    hashes = {visit.page.body_hash for visit in visits if visit.page and visit.page.body_hash is not None}
    if not hashes:
        return {}
    among = pl.col("body_hash").is_in(pl.Series(sorted(hashes), dtype=pl.Binary).implode())
    rows = lake.scan("contents", where=among).group_by("body_hash", "charset").agg(pl.col("round").min()).collect()
    return {(body_hash, charset): round_ for body_hash, charset, round_ in rows.iter_rows()}
