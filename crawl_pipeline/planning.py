"""What a round starts from: catch up with the logs, then choose the fetch list.

Reads the lake and asks core to decide; writes nothing. What it admits becomes rows only with the commit of the round
it was admitted for, so a crash costs nothing but doing it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from crawl_pipeline.core import admission, politeness, robots, selection, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, HOSTS, LINKS
from crawl_pipeline.fetch.visits import HostQueue, RobotsAnswer, Target
from crawl_pipeline.lake import Lake, Lease

PEOPLE = -1
"""The source bucket of seeds: orders have no round, so seeds are admitted through the cursor of `orders`."""


@dataclass(frozen=True, slots=True)
class Cursors:
    """How far the logs have been read, per leased bucket."""

    links_seen: Mapping[int, list[int]]
    orders_seen: Mapping[int, int]
    known_count: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """All a round starts from. Frames hold rows of the tables they are named for."""

    lease: Lease
    now: datetime
    cursors: Cursors
    admitted: pl.DataFrame
    refused: pl.DataFrame
    links_read: Mapping[int, int]
    hosts: pl.DataFrame
    new_hosts: pl.DataFrame
    due: pl.DataFrame
    fetch_list: pl.DataFrame
    left_out: pl.DataFrame
    visited_before: pl.DataFrame
    queues: Sequence[HostQueue]
    next_due_at: Mapping[int, datetime]
    promised: Mapping[str, datetime]
    next_at: datetime | None
    """When there may be something to ask, if there is nothing now: the next due date, or a waiting host's time."""


def read_cursors(lake: Lake, lease: Lease) -> Cursors:
    """Where each leased bucket stands, from its last committed round."""
    last = lake.scan("rounds", buckets=lease.buckets).sort("round").group_by("bucket").last().collect()
    rows = {row["bucket"]: row for row in last.iter_rows(named=True)}
    nowhere = [0] * lake.buckets
    return Cursors(
        {b: list(rows[b]["links_seen"]) if b in rows else list(nowhere) for b in lease.buckets},
        {b: rows[b]["orders_seen"] if b in rows else -1 for b in lease.buckets},
        {b: rows[b]["known_count"] if b in rows else 0 for b in lease.buckets},
    )


def plan(
    lake: Lake, lease: Lease, cursors: Cursors, policy: Policy, now: datetime, in_hand: Sequence[int],
    rules: dict[int, robots.Rules], seconds: float | None = None,
) -> Plan:  # fmt: skip
    """Catch up and select.

    `in_hand`: URL hashes that are being asked; `rules`: parsed robots.txt by id, kept warm; `seconds`: time left to
    ask in, if that is less than a round.
    """
    at = lake.versions()
    orders = _new_orders(lake, cursors, at)
    links = pl.concat([_seeds(orders, lake.buckets, lease), _new_links(lake, lease, cursors, at)])
    links = _with_site(links)
    hosts, new_hosts = _hosts(lake, lease, links, orders, now, policy)
    known = _known(lake, lease, links)
    admitted = admission.admit(links, known, hosts, policy, now)
    rows = admitted.rows.with_columns(round=pl.lit(lease.round, pl.Int64))
    due = _due(lake, lease, rows, now, in_hand)
    selected = selection.select(due, hosts, policy, now, seed=lease.round, seconds=seconds)
    forbidden = _forbidden(lake, lease, due, selected.fetch_list, hosts, policy, now, rules)
    if forbidden.height:
        allowed = due.join(forbidden, on="url_hash", how="anti")
        selected = selection.select(allowed, hosts, policy, now, seed=lease.round, seconds=seconds)
    fetch_list = pl.concat([forbidden, selected.fetch_list])
    next_due_at = _next_due(lake, lease, fetch_list, now)
    visited_before = _visited_before(lake, lease, fetch_list)
    return Plan(
        lease=lease, now=now, cursors=_moved(lake, lease, cursors, orders, rows, at), admitted=rows,
        refused=admitted.refused, links_read=dict(links.group_by("target_bucket").len().iter_rows()), hosts=hosts,
        new_hosts=new_hosts, due=due, fetch_list=fetch_list, left_out=selected.left_out,
        visited_before=visited_before,
        queues=_queues(lake, lease, fetch_list, hosts, visited_before, policy, now, rules),
        next_due_at=next_due_at, promised=dict(hosts.filter(pl.col("next_allowed_at") > now)
                                               .select("host", "next_allowed_at").iter_rows()),
        next_at=min([*next_due_at.values(), *selection.turns(due, hosts, policy, now)], default=None),
    )  # fmt: skip


