"""What the index and the bound cost over ten million URLs: seconds on one core, and memory.

The index is what a plan does with due rows: `core.merit` values all of them, as if everything were due, and the best
are taken. The bound is `core.bound.best`, exact: no page is lumped together with others.
"""

import resource
import time
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from bench.recrawl_world import world
from crawl_pipeline.core import bound, merit
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import TIME

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGETS = [("index_s", "<=", 60.0), ("bound_s", "<=", 600.0)]
PRICED = 20_000


def measure(urls: int, hosts: int) -> dict[str, float]:
    """Value so many URLs and take the best; find the best plan for them."""
    rows = _rows(urls)
    began, before = time.process_time(), _peak_mb()
    worths = merit.of_visits(rows, Policy.model_validate({"agent": {"name": "B", "contact": "https://b.test/"}}), NOW)
    best = worths.top_k(PRICED)
    index_s, index_mb = time.process_time() - began, _peak_mb()
    del rows, worths
    of = world(1, urls, hosts)
    began = time.process_time()
    found = bound.best(of.rates, of.weights, of.hosts, of.limits, of.budget)
    bound_s = time.process_time() - began
    return {
        "index_s": index_s, "index_ns_per_url": index_s / urls * 1e9, "index_mb": index_mb - before,
        "bound_s": bound_s, "peak_mb": _peak_mb(), "bound": found.expected(of.weights), "price": found.price,
        "least_chosen": float(best.to_numpy().min()),
    }  # fmt: skip


def _rows(urls: int) -> pl.DataFrame:
    """Due rows with what their hosts bring; sitemaps of a fifth of them are believed."""
    chance = np.random.default_rng(1)
    days = chance.exponential(10.0, urls)
    return pl.DataFrame({
        "score": chance.random(urls).astype(np.float32), "evidence_a": chance.random(urls).astype(np.float32),
        "evidence_b": chance.exponential(30.0, urls).astype(np.float32), "prior_b": chance.uniform(1.0, 20.0, urls),
        "days": days, "moved_count": (chance.random(urls) < 0.02).astype(np.int16),
        "recall": np.where(chance.random(urls) < 0.2, 0.8, 0.0), "precision": np.full(urls, 0.9),
    }).with_columns(
        visited_at=pl.lit(NOW, TIME) - pl.duration(microseconds=(pl.col("days") * 8.64e10).cast(pl.Int64)),
        lastmod_at=pl.lit(NOW - timedelta(days=99), TIME),
    ).drop("days")  # fmt: skip


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
