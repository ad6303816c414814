"""Rows for the lake's tests: short ways to say them, and nothing else."""

from collections.abc import Iterable
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline.core.tables import FRONTIER, HOSTS, LINKS, ROUNDS
from crawl_pipeline.lake import Lake, Lease

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
LATER = datetime(2026, 3, 1, 12, 5, 0, tzinfo=UTC)


def urls(bucket: int, statuses: dict[int, str]) -> pl.DataFrame:
    """Frontier rows of one bucket: url_hash to status."""
    return FRONTIER.frame(
        [
            {
                "bucket": bucket,
                "url_hash": key,
                "url": f"http://h{key}.test/",
                "host": f"h{key % 3}.test",
                "status": status,
            }
            for key, status in statuses.items()
        ]
    ).drop("round", "layer")


def hosts(bucket: int, names: Iterable[str]) -> pl.DataFrame:
    """Host rows of one bucket."""
    return HOSTS.frame([{"bucket": bucket, "host": name} for name in names]).drop("round", "layer")


def links(source: int, target: int, keys: Iterable[int]) -> pl.DataFrame:
    """Links from one bucket to another."""
    return LINKS.frame(
        [
            {"source_bucket": source, "target_bucket": target, "url_hash": key, "source_hash": 0, "kind": "link",
             "url": f"http://h.test/{key}", "host": "h.test"}
            for key in keys
        ]
    ).drop("round")  # fmt: skip


def done(lease: Lease, buckets: Iterable[int] | None = None) -> pl.DataFrame:
    """Rows of `rounds` that commit a lease's round."""
    return ROUNDS.frame([{"bucket": bucket} for bucket in buckets or lease.buckets]).drop("round")


def statuses(lake: Lake, **wanted: object) -> dict[int, str]:
    """What the frontier shows: url_hash to status; fails if a key shows twice."""
    seen = lake.scan("frontier", **wanted).select("url_hash", "status").collect()  # type: ignore[arg-type]
    assert seen["url_hash"].is_unique().all()
    return dict(seen.iter_rows())
