"""How early a crawl has the pages that count: the product's own selection beside breadth first, on graphs with traps.

A graph (`bench.order_world`) is crawled in rounds of 500 URLs, of each host 25 at most, from 10 seeds. Each round is
decided by what a worker's rounds are decided by: `core.admission` admits links, `core.importance` scores due rows of
`frontier` by the ranks that `core.page_rank` makes of the links every fourth round and by the cash of visits since,
`core.selection` chooses under the quotas of `hosts` and a budget. Frames have the columns of the lake's tables and are
kept in memory. The judge is PageRank of the whole graph, that of trap pages counted as nothing.

Three other orders, under the same limits, say what that is worth: breadth first; clairvoyant, which knows the true
rank of every known URL; and the product without ranks, which goes by the distance from a seed.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing import get_context
from statistics import mean

import numpy as np
import polars as pl

from bench.figures import report
from bench.order_world import Numbers, Places, World, world
from crawl_pipeline.core import admission, importance, page_rank, selection
from crawl_pipeline.core.orders import NOTHING
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER, HOSTS, LINKS

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
URLS, PER_HOST, RANK_EVERY = 500, 25, 4
TARGETS = [("mass10_over_bfs", ">=", 1.05), ("auc_gain", ">=", 0.015), ("trap_share_first_quarter", "<=", 0.01)]
POLICY = Policy.model_validate({
    "agent": {"name": "Bench", "contact": "https://bench.test/"},
    "scope": {"follow": "everywhere", "depth": 1_000},
    "budget": {"fetches_per_day": 10_000_000, "fetches_per_host_day": 10_000_000, "fetches_per_site_day": 10_000_000},
    "round": {"seconds": float(PER_HOST - 1), "ahead_s": 0.0, "urls": URLS, "hosts": 10_000},
    "politeness": {"delay_s": 1.0, "download_factor": 0.0},
})  # fmt: skip
"""A host is asked once a second for 24 seconds: 25 times."""


@dataclass(frozen=True, slots=True)
class Order:
    """The pages in the order they were fetched, and what the crawl cost."""

    pages: Places
    cpu_s: float

    def mass(self, of: World, share: float) -> float:
        """The true rank that the first share of all fetches had."""
        return float(of.truth[self.pages[: int(share * len(of.hosts))]].sum())

    def area(self, of: World) -> float:
        """The mean of that over the whole crawl."""
        return float(np.cumsum(of.truth[self.pages]).sum() / len(of.hosts))

    def traps(self, of: World) -> float:
        """The share of trap pages in the first quarter."""
        return float(of.trap[self.pages[: len(of.hosts) // 4]].mean())


@dataclass(slots=True)
class Crawl:
    """The product's state of one world, and its rounds."""

    of: World
    ranked: bool = True
    frontier: pl.DataFrame = field(default_factory=FRONTIER.empty)
    ranks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=importance.RANKS))
    cash: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=importance.CASH))
    fetched: list[Places] = field(default_factory=list)
    rank_s: float = 0.0

    def run(self) -> Order:
        """Crawl until every page is fetched."""
        began = time.process_time()
        hosts = _hosts(self.of)
        self._admit(_rows(self.of, self.of.seeds, "seed"), hosts)
        while self.frontier.height:
            self._round(len(self.fetched), hosts)
        return Order(np.concatenate(self.fetched), time.process_time() - began)

    def _round(self, number: int, hosts: pl.DataFrame) -> None:
        if self.ranked and (number % RANK_EVERY == 0 or number < RANK_EVERY) and number:
            self._rank()
        has_ranks = self.ranks.height > 0
        due = importance.scored(self.frontier, self.ranks, self.cash, NOTHING, POLICY) if has_ranks else self.frontier
        chosen = selection.select(due, hosts, POLICY, NOON, number, None, URLS).fetch_list
        pages = chosen["url_hash"].to_numpy()
        self.fetched.append(pages)
        self.frontier = self.frontier.join(chosen, on="url_hash", how="anti")
        if has_ranks:
            self._hand_on(chosen)
        self._admit(_rows(self.of, self.of.links(pages)[1], "link", chosen), hosts)

    def _admit(self, links: pl.DataFrame, hosts: pl.DataFrame) -> None:
        known = np.concatenate([self.frontier["url_hash"].to_numpy(), *self.fetched])
        rows = admission.admit(links, pl.Series(known, dtype=pl.Int64), hosts, POLICY, NOON).rows
        self.frontier = pl.concat([self.frontier, rows])

    def _rank(self) -> None:
        """What `ranking` does with the rows of a lake, from the last ranks on."""
        began = time.process_time()
        fetched = np.concatenate(self.fetched)
        source, target = self.of.links(fetched)
        count = len(self.of.hosts)
        links = np.bincount(source, minlength=count)
        within = self.of.hosts[source] == self.of.hosts[target]
        gives = page_rank.gives(links[source], within, POLICY.rank.same_host)
        start = np.ones(count)
        start[self.ranks["url_hash"].to_numpy()] = self.ranks["page_rank"].to_numpy()
        graph = page_rank.Graph(count, source.astype(np.int32), target.astype(np.int32), gives)
        found = page_rank.rank(graph, start)
        self.ranks = pl.DataFrame({"url_hash": np.arange(count), "page_rank": found.ranks}, schema=importance.RANKS)
        self.cash = self.cash.clear()
        self.rank_s += time.process_time() - began

    def _hand_on(self, chosen: pl.DataFrame) -> None:
        pages = chosen["url_hash"].to_numpy()
        source, target = self.of.links(pages)
        each = pl.DataFrame({"source_hash": source, "url_hash": target}).join(
            chosen.select("score", source_hash="url_hash"), on="source_hash"
        )
        links, within = pl.len().over("source_hash"), pl.Series(self.of.hosts[source] == self.of.hosts[target])
        given = each.select("url_hash", cash=importance.cash(pl.col("score"), links, pl.lit(within), POLICY))
        both = pl.concat([self.cash, given.cast(importance.CASH)])  # type: ignore[arg-type]
        self.cash = both.group_by("url_hash").agg(pl.col("cash").sum())


