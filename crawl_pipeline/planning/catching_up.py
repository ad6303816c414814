"""Catch up: what people ordered and pages linked to since the last round, the hosts that it names, what is admitted.

Reads logs and state, asks core.admission; writes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core import admission, frontier, orders, politeness, portions, recrawl, selection, urls
from crawl_pipeline.core.orders import InForce
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER, HOSTS, LINKS
from crawl_pipeline.planning import dropping, evidence, parking
from crawl_pipeline.planning import ranks as ranking
from crawl_pipeline.planning.dropping import Names
from crawl_pipeline.planning.ranks import Ranks, Scores
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
    changed: pl.DataFrame
    """Known URLs that an order changes, or that were parked and are let in."""
    told: pl.DataFrame
    """What the links say of URL patterns: see planning.evidence."""
    released: pl.DataFrame
    scores: Scores


def catch_up(
    sight: Sight, cursors: Cursors, policy: Policy, in_force: InForce, seen: SeenSet,
    prices: Mapping[int, float | None], dropped: Names, ranks: Ranks,
) -> CaughtUp:  # fmt: skip
    """Admit what is new; the cursors that come back hold once the round is committed.

    prices: of visits, by bucket; dropped: parameters that do not matter.
    """
    given = _new_orders(sight, cursors)
    links = _with_site(pl.concat([_seeds(given), _new_links(sight, cursors)]))
    links = dropping.applied(links, dropped, policy)
    stored = sight.rows("hosts").collect()
    hosts = parking.linked(_hosts(sight, stored, links, given, policy, in_force), links, policy)
    if ranks.look(sight, cursors) and policy.scope.follow == "everywhere" and sight.until is None:
        hosts = ranking.counted(hosts, sight)
    known = seen.known(sight, links, cursors, policy)
    obeyed = _obeyed(sight, given, hosts, in_force)
    hosts, let_in = parking.let_in(sight, hosts, obeyed, policy)
    admitted = admission.admit(links, known.hashes, hosts, policy, sight.now, in_force)
    rows = admitted.rows.with_columns(round=pl.lit(sight.lease.round, pl.Int64))
    read = dict(links.group_by("target_bucket").len().iter_rows())
    dated, were_due = _dated(sight, links, pl.concat([obeyed, let_in]), hosts, prices, policy)
    linked = _linked_meanwhile(sight, links, hosts, policy).join(obeyed, on="url_hash", how="anti")
    parked, open_ = rows.filter(status=PARKED), rows.filter(pl.col("status") != PARKED)
    forward = dated.filter(pl.col("due_at") < were_due)
    open_, forward, hosts = _in_turn(sight, open_, forward, links, hosts, policy)
    rows, hinted = pl.concat([open_, parked]), _sooner(dated.with_columns(due_at=were_due), forward)
    moved, changed = _moved(sight, cursors, in_force, rows), pl.concat([obeyed, let_in])
    new_hosts, forward = _changed(stored, hosts), pl.concat([linked, hinted]).unique("url_hash", keep="first")
    told, released = evidence.told(links, rows), evidence.released(given)
    return CaughtUp(
        moved,
        rows,
        admitted.refused,
        read,
        hosts,
        new_hosts,
        forward,
        known.asked,
        changed,
        told,
        released,
        ranks.scores(links, in_force),
    )


def _new_orders(sight: Sight, cursors: Cursors) -> pl.DataFrame:
    """Orders for the leased buckets that each has not applied yet, with the bucket of each."""
    wanted = (pl.col("order") > min(cursors.orders_seen.values())) & pl.col("kind").is_in(orders.FOR_OWNERS)
    if sight.until:
        wanted &= pl.col("order") <= max(sight.until.orders_seen.values())
    rows = sight.lake.scan("orders", where=wanted, at=sight.at).sort("order", maintain_order=True).collect()
    sites = {host: urls.site(host) for host in rows["host"].drop_nulls().unique()}
    site = pl.col("host").replace_strict(sites, default=pl.col("site"), return_dtype=pl.String)
    rows = rows.with_columns(site=pl.when(pl.col("host").is_null()).then("site").otherwise(site))
    buckets = {site: urls.bucket(site, sight.lake.buckets) for site in rows["site"].drop_nulls().unique()}
    owner = pl.col("site").replace_strict(buckets, return_dtype=HOSTS.schema["bucket"], default=None)
    bucket = pl.coalesce("of_bucket", owner)
    seen = pl.col("bucket").replace_strict(dict(cursors.orders_seen), default=None, return_dtype=pl.Int64)
    return rows.with_columns(bucket=bucket).filter(pl.col("order") > seen)


def _seeds(given: pl.DataFrame) -> pl.DataFrame:
    """Seeds as links: depth nought, no source page."""
    rows = [
        {"target_bucket": order["bucket"], "source_bucket": PEOPLE,
         "url": order["url"], "url_hash": urls.url_hash(order["url"]), "host": order["host"], "kind": "seed",
         "nofollow": False, "depth": 0, "hops": 0, "tag": order["tag"]}
        for order in given.filter(pl.col("kind") == "seed").iter_rows(named=True)
    ]  # fmt: skip
    return LINKS.frame(rows)


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


def _named_hosts(links: pl.DataFrame, given: pl.DataFrame, in_force: InForce) -> pl.DataFrame:
    """Hosts that links or orders name, with the region of the seed list that led there by the shortest way.

    A host may be paused before it is known.
    """
    regions = {tag: facts.region for tag, facts in in_force.tags.items()}
    region = pl.col("tag").replace_strict(regions, default=None, return_dtype=pl.String)
    linked = links.sort("depth", maintain_order=True).select("host", "site", region=region, bucket="target_bucket")
    told = given.filter(pl.col("kind").is_in(["pause", "resume"])).with_columns(region=pl.lit(None, pl.String))
    return pl.concat([linked, told.select(linked.columns)]).unique("host", keep="first", maintain_order=True)


def _hosts(
    sight: Sight, known: pl.DataFrame, links: pl.DataFrame, given: pl.DataFrame, policy: Policy, in_force: InForce
) -> pl.DataFrame:  # fmt: skip
    """All hosts of the leased buckets, those included that are named for the first time, as people told of them."""
    seeds = links.filter(pl.col("kind") == "seed")["host"].implode()
    fresh = new_hosts(_named_hosts(links, given, in_force), known, sight.now, sight.lease.round)
    hosts = HOSTS.frame(pl.concat([known, fresh]))
    return hosts.with_columns(
        seeded=pl.col("seeded") | pl.col("host").is_in(seeds), paused=_paused(given),
        next_allowed_at=_after_crash(hosts, sight, policy),
    )  # fmt: skip


def new_hosts(
    named: pl.DataFrame | list[dict[str, object]], known: pl.DataFrame, now: datetime, round_: int
) -> pl.DataFrame:
    """Rows of those of the named hosts that are not known: nothing asked, nothing owed."""
    return HOSTS.frame(
        HOSTS.frame(named).join(known, on="host", how="anti").with_columns(
            seeded=pl.lit(value=False), paused=pl.lit(value=False), known_count=0, parked_count=0, fetched_count=0,
            day_count=0, backoff_s=0.0, aside_s=0.0, calm_count=0, failures=0, found_at=now, round=round_,
        )
    )  # fmt: skip


def _changed(stored: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """Rows of hosts that are new or have changed while catching up."""
    columns = ["seeded", "paused", "next_allowed_at", "parked_count", "linking_sites", "linking_site_count",
               "listed_until_at"]  # fmt: skip
    both = hosts.join(stored.select("host", pl.col(columns).name.prefix("_"), _stored=pl.lit(value=True)), on="host",
                      how="left", maintain_order="left")  # fmt: skip
    other = [pl.col(name).ne_missing(pl.col(f"_{name}")) for name in columns]
    return both.filter(pl.any_horizontal(pl.col("_stored").is_null(), *other)).select(hosts.columns)


def _paused(given: pl.DataFrame) -> pl.Expr:
    last = given.filter(pl.col("kind").is_in(["pause", "resume"])).select("host", "kind").iter_rows()
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


def _obeyed(sight: Sight, given: pl.DataFrame, hosts: pl.DataFrame, in_force: InForce) -> pl.DataFrame:
    """Rows of the frontier that new orders change, as this round's: forgotten, known again, or due at once."""
    told = given.filter(pl.col("kind").is_in(["forget", "recrawl"]))
    wanted = orders.named(told, hosts)
    if in_force.forgets:  # a seed of a host lifts what was forgotten with it
        seeded = given.filter(pl.col("kind") == "seed")["host"].unique().implode()
        wanted |= pl.col("host").is_in(seeded) & (pl.col("status") == "forgotten")
    if told.is_empty() and not in_force.forgets:
        return FRONTIER.empty()
    known = sight.rows("frontier", wanted).collect().join(hosts.select("host", "site"), on="host", how="left")
    rows = frontier.obey(orders.words(known, told, hosts, in_force), sight.now)
    return rows.with_columns(round=pl.lit(sight.lease.round, pl.Int64))


