"""When a page is visited again, from what its visits have shown.

A page changes like a Poisson process of unknown rate; its row of `change_frequency` holds a Gamma(a, b) posterior of
that rate per day, updated in closed form by each visit. The next visit is due after the posterior's mean time to a
change, within the policy's limits; sitemaps have limits of their own. A page of a `weight` below 1, a copy of another,
waits as much longer: near-duplicates hardly ever part (Fetterly, Manasse, Najork, 2003). Elementwise on frames: a round
pays for the pages it visited, not for the corpus.

Invariants: a change never lengthens the wait it is learnt from, but for what is forgotten; a visit counts once, however
often it is applied.
"""

from datetime import datetime, timedelta

import polars as pl

from crawl_pipeline.core import validators
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER

# A weak prior, so that a few visits overrule it: shape 0.4 (heavy tail); its mean time to a change is `first_s`.
PRIOR_A = 0.4
DAY_S = 86_400.0


def learn(known: pl.DataFrame, visits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the new rows of `change_frequency` for visits that told something new.

    visits: bucket, round, url_hash, host, kind, outcome (fetched or not_modified), ended_at, text_hash, etag,
    last_modified; alike (core.changes; null: the text decides), main_hash, main_sketch, template_count.
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
    rows = (
        rows.with_columns(_remembered(policy)).with_columns(_posterior()).with_columns(interval_s=_interval_s(policy))
    )
    return CHANGE_FREQUENCY.frame(
        rows.select(
            "bucket", "round", "url_hash", "host", "gamma_a", "gamma_b", "interval_s", weight="weight_before",
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
    """The newest interval of each page (url_hash, interval_s): from this visit, or from those before."""
    both = [rows.select("url_hash", "interval_s") for rows in (learnt, known)]
    return pl.concat(both).unique("url_hash", keep="first", maintain_order=True)


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
    prior = {"a": pl.lit(PRIOR_A), "b": PRIOR_A * by_kind("first_s", policy) / DAY_S}
    share = pl.lit(0.5).pow(pl.col("days") * DAY_S / policy.recrawl.forget_s)
    return [
        (mean + (pl.col(f"gamma_{name}_before") - mean) * share).fill_null(mean).alias(name)
        for name, mean in prior.items()
    ]


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


def _interval_s(policy: Policy) -> pl.Expr:
    mean_s = pl.col("gamma_b") / pl.col("gamma_a") * DAY_S
    wait_s = pl.when("first").then(by_kind("first_s", policy)).otherwise(mean_s) / pl.col("weight_before").fill_null(
        1.0
    )
    return wait_s.clip(by_kind("shortest_s", policy), by_kind("longest_s", policy))


def by_kind(name: str, policy: Policy) -> pl.Expr:
    """A wait of the policy, by what is visited: a sitemap or a page."""
    of_sitemap, of_page = getattr(policy.sitemap, name), getattr(policy.recrawl, name)
    return pl.when(pl.col("kind") == "sitemap").then(pl.lit(of_sitemap)).otherwise(pl.lit(of_page))
