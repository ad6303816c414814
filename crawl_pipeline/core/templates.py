"""What the pages of one host have in common: short blocks of text that stand on many of them.

Decides which blocks are a host's template, from counts that are kept per host and never grow beyond a bound. A block is
known by a hash of 32 bits; it is template once it was seen on `fewest` pages and on `share` of all that were counted
until then. It stays so: were it taken back, pages would seem to change that did not. Long blocks are never template.

Counted are visits, so that what a site puts on all its pages later is learnt from revisits too; but a block must have
been seen on different URLs. These are told by classes: each URL is in one of 32, and ten URLs are in nine classes on
average. A page that is visited again and again is in one.

Blocks that were seen once wait in a list of their own, the newest of which are kept; of the others the most seen. A
block of 1 % of the pages is found as long as a hundred pages bring fewer new blocks than that list has room for.

A page is compared with what it was by the template of then, for a template that grows must not look like a change of
the page. What came to the host later is left out too if it is template now: a menu's new entry, the date of a build.

Invariant: the template as it was after any count of pages can be told, and so can which blocks are new since then.
"""

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

MOST_BLOCKS, MOST_ONCE = 1_024, 8_192
"""Blocks that are counted for one host, and blocks that were seen once and are remembered."""
SHORT = 200
"""Characters; longer blocks are content wherever they stand."""
CLASSES, FEWEST_CLASSES = 32, 7
"""Classes of URLs, and of how many a template's pages are. Ten URLs are in fewer than 7 classes once in 100 times."""
GROWTH = 4 / 3
"""A host's counts are stored when they have grown so much since they last were."""

Hashes = npt.NDArray[np.uint32]

# Dates and times as most pages write them: a foot that says when the site was built is one block, not one per build.
_STAMP = re.compile(rb"[0-9]+(?:[:/-][0-9]+)+")
_PARTED = re.compile(rb"[:/-][0-9]")  # what has none of these is no stamp; told in less time than a substitution


def _none() -> Hashes:
    return np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Counts:
    """What was counted of one host: for each block how many pages had it, of which classes, how many pages had been
    counted before it was first seen, and since how many it is template (0: it is not)."""

    pages: int = 0
    hashes: Hashes = field(default_factory=_none)
    counts: Hashes = field(default_factory=_none)
    classes: Hashes = field(default_factory=_none)
    first: Hashes = field(default_factory=_none)
    since: Hashes = field(default_factory=_none)
    once: Hashes = field(default_factory=_none)
    """Blocks seen once, newest last; never stored."""
    once_first: Hashes = field(default_factory=_none)

    def template(self) -> Hashes:
        """The blocks that are template."""
        return self.hashes[self.since > 0]

    def template_for(self, at: int) -> Hashes:
        """What to leave out of a page to compare it with what it was when so many pages were counted."""
        return self.hashes[(self.since > 0) & ((self.since <= at) | (self.first >= at))]


def hashes(text: str) -> bytes:
    """Hash the lines of a text without dates and times, 32 bits each, little endian; 0 for a long one."""
    if not text:
        return b""
    lines = text.encode("utf-8", "replace").split(b"\n")
    plain = text.isascii()
    numbers = [
        crc32(line if not _PARTED.search(line) else _STAMP.sub(b"0", line)) or 1
        if len(line) <= SHORT or not (plain or len(line) > 4 * SHORT or len(line.decode("utf-8", "replace")) > SHORT)
        else 0
        for line in lines
    ]
    return np.array(array("I", numbers), "<u4").tobytes()


def line_hash(line: str) -> int:
    """Hash a line as `hashes` does, however long it is."""
    return crc32(_STAMP.sub(b"0", line.encode("utf-8", "replace"))) or 1


def distinct(blocks: bytes) -> Hashes:
    """The different short blocks of a page."""
    found = np.sort(np.frombuffer(b"\0\0\0\0" + blocks, "<u4"))  # 0, a long block, comes first
    different: Hashes = found[1:][found[1:] != found[:-1]]
    return different


