"""What a round knows of the value of its visits, and what it tells of it: prices, priors of hosts, the budget.

Pure like `harvest`, which it is a part of: frames and a plan in, columns out.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline.core import prior
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.planning import Plan, Spending


def valued(
    visits: pl.DataFrame, before: pl.DataFrame, hosts: pl.DataFrame, spending: Spending, policy: Policy, now: datetime
) -> pl.DataFrame:  # fmt: skip
    """Add to visits the importance of their URLs, the priors of their hosts and the prices of their buckets."""
    prices = {bucket: spending.price_of(bucket, now) for bucket in spending.saved}
    return (
        visits.join(before.select("url_hash", "score"), on="url_hash", how="left", maintain_order="left")
        .join(prior.of_hosts(hosts, policy), on="host", how="left", maintain_order="left")
        .with_columns(price=pl.col("bucket").replace_strict(prices, default=None, return_dtype=pl.Float64))
    )


def told(hosts: pl.DataFrame, learnt: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Add to rows of `hosts` what visits have told of the rates of their pages."""
    found = prior.told(learnt, before)
    more, pages = ({host: each[place] for host, each in found.items()} for place in (0, 1))
    return hosts.with_columns(
        rate_sum=pl.col("rate_sum").fill_null(0.0)
        + pl.col("host").replace_strict(more, default=0.0, return_dtype=pl.Float64),
        rate_count=pl.col("rate_count").fill_null(0)
        + pl.col("host").replace_strict(pages, default=0, return_dtype=pl.Int64),
    )


def spent(plan: Plan, bucket: int, visits: Sequence[Visit]) -> dict[str, Any]:
    """The price and what is left of the budget, for the bucket's row of `rounds`."""
    asked = sum(visit.request is not None for visit in visits)
    return {"price": plan.spending.price_of(bucket, plan.now), "budget_left": plan.spending.left_in(bucket, asked)}
