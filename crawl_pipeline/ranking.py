"""Rank what is known by the links that lead to it, over all buckets, from the last ranks on.

Reads the lake, asks core.page_rank and writes what `lake.ranking` commits. A link counts while its source says so: it
was written in the newest round that stored the source. Redirects and the canonical names of pages count like links;
nofollow, and what a page says of itself, does not. A URL that admission refused takes its part of what a page hands
on, and has no rank.

Bounds: a bucket at a time. Of all buckets 8 bytes per known URL, 16 per stored page and 12 per link are held, and the
pairs of hosts; rows of links are streamed. A ranking without news since the last one does nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from crawl_pipeline import ordering
from crawl_pipeline.core import importance, page_rank, urls
from crawl_pipeline.core.page_rank import Graph, Numbers, Places
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import HOST_RANKS, RANKS
from crawl_pipeline.lake import Lake
from crawl_pipeline.lake.ranking import Ranking
from crawl_pipeline.planning.parking import SOURCE_HOST

Clock = Callable[[], datetime]
Hashes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_OF_HOST = ("bucket", "host", "known_count", "rank_sum")
_PAIRS = {"source_host": pl.String, "host": pl.String, "host_link_count": pl.Int64}


@dataclass(frozen=True, slots=True)
class Found:
    """What a ranking came to; `iterations` is 0 if there was nothing new."""

    number: int
    urls: int
    links: int
    hosts: int
    iterations: int
    moved: float
    seconds: float


def _now() -> datetime:
    return datetime.now(UTC)


def rank(lake: Lake, policy: Policy, *, again: bool = False, clock: Clock = _now) -> Found:
    """Rank, if rounds have asked for something since the last ranking, or `again`.

    `policy` is what the policy file says. Raise Overtaken if another process was at it too: what that did stands.
    """
    began, before = clock(), lake.ranking()
    rules = ordering.policy_in_force(lake, policy)
    seen = _news(lake, before)
    if not (seen or again or before.layout != lake.layout.number or lake.hosts_lag(before.number)):
        return Found(before.number, 0, 0, 0, 0, 0.0, (clock() - began).total_seconds())
    known = _known(lake)
    graph, pairs = _graph(lake, known, rules)
    ranked = page_rank.rank(graph, _start(lake, known))
    made = lake.commit_ranking(before, _rows(lake, known, ranked.ranks), seen)
    hosts = _hosts(lake, known, ranked.ranks, pairs)
    lake.tell_of_hosts(made, hosts, pairs)
    seconds = (clock() - began).total_seconds()
    return Found(
        made.number, len(known), len(graph.source), hosts.height, ranked.iterations, ranked.moved, seconds
    )  # fmt: skip


def line(found: Found) -> str:
    """A ranking in words."""
    if not found.iterations:
        return f"ranking {found.number} stands: nothing was asked since" if found.number else "nothing to rank yet"
    return (
        f"ranking {found.number}: {found.urls:,} URLs by {found.links:,} links, {found.hosts:,} hosts, "
        f"{found.iterations} iterations, {found.seconds:.2f} s"
    )


def best(lake: Lake, most: int = 20) -> pl.DataFrame:
    """The pages of the highest rank (url, status, page_rank)."""
    rows = lake.scan(RANKS).top_k(most, by="page_rank").select("url_hash", "page_rank").collect()
    named = lake.scan("frontier", url_hashes=rows["url_hash"]).select("url_hash", "url", "status").collect()
    both = rows.join(named, on="url_hash").sort("page_rank", "url", descending=[True, False])
    return both.select("url", "status", "page_rank")


def best_hosts(lake: Lake, most: int = 20) -> pl.DataFrame:
    """The hosts that most other sites link to (host, linking_site_count, linking_host_count, known_count, rank_sum)."""
    columns = ["host", "linking_site_count", "linking_host_count", "known_count", "rank_sum"]
    order = ["linking_site_count", "rank_sum", "host"]
    return lake.scan(HOST_RANKS).select(columns).sort(order, descending=[True, True, False]).head(most).collect()


# What is read.


def _news(lake: Lake, before: Ranking) -> dict[int, int]:
    """The last round of each bucket, if any has asked for something since."""
    rounds = lake.scan("rounds").select("bucket", "round", "request_count").collect()
    seen = pl.col("bucket").replace_strict(dict(before.seen), default=0, return_dtype=pl.Int64)
    new = rounds.filter((pl.col("round") > seen) & (pl.col("request_count") > 0))
    if new.is_empty():
        return {}
    return dict(rounds.group_by("bucket").agg(pl.col("round").max()).iter_rows())


def _known(lake: Lake) -> Hashes:
    """The hashes of all known URLs, sorted: a URL's place in them is its number in the graph."""
    parts = [lake.scan("frontier", buckets=[bucket]).select("url_hash").collect() for bucket in range(lake.buckets)]
    return pl.concat(parts)["url_hash"].sort().to_numpy()


