"""PageRank over the known graph: what a page is worth by the links that lead to it, and by those pages' own.

    rank(p) = 1 + damping x sum over links q -> p of damp(q -> p) x rank(q) / links of q

1 is a page that no link counts for. With jumps to any page alike, and pages without links as if they led to all, this
is PageRank (Brin and Page 1998) but for one factor for all pages, so that ranks of a growing graph can be compared. A
link within a host counts `same_host` of one and hands the rest to nobody: a farm that links to itself gains little.
What a page links to twice it links to once; nofollow is left out before.

A page visited since the last ranking hands on its share at once, as **cash** (Abiteboul, Preda, Cobena 2003): the first
step of the next ranking, taken early.

Invariants: no rank is less than 1; ranks sum to at most 1 / (1 - damping) per page; the start changes how long it takes
and, within TOLERANCE, nothing else.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int32]

DAMPING = 0.85
TOLERANCE = 1e-4
"""Iteration ends when no more than this share of all ranks moved: then they lie within 6 times that of their end."""
MOST = 100
"""Iterations: each leaves 0.85 of what was wrong, so that 60 are enough from anywhere."""
AT_ONCE = 1 << 20
"""Links whose shares are in memory at once."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Links between pages 0, 1, ..., `count` in all; `gives`: which share of its source's rank each hands on."""

    count: int
    source: Places
    target: Places
    gives: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Ranked:
    """The ranks, after how many iterations, and which share of all ranks the last one moved."""

    ranks: Numbers
    iterations: int
    moved: float


def gives(
    links: npt.NDArray[np.integer[Any]], within_host: npt.NDArray[np.bool_], same_host: float
) -> npt.NDArray[np.float32]:
    """Which share of its source's rank a link hands on. links: how many its source has."""
    given: npt.NDArray[np.float32] = (DAMPING * np.where(within_host, same_host, 1.0) / np.maximum(links, 1)).astype(
        "f4"
    )
    return given


def rank(graph: Graph, start: Numbers | None = None, tolerance: float = TOLERANCE) -> Ranked:
    """Rank all pages; `start`: their ranks so far, where known."""
    ranks = np.ones(graph.count) if start is None else np.maximum(start, 1.0)
    moved = 0.0
    for iteration in range(1, MOST + 1):
        new = _next(graph, ranks)
        moved = float(np.abs(new - ranks).sum() / max(new.sum(), 1.0))
        ranks = new
        if moved <= tolerance:
            return Ranked(ranks, iteration, moved)
    return Ranked(ranks, MOST, moved)


def _next(graph: Graph, ranks: Numbers) -> Numbers:
    new = np.ones(graph.count)
    for begin in range(0, len(graph.source), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        handed = ranks[graph.source[some]] * graph.gives[some]
        new += np.bincount(graph.target[some], handed, graph.count)
    return new