def add(known: Counts, pages: Sequence[Hashes], url_hashes: Sequence[int], fewest: int, share: float) -> Counts:
    """Count the blocks of pages: of each the distinct hashes of its short blocks."""
    bits = np.array([1 << (number % CLASSES) for number in url_hashes], np.uint32)
    hashes, counts, classes = _tallied(np.concatenate([_none(), *pages]), np.repeat(bits, list(map(len, pages))))
    first = np.full(len(hashes), known.pages, np.uint32)
    _, of_once, of_new = np.intersect1d(known.once, hashes, assume_unique=True, return_indices=True)
    first[of_new] = known.once_first[of_once]
    counts[of_new] += 1
    single = (counts == 1) & ~np.isin(hashes, known.hashes, assume_unique=True)
    waiting = np.delete(np.arange(len(known.once)), of_once)
    merged = _merged(known, hashes[~single], counts[~single], classes[~single], first[~single])
    found = Counts(
        known.pages + len(pages), *merged,
        once=np.concatenate([known.once[waiting], hashes[single]])[-MOST_ONCE:],
        once_first=np.concatenate([known.once_first[waiting], first[single]])[-MOST_ONCE:],
    )  # fmt: skip
    return _judged(found, fewest, share)


def _tallied(hashes: Hashes, bits: Hashes) -> tuple[Hashes, Hashes, Hashes]:
    """The different blocks, how often each stands there, and the classes of the pages it stands on."""
    order = np.argsort(hashes, kind="stable")
    different, start, counts = np.unique(hashes[order], return_index=True, return_counts=True)
    classes = np.bitwise_or.reduceat(bits[order], start) if len(start) else _none()
    return different, counts.astype(np.uint32), classes


def _merged(
    known: Counts, hashes: Hashes, counts: Hashes, classes: Hashes, first: Hashes
) -> tuple[Hashes, Hashes, Hashes, Hashes, Hashes]:
    """Lay what was seen now into what is known."""
    all_hashes = np.union1d(known.hashes, hashes)
    of_known, of_new = (np.searchsorted(all_hashes, part) for part in (known.hashes, hashes))
    merged = [np.zeros(len(all_hashes), np.uint32) for _ in range(4)]
    merged[0][of_known], merged[1][of_known], merged[3][of_known] = known.counts, known.classes, known.since
    merged[0][of_new] += counts
    merged[1][of_new] |= classes
    merged[2][of_new] = first
    merged[2][of_known] = known.first
    return all_hashes, merged[0], merged[1], merged[2], merged[3]


def _judged(counts: Counts, fewest: int, share: float) -> Counts:
    """Note which blocks have become template, and let go of the least seen where there are too many."""
    enough = counts.counts >= max(fewest, share * counts.pages)
    varied = np.bitwise_count(counts.classes) >= min(fewest, FEWEST_CLASSES)
    since = np.where((counts.since == 0) & enough & varied, np.uint32(counts.pages), counts.since)
    if len(since) <= MOST_BLOCKS:
        return replace(counts, since=since)
    worth = counts.counts + np.where(since > 0, np.uint32(1 << 31), np.uint32(0))
    kept = np.sort(np.argsort(worth, kind="stable")[-MOST_BLOCKS:])
    return replace(
        counts, hashes=counts.hashes[kept], counts=counts.counts[kept], classes=counts.classes[kept],
        first=counts.first[kept], since=since[kept],
    )  # fmt: skip


def is_worth_storing(counts: Counts, stored_pages: int, fewest: int) -> bool:
    """Say whether a host's counts have grown enough to be stored: a host costs rows by the logarithm of its pages."""
    return counts.pages >= max(fewest, GROWTH * stored_pages)


def row(counts: Counts) -> dict[str, object]:
    """The columns of `templates` that hold counts; what was seen once is not stored."""
    return {
        "counted_count": counts.pages,
        **{name: getattr(counts, of).view(np.int32).tolist() for name, of in _COLUMNS.items()},
    }


def from_row(stored: Mapping[str, Any]) -> Counts:
    """What `row` gave."""
    arrays = (np.array(stored[name], np.int32).view(np.uint32) for name in _COLUMNS)
    return Counts(stored["counted_count"], *arrays)


_COLUMNS = {
    "blocks": "hashes", "block_counts": "counts", "block_classes": "classes", "block_first": "first",
    "block_since": "since",
}  # fmt: skip
