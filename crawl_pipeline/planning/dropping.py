"""Parameters that do not matter: links are read without them, and known URLs that differ in one are left out.

Reads `patterns`; which parameters those are is learnt by core.parameters. Only links of pages are changed: what people
seed, sitemaps list and redirects lead to stays as it is. A drawn share of `traps.probe_share` of the URLs, about
`traps.probe_urls` of those due, keeps its parameters, so that what has come to matter is noticed. Of a parameter that
is tried, those URLs wait whose URL without it is to be asked for first. Only hosts that have such parameters cost
anything.

Invariant: of URLs that differ in what does not matter one is never left out: that without it, or else the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from crawl_pipeline.core import selection, urls
from crawl_pipeline.core.parameters import DROPPED, HELD, MARK, TRIED, WAITS, bare, suspicious
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning.sight import Sight

Hosts = Mapping[str, list[str]]
"""Per host names of parameters."""


@dataclass(frozen=True, slots=True)
class Names:
    """The parameters that are dropped, and those of which the URLs without them are tried."""

    dropped: Hosts
    tried: Hosts

    @property
    def hosts(self) -> list[str]:
        """Hosts that have some."""
        return [*self.dropped, *self.tried]


NONE = Names({}, {})


def names(sight: Sight, policy: Policy) -> Names:
    """What is dropped and tried now."""
    if not policy.traps.parameters or policy.traps.act != "block":
        return NONE
    dropped = pl.col("action") == DROPPED
    tried = (pl.col("action") == TRIED) & (pl.col("trap_score") >= suspicious(policy))
    parameter = pl.col("pattern").str.starts_with(MARK)
    rows = sight.rows("patterns", parameter & (dropped | tried)).select("host", "pattern", "action").collect()
    of = [_by_host(rows.filter(action=action).select("host", "pattern")) for action in (DROPPED, TRIED)]
    return Names(*of)


def of_host(lake: Lake, bucket: int, host: str) -> list[str]:
    """The parameters that are dropped of one host's URLs."""
    dropped = (pl.col("action") == DROPPED) & (pl.col("host") == host)
    rows = lake.scan("patterns", buckets=[bucket], where=dropped).select("host", "pattern").collect()
    return _by_host(rows).get(host, [])


def applied(links: pl.DataFrame, dropped: Names, policy: Policy) -> pl.DataFrame:
    """Links without what does not matter of their URLs."""
    changed = _bare(links.filter(pl.col("kind") == "link"), "url", dropped.dropped, policy) if dropped.dropped else {}
    if not changed:
        return links
    hashes = {url: urls.url_hash(rest) for url, rest in changed.items()}
    found = (pl.col("kind") == "link") & pl.col("url").is_in(list(changed))
    return links.with_columns(
        url=pl.when(found).then(pl.col("url").replace(changed)).otherwise("url"),
        url_hash=pl.when(found)
        .then(pl.col("url").replace_strict(hashes, default=None, return_dtype=pl.Int64))
        .otherwise("url_hash"),
    )


def held(sight: Sight, due: pl.DataFrame, dropped: Names, policy: Policy) -> pl.DataFrame:
    """Fill in `barred` of due URLs that differ from a known one, or from each other, in what does not matter."""
    mine = due.filter(pl.col("unvisited") & pl.col("barred").is_null() & pl.col("marked_url").is_not_null())
    gone, tried = (_rests(sight, mine, of, policy) for of in (dropped.dropped, dropped.tried))
    first = pl.col("url_hash") == pl.col("url_hash").min().over("rest_hash")
    others = gone.filter(pl.col("status").is_not_null() | ~first)["url_hash"]
    # Once it was asked for it has told what it could, and nobody waits for what is given up.
    waiting = tried.filter(pl.col("status") == "waiting")["url_hash"]
    barred = (
        pl.when(pl.col("url_hash").is_in(others.implode())).then(pl.lit(HELD))
        .when(pl.col("url_hash").is_in(waiting.implode())).then(pl.lit(WAITS))
        .otherwise("barred")
    )  # fmt: skip
    return due.with_columns(barred=barred) if others.len() or waiting.len() else due


def _rests(sight: Sight, due: pl.DataFrame, names: Hosts, policy: Policy) -> pl.DataFrame:
    """Due URLs (url_hash) that have some of these parameters: the URL without them, and its status if it is known."""
    turn = 1 + int(sight.now.timestamp() // max(1.0, policy.traps.probe_s))
    rest_of = _bare(due, "marked_url", names, policy, turn) if names else {}
    rests = pl.DataFrame(
        [(url, urls.url_hash(rest)) for url, rest in rest_of.items()],
        schema={"marked_url": pl.String, "rest_hash": pl.Int64}, orient="row",
    )  # fmt: skip
    known = sight.rows("frontier", url_hashes=rests["rest_hash"].unique()).select("url_hash", "status").collect()
    told = due.select("url_hash", "marked_url").join(rests, on="marked_url")
    return told.join(known.rename({"url_hash": "rest_hash"}), on="rest_hash", how="left")


def _bare(rows: pl.DataFrame, column: str, dropped: Hosts, policy: Policy, turn: int = 0) -> dict[str, str]:
    """The URLs that change, and what they are without what does not matter.

    turn: of links 0, of due URLs another number in each `probe_s`: what was drawn of links, more of them with every
    page, is drawn from once more, so that few are asked for however many links there are.
    """
    query = pl.col(column).str.contains(MARK, literal=True)
    mine = rows.filter(pl.col("host").is_in(list(dropped)) & query).unique(column)
    kept = pl.lit(policy.traps.probe_share)
    if turn:
        kept = pl.min_horizontal(kept, policy.traps.probe_urls / pl.len().over("host"))
    drawn = pl.Series(selection.uniform(mine["url_hash"].to_numpy(), turn))
    mine = mine.with_columns(_drawn=drawn).filter(pl.col("_drawn") > kept)
    pairs = [(url, bare(url, dropped[host])) for host, url in mine.select("host", column).iter_rows()]
    return {url: rest for url, rest in pairs if url != rest}


def _by_host(rows: pl.DataFrame) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, pattern in rows.iter_rows():
        found.setdefault(host, []).append(pattern.removeprefix(MARK))
    return found
