"""When a page is visited again, from what its visits have shown.

A page changes like a Poisson process of unknown rate; its row of `change_frequency` holds the evidence of its visits,
what it adds to the Gamma prior of its host (`prior`), updated in closed form by each visit. The next visit is due when
it is worth the price that a visit has (`worth`), earlier by a margin; where visits have no price, for want of a budget,
after the posterior's mean time to a change. Both keep to the policy's limits; sitemaps have limits of their own and no
price. A page of a `weight` below 1, a copy of another, counts so much less, or waits as much longer: near-duplicates
hardly ever part (Fetterly, Manasse, Najork, 2003). Elementwise on frames: a round pays for the pages it visited, not
for the corpus.

Invariants: a change never lengthens the wait it is learnt from, but for what is forgotten; a visit counts once, however
often it is applied.
"""

from datetime import datetime, timedelta

import numpy as np
import polars as pl

from crawl_pipeline.core import prior, validators, worth
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.prior import DAY_S
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER

EARLY = 0.8
"""Share of the price at which pages fall due: what is due is then more than can be asked, and ranked by its worth."""
LEAST_WEIGHT = 1e-6


def learn(known: pl.DataFrame, visits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the new rows of `change_frequency` for visits that told something new.

    visits: bucket, round, url_hash, host, kind, outcome (fetched or not_modified), ended_at, text_hash, etag,
    last_modified; alike (core.changes; null: the text decides), main_hash, main_sketch, template_count;
    and what is known of their value: prior_b of the host, score, price (null: none).
    Only an answer counts: outages are no observation, else they would look like stability.
    """
    telling = visits.filter(pl.col("outcome").is_in(["fetched", "not_modified"]))
    before = known.select(
        "url_hash", pl.exclude("url_hash", "bucket", "round", "layer", "layout", "host").name.suffix("_before")
    )
    rows = telling.join(before, on="url_hash", how="left").with_columns(
        first=pl.col("fetched_at_before").is_null(),
        days=(pl.col("ended_at") - pl.col("fetched_at_before")).dt.total_microseconds() / (1e6 * DAY_S),
    )
    rows = rows.filter(pl.col("first") | (pl.col("days") > 0))  # else it is in the history already
    other = ((pl.col("outcome") == "fetched") & (pl.col("text_hash") != pl.col("text_hash_before"))).fill_null(
        value=False
    )
    alike = pl.col("alike").fill_null(value=False)
    rows = rows.with_columns(changed=other & ~alike & ~pl.col("first"), cosmetic=other & alike & ~pl.col("first"))
    # A text that differs though the validators do not: what 304s seemed to say since it was last read is taken back.
    unsure = (pl.col("fetched_at_before") - pl.col("text_read_at_before")).dt.total_microseconds() / (1e6 * DAY_S)
    lied = pl.col("changed") & validators.same()
    rows = rows.with_columns(unsure=pl.when(lied).then(unsure).otherwise(0.0).fill_null(0.0))
    rows = rows.with_columns(_remembered(policy)).with_columns(_posterior())
    rows = rows.with_columns(_waits(rows, policy))
    return CHANGE_FREQUENCY.frame(
        rows.select(
            "bucket", "round", "url_hash", "host", "interval_s", weight="weight_before",
            evidence_a=pl.col("gamma_a") - prior.SHAPE, evidence_b=pl.col("gamma_b") - pl.col("prior_b"),
            rate=pl.when(~pl.col("first") & pl.col("kind").ne_missing("sitemap")).then(
                pl.col("gamma_a") / pl.col("gamma_b")),
            # What the posterior before made of the gap (Lomax), so that it can be held against what was found.
            change_expected=pl.when(~pl.col("first")).then(
                1 - (pl.col("b") / (pl.col("b") + pl.col("days"))).pow(pl.col("a"))),
            visit_count=pl.col("visit_count_before").fill_null(0) + 1,
            change_count=pl.col("change_count_before").fill_null(0) + pl.col("changed"),
            cosmetic_count=pl.col("cosmetic_count_before").fill_null(0) + pl.col("cosmetic"),
            fetched_at="ended_at",
            changed_at=pl.when("changed").then("ended_at").otherwise("changed_at_before"),
            text_hash=pl.coalesce("text_hash", "text_hash_before"),
            **{name: _version(name) for name in ("main_hash", "main_sketch", "template_count")},
            etag=_validator("etag"),
            last_modified=_validator("last_modified"),
            text_read_at=pl.when(pl.col("outcome") == "fetched").then("ended_at").otherwise("text_read_at_before"),
        )
    )  # fmt: skip


def intervals(known: pl.DataFrame, learnt: pl.DataFrame) -> pl.DataFrame:
    """The newest interval and evidence of each page: from this visit, or from those before."""
    both = [rows.select("url_hash", "interval_s", "evidence_a", "evidence_b") for rows in (learnt, known)]
    return pl.concat(both).unique("url_hash", keep="first", maintain_order=True)


def weight(score: pl.Expr) -> pl.Expr:
    """The importance of a page: what its freshness counts."""
    return score.fill_null(1.0).cast(pl.Float64).clip(LEAST_WEIGHT)


def due_at(last: pl.Expr, interval_s: pl.Expr) -> pl.Expr:
    """The date an interval leads to."""
    return last + pl.duration(microseconds=(interval_s * 1e6).cast(pl.Int64))


def brought_forward(
    rows: pl.DataFrame, known: pl.DataFrame, listed: pl.DataFrame, policy: Policy, now: datetime
) -> pl.DataFrame:
    """Give the `frontier` rows whose date a sitemap moves: changed, it says, since they were last fetched.

    rows: of `frontier`, for listed URLs; known: of `change_frequency`, for the same; listed: url_hash, lastmod_at.
    A hint moves one date, at most to `shortest_s` after the last fetch; what visits have taught stays as it is.
    """
    if not (policy.recrawl.again and policy.recrawl.lastmod):
        return FRONTIER.empty()
    said = listed.filter(pl.col("lastmod_at") <= now).group_by("url_hash").agg(pl.col("lastmod_at").max())
    soonest = pl.max_horizontal(pl.lit(now), pl.col("fetched_at") + timedelta(seconds=policy.recrawl.shortest_s))
    moved = (
        rows.filter(pl.col("status") == "fetched")
        .join(said, on="url_hash")
        .join(known.select("url_hash", "fetched_at"), on="url_hash")
        .filter((pl.col("lastmod_at") > pl.col("fetched_at")) & (soonest < pl.col("due_at")))
    )
    return FRONTIER.frame(moved.with_columns(due_at=soonest).select(list(FRONTIER.schema)))


def _version(name: str) -> pl.Expr:
    """What later visits are compared with: the last version that counted, so that small edits add up."""
    kept = ~pl.col("changed") & pl.col("main_hash_before").is_not_null()
    return pl.when(kept | pl.col("main_hash").is_null()).then(f"{name}_before").otherwise(name)


def _validator(name: str) -> pl.Expr:
    """A 304 may leave a validator out, a new page without one has none (RFC 9111 4.3.4)."""
    kept = pl.coalesce(name, f"{name}_before")
    return pl.when(pl.col("outcome") == "not_modified").then(kept).otherwise(name)


def _remembered(policy: Policy) -> list[pl.Expr]:
    """The evidence before this visit: half of it is forgotten in each `forget_s`, since habits change."""
    of_policy = prior.SHAPE * by_kind("first_s", policy) / DAY_S
    prior_b = pl.when(pl.col("kind").ne_missing("sitemap")).then("prior_b").fill_null(of_policy)
    share = pl.lit(0.5).pow(pl.col("days") * DAY_S / policy.recrawl.forget_s)
    a, b = ((pl.col(f"evidence_{name}_before") * share).fill_null(0.0) for name in ("a", "b"))
    return [prior_b.alias("prior_b"), (prior.SHAPE + a).clip(0.05).alias("a"), (prior_b + b).clip(1e-3).alias("b")]


def _posterior() -> list[pl.Expr]:
    """Gamma update: exact when unchanged; moments matched when changed at an unknown time within the gap."""
    unsure = pl.col("unsure")
    a, b = pl.col("a"), pl.max_horizontal(pl.col("b") - unsure, pl.col("b") * 1e-3)
    gap = (pl.col("days") + unsure).clip(1e-6)
    q = b / (b + gap)
    mean = (a / b) * (1 - q.pow(a + 1)) / (1 - q.pow(a))
    second = (a * (a + 1) / b.pow(2)) * (1 - q.pow(a + 2)) / (1 - q.pow(a))
    variance = (second - mean.pow(2)).clip(1e-12)
    shape = pl.when("first").then(a).when("changed").then(mean.pow(2) / variance).otherwise(a)
    rate = pl.when("first").then(b).when("changed").then(mean / variance).otherwise(b + gap)
    return [shape.alias("gamma_a"), rate.alias("gamma_b")]


def _waits(rows: pl.DataFrame, policy: Policy) -> pl.Series:
    """The wait until the next visit, in seconds, within the limits."""
    mean_s = pl.col("gamma_b") / pl.col("gamma_a") * DAY_S
    unpriced = pl.when("first").then(by_kind("first_s", policy)).otherwise(mean_s) / _of_copy()
    priced = pl.when(pl.col("kind").ne_missing("sitemap")).then(pl.Series("priced", _priced_days(rows, policy)) * DAY_S)
    wait_s = pl.coalesce(priced, unpriced).clip(by_kind("shortest_s", policy), by_kind("longest_s", policy))
    return rows.select(interval_s=wait_s).to_series()


def _priced_days(rows: pl.DataFrame, policy: Policy) -> pl.Series:
    """After how many days a page is worth its price; null where visits have none."""
    rules = policy.recrawl
    limits = rules.shortest_s / DAY_S, max(rules.longest_s, rules.shortest_s) / DAY_S
    per_weight = EARLY * pl.col("price") / (weight(pl.col("score")) * _of_copy())
    a, b, paid = rows.select("gamma_a", "gamma_b", paid=per_weight).cast(pl.Float64).get_columns()
    if paid.null_count() == len(paid):
        return pl.Series("priced", [None] * len(paid), dtype=pl.Float64)
    prices = paid.fill_null(0.0).to_numpy()
    days = worth.days_until(a.to_numpy(), b.to_numpy(), prices, rules.objective, *limits)
    return pl.Series("priced", np.where(paid.is_null().to_numpy(), np.nan, days)).fill_nan(None)


def _of_copy() -> pl.Expr:
    """What a copy of another page counts; 1 of any other."""
    return pl.col("weight_before").fill_null(1.0)


def by_kind(name: str, policy: Policy) -> pl.Expr:
    """A wait of the policy, by what is visited: a sitemap or a page."""
    of_sitemap, of_page = getattr(policy.sitemap, name), getattr(policy.recrawl, name)
    return pl.when(pl.col("kind") == "sitemap").then(pl.lit(of_sitemap)).otherwise(pl.lit(of_page))
