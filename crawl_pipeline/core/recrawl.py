"""When a page is visited again, from what its visits have shown.

A page changes like a Poisson process of unknown rate; its row of `change_frequency` holds the evidence of its visits,
what it adds to the Gamma prior of its host (`prior`), updated in closed form by each visit, and by what its sitemap
and its own dates say as far as they are believed (`hints`). The next visit is due when
it is worth the price that a visit has (`worth`), earlier by a margin; where visits have no price, for want of a budget,
after the posterior's mean time to a change. Both keep to the policy's limits; sitemaps have limits of their own and no
price. A page of a `weight` below 1, a copy of another, counts so much less, or waits as much longer: near-duplicates
hardly ever part (Fetterly, Manasse, Najork, 2003). Elementwise on frames: a round pays for the pages it visited, not
for the corpus.

Invariants: a change never lengthens the wait it is learnt from, but for what is forgotten; a visit counts once, however
often it is applied.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from crawl_pipeline.core import hints, prior, validators, worth
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.prior import DAY_S
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FRONTIER, TIME

EARLY = 0.8
"""Share of the price at which pages fall due: what is due is then more than can be asked, and ranked by its worth."""
LEAST_WEIGHT = 1e-6
READ_DAYS = 2.0
"""Sitemaps are read about daily: signals nearer to each other than this, on average, are too near to be counted."""
REFUTED_READINGS, READINGS, BELIEVED_READINGS = 0.05, 0.2, 1.0
"""Readings of sitemaps per visit of their host's pages, at most, where visits have a price: they are paid for like
visits, and what they tell is worth as much as the pages that it is told of."""
VISIT: dict[str, pl.DataType | type[pl.DataType]] = {
    # What a visit found; `alike` by core.changes (null: the text decides).
    **{name: CHANGE_FREQUENCY.schema[name] for name in ("bucket", "round", "url_hash", "host")},
    "kind": pl.String, "outcome": pl.String, "ended_at": TIME, "modified_at": TIME, "alike": pl.Boolean,
    **{name: CHANGE_FREQUENCY.schema[name] for name in
       ("text_hash", "main_hash", "main_sketch", "template_count", "main_blocks", "etag", "last_modified")},
    # What was known of its value; price null: visits have none.
    "score": pl.Float32, "prior_b": pl.Float64, "price": pl.Float64,
    # What its sitemap had said, and what is believed of its host's dates (core.hints).
    **{name: FRONTIER.schema[name] for name in ("lastmod_at", "moved_count", "said_rate")},
    "prior_count": pl.Int64, "host_visits": pl.Float64,
    "recall": pl.Float64, "precision": pl.Float64, "refuted": pl.Boolean, "dated": pl.Boolean,
}  # fmt: skip


def compared(known: pl.DataFrame, visits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Hold visits (the columns of VISIT, some of which may be missing) against what is known of their pages.

    Only an answer counts: outages are no observation, else they would look like stability. What comes out has the
    columns of `known` with `_before`; `first`, `days` since then, `changed`, `cosmetic`, `unsure`; the posterior before
    as `a` and `b`, and how likely a change was after a moved date that tells of the rate alone, as `expected`;
    `modified_days`: how long before the answer the page was modified, if its Last-Modified has moved and lies in the
    gap.
    """
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in VISIT.items() if name not in visits.columns]
    telling = visits.filter(pl.col("outcome").is_in(["fetched", "not_modified"])).with_columns(absent)
    before = known.select(
        "url_hash", pl.exclude("url_hash", "bucket", "round", "layer", "layout", "host").name.suffix("_before")
    )
    rows = telling.join(before, on="url_hash", how="left").with_columns(
        first=pl.col("fetched_at_before").is_null(), days=_days("ended_at", "fetched_at_before")
    )
    rows = rows.filter(pl.col("first") | (pl.col("days") > 0))  # else it is in the history already
    other = ((pl.col("outcome") == "fetched") & (pl.col("text_hash") != pl.col("text_hash_before"))).fill_null(
        value=False
    )
    # Dates that are not believed are no news of a sitemap: it has changed when it names other pages.
    unsifted = (pl.col("kind") == "sitemap") & pl.col("refuted") & (pl.col("main_hash") == pl.col("main_hash_before"))
    alike = (pl.col("alike").fill_null(value=False) | unsifted).fill_null(value=False)
    rows = rows.with_columns(changed=other & ~alike & ~pl.col("first"), cosmetic=other & alike & ~pl.col("first"))
    # A text that differs though the validators do not: what 304s seemed to say since it was last read is taken back.
    lied = pl.col("changed") & validators.same()
    unsure = pl.when(lied).then(_days("fetched_at_before", "text_read_at_before")).otherwise(0.0).fill_null(0.0)
    modified = _days("ended_at", "modified_at")
    moved = (pl.col("outcome") == "fetched") & pl.col("last_modified").ne_missing(pl.col("last_modified_before"))
    rows = rows.with_columns(
        unsure=unsure,
        modified_days=pl.when(moved & modified.is_between(0, pl.col("days").fill_null(float("inf")))).then(modified),
    )
    # Had its dates moved as often as it changes, but at other times, they would still tell of the rate.
    seen, moves = pl.col("b") + pl.col("days"), pl.col("moved_count").fill_null(0).clip(1)
    expected = 1 - (seen / (seen + pl.col("days"))).pow(pl.col("a") + moves)
    return rows.with_columns(_remembered(policy)).with_columns(expected=expected)


