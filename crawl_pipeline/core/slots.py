"""When a request may start at an address that hosts of other workers may share: phase slots, without coordination.

Time is cut into slots, by the wall clock and alike for everybody. Each slot of an address belongs to one bucket, in
turn, and a worker may use the slots of the buckets it leases. A request starts in a stretch of own slots, in the last
of them within the guard time. A slot is a gap and a guard long, so two starts at an address are never closer than the
gap, whoever makes them and however little they know of each other; what clocks differ by comes off the gap.

Who leases every bucket owns all time and waits for the gap alone. Who leases a k-th of them, neighbours as runs do, has
every k-th slot: buckets take their turns in bit-reversed order. Reads no clock: times are seconds handed in.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor

from crawl_pipeline.core import urls

GUARD = 0.2
"""Share of the gap by which a start may be late in a slot."""


@dataclass(frozen=True, slots=True)
class Slots:
    """A worker's share of every address: whether the n-th slot of a turn is its own."""

    gap_s: float
    own: tuple[bool, ...] = (True,)

    @classmethod
    def of(cls, gap_s: float, buckets: int, leased: Iterable[int]) -> "Slots":
        """The share that comes with these of so many buckets."""
        mine, bits = frozenset(leased), (buckets - 1).bit_length()
        return cls(gap_s, tuple(_reversed(n, bits) in mine for n in range(buckets)))

    def next_start(self, address: str, now: float, last: float | None) -> float:
        """The first moment from `now` on at which a request may start there; `last`: own last start there, if any."""
        start = now if last is None else max(now, last + self.gap_s)
        if all(self.own) or not self.gap_s:
            return start
        width, guard = self.gap_s * (1 + GUARD), self.gap_s * GUARD
        phase = urls.hash64(address) % len(self.own)
        first = floor(start / width)
        for slot in range(first, first + len(self.own) + 1):
            begins = slot * width
            moment = max(start, begins)
            on_time = moment <= begins + guard or self._owns(slot + 1 + phase)
            if self._owns(slot + phase) and on_time:
                return moment
        raise ValueError("expected at least one leased bucket, found none")

    def _owns(self, slot: int) -> bool:
        return self.own[slot % len(self.own)]


def _reversed(number: int, bits: int) -> int:
    """The number with its bits in reverse order: neighbours in one order are far apart in the other."""
    return int(f"{number:0{bits}b}"[::-1], 2) if bits else 0
