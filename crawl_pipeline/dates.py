"""Why a known page falls due when it does, in one sentence: its history, what is expected of it, and its price.

Reads the last round's price; asks the rules that made the date, and decides nothing new.
"""

from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline.core import hints, merit, prior, recrawl
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.prior import DAY_S
from crawl_pipeline.core.tables import FRONTIER
from crawl_pipeline.lake import Lake


def because(
    lake: Lake, row: dict[str, Any], known: dict[str, Any] | None, hosts: pl.DataFrame, policy: Policy, now: datetime
) -> str | None:  # fmt: skip
    """Say why; None for a URL that no visit has told of yet. `row`: of `frontier`; `known`: of `change_frequency`."""
    if known is None or row["visited_at"] is None:
        return None
    price = _price(lake, row["bucket"]) if policy.budget.fetches_per_day and row["kind"] != "sitemap" else None
    seen = f"{known['visit_count']} visits found {known['change_count']} changes"
    rate = known["rate"] or _expected(row, hosts, policy)
    expected = f"{seen}, which comes to a change in {1 / rate:,.1f} days{_said(row, hosts, policy)}"
    wait = f"it waits {known['interval_s'] / DAY_S:,.2f} days{_limit(known['interval_s'], policy)}"
    if price is None:
        return f"{expected}: {wait}"
    worth = _worth(row, hosts, policy, now)
    return (
        f"{expected}: {wait}, after which its visit is worth {recrawl.EARLY:.0%} of the price; a visit now is worth "
        f"{worth:.3g}, the price is {price:.3g}: days of freshness times importance ({row['score'] or 1.0:.3g})"
    )


def _said(row: dict[str, Any], hosts: pl.DataFrame, policy: Policy) -> str:
    """What its sitemap says of the page, and whether that is believed."""
    counts = next(iter(hosts.filter(host=row["host"])["sitemap_dates"]), None)
    if row["lastmod_at"] is None or not policy.recrawl.lastmod:
        return ""
    judged, times = hints.belief(counts), row["moved_count"] or 0
    if judged.recall:
        return (f"; its sitemap tells of {judged.recall:.0%} of changes, {judged.precision:.0%} of what it tells is "
                f"right, and it has told of one {times} times since the last visit")  # fmt: skip
    if judged.refuted and counts:
        return (f"; its sitemap's dates are not believed: they told of {counts['told']:.0f} of {counts['changed']:.0f} "
                f"changes, and moved {counts['moved']:.0f} times")  # fmt: skip
    return f"; whether its sitemap's dates are right is not known before {hints.LEAST} visits to the host's pages"


def _price(lake: Lake, bucket: int) -> float | None:
    last = lake.scan("rounds", buckets=[bucket]).sort("round").select("price").tail(1).collect()
    return last["price"].item() if last.height else None


def _expected(row: dict[str, Any], hosts: pl.DataFrame, policy: Policy) -> float:
    priors = dict(prior.of_hosts(hosts, policy).iter_rows())
    return prior.SHAPE / float(priors.get(row["host"], prior.SHAPE / prior.first(policy)))


def _worth(row: dict[str, Any], hosts: pl.DataFrame, policy: Policy, now: datetime) -> float:
    one = pl.DataFrame([row], schema_overrides=FRONTIER.schema)
    rows = one.join(merit.of_hosts(hosts, policy), on="host", how="left")
    return float(merit.of_visits(rows, policy, now).item())


def _limit(interval_s: float, policy: Policy) -> str:
    rules = policy.recrawl
    if interval_s <= rules.shortest_s:
        return " (recrawl.shortest_s: never sooner)"
    return " (recrawl.longest_s: never later)" if interval_s >= rules.longest_s else ""
