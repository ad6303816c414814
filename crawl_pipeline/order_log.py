"""The log of orders read back: who ordered what and when, whether it is obeyed yet, what a request was answered.

Reads `orders` and the cursors in `rounds`; writes nothing of its own. Invariant: of one giver, one key is one order
with one answer, before and after a restart, because key and answer are read from the order's own rows.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline import ordering
from crawl_pipeline.core import urls
from crawl_pipeline.core.orders import OrderError
from crawl_pipeline.lake import Lake
from crawl_pipeline.ordering import Giver

NAMED = 20
"""Names that an entry shows of an order."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One order: a commit of rows, all by one giver."""

    order: int
    ordered_at: datetime
    ordered_by: str
    kinds: tuple[str, ...]
    count: int
    names: tuple[str, ...]
    """What it is about, the first of it: URLs, hosts, sites, patterns, keys with their values."""
    waits_for: tuple[int, ...] | None
    """Buckets whose next round has still to obey; None: was not asked."""
    erased_at: datetime | None = None
    """Of an order to forget: when what it named was proved to be gone from every file."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which orders are wanted, newest first."""

    most: int = 50
    before: int | None = None
    kind: str | None = None
    by: str | None = None
    host: str | None = None
    """Orders about the host, its URLs or its site, and settings of its own."""


def once(lake: Lake, giver: Giver, act: Callable[[], object]) -> Entry:
    """Give an order unless its request was obeyed already; either way, say what the request came to.

    `act` gives it, by this giver. Raise OrderError if the key came with another request before.
    """
    earlier = _answer(lake, giver)
    if earlier is not None:
        return earlier
    with suppress(ordering.Repeated):  # the same request came in between
        act()
    made = _answer(lake, giver)
    if made is None:
        raise OrderError("expected something to order, found nothing")
    return made


def listed(lake: Lake, wanted: Wanted) -> list[Entry]:
    """The orders that are wanted, with the buckets that each waits for. Snapshots of policies are none."""
    rows = lake.scan("orders", where=_where(wanted))
    newest = rows.select("order").unique().top_k(wanted.most, by="order").collect()["order"]
    found = rows.filter(pl.col("order").is_in(newest.implode())).collect()
    return [_with_proof(lake, entry) for entry in _entries(found, seen(lake), lake.buckets)]


def one(lake: Lake, order: int) -> Entry | None:
    """One order, with the buckets that it waits for."""
    found = lake.scan("orders", where=(pl.col("order") == order) & (pl.col("kind") != "policy")).collect()
    return next((_with_proof(lake, entry) for entry in _entries(found, seen(lake), lake.buckets)), None)


def seen(lake: Lake) -> dict[int, int]:
    """Of each bucket the last order that a round of it has obeyed; -1 for none."""
    rounds = lake.scan("rounds").group_by("bucket").agg(pl.col("orders_seen").max()).collect()
    told = dict(rounds.select("bucket", pl.col("orders_seen").fill_null(-1)).iter_rows())
    return {bucket: told.get(bucket, -1) for bucket in range(lake.buckets)}


def _with_proof(lake: Lake, entry: Entry) -> Entry:
    if "forget" not in entry.kinds:
        return entry
    proved = lake.scan("erasures", where=(pl.col("order") == entry.order) & (pl.col("left_count") == 0))
    return replace(entry, erased_at=proved.select(pl.col("erased_at").max()).collect().item())


def _where(wanted: Wanted) -> pl.Expr:
    where = pl.col("kind") != "policy" if wanted.kind is None else pl.col("kind") == wanted.kind
    if wanted.before is not None:
        where &= pl.col("order") < wanted.before
    if wanted.by is not None:
        where &= pl.col("ordered_by") == wanted.by
    if wanted.host is not None:
        where &= (pl.col("host") == wanted.host) | (pl.col("site") == urls.site(wanted.host))
    return where


def _answer(lake: Lake, giver: Giver) -> Entry | None:
    rows = ordering.of_request(lake.scan("orders"), giver).collect()
    if rows.is_empty():
        return None
    if rows["request_hash"][0] != giver.digest:
        raise OrderError(
            f"the key {giver.key!r} came with another request before (order {rows['order'][0]}), so nothing was "
            "ordered: a new request needs a new key"
        )
    return _entries(rows, None, lake.buckets)[0]


def _entries(rows: pl.DataFrame, seen: dict[int, int] | None, buckets: int) -> list[Entry]:
    each = rows.sort("order", descending=True, maintain_order=True).partition_by("order", maintain_order=True)
    return [_entry(order, seen, buckets) for order in each]


def _entry(rows: pl.DataFrame, seen: dict[int, int] | None, buckets: int) -> Entry:
    first = rows.row(0, named=True)
    waits = None if seen is None else tuple(b for b in _buckets(rows, buckets) if seen[b] < first["order"])
    names = tuple(map(_name, rows.head(NAMED).iter_rows(named=True)))
    kinds = tuple(rows["kind"].unique(maintain_order=True))
    return Entry(first["order"], first["ordered_at"], first["ordered_by"], kinds, rows.height, names, waits)


def _name(row: dict[str, Any]) -> str:
    if row["policy_key"] is not None:
        value = f" = {row['policy_value']}" if row["kind"] == "set" else ""
        return f"{row['policy_key']}{value}" + (f" for {row['host']}" if row["host"] else "")
    if row["of_bucket"] is not None:
        return f"bucket {row['of_bucket']}" + (f" {row['pattern']}" if row["pattern"] else "")
    return str(row["url"] or f"{row['host'] or row['site']}{row['pattern'] or ''}")


def _buckets(rows: pl.DataFrame, buckets: int) -> Sequence[int]:
    """The buckets that an order is for: settings are for all."""
    if rows["policy_key"].is_not_null().any():
        return range(buckets)
    sites = rows.select(site=pl.coalesce("site", "host")).unique()["site"].drop_nulls()
    of_bucket = {bucket for bucket in rows["of_bucket"].drop_nulls() if bucket < buckets}
    return sorted(of_bucket | {urls.bucket(urls.site(site), buckets) for site in sites})
