"""Say of a page that was read again whether it has changed in substance.

Bytes do not count, nor does the text as a whole: compared is the main text, masked (core.fingerprint), with the version
that last counted as a change, so that small edits count once they add up. Alike is what is equal, or so nearly equal
that less than a fiftieth of its shingles differ. A difference between alike pages is cosmetic: a clock, an
advertisement, an entry in a menu.

Both sides must be stripped by one template: the caller strips the new text by the template as it was when the old one
was read. Invariant: pages of which only equality can be told (short ones) are alike only if equal.
"""

import numpy as np
import numpy.typing as npt
import polars as pl

from crawl_pipeline.core import fingerprint, sketches

_BITS = 2
_PER_BYTE = 8 // _BITS
_SHIFTS = np.arange(0, 8, _BITS, dtype=np.uint8)
SKETCH_BYTES = sketches.PERMUTATIONS // _PER_BYTE


def sketch(minhash: pl.Series) -> pl.Series:
    """Shorten MinHashes to two bits of each value, a sixteenth: enough for pages that are nearly equal.

    Texts that have nothing in common agree in a quarter of them, which is reckoned out again (Li and König 2010). The
    standard error at 0.98 is 0.014; four bits would make it 0.013, all 32 leave 0.012.
    """
    there = minhash.is_not_null()
    values = fingerprint.values(minhash.filter(there)).astype(np.uint8) & (2**_BITS - 1)
    packed = np.bitwise_or.reduce(values.reshape(-1, SKETCH_BYTES, _PER_BYTE) << _SHIFTS, axis=2).tobytes()
    short = iter(packed[at : at + SKETCH_BYTES] for at in range(0, len(packed), SKETCH_BYTES))
    return pl.Series("main_sketch", [next(short) if is_there else None for is_there in there], dtype=pl.Binary)


def alike(after: pl.DataFrame, before: pl.DataFrame, least: float) -> pl.Series:
    """Say of each pair of rows (main_hash, main_sketch) whether they are alike; null where nothing was known before."""
    equal = after["main_hash"] == before["main_hash"]
    similar = _similarity(after["main_sketch"], before["main_sketch"]) >= least
    return (equal | similar.fill_null(value=False)).alias("alike")


def _similarity(a: pl.Series, b: pl.Series) -> pl.Series:
    """Estimate the Jaccard index by sketches; null where one has none."""
    both = (a.is_not_null() & b.is_not_null()).to_numpy()
    of_a, of_b = (_values(side.filter(pl.Series(both))) for side in (a, b))
    agreed = np.count_nonzero(of_a == of_b, axis=1) / sketches.PERMUTATIONS
    found = np.full(len(a), np.nan)
    found[both] = (agreed - 0.5**_BITS) / (1 - 0.5**_BITS)
    return pl.Series(found, nan_to_null=True)


def _values(packed: pl.Series) -> npt.NDArray[np.uint8]:
    """Give the bits of each value, a row for each sketch."""
    rows = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, SKETCH_BYTES, 1)
    values: npt.NDArray[np.uint8] = (rows >> _SHIFTS) & (2**_BITS - 1)
    return values.reshape(-1, sketches.PERMUTATIONS)