def learn(known: pl.DataFrame, visits: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the new rows of `change_frequency` for visits that told something new."""
    rows = compared(known, visits, policy).with_columns(_posterior())
    rows = rows.with_columns(_waits(rows, policy))
    return CHANGE_FREQUENCY.frame(
        rows.select(
            "bucket", "round", "url_hash", "host", "interval_s", weight="weight_before",
            evidence_a=pl.col("gamma_a") - prior.SHAPE, evidence_b=pl.col("gamma_b") - pl.col("prior_b"),
            rate=pl.when(~pl.col("first") & pl.col("kind").ne_missing("sitemap")).then(
                pl.col("gamma_a") / pl.col("gamma_b")),
            # What was believed of the gap before, so that it can be held against what was found.
            change_expected=pl.when(~pl.col("first")).then(_expected()),
            visit_count=pl.col("visit_count_before").fill_null(0) + 1,
            change_count=pl.col("change_count_before").fill_null(0) + pl.col("changed"),
            cosmetic_count=pl.col("cosmetic_count_before").fill_null(0) + pl.col("cosmetic"),
            fetched_at="ended_at",
            changed_at=pl.when("changed").then("ended_at").otherwise("changed_at_before"),
            text_hash=pl.coalesce("text_hash", "text_hash_before"),
            **{name: _version(name) for name in ("main_hash", "main_sketch", "template_count")},
            main_blocks=pl.when(pl.col("main_hash").is_null()).then("main_blocks_before").otherwise("main_blocks"),
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


def hinted(
    rows: pl.DataFrame, said: pl.DataFrame, hosts: pl.DataFrame, prices: Mapping[int, float | None], policy: Policy,
    now: datetime,
) -> pl.DataFrame:  # fmt: skip
    """Give the `frontier` rows whose lastmod_at a sitemap moves: counted as a signal if it lies after the last visit.

    said: url_hash, lastmod_at; prices by bucket. Where the host's dates are believed, the signal moves the due date to
    when a visit is worth the price then, or, where visits have none, to the soonest that may be: a date never moves
    back, nor nearer to the last visit than `shortest_s`. What visits have taught stays as it is.
    """
    # A date without a time of day stands for all of that day.
    whole_day = pl.col("lastmod_at").dt.time() == pl.time(0)
    until = pl.when(whole_day).then(pl.col("lastmod_at") + timedelta(days=1)).otherwise("lastmod_at")
    last = said.filter(pl.col("lastmod_at") <= now).group_by("url_hash").agg(pl.col("lastmod_at").max().alias("_said"))
    moved = rows.join(last, on="url_hash").filter(
        (pl.col("_said") > pl.col("lastmod_at")) | pl.col("lastmod_at").is_null()
    )
    moved = moved.with_columns(lastmod_at="_said").with_columns(
        _signal=(until > pl.col("visited_at")).fill_null(value=False)
    )
    moved = moved.with_columns(moved_count=pl.col("moved_count").fill_null(0) + pl.col("_signal"))
    if moved["_signal"].any() and policy.recrawl.again and policy.recrawl.lastmod:
        moved = moved.with_columns(due_at=_brought_forward(moved, hosts, prices, policy, now))
    return FRONTIER.frame(moved.select(list(FRONTIER.schema)))


def _brought_forward(
    moved: pl.DataFrame, hosts: pl.DataFrame, prices: Mapping[int, float | None], policy: Policy, now: datetime
) -> pl.Series:
    """The dates of signalled pages of hosts whose dates are believed; those of others stay."""
    of_host = prior.of_hosts(hosts, policy).join(hints.of_hosts(hosts, policy), on="host")
    rows = moved.join(of_host, on="host", how="left", maintain_order="left").with_columns(
        price=pl.col("bucket").replace_strict(dict(prices), default=None, return_dtype=pl.Float64),
        weight_before=pl.lit(1.0), gamma_a=prior.SHAPE + pl.col("evidence_a").fill_null(0.0),
        gamma_b=pl.col("prior_b") + pl.col("evidence_b").fill_null(0.0),
    )  # fmt: skip
    believed = (pl.col("recall") > 0) & pl.col("_signal") & (pl.col("status") == "fetched")
    wait_s = (_priced_days(rows, policy, pl.col("moved_count")) * DAY_S).fill_null(0.0).fill_nan(0.0)
    rows = rows.with_columns(wait_s=wait_s.clip(lower_bound=policy.recrawl.shortest_s))
    then = pl.max_horizontal(pl.lit(now), due_at(pl.col("visited_at"), pl.col("wait_s")))
    return rows.select(pl.when(believed).then(pl.min_horizontal("due_at", then)).otherwise("due_at")).to_series()


def _days(later: str, earlier: str) -> pl.Expr:
    return (pl.col(later) - pl.col(earlier)).dt.total_microseconds() / (1e6 * DAY_S)


def _expected() -> pl.Expr:
    """How likely a change was, by the page's rate and by the signals of a believed sitemap: see worth.of_told."""
    recall, precision = (
        pl.when(_listed()).then(name).otherwise(none) for name, none in (("recall", 0.0), ("precision", 1.0))
    )
    count = pl.when(recall > 0).then(pl.col("moved_count").fill_null(0)).otherwise(0)
    seen = pl.col("b") + recall / precision * pl.col("days")
    kept = (seen / (seen + (1 - recall) * pl.col("days"))).pow(pl.col("a") + count)
    return 1 - kept * (1 - precision).pow(count)


def _listed() -> pl.Expr:
    """Whether a page's sitemap tells of its changes, and is believed."""
    return (pl.col("lastmod_at").is_not_null() & (pl.col("recall") > 0)).fill_null(value=False)


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
    """Gamma update: exact when unchanged, or when changed and it is known since when or how often; else by moments.

    Since when: Last-Modified, of hosts whose dates are believed. How often: the signals of a believed sitemap, as far
    as they are right, in the part of the changes that it tells of. A first visit has one date to learn from, that of
    the last change before (the time back to it is spread like the time from one to the next), or the sitemap's word.
    """
    unsure = pl.col("unsure")
    a, b = pl.col("a"), pl.max_horizontal(pl.col("b") - unsure, pl.col("b") * 1e-3)
    gap = (pl.col("days") + unsure).clip(1e-6)
    q = b / (b + gap)
    mean = (a / b) * (1 - q.pow(a + 1)) / (1 - q.pow(a))
    second = (a * (a + 1) / b.pow(2)) * (1 - q.pow(a + 2)) / (1 - q.pow(a))
    variance = (second - mean.pow(2)).clip(1e-12)
    since = pl.when(pl.col("dated").fill_null(value=False)).then("modified_days")
    age = pl.coalesce(since, pl.when(_listed()).then(_days("ended_at", "lastmod_at").clip(0.0)))
    # One reading finds one move, however many changes there were: where most find one, they are no count.
    told = _listed() & pl.col("moved_count").is_between(1, pl.col("days") / READ_DAYS)
    times = (pl.col("moved_count") * pl.col("precision")).clip(1.0)
    said = prior.SHAPE / prior.said(prior.SHAPE / b, pl.col("said_rate"), pl.col("prior_count"))
    first = pl.col("first")
    shape = (
        pl.when(first).then(a + age.is_not_null().cast(pl.Float64)).when(~pl.col("changed")).then(a)
        .when(since.is_not_null()).then(a + 1).when(told).then(a + times).otherwise(mean.pow(2) / variance)
    )  # fmt: skip
    rate = (
        pl.when(first).then(pl.coalesce(b + age, said, b)).when(~pl.col("changed")).then(b + gap)
        .when(since.is_not_null()).then(b + since).when(told).then(b + pl.col("recall") * gap)
        .otherwise(mean / variance)
    )  # fmt: skip
    return [shape.alias("gamma_a"), rate.alias("gamma_b")]


def _waits(rows: pl.DataFrame, policy: Policy) -> pl.Series:
    """The wait until the next visit, in seconds, within the limits; longer if a sitemap will tell of most changes."""
    untold = 1 - pl.when(_listed()).then("recall").otherwise(0.0)
    mean_s = pl.col("gamma_b") / pl.col("gamma_a") * DAY_S
    learnt = ~pl.col("first") | (pl.col("gamma_a") != pl.col("a")) | (pl.col("gamma_b") != pl.col("b"))
    unpriced = pl.when(learnt).then(mean_s / untold).otherwise(by_kind("first_s", policy)) / _of_copy()
    priced = pl.when(pl.col("kind").ne_missing("sitemap")).then(pl.Series("priced", _priced_days(rows, policy)) * DAY_S)
    wait_s = pl.max_horizontal(pl.coalesce(priced, unpriced), _paid_reading_s())
    wait_s = wait_s.clip(by_kind("shortest_s", policy), by_kind("longest_s", policy))
    return rows.select(interval_s=wait_s).to_series()


def _paid_reading_s() -> pl.Expr:
    """The wait of a sitemap that keeps its readings to a share of its host's visits."""
    judged = pl.when(pl.col("recall") > 0).then(BELIEVED_READINGS).when("refuted").then(REFUTED_READINGS)
    share = judged.otherwise(READINGS)
    paid = (pl.col("kind") == "sitemap") & pl.col("price").is_not_null()
    return pl.when(paid).then(DAY_S / (share * pl.col("host_visits")))


def _priced_days(rows: pl.DataFrame, policy: Policy, signals: pl.Expr | None = None) -> pl.Series:
    """After how many days a page is worth its price, that many signals given; null where visits have none."""
    rules = policy.recrawl
    limits = rules.shortest_s / DAY_S, max(rules.longest_s, rules.shortest_s) / DAY_S
    per_weight = EARLY * pl.col("price") / (weight(pl.col("score")) * _of_copy())
    a, b, paid = rows.select("gamma_a", "gamma_b", paid=per_weight).cast(pl.Float64).get_columns()
    if paid.null_count() == len(paid):
        return pl.Series("priced", [None] * len(paid), dtype=pl.Float64)
    prices = paid.fill_null(0.0).to_numpy()
    told = believed(rows.with_columns(moved_count=pl.lit(0) if signals is None else signals))
    days = worth.days_until(a.to_numpy(), b.to_numpy(), prices, rules.objective, *limits, told)
    return pl.Series("priced", np.where(paid.is_null().to_numpy(), np.nan, days)).fill_nan(None)


def believed(rows: pl.DataFrame) -> worth.Signals | None:
    """The signals of pages whose sitemaps are believed. rows: lastmod_at, moved_count, recall, precision."""
    each = rows.select(
        count=pl.when(_listed()).then(pl.col("moved_count").fill_null(0)).otherwise(0).cast(pl.Float64),
        recall=pl.when(_listed()).then("recall").otherwise(0.0),
        precision=pl.when(_listed()).then("precision").otherwise(1.0),
    )
    if not (each["recall"] > 0).any():
        return None
    return worth.Signals(*(column.to_numpy() for column in each.get_columns()))


def _of_copy() -> pl.Expr:
    """What a copy of another page counts; 1 of any other."""
    return pl.col("weight_before").fill_null(1.0)


def by_kind(name: str, policy: Policy) -> pl.Expr:
    """A wait of the policy, by what is visited: a sitemap or a page."""
    of_sitemap, of_page = getattr(policy.sitemap, name), getattr(policy.recrawl, name)
    return pl.when(pl.col("kind") == "sitemap").then(pl.lit(of_sitemap)).otherwise(pl.lit(of_page))
