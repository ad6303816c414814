"""`recrawl_job`: known pages of some buckets visited again; by hand, as a backfill, or asked for by a sensor."""

import dagster as dg

from crawl_pipeline.assets import partitions, recrawl
from crawl_pipeline.sensors import worth

JOB = "recrawl_job"


def load(count: int) -> dg.Definitions:
    """`recrawl` of a lake of so many buckets."""
    job = dg.define_asset_job(
        JOB, dg.AssetSelection.assets(recrawl.NAME),
        description="Visit known pages of the chosen buckets again: those due, old, matching a pattern, or all.",
        tags={"crawl/job": "recrawl"},
    )  # fmt: skip
    return dg.Definitions(
        assets=[recrawl.recrawl(partitions.of(count))], jobs=[job], sensors=[worth.worth_sensor(job, count)]
    )
