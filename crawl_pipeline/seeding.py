"""What people order: seeds, pauses, and the policy in force. Orders are rows; their bucket's owner obeys them."""

import getpass
from collections.abc import Iterable
from datetime import datetime

import polars as pl

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import ORDERS
from crawl_pipeline.lake import Lake

SHOWN = 20
"""How many wrong seeds an error lists."""


class SeedError(ValueError):
    """Some seeds are no URLs that can be crawled; nothing was ordered."""


def seed(lake: Lake, hrefs: Iterable[str], *, tag: str | None, now: datetime, by: str | None = None) -> int:
    """Order URLs to be crawled; return how many, each spelling counted once. All or none."""
    found, wrong = dict[str, None](), list[str]()
    for href in hrefs:
        try:
            found[urls.canonical(href)] = None
        except urls.NotCrawlable as refusal:
            wrong.append(f"  {href}: {refusal}")
    if wrong:
        more = [f"  and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        lines = "\n".join([*wrong[:SHOWN], *more])
        raise SeedError(f"these are not URLs that can be crawled, so nothing was seeded:\n{lines}")
    if found:
        _give(lake, [{"kind": "seed", "url": url, "host": urls.host(url), "tag": tag} for url in found], now, by)
    return len(found)


def pause(lake: Lake, host: str, *, paused: bool, now: datetime) -> None:
    """Order that a host is not asked, or asked again."""
    _give(lake, [{"kind": "pause" if paused else "resume", "host": host}], now, None)


def keep_policy(lake: Lake, policy: Policy, now: datetime) -> None:
    """Keep a snapshot of the policy with the orders, once, so that rounds under it can be explained later."""
    same = lake.scan("orders", where=(pl.col("kind") == "policy") & (pl.col("policy_id") == policy.id))
    if same.select(pl.len()).collect().item() == 0:
        _give(lake, [{"kind": "policy", "policy_id": policy.id, "policy_toml": policies.render(policy)}], now, None)


def _give(lake: Lake, rows: list[dict[str, object]], now: datetime, by: str | None) -> None:
    who = by or getpass.getuser()
    lake.give(ORDERS.frame([row | {"ordered_at": now, "ordered_by": who} for row in rows]))
