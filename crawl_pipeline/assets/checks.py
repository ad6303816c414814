"""The checks that come with every run of `crawl_round`: its accounts and its manners.

The sentences and their SQL are those of dbt_like_reports/tests; here they are asked of this run's rows only, so that
they cost the same however long the crawl is. A check is answered once per run, for all its buckets together: Dagster
takes one answer per check and run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
import polars as pl

from crawl_pipeline.core.tables import TABLES, Table

if TYPE_CHECKING:
    from crawl_pipeline.core.policy import Policy
    from crawl_pipeline.lake import Lake
    from crawl_pipeline.reports import Result

ACCOUNTS = dg.AssetCheckSpec(
    "accounts", asset="rounds", description="In every round of this run, selected = sum of outcomes."
)
MANNERS = dg.AssetCheckSpec(
    "manners",
    asset="fetches",
    description="In this run every promise to hosts was kept: turns, rests, Retry-After, robots.txt, pauses, our name.",
)
INLINE = [ACCOUNTS, MANNERS]
ASKED = dg.AssetSelection.checks(*(spec.key for spec in INLINE))
"""Both, as a job selects them."""

_JUDGED = (
    "bucket", "round", "request_id", "host", "origin", "url", "cause", "worker", "started_at", "ended_at", "gap_s",
    "http_status", "outcome", "retry_after_s", "policy_id", "user_agent", "address",
)  # fmt: skip
RUDE = (
    "To do: pause the hosts that are named below (`crawl pause HOST`, or pause_job), so that they are left alone; then "
    "`crawl audit` shows each request with what was owed. A second worker, or a clock that was set, does this; else it "
    "is a fault of ours: please report it."
)
WRONG = (
    "To do: nothing is asked wrongly, but the lake's accounts do not add up: run `crawl doctor`; if it finds nothing, "
    "keep the lake as it is and report the rows below."
)
A_DAY = timedelta(days=1)
"""How old a robots.txt answer may be."""
SHOWN = 10


@dataclass(slots=True)
class Part:
    """Some rows of some tables, to be asked by the SQL that is written for a lake."""

    frames: Mapping[str, pl.DataFrame]
    root: str = field(default="memory://")
    uneven: frozenset[str] = frozenset()

    def files(self, table: str, /) -> list[str]:
        """None: the rows are in memory."""
        return []

    @property
    def tables(self) -> Mapping[str, Table]:
        """Those of every lake."""
        return TABLES

    def dataset(self, table: str, /) -> object:
        """The rows of a table, if any were given."""
        return TABLES[table].frame(self.frames.get(table, TABLES[table].empty())).to_arrow()


def recent_fetches(lake: "Lake", policy: "Policy", rows: pl.DataFrame) -> pl.DataFrame:
    """Requests of these rounds and of the time before them that a promise to a host may reach back to.

    (But for a Crawl-delay or Retry-After of more than that time, which the test over the whole lake sees.)
    """
    rules = policy.politeness
    longest = max(rules.backoff_cap_s, rules.download_gap_cap_s)
    since = rows["started_at"].min() - timedelta(seconds=longest)  # type: ignore[operator]
    found = lake.scan(
        "fetches", buckets=lake.once_in(rows["bucket"].unique().to_list()), where=pl.col("started_at") >= since
    )
    return found.select(_JUDGED).collect()


def in_force(lake: "Lake", fetches: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The robots.txt answers that may have been in force at these requests, and what people had ordered."""
    if fetches.is_empty():
        return {}
    since = fetches["started_at"].min() - A_DAY  # type: ignore[operator]
    asked = pl.col("origin").is_in(fetches["origin"].unique().to_list()) & (pl.col("fetched_at") >= since)
    robots = lake.scan("robots", buckets=fetches["bucket"].unique().to_list(), where=asked)
    orders = lake.scan("orders", where=pl.col("kind").is_in(["policy", "pause", "resume"]))
    return {"robots": robots.collect(), "orders": orders.collect()}


def inline(asset: str) -> list[dg.AssetCheckSpec]:
    """Both checks, as those of one asset whose runs run rounds."""
    return [dg.AssetCheckSpec(spec.name, asset=asset, description=spec.description) for spec in INLINE]


