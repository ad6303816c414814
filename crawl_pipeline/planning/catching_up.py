"""Catch up: what people ordered and pages linked to since the last round, the hosts that it names, what is admitted.

Reads logs and state, asks core.admission; writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core import admission, politeness, recrawl, selection, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER, HOSTS, LINKS
from crawl_pipeline.planning.seen import Asked, SeenSet
from crawl_pipeline.planning.sight import Cursors, Sight

PEOPLE = -1
"""The source bucket of seeds: orders have no round, so seeds are admitted through the cursor of `orders`."""


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The state a round starts from. Frames hold rows of the tables they are named for."""

    cursors: Cursors
    admitted: pl.DataFrame
    refused: pl.DataFrame
    links_read: dict[int, int]
    hosts: pl.DataFrame
    new_hosts: pl.DataFrame
    brought_forward: pl.DataFrame
    asked: Mapping[int, Asked]


def catch_up(sight: Sight, cursors: Cursors, policy: Policy, seen: SeenSet) -> CaughtUp:
    """Admit what is new; the cursors that come back hold once the round is committed."""
    orders = _new_orders(sight, cursors)
    links = _with_site(pl.concat([_seeds(orders, sight), _new_links(sight, cursors)]))
    hosts, new_hosts = _hosts(sight, links, orders, policy)
    known = seen.known(sight, links, cursors, policy)
    admitted = admission.admit(links, known.hashes, hosts, policy, sight.now)
    rows = admitted.rows.with_columns(round=pl.lit(sight.lease.round, pl.Int64))
    read = dict(links.group_by("target_bucket").len().iter_rows())
    hinted = _brought_forward(sight, links, policy)
    return CaughtUp(_moved(sight, cursors, orders, rows), rows, admitted.refused, read, hosts, new_hosts, hinted,
                    known.asked)  # fmt: skip


def _new_orders(sight: Sight, cursors: Cursors) -> pl.DataFrame:
    new = pl.col("order") > min(cursors.orders_seen.values())
    if sight.until:
        new &= pl.col("order") <= max(sight.until.orders_seen.values())
    return sight.lake.scan("orders", where=new, at=sight.at).sort("order").collect()


def _seeds(orders: pl.DataFrame, sight: Sight) -> pl.DataFrame:
    """Seeds as links: depth nought, no source page."""
    rows = [
        {"target_bucket": urls.bucket(urls.site(order["host"]), sight.lake.buckets), "source_bucket": PEOPLE,
         "url": order["url"], "url_hash": urls.url_hash(order["url"]), "host": order["host"], "kind": "seed",
         "nofollow": False, "depth": 0, "hops": 0, "tag": order["tag"]}
        for order in orders.filter(pl.col("kind") == "seed").iter_rows(named=True)
    ]  # fmt: skip
    return LINKS.frame(rows).filter(pl.col("target_bucket").is_in(sight.lease.buckets))


def _new_links(sight: Sight, cursors: Cursors) -> pl.DataFrame:
    """Links to the leased buckets from rounds that were committed since each of them last looked."""
    seen = _seen_links(cursors, "seen")
    since = min(map(min, cursors.links_seen.values()))
    links = sight.lake.scan("links", buckets=sight.lease.buckets, since=since, at=sight.at)
    if sight.until:
        until = _seen_links(sight.until, "until").lazy()
        links = links.join(until, on=["target_bucket", "source_bucket"]).filter(pl.col("round") <= pl.col("until"))
    return (
        links.join(seen.lazy(), on=["target_bucket", "source_bucket"])
        .filter(pl.col("round") > pl.col("seen"))
        .select(list(LINKS.schema))
        .collect()
    )


def _seen_links(cursors: Cursors, name: str) -> pl.DataFrame:
    return pl.DataFrame(
        [(target, source, last) for target, per in cursors.links_seen.items() for source, last in enumerate(per)],
        schema={"target_bucket": pl.Int16, "source_bucket": pl.Int16, name: pl.Int64}, orient="row",
    )  # fmt: skip


def _with_site(links: pl.DataFrame) -> pl.DataFrame:
    sites = {host: urls.site(host) for host in links["host"].unique()}
    return links.with_columns(site=pl.col("host").replace_strict(sites, return_dtype=pl.String, default=None))


