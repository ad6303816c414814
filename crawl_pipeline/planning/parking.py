"""What a bucket learns of the sites that link to it, and which parked URLs that lets in.

Asks core.trust; reads the frontier only of hosts that have parked URLs and whose allowance, or whose site's, has room:
catching up leaves none such behind, so these are the hosts whose allowance has grown since.
"""

import polars as pl

from crawl_pipeline.core import frontier, trust, urls
from crawl_pipeline.core.outcome import PARKED
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER
from crawl_pipeline.planning.sight import Sight

SOURCE_HOST = r"^[a-z]+://(?:[^/@]*@)?(\[[^\]]*\]|[^/:?#]*)"
"""The host of a canonical URL."""


def linked(hosts: pl.DataFrame, links: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Rows of `hosts` with the sites whose pages link to them, where links may lead to sites that no seed names.

    A link that says nofollow speaks for nobody, nor does one within a site.
    """
    if policy.scope.follow != "everywhere":
        return hosts
    seeded = hosts.filter("seeded")["site"].unique().implode()
    told = links.filter(~pl.col("nofollow") & pl.col("source_url").is_not_null() & ~pl.col("site").is_in(seeded))
    told = told.select("host", "site", source=pl.col("source_url").str.extract(SOURCE_HOST)).unique()
    sites = {host: urls.site(host) for host in told["source"].drop_nulls().unique()}
    told = told.with_columns(source_site=pl.col("source").replace_strict(sites, default=None, return_dtype=pl.String))
    others = told.filter(pl.col("source_site") != pl.col("site"))
    numbers = {site: urls.hash64(site) for site in others["source_site"].unique()}
    number = pl.col("source_site").replace_strict(numbers, default=None, return_dtype=pl.Int64)
    return trust.linked(hosts, others.select("host", "site", source_site=number))


def let_in(
    sight: Sight, hosts: pl.DataFrame, obeyed: pl.DataFrame, policy: Policy
) -> tuple[pl.DataFrame, pl.DataFrame]:  # fmt: skip
    """Count down what an order takes out of parking, then let in what trust now allows: hosts, rows of `frontier`."""
    if not hosts["parked_count"].sum():
        return hosts, FRONTIER.empty()
    if obeyed.height:
        hosts = _fewer(hosts, _parked(sight, obeyed["url_hash"]))
    crowded = hosts.filter(pl.col("parked_count") > 0)
    allowed = trust.limits(hosts.join(crowded, on="site", how="semi"), policy)
    roomy = allowed.filter((pl.col("host_parked") > 0) & (trust.room("host") > 0) & (trust.room("site") > 0))
    if roomy.is_empty():
        return hosts, FRONTIER.empty()
    parked = _parked(sight, where=pl.col("host").is_in(roomy["host"].implode()))
    parked = parked.join(obeyed, on="url_hash", how="anti")
    chosen = trust.released(parked, allowed)
    rows = sight.rows("frontier", pl.col("status") == PARKED, url_hashes=chosen).collect()
    rows = frontier.release(rows, sight.now).with_columns(round=pl.lit(sight.lease.round, pl.Int64))
    return _fewer(hosts, rows), FRONTIER.frame(rows.select(list(FRONTIER.schema)))


def _parked(sight: Sight, url_hashes: pl.Series | None = None, where: pl.Expr | None = None) -> pl.DataFrame:
    parked = pl.col("status") == PARKED
    rows = sight.rows("frontier", parked if where is None else parked & where, url_hashes)
    return rows.select("url_hash", "host", "depth", "found_at").collect()


def _fewer(hosts: pl.DataFrame, out: pl.DataFrame) -> pl.DataFrame:
    counts = dict(out.group_by("host").len().iter_rows())
    fewer = pl.col("host").replace_strict(counts, default=0, return_dtype=pl.Int64)
    return hosts.with_columns(parked_count=pl.col("parked_count").fill_null(0) - fewer)
