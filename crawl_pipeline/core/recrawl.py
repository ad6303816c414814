"""When a page is visited again, from what its visits have shown.

A page changes like a Poisson process of unknown rate; its row of `change_frequency` holds a Gamma(a, b) posterior of
that rate per day, updated in closed form by each visit. The next visit is due after the posterior's mean time to a
change, within the policy's limits. Elementwise on frames: a round pays for the pages it visited, not for the corpus.
"""

import polars as pl

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY

# A weak prior: shape 0.4 (heavy tail) and a mean of 0.05 changes a day, so that a few visits overrule it.
PRIOR_A = 0.4
PRIOR_B_DAYS = 8.0
DAY_S = 86_400.0


def learn(known: pl.DataFrame, visits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the new rows of `change_frequency` for visits that told something.

    visits: bucket, round, url_hash, host, outcome (fetched or not_modified), ended_at, text_hash, etag, last_modified.
    Only an answer counts: outages are no observation, else they would look like stability.
    """
    telling = visits.filter(pl.col("outcome").is_in(["fetched", "not_modified"]))
    before = known.select("url_hash", pl.exclude("url_hash", "bucket", "round", "layer", "host").name.suffix("_before"))
    rows = telling.join(before, on="url_hash", how="left").with_columns(
        first=pl.col("fetched_at_before").is_null(),
        days=(pl.col("ended_at") - pl.col("fetched_at_before")).dt.total_microseconds() / (1e6 * DAY_S),
    )
    changed = (pl.col("outcome") == "fetched") & (pl.col("text_hash") != pl.col("text_hash_before"))
    rows = rows.with_columns(changed=changed.fill_null(value=False) & ~pl.col("first"))
    rows = rows.with_columns(_posterior()).with_columns(interval_s=_interval_s(policy))
    return CHANGE_FREQUENCY.frame(
        rows.select(
            "bucket", "round", "url_hash", "host", "gamma_a", "gamma_b", "interval_s",
            visit_count=pl.col("visit_count_before").fill_null(0) + 1,
            change_count=pl.col("change_count_before").fill_null(0) + pl.col("changed"),
            fetched_at="ended_at",
            changed_at=pl.when("changed").then("ended_at").otherwise("changed_at_before"),
            text_hash=pl.coalesce("text_hash", "text_hash_before"),
            etag=pl.coalesce("etag", "etag_before"),
            last_modified=pl.coalesce("last_modified", "last_modified_before"),
        )
    )  # fmt: skip


def due_at(last: pl.Expr, interval_s: pl.Expr) -> pl.Expr:
    """The date an interval leads to."""
    return last + pl.duration(microseconds=(interval_s * 1e6).cast(pl.Int64))


def _posterior() -> list[pl.Expr]:
    """Gamma update: exact when unchanged; moments matched when changed at an unknown time within the gap."""
    a, b = pl.col("gamma_a_before").fill_null(PRIOR_A), pl.col("gamma_b_before").fill_null(PRIOR_B_DAYS)
    gap = pl.col("days").clip(1e-6)
    q = b / (b + gap)
    mean = (a / b) * (1 - q.pow(a + 1)) / (1 - q.pow(a))
    second = (a * (a + 1) / b.pow(2)) * (1 - q.pow(a + 2)) / (1 - q.pow(a))
    variance = (second - mean.pow(2)).clip(1e-12)
    shape = pl.when("first").then(a).when("changed").then(mean.pow(2) / variance).otherwise(a)
    rate = pl.when("first").then(b).when("changed").then(mean / variance).otherwise(b + gap)
    return [shape.alias("gamma_a"), rate.alias("gamma_b")]


def _interval_s(policy: Policy) -> pl.Expr:
    mean_s = pl.col("gamma_b") / pl.col("gamma_a") * DAY_S
    learned = mean_s.clip(policy.recrawl.shortest_s, policy.recrawl.longest_s)
    return pl.when("first").then(pl.lit(policy.recrawl.first_s)).otherwise(learned)
