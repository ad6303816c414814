"""How fresh the crawl is by what it believes, how near that is to the best plan, and whether it believes rightly.

Expected freshness is what pages' rates of change make of the time since their last visits, importance considered. What
was fetched a moment ago is fresh under any plan, so it is not that which is held against the best plan, but what the
dates come to in the long run: each page visited again and again after its interval, as far as the budget and hosts
allow. The bound is the best plan for the same rates, the same visits per day and the limits of hosts (`core.bound`);
its prices say what one more visit would buy, and what each host's politeness costs. The calibration asks of the last
visits of all pages whether they found a change as often as was expected then; the Brier score is the mean square of
what was missed.

Reads state alone, of all buckets; writes nothing and schedules nothing. Invariant: no plan that keeps to the same
limits is above the bound, so the share is at most 1.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from crawl_pipeline.core import bound, politeness, prior, recrawl, selection
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.prior import DAY_S
from crawl_pipeline.core.worth import Numbers
from crawl_pipeline.lake import Lake

PAGES = ("fetched", "orphan")
_TENTHS = 10


@dataclass(frozen=True, slots=True)
class Freshness:
    """The figures. `hosts`: host, pages, visits, limit, price; `calibration`: expected, changed, visits."""

    at: datetime
    pages: int
    expected: float | None
    planned: float | None
    best: float | None
    visits_per_day: float
    price: float | None
    brier: float | None
    hosts: pl.DataFrame
    calibration: pl.DataFrame

    @property
    def share(self) -> float | None:
        """What the dates come to as a share of the bound."""
        return self.planned / self.best if self.planned is not None and self.best else None

    def figures(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "at": self.at, "pages": self.pages, "expected_freshness": self.expected,
            "planned_freshness": self.planned, "bound": self.best, "share_of_bound": self.share,
            "visits_per_day": self.visits_per_day, "price": self.price,
            "brier": self.brier, "hosts": self.hosts.to_dicts(), "calibration": self.calibration.to_dicts(),
        }  # fmt: skip


def reckon(lake: Lake, policy: Policy, now: datetime) -> Freshness:
    """Reckon the freshness of all known pages."""
    hosts = lake.scan("hosts").collect()
    known = lake.scan("change_frequency").select(
        "url_hash", "fetched_at", "changed_at", "interval_s", "rate", "weight", "change_expected", "text_hash"
    )
    rows = lake.scan("frontier", where=pl.col("status").is_in(PAGES) & pl.col("kind").ne_missing("sitemap"))
    has_text = pl.col("text_hash").is_not_null()  # a picture or another file that modules want is no page
    pages = rows.select("url_hash", "host", "score").join(known.filter(has_text), on="url_hash").collect()
    told = pages.filter(pl.col("change_expected").is_not_null())
    brier, calibration = _calibration(told)
    if pages.is_empty():
        return Freshness(now, 0, None, None, None, 0.0, None, brier, _of_hosts(pages, hosts, [], [], []), calibration)
    return _reckoned(pages.join(prior.of_hosts(hosts, policy), on="host"), hosts, policy, now, brier, calibration)


def _reckoned(
    pages: pl.DataFrame, hosts: pl.DataFrame, policy: Policy, now: datetime, brier: float | None,
    calibration: pl.DataFrame,
) -> Freshness:  # fmt: skip
    names = pages["host"].unique().sort()
    rows = {row["host"]: row for row in hosts.iter_rows(named=True)}
    limits = np.array([_limit(rows[name], policy) for name in names])
    each = pages.select(
        rate=pl.coalesce("rate", prior.SHAPE / pl.col("prior_b")).clip(*prior.LIMITS),
        weight=recrawl.weight(pl.col("score")) * pl.col("weight").fill_null(1.0),
        days=((now - pl.col("fetched_at")).dt.total_microseconds() / (1e6 * DAY_S)).clip(0.0),
        place=pl.col("host").replace_strict(dict(zip(names, range(len(names)), strict=True)), return_dtype=pl.Int64),
    )
    rates, weights, days, places = (column.to_numpy() for column in each.get_columns())
    dated = (DAY_S / pages["interval_s"]).to_numpy()
    budget = float(policy.budget.fetches_per_day or dated.sum())
    best = bound.best(rates, weights, places, limits, budget)
    expected = float((weights * np.exp(-rates * days)).sum() / weights.sum())
    visits = np.bincount(places, weights=best.visits, minlength=len(names))
    shown = _of_hosts(pages, hosts, list(names), list(zip(visits, limits, strict=True)), list(best.host_prices))
    kept = bound.freshness(rates, _within(dated, places, limits, budget))
    planned = float((weights * kept).sum() / weights.sum())
    return Freshness(
        now, pages.height, expected, planned, best.expected(weights), budget, best.price, brier, shown, calibration
    )


def _within(dated: Numbers, places: bound.Places, limits: Numbers, budget: float) -> Numbers:
    """Visits per day that dates come to when hosts, and then the budget, allow no more: all of a host slow down."""
    asked = np.bincount(places, weights=dated, minlength=len(limits))
    allowed = dated * np.minimum(limits / np.maximum(asked, 1e-300), 1.0)[places]
    return allowed * min(budget / max(float(allowed.sum()), 1e-300), 1.0)


def _limit(row: dict[str, Any], policy: Policy) -> float:
    """Pages that a host may be asked for in a day: by its gaps, and by its budget."""
    gap_s = politeness.gap_s(selection.pace_of(row), None, policy, str(row["host"]))
    return min(DAY_S / max(gap_s, 1e-3), float(policy.fetches_per_day(str(row["host"]))))


def _of_hosts(
    pages: pl.DataFrame, hosts: pl.DataFrame, names: list[str], rates: list[tuple[float, float]], prices: list[float]
) -> pl.DataFrame:  # fmt: skip
    """Hosts whose politeness costs something come first."""
    counts = dict(pages.group_by("host").len().iter_rows())
    rows = [(name, counts[name], *pair, max(float(price), 0.0))
            for name, pair, price in zip(names, rates, prices, strict=True)]  # fmt: skip
    schema = {"host": pl.String, "pages": pl.Int64, "visits": pl.Float64, "limit": pl.Float64, "price": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row").sort(
        "price", "pages", "host", descending=[True, True, False]
    )


def _calibration(told: pl.DataFrame) -> tuple[float | None, pl.DataFrame]:
    """By tenths of what was expected: its mean, how many had changed, of how many visits; and the Brier score."""
    each = told.select(
        expected=pl.col("change_expected"),
        changed=(pl.col("changed_at") == pl.col("fetched_at")).fill_null(value=False).cast(pl.Float64),
    ).with_columns(tenth=(pl.col("expected") * _TENTHS).floor().clip(0, _TENTHS - 1))
    brier = each.select(((pl.col("expected") - pl.col("changed")) ** 2).mean()).item()
    grouped = each.group_by("tenth").agg(pl.col("expected", "changed").mean(), visits=pl.len())
    return brier, grouped.sort("tenth").drop("tenth")