def _graph(lake: Lake, known: Hashes, policy: Policy) -> tuple[Graph, pl.DataFrame]:
    """The links between known URLs, and how many lead from each host to each other."""
    stored = _stored(lake)
    links_of, pairs = np.zeros(len(known), np.int32), list[pl.DataFrame]()
    sources, targets, inside = list[Places](), list[Places](), list[Flags]()
    for edges, of_hosts in _links(lake, stored):
        source, is_source = _places(known, edges["source_hash"])
        links_of += np.bincount(source[is_source], minlength=len(known)).astype(np.int32)
        target, is_target = _places(known, edges["url_hash"])
        both = is_source & is_target
        sources.append(source[both])
        targets.append(target[both])
        inside.append(edges["within"].to_numpy()[both])
        pairs.append(of_hosts)
    none = np.zeros(0, np.int32)
    source, target = np.concatenate([none, *sources]), np.concatenate([none, *targets])
    within = np.concatenate([none.astype(np.bool_), *inside])
    gives = page_rank.gives(links_of[source], within, policy.rank.same_host)
    both_ways = pl.concat([pl.DataFrame(schema=_PAIRS), *pairs]).group_by("source_host", "host")
    return Graph(len(known), source, target, gives), both_ways.agg(pl.col("host_link_count").sum())


def _stored(lake: Lake) -> pl.LazyFrame:
    """The newest round that stored each page (source_hash, stored_in)."""
    rounds = lake.scan("pages").group_by(source_hash="url_hash").agg(stored_in=pl.col("round").max())
    return rounds.collect(engine="streaming").lazy()


def _links(lake: Lake, stored: pl.LazyFrame) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Per target bucket the links that count (source_hash, url_hash, within), and those between hosts."""
    counted = pl.col("kind").is_in(importance.COUNTED) & ~pl.col("nofollow") & pl.col("source_hash").is_not_null()
    inside = pl.col("source_host") == pl.col("host")
    for bucket in lake.scan("links").select("target_bucket").unique().collect()["target_bucket"].sort():
        rows = lake.scan("links", buckets=[bucket], where=counted)
        said = rows.join(stored, on="source_hash", how="left").filter(
            pl.col("stored_in").is_null() | (pl.col("round") >= pl.col("stored_in")),
            pl.col("source_hash") != pl.col("url_hash"),
        )
        each = said.select("source_hash", "url_hash", "host", source_host=pl.col("source_url").str.extract(SOURCE_HOST))
        edges = each.select("source_hash", "url_hash", within=inside).unique()
        pairs = each.filter(~inside).group_by("source_host", "host").agg(host_link_count=pl.len().cast(pl.Int64))
        yield edges.collect(engine="streaming"), pairs.collect(engine="streaming")


def _places(known: Hashes, hashes: pl.Series) -> tuple[Places, Flags]:
    """The number of each URL, and whether it is known at all."""
    wanted = hashes.to_numpy()
    if not len(known):
        return np.zeros(len(wanted), np.int32), np.zeros(len(wanted), np.bool_)
    found: Places = np.minimum(np.searchsorted(known, wanted), len(known) - 1).astype(np.int32)
    return found, known[found] == wanted


def _start(lake: Lake, known: Hashes) -> Numbers:
    """The last ranks, 1 where there was none."""
    ranks = np.ones(len(known))
    last = lake.scan(RANKS).select("url_hash", "page_rank").collect()
    places, there = _places(known, last["url_hash"])
    ranks[places[there]] = last["page_rank"].to_numpy()[there]
    return ranks


# What is written.


def _rows(lake: Lake, known: Hashes, ranks: Numbers) -> pl.DataFrame:
    """Rows of `ranks`: all that is more than 1."""
    frames = [
        RANKS.frame(rows.filter(pl.col("page_rank") > 1).drop("host").with_columns(bucket=pl.lit(bucket)))
        for bucket, rows in _ranked(lake, known, ranks)
    ]
    return pl.concat([RANKS.empty(), *frames])


def _ranked(lake: Lake, known: Hashes, ranks: Numbers) -> Iterator[tuple[int, pl.DataFrame]]:
    """Per bucket its URLs with their ranks (url_hash, host, page_rank); those admitted meanwhile have 1."""
    for bucket in range(lake.buckets):
        rows = lake.scan("frontier", buckets=[bucket]).select("url_hash", "host").collect()
        places, there = _places(known, rows["url_hash"])
        of = np.where(there, ranks[places], 1.0) if len(known) else np.ones(rows.height)
        yield bucket, rows.with_columns(pl.Series("page_rank", of))


def _hosts(lake: Lake, known: Hashes, ranks: Numbers, pairs: pl.DataFrame) -> pl.DataFrame:
    """Rows of `host_ranks`."""
    sums = [
        rows.group_by("host").agg(known_count=pl.len(), rank_sum=pl.col("page_rank").sum(), bucket=pl.lit(bucket))
        for bucket, rows in _ranked(lake, known, ranks)
    ]
    hosts = pl.concat([HOST_RANKS.empty(), *map(HOST_RANKS.frame, sums)]).select(*_OF_HOST)
    names = pl.concat([hosts["host"], pairs["source_host"]]).unique()
    sites = pl.DataFrame([names, pl.Series("site", [urls.site(host) for host in names], dtype=pl.String)])
    outside = (
        pairs.join(sites, on="host")
        .join(sites.select(source_host="host", source_site="site"), on="source_host")
        .filter(pl.col("source_site") != pl.col("site"))
    )
    by_host = pairs.group_by("host").agg(linking_host_count=pl.len())
    by_site = outside.group_by("host").agg(linking_site_count=pl.col("source_site").n_unique())
    rows = hosts.join(sites, on="host").join(by_host, on="host", how="left").join(by_site, on="host", how="left")
    return HOST_RANKS.frame(rows.with_columns(pl.col("linking_host_count", "linking_site_count").fill_null(0)))