def judge(
    rows: pl.DataFrame, fetches: pl.DataFrame, others: Mapping[str, pl.DataFrame] | None = None, of: str | None = None
) -> Iterator[dg.AssetCheckResult]:
    """Answer the checks for the rounds in `rows` and the requests in `fetches`; `others`: what was in force.

    `of`: the asset whose checks they are, where that is not the one that each is declared with.
    """
    from crawl_pipeline import reports  # noqa: PLC0415 (keeps the code server small)

    accounts = [reports.run_test(Part({"rounds": rows}), "selected_equals_sum_of_outcomes")]
    judged = {"rounds judged": rows["round"].n_unique(), "requests judged": fetches.height}
    key = None if of is None else dg.AssetKey(of)
    yield result(accounts, check_name=ACCOUNTS.name, asset_key=key or ACCOUNTS.asset_key, metadata=judged)
    yield _manners(rows, {"fetches": fetches, **(others or {})}, judged, key or MANNERS.asset_key)


def _manners(
    rows: pl.DataFrame, frames: Mapping[str, pl.DataFrame], judged: Mapping[str, int], key: dg.AssetKey
) -> dg.AssetCheckResult:
    """The promises to hosts, judged by the same SQL as in `crawl audit`; the last one, the record, is the accounts'."""
    from crawl_pipeline import auditing, reports  # noqa: PLC0415

    before = pl.concat([frame.select("bucket", "round") for name, frame in frames.items() if name != "orders"])
    before = before.unique().join(rows, on=["bucket", "round"], how="anti")
    part = Part({**frames, "rounds": pl.concat([TABLES["rounds"].frame(rows), TABLES["rounds"].frame(before)])})
    found = auditing.audit(part, [promise for promise in auditing.PROMISES if promise.id != "P8"])
    noted = reports.run_test(part, "a_host_is_never_asked_too_soon")
    results = [each for finding in found.findings for each in finding.results]
    numbers = {f"{each.promise.id} violations: {each.promise.says}": each.violations for each in found.findings}
    metadata: dict[str, Any] = {
        **judged, **numbers, "requests under an unknown policy": found.unjudged,
        **({"least margin": float(found.margins["least_margin"][0]),
            "median margin": float(found.margins["median_margin"][0])} if found.margins.height else {}),
        "margins": dg.MetadataValue.md(f"Rest ÷ what was owed; 1 is exact\n\n{markdown(found.margins)}"),
    }  # fmt: skip
    return result([*results, noted], check_name=MANNERS.name, asset_key=key, metadata=metadata)


def result(
    found: "list[Result]",
    *,
    check_name: str,
    asset_key: dg.AssetKey,
    metadata: Mapping[str, Any] | None = None,
) -> dg.AssetCheckResult:
    """One check's answer: it holds if all its sentences do; some offending rows are shown."""
    broken = [test for test in found if not test.holds]
    shown = {
        test.name: dg.MetadataValue.md(f"{test.sentence}\n\n{markdown(test.offending)}") for test in broken
    }  # fmt: skip
    return dg.AssetCheckResult(
        passed=not broken,
        asset_key=asset_key,
        check_name=check_name,
        description=_said(broken) or None,
        metadata={
            "offending rows": sum(test.offending.height for test in broken),
            **(metadata or {}),
            **shown,
        },
    )


def _said(broken: "list[Result]") -> str:
    """What is wrong, and what a person does about it."""
    wrong = "; ".join(f"{test.offending.height} rows break: {test.sentence}" for test in broken)
    return wrong and f"{wrong} {to_do([test.name for test in broken])}"


def to_do(names: list[str]) -> str:
    """What to do when tests of these names fail."""
    from crawl_pipeline import auditing  # noqa: PLC0415

    about_hosts = {test for promise in auditing.PROMISES for test in (*promise.tests, *promise.own_tests)}
    return RUDE if about_hosts & set(names) else WRONG


def markdown(rows: pl.DataFrame, most: int = SHOWN) -> str:
    """The first rows as a Markdown table."""
    if not rows.width:
        return "no rows"
    lines = [rows.columns, ["---"] * rows.width, *(map(str, row) for row in rows.head(most).iter_rows())]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines)
    more = rows.height - most
    return f"{table}\n\nand {more} more" if more > 0 else table
