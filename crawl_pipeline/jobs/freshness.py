"""`freshness_job`: how fresh pages are beside the best plan, once a week if its schedule is on."""

import dagster as dg

from crawl_pipeline.assets import freshness

JOB = "freshness_job"


def load(count: int) -> dg.Definitions:
    """`freshness` of a lake of so many buckets."""
    job = dg.define_asset_job(
        JOB, dg.AssetSelection.assets(freshness.NAME).without_checks(),
        description="Reckon how fresh pages are, beside the best plan.", tags={"crawl/job": "freshness"},
    )  # fmt: skip
    every_week = dg.ScheduleDefinition(
        name="every_week", job=job, cron_schedule="40 4 * * 1", execution_timezone="UTC",
        description="Freshness beside the best plan, once a week.",
    )  # fmt: skip
    return dg.Definitions(assets=[freshness.freshness(count)], jobs=[job], schedules=[every_week])
