"""Recrawls of buckets as Dagster runs them: modes, backfills, retries, and the sensor that asks for them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
from conftest import BUCKETS, NAMES, Crawl, load, policy_for

from crawl_pipeline.assets import partitions, recrawl
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.tables import FRONTIER, HOSTS, ROUNDS
from crawl_pipeline.lake import Lake
from crawl_pipeline.resources.instance import instance_at

ALL = partitions.tags(0, BUCKETS - 1)


def again(crawl: Crawl, instance: dg.DagsterInstance, config: dict[str, object], **how: object):
    return crawl.defs.resolve_job_def("recrawl_job").execute_in_process(
        instance=instance, raise_on_error=False,
        run_config={"ops": {"recrawl": {"config": {"seconds": 20.0, **config}}},
                    "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        **how,
    )  # type: ignore[arg-type]  # fmt: skip


def pages(crawl: Crawl, path: str | None = None) -> int:
    """Requests that the web has seen, robots.txt left out."""
    return sum(row.path != "/robots.txt" and path in (None, row.path) for row in crawl.served.rows())


def recrawls(crawl: Crawl) -> pl.DataFrame:
    return crawl.lake.scan("orders").collect().filter(kind="recrawl")


def told(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, object]]:
    """What was said of each bucket."""
    events = [event for event in result.all_events if event.is_step_materialization]
    return {
        str(event.partition): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in events if event.asset_key == dg.AssetKey("recrawl")
    }  # fmt: skip


def test_buckets_are_recrawled_by_mode_and_nothing_is_visited_twice_for_one_wish(
    crawl: Crawl, instance: dg.DagsterInstance
):
    crawl.run(instance, seconds=60.0, tags=ALL)
    seen = pages(crawl)
    assert seen == 4 * len(NAMES)
    bucket = crawl.bucket(NAMES[0])
    key, mine = partitions.key(bucket), 4 * sum(crawl.bucket(name) == bucket for name in NAMES)

    # All of one bucket, which somebody else holds at first; the retry carries the same wish out.
    lease = crawl.lake.claim([bucket], "somebody else", datetime.now(UTC), 300.0)
    failed = again(crawl, instance, {"mode": "all"}, partition_key=key)
    crawl.lake.release(lease)
    orders = recrawls(crawl)
    repeated = {"dagster/root_run_id": failed.run_id, "dagster/parent_run_id": failed.run_id}
    retried = again(crawl, instance, {"mode": "all"}, partition_key=key, tags=repeated)

    assert (failed.success, retried.success) == (False, True)
    assert told(retried)[key] | {"wish": ""} == {"wished_for": mine, "visited": mine, "left": 0, "wish": ""}
    assert pages(crawl) == seen + mine
    assert {check.check_name: check.passed for check in retried.get_asset_check_evaluations()} == {
        "accounts": True, "manners": True, "all_visited": True,
    }  # fmt: skip
    assert orders["ordered_by"].to_list() == [f"Dagster run {failed.run_id[:8]}"]
    assert recrawls(crawl).equals(orders)
    run = instance.get_run_by_id(retried.run_id)
    assert run is not None
    assert run.tags["crawl/mode"] == "all"
    assert instance.get_materialized_partitions(dg.AssetKey("recrawl")) == {key}
    assert again(crawl, instance, {"mode": "all"}, partition_key=key, tags=repeated).success
    assert pages(crawl) == seen + mine

    # A page of each host, by its URL; what is not old enough, or not due, is left alone.
    by_pattern = again(crawl, instance, {"mode": "pattern", "pattern": "*/1"}, tags=ALL)
    assert sum(int(str(each["visited"])) for each in told(by_pattern).values()) == len(NAMES)
    assert pages(crawl) == seen + mine + len(NAMES)
    nothing = again(crawl, instance, {"mode": "older_than", "days": 1.0}, tags=ALL)
    assert {each["wished_for"] for each in told(nothing).values()} == {0}
    assert pages(crawl) == seen + mine + len(NAMES)

    # Too little time: the check warns and says what to do.
    slow = policy_for(crawl.served.hosts).model_dump() | {"politeness": {"delay_s": 20.0}}
    crawl.policy_path.write_text(policies.render(policies.Policy.model_validate(slow)), encoding="utf-8")
    short = again(crawl, instance, {"mode": "all", "seconds": 2.0}, partition_key=key)
    check = next(each for each in short.get_asset_check_evaluations() if each.check_name == "all_visited")
    assert (short.success, check.passed, check.severity) == (True, False, dg.AssetCheckSeverity.WARN)
    assert "To do: nothing, since they are due" in str(check.description)
    assert check.metadata["left"].value == told(short)[key]["left"]


def test_all_runs_of_a_backfill_and_of_its_repetition_are_of_one_wish(tmp_path: Path):
    from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill  # noqa: PLC0415

    with instance_at(tmp_path / "home") as instance:
        made = 1_700_000_000.25
        for name, tags in (("first", {}), ("again", {"dagster/root_backfill_id": "first"})):
            instance.add_backfill(PartitionBackfill(
                name, status=BulkActionStatus.REQUESTED, from_failure=False, tags=tags, backfill_timestamp=made,
                partition_names=["b001"],
            ))  # fmt: skip
            made += 3_600
        runs = [
            dg.DagsterRun("recrawl_job", tags={"dagster/backfill": "first"}),
            dg.DagsterRun("recrawl_job", tags={"dagster/backfill": "again", "dagster/root_backfill_id": "first"}),
        ]

        assert {recrawl.made_at(instance, run) for run in runs} == {datetime.fromtimestamp(1_700_000_000.25, UTC)}


def test_the_sensor_asks_for_the_buckets_whose_due_pages_are_worth_most(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    (tmp_path / "policy.toml").write_text(policies.render(policy_for({})), encoding="utf-8")
    path = tmp_path / "policy.toml"
    assert "no known page is due" in str(tick(empty_lake, instance, path).skip_message)
    for bucket, (due, score, paused) in enumerate([(6, 1.0, False), (6, 0.01, False), (5, 1.0, False), (9, 1.0, True)]):
        visited(empty_lake, bucket, due=due, score=score, paused=paused)

    asked = tick(empty_lake, instance, path)

    runs = asked.run_requests or []
    assert sorted((run.partition_key, run.tags["crawl/work"]) for run in runs) == [("b000", "6"), ("b002", "5")]
    assert runs[0].run_config == {"ops": {"recrawl": {"config": {"mode": "due", "seconds": 5.0}}}}
    assert {run.tags["crawl/mode"] for run in runs} == {"due"}
    job = load(empty_lake, path).resolve_job_def("recrawl_job")
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTING, run_config=runs[0].run_config,
                                tags={"dagster/partition": "b000"})  # fmt: skip
    empty_lake.claim([2], "somebody else", datetime.now(UTC), 300.0)
    assert [run.partition_key for run in tick(empty_lake, instance, path).run_requests or []] == ["b001"]


def tick(lake: Lake, instance: dg.DagsterInstance, path: Path) -> Any:
    defs = load(lake, path)
    given = {name: (defs.resources or {})[name] for name in ("lake", "policy", "runs")}
    context = dg.build_sensor_context(instance=instance, definitions=defs, resources=given)
    return defs.resolve_sensor_def("buckets_worth_a_visit").evaluate_tick(context)


def visited(lake: Lake, bucket: int, *, due: int, score: float, paused: bool) -> None:
    """Commit a round of a bucket that has so many pages due, each of a host of its own."""
    now = datetime.now(UTC)
    lease = lake.claim([bucket], "a worker", now, 60.0)
    hosts = [f"h{bucket}-{page}.test" for page in range(due)]
    frontier = [
        {"bucket": bucket, "layout": 0, "part": 0, "url": f"http://{host}/", "url_hash": 100 * bucket + n,
         "host": host, "status": "fetched", "outcome": "fetched", "band": 1, "score": score, "depth": 0, "hops": 0,
         "kind": "link", "found_at": now, "due_at": now - timedelta(hours=1), "attempts": 0, "evidence_a": 3.0,
         "evidence_b": 5.0, "visited_at": now - timedelta(days=10)}
        for n, host in enumerate(hosts)
    ]  # fmt: skip
    known = [
        {"bucket": bucket, "layout": 0, "host": host, "site": host, "seeded": False, "paused": paused,
         "known_count": 1, "parked_count": 0, "fetched_count": 1, "day_count": 0, "backoff_s": 0.0, "aside_s": 0.0,
         "calm_count": 0, "failures": 0, "found_at": now}
        for host in hosts
    ]  # fmt: skip
    lake.write(lease, "frontier", FRONTIER.frame(frontier).drop("round", "layer"))
    lake.write(lease, "hosts", HOSTS.frame(known).drop("round", "layer"))
    lake.commit(
        lease,
        ROUNDS.frame(
            [
                {
                    "bucket": bucket,
                    "ended_at": now,
                    "due_count": due,
                    "left_out": [],
                    "links_seen": [0] * 4,
                    "links_to": [0] * 4,
                    "orders_seen": 0,
                }
            ]
        ).drop("round"),
    )
    lake.release(lease)
