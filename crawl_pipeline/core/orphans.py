"""Which pages no page links to any more, and which of them are linked to again.

A link counts while its source says so: it was written in the newest round in which the source was stored (a page) or
read (a sitemap). A source that was not stored again, since it had not changed (304), failed or was never due, keeps its
links. So a URL that its sitemap no longer lists is treated like one that no page names; a redirect counts like a link.
A page's links to itself do not count. Seeds are never orphans: people name them; nor are
made-up URLs (core.not_found), which no page names.

A sitemap that neither robots.txt nor an index names any more is let go: an orphan too, but never read again, and what
it named no longer counts. Only being named from robots.txt on counts, so two indexes that name each other do not hold
each other. Named again, it is read at once.

An orphan is still a page: it is visited, at the longest interval only, and stays an orphan however the visits find it,
until a link turns up or it is gone.
"""

from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core import recrawl
from crawl_pipeline.core.outcome import ORPHAN
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER


def linked(links: pl.LazyFrame, stored: pl.LazyFrame, let_go: pl.Series) -> pl.LazyFrame:
    """Give the url_hash of every URL that a link counts for.

    links: url_hash, source_hash, round; stored: url_hash and round of each time a source was stored or read;
    let_go: url_hash of sitemaps that nobody names.
    """
    newest = stored.group_by("url_hash").agg(stored_in=pl.col("round").max())
    source = pl.col("source_hash")
    others = links.filter((source != pl.col("url_hash")) & ~source.is_in(let_go.implode()))
    said = others.join(newest, left_on="source_hash", right_on="url_hash", how="left")
    counts = pl.col("stored_in").is_null() | (pl.col("round") >= pl.col("stored_in"))
    return said.filter(counts).select("url_hash").unique()


def let_go(sitemaps: pl.Series, links: pl.LazyFrame, stored: pl.LazyFrame) -> pl.Series:
    """Give those of the sitemaps that no way of links of kind `sitemap` from robots.txt on leads to."""
    unnamed, before = sitemaps, -1
    while len(unnamed) not in (0, before):
        before = len(unnamed)
        named = linked(links, stored, unnamed).collect()["url_hash"]
        unnamed = unnamed.filter(~unnamed.is_in(named.implode()))
    return unnamed


def turned(
    pages: pl.DataFrame, alive: pl.Series, visits: pl.DataFrame, policy: Policy, now: datetime
) -> pl.DataFrame:  # fmt: skip
    """Give the `frontier` rows that change: pages that became orphans, and orphans that are pages like others again.

    pages: rows of `frontier` that may be orphans (see `may_be`); alive: url_hash of what is linked to;
    visits: their rows of `change_frequency`.
    """
    is_linked = pl.col("url_hash").is_in(alive.implode())
    rows = pages.join(visits.select("url_hash", "fetched_at", "interval_s"), on="url_hash", how="left")
    lost = rows.filter((pl.col("status") != ORPHAN) & ~is_linked)
    found = rows.filter((pl.col("status") == ORPHAN) & is_linked)
    is_sitemap = pl.col("kind") == "sitemap"
    usual = recrawl.due_at(pl.col("fetched_at"), pl.col("interval_s"))
    again = pl.when(is_sitemap).then(pl.lit(now)).otherwise(usual) if policy.recrawl.again else pl.lit(None)
    back = pl.when(is_sitemap).then(pl.lit("waiting")).otherwise(pl.lit("fetched"))
    return FRONTIER.frame(
        pl.concat(
            [
                lost.with_columns(status=pl.lit(ORPHAN), due_at=late(pl.col("fetched_at"), policy)),
                found.with_columns(status=back, due_at=again.cast(FRONTIER.schema["due_at"])),
            ]
        ).select(list(FRONTIER.schema))
    )


def late(visited: pl.Expr, policy: Policy) -> pl.Expr:
    """When an orphan is visited again: a page late, a sitemap never."""
    wait = timedelta(seconds=policy.recrawl.longest_s)
    page = pl.when(pl.col("kind").ne_missing("sitemap") & policy.recrawl.again).then(visited + wait)
    return page.cast(FRONTIER.schema["due_at"])


def may_be(kind: pl.Expr, status: pl.Expr) -> pl.Expr:
    """Tell whether a row of `frontier` may be, or is, an orphan."""
    answered = status.is_in(["fetched", ORPHAN, "redirected", "gone", "unfit"])
    return (
        pl.when(kind == "sitemap")
        .then(answered)
        .otherwise(status.is_in(["fetched", ORPHAN]) & ~kind.is_in(["seed", "probe"]))
    )
