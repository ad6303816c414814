"""The sensor and the schedule, called as Dagster calls them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest
from conftest import load, policy_for, seed

from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import ROUNDS
from crawl_pipeline.lake import Lake, LakeMismatch
from crawl_pipeline.rebucketing import rebucket
from crawl_pipeline.resources.instance import instance_at

SENSOR, SCHEDULE, JOB = "buckets_with_work", "every_quarter_hour", "crawl_round_job"


def host_of(bucket: int) -> str:
    """A host that belongs to this bucket of four."""
    return next(name for name in (f"h{i}.test" for i in range(99)) if urls.bucket(name, 4) == bucket)


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of one tick."""

    runs: list[dg.RunRequest]
    skipped: str | None

    @property
    def spans(self) -> list[tuple[str, str]]:
        """First and last partition of each run that was asked for."""
        start, end = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
        return sorted((run.partition_key or run.tags[start], run.partition_key or run.tags[end]) for run in self.runs)


def tick(lake: Lake, instance: dg.DagsterInstance, path: Path, buckets: int = 4) -> Asked:
    defs = load(lake, path, buckets)
    given = {name: (defs.resources or {})[name] for name in ("lake", "runs")}
    context = dg.build_sensor_context(instance=instance, definitions=defs, resources=given)
    answer = defs.resolve_sensor_def(SENSOR).evaluate_tick(context)
    return Asked(list(answer.run_requests or []), answer.skip_message)


def finish(lake: Lake, bucket: int, **facts: object) -> None:
    """Commit a round of a bucket and give it back."""
    lease = lake.claim([bucket], "a worker", datetime.now(UTC), 60.0)
    row = {"bucket": bucket, "ended_at": datetime.now(UTC), "due_count": 0, "left_out": [], "links_seen": [0] * 4,
           "links_to": [0] * 4, "orders_seen": 99, **facts}  # fmt: skip
    lake.commit(lease, ROUNDS.frame([row]).drop("round"))
    lake.release(lease)


def test_a_bucket_that_was_given_a_seed_is_asked_for_by_its_partition(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    seed(empty_lake, [f"http://{host_of(2)}/"])

    asked = tick(empty_lake, instance, tmp_path)

    assert asked.spans == [("b002", "b002")]
    assert asked.runs[0].run_config == {"ops": {"crawl_round": {"config": {"seconds": 5.0}}}}


def test_work_is_shared_between_two_runs_over_ranges(empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path):
    for bucket, due in enumerate((50, 5, 25, 25)):
        finish(empty_lake, bucket, due_count=due)

    assert tick(empty_lake, instance, tmp_path).spans == [("b000", "b001"), ("b002", "b003")]


def test_after_a_rebucketing_new_definitions_share_the_work_of_the_new_buckets_and_old_ones_say_what_to_do(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    names = [f"h{number}.test" for number in range(40)]
    seed(empty_lake, [f"http://{name}/{page}" for name in names for page in range(3)])
    old = load(empty_lake, tmp_path)
    rebucket(empty_lake, policy_for({}), 8)

    asked = tick(empty_lake, instance, tmp_path, buckets=8)

    assert (asked.spans[0][0], asked.spans[-1][1]) == ("b000", "b007")
    assert sorted(int(run.tags["crawl/work"]) for run in asked.runs) == pytest.approx([60, 60], abs=15)
    given = {name: (old.resources or {})[name] for name in ("lake", "runs")}
    context = dg.build_sensor_context(instance=instance, definitions=old, resources=given)
    with pytest.raises(LakeMismatch, match="set CRAWL_BUCKETS=8 and reload"):
        old.resolve_sensor_def(SENSOR).evaluate_tick(context)


def test_a_lake_with_fewer_buckets_than_before_is_asked_for_by_those_it_has(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    for bucket in range(4):
        finish(empty_lake, bucket, due_count=9, next_due_at=datetime.now(UTC) + timedelta(hours=1), known_count=0)
    rebucket(empty_lake, policy_for({}), 2)

    assert tick(empty_lake, instance, tmp_path, buckets=2).skipped == (
        "nothing due, and nothing ordered: give seeds with `crawl seed`"
    )


def test_links_from_another_bucket_make_work(empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path):
    finish(empty_lake, 0, links_to=[0, 0, 0, 6])

    assert tick(empty_lake, instance, tmp_path).spans == [("b003", "b003")]


def test_leased_buckets_are_left_out_and_a_tick_without_free_work_says_so(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    finish(empty_lake, 1, due_count=3)
    empty_lake.claim([1], "somebody else", datetime.now(UTC), 300.0)

    asked = tick(empty_lake, instance, tmp_path)

    assert (asked.runs, asked.skipped) == ([], "all buckets with work are leased or asked for: b001")


def test_a_tick_with_nothing_due_says_until_when(empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path):
    later = datetime.now(UTC) + timedelta(days=2)
    finish(empty_lake, 1, next_due_at=later)

    assert tick(empty_lake, instance, tmp_path).skipped == f"nothing due until {later:%F %T} UTC"


@pytest.mark.parametrize(("status", "spans"), [
    (dg.DagsterRunStatus.STARTING, [("b003", "b003")]),
    (dg.DagsterRunStatus.STARTED, [("b001", "b001"), ("b003", "b003")]),
])  # fmt: skip
def test_buckets_of_a_run_are_left_out_until_it_has_started_and_then_its_lease_decides(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path, status: dg.DagsterRunStatus,
    spans: list[tuple[str, str]],
):  # fmt: skip
    finish(empty_lake, 1, due_count=3)
    finish(empty_lake, 3, due_count=3)
    job = load(empty_lake, tmp_path).resolve_job_def(JOB)
    instance.create_run_for_job(job, status=status, tags={"dagster/partition": "b001"})

    assert tick(empty_lake, instance, tmp_path).spans == spans


def test_the_same_state_is_asked_for_under_the_same_key_and_a_newer_round_under_another(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    def keys() -> list[str | None]:
        return [run.run_key for run in tick(empty_lake, instance, tmp_path).runs]

    finish(empty_lake, 1, due_count=3)
    first = keys()
    again = keys()
    finish(empty_lake, 1, due_count=3)

    assert first == again != keys()


def test_the_schedule_asks_as_the_sensor_does(empty_lake: Lake, tmp_path: Path):
    finish(empty_lake, 1, due_count=3)
    defs = load(empty_lake, tmp_path)
    given = {name: (defs.resources or {})[name] for name in ("lake", "runs")}
    now = datetime.now(UTC)

    with (
        instance_at(tmp_path / "home") as instance,
        dg.build_schedule_context(
            instance=instance, repository_def=defs.get_repository_def(), resources=given, scheduled_execution_time=now
        ) as context,
    ):
        asked = defs.resolve_schedule_def(SCHEDULE).evaluate_tick(context)

    assert Asked(list(asked.run_requests or []), None).spans == [("b001", "b001")]


def test_every_asked_run_can_be_made(empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path):
    finish(empty_lake, 0, due_count=3)
    finish(empty_lake, 3, due_count=3)
    job = load(empty_lake, tmp_path).resolve_job_def(JOB)

    for asked in tick(empty_lake, instance, tmp_path).runs:
        assert instance.create_run_for_job(job, run_config=asked.run_config, tags=asked.tags).job_name == JOB
