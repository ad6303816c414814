"""The checks that come with every run of `crawl_round`: its accounts and its manners.

The sentences and their SQL are those of dbt_like_reports/tests; here they are asked of this run's rows only, so that
they cost the same however long the crawl is. A check is answered once per run, for all its buckets together: Dagster
takes one answer per check and run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import dagster as dg
import polars as pl

from crawl_pipeline.core.tables import TABLES

if TYPE_CHECKING:
    from crawl_pipeline.core.policy import Policy
    from crawl_pipeline.corpus import Result
    from crawl_pipeline.lake import Lake

ACCOUNTS = dg.AssetCheckSpec(
    "accounts", asset="rounds", description="In every round of this run, selected = sum of outcomes."
)
MANNERS = dg.AssetCheckSpec(
    "manners",
    asset="fetches",
    description="In this run no host was asked too soon, nor for two things at once.",
)
INLINE = [ACCOUNTS, MANNERS]

_SENTENCES = (
    (ACCOUNTS, ("selected_equals_sum_of_outcomes",)),
    (MANNERS, ("a_host_is_never_asked_too_soon", "a_host_is_never_asked_twice_at_once")),
)
_JUDGED = (
    "bucket",
    "round",
    "request_id",
    "host",
    "url",
    "cause",
    "worker",
    "started_at",
    "ended_at",
    "gap_s",
)
SHOWN = 10


@dataclass(slots=True)
class Part:
    """Some rows of some tables, to be asked by the SQL that is written for a lake."""

    frames: Mapping[str, pl.DataFrame]
    root: str = field(default="memory://")

    def files(self, table: str, /) -> list[str]:
        """None: the rows are in memory."""
        return []

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
    found = lake.scan("fetches", buckets=rows["bucket"].unique().to_list(), where=pl.col("started_at") >= since)
    return found.select(_JUDGED).collect()


def judge(rows: pl.DataFrame, fetches: pl.DataFrame) -> Iterator[dg.AssetCheckResult]:
    """Answer the checks for the rounds in `rows` and the requests in `fetches`."""
    from crawl_pipeline import corpus  # noqa: PLC0415 (keeps the code server small)

    committed = fetches.select("bucket", "round").unique()  # earlier rounds than this run's among them
    parts = {ACCOUNTS.key: Part({"rounds": rows}), MANNERS.key: Part({"rounds": committed, "fetches": fetches})}
    for spec, names in _SENTENCES:
        found = [corpus.run_test(parts[spec.key], name) for name in names]
        judged = {"rounds judged": rows["round"].n_unique(), "requests judged": fetches.height}
        yield result(found, check_name=spec.name, asset_key=spec.asset_key, metadata=judged)


def result(
    found: "list[Result]",
    *,
    check_name: str,
    asset_key: dg.AssetKey,
    metadata: Mapping[str, int] | None = None,
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
        description="; ".join(f"{test.offending.height} rows break: {test.sentence}" for test in broken) or None,
        metadata={
            "offending rows": sum(test.offending.height for test in broken),
            **(metadata or {}),
            **shown,
        },
    )


def markdown(rows: pl.DataFrame, most: int = SHOWN) -> str:
    """The first rows as a Markdown table."""
    if not rows.width:
        return "no rows"
    lines = [rows.columns, ["---"] * rows.width, *(map(str, row) for row in rows.head(most).iter_rows())]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |" for cells in lines)
    more = rows.height - most
    return f"{table}\n\nand {more} more" if more > 0 else table
