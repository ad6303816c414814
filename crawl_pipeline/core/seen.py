"""Tier one of the seen set: a Bloom filter of a bucket's known URLs, and the bytes it is kept as.

Pure: hashes and bytes in, answers and bytes out. "No" is certain, for every URL that was added; "maybe" is wrong for
a few in a thousand, so that whoever asks must confirm it (planning/seen.py does, against the frontier).

Invariant: bytes that are not exactly what `pack` made, for exactly the state that is asked for, are refused. The
filter is made of xxh3 hashes mixed by a fixed factor, never of Python's own hash, which differs between processes.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

import polars as pl
from rbloom import Bloom
from xxhash import xxh3_64_digest

FULL = 0.8
"""Share of its room at which a filter is made anew: past its room false positives grow quickly (4.8 % at twice)."""
SPARE = 0.8
"""How full it may be when it has just been made: of FULL."""
LEAST = 1_000
"""Room of the smallest filter."""
# rbloom sizes a filter for the rate at its full room, and it never gets there: what is a thousandth at FULL is four
# of them at the room. (1 - e^(-kn/m))^k with m/n = 14.4, k = 8 is 1.1e-3; with 11.5, at the room, 4e-3.
_AT_ROOM = 4.0
_MAGIC = b"crawl seen 1\n"  # the number is the format's; it stands for the mix as well
_DIGEST = 8
_CHUNK = 100_000  # hashes that are Python numbers at a time
# Odd, and below 2^63: with a signed 64-bit hash the product stays within rbloom's 127 bits.
_mixed = 0x4F1BBCDCBFA53E0B.__mul__


class Unusable(Exception):
    """Bytes that are no filter, or one of another state; the message says which."""


@dataclass(frozen=True, slots=True)
class State:
    """What a filter stands for: every URL of one bucket that was known when a round of it had been committed.

    Round numbers alone would not do: a lake that was put back to an older copy counts on from there. The worker's name
    belongs to one process, so that the row (round, epoch, worker) in `rounds` is one that nobody else can have written.
    """

    lake: str
    buckets: int
    bucket: int
    round: int
    epoch: int
    worker: str


@dataclass(slots=True)
class Filter:
    """A Bloom filter with its room, and how many URLs are in it."""

    rate: float
    room: int
    count: int = 0
    bloom: Bloom = field(default_factory=lambda: Bloom(1, 0.5, _mixed))

    @classmethod
    def of(cls, hashes: pl.Series, rate: float) -> "Filter":
        """A filter of these URLs with room for a quarter more; `rate` is that of false positives when it is full."""
        room = max(LEAST, int(len(hashes) / (FULL * SPARE)))
        made = cls(rate, room, 0, Bloom(room, min(0.5, _AT_ROOM * rate), _mixed))
        made._put(hashes)
        made.count = len(hashes)
        return made

    @property
    def full(self) -> bool:
        """Whether it should be made anew, with more room."""
        return self.count > FULL * self.room

    @property
    def bits(self) -> int:
        """Size in memory."""
        return int(self.bloom.size_in_bits)

    def maybe(self, hashes: pl.Series) -> pl.Series:
        """Say of each URL whether it may have been added; false is certain."""
        return pl.Series(list(map(self.bloom.__contains__, hashes.to_list())), dtype=pl.Boolean)

    def add(self, hashes: pl.Series) -> None:
        """Put URLs in; those that are there already change nothing."""
        for chunk in _chunks(hashes.unique()):
            new = chunk.filter(~self.maybe(chunk))
            self._put(new)
            self.count += len(new)

    def _put(self, hashes: pl.Series) -> None:
        for chunk in _chunks(hashes):
            self.bloom.update(chunk.to_list())


def pack(kept: Filter, state: State) -> bytes:
    """Write a filter down with what it stands for and a checksum of everything."""
    head = {"state": asdict(state), "rate": kept.rate, "room": kept.room, "count": kept.count}
    body = _MAGIC + json.dumps(head).encode() + b"\n" + kept.bloom.save_bytes()
    return body + xxh3_64_digest(body)


def unpack(found: bytes, state: State, rate: float) -> tuple[Filter, State]:
    """Read a filter of the bucket that `state` names, of whatever round; raise Unusable for anything else."""
    if not found.startswith(_MAGIC):
        raise Unusable("it is no filter of this format")
    body, digest = found[:-_DIGEST], found[-_DIGEST:]
    if xxh3_64_digest(body) != digest:
        raise Unusable("its checksum is wrong: it was cut off or changed")
    line, _, bits = body[len(_MAGIC) :].partition(b"\n")
    head = json.loads(line)
    kept, own = State(**head["state"]), ("lake", "buckets", "bucket")
    if other := [name for name in own if getattr(kept, name) != getattr(state, name)]:
        raise Unusable(f"it is of another {_and(other)}")
    if head["rate"] != rate:
        raise Unusable(f"it was made for another rate of false positives, {head['rate']}")
    return Filter(rate, head["room"], head["count"], Bloom.load_bytes(bits, _mixed)), kept


def _chunks(hashes: pl.Series) -> Iterator[pl.Series]:
    return (hashes.slice(at, _CHUNK) for at in range(0, len(hashes), _CHUNK))


def _and(names: Iterable[str]) -> str:
    return " and another ".join("bucket count" if name == "buckets" else name for name in names)
