"""Take the noise out of pages: what is left is their main text, the part that is compared.

Out go short blocks that are their host's template (core.templates), short blocks that stand in what the page itself
calls navigation, and advertising of any length. A page of which less than a tenth is left is kept whole: there is
nothing else to compare, and then only an equal text is the same. Columns at a time, over all pages of a round.

Noise is more than what is taken out: hidden text and blocks that the page repeats are counted too, as spam has them,
but a page may have good reasons for them, so that they stay. Invariant: what is removed is told as numbers of lines,
from which the main text can be made again.
"""

from collections.abc import Sequence
from itertools import chain, compress, pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from crawl_pipeline.core.templates import Hashes
from crawl_pipeline.core.text import ADVERTISING, HIDDEN, NAVIGATION

MOST_REMOVED = 0.9
"""Share of a page's characters; where more would go, the page is compared as a whole."""

SCHEMA = pl.Schema(
    [("main", pl.String()), ("removed_blocks", pl.List(pl.Int32)), ("removed_share", pl.Float32()),
     ("noise_share", pl.Float32())]
)  # fmt: skip

Flags = npt.NDArray[np.bool_]
Sizes = npt.NDArray[np.int64]


def strip(
    texts: Sequence[str], blocks: Sequence[bytes], regions: Sequence[bytes], templates: Sequence[Hashes]
) -> pl.DataFrame:
    """Strip pages: SCHEMA, a row for each.

    blocks, regions: as `fetch.reading` and core.text tell them, per line; templates: of each page's host, the same
    array for pages of one host, which stand together.
    """
    if not texts:
        return SCHEMA.to_frame()
    lines = [text.split("\n") if text else [] for text in texts]
    counts = np.array([len(of_page) for of_page in lines])
    hashes, region = (np.frombuffer(b"".join(parts), kind) for parts, kind in ((blocks, "<u4"), (regions, "u1")))
    sizes = np.fromiter(map(len, chain.from_iterable(lines)), np.int64, len(hashes))
    bounds = np.concatenate([[0], np.cumsum(counts)])
    removed = _removed(hashes, region, bounds, templates)
    noise = removed | (region == HIDDEN) | _repeated(hashes, counts)
    whole = _sums(sizes, bounds)
    removed_share, noise_share = (_sums(sizes * part, bounds) / np.maximum(whole, 1) for part in (removed, noise))
    spared = removed_share > MOST_REMOVED
    removed &= ~np.repeat(spared, counts)
    mains, numbers = _mains(texts, lines, removed, bounds)
    return pl.DataFrame(
        {"main": mains, "removed_blocks": numbers, "removed_share": removed_share, "noise_share": noise_share},
        schema_overrides=SCHEMA,
    )


def _removed(hashes: Hashes, region: npt.NDArray[np.uint8], bounds: Sizes, templates: Sequence[Hashes]) -> Flags:
    removed: Flags = ((region == NAVIGATION) & (hashes > 0)) | (region == ADVERTISING)
    starts = [0, *(page for page in range(1, len(templates)) if templates[page] is not templates[page - 1])]
    for first, end in pairwise([*starts, len(templates)]):
        if len(template := templates[first]):
            span = slice(bounds[first], bounds[end])
            removed[span] |= np.isin(hashes[span], template)
    return removed


def _repeated(hashes: Hashes, counts: Sizes) -> Flags:
    """Say of each block whether it is short and stood in the same page before."""
    keys = np.repeat(np.arange(len(counts)), counts).astype(np.uint64) << np.uint64(32) | hashes
    _, first = np.unique(keys, return_index=True)
    repeated = hashes > 0
    repeated[first] = False
    return repeated


def _sums(values: Sizes, bounds: Sizes) -> Sizes:
    totals: Sizes = np.concatenate([[0], np.cumsum(values)])
    sums: Sizes = totals[bounds[1:]] - totals[bounds[:-1]]
    return sums


def _mains(
    texts: Sequence[str], lines: Sequence[list[str]], removed: Flags, bounds: Sizes
) -> tuple[list[str], list[list[int]]]:
    mains: list[str] = list(texts)
    numbers: list[list[int]] = [[] for _ in texts]
    for page, (first, end) in enumerate(pairwise(bounds.tolist())):
        gone = removed[first:end]
        if gone.any():
            numbers[page] = (np.flatnonzero(gone) + 1).tolist()
            mains[page] = "\n".join(compress(lines[page], (~gone).tolist()))
    return mains, numbers
