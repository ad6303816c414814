"""`maintenance_job`: what keeps the lake small, once a day if its schedule is on."""

import dagster as dg

from crawl_pipeline.assets import upkeep

JOB = "maintenance_job"


def load(count: int) -> dg.Definitions:
    """`maintenance` of a lake of so many buckets."""
    job = dg.define_asset_job(
        JOB, dg.AssetSelection.assets(upkeep.NAME),
        description="Keep the lake small, and delete old run records.", tags={"crawl/job": "maintenance"},
    )  # fmt: skip
    every_night = dg.ScheduleDefinition(
        name="every_night", job=job, cron_schedule="20 3 * * *", execution_timezone="UTC",
        description="Maintenance once a day.",
    )  # fmt: skip
    return dg.Definitions(assets=[upkeep.maintenance(count)], jobs=[job], schedules=[every_night])