def _new_orders(lake: Lake, cursors: Cursors, at: Mapping[str, int]) -> pl.DataFrame:
    last = min(cursors.orders_seen.values())
    return lake.scan("orders", where=pl.col("order") > last, at=at).sort("order").collect()


def _seeds(orders: pl.DataFrame, buckets: int, lease: Lease) -> pl.DataFrame:
    """Seeds as links: depth nought, no source page."""
    rows = [
        {"target_bucket": urls.bucket(urls.site(order["host"]), buckets), "source_bucket": PEOPLE,
         "url": order["url"], "url_hash": urls.url_hash(order["url"]), "host": order["host"], "kind": "seed",
         "nofollow": False, "depth": 0, "hops": 0, "tag": order["tag"]}
        for order in orders.filter(pl.col("kind") == "seed").iter_rows(named=True)
    ]  # fmt: skip
    return LINKS.frame(rows).filter(pl.col("target_bucket").is_in(lease.buckets))


def _new_links(lake: Lake, lease: Lease, cursors: Cursors, at: Mapping[str, int]) -> pl.DataFrame:
    """Links to the leased buckets from rounds that were committed since each of them last looked."""
    seen = pl.DataFrame(
        [(target, source, last) for target, per in cursors.links_seen.items() for source, last in enumerate(per)],
        schema={"target_bucket": pl.Int16, "source_bucket": pl.Int16, "seen": pl.Int64}, orient="row",
    )  # fmt: skip
    since = min(map(min, cursors.links_seen.values()))
    links = lake.scan("links", buckets=lease.buckets, since=since, at=at)
    return (
        links.join(seen.lazy(), on=["target_bucket", "source_bucket"])
        .filter(pl.col("round") > pl.col("seen"))
        .select(list(LINKS.schema))
        .collect()
    )


def _with_site(links: pl.DataFrame) -> pl.DataFrame:
    sites = {host: urls.site(host) for host in links["host"].unique()}
    return links.with_columns(site=pl.col("host").replace_strict(sites, return_dtype=pl.String, default=None))


def _named_hosts(links: pl.DataFrame, orders: pl.DataFrame, lake: Lake, lease: Lease) -> pl.DataFrame:
    """Hosts of the leased buckets that links or orders name: a host may be paused before it is known."""
    sites = {host: urls.site(host) for host in orders["host"].drop_nulls().unique()}
    told = pl.DataFrame(
        [(host, site, urls.bucket(site, lake.buckets)) for host, site in sites.items()],
        schema={"host": pl.String, "site": pl.String, "bucket": HOSTS.schema["bucket"]}, orient="row",
    )  # fmt: skip
    linked = links.select("host", "site", bucket="target_bucket")
    return pl.concat([linked, told]).filter(pl.col("bucket").is_in(lease.buckets)).unique("host")


