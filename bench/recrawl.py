"""How near the product's schedule comes to the best one: recrawl-bench v1 through the product's own code.

A world of pages with known rates of change (`bench.recrawl_world`) is visited for 180 days. Each round is decided by
what a worker's rounds are decided by: `core.selection` chooses from due rows of `frontier` under the quotas of `hosts`
and the budget of `core.market`; `core.recrawl.learn` makes rows of `change_frequency` of what visits found, and
`core.frontier.advance` the next dates. They get and give frames with the columns of the lake's tables, which are kept
in memory: Delta takes no part, since 720 rounds of a bench would only measure that.

The oracle is the same index with the true rates, the bound the best plan in fractions of visits (`core.bound`).
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from statistics import mean
from typing import Any

import numpy as np
import polars as pl

from bench import recrawl_scale
from bench.figures import report
from bench.recrawl_world import (
    BEGIN,
    DAYS,
    ROUND_DAYS,
    Places,
    Score,
    Sitemaps,
    Truth,
    World,
    bursty,
    drawn,
    honest,
    known,
    lying,
    poisson,
    together,
    world,
)
from crawl_pipeline import valuing
from crawl_pipeline.core import bound, frontier, hints, market, politeness, recrawl, selection
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, HOSTS, TIME
from crawl_pipeline.planning import Spending

DAY_ZERO = datetime(2026, 1, 1, tzinfo=UTC)
ROUND_S = ROUND_DAYS * 86_400
NOISY = 0.2
GOOD, FAIR = (0.9, 0.9), (0.8, 0.66)
"""Of sitemaps: the share of changes that they tell of, and the share of what they tell that is right."""
TARGETS = [
    ("oracle_share", ">=", 0.98), ("gap_closed", ">=", 0.90), ("equal_importance_share", ">=", 0.97),
    ("low_budget_share", ">=", 0.96), ("always_changing_loss", "<=", 0.02), ("sitemap_gain", ">=", 0.015),
    ("lying_sitemap_loss", "<=", 0.002),
]  # fmt: skip
_VISIT: dict[str, Any] = {
    **{name: recrawl.VISIT[name] for name in ("bucket", "round", "url_hash", "host", "kind", "outcome", "ended_at",
                                              "text_hash", "main_hash")},
    "reason": pl.String, "robots_until": TIME, "host_aside": pl.Boolean,
}  # fmt: skip
_TOLD = ["url_hash", "outcome", "reason", "ended_at", "robots_until", "host_aside"]


def policy_of(of: World) -> Policy:
    """A round of six hours without a pause; what hosts allow stands in their rows as a Crawl-delay."""
    return Policy.model_validate({
        "agent": {"name": "Bench", "contact": "https://bench.test/"},
        "round": {"seconds": ROUND_S, "ahead_s": 0.0, "lease_s": 10 * ROUND_S, "urls": 1_000_000, "hosts": 1_000_000},
        "politeness": {"delay_s": 1e-3, "download_factor": 0.0},
        "budget": {"fetches_per_day": round(of.budget)},
        "recrawl": {"shortest_s": ROUND_S},
        "sitemap": {"shortest_s": 86_400.0},
    })  # fmt: skip


@dataclass(slots=True)
class Crawl:
    """The product's state of one world, and its rounds. `noisy` pages look changed whenever they are visited."""

    of: World
    truth: Truth
    noisy: float = 0.0
    days: float = DAYS
    begin: float = BEGIN
    sitemaps: Sitemaps | None = None
    left: float = 0.0
    price: float | None = None
    texts: int = 0
    said: pl.DataFrame | None = None
    """Dates of sitemaps that were read in the last round."""
    policy: Policy = field(init=False)
    score: Score = field(init=False)
    frontier: pl.DataFrame = field(init=False)
    known: pl.DataFrame = field(init=False)
    hosts: pl.DataFrame = field(init=False)
    liars: Places = field(init=False)

    def __post_init__(self) -> None:
        self.policy = policy_of(self.of)
        self.score = Score(self.of, self.truth, self.days, self.begin)
        self.frontier, self.known, self.hosts = _state(self.of, self.policy)
        if self.sitemaps:
            self.frontier = pl.concat([self.frontier, _listings(self.hosts, self.sitemaps, len(self.of.rates))])
        count = len(self.of.rates)
        self.liars = np.flatnonzero(np.random.default_rng(self.of.seed + 77).random(count) < self.noisy)

    def run(self) -> float:
        """Visit the world for its days; give the freshness reached."""
        for step in range(int(self.days / ROUND_DAYS)):
            self._round(step, DAY_ZERO + timedelta(days=step * ROUND_DAYS))
        return self.score.freshness()

    def _round(self, step: int, now: datetime) -> None:
        spending = self._spending(now)
        if self.said is not None:
            listed = self.frontier.join(self.said, on="url_hash", how="semi")
            moved = recrawl.hinted(listed, self.said, self.hosts, {0: self.price}, self.policy, now)
            self.frontier, self.said = _overlay(self.frontier, moved), None
        due = self.frontier.filter(pl.col("due_at") <= now)
        chosen = selection.select(due, self.hosts, self.policy, now, step, ROUND_S, spending.most)
        spending = replace(spending, unpaid=selection.unpaid(chosen.judged))
        before = chosen.fetch_list
        known = self.known.join(before, on="url_hash", how="semi")
        visits = valuing.valued(
            self._visits(before, known, step, now), before, self.hosts, spending, self.policy, now
        )  # fmt: skip
        learnt = recrawl.learn(known, visits, self.policy)
        rows = frontier.advance(before, visits.select(_TOLD), recrawl.intervals(known, learnt), self.policy)
        asked, held = _asked(self.hosts, before, self.policy, now), recrawl.compared(known, visits, self.policy)
        self.hosts = valuing.told(asked, learnt, known, held)
        self.frontier, self.known = _overlay(self.frontier, rows), _overlay(self.known, learnt)
        self.price, self.left = spending.price_of(0, now), spending.left_in(0, before.height) or 0.0

    def _spending(self, now: datetime) -> Spending:
        per_second = self.of.budget / 86_400
        since = now - timedelta(days=ROUND_DAYS)
        saved = market.saved(self.left, since, now, per_second, ROUND_S)
        return Spending({0: 1.0}, {0: saved}, {0: self.price}, {0: since}, per_second)

    def _visits(self, listed: pl.DataFrame, known: pl.DataFrame, step: int, now: datetime) -> pl.DataFrame:
        """What visits find: the text as it was known, or another."""
        all_ = listed["url_hash"].to_numpy()
        pages, day = all_[all_ < len(self.of.rates)], (now - DAY_ZERO) / timedelta(days=1)
        changed = self.truth.changed(pages, self.score.visited[pages], day) | np.isin(pages, self.liars)
        self.score.visit(pages, day)
        was = listed.select("url_hash").join(known, on="url_hash", how="left", maintain_order="left")["text_hash"]
        texts = was.fill_null(0).to_numpy().copy()
        texts[all_ < len(self.of.rates)] += np.where(changed, self.texts + np.arange(1, len(pages) + 1), 0)
        self.texts += len(pages)
        if self.sitemaps:
            listings = all_[all_ >= len(self.of.rates)]
            texts[all_ >= len(self.of.rates)] = self._read(self.sitemaps, listings - len(self.of.rates), day)
        frame = listed.select("bucket", "url_hash", "host", "kind").with_columns(
            pl.Series("text_hash", texts), round=step, outcome=pl.lit("fetched"), ended_at=now, host_aside=False,
            main_hash=pl.when(pl.col("kind") == "sitemap").then(0),
        )  # fmt: skip
        absent = [pl.lit(None, dtype).alias(name) for name, dtype in _VISIT.items() if name not in frame.columns]
        return frame.with_columns(absent).select(pl.col(name).cast(dtype) for name, dtype in _VISIT.items())

    def _read(self, sitemaps: Sitemaps, hosts: Places, day: float) -> list[int]:
        """Read sitemaps as a reader does: a hash of what each says, once dates that are its build's are left out."""
        hashes, said = list[int](), list[pl.DataFrame]()
        for host in hosts:
            pages = np.flatnonzero(self.of.hosts == host)
            dates = [DAY_ZERO + timedelta(days=date) for date in sitemaps.dates(host, pages, day)]
            sifted = pl.Series("lastmod_at", hints.sifted(dates), dtype=TIME)
            said.append(pl.DataFrame({"url_hash": pages}).with_columns(sifted).drop_nulls())
            hashes.append(int(sifted.hash().sum() or 0) % 2**62)
        self.said = pl.concat(said) if said else None
        return hashes


