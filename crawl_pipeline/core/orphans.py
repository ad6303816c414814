"""Which pages no page links to any more, and which of them are linked to again.

A link counts while its source says so: it was written in the newest round in which the source was stored (a page) or
read (a sitemap). A source that was not stored again, since it had not changed (304), failed or was never due, keeps its
links. So a URL that its sitemap no longer lists is treated like one that no page names; a redirect counts like a link.
A page's links to itself do not count. Seeds are never orphans, nor are sitemaps: people and robots.txt name them.

An orphan is still a page: it is visited, at the longest interval only, and stays an orphan however the visits find it,
until a link turns up or it is gone.
"""

from datetime import timedelta

import polars as pl

from crawl_pipeline.core import recrawl
from crawl_pipeline.core.outcome import ORPHAN
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER


def linked(links: pl.LazyFrame, stored: pl.LazyFrame) -> pl.LazyFrame:
    """Give the url_hash of every URL that a link counts for.

    links: url_hash, source_hash, round; stored: url_hash and round of each time a source was stored or read.
    """
    newest = stored.group_by("url_hash").agg(stored_in=pl.col("round").max())
    others = links.filter(pl.col("source_hash") != pl.col("url_hash"))
    said = others.join(newest, left_on="source_hash", right_on="url_hash", how="left")
    counts = pl.col("stored_in").is_null() | (pl.col("round") >= pl.col("stored_in"))
    return said.filter(counts).select("url_hash").unique()


def turned(pages: pl.DataFrame, alive: pl.Series, visits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the `frontier` rows that change: pages that became orphans, and orphans that are pages like others again.

    pages: rows of `frontier` that may be orphans (see `may_be`); alive: url_hash of what is linked to;
    visits: their rows of `change_frequency`.
    """
    is_linked = pl.col("url_hash").is_in(alive.implode())
    rows = pages.join(visits.select("url_hash", "fetched_at", "interval_s"), on="url_hash", how="left")
    lost = rows.filter((pl.col("status") == "fetched") & ~is_linked)
    found = rows.filter((pl.col("status") == ORPHAN) & is_linked)
    usual = recrawl.due_at(pl.col("fetched_at"), pl.col("interval_s")) if policy.recrawl.again else pl.lit(None)
    return FRONTIER.frame(
        pl.concat(
            [
                lost.with_columns(status=pl.lit(ORPHAN), due_at=late(pl.col("fetched_at"), policy)),
                found.with_columns(status=pl.lit("fetched"), due_at=usual),
            ]
        ).select(list(FRONTIER.schema))
    )


def late(visited: pl.Expr, policy: Policy) -> pl.Expr:
    """When an orphan is visited again."""
    wait = timedelta(seconds=policy.recrawl.longest_s)
    return (visited + wait if policy.recrawl.again else pl.lit(None)).cast(FRONTIER.schema["due_at"])


def may_be(kind: pl.Expr, status: pl.Expr) -> pl.Expr:
    """Tell whether a row of `frontier` may be, or is, an orphan."""
    return status.is_in(["fetched", ORPHAN]) & ~kind.is_in(["seed", "sitemap"])
