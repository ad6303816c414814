"""Which pages of a host are worth nothing: they repeat an earlier page of it, or say next to nothing.

Fingerprints in, a verdict per page out; what is done about many such pages is core.traps'. Pages are compared within
their host, where they share templates and mistakes are easy, so the precision-oriented rule counts (`fingerprint.near`
with fewer bits). Two pages of one batch are compared too: the earlier is good, the later repeats it.

Pages that differ in numbers are different pages, for a number may be a price. Months of a calendar and pages that count
differ in nothing else either; what gives them away is that most of their links lead to the same URL with other numbers.

Invariant: a page is compared with pages of other URLs only, and only with earlier ones; so the first page of a content
is good, whatever comes after it.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from crawl_pipeline.core import fingerprint, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.traps import GOOD

SIGNED = {"host": pl.String, "url_hash": pl.Int64, "url": pl.String, "bare_hash": pl.Int64,
          "text_hash": pl.Int64} | dict(fingerprint.SCHEMA)  # fmt: skip
"""Columns of the pages that are compared. `text_hash`: hash of all the text, `bare_hash`: with all numbers alike."""
CANDIDATES = 4
"""Earlier pages with the nearest SimHashes that a page is compared with in full."""
TOGETHER = 4_000_000
"""Pairs whose SimHashes are compared at a time: bounds memory."""


NOBODY = pl.DataFrame(schema=SIGNED)


def bare_hashes(texts: pl.Series) -> pl.Series:
    """Hash texts with all numbers alike."""
    bare = texts.str.replace_all(r"\d+", "0")
    return pl.Series("bare_hash", [None if text is None else urls.hash64(text) for text in bare], dtype=pl.Int64)


def judged(pages: pl.DataFrame, earlier: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Add to pages, in the order of their visits, `verdict` and `like`, the URL of the page that each repeats.

    Both frames have the columns SIGNED. Pages also have `steps`: most of its links lead to its URL with other numbers;
    and may have `soft404`, which is believed.
    """
    if "soft404" not in pages.columns:
        pages = pages.with_columns(soft404=pl.lit(value=False))
    everything = pl.concat([earlier.select(list(SIGNED)), pages.select(list(SIGNED))]).with_row_index("_place")
    rows = pages.with_columns(_place=pl.int_range(pl.len(), dtype=pl.UInt32) + earlier.height)
    # What a host has in common is learnt as pages come: of two copies the earlier may have the longer main text.
    exact = pl.concat([_same(rows, everything, name) for name in ("main_hash", "text_hash")]).unique(
        "_place", keep="first"
    )
    near = _alike(rows, everything)
    counted = _same(rows.filter("steps"), everything, "bare_hash")
    near = pl.concat([near, counted]).unique("_place", keep="first", maintain_order=True).rename({"_like": "_near"})
    exact = exact.rename({"_like": "_exact"})
    rows = rows.join(exact, on="_place", how="left").join(near, on="_place", how="left").sort("_place")
    thin = pl.col("token_count").fill_null(0) < policy.traps.thin_tokens
    verdict = (
        pl.when(pl.col("soft404").fill_null(value=False)).then(pl.lit("soft404"))
        .when(pl.col("_exact").is_not_null()).then(pl.lit("exact"))
        .when(pl.col("_near").is_not_null()).then(pl.lit("near"))
        .when(thin).then(pl.lit("thin"))
        .otherwise(pl.lit(GOOD))
    )  # fmt: skip
    return rows.with_columns(verdict=verdict, like=pl.coalesce("_exact", "_near")).drop("_place", "_exact", "_near")


def _same(rows: pl.DataFrame, everything: pl.DataFrame, column: str) -> pl.DataFrame:
    """The first page of the host with the same words (_place, _like), by a hash of them."""
    worded = everything.filter((pl.col("token_count") > 0) & pl.col(column).is_not_null())
    first = worded.unique(["host", column], keep="first", maintain_order=True)
    found = rows.filter(pl.col("token_count") > 0).join(first, on=["host", column], suffix="_first")
    other = (pl.col("_place_first") < pl.col("_place")) & (pl.col("url_hash_first") != pl.col("url_hash"))
    return found.filter(other).select("_place", _like="url_first")


def _alike(rows: pl.DataFrame, everything: pl.DataFrame) -> pl.DataFrame:
    """A page of the host that is nearly the same (_place, _like)."""
    parts = []
    hashed = everything.filter(pl.col("simhash").is_not_null() & pl.col("host").is_in(rows["host"].unique().implode()))
    for (host,), known in hashed.group_by("host", maintain_order=True):
        parts += _close(rows.filter((pl.col("host") == host) & pl.col("simhash").is_not_null()), known)
    if not parts:
        return pl.DataFrame(schema={"_place": pl.UInt32, "_like": pl.String})
    places = np.concatenate(parts)
    one, other = everything[places[:, 0]], everything[places[:, 1]]
    alike = fingerprint.near(one, other, bits=fingerprint.BITS_PRECISE)
    pairs = pl.DataFrame({"_place": one["_place"], "_like": other["url"]}).filter(alike)
    return pairs.unique("_place", keep="first", maintain_order=True)


def _close(rows: pl.DataFrame, known: pl.DataFrame) -> list[npt.NDArray[np.int64]]:
    """Places of pages and of the nearest earlier ones, pair by pair."""
    mine, theirs = rows["simhash"].to_numpy().view(np.uint64), known["simhash"].to_numpy().view(np.uint64)
    at, others = rows["_place"].to_numpy(), known["_place"].to_numpy()
    own, named = rows["url_hash"].to_numpy(), known["url_hash"].to_numpy()
    step, found = max(1, TOGETHER // max(1, len(theirs))), []
    for first in range(0, len(mine), step):
        part = slice(first, first + step)
        bits = np.bitwise_count(mine[part, None] ^ theirs[None, :])
        open_ = (others[None, :] < at[part, None]) & (named[None, :] != own[part, None])
        bits = np.where(open_ & (bits <= fingerprint.BITS_PRECISE), bits, 255)
        nearest = np.argsort(bits, axis=1, kind="stable")[:, :CANDIDATES]
        row, place = np.nonzero(np.take_along_axis(bits, nearest, axis=1) < 255)
        found.append(np.stack([at[part][row], others[nearest[row, place]]], axis=1).astype(np.int64))
    return found
