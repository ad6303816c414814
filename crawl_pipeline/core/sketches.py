"""SimHash and MinHash of sets of features that are 64-bit numbers, for many documents at once.

Pure arithmetic on arrays: features of all documents lie one after the other, `counts` says how many each document has,
and no document has none. Loops run over bytes, permutations and chunks, never over features.
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from crawl_pipeline.core.tokens import Counts, Hashes, mixed

PERMUTATIONS, SEED = 128, 1
"""Values of a MinHash, and datasketch's default seed: its permutations are ours."""
SHINGLE = 3
"""Words in a row that make a feature."""

Signatures = npt.NDArray[np.uint32]

_U = np.uint64
_MULTIPLIER = _U(0x9E3779B97F4A7C15)
# The lowest bit of each byte: eight lanes of eight bits in one number, which spill over after 255 features.
_LANES = _U(0x0101010101010101)
_LANE_ROOM = 255
# Features whose permutation is kept at a time: two arrays of 4 bytes each, so that they stay in a core's own cache.
_CHUNK = 1 << 17


def shingles(words: Hashes, counts: Counts) -> tuple[Hashes, Counts]:
    """Give the distinct features of each document, sorted, and how many there are: hashes of its shingles.

    Every document has at least SHINGLE words. A feature is splitmix64's finaliser of ((w1 K ^ w2) K ^ w3), K odd.
    """
    ends = np.cumsum(counts)
    whole = np.ones(len(words), bool)
    for back in range(1, SHINGLE):  # windows that reach into the next document
        whole[ends - back] = False
    combined = words[: 1 - SHINGLE].copy()
    for offset in range(1, SHINGLE):
        combined *= _MULTIPLIER
        combined ^= words[offset : len(words) - SHINGLE + 1 + offset]
    return _distinct(mixed(combined[whole[: 1 - SHINGLE]]), counts - (SHINGLE - 1))


def _distinct(features: Hashes, counts: Counts) -> tuple[Hashes, Counts]:
    starts = _starts(counts)
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        features[start : start + count].sort()  # in place; one sort of all would take six times as long
    first = np.empty(len(features), bool)
    first[:1] = True
    np.not_equal(features[1:], features[:-1], out=first[1:])
    first[starts] = True
    return features[first], np.add.reduceat(first, starts, dtype=np.int64)


def simhash(features: Hashes, counts: Counts) -> Hashes:
    """Charikar's fingerprint (STOC 2002): each bit is that of most features, 0 where they are even.

    Eight bits are counted at a time: shifted by i and masked, a feature is eight lanes that hold bit i of its eight
    bytes, and numbers of this kind add up lane by lane. So there are eight passes over the features instead of 64.
    """
    chunks = -(-counts // _LANE_ROOM)
    first = _starts(chunks)
    within = np.arange(chunks.sum()) - np.repeat(first, chunks)
    at = np.repeat(_starts(counts), chunks) + _LANE_ROOM * within
    ones = np.empty((len(counts), 8, 8), np.uint32)
    room = np.empty(len(features), "<u8")
    for bit in range(8):
        np.right_shift(features, _U(bit), out=room)
        room &= _LANES
        lanes = np.add.reduceat(room, at).view(np.uint8).reshape(-1, 8)
        ones[:, :, bit] = np.add.reduceat(lanes, first, axis=0, dtype=np.uint32)
    most = 2 * ones.reshape(-1, 64) > counts[:, None]
    return np.packbits(most, axis=1, bitorder="little").view("<u8")[:, 0].astype(np.uint64, copy=False)


def minhash(features: Hashes, counts: Counts) -> Signatures:
    """Give the smallest value of each permutation; those of datasketch's scheme `affine32`, seed 1.

    A permutation is a h + b modulo 2^32 with odd a, on the low half of a feature mixed by MurmurHash3's finaliser.
    """
    multipliers, addends = permutations()
    hashes = premixed(features.astype(np.uint32))
    found = np.empty((PERMUTATIONS, len(counts)), np.uint32)
    for documents, own in _chunks(counts):
        starts, given = _starts(counts[documents]), hashes[own]
        room = np.empty_like(given)
        for number in range(PERMUTATIONS):
            np.multiply(given, multipliers[number], out=room)
            room += addends[number]
            np.minimum.reduceat(room, starts, out=found[number, documents])
    return np.ascontiguousarray(found.T)


def permutations() -> tuple[Signatures, Signatures]:
    """Draw factors and addends as datasketch does; by NEP 19 numpy never changes what a RandomState draws."""
    drawn = np.random.RandomState(SEED)
    multipliers = drawn.randint(0, 1 << 31, PERMUTATIONS, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    return multipliers, drawn.randint(0, 1 << 32, PERMUTATIONS, dtype=np.uint32)


def premixed(hashes: Signatures) -> Signatures:
    """Mix by the finaliser of MurmurHash3, 32 bits: a bijection."""
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _chunks(counts: Counts) -> list[tuple[slice, slice]]:
    """Cut documents, and their features, where another _CHUNK of features begins."""
    ends = np.cumsum(counts)
    cuts = [0, *(np.flatnonzero(np.diff(ends // _CHUNK)) + 1).tolist(), len(counts)]
    at = [0, *ends.tolist()]
    return [(slice(low, high), slice(at[low], at[high])) for low, high in pairwise(cuts)]


def _starts(counts: Counts) -> Counts:
    return np.cumsum(counts) - counts
