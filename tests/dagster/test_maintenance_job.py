"""Maintenance as Dagster runs it: its figures, and the run records that it deletes or keeps."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from conftest import load

from crawl_pipeline.assets import run_records
from crawl_pipeline.core.tables import LINKS, ROUNDS
from crawl_pipeline.lake import Lake
from crawl_pipeline.resources.instance import instance_at

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def maintain(lake: Lake, instance: dg.DagsterInstance, **config: int) -> dg.ExecuteInProcessResult:
    job = load(lake, Path("no-policy.toml")).resolve_job_def("maintenance_job")
    told = QUIET | {"ops": {"maintenance": {"config": config}}}
    return job.execute_in_process(instance=instance, raise_on_error=False, run_config=told)


def write_rounds(lake: Lake, count: int) -> None:
    """Rounds of all buckets, each with a row of `links`, the last never committed."""
    now = datetime.now(UTC)
    lease = lake.claim(range(lake.buckets), "w", now, 60)
    for number in range(count):
        rows = [{"source_bucket": b, "target_bucket": b, "url_hash": number, "source_hash": 0} for b in lease.buckets]
        lake.write(lease, "links", LINKS.frame(rows).drop("round"))
        if number < count - 1:
            lake.commit(lease, ROUNDS.frame([{"bucket": bucket} for bucket in lease.buckets]).drop("round"))
            lease = lake.renew(lease, now, 60)
    lake.release(lease)


def test_the_job_shows_what_it_did_as_figures(empty_lake: Lake, instance: dg.DagsterInstance) -> None:
    write_rounds(empty_lake, 12)
    before = empty_lake.size("links")

    result = maintain(empty_lake, instance)

    assert result.success
    (shown,) = result.asset_materializations_for_node("maintenance")
    figures = {name: value.value for name, value in shown.metadata.items()}
    assert figures["swept"] == 4
    assert figures["buckets"] == 4
    assert figures["files_before"] > figures["files_after"]
    assert figures["rows_before"] - figures["rows_after"] == 4
    row = f"| links | {before.files} | {empty_lake.size('links').files} | {before.bytes} |"
    assert row in figures["tables"]


def test_buckets_of_a_worker_are_passed_over_and_named(empty_lake: Lake, instance: dg.DagsterInstance) -> None:
    empty_lake.claim([2], "busy", datetime.now(UTC), 600)

    (shown,) = maintain(empty_lake, instance).asset_materializations_for_node("maintenance")

    assert shown.metadata["buckets_passed_over"].value == 1
    assert "| 2 | busy |" in str(shown.metadata["passed over"].value)


def test_less_than_a_week_fails_the_run_and_says_why(empty_lake: Lake, instance: dg.DagsterInstance) -> None:
    result = maintain(empty_lake, instance, vacuum_hours=1)

    assert not result.success
    assert "at least 168 hours" in str(result.all_events)


# Run records.

PARTS = dg.StaticPartitionsDefinition(["b000", "b001"])


@dg.asset(partitions_def=PARTS)
def bucketed() -> None:
    """An asset by bucket."""


@dg.asset
def whole() -> None:
    """An asset without partitions."""


@dg.asset
def failing() -> None:
    """Never made."""
    raise ValueError


RUNS = dg.Definitions(assets=[bucketed, whole, failing], executor=dg.in_process_executor)


@pytest.fixture(params=["in memory", "on a disk"])
def records(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    if request.param == "in memory":
        with dg.DagsterInstance.ephemeral(settings={"telemetry": {"enabled": False}}) as own:
            yield own
    else:
        with instance_at(tmp_path) as own:
            yield own


def run(instance: dg.DagsterInstance, asset: dg.AssetsDefinition, partition: str | None = None) -> str:
    result = dg.materialize([asset], instance=instance, partition_key=partition, raise_on_error=False, run_config=QUIET)
    return result.run_id


def later() -> datetime:
    """A time by which all that has happened is old."""
    return datetime.now(UTC) + timedelta(hours=1)


def left(instance: dg.DagsterInstance) -> set[str]:
    return {found.run_id for found in instance.get_runs()}


def test_old_runs_go_but_for_those_that_hold_what_an_asset_shows(records: dg.DagsterInstance) -> None:
    gone = [run(records, bucketed, "b000"), run(records, whole), run(records, failing)]
    kept = [run(records, bucketed, "b001"), run(records, bucketed, "b000"), run(records, whole)]

    assert run_records.prune(records, later()) == len(gone)
    assert left(records) == set(kept)
    assert records.get_materialized_partitions(bucketed.key) == {"b000", "b001"}
    latest = records.get_latest_materialization_event(whole.key)
    assert latest is not None
    assert latest.run_id == kept[-1]
    assert run_records.prune(records, later()) == 0


def test_a_run_whose_assets_were_made_again_since_is_not_kept(instance: dg.DagsterInstance) -> None:
    old = [run(instance, bucketed, "b000"), run(instance, whole), run(instance, bucketed, "b001")]
    since = datetime.now(UTC)
    new = [run(instance, bucketed, "b000"), run(instance, whole)]

    assert run_records.prune(instance, since) == 2
    assert left(instance) == {old[2], *new}


def test_young_runs_and_runs_that_have_not_ended_stay(instance: dg.DagsterInstance) -> None:
    kept = {run(instance, failing), run(instance, failing)}
    assert run_records.prune(instance, datetime.now(UTC) - timedelta(days=1)) == 0
    assert left(instance) == kept
    job = RUNS.resolve_implicit_global_asset_job_def()
    going = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED).run_id

    assert run_records.prune(instance, later()) == 2
    assert left(instance) == {going}


def test_a_call_deletes_the_oldest_of_many(instance: dg.DagsterInstance) -> None:
    runs = [run(instance, failing) for _ in range(3)]

    assert run_records.prune(instance, later(), most=2) == 2
    assert left(instance) == {runs[-1]}


def test_the_job_deletes_old_records_and_leaves_its_own(empty_lake: Lake, instance: dg.DagsterInstance) -> None:
    run(instance, failing)

    result = maintain(empty_lake, instance, run_days=0)

    (shown,) = result.asset_materializations_for_node("maintenance")
    assert shown.metadata["run_records_pruned"].value == 1
    assert left(instance) == {result.run_id}
