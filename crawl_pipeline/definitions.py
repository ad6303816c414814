"""Everything Dagster loads, on one page. Wiring only.

Settings come from the environment: CRAWL_LAKE (default ./lake), CRAWL_POLICY (default policy.toml in the
lake's folder), CRAWL_BUCKETS (default 16; compared with the lake by every run), CRAWL_RUNS and CRAWL_RUN_SECONDS.
"""

from pathlib import Path
from typing import Any

import dagster as dg

from crawl_pipeline.assets import checks, duplicates, freshness, partitions, reports, rounds, upkeep
from crawl_pipeline.resources.instance import instance_at
from crawl_pipeline.resources.lake import LakeResource, buckets_from_environment, lake_from_environment
from crawl_pipeline.resources.policy import PolicyResource, policy_from_environment
from crawl_pipeline.resources.runs import RunsResource, runs_from_environment
from crawl_pipeline.sensors import work

JOB, DUPLICATES_JOB = "crawl_round_job", "duplicates_job"


def definitions(
    count: int,
    lake: LakeResource,
    policy: PolicyResource,
    runs: RunsResource,
    tell: rounds.Tell = rounds.nobody,
) -> dg.Definitions:
    """All definitions for a lake of so many buckets."""
    buckets = partitions.of(count)
    inline = dg.AssetSelection.checks(*(spec.key for spec in checks.INLINE))
    round_job = dg.define_asset_job(
        JOB, dg.AssetSelection.assets(*rounds.WRITTEN).without_checks() | inline,
        description="Run rounds in some buckets for some minutes.", tags={"crawl/job": "round"},
    )  # fmt: skip
    reports_job = dg.define_asset_job(
        "reports_job",
        dg.AssetSelection.groups(reports.GROUP) | dg.AssetSelection.checks_for_assets(*reports.JUDGED) - inline,
        description="Run the SQL reports, and the SQL tests over the whole lake.", tags={"crawl/job": "reports"},
    )  # fmt: skip
    maintenance_job = dg.define_asset_job(
        "maintenance_job", dg.AssetSelection.assets(upkeep.NAME),
        description="Keep the lake small, and delete old run records.", tags={"crawl/job": "maintenance"},
    )  # fmt: skip
    duplicates_job = dg.define_asset_job(
        DUPLICATES_JOB, dg.AssetSelection.assets(*duplicates.WRITTEN).without_checks(),
        description="Find pages that are nearly the same among what is new.", tags={"crawl/job": "duplicates"},
    )  # fmt: skip
    every_ten_minutes = dg.ScheduleDefinition(
        name="every_ten_minutes", job=duplicates_job, cron_schedule="*/10 * * * *", execution_timezone="UTC",
        description="Near-duplicates every ten minutes; a run without new pages takes a second.",
    )  # fmt: skip
    freshness_job = dg.define_asset_job(
        "freshness_job", dg.AssetSelection.assets(freshness.NAME).without_checks(),
        description="Reckon how fresh pages are, beside the best plan.", tags={"crawl/job": "freshness"},
    )  # fmt: skip
    every_week = dg.ScheduleDefinition(
        name="every_week", job=freshness_job, cron_schedule="40 4 * * 1", execution_timezone="UTC",
        description="Freshness beside the best plan, once a week.",
    )  # fmt: skip
    every_night = dg.ScheduleDefinition(
        name="every_night", job=maintenance_job, cron_schedule="20 3 * * *", execution_timezone="UTC",
        description="Maintenance once a day.",
    )  # fmt: skip
    return dg.Definitions(
        assets=[
            rounds.orders(),
            rounds.crawl_round(buckets),
            duplicates.duplicates(count),
            *reports.reports(count),
            freshness.freshness(count),
            upkeep.maintenance(count),
        ],
        asset_checks=[reports.promises(count)],
        jobs=[round_job, duplicates_job, reports_job, maintenance_job, freshness_job],
        sensors=[work.work_sensor(round_job, count)],
        schedules=[work.work_schedule(round_job, count), every_ten_minutes, every_night, every_week],
        resources={"lake": lake, "policy": policy, "runs": runs, "tell": tell},
        # Here and not on the jobs: backfills of assets ignore a job's executor.
        executor=dg.in_process_executor,
    )


def materialize(
    lake_root: str,
    policy_path: str,
    buckets: int,
    seconds: float,
    home: Path,
    tell: rounds.Tell = rounds.nobody,
) -> dg.ExecuteInProcessResult:
    """Materialise `crawl_round` over all buckets in this process; `tell` hears of each round when it is committed.

    The run stands in the instance at `home`: with DAGSTER_HOME set to it, `dagster dev` shows it. Raises dg.Failure if
    some buckets were held by another worker, and DagsterExecutionInterruptedError if it was told to stop (SIGINT).
    """
    told = {"ops": {"crawl_round": {"config": {"seconds": seconds}}}}
    return _run(JOB, lake_root, policy_path, buckets, home, told, partitions.tags(0, buckets - 1), tell)


def find_duplicates(lake_root: str, policy_path: str, buckets: int, home: Path) -> dg.ExecuteInProcessResult:
    """Materialise `clusters` and `merges` in this process; the run stands in the instance at `home`."""
    return _run(DUPLICATES_JOB, lake_root, policy_path, buckets, home, {}, {})


def _run(
    job: str, lake_root: str, policy_path: str, buckets: int, home: Path, told: dict[str, Any], tags: dict[str, str],
    tell: rounds.Tell = rounds.nobody,
) -> dg.ExecuteInProcessResult:  # fmt: skip
    loaded = definitions(buckets, LakeResource(root=lake_root), PolicyResource(path=policy_path), RunsResource(), tell)
    quiet = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}
    with instance_at(home) as instance:
        return loaded.resolve_job_def(job).execute_in_process(instance=instance, tags=tags, run_config=told | quiet)


_lake = lake_from_environment()
defs = definitions(buckets_from_environment(), _lake, policy_from_environment(_lake), runs_from_environment())
