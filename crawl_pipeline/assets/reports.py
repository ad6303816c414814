"""The SQL of dbt_like_reports as Dagster sees it: an asset per model, a check per test.

A test belongs to the first table it names. All tests of a run are asked of one snapshot of the lake, in one step.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import dagster as dg

from crawl_pipeline import corpus
from crawl_pipeline.assets import checks, duplicates, pictures
from crawl_pipeline.assets.rounds import OWNERS, WRITTEN
from crawl_pipeline.resources.lake import LakeResource

if TYPE_CHECKING:
    from crawl_pipeline.corpus import Report

GROUP = "reports"
JUDGED = (*WRITTEN, *duplicates.WRITTEN)
"""Tables that reports are about."""


def reports(buckets: int) -> list[dg.AssetsDefinition]:
    """One asset per model."""
    return [_report(model, buckets) for model in corpus.models()]


def promises(buckets: int) -> dg.AssetChecksDefinition:
    """One check per test, over the whole lake."""
    specs = {test.name: _check(test) for test in corpus.tests()}

    @dg.multi_asset_check(name="promises", specs=list(specs.values()), can_subset=True)
    def promises(context: dg.AssetCheckExecutionContext, lake: LakeResource) -> Iterable[dg.AssetCheckResult]:
        """Ask for the rows that break each sentence."""
        asked = {key.name for key in context.selected_asset_check_keys}
        for found in corpus.run_tests(lake.open(buckets)):
            if found.name in asked:
                key = specs[found.name].asset_key
                yield checks.result([found], check_name=found.name, asset_key=key)

    return promises


def _report(model: "Report", buckets: int) -> dg.AssetsDefinition:
    @dg.asset(
        name=model.name, deps=[table for table in model.tables if table in (*JUDGED, "orders")],
        description=model.sentence, group_name=GROUP, owners=OWNERS, kinds={"duckdb", "sql"},
    )  # fmt: skip
    def report(context: dg.AssetExecutionContext, lake: LakeResource) -> dg.MaterializeResult[None]:
        rows = corpus.run_model(lake.open(buckets), model.name)
        preview = dg.MetadataValue.md(checks.markdown(rows))
        drawn = pictures.of_report(model.name, rows)
        return dg.MaterializeResult(metadata={"dagster/row_count": rows.height, **drawn, "preview": preview})

    return report


def _check(test: "Report") -> dg.AssetCheckSpec:
    table = next((table for table in test.tables if table in JUDGED), "rounds")
    return dg.AssetCheckSpec(test.name, asset=table, description=test.sentence)
