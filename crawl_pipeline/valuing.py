"""What a round knows of the value of its visits, and what it tells of it: prices, priors of hosts, the budget.

Pure like `harvest`, which it is a part of: frames and a plan in, columns out.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline.core import hints, prior
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import HOSTS
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.planning import Plan, Spending


def valued(
    visits: pl.DataFrame, before: pl.DataFrame, hosts: pl.DataFrame, spending: Spending, policy: Policy, now: datetime
) -> pl.DataFrame:  # fmt: skip
    """Add to visits what recrawl.VISIT has beyond what was found: of their URLs, their hosts and their buckets."""
    prices = {bucket: spending.price_of(bucket, now) for bucket in spending.saved}
    wrong = pl.col("said_wrong_count").fill_null(0) >= prior.AGAINST
    known_days = ((pl.lit(now) - pl.col("found_at")).dt.total_seconds() / prior.DAY_S).clip(1.0)
    pages = hosts.select("host", prior_count=pl.when(~wrong).then(pl.col("rate_count").fill_null(0)),
                         host_visits=pl.col("fetched_count") / known_days)  # fmt: skip
    of_host = prior.of_hosts(hosts, policy).join(pages, on="host").join(hints.of_hosts(hosts, policy), on="host")
    of_url = before.select("url_hash", "score", "lastmod_at", "moved_count", "said_rate")
    return (
        visits.join(of_url, on="url_hash", how="left", maintain_order="left")
        .join(of_host, on="host", how="left", maintain_order="left")
        .with_columns(price=pl.col("bucket").replace_strict(prices, default=None, return_dtype=pl.Float64))
    )


def told(hosts: pl.DataFrame, learnt: pl.DataFrame, before: pl.DataFrame, compared: pl.DataFrame) -> pl.DataFrame:
    """Add to rows of `hosts` what visits have told of the rates of their pages and of their dates.

    learnt, before: rows of `change_frequency` after and before; compared: rows of recrawl.compared.
    """
    found, wrong = prior.told(learnt, before), _said_wrong(learnt, compared)
    more, pages = ({host: each[place] for host, each in found.items()} for place in (0, 1))
    trials = {(row["host"], row["kind"]): row for row in hints.trials(compared).iter_rows(named=True)}
    dates = {
        kind: [hints.counted(counts, trials[host, kind]) if (host, kind) in trials else counts
               for host, counts in hosts.select("host", kind).iter_rows()]
        for kind in ("sitemap_dates", "page_dates")
    }  # fmt: skip
    return hosts.with_columns(
        *(pl.Series(kind, values, dtype=HOSTS.schema[kind]) for kind, values in dates.items()),
        rate_sum=pl.col("rate_sum").fill_null(0.0)
        + pl.col("host").replace_strict(more, default=0.0, return_dtype=pl.Float64),
        rate_count=pl.col("rate_count").fill_null(0)
        + pl.col("host").replace_strict(pages, default=0, return_dtype=pl.Int64),
        said_wrong_count=pl.col("said_wrong_count").fill_null(0)
        + pl.col("host").replace_strict(wrong, default=0, return_dtype=pl.Int64),
    )


def _said_wrong(learnt: pl.DataFrame, compared: pl.DataFrame) -> dict[str, int]:
    """Per host, how many pages more speak against what its sitemap says of how often they change."""
    said = compared.filter(pl.col("said_rate").is_not_null()).select("url_hash", "host", "said_rate", "rate_before")
    now, was = (prior.is_far(pl.col(name), pl.col("said_rate")) for name in ("rate", "rate_before"))
    rows = said.join(learnt.select("url_hash", "rate"), on="url_hash")
    return dict(rows.group_by("host").agg(now.sum().cast(pl.Int64) - was.sum().cast(pl.Int64)).iter_rows())


def spent(plan: Plan, bucket: int, visits: Sequence[Visit]) -> dict[str, Any]:
    """The price and what is left of the budget, for the bucket's row of `rounds`."""
    asked = sum(visit.request is not None for visit in visits)
    return {"price": plan.spending.price_of(bucket, plan.now), "budget_left": plan.spending.left_in(bucket, asked)}
