"""The fold: what the frontier becomes through the outcomes of a round, and through what people order.

State before plus visits gives state after, as rows of this round; only rows that change come out. The meaning of an
outcome stands in `outcome.OUTCOMES`, that of an order in `outcome.ORDERED`, the wait until a next visit in `recrawl`;
this file only puts them together.

Invariant: a visit counts once. A URL is visited when it is due and has a later date afterwards, so a visit that ended
before the URL was due has been applied already, and changes nothing.
"""

from datetime import datetime

import polars as pl

from crawl_pipeline.core import not_found, orphans, recrawl
from crawl_pipeline.core.outcome import ORDERED, ORPHAN, OUTCOMES, PARKED, retry_after_failure
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER

_MEANING = pl.DataFrame(
    {
        "outcome": list(OUTCOMES),
        "next_status": [meaning.status for meaning in OUTCOMES.values()],
        "again": [meaning.again for meaning in OUTCOMES.values()],
    }
)

_OBEYED = pl.DataFrame(
    {
        "word": list(ORDERED),
        "told": [meaning.status for meaning in ORDERED.values()],
        "due": [meaning.due for meaning in ORDERED.values()],
    }
)


def obey(known: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """Give the new frontier rows of known URLs that an order changes; `word` names what it makes of each."""
    rows = known.join(_OBEYED, on="word").with_columns(
        reason=pl.when(pl.col("status") != PARKED).then("reason"),
        status=pl.coalesce("told", "status"),
        due_at=pl.when("due").then(pl.lit(now)),
        attempts=pl.lit(0),
        # What people ask for does not compete with what else is worth a visit: it is drawn like what is new.
        visited_at=pl.when("due").then(None).otherwise("visited_at"),
    )
    return FRONTIER.frame(rows.select(list(FRONTIER.schema)))


def release(parked: pl.DataFrame, now: datetime) -> pl.DataFrame:
    """Give the new frontier rows of parked URLs that are let in."""
    return parked.with_columns(status=pl.lit("waiting"), reason=pl.lit(None, pl.String), due_at=pl.lit(now))


def coarse(evidence: str) -> pl.Expr:
    """Evidence to four digits, as the frontier keeps it: worths differ by less than 0.1 %, a URL is 5 bytes shorter.

    What visits teach is added up in `change_frequency`, which keeps all digits.
    """
    return pl.col(evidence).round_sig_figs(4)


def advance(before: pl.DataFrame, visits: pl.DataFrame, intervals: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """Give the new frontier rows of visited URLs.

    before: their rows of `frontier`; visits: url_hash, outcome, reason, ended_at, robots_until, host_aside;
    intervals: url_hash, interval_s, evidence_a, evidence_b for the pages of which a visit has told something (see
    recrawl.intervals).
    """
    visited = before.join(visits.select("url_hash", "ended_at"), on="url_hash")
    news = (pl.col("due_at") <= pl.col("ended_at")).fill_null(value=False)
    rows = (
        visited.filter(news)
        .drop("outcome", "reason", "ended_at", "evidence_a", "evidence_b")
        .join(visits, on="url_hash")
        .join(intervals.with_columns(coarse("evidence_a"), coarse("evidence_b")), on="url_hash", how="left")
        .join(_MEANING, on="outcome")
        # While its host is put aside a URL is not blamed: it waits with the host, and no attempt of its own is spent.
        .with_columns(again=pl.when((pl.col("again") == "retry") & pl.col("host_aside"))
                      .then(pl.lit("next round")).otherwise("again"))
        .with_columns(failed=pl.col("again") == "retry", status_before="status")
    )  # fmt: skip
    # A round that ended too soon, or an unreadable robots.txt, says nothing about the URL itself.
    untold = pl.col("again").is_in(["next round", "robots"])
    rows = rows.with_columns(
        attempts=pl.when("failed").then(pl.col("attempts") + 1).when(untold).then("attempts").otherwise(0)
    )
    gone = pl.when(pl.col("again") == "gone").then(pl.col("gone_count").fill_null(0) + 1)
    rows = rows.with_columns(gone_count=gone.when(pl.col("again") != "recrawl").then("gone_count"))
    given_up = pl.col("failed") & (pl.col("attempts") >= policy.retry.attempts)
    kept = pl.col("outcome") == "carried"
    rows = rows.with_columns(
        status=pl.when(given_up).then(pl.lit("dead")).when(kept).then("status").otherwise("next_status"),
        due_at=pl.when(given_up).then(None).when(kept).then("due_at").otherwise(_due_at(policy)),
        visited_at=pl.when(pl.col("again").is_in(["recrawl", "gone"])).then("ended_at").otherwise("visited_at"),
        moved_count=pl.when(~pl.col("again").is_in(["recrawl", "gone"])).then("moved_count"),
    )
    # A made-up URL is asked for again when what it told is old, whatever came of it, and like what is new: a host that
    # fails at it would be slowed for nothing by each further try.
    told = (pl.col("kind") == not_found.KIND) & pl.col("again").is_in(["recrawl", "gone", "retry"])
    later = pl.col("ended_at") + pl.duration(microseconds=int(policy.traps.probe_s * 1e6))
    rows = rows.with_columns(
        due_at=pl.when(told).then(later if policy.recrawl.again else None).otherwise("due_at"),
        visited_at=pl.when(told).then(None).otherwise("visited_at"),
        attempts=pl.when(told).then(0).otherwise("attempts"),
    )
    # A visit says nothing of who links to a page: an orphan that is still there stays one, and comes back late.
    orphan = (pl.col("status_before") == ORPHAN) & (pl.col("status") == "fetched")
    rows = rows.with_columns(
        status=pl.when(orphan).then(pl.lit(ORPHAN)).otherwise("status"),
        due_at=pl.when(orphan).then(orphans.late(pl.col("ended_at"), policy)).otherwise("due_at"),
    )
    changed = FRONTIER.frame(rows.select(name for name in FRONTIER.schema if name in rows.columns))
    return pl.concat([changed, FRONTIER.frame(visited.filter(~news).drop("ended_at"))])


def _due_at(policy: Policy) -> pl.Expr:
    """When each URL may next be selected, by what its outcome says about asking again."""
    ended, again = pl.col("ended_at"), pl.col("again")
    waits = {n: retry_after_failure(n, policy.retry) for n in range(policy.retry.attempts + 1)}
    retry = pl.col("attempts").replace_strict(waits, default=None, return_dtype=pl.Duration("us"))
    interval_s = pl.col("interval_s").fill_null(recrawl.by_kind("first_s", policy))
    revisit = recrawl.due_at(ended, interval_s) if policy.recrawl.again else pl.lit(None)
    look_again = recrawl.due_at(ended, _gone_s(policy)) if policy.recrawl.again else pl.lit(None)
    return (
        pl.when(again == "next round").then(ended)
        .when(again == "retry").then(ended + retry)
        .when(again == "robots").then("robots_until")
        .when(again == "recrawl").then(revisit)
        .when(again == "gone").then(look_again)
        .otherwise(None)
    )  # fmt: skip


def _gone_s(policy: Policy) -> pl.Expr:
    """The wait after so many visits in a row that found no page: longer each time, as fewer and fewer come back."""
    waits = dict(enumerate(policy.recrawl.gone_s, start=1))
    wait_s = pl.col("gone_count").clip(1, len(waits)).replace_strict(waits, default=None, return_dtype=pl.Float64)
    was_there = pl.col("interval_s").is_not_null() & (pl.col("outcome") == "gone")
    return pl.when(was_there).then(wait_s).otherwise(wait_s.clip(lower_bound=policy.recrawl.never_s))