def _named_hosts(links: pl.DataFrame, orders: pl.DataFrame, sight: Sight) -> pl.DataFrame:
    """Hosts of the leased buckets that links or orders name: a host may be paused before it is known."""
    sites = {host: urls.site(host) for host in orders["host"].drop_nulls().unique()}
    told = pl.DataFrame(
        [(host, site, urls.bucket(site, sight.lake.buckets)) for host, site in sites.items()],
        schema={"host": pl.String, "site": pl.String, "bucket": HOSTS.schema["bucket"]}, orient="row",
    )  # fmt: skip
    linked = links.select("host", "site", bucket="target_bucket")
    return pl.concat([linked, told]).filter(pl.col("bucket").is_in(sight.lease.buckets)).unique("host")


def _hosts(
    sight: Sight, links: pl.DataFrame, orders: pl.DataFrame, policy: Policy
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All hosts of the leased buckets, those included that are named for the first time, and what is new."""
    known = sight.rows("hosts").collect()
    seeds = links.filter(pl.col("kind") == "seed")["host"].implode()
    fresh = HOSTS.frame(
        _named_hosts(links, orders, sight).join(known, on="host", how="anti")
    ).with_columns(
        seeded=pl.lit(value=False), paused=pl.lit(value=False), known_count=0, fetched_count=0, day_count=0,
        backoff_s=0.0, calm_count=0, failures=0, found_at=sight.now, round=sight.lease.round,
    )  # fmt: skip
    hosts = HOSTS.frame(pl.concat([known, HOSTS.frame(fresh)]))
    told = hosts.with_columns(
        seeded=pl.col("seeded") | pl.col("host").is_in(seeds), paused=_paused(orders),
        next_allowed_at=_after_crash(hosts, sight, policy),
    )  # fmt: skip
    is_new = pl.col("host").is_in(fresh["host"].implode())
    other = [told[name].ne_missing(hosts[name]) for name in ("seeded", "paused", "next_allowed_at")]
    return told, told.filter(pl.any_horizontal(is_new, *map(pl.lit, other)))


def _paused(orders: pl.DataFrame) -> pl.Expr:
    last = orders.filter(pl.col("kind").is_in(["pause", "resume"])).select("host", "kind").iter_rows()
    told = {host: kind == "pause" for host, kind in last}
    return pl.coalesce(pl.col("host").replace_strict(told, default=None, return_dtype=pl.Boolean), "paused")


def _after_crash(hosts: pl.DataFrame, sight: Sight, policy: Policy) -> pl.Series:
    """A worker that vanished may have asked a host until its lease ended: the host's delay counts from there."""
    times = [
        _later(row["next_allowed_at"], sight.lease.crashed.get(row["bucket"]), row, policy)
        for row in hosts.iter_rows(named=True)
    ] if sight.lease.crashed else hosts["next_allowed_at"]  # fmt: skip
    return pl.Series("next_allowed_at", times, dtype=HOSTS.schema["next_allowed_at"])


def _later(
    promised: datetime | None, ended: datetime | None, row: dict[str, object], policy: Policy
) -> datetime | None:
    if ended is None:
        return promised
    gap = timedelta(seconds=politeness.gap_s(selection.pace_of(row), None, policy, str(row["host"])))
    return max(promised or ended, ended + gap)


def _brought_forward(sight: Sight, links: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Known pages that a sitemap says have changed since they were fetched."""
    listed = links.filter(pl.col("lastmod_at").is_not_null())
    if listed.is_empty():
        return FRONTIER.empty()
    known = sight.rows("change_frequency", url_hashes=listed["url_hash"]).collect()
    later = sight.rows("frontier", pl.col("due_at") > sight.now, listed["url_hash"]).collect()
    return recrawl.brought_forward(later, known, listed, policy, sight.now)


def _moved(sight: Sight, cursors: Cursors, orders: pl.DataFrame, admitted: pl.DataFrame) -> Cursors:
    """The cursors once this round is committed."""
    last = dict(
        sight.lake.scan("rounds", at=sight.at).group_by("bucket").agg(pl.col("round").max()).collect().iter_rows()
    )
    new = dict(admitted.group_by("bucket").len().iter_rows())
    order = orders["order"].max()
    return Cursors(
        {b: [max(seen, last.get(s, 0)) for s, seen in enumerate(per)] for b, per in cursors.links_seen.items()},
        {b: max(seen, int(str(order)) if order is not None else -1) for b, seen in cursors.orders_seen.items()},
        {b: known + new.get(b, 0) for b, known in cursors.known_count.items()},
    )