def _dated(
    sight: Sight, links: pl.DataFrame, changed: pl.DataFrame, hosts: pl.DataFrame,
    prices: Mapping[int, float | None], policy: Policy,
) -> tuple[pl.DataFrame, pl.Series]:  # fmt: skip
    """Known URLs whose dates a sitemap has moved, and when each of them was due before."""
    listed = links.filter(pl.col("lastmod_at").is_not_null()).join(changed, on="url_hash", how="anti")
    if listed.is_empty():
        return FRONTIER.empty(), FRONTIER.empty()["due_at"]
    known = sight.rows("frontier", pl.col("status") != "forgotten", listed["url_hash"].unique()).collect()
    moved = recrawl.hinted(known, listed.select("url_hash", "lastmod_at"), hosts, prices, policy, sight.now)
    before = moved.select("url_hash").join(known, on="url_hash", how="left", maintain_order="left")
    return moved, before["due_at"]


def _sooner(rows: pl.DataFrame, forward: pl.DataFrame) -> pl.DataFrame:
    """Rows with the dates of those that are brought forward, but for turns that are later than they were due before."""
    sooner = rows.join(forward.select("url_hash", _due="due_at"), on="url_hash", how="left", maintain_order="left")
    return sooner.with_columns(due_at=pl.min_horizontal("due_at", "_due")).drop("_due")


