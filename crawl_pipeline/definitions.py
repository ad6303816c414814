"""Everything Dagster loads: the parts in jobs/, and the resources that all share. Wiring only.

Settings come from the environment: CRAWL_LAKE (default ./lake), CRAWL_POLICY (default policy.toml in the
lake's folder), CRAWL_BUCKETS (default 16; compared with the lake by every run), CRAWL_RUNS and CRAWL_RUN_SECONDS.
"""

from pathlib import Path
from typing import Any

import dagster as dg

from crawl_pipeline.assets import partitions
from crawl_pipeline.assets.working import Tell, nobody
from crawl_pipeline.jobs import PARTS, duplicates, rounds
from crawl_pipeline.resources.instance import instance_at
from crawl_pipeline.resources.lake import LakeResource, buckets_from_environment, lake_from_environment
from crawl_pipeline.resources.policy import PolicyResource, policy_from_environment
from crawl_pipeline.resources.runs import RunsResource, runs_from_environment


def definitions(
    count: int,
    lake: LakeResource,
    policy: PolicyResource,
    runs: RunsResource,
    tell: Tell = nobody,
) -> dg.Definitions:
    """All definitions for a lake of so many buckets."""
    shared = dg.Definitions(
        resources={"lake": lake, "policy": policy, "runs": runs, "tell": tell},
        # Here and not on the jobs: backfills of assets ignore a job's executor.
        executor=dg.in_process_executor,
    )
    return dg.Definitions.merge(shared, *(part.load(count) for part in PARTS))


def materialize(
    lake_root: str,
    policy_path: str,
    buckets: int,
    seconds: float,
    home: Path,
    tell: Tell = nobody,
) -> dg.ExecuteInProcessResult:
    """Materialise `crawl_round` over all buckets in this process; `tell` hears of each round when it is committed.

    The run stands in the instance at `home`: with DAGSTER_HOME set to it, `dagster dev` shows it. Raises dg.Failure if
    some buckets were held by another worker, and DagsterExecutionInterruptedError if it was told to stop (SIGINT).
    """
    told = {"ops": {"crawl_round": {"config": {"seconds": seconds}}}}
    return _run(rounds.JOB, lake_root, policy_path, buckets, home, told, partitions.tags(0, buckets - 1), tell)


def find_duplicates(lake_root: str, policy_path: str, buckets: int, home: Path) -> dg.ExecuteInProcessResult:
    """Materialise `clusters` and `merges` in this process; the run stands in the instance at `home`."""
    return _run(duplicates.JOB, lake_root, policy_path, buckets, home, {}, {})


def _run(
    job: str, lake_root: str, policy_path: str, buckets: int, home: Path, told: dict[str, Any], tags: dict[str, str],
    tell: Tell = nobody,
) -> dg.ExecuteInProcessResult:  # fmt: skip
    loaded = definitions(buckets, LakeResource(root=lake_root), PolicyResource(path=policy_path), RunsResource(), tell)
    quiet = {"loggers": {"console": {"config": {"log_level": "WARNING"}}}}
    with instance_at(home) as instance:
        return loaded.resolve_job_def(job).execute_in_process(instance=instance, tags=tags, run_config=told | quiet)


_lake = lake_from_environment()
defs = definitions(buckets_from_environment(), _lake, policy_from_environment(_lake), runs_from_environment())
