"""The SQL of dbt_like_reports as Dagster sees it: an asset per model, a check per test and per alarm.

A check belongs to the first table it names, or else to the first model it refers to. All tests and alarms of a run are
asked of one snapshot of the lake, in one step. A test that fails is an error: a promise was broken. An alarm warns, and
says what to do.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from crawl_pipeline import reports as sql
from crawl_pipeline.assets import checks, duplicates, pictures
from crawl_pipeline.assets.rounds import OWNERS, WRITTEN
from crawl_pipeline.resources.lake import LakeResource

if TYPE_CHECKING:
    from crawl_pipeline.reports import Report

GROUP = "reports"
JUDGED = (*WRITTEN, *duplicates.WRITTEN)
"""Tables that reports are about."""


def reports(buckets: int) -> list[dg.AssetsDefinition]:
    """One asset per model."""
    return [_report(model, buckets) for model in sql.models()]


class ReportPageConfig(dg.Config):
    """Where the page goes: not into the lake's folder, of which an erasure searches every file."""

    path: str = Field(default="", description="File to write, whole or not at all; if empty, beside the lake's folder.")


def report_page(buckets: int) -> dg.AssetsDefinition:
    """The page that an operator mails."""

    @dg.asset(
        name="report_page", deps=[model.name for model in sql.models()], group_name=GROUP, owners=OWNERS,
        kinds={"html"}, description="All models on one HTML page with charts, whole by itself: to be mailed.",
    )  # fmt: skip
    def report_page(
        context: dg.AssetExecutionContext, lake: LakeResource, config: ReportPageConfig
    ) -> dg.MaterializeResult[None]:
        from crawl_pipeline import report_page as pages  # noqa: PLC0415 (keeps the code server small)

        opened = lake.open(buckets)
        beside = Path("report.html") if "://" in opened.root else Path(opened.root).absolute().parent / "report.html"
        written = pages.write(opened, Path(config.path) if config.path else beside)
        return dg.MaterializeResult(metadata={"page": dg.MetadataValue.path(written), "bytes": written.stat().st_size})

    return report_page


def promises(buckets: int) -> dg.AssetChecksDefinition:
    """One check per test, over the whole lake."""
    specs = _checks(sql.tests())

    @dg.multi_asset_check(name="promises", specs=list(specs.values()), can_subset=True)
    def promises(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterable[dg.AssetCheckResult]:
        """Ask for the rows that break each sentence."""
        asked = {key.name for key in context.selected_asset_check_keys}
        for found in sql.run_tests(lake.open(buckets)):
            if found.name in asked:
                yield checks.result([found], check_name=found.name, asset_key=specs[found.name].asset_key)

    return promises


def alarms(buckets: int) -> list[dg.AssetChecksDefinition]:
    """One check per alarm, over the whole lake; it warns."""
    specs = _checks(sql.alarms())
    if not specs:
        return []

    @dg.multi_asset_check(name="alarms", specs=list(specs.values()), can_subset=True)
    def alarms(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterable[dg.AssetCheckResult]:
        """Ask for the rows that pass a threshold, and say what to do about them."""
        asked = {key.name for key in context.selected_asset_check_keys}
        for found in sql.run_alarms(lake.open(buckets)):
            if found.name in asked:
                yield _alarm(found, specs[found.name].asset_key)

    return [alarms]


def _alarm(found: sql.Result, asset_key: dg.AssetKey) -> dg.AssetCheckResult:
    judged = checks.result([found], check_name=found.name, asset_key=asset_key, metadata={"what to do": found.advice})
    if judged.passed:
        return judged
    return judged._replace(
        severity=dg.AssetCheckSeverity.WARN, description=f"{judged.description} What to do: {found.advice}"
    )


def _report(model: "Report", buckets: int) -> dg.AssetsDefinition:
    lake_tables = [table for table in model.tables if table in (*JUDGED, "orders")]

    @dg.asset(
        name=model.name, deps=[*lake_tables, *model.refs], description=model.sentence, group_name=GROUP,
        owners=OWNERS, kinds={"duckdb", "sql"}, metadata={"dagster/column_schema": _columns(model)},
    )  # fmt: skip
    def report(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[None]:
        rows = sql.run_model(lake.open(buckets), model.name)
        preview = dg.MetadataValue.md(checks.markdown(rows))
        drawn = pictures.of_report(model.name, rows)
        return dg.MaterializeResult(metadata={"dagster/row_count": rows.height, **drawn, "preview": preview})

    return report


def _columns(model: "Report") -> dg.TableSchema:
    return dg.TableSchema([dg.TableColumn(name, description=meaning) for name, meaning in model.columns.items()])


def _checks(found: Sequence["Report"]) -> dict[str, dg.AssetCheckSpec]:
    return {report.name: dg.AssetCheckSpec(report.name, asset=_owner(report), description=_says(report))
            for report in found}  # fmt: skip


def _owner(report: "Report") -> str:
    tables = (table for table in report.tables if table in JUDGED)
    return next(tables, next(iter(report.refs), "rounds"))


def _says(report: "Report") -> str:
    return f"{report.sentence} If not: {report.advice}" if report.advice else report.sentence