def _linked_meanwhile(sight: Sight, links: pl.DataFrame, hosts: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Pages that wait for their turn since a sitemap named them, and that a page links to now: due at once."""
    lines = hosts.filter(pl.col("listed_until_at") > sight.now)["host"]
    allowed = ~pl.any_horizontal(portions.IN_TURN, *(rule for _, rule in admission.way_rules(policy)))
    found = links.filter(pl.col("host").is_in(lines.implode()) & allowed)
    if found.is_empty():
        return FRONTIER.empty()
    in_line = (pl.col("status") == "waiting") & pl.col("outcome").is_null() & (pl.col("due_at") > sight.now)
    rows = sight.rows("frontier", in_line, found["url_hash"].unique()).collect()
    return FRONTIER.frame(rows.with_columns(due_at=pl.lit(sight.now)))


def _in_turn(
    sight: Sight, admitted: pl.DataFrame, hinted: pl.DataFrame, links: pl.DataFrame, hosts: pl.DataFrame, policy: Policy
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """Give what only sitemaps name its turn: new URLs, and known ones that are said to have changed.

    Gives both with their dates, and all hosts, some with a longer line.
    """
    patient = portions.patient(links)
    rows = [frame.join(patient, on="url_hash").select("url_hash", "host", "depth", "lastmod_at")
            for frame in (admitted, hinted)]  # fmt: skip
    if not any(frame.height for frame in rows):
        return admitted, hinted, hosts
    turns, until = portions.give_out(pl.concat(rows), hosts, policy, sight.now)
    return _not_before(admitted, turns), _not_before(hinted, turns), hosts.with_columns(until)


def _not_before(rows: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    later = rows.join(turns, on="url_hash", how="left", maintain_order="left")
    return later.with_columns(due_at=pl.max_horizontal("due_at", "turn_at")).drop("turn_at")


def _moved(sight: Sight, cursors: Cursors, in_force: InForce, admitted: pl.DataFrame) -> Cursors:
    """The cursors once this round is committed."""
    last = dict(
        sight.lake.scan("rounds", at=sight.at).group_by("bucket").agg(pl.col("round").max()).collect().iter_rows()
    )
    new = dict(admitted.group_by("bucket").len().iter_rows())
    return Cursors(
        {b: [max(seen, last.get(s, 0)) for s, seen in enumerate(per)] for b, per in cursors.links_seen.items()},
        {b: max(seen, in_force.last) for b, seen in cursors.orders_seen.items()},
        {b: known + new.get(b, 0) for b, known in cursors.known_count.items()},
    )
