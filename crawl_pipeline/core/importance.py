"""The score of a due URL from its rank: what replaces its distance from a seed once the graph has been ranked.

A URL's **mass** is its PageRank, 1 if it was not ranked yet, and the cash that visits have handed to it since. Its
score is that of its seed list's band times the share of `rank.full_at` that its mass comes to. Where nothing has been
ranked the score stays as admission made it, as does that of seeds, which people named, and of sitemaps, which are no
pages. The band follows from the score; within a band the draw goes by mass (`selection.draws`).

A function of rows; the invariant is that a score lies within 0 and 1.
"""

import polars as pl

from crawl_pipeline.core import orders, page_rank
from crawl_pipeline.core.admission import band
from crawl_pipeline.core.orders import InForce
from crawl_pipeline.core.policy import Policy

RANKS = {"url_hash": pl.Int64, "page_rank": pl.Float32}
CASH = {"url_hash": pl.Int64, "cash": pl.Float64}
COUNTED = ("link", "redirect", "canonical")
"""Kinds of links that hand on rank: a page's, and what it says of itself. Sitemaps name everything alike."""
BY_RANK = ~pl.col("kind").is_in(["seed", "sitemap"])
"""Rows of `frontier` whose score is made of their rank."""


def scored(due: pl.DataFrame, ranks: pl.DataFrame, cash: pl.DataFrame, in_force: InForce, policy: Policy
           ) -> pl.DataFrame:  # fmt: skip
    """Give due rows the score and band of their rank, and their `mass`. ranks: RANKS; cash: CASH, once per URL."""
    rows = due.join(ranks, on="url_hash", how="left", maintain_order="left")
    rows = rows.join(cash, on="url_hash", how="left", maintain_order="left")
    mass = pl.col("page_rank").fill_null(1.0).cast(pl.Float64) + pl.col("cash").fill_null(0.0)
    rows = rows.with_columns(mass=pl.when(BY_RANK).then(mass).otherwise(pl.col("score") * policy.rank.full_at))
    start = orders.start_score(in_force) if "tag" in due.columns else pl.lit(1.0)
    rows = rows.with_columns(score=pl.when(BY_RANK).then(start * share(policy)).otherwise("score").cast(pl.Float32))
    return rows.with_columns(band=band(pl.col("score"), policy)).drop("page_rank", "cash")


def share(policy: Policy) -> pl.Expr:
    """The share of full importance that a `mass` comes to."""
    return (pl.col("mass") / policy.rank.full_at).clip(upper_bound=1.0)


def handed_on(links: pl.DataFrame, before: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Rows of `links` with the cash of those of pages that are visited for the first time.

    before: rows of `frontier` of what was visited, as they were (url_hash, host, score, outcome).
    """
    first = before.filter(pl.col("outcome").is_null()).select(source_hash="url_hash", _host="host", _score="score")
    rows = links.join(first, on="source_hash", how="left", maintain_order="left")
    counts = pl.col("kind").is_in(COUNTED) & ~pl.col("nofollow") & (pl.col("url_hash") != pl.col("source_hash"))
    given = cash(pl.col("_score"), counts.sum().over("source_hash"), pl.col("host") == pl.col("_host"), policy)
    return rows.with_columns(cash=pl.when(counts).then(given)).drop("_host", "_score")


def cash(score: pl.Expr, links: pl.Expr, within_host: pl.Expr, policy: Policy) -> pl.Expr:
    """What a first visit hands to each of its links, by the score of the page: see page_rank. links: how many."""
    damp = pl.when(within_host).then(policy.rank.same_host).otherwise(1.0)
    return (page_rank.DAMPING * damp * score * policy.rank.full_at / links).cast(pl.Float32)
