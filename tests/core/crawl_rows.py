"""Rows for the tests of the deciding core: short ways to say them, and nothing else."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, HOSTS, LINKS

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def policy(**sections: Any) -> Policy:
    """The defaults, but for these sections."""
    return Policy.model_validate({"agent": {"name": "ExampleBot", "contact": "https://example.org/"}} | sections)


def link(url: str, **columns: Any) -> dict[str, Any]:
    """A link to a URL, one step from a seed."""
    host = urls.host(url)
    return {"url": url, "url_hash": urls.url_hash(url), "host": host, "kind": "link", "nofollow": False, "depth": 1,
            "hops": 0, "target_bucket": urls.bucket(urls.site(host), 4), "source_bucket": 0} | columns  # fmt: skip


def links(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows of `links` with the site of each."""
    frame = LINKS.frame(list(rows))
    return frame.with_columns(site=pl.Series([urls.site(host) for host in frame["host"]], dtype=pl.String))


def host(name: str, **columns: Any) -> dict[str, Any]:
    """A host that a seed named and nobody has asked."""
    return {"host": name, "site": urls.site(name), "bucket": urls.bucket(urls.site(name), 4), "seeded": True,
            "paused": False, "known_count": 0, "fetched_count": 0, "day_count": 0, "backoff_s": 0.0, "calm_count": 0,
            "failures": 0} | columns  # fmt: skip


def hosts(*rows: dict[str, Any]) -> pl.DataFrame:
    """Rows of `hosts`."""
    return HOSTS.frame(list(rows))


def due(name: str, count: int, start: int = 0, **columns: Any) -> pl.DataFrame:
    """So many due frontier rows of one host."""
    numbers = range(start, start + count)
    pages = [f"http://{name}/{number}" for number in numbers]
    rows = [{"url": page, "url_hash": urls.url_hash(page), "host": name, "bucket": urls.bucket(urls.site(name), 4),
             "status": "waiting", "band": 1, "due_at": NOON, "attempts": 0} | columns for page in pages]  # fmt: skip
    return FRONTIER.frame(rows)


def history(**columns: Any) -> pl.DataFrame:
    """One row of `change_frequency`."""
    return CHANGE_FREQUENCY.frame([{"url_hash": 1, "host": "a.test", "bucket": 0} | columns])
