"""Blocks that come and go on the pages of a host whatever these say: advertisements that take turns, polls, tips.

Between two readings of a page some blocks come, others go, and most stay. An edit makes a text come or go once, on one
page. What has come twice and gone twice, here or on several pages of the host, and did not mostly stay where it was,
rotates: it is noise. A notice that comes and stays (sold out), or stands on many pages and leaves them once, is not.

What is compared are blocks of the main text, in their order, as hashes of 32 bits: `sequence`. Two readings are equal
but for noise if what is left of both sequences is the same (`equal`); that holds for long blocks too, which are never
taken out of the main text. Pages of very many blocks are not followed.

Invariant: of a host no more than MOST blocks are kept that came or went; evidence is halved as it grows old, so that a
row of it is written by the logarithm of its events and not by their number; what rotates is never forgotten for that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from crawl_pipeline.core.templates import Hashes, line_hash

MOST = 512
"""Blocks of a host that came or went and are remembered; those that did so most often."""
FOLLOWED = 256
"""Blocks of a page's main text up to which it is followed."""
TIMES = 2
"""How often a block must have come, and gone."""
STAYS = 3
"""How often it may have stayed for each time that it has gone."""
AGE = 1_024
"""Events of a host from which on evidence is halved."""
WORTH_STORING = 32
"""Events since they were last stored, at least; and an eighth of all."""


@dataclass(slots=True)
class Moves:
    """How often a block came, went, and stayed; and of how many counted pages on it rotates (0: it does not)."""

    came: int = 0
    went: int = 0
    stayed: int = 0
    since: int = 0


@dataclass(slots=True)
class Rotation:
    """What is known of the blocks of one host that came or went."""

    moves: dict[int, Moves]
    events: int = 0
    """Comings and goings since they were last stored."""

    @classmethod
    def none(cls) -> "Rotation":
        """Nothing known."""
        return cls({})

    def noise(self, at: int | None = None) -> Hashes:
        """The blocks that rotate; `at`: as known when so many pages were counted."""
        found = [block for block, one in self.moves.items() if one.since and (at is None or one.since <= at)]
        return np.array(sorted(found), np.uint32)

    def add(self, readings: Iterable[tuple[Sequence[int], Sequence[int]]], pages: int) -> bool:
        """Count pairs of sequences, a page's last reading and this one; tell whether more blocks rotate now."""
        for before, now in readings:
            self._count(set(before), set(now))
        return self._judge(pages)

    def is_worth_storing(self) -> bool:
        """Whether there is enough new evidence."""
        total = sum(one.came + one.went for one in self.moves.values())
        return self.events >= max(WORTH_STORING, total // 8)

    def _count(self, before: set[int], now: set[int]) -> None:
        known = {block for block, one in self.moves.items() if one.since}
        came, went = now - before - known, before - now - known
        for block in came:
            self.moves.setdefault(block, Moves()).came += 1
        for block in went:
            self.moves.setdefault(block, Moves()).went += 1
        for block in (self.moves.keys() & before & now) - known:
            self.moves[block].stayed += 1
        self.events += len(came) + len(went)

    def _judge(self, pages: int) -> bool:
        found = False
        for one in self.moves.values():
            if not one.since and min(one.came, one.went) >= TIMES and one.stayed <= STAYS * one.went:
                one.since, found = max(1, pages), True
        if sum(one.came + one.went for one in self.moves.values()) > AGE:
            for one in self.moves.values():
                one.came, one.went, one.stayed = one.came // 2, one.went // 2, one.stayed // 2
            self.moves = {block: one for block, one in self.moves.items() if one.since or one.came or one.went}
        if len(self.moves) > MOST:
            self.moves = {block: self.moves[block] for block in sorted(self.moves, key=self._place)[:MOST]}
        return found

    def _place(self, block: int) -> tuple[bool, int, int, int]:
        # What rotates is counted no more: by its counts it would make room for what came to rotate after it.
        one = self.moves[block]
        return not one.since, one.since, -one.came - one.went, block


def sequence(text: str, blocks: bytes, removed: Sequence[int]) -> list[int] | None:
    """The blocks of a page's main text in their order; None: too many. removed: numbers of the lines taken out."""
    numbers = np.frombuffer(blocks, "<u4").tolist()
    kept = [True] * len(numbers)
    for line in removed:
        kept[line - 1] = False
    if sum(kept) > FOLLOWED:
        return None
    if 0 not in numbers:
        return list(compress(numbers, kept))
    lines = text.split("\n")
    return [number or line_hash(line) for number, line in compress(zip(numbers, lines, strict=True), kept)]


def equal(before: Sequence[int], now: Sequence[int], template: Hashes, noise: Hashes) -> bool:
    """Whether two readings of a page differ, and in nothing but what is template now, or rotates."""
    if before == now or not len(noise):
        return False
    out = {*template.tolist(), *noise.tolist()}
    left = [block for block in before if block not in out]
    return bool(left) and left == [block for block in now if block not in out]


def packed(blocks: Sequence[int] | None) -> bytes | None:
    """A sequence as it is stored."""
    return None if blocks is None else np.array(blocks, "<u4").tobytes()


def unpacked(stored: bytes | None) -> list[int] | None:
    """What `packed` gave."""
    return None if stored is None else np.frombuffer(stored, "<u4").tolist()


def row(known: Rotation) -> dict[str, object]:
    """The columns of `templates` that hold it."""
    blocks = sorted(known.moves)
    return {"moving_blocks": np.array(blocks, np.uint32).view(np.int32).tolist()} | {
        f"moving_{name}": [getattr(known.moves[block], name) for block in blocks] for name in _MOVES
    }


def from_row(stored: Mapping[str, Any]) -> Rotation:
    """What `row` gave."""
    blocks = np.array(stored["moving_blocks"] or [], np.int32).view(np.uint32).tolist()
    moves = zip(*(stored[f"moving_{name}"] or [] for name in _MOVES), strict=True)
    return Rotation({block: Moves(*one) for block, one in zip(blocks, moves, strict=True)})


_MOVES = ("came", "went", "stayed", "since")
