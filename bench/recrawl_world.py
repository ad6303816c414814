"""recrawl-bench v1: a world of pages whose rates of change are known, and schedules that know more than a crawl can.

20,000 pages on 400 hosts of Zipf sizes; rates of change spread over four orders of magnitude, with a part that hosts
share; importance with a heavy tail; limits of hosts of which some bind; a budget of a tenth of a fetch per page and
day; rounds of six hours for 180 days, of which the last 120 are measured. The same seed is the same world.

Where pages change like Poisson processes, freshness is the exact expectation given the times of visits, and only what
a visit finds is drawn. Where they do not (in bursts, or many pages of a host at once) all changes are drawn ahead.
"""

from dataclasses import dataclass, field, replace
from math import erfc
from typing import Protocol

import numpy as np
import numpy.typing as npt

from crawl_pipeline.core import worth
from crawl_pipeline.core.worth import Numbers

DAYS, ROUND_DAYS, BEGIN = 180.0, 0.25, 60.0
Places = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class World:
    """Pages (host, changes per day, importance, last visit before day 0), hosts' limits per day, the daily budget."""

    hosts: Places
    rates: Numbers
    weights: Numbers
    limits: Numbers
    budget: float
    visited: Numbers
    seed: int


def world(seed: int, pages: int = 20_000, hosts: int = 400, per_page: float = 0.1) -> World:
    """Make a world: draws in this order, so that its figures can be compared with those of others."""
    chance = np.random.default_rng(seed)
    sizes = np.arange(1, hosts + 1) ** -0.9
    host = np.sort(chance.choice(hosts, pages, p=sizes / sizes.sum()))
    means = chance.normal(np.log(0.02), 1.2, hosts)
    rates = np.clip(np.exp(means[host] + 1.6 * chance.normal(size=pages)), 1 / 3650, 24.0)
    alike = 0.2 * (np.log(rates) - np.log(0.02)) / 2.0 + np.sqrt(1 - 0.2**2) * chance.normal(size=pages)
    above = np.array([0.5 * erfc(x / 2**0.5) for x in alike])
    weights = np.minimum(above ** (-1 / 1.2), 1000.0)
    limits = 2.0 * np.sqrt(np.maximum(np.bincount(host, minlength=hosts), 1))
    limits[chance.random(hosts) < 0.1] *= 0.2
    visited = -10 * chance.random(pages)
    return World(host, rates, weights / weights.sum(), limits, pages * per_page, visited, seed)


class Truth(Protocol):
    """What pages really do."""

    def changed(self, pages: Places, since: Numbers, now: float) -> Flags:
        """Whether each page has changed since."""
        ...

    def fresh(self, pages: Places, since: Numbers, start: Numbers, end: Numbers) -> Numbers:
        """Days between start and end in which a copy made at `since` is right."""
        ...


@dataclass(slots=True)
class Poisson:
    """Changes at random times; what a visit finds is drawn, freshness is its expectation."""

    rates: Numbers
    chance: np.random.Generator

    def changed(self, pages: Places, since: Numbers, now: float) -> Flags:
        """Whether each page has changed since."""
        return self.chance.random(len(pages)) < -np.expm1(-self.rates[pages] * (now - since))

    def fresh(self, pages: Places, since: Numbers, start: Numbers, end: Numbers) -> Numbers:
        """Days between start and end in which a copy made at `since` is expected to be right."""
        rates = self.rates[pages]
        return (np.exp(-rates * (start - since)) - np.exp(-rates * (end - since))) / rates


