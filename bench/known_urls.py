"""A lake of one bucket that knows so many URLs, for bench.frontier: made up, but with the shape of a long crawl.

Hosts of very different size, URLs of some 60 characters, nearly all of them fetched and due again within months, a
few that never are, and some tens of thousands that are due on a thousand hosts. State is written as base rows through
the lake's own commit, in chunks, so that memory stays bounded.
"""

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from crawl_pipeline.core import admission, frontier, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, HOSTS, ROUNDS, Table
from crawl_pipeline.lake import Lake
from crawl_pipeline.lake.delta import Backoff, Change, DeltaTable
from crawl_pipeline.lake.folding import laid_out

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
URLS_PER_HOST = 1_000
ACTIVE_HOSTS, DUE_PER_HOST = 1_000, 40
OUTCOMES = 10_000
_WORDS = """
about archive article author blog catalogue category city contact culture detail event forum gallery guide help
history index item library list manual member music news notes page people photo place press product profile project
reference region report review science search section series service shop story tag team topic travel university
"""
WORDS = np.array(_WORDS.split())
POLICY = Policy.model_validate(
    {"agent": {"name": "BenchBot", "contact": "https://bench.example/"}, "round": {"urls": OUTCOMES}}
)


def host_sizes(count: int) -> "np.typing.NDArray[np.int64]":
    """How many URLs each host has: a few large hosts, many small ones."""
    shares = np.random.default_rng(1).lognormal(0, 1, max(1, count // URLS_PER_HOST))
    sizes: np.typing.NDArray[np.int64] = np.maximum(1, (shares / shares.sum() * count).astype(np.int64))
    return sizes


def host_names(count: int) -> list[str]:
    """Names in the order in which a base is sorted."""
    return [f"h{number:06d}-{WORDS[number % len(WORDS)]}.example" for number in range(count)]


def active(hosts: int) -> "np.typing.NDArray[np.int64]":
    """The hosts that have URLs due, spread over all."""
    return np.linspace(0, hosts - 1, min(ACTIVE_HOSTS, hosts)).astype(np.int64)


def known(count: int, chunk: int = 250_000) -> Iterator[pl.DataFrame]:
    """Rows of the frontier in the order of its base, some hundred thousand at a time."""
    sizes = host_sizes(count)
    names, ends = np.array(host_names(len(sizes))), np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        last = min(len(sizes), int(np.searchsorted(ends, (ends[first - 1] if first else 0) + chunk)) + 1)
        yield _rows(first, sizes[first:last], names[first:last], np.isin(np.arange(first, last), active(len(sizes))))
        first = last


def _rows(first: int, sizes: Any, names: Any, is_active: Any) -> pl.DataFrame:
    rng, total = np.random.default_rng(first), int(sizes.sum())
    place = np.arange(total) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    due = np.repeat(is_active, sizes) & (place < DUE_PER_HOST)
    depth = rng.integers(1, 9, total)
    never, again = rng.random(total) < 0.08, rng.random(total) < 0.25
    pick = [pl.Series(WORDS[rng.integers(0, len(WORDS), total)]) for _ in range(3)]
    tail = np.array([".html", "/", "", ".html?id=7&lang=en"])[rng.integers(0, 4, total)]
    fetched = ~due | again
    frame = pl.DataFrame(
        {"host": np.repeat(names, sizes), "depth": depth, "round": rng.integers(1, 400, total), "tail": tail,
         "place": rng.integers(1, 100_000, total) * 1_000_000 + place, "wait": rng.integers(3_600, 7_776_000, total),
         "age": rng.integers(1, 4_000, total), "source_hash": rng.integers(-(2**63), 2**63 - 1, total),
         "due": due, "fetched": fetched, "never": never & ~due}
    ).with_columns(pick[0].alias("a"), pick[1].alias("b"), pick[2].alias("c"))  # fmt: skip
    score = pl.lit(POLICY.bands.depth_share).pow(pl.col("depth"))
    frame = frame.with_columns(
        url=pl.format("https://{}/{}/{}/{}-{}{}", "host", "a", "b", "c", "place", "tail"), score=score,
        bucket=0, layer=pl.lit("base"), layout=0, part=0, kind=pl.lit("link"), hops=0, attempts=0, tag=pl.lit("bench"),
        band=admission.band(score, POLICY),
        status=pl.when("never").then(pl.lit("gone")).when("fetched").then(pl.lit("fetched")).otherwise(pl.lit("waiting")),
        outcome=pl.when("never").then(pl.lit("redirected")).when("fetched").then(pl.lit("fetched")),
        found_at=pl.lit(NOW) - pl.duration(hours="age"),
        due_at=pl.when("never").then(None).when("due").then(pl.lit(NOW) - pl.duration(minutes="depth"))
        .otherwise(pl.lit(NOW) + pl.duration(seconds="wait")),
    )  # fmt: skip
    seconds, a, b = rng.integers(3_600, 7_776_000, total), rng.random(total) * 3, rng.random(total) * 90
    visited_at = pl.lit(NOW) - pl.duration(seconds=pl.lit(pl.Series(seconds)))
    frame = frame.with_columns(
        pl.when("fetched").then(value).alias(name)
        for name, value in (("visited_at", visited_at), ("evidence_a", pl.Series(a)), ("evidence_b", pl.Series(b)))
    )
    frame = frame.with_columns(frontier.coarse("evidence_a"), frontier.coarse("evidence_b"))
    frame = frame.with_columns(url_hash=pl.Series([urls.url_hash(url) for url in frame["url"]]))
    return FRONTIER.frame(frame.select(name for name in FRONTIER.schema if name in frame.columns)).sort("host", "url")


def visited(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of change_frequency for the fetched ones."""
    fetched = rows.filter(pl.col("status") == "fetched")
    rng = np.random.default_rng(fetched.height)
    visits, text = rng.integers(1, 30, fetched.height), rng.integers(-(2**63), 2**63 - 1, fetched.height)
    changes = (visits * rng.random(fetched.height) / 3).astype(int)
    told = fetched.select(
        "bucket", "layer", "layout", "round", "url_hash", "host", fetched_at="found_at",
        interval_s=(pl.col("due_at") - pl.col("found_at")).dt.total_seconds(),
    )  # fmt: skip
    frame = told.with_columns(
        visit_count=visits, change_count=changes, evidence_a=changes * rng.random(fetched.height),
        evidence_b=visits * 7.0 * rng.random(fetched.height), rate=rng.random(fetched.height), text_hash=text,
        etag=pl.lit('"') + pl.Series(text).cast(str) + '"',
    )  # fmt: skip
    return laid_out(CHANGE_FREQUENCY.frame(frame).lazy(), CHANGE_FREQUENCY).collect()


def build(root: str, count: int) -> None:
    """Make the lake: all state as base, and one committed round that knows of it."""
    lake = Lake.create(root, 1)
    with tempfile.TemporaryDirectory(prefix="bench-frontier-") as folder:
        for number, rows in enumerate(known(count)):
            rows.write_parquet(f"{folder}/{number:04d}.parquet")
        stored = sorted(Path(folder).iterdir())
        base(root, FRONTIER, by_day(pl.scan_parquet(stored)))
        base(root, CHANGE_FREQUENCY, map(visited, by_day(pl.scan_parquet(stored))))
    sizes = host_sizes(count)
    rows = pl.DataFrame({"host": host_names(len(sizes)), "known_count": sizes}).with_columns(
        bucket=0, site="host", seeded=True, paused=False, fetched_count="known_count", day_count=0, backoff_s=0.0,
        calm_count=0, failures=0, found_at=pl.lit(NOW), round=1, layer=pl.lit("base"), layout=0, download_s=0.2,
    )  # fmt: skip
    base(root, HOSTS, iter([HOSTS.frame(rows)]))
    lease = lake.claim([0], "bench", NOW, 3_600)
    lake.commit(lease, ROUNDS.frame([{"bucket": 0, "round": lease.round, "links_seen": [0], "orders_seen": -1,
                                      "known_count": int(sizes.sum())}]))  # fmt: skip
    lake.release(lease)


def by_day(rows: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    """Rows in the order in which a fold lays them out, six days at a time."""
    bounds = [NOW.replace(hour=0) + timedelta(days=days) for days in range(1, 96, 6)]
    due = pl.col("due_at")
    inner = [(due >= first) & (due < last) for first, last in pairwise(bounds)]
    for part in (due < bounds[0], *inner, due >= bounds[-1], due.is_null()):
        yield laid_out(rows.filter(part), FRONTIER).collect()


def base(root: str, table: Table, frames: Iterator[pl.DataFrame]) -> None:
    """Write frames as the base of the only bucket."""
    schema = table.empty().to_arrow().schema
    batches = (batch for frame in frames for batch in frame.rechunk().to_arrow().to_batches())
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    DeltaTable(root, table, {}, Backoff(attempts=1, faults=1)).commit(lambda opened: Change(reader, "bucket in (0)"))
