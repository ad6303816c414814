"""Fingerprints of texts, and what they say of two texts: the same, nearly the same, or not.

A text's fingerprints: the exact hash of its words, a SimHash of 64 bits and a MinHash of 128 values, both over the set
of its shingles of three words. They are stored, so they never change: no version of a library, process or order of
texts has a part in them. Texts of fewer than FEWEST words have only the exact hash.

`near` is the full rule, in two stages: candidates by `bands`, judged by both signatures together, since each alone
accepts too much. Texts without words are like no other, not even each other.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
from xxhash import xxh3_64_intdigest

from crawl_pipeline.core import sketches, tokens

FEWEST, MANY = 10, 50
"""Words below which only equal texts are compared, and from which the full rule holds."""
LIKE = 0.81
"""Likeness of the shingles from which two texts are alike: with words in fours for threes it would be about 0.8."""
BITS, BITS_PRECISE, BITS_SHORT = 14, 8, 3
"""Bits in which the SimHashes of two texts may differ: long ones; long ones where a mistake costs more; short ones."""
BANDS, ROWS = 16, 8
"""How a MinHash is cut into keys: two texts of Jaccard index 0.8 share one with probability 0.95, of 0.5 with 0.06."""

SCHEMA = pl.Schema({"token_count": pl.Int32, "main_hash": pl.Int64, "simhash": pl.Int64, "minhash": pl.Binary})

Column = TypeVar("Column", pl.Series, pl.Expr)

# Both signatures estimate one number; they are weighted by the inverse of their variances. At 0.8 these are
# J (1 - J) / 128 = 0.0013 of the MinHash, and 0.011 of the SimHash: 2.9 bits, of which each is worth 0.036.
_MINHASH_WEIGHT = 0.9
_BYTES = 4 * sketches.PERMUTATIONS
_VALUES = pl.Array(pl.UInt32, sketches.PERMUTATIONS)
# Five blocks of the 64 bits: three bits that differ leave two of them intact (Manku, Jain, Das Sarma, WWW 2007).
_BLOCKS = ((0, 13), (13, 13), (26, 13), (39, 13), (52, 12))
_INDEXED = 3


def signatures(texts: pl.Series) -> pl.DataFrame:
    """Give the fingerprints of each text, columns as in SCHEMA; all null for null.

    token_count: words; main_hash: hash of all words in order; simhash, minhash (128 numbers of 32 bits, little endian):
    null under FEWEST words.
    """
    words = tokens.hashed(texts)
    enough = words.counts >= FEWEST
    found = pl.DataFrame(
        {
            "token_count": pl.Series(words.counts, dtype=pl.Int32),
            "main_hash": _exact(words),
            **_sketches(words, enough),
        },
        schema=SCHEMA,
    )
    return found.select(pl.when(texts.is_not_null()).then(pl.all()))


def _exact(words: tokens.Words) -> pl.Series:
    """Hash the hashes of each text's words."""
    bounds = pairwise([0, *(8 * np.cumsum(words.counts)).tolist()])
    stream = memoryview(words.hashes.astype("<u8", copy=False).tobytes())
    digests = [xxh3_64_intdigest(stream[start:end]) for start, end in bounds]
    return pl.Series(digests, dtype=pl.UInt64).reinterpret(signed=True)


def _sketches(words: tokens.Words, enough: npt.NDArray[np.bool_]) -> dict[str, pl.Series]:
    counts = words.counts[enough]
    simhash: list[int | None] = [None] * len(enough)
    minhash: list[bytes | None] = [None] * len(enough)
    if len(counts):
        features, distinct = sketches.shingles(words.hashes[np.repeat(enough, words.counts)], counts)
        bits = sketches.simhash(features, distinct).view(np.int64).tolist()
        values = sketches.minhash(features, distinct).astype("<u4", copy=False).tobytes()
        for place, (number, row) in enumerate(zip(np.flatnonzero(enough).tolist(), bits, strict=True)):
            simhash[number] = row
            minhash[number] = values[place * _BYTES : (place + 1) * _BYTES]
    return {"simhash": pl.Series(simhash, dtype=pl.Int64), "minhash": pl.Series(minhash, dtype=pl.Binary)}


def shingle_hash(shingle: Sequence[str]) -> int:
    """Hash one shingle, SHINGLE words as `tokens.words` gives them, to 32 bits: the `hashfunc` for datasketch."""
    words = np.array([tokens.word_hash(word) for word in shingle], np.uint64)
    (feature,), _ = sketches.shingles(words, np.array([len(words)]))
    return int(feature) & 0xFFFFFFFF


def distance(a: Column, b: Column) -> Column:
    """Count the bits in which SimHashes differ; of columns or expressions."""
    return (a ^ b).bitwise_count_ones()