def _state(of: World, policy: Policy) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Rows of `frontier`, `change_frequency` and `hosts` on day 0: every page has been visited once."""
    names = np.array([f"h{number}.test" for number in range(len(of.limits))])
    visited = pl.Series("visited_at", [DAY_ZERO + timedelta(days=day) for day in of.visited], dtype=TIME)
    pages = pl.DataFrame({"url_hash": np.arange(len(of.rates)), "host": names[of.hosts]}).with_columns(bucket=0)
    rows = pages.with_columns(
        visited, pl.Series("score", of.weights / of.weights.max()), url=pl.format("http://{}/{}", "host", "url_hash"),
        status=pl.lit("fetched"), outcome=pl.lit("fetched"), kind=pl.lit("link"), band=1, depth=1, hops=0, attempts=0,
        found_at=visited, due_at=pl.lit(DAY_ZERO),
    )  # fmt: skip
    known_ = pages.with_columns(visited.alias("fetched_at"), visit_count=1, change_count=0, text_hash=0,
                                interval_s=policy.recrawl.first_s, text_read_at=visited)  # fmt: skip
    hosts = pl.DataFrame({"host": names, "site": names, "crawl_delay_s": 86_400 / of.limits}).with_columns(
        bucket=0, seeded=True, paused=False, known_count=0, day_count=0, found_at=DAY_ZERO - timedelta(days=10),
        fetched_count=np.bincount(of.hosts, minlength=len(names)), backoff_s=0.0, aside_s=0.0,
        calm_count=0, failures=0, download_s=0.0,
    )  # fmt: skip
    return FRONTIER.frame(rows), CHANGE_FREQUENCY.frame(known_), HOSTS.frame(hosts)


def _listings(hosts: pl.DataFrame, sitemaps: Sitemaps, first: int) -> pl.DataFrame:
    """Rows of `frontier` for sitemaps that have not been read."""
    rows = hosts.with_row_index("place")[sitemaps.hosts.tolist()].select(
        "bucket", "host", url_hash=pl.col("place").cast(pl.Int64) + first, url=pl.format("http://{}/map.xml", "host"),
        status=pl.lit("waiting"), kind=pl.lit("sitemap"), band=1, depth=0, hops=0, attempts=0, score=1.0,
        found_at=pl.lit(DAY_ZERO), due_at=pl.lit(DAY_ZERO),
    )  # fmt: skip
    return FRONTIER.frame(rows)


def _asked(hosts: pl.DataFrame, listed: pl.DataFrame, policy: Policy, now: datetime) -> pl.DataFrame:
    """Hosts after their visits: each is owed its gap as often as it was asked."""
    counts = dict(listed.group_by("host").len().iter_rows())
    pace = {row["host"]: politeness.gap_s(selection.pace_of(row), None, policy, row["host"])
            for row in hosts.filter(pl.col("host").is_in(list(counts))).iter_rows(named=True)}  # fmt: skip
    owed = {host: count * pace[host] for host, count in counts.items()}
    wait = pl.col("host").replace_strict(owed, default=None, return_dtype=pl.Float64)
    start = pl.max_horizontal("next_allowed_at", pl.lit(now, TIME))
    then = start + pl.duration(microseconds=(wait * 1e6).cast(pl.Int64))
    asked = pl.col("host").replace_strict(counts, default=0, return_dtype=pl.Int64)
    return hosts.with_columns(
        next_allowed_at=pl.coalesce(then, "next_allowed_at"), fetched_count=pl.col("fetched_count") + asked
    )


def _overlay(rows: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([rows.join(new, on="url_hash", how="anti"), new])


# Figures.


@dataclass(frozen=True, slots=True)
class Size:
    """How large and how long a world is."""

    pages: int = 20_000
    hosts: int = 400
    days: float = DAYS
    begin: float = BEGIN


def base(seed: int, size: Size) -> dict[str, float]:
    """The world as it is: the product against the oracle, against one rate for all, and against the bound."""
    of = world(seed, size.pages, size.hosts)
    best = bound.best(of.rates, of.weights, of.hosts, of.limits, of.budget).expected(of.weights)
    began = time.process_time()
    product = _product(of, poisson(of), size)
    cpu_s = time.process_time() - began
    oracle, even = (_known(of, poisson(of), name, size) for name in ("index", "uniform"))
    return {"oracle_share": product / oracle, "gap_closed": (product - even) / (oracle - even),
            "bound_share": product / best, "freshness": product, "oracle_freshness": oracle,
            "uniform_freshness": even, "cpu_s": cpu_s}  # fmt: skip


def equal(seed: int, size: Size) -> dict[str, float]:
    """All pages equally important."""
    of = world(seed, size.pages, size.hosts)
    return {"equal_importance_share": _share(replace(of, weights=np.full(size.pages, 1 / size.pages)), size)}


def low(seed: int, size: Size) -> dict[str, float]:
    """Less than a third of the budget."""
    return {"low_budget_share": _share(world(seed, size.pages, size.hosts, 0.03), size)}


def always(seed: int, size: Size) -> dict[str, float]:
    """Pages that look changed on every visit, though they change no more than others."""
    of = world(seed, size.pages, size.hosts)
    plain, noisy = (_product(of, poisson(of), size, share) for share in (0.0, NOISY))
    return {"always_changing_loss": plain - noisy}


def bursts(seed: int, size: Size) -> dict[str, float]:
    """Changes that come in bursts."""
    of = world(seed, size.pages, size.hosts)
    return {"bursty_share": _share(of, size, bursty)}


def alike(seed: int, size: Size) -> dict[str, float]:
    """Changes of many pages of a host at once."""
    of, truth = together(world(seed, size.pages, size.hosts))
    return {"correlated_share": _share(of, size, lambda _: truth)}


def sitemaps(seed: int, size: Size) -> dict[str, float]:
    """Half of the hosts have a sitemap whose readings are paid for: a good one, a fair one, or one that lies."""
    of = world(seed, size.pages, size.hosts)
    truth = drawn(of)
    plain, good, fair, lies = (
        _product(of, truth, size, sitemaps=told)
        for told in (None, honest(of, truth, *GOOD), honest(of, truth, *FAIR), lying(of))
    )
    return {"sitemap_gain": good - plain, "fair_sitemap_gain": fair - plain, "lying_sitemap_loss": plain - lies}


def _share(of: World, size: Size, truth: Callable[[World], Truth] = poisson) -> float:
    return _product(of, truth(of), size) / _known(of, truth(of), "index", size)


def _product(
    of: World, truth: Truth, size: Size, noisy: float = 0.0, sitemaps: Sitemaps | None = None
) -> float:  # fmt: skip
    return Crawl(of, truth, noisy, size.days, size.begin, sitemaps).run()


def _known(of: World, truth: Truth, schedule: str, size: Size) -> float:
    return known(of, truth, schedule, size.days, size.begin)


Part = Callable[[int, Size], dict[str, float]]
PARTS: tuple[Part, ...] = (base, equal, low, always, bursts, alike, sitemaps)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the worlds of some seeds; the variants on the first one alone, unless all are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--all", action="store_true", help="every variant on every seed: some minutes per seed")
    parser.add_argument("--quick", action="store_true", help="a tenth of the pages for 60 days: to see that it runs")
    parser.add_argument(
        "--scale", type=int, metavar="URLS", help="instead: what index and bound cost over so many URLs"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    if given.scale:
        hosts = max(given.scale // 100, 1)
        figures = recrawl_scale.measure(given.scale, hosts)
        report(
            "recrawl_scale", figures, recrawl_scale.TARGETS, {"urls": given.scale, "hosts": hosts}, as_json=given.json
        )
        return
    size = Size(2_000, 40, 60.0, 20.0) if given.quick else Size()
    work: list[tuple[Part, int]] = [(base, seed) for seed in given.seeds]
    work += [(part, seed) for part in PARTS[1:] for seed in (given.seeds if given.all else given.seeds[:1])]
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # frames are small: threads would cost more than they bring
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        parts = list(pool.map(_measured, *zip(*work, strict=True), [size] * len(work)))
    found: dict[str, list[float]] = {}
    for part in parts:
        for name, value in part.items():
            found.setdefault(name, []).append(value)
    figures = {name: mean(values) for name, values in found.items()}
    figures |= {f"{name}_lowest": min(found[name]) for name in ("oracle_share", "gap_closed")}
    settings = {"seeds": given.seeds, "pages": size.pages, "hosts": size.hosts, "days": size.days,
                "variants on": given.seeds if given.all else given.seeds[:1]}  # fmt: skip
    report("recrawl", figures, TARGETS, settings, as_json=given.json)


def _measured(part: Part, seed: int, size: Size) -> dict[str, float]:
    return part(seed, size)


if __name__ == "__main__":
    main()
