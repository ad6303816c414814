"""`reports_job`: the SQL reports, and the SQL tests and alarms over the whole lake."""

import dagster as dg

from crawl_pipeline.assets import checks, reports

JOB = "reports_job"


def load(count: int) -> dg.Definitions:
    """The models and tests of dbt_like_reports, for a lake of so many buckets."""
    job = dg.define_asset_job(
        JOB,
        dg.AssetSelection.groups(reports.GROUP) | dg.AssetSelection.checks_for_assets(*reports.JUDGED) - checks.ASKED,
        description="Run the SQL reports, and the SQL tests over the whole lake.", tags={"crawl/job": "reports"},
    )  # fmt: skip
    return dg.Definitions(
        assets=[*reports.reports(count), reports.report_page(count)],
        asset_checks=[reports.promises(count), *reports.alarms(count)],
        jobs=[job],
    )