def jaccard(a: pl.Series, b: pl.Series) -> pl.Series:
    """Estimate the Jaccard index of the shingles of pairs by their MinHashes; null where one has none."""
    both = a.is_not_null() & b.is_not_null()
    equal = np.count_nonzero(values(a.filter(both)) == values(b.filter(both)), axis=1) / sketches.PERMUTATIONS
    found = np.full(len(a), np.nan)
    found[both.to_numpy()] = equal
    return pl.Series("jaccard", found, nan_to_null=True)


def values(minhash: pl.Series) -> sketches.Signatures:
    """Give stored MinHashes as an array, one row each; none of them is null."""
    return minhash.bin.reinterpret(dtype=_VALUES, endianness="little").to_numpy().reshape(-1, sketches.PERMUTATIONS)


def likeness(a: pl.DataFrame, b: pl.DataFrame) -> pl.Series:
    """Estimate the Jaccard index of pairs, a row of `a` and the row of `b` beside it, by both signatures.

    A bit differs with probability angle / pi (Charikar, STOC 2002), and the cosine of sets of one size is 2J / (1 + J).
    """
    cosine = (distance(a["simhash"], b["simhash"]) * (math.pi / 64)).cos()
    by_bits = cosine / (2 - cosine)
    return (_MINHASH_WEIGHT * jaccard(a["minhash"], b["minhash"]) + (1 - _MINHASH_WEIGHT) * by_bits).alias("likeness")


def near(a: pl.DataFrame, b: pl.DataFrame, *, bits: int = BITS) -> pl.Series:
    """Tell of each pair, a row of `a` and the row of `b` beside it, whether the texts are nearly the same.

    Equal; or of a likeness of at least LIKE and SimHashes within `bits`, or within BITS_SHORT if one of them is short.
    Columns as in SCHEMA. Pairs may come from `bands` or from anywhere else.
    """
    words = pl.select(pl.min_horizontal(a["token_count"], b["token_count"])).to_series()
    differ = distance(a["simhash"], b["simhash"])
    close = ((words >= MANY) & (differ <= bits)) | (differ <= min(bits, BITS_SHORT))
    equal = (a["main_hash"] == b["main_hash"]) & (words > 0)
    return (equal | (close & (likeness(a, b) >= LIKE))).fill_null(value=False).alias("near")


def bands(minhash: pl.Series) -> pl.Series:
    """Give the BANDS keys of each MinHash as a list; texts that share a key are candidates. Null for null.

    A key holds the number of its band, so that keys of all bands may stand in one column.
    """
    given = values(minhash.drop_nulls()).astype("<u4", copy=False).view("<u8").reshape(-1, BANDS, ROWS // 2)
    keys = np.broadcast_to(np.arange(BANDS, dtype=np.uint64), given.shape[:2])
    for pair in range(ROWS // 2):
        keys = tokens.mixed(keys ^ given[:, :, pair])
    rows = pl.DataFrame({"row": minhash.is_not_null().arg_true(), "bands": keys.view(np.int64)})
    every = pl.DataFrame({"row": pl.Series(range(len(minhash)), dtype=pl.UInt32)})
    return every.join(rows, on="row", how="left", maintain_order="left")["bands"].arr.to_list()


def within(fingerprints: pl.DataFrame, queries: pl.DataFrame, k: int = BITS_SHORT) -> pl.DataFrame:
    """Find all pairs of a fingerprint and a query within `k` bits: id, query_id, distance, in the order of the ids.

    Both frames have id and simhash. Up to 3 bits by an index: ten tables, each keyed by two of five blocks, of which
    one is intact. Beyond that all pairs are compared.
    """
    known = fingerprints.lazy().select("id", "simhash").drop_nulls()
    asked = queries.lazy().select(query_id="id", wanted="simhash").drop_nulls()
    close = distance(pl.col("simhash"), pl.col("wanted"))
    if k > _INDEXED:
        joined = [known.join(asked, how="cross")]
    else:
        joined = [
            known.with_columns(key=_key(pl.col("simhash"), first, second)).join(
                asked.with_columns(key=_key(pl.col("wanted"), first, second)), on="key"
            )
            for first in range(len(_BLOCKS))
            for second in range(first + 1, len(_BLOCKS))
        ]
    found = [pairs.select("id", "query_id", distance=close).filter(pl.col("distance") <= k) for pairs in joined]
    return pl.concat(found).unique().sort("query_id", "id").collect()


def _key(simhash: pl.Expr, *blocks: int) -> pl.Expr:
    """Put the named blocks of the bits side by side, in place: whatever lies outside of them is 0."""
    mask = sum(((1 << width) - 1) << offset for offset, width in (_BLOCKS[block] for block in blocks))
    return simhash & (mask - (1 << 64) if mask >= 1 << 63 else mask)
