"""`duplicates_job`: near-duplicates among what is new, every ten minutes if its schedule is on."""

import dagster as dg

from crawl_pipeline.assets import duplicates

JOB = "duplicates_job"


def load(count: int) -> dg.Definitions:
    """`clusters` and `merges` of a lake of so many buckets."""
    job = dg.define_asset_job(
        JOB, dg.AssetSelection.assets(*duplicates.WRITTEN).without_checks(),
        description="Find pages that are nearly the same among what is new.", tags={"crawl/job": "duplicates"},
    )  # fmt: skip
    every_ten_minutes = dg.ScheduleDefinition(
        name="every_ten_minutes", job=job, cron_schedule="*/10 * * * *", execution_timezone="UTC",
        description="Near-duplicates every ten minutes; a run without new pages takes a second.",
    )  # fmt: skip
    return dg.Definitions(assets=[duplicates.duplicates(count)], jobs=[job], schedules=[every_ten_minutes])
