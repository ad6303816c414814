"""The truth that near-duplicate rules are held to: all pairs of texts that share most of their shingles, exactly.

Nothing of the product takes part, neither its words nor its hashes. Pairs are found by prefixes: of two sets with a
Jaccard index of at least `least`, each has one of the other's among its rarest (Bayardo, Ma, Srikant, WWW 2007).
"""

import re

import numpy as np
import numpy.typing as npt
import polars as pl

LEAST, WIDTH, FEWEST = 0.8, 4, 10
"""The Jaccard index, the words of a shingle, the words of a text that takes part."""
_WORD = re.compile(r"\w+")

Set = npt.NDArray[np.uint64]


def shingle_sets(texts: list[str]) -> dict[int, Set]:
    """Give the distinct shingles of each text that is long enough, as numbers, by its place."""
    numbers: dict[str, int] = {}
    words = [[numbers.setdefault(word, len(numbers)) for word in _WORD.findall(text.lower())] for text in texts]
    return {place: _shingles(np.array(of, np.uint64)) for place, of in enumerate(words) if len(of) >= FEWEST}


def _shingles(words: Set) -> Set:
    made = np.zeros(len(words) - WIDTH + 1, np.uint64)
    for offset in range(WIDTH):  # 64 bits: of a few million shingles hardly two agree by chance
        made = made * np.uint64(0x9E3779B97F4A7C15) + words[offset : len(made) + offset] + np.uint64(1)
        made ^= made >> np.uint64(29)
    return np.unique(made)


def jaccard(a: Set, b: Set) -> float:
    """The index itself."""
    shared = len(np.intersect1d(a, b, assume_unique=True))
    return shared / (len(a) + len(b) - shared)


def pairs(sets: dict[int, Set], least: float = LEAST) -> set[tuple[int, int]]:
    """Find all pairs of at least that index."""
    sizes = pl.DataFrame({"text": list(sets), "size": [len(of) for of in sets.values()]})
    members = pl.DataFrame(
        {"text": np.repeat(list(sets), sizes["size"]), "member": np.concatenate(list(sets.values()))}
    )
    ranked = (
        members.with_columns(spread=pl.len().over("member"))
        .join(sizes, on="text")
        .sort("text", "spread", "member")
        .with_columns(rank=pl.int_range(pl.len()).over("text"))
    )
    rarest = ranked.filter(pl.col("rank") <= pl.col("size") - (least * pl.col("size")).ceil())
    rarest = rarest.select("text", "member", "size")
    may_be = (
        rarest.join(rarest, on="member", suffix="_other")
        .filter(pl.col("text") < pl.col("text_other"))
        .filter(pl.min_horizontal("size", "size_other") >= least * pl.max_horizontal("size", "size_other"))
        .select("text", "text_other")
        .unique()
    )
    return {(a, b) for a, b in may_be.iter_rows() if jaccard(sets[a], sets[b]) >= least}
