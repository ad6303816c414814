"""Find the words in texts by their bytes: a column of UTF-8 in, places out, no string made on the way.

Decides nothing: what belongs to a word is given as two character classes, and read from the regular expressions'
engine once, so that both always agree. A word is a run of the first class, or one character of the second. ASCII is
looked up byte by byte; of the rest the first byte of each character is found, and the character looked up.

Invariant: what is found is what `extract_all` of `[first]+|[second]` finds, text by text.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

Octets = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

_RUN, _SINGLE = 1, 2
_LARGEST = 0x110000
_FOLLOWING, _LEADING, _THREE, _FOUR = 0x80, 0xC0, 0xE0, 0xF0
_HIGH = np.array([0x1F, 0x0F, 0x07], np.uint32)
"""The bits of a character that its first byte holds, if it has two, three or four."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Words of many texts, one text after the other, and how many each text has."""

    octets: Octets
    starts: Places
    ends: Places
    counts: Places


def of_texts(texts: pl.Series) -> tuple[Octets, Places]:
    """Give the bytes of texts, none of them null, and where each begins; the end is told as one more."""
    stored = texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    bounds = np.frombuffer(stored.buffers()[1], np.int64)[stored.offset : stored.offset + len(stored) + 1]
    octets = np.frombuffer(stored.buffers()[2] or b"", np.uint8)
    return octets[bounds[0] : bounds[-1]], bounds - bounds[0]


def cut(texts: pl.Series, runs: str, singles: str) -> Cut:
    """Cut texts, none of them null, by the classes of characters that make words together and alone."""
    octets, bounds = of_texts(texts)
    kind = _classes(runs, singles, _FOLLOWING).take(octets)
    leads = np.flatnonzero(octets >= _LEADING)
    alone = _mark_wide(octets, kind, leads, _classes(runs, singles, _LARGEST)) if len(leads) else (leads, leads)
    in_word = kind == _RUN
    starts, ends = _runs(in_word, bounds)
    if len(alone[0]):
        starts, ends = (np.concatenate(both) for both in zip((starts, ends), alone, strict=True))
        order = np.argsort(starts)
        starts, ends = starts[order], ends[order]
    return Cut(octets, starts, ends, np.diff(np.searchsorted(starts, bounds)))


def _runs(in_word: npt.NDArray[np.bool_], bounds: Places) -> tuple[Places, Places]:
    """Where runs begin and end; none goes from one text into the next."""
    begins, stops = in_word.copy(), in_word.copy()
    begins[1:] = in_word[1:] > in_word[:-1]
    stops[:-1] = in_word[1:] < in_word[:-1]
    inner = bounds[(bounds > 0) & (bounds < len(in_word))]
    begins[inner], stops[inner - 1] = in_word[inner], in_word[inner - 1]
    return np.flatnonzero(begins), np.flatnonzero(stops) + 1


def _mark_wide(octets: Octets, kind: Octets, leads: Places, table: Octets) -> tuple[Places, Places]:
    """Mark the bytes of characters beyond ASCII that belong to runs; give where single ones begin and end."""
    first = octets.take(leads)
    more = 1 + (first >= _THREE).astype(np.int64) + (first >= _FOUR)
    code = (first & _HIGH.take(more - 1)).astype(np.int64)
    for step in (1, 2, 3):
        longer = more >= step
        code[longer] = code[longer] << 6 | octets.take(leads[longer] + step) & 0x3F
    kinds = table.take(code)
    in_run = kinds == _RUN
    runs, sizes = leads[in_run], more[in_run]
    kind[runs] = _RUN
    for step in (1, 2, 3):
        kind[runs[sizes >= step] + step] = _RUN
    alone = kinds == _SINGLE
    return leads[alone], leads[alone] + more[alone] + 1


@lru_cache(maxsize=4)
def _classes(runs: str, singles: str, end: int) -> Octets:
    """What each character of a lower number is, by its number; no bytes beyond ASCII are characters."""
    every = pl.Series(["".join(chr(number) for number in range(end) if not 0xD800 <= number < 0xE000)])
    table = np.zeros(max(end, 256), np.uint8)
    for kind, own in ((_RUN, runs), (_SINGLE, singles)):
        (left,) = every.str.replace_all(f"[^{own}]", "")
        table[np.frombuffer(left.encode("utf-32-le"), "<u4")] = kind
    return table
