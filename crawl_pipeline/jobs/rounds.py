"""`crawl_round_job`: rounds in some buckets for some minutes; asked for by hand, by a sensor or by a schedule."""

import dagster as dg

from crawl_pipeline.assets import checks, partitions, rounds
from crawl_pipeline.sensors import work

JOB = "crawl_round_job"


def load(count: int) -> dg.Definitions:
    """The tables of a round, and what runs rounds, in a lake of so many buckets."""
    job = dg.define_asset_job(
        JOB, dg.AssetSelection.assets(*rounds.WRITTEN).without_checks() | checks.ASKED,
        description="Run rounds in some buckets for some minutes.", tags={"crawl/job": "round"},
    )  # fmt: skip
    return dg.Definitions(
        assets=[rounds.orders(), rounds.crawl_round(partitions.of(count))],
        jobs=[job],
        sensors=[work.work_sensor(job, count)],
        schedules=[work.work_schedule(job, count)],
    )