def _hosts(of: World) -> pl.DataFrame:
    names = [f"h{number}.test" for number in range(of.hosts.max() + 1)]
    rows = pl.DataFrame({"host": names, "site": names}).with_columns(
        bucket=0, seeded=True, paused=False, known_count=0, parked_count=0, fetched_count=0, day_count=0, backoff_s=0.0,
        aside_s=0.0, calm_count=0, failures=0, download_s=0.0,
    )  # fmt: skip
    return HOSTS.frame(rows)


def _rows(of: World, pages: Places, kind: str, sources: pl.DataFrame | None = None) -> pl.DataFrame:
    """Rows of `links` to pages, with their site; depth is that of the nearest source."""
    depth = np.zeros(len(pages), np.int64)
    if sources is not None:
        depths = dict(sources.select("url_hash", "depth").iter_rows())
        depth = np.array([depths[page] + 1 for page in of.links(sources["url_hash"].to_numpy())[0]])
    host = pl.format("h{}.test", pl.Series(of.hosts[pages]))
    rows = pl.DataFrame({"url_hash": pages, "depth": depth}).with_columns(
        host=host, kind=pl.lit(kind), target_bucket=0, hops=0, nofollow=False
    )
    rows = rows.with_columns(url=pl.format("http://{}/{}", "host", "url_hash"))
    return LINKS.frame(rows).with_columns(site="host")


def simple(of: World, key: Callable[[Places], Numbers]) -> Order:
    """Crawl by a fixed key of the known URLs, the smallest first, under the same limits."""
    began, known, fetched, parts = time.process_time(), of.seeds, np.zeros(len(of.hosts), bool), list[Places]()
    while len(known):
        line = known[np.argsort(key(known), kind="stable")]
        turns = pl.Series(of.hosts[line]).to_frame("host").select(pl.int_range(pl.len()).over("host"))
        chosen = line[turns.to_series().to_numpy() < PER_HOST][:URLS]
        fetched[chosen] = True
        parts.append(chosen)
        both = np.concatenate([known, of.links(chosen)[1]])
        known = both[np.sort(np.unique(both, return_index=True)[1])]  # each once, in the order they were found
        known = known[~fetched[known]]
    return Order(np.concatenate(parts), time.process_time() - began)


def measured(seed: int) -> dict[str, float]:
    """The figures of one graph."""
    of = world(seed)
    breadth = simple(of, lambda known: np.arange(len(known), dtype=float))
    clairvoyant = simple(of, lambda known: -of.truth[known])
    crawl = Crawl(of)
    product, plain = crawl.run(), Crawl(of, ranked=False).run()
    tenth = {name: order.mass(of, 0.1) for name, order in
             (("bfs", breadth), ("best", clairvoyant), ("product", product), ("plain", plain))}  # fmt: skip
    return {
        "mass10_over_bfs": tenth["product"] / tenth["bfs"],
        "auc_gain": product.area(of) - breadth.area(of),
        "trap_share_first_quarter": product.traps(of),
        "gap_closed_10": (tenth["product"] - tenth["bfs"]) / (tenth["best"] - tenth["bfs"]),
        "mass10": tenth["product"], "mass10_bfs": tenth["bfs"], "mass10_clairvoyant": tenth["best"],
        "mass10_without_ranks": tenth["plain"],
        "auc": product.area(of), "auc_bfs": breadth.area(of), "auc_clairvoyant": clairvoyant.area(of),
        "trap_share_bfs": breadth.traps(of), "cpu_s": product.cpu_s, "rank_cpu_s": crawl.rank_s,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the graphs of some seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[3, 4, 5])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # frames are small: threads would cost more than they bring
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        parts = list(pool.map(measured, given.seeds))
    figures: dict[str, float | None] = {name: mean(part[name] for part in parts) for name in parts[0]}
    figures |= {"trap_share_worst": max(part["trap_share_first_quarter"] for part in parts)}
    settings = {"seeds": given.seeds, "urls per round": URLS, "per host": PER_HOST, "ranked every": RANK_EVERY}
    report("order", figures, TARGETS, settings, as_json=given.json)


if __name__ == "__main__":
    main()