@dataclass(slots=True)
class Drawn:
    """Changes that are drawn ahead: pages and times, as one sorted line of numbers."""

    line: Numbers

    @classmethod
    def of(cls, pages: Places, times: Numbers) -> "Drawn":
        """From times of changes in any order."""
        return cls(np.sort(np.concatenate([pages * _APART + times + _BEFORE, [np.inf]])))

    def events(self) -> tuple[Places, Numbers]:
        """All pages that change, and when."""
        line = self.line[:-1]
        pages = (line // _APART).astype(np.int64)
        return pages, line - pages * _APART - _BEFORE

    def next(self, pages: Places, since: Numbers) -> Numbers:
        """When each page changes next after a time; after the end if it does not."""
        found = self.line[np.searchsorted(self.line, pages * _APART + since + _BEFORE, side="right")]
        return np.minimum(found - pages * _APART - _BEFORE, 2 * DAYS)

    def last(self, pages: Places, now: float) -> Numbers:
        """When each page changed last before a time; long before the beginning if it never did."""
        place = np.searchsorted(self.line, pages * _APART + now + _BEFORE, side="right") - 1
        found = self.line[place] - pages * _APART - _BEFORE
        return np.where((place >= 0) & (found >= -_BEFORE), found, -30.0 - pages % 97)

    def changed(self, pages: Places, since: Numbers, now: float) -> Flags:
        """Whether each page has changed since."""
        return self.next(pages, since) <= now

    def fresh(self, pages: Places, since: Numbers, start: Numbers, end: Numbers) -> Numbers:
        """Days between start and end in which a copy made at `since` is right."""
        return np.clip(np.minimum(self.next(pages, since), end) - start, 0.0, None)


_BEFORE, _APART = 10.0, 1_000.0


def poisson(of: World) -> Truth:
    """Changes as the model has it."""
    return Poisson(of.rates, np.random.default_rng(of.seed + 1000))


def drawn(of: World) -> Drawn:
    """Changes as the model has it, all drawn ahead, so that sitemaps can tell of them."""
    return Drawn.of(*_events(np.arange(len(of.rates)), of.rates, np.random.default_rng(of.seed + 1000)))


def bursty(of: World, size: float = 5.0, days: float = 1.0) -> Truth:
    """The same mean rates, but changes come in bursts of five on average within about a day."""
    chance = np.random.default_rng(of.seed + 2000)
    bursts = chance.poisson(of.rates / size * (DAYS + _BEFORE))
    pages = np.repeat(np.arange(len(of.rates)), bursts)
    starts = chance.uniform(-_BEFORE, DAYS, len(pages))
    counts = chance.geometric(1 / size, len(pages))
    times = np.repeat(starts, counts) + chance.exponential(days, counts.sum())
    return Drawn.of(np.repeat(pages, counts), times)


def together(of: World) -> tuple[World, Truth]:
    """Pages of a host change together now and then: half of the lower quartile of its rates are such changes."""
    chance = np.random.default_rng(of.seed + 3000)
    count = len(of.limits)
    common = np.array([
        np.quantile(rates, 0.25) / 2 if len(rates := of.rates[of.hosts == host]) else 1e-4 for host in range(count)
    ])  # fmt: skip
    own = np.maximum(of.rates - common[of.hosts], 1e-5)
    pages, times = _events(np.arange(len(own)), own, chance)
    hosts, at = _events(np.arange(count), common, chance)
    sizes, firsts = np.bincount(of.hosts, minlength=count), np.searchsorted(of.hosts, np.arange(count))
    all_pages = np.concatenate([np.arange(firsts[host], firsts[host] + sizes[host]) for host in hosts])
    truth = Drawn.of(np.concatenate([pages, all_pages]), np.concatenate([times, np.repeat(at, sizes[hosts])]))
    return replace(of, rates=own + common[of.hosts]), truth


def _events(names: Places, rates: Numbers, chance: np.random.Generator) -> tuple[Places, Numbers]:
    which = np.repeat(names, chance.poisson(rates * (DAYS + _BEFORE)))
    return which, chance.uniform(-_BEFORE, DAYS, len(which))


@dataclass(frozen=True, slots=True)
class Sitemaps:
    """The hosts that have a sitemap, and the dates that it tells; `stamped` hosts tell the time of the reading."""

    hosts: Places
    told: Drawn
    stamped: Flags

    def dates(self, host: int, pages: Places, now: float) -> Numbers:
        """What the sitemap of a host says of its pages at a time."""
        return np.full(len(pages), now) if self.stamped[host] else self.told.last(pages, now)


def honest(of: World, truth: Drawn, recall: float, precision: float) -> Sitemaps:
    """Half of the hosts tell of that share of changes; of all that they tell, that share is right."""
    hosts, chance = _half(of)
    listed = np.isin(of.hosts, hosts)
    pages, times = truth.events()
    kept = listed[pages] & (chance.random(len(pages)) < recall)
    false = np.where(listed, of.rates * recall * (1 - precision) / precision, 0.0)
    wrong, at = _events(np.arange(len(of.rates)), false, chance)
    told = Drawn.of(np.concatenate([pages[kept], wrong]), np.concatenate([times[kept], at]))
    return Sitemaps(hosts, told, np.zeros(len(of.limits), bool))


def lying(of: World) -> Sitemaps:
    """Half of the hosts tell lies: the time of the reading, dates that never move, dates that move without a reason.

    Those that move do so once a day, once a week, or as often as the page changes, but at other times.
    """
    hosts, chance = _half(of)
    kinds = np.zeros(len(of.limits), int)
    kinds[hosts] = np.arange(len(hosts)) % 5 + 1
    of_page = kinds[of.hosts]
    moving = np.select([of_page == 3, of_page == 4, of_page == 5], [1.0, 1 / 7, of.rates], 0.0)
    return Sitemaps(hosts, Drawn.of(*_events(np.arange(len(of.rates)), moving, chance)), kinds == 1)


def _half(of: World) -> tuple[Places, np.random.Generator]:
    chance = np.random.default_rng(of.seed + 4000)
    count = len(of.limits)
    return np.sort(chance.permutation(count)[: count // 2]), chance


@dataclass(slots=True)
class Score:
    """What a schedule reached: it is told of every visit, and reckons freshness within the measured days."""

    of: World
    truth: Truth
    days: float
    begin: float
    visited: Numbers = field(init=False)
    right: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.visited, self.right = self.of.visited.copy(), np.zeros(len(self.of.rates))

    def visit(self, pages: Places, now: float) -> None:
        """Pages are visited: their copies are right from now on."""
        start = np.maximum(self.visited[pages], self.begin)
        end = np.maximum(min(now, self.days), start)
        self.right[pages] += self.truth.fresh(pages, self.visited[pages], start, end)
        self.visited[pages] = now

    def freshness(self) -> float:
        """Importance-weighted share of the measured days in which copies were right."""
        self.visit(np.arange(len(self.visited)), self.days)
        return float((self.of.weights * self.right).sum() / (self.days - self.begin))


def known(of: World, truth: Truth, schedule: str, days: float, begin: float) -> float:
    """Run a schedule that needs no learning: `index`, which knows the true rates, or `uniform`."""
    score, rate = Score(of, truth, days, begin), _even(of) if schedule == "uniform" else None
    tokens, carry = np.zeros(len(of.limits)), 0.0
    for step in range(int(days / ROUND_DAYS)):
        now = step * ROUND_DAYS
        tokens = np.minimum(tokens + of.limits * ROUND_DAYS, np.maximum(of.limits * ROUND_DAYS * 2, 1.0))
        carry += of.budget * ROUND_DAYS
        since = now - score.visited
        worths = since * rate if rate is not None else of.weights * worth.of_known_rate(of.rates, since)
        chosen = _top(worths, of.hosts, np.floor(tokens + 1e-9).astype(int), int(carry))
        carry = min(carry - int(carry), of.budget * ROUND_DAYS * 2)
        tokens -= np.bincount(of.hosts[chosen], minlength=len(tokens))
        score.visit(chosen, now)
    return score.freshness()


def _top(worths: Numbers, hosts: Places, tokens: Places, most: int) -> Places:
    """The most worthy pages under whole tokens of hosts."""
    order = np.argsort(-worths, kind="stable")
    by_host = np.argsort(hosts[order], kind="stable")
    sorted_hosts = hosts[order][by_host]
    rank = np.empty(len(order), int)
    rank[by_host] = np.arange(len(order)) - np.searchsorted(sorted_hosts, sorted_hosts)
    return order[(rank < tokens[hosts[order]]) & (worths[order] > 0)][:most]


def _even(of: World) -> Numbers:
    """One rate for all pages, as high as the budget allows; less where a host's limit binds."""
    sizes = np.bincount(of.hosts, minlength=len(of.limits))
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if np.minimum(sizes * middle, of.limits).sum() > of.budget else (middle, high)
    return np.minimum(low, of.limits / np.maximum(sizes, 1))[of.hosts]
