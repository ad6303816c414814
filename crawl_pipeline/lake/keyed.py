"""Rows of given URLs: where they lie is found in `url_hash` alone, then only the blocks that hold some are read.

Reads only. A frontier knows millions of URLs of which a reader wants some thousands; decoding every column of all of
them to throw nearly all away is what made a round cost more the more was known. Rows that are wanted together lie
together (what is due on one day), so that few blocks hold them.

Invariant: gives exactly what filtering all rows by `url_hash` gives. A block is a guess of where a row group lies: a
wrong one costs time, never a row.
"""

import numpy as np
import polars as pl

from crawl_pipeline.lake.delta import ROW_GROUP, DeltaTable

_AT = "_at"


def among(hashes: pl.Series) -> pl.Expr:
    """Say which rows are of the given URLs."""
    return pl.col("url_hash").is_in(hashes.unique().implode())


def rows(opened: DeltaTable, live: pl.DataFrame, hashes: pl.Series, where: pl.Expr | None = None) -> pl.LazyFrame:
    """Rows of the given live files that are of the given URLs and satisfy `where`; places are looked up at once."""
    wanted, stored = among(hashes), opened.rows(live)
    if live.is_empty() or hashes.is_empty():
        return stored.filter(pl.lit(value=False))
    places = stored.with_row_index(_AT).filter(wanted).select(_AT).collect()[_AT]
    chosen = wanted if where is None else wanted & where
    found = [stored.slice(first, length).filter(chosen) for first, length in blocks(places, live["rows"])]
    return pl.concat(found) if found else stored.filter(pl.lit(value=False))


def blocks(places: pl.Series, sizes: pl.Series) -> list[tuple[int, int]]:
    """Stretches (first row, length) of whole blocks that hold the places, counted through all files."""
    ends = sizes.cum_sum().to_numpy()
    at = places.to_numpy().astype(np.int64)
    file = np.searchsorted(ends, at, side="right")
    starts = (ends - sizes.to_numpy())[file]
    first = np.unique(starts + (at - starts) // ROW_GROUP * ROW_GROUP)
    # A stretch goes on while the next block begins where a full one would have ended.
    stretches = np.split(first, np.flatnonzero(np.diff(first) > ROW_GROUP) + 1) if len(first) else []
    total = int(sizes.sum())
    return [(int(s[0]), min(int(s[-1]) + ROW_GROUP, total) - int(s[0])) for s in stretches]
