"""What is believed of how often a page changes before its own visits tell: the mean of its host's pages.

The prior of a page's rate is Gamma(SHAPE, SHAPE / mean). The mean is that of the host's pages which visits have told
of, shrunk towards that of all pages at hand as if SHRINK pages of that kind had been seen (empirical Bayes); that one
is shrunk alike towards one change in `recrawl.first_s`. What a host's pages come to is kept as a sum and a count in
its row of `hosts`; the prior itself is kept nowhere, so it is fitted anew whenever it is asked for.

Invariant: a host of which nothing is known has the mean of all; whatever its pages say, a mean lies within LIMITS.
"""

import math

import polars as pl

from crawl_pipeline.core.policy import Policy

SHAPE = 0.4
"""A weak prior with a heavy tail, so that a few visits overrule it."""
SHRINK = 20.0
LIMITS = (1e-4, 5.0)
"""Changes per day."""
DAY_S = 86_400.0


AGAINST = 20
"""Pages of a host whose rates speak against what its sitemaps say of them, after which that counts nothing."""
_FAR = 10.0


def of_hosts(hosts: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """The prior of pages of each host: host, prior_b (days). `hosts`: rows of all hosts at hand."""
    known = hosts.select("host", total=pl.col("rate_sum").fill_null(0.0), count=pl.col("rate_count").fill_null(0))
    of_all = (float(known["total"].sum()) + SHRINK * first(policy)) / (float(known["count"].sum()) + SHRINK)
    mean = (pl.col("total") + SHRINK * of_all) / (pl.col("count") + SHRINK)
    return known.select("host", prior_b=SHAPE / mean.clip(*LIMITS))


def said(mean: pl.Expr, said_rate: pl.Expr, pages: pl.Expr) -> pl.Expr:
    """The mean for a page whose sitemap says how often it changes: that counts as one page among those of its host.

    Null where it says nothing, or is refuted. pages: of the host of which visits have told; null if refuted.
    """
    share = 1 / (1 + pages / 5)
    return ((mean.log() + share * said_rate.clip(*LIMITS).log()) / (1 + share)).exp()


def is_far(rate: pl.Expr, said_rate: pl.Expr) -> pl.Expr:
    """Whether a page changes so much more or less often than its sitemap says that it speaks against that."""
    return ((rate / said_rate).log().abs() >= math.log(_FAR)).fill_null(value=False)


def first(policy: Policy) -> float:
    """The mean rate before anything is known: one change in the wait after a first fetch."""
    return DAY_S / policy.recrawl.first_s


def told(learnt: pl.DataFrame, before: pl.DataFrame) -> dict[str, tuple[float, int]]:
    """Per host, by how much the sum and the count of its pages' rates change with new rows of `change_frequency`."""
    was = before.select("url_hash", was="rate")
    sums = (
        learnt.select("url_hash", "host", "rate")
        .join(was, on="url_hash", how="left")
        .group_by("host")
        .agg(
            more=pl.col("rate").fill_null(0.0).sum() - pl.col("was").fill_null(0.0).sum(),
            pages=pl.col("rate").count().cast(pl.Int64) - pl.col("was").count().cast(pl.Int64),
        )
    )
    return {host: (more, pages) for host, more, pages in sums.iter_rows()}
