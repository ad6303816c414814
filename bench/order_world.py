"""Graphs on which orders of crawling are compared: hosts of Zipf sizes, links that favour the popular, and traps.

1,000 hosts with about 49,000 pages: on each a tree that reaches all of its pages, links to its home page, five links
per page to pages of the host, early ones most, and on average two to other hosts, the popular ones most and their home
pages most of all. Five traps of 1,000 pages each that hardly anybody names, and that link to themselves a lot. The same
seed is the same graph.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

HOSTS, PAGES, TRAPS, TRAP_PAGES, SEEDS, POPULAR = 1_000, 44_500, 5, 1_000, 10, 100
LUCK = 2.0
"""How much the place of a host by popularity differs from its place by size, as a standard deviation of logarithms."""
DAMPING = 0.85


@dataclass(frozen=True, slots=True)
class World:
    """Pages (their host), links sorted by source (`first` of each page's in `target`), homes, seeds, traps."""

    hosts: Places
    first: Places
    target: Places
    trap: npt.NDArray[np.bool_]
    seeds: Places
    truth: Numbers
    """PageRank of the whole graph, that of trap pages set to zero; sums to 1."""

    def links(self, pages: Places) -> tuple[Places, Places]:
        """The links of some pages: source, target."""
        counts = self.first[pages + 1] - self.first[pages]
        each = np.repeat(pages, counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return each, self.target[self.first[each] + within]


def world(seed: int) -> World:
    """Make a graph."""
    chance = np.random.default_rng(seed)
    sizes = np.maximum(1, np.round(PAGES * _zipf(HOSTS, 1.0))).astype(np.int64)
    sizes = np.concatenate([sizes, np.full(TRAPS, TRAP_PAGES)])
    homes = np.cumsum(sizes) - sizes
    hosts = np.repeat(np.arange(len(sizes)), sizes)
    popularity = np.full(len(sizes), _zipf(HOSTS, 0.9)[-1])
    by_size = np.log(np.arange(1, HOSTS + 1))
    popularity[np.argsort(by_size + LUCK * chance.standard_normal(HOSTS))] = _zipf(HOSTS, 0.9)
    of_host = np.arange(len(hosts)) - homes[hosts]
    parts = [*_inside(chance, hosts, homes, sizes, of_host), _outside(chance, hosts, homes, sizes, popularity)]
    source, target = (np.concatenate([part[end] for part in parts]) for end in (0, 1))
    one = np.unique(source * len(hosts) + target)
    source, target = one // len(hosts), one % len(hosts)
    source, target = source[source != target], target[source != target]
    trap = hosts >= HOSTS
    truth = np.where(trap, 0.0, _page_rank(source, target, len(hosts)))
    popular = np.argsort(-popularity[:HOSTS])[:POPULAR]
    seeds = homes[chance.choice(popular, SEEDS, replace=False)]
    first = np.searchsorted(source, np.arange(len(hosts) + 1))
    return World(hosts, first, target, trap, seeds, truth / truth.sum())


def _inside(
    chance: np.random.Generator, hosts: Places, homes: Places, sizes: Places, of_host: Places
) -> list[tuple[Places, Places]]:
    """Links within hosts: to the home page, the tree that reaches every page, and five per page, ten in traps."""
    pages = np.arange(len(hosts))
    deep = pages[of_host > 0]
    parents = homes[hosts[deep]] + (chance.random(len(deep)) * of_host[deep] ** 0.8).astype(np.int64)
    many = np.repeat(pages, np.where(hosts >= HOSTS, 15, 5))
    early = np.where(hosts[many] >= HOSTS, 1.0, 2.0)
    inside = homes[hosts[many]] + (sizes[hosts[many]] * chance.random(len(many)) ** early).astype(np.int64)
    return [(deep, homes[hosts[deep]]), (parents, deep), (many, inside)]


def _outside(
    chance: np.random.Generator, hosts: Places, homes: Places, sizes: Places, popularity: Numbers
) -> tuple[Places, Places]:
    """Links to other hosts: Poisson(2) per page, of these 60 % to home pages. Traps have none."""
    good = np.flatnonzero(hosts < HOSTS)
    source = np.repeat(good, chance.poisson(2.0, len(good)))
    host = chance.choice(len(sizes), len(source), p=popularity / popularity.sum())
    deep = (sizes[host] * chance.random(len(source)) ** 2).astype(np.int64)
    return source, homes[host] + np.where(chance.random(len(source)) < 0.6, 0, deep)


def _zipf(count: int, power: float) -> Numbers:
    weights = np.arange(1, count + 1, dtype=float) ** -power
    shares: Numbers = weights / weights.sum()
    return shares


def _page_rank(source: Places, target: Places, count: int) -> Numbers:
    """The textbook's: every link counts alike, pages without links lead everywhere."""
    links = np.bincount(source, minlength=count)
    ranks = np.full(count, 1 / count)
    for _ in range(100):
        lost = ranks[links == 0].sum()
        handed = np.bincount(target, ranks[source] / links[source], count)
        ranks = (1 - DAMPING) / count + DAMPING * (handed + lost / count)
    return ranks
