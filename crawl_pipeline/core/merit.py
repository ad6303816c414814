"""What asking for a due URL is worth: importance times days of freshness, for new URLs and for visits in one currency.

A visit is worth what `worth` makes of the evidence of the page, the prior of its host and the time since the last one.
A new URL is worth its expected life: the days in which its first copy would be right, until it is visited again.
A function of rows and of now; what is due and what it costs is decided elsewhere.
"""

from datetime import datetime

import numpy as np
import polars as pl

from crawl_pipeline.core import hints, prior, recrawl, worth
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.prior import DAY_S

OF_DATES = ("recall", "precision")
"""What is believed of the dates of a host's sitemaps."""


def of_hosts(hosts: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """What the worth of a URL needs of its host: host, prior_b (days), life of a first copy (days), OF_DATES."""
    priors = prior.of_hosts(hosts, policy)
    b = priors["prior_b"].to_numpy()
    wait = np.full(len(b), policy.recrawl.first_s / DAY_S)
    lives = priors.with_columns(life=pl.Series("life", worth.life(np.full(len(b), prior.SHAPE), b, wait)))
    return lives.join(hints.of_hosts(hosts, policy).select("host", *OF_DATES), on="host")


def valued(due: pl.DataFrame, policy: Policy, now: datetime) -> pl.DataFrame:
    """Add to due rows, which bring what of_hosts says of their hosts, whether each is `discovery`, and its `worth`."""
    discovery = pl.col("visited_at").is_null() | pl.col("kind").eq_missing("sitemap")
    of_new = recrawl.weight(pl.col("score")) * pl.col("life").fill_null(0.0)
    rows = due.with_columns(discovery=discovery, worth=of_new)
    if rows["discovery"].all():
        return rows
    visits = rows.filter(~pl.col("discovery"))
    visited = visits.select("url_hash", pl.Series("of_visit", of_visits(visits, policy, now)))
    both = rows.join(visited, on="url_hash", how="left", maintain_order="left")
    return both.with_columns(worth=pl.coalesce("of_visit", "worth")).drop("of_visit")


def of_visits(rows: pl.DataFrame, policy: Policy, now: datetime) -> pl.Series:
    """What visiting known pages now is worth. rows: score, prior_b, evidence_a, evidence_b, visited_at,
    lastmod_at, moved_count, and OF_DATES of their hosts.
    """
    each = rows.select(
        a=(prior.SHAPE + pl.col("evidence_a").fill_null(0.0).cast(pl.Float64)).clip(0.05),
        b=(pl.col("prior_b").fill_null(prior.SHAPE / prior.first(policy))
           + pl.col("evidence_b").fill_null(0.0).cast(pl.Float64)).clip(1e-3),
        days=((now - pl.col("visited_at")).dt.total_microseconds() / (1e6 * DAY_S)).clip(0.0),
        weight=recrawl.weight(pl.col("score")),
    )  # fmt: skip
    a, b, days, weights = (column.to_numpy() for column in each.get_columns())
    return pl.Series("worth", weights * worth.of_visit(a, b, days, policy.recrawl.objective, recrawl.believed(rows)))
