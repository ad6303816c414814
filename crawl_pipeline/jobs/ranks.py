"""`rank_job`: how important what is known is, by the links that lead to it, every hour if its schedule is on."""

import dagster as dg

from crawl_pipeline.assets import ranks

JOB = "rank_job"


def load(count: int) -> dg.Definitions:
    """`ranks`, `host_ranks` and `host_graph` of a lake of so many buckets."""
    job = dg.define_asset_job(
        JOB, dg.AssetSelection.assets(*ranks.WRITTEN).without_checks(),
        description="Rank what is known by the links that lead to it.", tags={"crawl/job": "rank"},
    )  # fmt: skip
    every_hour = dg.ScheduleDefinition(
        name="every_hour", job=job, cron_schedule="5 * * * *", execution_timezone="UTC",
        description="Ranks once an hour; a run without news takes a second.",
    )  # fmt: skip
    return dg.Definitions(assets=[ranks.ranks(count)], jobs=[job], schedules=[every_hour])
