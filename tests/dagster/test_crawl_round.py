"""Materialising `crawl_round` against a web on loopback, with a real lake."""

import os
import signal
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
from conftest import BUCKETS, NAMES, Crawl, load

from crawl_pipeline.assets import partitions
from crawl_pipeline.assets.rounds import WRITTEN
from crawl_pipeline.definitions import materialize
from crawl_pipeline.rounds import Done

ALL = partitions.tags(0, BUCKETS - 1)


def numbers(result: dg.ExecuteInProcessResult) -> dict[tuple[str, str], dict[str, object]]:
    """Metadata by table and partition."""
    events = [event for event in result.all_events if event.is_step_materialization]
    return {
        (event.asset_key.to_user_string(), str(event.partition)): {
            name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
        }
        for event in events
        if event.asset_key
    }


def test_one_bucket_is_materialised_with_its_numbers(crawl: Crawl, instance: dg.DagsterInstance):
    bucket = crawl.bucket(NAMES[0])
    hosts = [name for name in NAMES if crawl.bucket(name) == bucket]

    result = crawl.run(instance, partition_key=partitions.key(bucket))

    assert result.success, failure(result)
    told = numbers(result)
    assert set(told) == {(table, partitions.key(bucket)) for table in WRITTEN}
    of = {table: told[table, partitions.key(bucket)] for table in WRITTEN}
    assert of["pages"]["rows"] == 4 * len(hosts)
    assert of["fetches"]["rows"] == 5 * len(hosts)
    assert of["fetches"]["outcome: fetched"] == of["fetches"]["selected"] == 4 * len(hosts)
    assert of["robots"]["rows"] == of["hosts"]["known"] == len(hosts)
    assert of["frontier"]["dagster/partition_row_count"] == 4 * len(hosts)
    assert of["fetches"]["politeness_margin_s"] >= 0
    assert {row.host for row in crawl.served.rows()} == set(hosts)


def test_one_run_over_all_buckets_reports_each_and_passes_its_checks(crawl: Crawl, instance: dg.DagsterInstance):
    result = crawl.run(instance, tags=ALL)

    assert result.success
    told = numbers(result)
    assert set(told) == {(table, partitions.key(bucket)) for table in WRITTEN for bucket in range(BUCKETS)}
    assert sum(int(str(told["pages", partitions.key(b)]["rows"])) for b in range(BUCKETS)) == 4 * len(NAMES)
    assert {check.check_name: check.passed for check in result.get_asset_check_evaluations()} == {
        "accounts": True,
        "manners": True,
    }
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags["crawl/rounds"].startswith("1-")
    assert set(instance.get_materialized_partitions(dg.AssetKey("pages"))) == set(map(partitions.key, range(BUCKETS)))


def test_a_held_bucket_fails_the_run_by_name_and_the_others_are_done(crawl: Crawl, instance: dg.DagsterInstance):
    crawl.lake.claim([2], "somebody else", datetime.now(UTC), 300.0)

    result = crawl.run(instance, tags=ALL)

    assert not result.success
    assert "found b002 held by another worker" in str(failure(result))
    assert {partition for _, partition in numbers(result)} == {"b000", "b001", "b003"}
    assert crawl.lake.scan("rounds", buckets=[2]).collect().is_empty()


def test_a_run_whose_only_bucket_is_held_says_by_whom_and_until_when(crawl: Crawl, instance: dg.DagsterInstance):
    crawl.lake.claim([2], "somebody else", datetime.now(UTC), 300.0)

    result = crawl.run(instance, partition_key="b002")

    assert "found 2 held by 'somebody else' until" in str(failure(result))
    assert numbers(result) == {}


def test_partitions_that_are_not_the_lake_s_buckets_are_refused(crawl: Crawl, instance: dg.DagsterInstance):
    other = Crawl(crawl.lake, crawl.policy_path, load(crawl.lake, crawl.policy_path, 8), crawl.served)

    result = other.run(instance, partition_key="b000")

    assert f"set CRAWL_BUCKETS={BUCKETS}" in str(failure(result))


def test_a_missing_policy_is_named(crawl: Crawl, instance: dg.DagsterInstance):
    crawl.policy_path.unlink()

    result = crawl.run(instance, partition_key="b000")

    assert f"expected a policy at {crawl.policy_path}" in str(failure(result))


def test_a_terminated_run_commits_reports_and_gives_its_lease_back(crawl: Crawl, instance: dg.DagsterInstance):
    def interrupt(done: Done) -> None:
        if done.rows["page_count"].sum():
            instance.report_run_canceling(instance.get_runs()[0])
            os.kill(os.getpid(), signal.SIGINT)

    told = Crawl(crawl.lake, crawl.policy_path, load(crawl.lake, crawl.policy_path, tell=interrupt), crawl.served)
    with suppress(dg.DagsterExecutionInterruptedError):
        told.run(instance, seconds=60.0, tags=ALL)

    run = instance.get_runs()[0]
    assert run.status is dg.DagsterRunStatus.CANCELED  # where nobody asked for it, it is a failure, to be retried
    assert instance.get_materialized_partitions(dg.AssetKey("rounds"))
    assert crawl.lake.leases()["released"].all()


def test_a_crawl_in_process_leaves_its_run_in_the_home_and_tells_of_each_round(
    crawl: Crawl, tmp_path: Path, capfd: object
):
    heard: list[int] = []
    result = materialize(
        crawl.lake.root, str(crawl.policy_path), BUCKETS, 6.0, tmp_path / "home", lambda done: heard.append(done.round)
    )

    assert result.success
    assert heard == sorted(set(crawl.lake.scan("rounds").collect()["round"]))
    assert capfd.readouterr().err == ""  # type: ignore[attr-defined]
    with dg.DagsterInstance.from_config(str(tmp_path / "home")) as instance:
        assert [run.run_id for run in instance.get_runs()] == [result.run_id]


def test_reports_are_tables_and_promises_are_kept_after_a_crawl(crawl: Crawl, instance: dg.DagsterInstance):
    crawl.run(instance, tags=ALL)

    result = crawl.defs.resolve_job_def("reports_job").execute_in_process(instance=instance)

    assert result.asset_materializations_for_node("host_coverage")[0].metadata["dagster/row_count"].value == len(NAMES)
    broken = {check.check_name: check.description for check in result.get_asset_check_evaluations() if not check.passed}
    assert broken == {}
    drawn = {
        name: value.value for report in ("crawl_progress", "politeness_margins", "host_coverage")
        for name, value in result.asset_materializations_for_node(report)[0].metadata.items() if "picture" in name
    }  # fmt: skip
    assert set(drawn) == {"picture: funnel", "picture: pages per round", "picture: politeness margin",
                          "picture: host balance"}  # fmt: skip
    assert all(picture.startswith("![") and "](data:image/png;base64," in picture for picture in drawn.values())
    assert max(map(len, drawn.values())) < 60_000


def failure(result: dg.ExecuteInProcessResult) -> object:
    error = result.failure_data_for_node("crawl_round").error
    return error and error.to_string()