def _hosts(
    lake: Lake, lease: Lease, links: pl.DataFrame, orders: pl.DataFrame, now: datetime, policy: Policy
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All hosts of the leased buckets, those included that are named for the first time, and what is new."""
    known = lake.scan("hosts", buckets=lease.buckets).collect()
    seeds = links.filter(pl.col("kind") == "seed")["host"].implode()
    fresh = HOSTS.frame(
        _named_hosts(links, orders, lake, lease).join(known, on="host", how="anti")
    ).with_columns(
        seeded=pl.lit(value=False), paused=pl.lit(value=False), known_count=0, fetched_count=0, day_count=0,
        backoff_s=0.0, calm_count=0, failures=0, found_at=now, round=lease.round,
    )  # fmt: skip
    hosts = HOSTS.frame(pl.concat([known, HOSTS.frame(fresh)]))
    told = hosts.with_columns(
        seeded=pl.col("seeded") | pl.col("host").is_in(seeds), paused=_paused(orders),
        next_allowed_at=_after_crash(hosts, lease, policy),
    )  # fmt: skip
    is_new = pl.col("host").is_in(fresh["host"].implode())
    other = [told[name].ne_missing(hosts[name]) for name in ("seeded", "paused", "next_allowed_at")]
    return told, told.filter(pl.any_horizontal(is_new, *map(pl.lit, other)))


def _paused(orders: pl.DataFrame) -> pl.Expr:
    last = orders.filter(pl.col("kind").is_in(["pause", "resume"])).select("host", "kind").iter_rows()
    told = {host: kind == "pause" for host, kind in last}
    return pl.coalesce(pl.col("host").replace_strict(told, default=None, return_dtype=pl.Boolean), "paused")


def _after_crash(hosts: pl.DataFrame, lease: Lease, policy: Policy) -> pl.Series:
    """A worker that vanished may have asked a host until its lease ended: the host's delay counts from there."""
    times = [
        _later(row["next_allowed_at"], lease.crashed.get(row["bucket"]), row, policy)
        for row in hosts.iter_rows(named=True)
    ] if lease.crashed else hosts["next_allowed_at"]  # fmt: skip
    return pl.Series("next_allowed_at", times, dtype=HOSTS.schema["next_allowed_at"])


def _later(
    promised: datetime | None, ended: datetime | None, row: dict[str, object], policy: Policy
) -> datetime | None:
    if ended is None:
        return promised
    gap = timedelta(seconds=politeness.gap_s(selection.pace_of(row), None, policy, str(row["host"])))
    return max(promised or ended, ended + gap)


def _known(lake: Lake, lease: Lease, links: pl.DataFrame) -> pl.Series:
    if links.is_empty():
        return pl.Series("url_hash", [], dtype=pl.Int64)
    among = pl.col("url_hash").is_in(links["url_hash"].unique().implode())
    return lake.scan("frontier", buckets=lease.buckets, where=among).select("url_hash").collect()["url_hash"]


def _due(lake: Lake, lease: Lease, admitted: pl.DataFrame, now: datetime, in_hand: Sequence[int]) -> pl.DataFrame:
    stored = lake.scan("frontier", buckets=lease.buckets, where=pl.col("due_at") <= now).collect()
    due = pl.concat([stored.select(list(FRONTIER.schema)), admitted])
    return due.filter(~pl.col("url_hash").is_in(list(in_hand)))


def _visited_before(lake: Lake, lease: Lease, fetch_list: pl.DataFrame) -> pl.DataFrame:
    """Rows of `change_frequency` for the pages on the list that are visited again: evidence and validators."""
    again = fetch_list.filter(pl.col("outcome").is_not_null())
    if again.is_empty():
        return CHANGE_FREQUENCY.empty()
    among = pl.col("url_hash").is_in(again["url_hash"].implode())
    return lake.scan("change_frequency", buckets=lease.buckets, where=among).collect()


def _queues(
    lake: Lake, lease: Lease, fetch_list: pl.DataFrame, hosts: pl.DataFrame, visited_before: pl.DataFrame,
    policy: Policy, now: datetime, rules: dict[int, robots.Rules],
) -> list[HostQueue]:  # fmt: skip
    listed = fetch_list.join(visited_before.select("url_hash", "etag", "last_modified"), on="url_hash", how="left")
    rows = {row["host"]: row for row in hosts.join(listed, on="host", how="semi").iter_rows(named=True)}
    answers = _robots_in_force(lake, lease, list(rows.values()), now, policy, rules)
    return [
        HostQueue(
            host, rows[host]["bucket"], selection.pace_of(rows[host]), rows[host]["next_allowed_at"],
            answers.get(host, {}), tuple(Target(*target) for target in targets.select(_TARGET).iter_rows()),
            selection.left_today(rows[host], policy, now),
        )
        for (host,), targets in listed.group_by("host", maintain_order=True)
    ]  # fmt: skip


_TARGET = ["url", "url_hash", "kind", "depth", "hops", "tag", "etag", "last_modified"]


def _robots_in_force(
    lake: Lake, lease: Lease, hosts: list[dict[str, object]], now: datetime, policy: Policy,
    rules: dict[int, robots.Rules],
) -> dict[str, dict[str, RobotsAnswer]]:  # fmt: skip
    """The robots.txt answers that have not expired, by host and origin; bodies are read and parsed once."""
    wanted = [state for row in hosts for state in _robots_states(row) if state["expires_at"] > now]
    unread = [state["robots_id"] for state in wanted if state["robots_id"] not in rules]
    if unread:
        among = pl.col("robots_id").is_in(unread)
        for row in lake.scan("robots", buckets=lease.buckets, where=among).collect().iter_rows(named=True):
            url = robots.robots_url(row["origin"])
            rules[row["robots_id"]] = robots.read(row["body"] or b"", policy.agent.name, url=url)
    return {
        str(row["host"]): {
            state["origin"]: RobotsAnswer(
                bucket=int(str(row["bucket"])), host=str(row["host"]), origin=state["origin"],
                robots_id=state["robots_id"], fetched_at=now, expires_at=state["expires_at"], state=state["state"],
                rules=rules[state["robots_id"]],
            )
            for state in _robots_states(row) if state["expires_at"] > now and state["robots_id"] in rules
        }
        for row in hosts
    }  # fmt: skip


def _robots_states(row: dict[str, Any]) -> list[dict[str, Any]]:
    return row["robots"] or []


def _forbidden(
    lake: Lake, lease: Lease, due: pl.DataFrame, fetch_list: pl.DataFrame, hosts: pl.DataFrame, policy: Policy,
    now: datetime, rules: dict[int, robots.Rules],
) -> pl.DataFrame:  # fmt: skip
    """Due URLs that a known robots.txt forbids: they go on the list beside the quota, for they cost no request."""
    listed = hosts.join(fetch_list, on="host", how="semi")
    answers = _robots_in_force(lake, lease, list(listed.iter_rows(named=True)), now, policy, rules)
    strict = [host for host, of in answers.items() if any(answer.rules.rules for answer in of.values())]
    judged = due.filter(pl.col("host").is_in(strict)).head(policy.round.urls)
    return judged.filter(
        pl.Series([_is_forbidden(answers[host], url) for host, url in judged.select("host", "url").iter_rows()],
                  dtype=pl.Boolean)
    )  # fmt: skip


def _is_forbidden(answers: Mapping[str, RobotsAnswer], url: str) -> bool:
    answer = answers.get(urls.origin(url))
    return answer is not None and answer.state == "rules" and not answer.rules.allowed(url)


def _next_due(lake: Lake, lease: Lease, fetch_list: pl.DataFrame, now: datetime) -> dict[int, datetime]:
    """When the next URL falls due in the buckets that have nothing to be asked for now."""
    empty = sorted(set(lease.buckets) - set(fetch_list["bucket"]))
    if not empty:
        return {}
    later = lake.scan("frontier", buckets=empty, where=pl.col("due_at") > now)
    return dict(later.group_by("bucket").agg(pl.col("due_at").min()).collect().iter_rows())


def _moved(
    lake: Lake, lease: Lease, cursors: Cursors, orders: pl.DataFrame, admitted: pl.DataFrame, at: Mapping[str, int]
) -> Cursors:
    """The cursors once this round is committed."""
    last = dict(lake.scan("rounds", at=at).group_by("bucket").agg(pl.col("round").max()).collect().iter_rows())
    new = dict(admitted.group_by("bucket").len().iter_rows())
    order = orders["order"].max()
    return Cursors(
        {b: [max(seen, last.get(s, 0)) for s, seen in enumerate(per)] for b, per in cursors.links_seen.items()},
        {b: max(seen, int(str(order)) if order is not None else -1) for b, seen in cursors.orders_seen.items()},
        {b: known + new.get(b, 0) for b, known in cursors.known_count.items()},
    )
