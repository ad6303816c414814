"""What a clustering costs while the corpus grows, and whether clusters depend on the order of pages.

A lake is filled with made-up signatures, of which three in ten are near-duplicates of earlier ones and one in ten is a
copy. At a tenth of the size and at the full size some rounds of pages are clustered as `crawl duplicates` does it: read
from `pages`, clustered, committed to the lake. The ratio of CPU seconds says how a round costs by what is known.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import psutil

from bench.figures import report
from crawl_pipeline import duplicates
from crawl_pipeline.core.clusters import Clusters, stored_minhash
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import PAGES, ROUNDS
from crawl_pipeline.lake import Lake

TARGETS = [("round_cost_ratio_1m_100k", "<=", 2.0), ("orders_that_differ", "==", 0.0)]
Figures = dict[str, float | None]
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
POLICY = Policy.model_validate({"agent": {"name": "BenchBot", "contact": "https://bench.example/"}})
CHUNK, TURNS, REMEMBERED = 50_000, 5, 100_000
NEAR, COPIES = 0.3, 0.1
CHANGED = 0.06
"""Share of MinHash values in which a near-duplicate differs, and of bits: Jaccard index 0.94, four bits."""


class Signatures:
    """Made-up signatures, each batch with revisions and copies of earlier ones."""

    def __init__(self, seed: int = 7) -> None:
        self._rng = np.random.default_rng(seed)
        self._minhash: npt.NDArray[np.uint32] = np.empty((0, 128), np.uint32)
        self._simhash = np.empty(0, np.int64)
        self._main = np.empty(0, np.int64)

    def draw(self, count: int) -> pl.DataFrame:
        """Give a batch, as in fingerprint.SCHEMA."""
        rng = self._rng
        minhash = rng.integers(0, 2**32, (count, 128), dtype=np.uint32)
        simhash, main = (rng.integers(-(2**63), 2**63 - 1, count) for _ in range(2))
        if len(self._main):
            kind, source = rng.random(count), rng.integers(0, len(self._main), count)
            near, copy = kind < NEAR, kind > 1 - COPIES
            revised = self._minhash[source[near]]
            revised[rng.random(revised.shape) < CHANGED] = 7
            minhash[near], simhash[near] = revised, self._simhash[source[near]] ^ _some_bits(rng, int(near.sum()))
            minhash[copy], simhash[copy] = self._minhash[source[copy]], self._simhash[source[copy]]
            main[copy] = self._main[source[copy]]
        self._remember(minhash, simhash, main)
        words = np.full(count, 200, np.int32)
        return pl.DataFrame(
            {"token_count": words, "main_hash": main, "simhash": simhash, "minhash": stored_minhash(minhash)}
        )

    def _remember(
        self, minhash: npt.NDArray[np.uint32], simhash: npt.NDArray[np.int64], main: npt.NDArray[np.int64]
    ) -> None:
        """Keep a share of the batch, in place of what was kept before once there is enough."""
        most = min(len(main), 5_000)
        if len(self._main) < REMEMBERED:
            self._minhash = np.concatenate([self._minhash, minhash[:most]])
            self._simhash, self._main = (
                np.concatenate([a, b[:most]]) for a, b in ((self._simhash, simhash), (self._main, main))
            )
            return
        place = self._rng.integers(0, len(self._main), most)
        self._minhash[place], self._simhash[place], self._main[place] = minhash[:most], simhash[:most], main[:most]


def _some_bits(rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    bits = np.zeros(count, np.int64)
    for _ in range(4):
        bits |= np.left_shift(np.int64(1), rng.integers(0, 63, count))
    return bits


def main() -> None:
    """Measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--round", type=int, default=10_000, help="pages of a round that is measured")
    parser.add_argument("--order-pages", type=int, default=20_000, help="pages that are put into ten orders")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    figures = orders(options.order_pages) | growth(options.pages, options.round)
    settings = {"pages": options.pages, "round": options.round, "load_before": round(load_before, 1)}
    report("cluster_growth", figures, TARGETS, settings, as_json=options.json)


def growth(pages: int, round_pages: int) -> Figures:
    """CPU seconds of a round at a tenth of the pages and at all of them, with peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        lake, drawn, known, costs = Lake.create(str(Path(folder) / "lake"), 1), Signatures(), 0, list[float]()
        for size in (pages // 10, pages):
            while known < size:
                chunk = min(CHUNK, size - known)
                _clustered(lake, drawn.draw(chunk), known)
                known += chunk
            turns = [_clustered(lake, drawn.draw(round_pages), known + turn * round_pages) for turn in range(TURNS)]
            known += TURNS * round_pages
            costs.append(statistics.median(turns))
        memory = psutil.Process().memory_full_info()
        standing = duplicates.standing(lake)
        return {
            "round_cost_ratio_1m_100k": costs[1] / costs[0], "round_cpu_s_100k": costs[0], "round_cpu_s_1m": costs[1],
            "pages_per_cpu_s_1m": round_pages / costs[1], "private_mb": memory.uss / 2**20,
            "clusters": float(standing["clusters"]), "copies": float(standing["copies"]),
            "largest": float(standing["largest"]),
        }  # fmt: skip


def _clustered(lake: Lake, signatures: pl.DataFrame, first: int) -> float:
    """Commit a round of pages and cluster it; give the CPU seconds of the clustering."""
    numbers = range(first, first + signatures.height)
    urls = pl.Series("url", [f"http://h{number % 5_000}.test/{number}" for number in numbers])
    rows = signatures.with_columns(
        urls, url_hash=urls.hash(7).reinterpret(signed=True), bucket=0, month=pl.lit("2026-06"), host=pl.lit("h.test")
    )
    lease = lake.claim([0], "bench", NOW, 600)
    lake.write(lease, "pages", PAGES.frame(rows).drop("round"))
    lake.commit(lease, ROUNDS.frame([{"bucket": 0, "page_count": rows.height}]).drop("round"))
    lake.release(lease)
    began = time.process_time()
    duplicates.find(lake, POLICY)
    return time.process_time() - began


def orders(pages: int, count: int = 10) -> Figures:
    """How many of some orders, cut anyhow, give other clusters than the first."""
    drawn = Signatures()
    texts = pl.concat([drawn.draw(5_000) for _ in range(pages // 5_000)]).unique("main_hash", maintain_order=True)
    found = [_in_order(texts, order) for order in range(count)]
    return {"orders_that_differ": float(sum(not one.equals(found[0]) for one in found))}


def _in_order(texts: pl.DataFrame, order: int) -> pl.DataFrame:
    known, rng = Clusters(), np.random.default_rng(order)
    left = texts.sample(fraction=1, shuffle=True, seed=order)
    for part in _cut(left, rng):
        known.apply(part, part["main_hash"].clear())
    return known.of(texts["main_hash"])


def _cut(left: pl.DataFrame, rng: np.random.Generator) -> Iterator[pl.DataFrame]:
    while left.height:
        size = int(rng.integers(1, 8_000))
        yield left.head(size)
        left = left.slice(size)


if __name__ == "__main__":
    main()
