"""Whether a host's dates of modification are believed, learnt by holding them against what visits find.

Two kinds of dates are judged alike: those of its sitemaps (lastmod) and those of its answers (Last-Modified). Each
visit is a trial: had the page changed, and had its date moved? Counted per host are visits that found a change and how
many of these the date had told of, visits before which the date had moved, and how many of those would have found a
change anyway, by the page's own rate, of which a date may well tell. A date that moves with every build goes with many
changes as well if visits are far apart: so it is believed only if changes are clearly more frequent after it moved
than without it.

Invariants: who tells nothing is never believed; a host that mends its ways, or begins to lie, is judged anew within
some hundred visits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from math import comb, exp

import polars as pl

from crawl_pipeline.core.policy import Policy

LEAST = 20
"""Trials before which nothing is believed."""
HALF = 0.5
"""What the 5 % lower bounds of both shares must reach."""
CLEAR = 0.7
"""Visits after a moved date that find nothing, as a share of those to be expected if the date meant nothing."""
REMEMBERED = 200.0
"""Trials after which all counts are halved."""
CERTAIN = 0.95
"""No more is believed of a date, so that a host that stops telling is noticed."""
COUNTS = ("changed", "told", "moved", "foretold")

FEWEST = 20
EQUAL = 0.9
STAMP = timedelta(seconds=60)
"""Dates of nearly all pages of a file within a minute are those of its build."""


@dataclass(frozen=True, slots=True)
class Belief:
    """How many changes a host's dates tell of, and how many moves of a date are such: 0 and 1 if it is not believed.

    `refuted`: there were trials enough, and they speak against it; else they leave it open.
    """

    recall: float = 0.0
    precision: float = 1.0
    refuted: bool = False


def belief(counts: dict[str, float] | None) -> Belief:
    """Judge what is counted of a host."""
    if not counts:
        return Belief()
    changed, told, moved, foretold = (float(counts[name] or 0.0) for name in COUNTS)
    if changed + moved - told < LEAST:
        return Belief()
    in_vain, by_chance = moved - told, moved - foretold
    if not (_at_least_half(told, changed) and _at_least_half(told, moved) and _is_clear(in_vain, by_chance)):
        return Belief(refuted=min(2 * told - changed, 2 * told - moved, CLEAR * by_chance - in_vain) < 0)
    recall, precision = (told + 1) / (changed + 2), (told + 1) / (moved + 2)
    return Belief(min(recall, CERTAIN), min(precision, CERTAIN))


@lru_cache(maxsize=10_000)
def _at_least_half(hits: float, trials: float) -> bool:
    """Whether the 5 % lower bound of a share is HALF or more: the posterior from an even prior is Beta(hits + 1, ...).

    Its tail is a binomial one; counts that have been halved are rounded down.
    """
    draws = int(trials) + 1
    return sum(comb(draws, k) for k in range(int(hits) + 1, draws + 1)) * HALF**draws <= 0.05


def _is_clear(found: float, expected: float) -> bool:
    """Whether so few visits in vain are less than chance makes of those expected, one time in a hundred (Poisson)."""
    term, tail = exp(-expected), 0.0
    for k in range(int(found) + 1):
        tail += term
        term *= expected / (k + 1)
    return found <= CLEAR * expected and tail <= 0.01


def of_hosts(hosts: pl.DataFrame, policy: Policy) -> pl.DataFrame:
    """What is believed of the dates of each host: host, recall, precision, refuted, dated (its answers' dates are)."""
    tried = hosts.filter(_is_tried("sitemap_dates") | _is_tried("page_dates"))
    rows = []
    for host, listed, answered in tried.select("host", "sitemap_dates", "page_dates").iter_rows():
        of_sitemap = belief(listed) if policy.recrawl.lastmod else Belief()
        rows.append((host, of_sitemap.recall, of_sitemap.precision, of_sitemap.refuted, belief(answered).recall > 0))
    schema = {"host": pl.String, "recall": pl.Float64, "precision": pl.Float64, "refuted": pl.Boolean,
              "dated": pl.Boolean}  # fmt: skip
    judged = pl.DataFrame(rows, schema=schema, orient="row")
    return hosts.select("host").join(judged, on="host", how="left", maintain_order="left")


def _is_tried(kind: str) -> pl.Expr:
    changed, told, moved = (pl.col(kind).struct.field(name) for name in ("changed", "told", "moved"))
    return (changed + moved - told >= LEAST).fill_null(value=False)


def trials(compared: pl.DataFrame) -> pl.DataFrame:
    """Count the trials among visits per host and kind: host, kind (sitemap_dates, page_dates) and COUNTS.

    compared: rows of recrawl.compared.
    """
    pages = compared.filter(~pl.col("first") & pl.col("kind").ne_missing("sitemap"))
    listed = pages.filter(pl.col("lastmod_at").is_not_null())
    same = (pl.col("outcome") == "not_modified") | pl.col("last_modified").is_not_null()
    answered = pages.filter(pl.col("last_modified_before").is_not_null() & same)
    moved = {
        "sitemap_dates": pl.col("moved_count").fill_null(0) > 0,
        "page_dates": pl.col("modified_days").is_not_null(),
    }
    each = [
        _counted(rows.with_columns(moved=moved[kind])).with_columns(kind=pl.lit(kind))
        for kind, rows in (("sitemap_dates", listed), ("page_dates", answered))
    ]
    return pl.concat(each)


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    changed, moved = pl.col("changed"), pl.col("moved")
    return rows.group_by("host").agg(
        changed=changed.sum().cast(pl.Float64), told=(changed & moved).sum().cast(pl.Float64),
        moved=moved.sum().cast(pl.Float64), foretold=pl.col("expected").filter(moved).sum(),
    )  # fmt: skip


def counted(before: dict[str, float] | None, more: dict[str, float]) -> dict[str, float]:
    """The counts of a host after more trials."""
    sums = {name: float((before or {}).get(name) or 0.0) + more[name] for name in COUNTS}
    full = sums["changed"] + sums["moved"] - sums["told"] >= REMEMBERED
    return {name: count / 2 for name, count in sums.items()} if full else sums


def sifted(dates: Sequence[datetime | None]) -> list[datetime | None]:
    """Leave out the dates of one sitemap that are those of its build: nearly all equal, of FEWEST pages or more."""
    there = sorted(date for date in dates if date is not None)
    most = int(EQUAL * len(there))
    if len(there) < FEWEST:
        return list(dates)
    for start, end in zip(there, there[most - 1 :], strict=False):
        if end - start <= STAMP:
            return [date if date is None or not start <= date <= start + STAMP else None for date in dates]
    return list(dates)
