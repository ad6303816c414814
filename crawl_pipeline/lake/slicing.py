"""Slices: the URLs of a large host lie in parts of a bucket's base, each a range of its URLs.

Decides which hosts are large and where their URLs are cut. A round asks one host for some dozen URLs, so it need not
read the millions that it has: a plan reads the rows of all other hosts (part 0), and slices of the large ones in an
order drawn anew for each round, until it has enough. One scheduler still asks the host; only its storage is split.

Ranges of URLs are prefixes of paths: a slice compresses as well as the whole, and a trap in one corner of a site fills
few slices. The cuts are quantiles of a sample, so that slices are of like size whatever the paths look like: a hash of
the first segment would put all of /wiki/ into one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

SAMPLE = 50_000
"""URLs of one host that its cuts are made from: a slice is then off its size by some per cent at most."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Where a host's URLs are cut: its first part, and the first URL of each further part."""

    first: int
    at: pl.Series


def cuts(rows: pl.LazyFrame, most: int) -> dict[str, Cuts]:
    """Cut the hosts that have more than `most` of the rows into slices of about that size."""
    large = rows.group_by("host").len().filter(pl.col("len") > most).sort("host").collect()
    found, first = dict[str, Cuts](), 1
    for host, count in large.iter_rows():
        at = _quantiles(rows.filter(pl.col("host") == host), count, -(-count // most))
        found[host] = Cuts(first, at)
        first += len(at) + 1
    return found


def _quantiles(rows: pl.LazyFrame, count: int, parts: int) -> pl.Series:
    one_in = max(1, count // SAMPLE)
    urls = rows.filter(pl.col("url_hash") % one_in == 0).select("url").collect()["url"].sort()
    return urls.gather([len(urls) * part // parts for part in range(1, parts)]).unique(maintain_order=True)


def sliced(rows: pl.DataFrame, cuts: Mapping[str, Cuts]) -> pl.DataFrame:
    """Say for each row which part it belongs to; the order stays."""
    part = pl.Series("part", [0], dtype=rows.schema["part"]).new_from_index(0, rows.height)
    for host, cut in cuts.items():
        own = rows["host"] == host
        places = cut.at.search_sorted(rows["url"], side="right").cast(part.dtype) + cut.first
        part = places.zip_with(own, part)
    return rows.with_columns(part.alias("part"))
