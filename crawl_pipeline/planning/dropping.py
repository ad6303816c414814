"""Parameters that do not matter: links are read without them, and known URLs that differ in one are left out.

Reads `patterns`; which parameters those are is learnt by core.parameters. Only links of pages are changed: what people
seed, sitemaps list and redirects lead to stays as it is. A drawn share of `traps.probe_share` of the URLs keeps its
parameters, so that what has come to matter is noticed. Only hosts that have such a parameter cost anything.

Invariant: of URLs that differ in what does not matter one is never left out: that without it, or else the first.
"""

from collections.abc import Mapping

import polars as pl

from crawl_pipeline.core import selection, urls
from crawl_pipeline.core.parameters import DROPPED, HELD, MARK, without
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning.sight import Sight

Names = Mapping[str, list[str]]
"""Per host the names of the parameters that are dropped."""
NONE: Names = {}


def names(sight: Sight, policy: Policy) -> Names:
    """The parameters that are dropped now."""
    if not policy.traps.parameters or policy.traps.act != "block":
        return NONE
    return _by_host(sight.rows("patterns", pl.col("action") == DROPPED).select("host", "pattern").collect())


def of_host(lake: Lake, bucket: int, host: str) -> list[str]:
    """The parameters that are dropped of one host's URLs."""
    dropped = (pl.col("action") == DROPPED) & (pl.col("host") == host)
    rows = lake.scan("patterns", buckets=[bucket], where=dropped).select("host", "pattern").collect()
    return _by_host(rows).get(host, [])


def applied(links: pl.DataFrame, dropped: Names, policy: Policy) -> pl.DataFrame:
    """Links without what does not matter of their URLs."""
    changed = _bare(links.filter(pl.col("kind") == "link"), "url", dropped, policy) if dropped else {}
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
    if not dropped:
        return due
    mine = due.filter(pl.col("unvisited") & pl.col("barred").is_null() & pl.col("marked_url").is_not_null())
    bare = _bare(mine, "marked_url", dropped, policy)
    if not bare:
        return due
    rests = pl.DataFrame({"marked_url": list(bare), "rest": list(bare.values())}).with_columns(
        rest_hash=pl.Series([urls.url_hash(rest) for rest in bare.values()], dtype=pl.Int64)
    )
    known = sight.rows("frontier", url_hashes=rests["rest_hash"].unique()).select("url_hash").collect()["url_hash"]
    told = mine.select("url_hash", "marked_url").join(rests, on="marked_url")
    first = pl.col("url_hash") == pl.col("url_hash").min().over("rest_hash")
    others = told.filter(pl.col("rest_hash").is_in(known.implode()) | ~first)["url_hash"]
    barred = pl.when(pl.col("url_hash").is_in(others.implode())).then(pl.lit(HELD)).otherwise("barred")
    return due.with_columns(barred=barred)


def _bare(rows: pl.DataFrame, column: str, dropped: Names, policy: Policy) -> dict[str, str]:
    """The URLs that change, and what they are without what does not matter."""
    query = pl.col(column).str.contains(MARK, literal=True)
    mine = rows.filter(pl.col("host").is_in(list(dropped)) & query).unique(column)
    mine = mine.filter(pl.Series(selection.uniform(mine["url_hash"].to_numpy(), 0) > policy.traps.probe_share))
    pairs = [(url, without(url, dropped[host])) for host, url in mine.select("host", column).iter_rows()]
    return {url: rest for url, rest in pairs if url != rest}


def _by_host(rows: pl.DataFrame) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for host, pattern in rows.iter_rows():
        found.setdefault(host, []).append(pattern.removeprefix(MARK))
    return found
