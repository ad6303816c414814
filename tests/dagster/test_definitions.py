"""What Dagster loads."""

import subprocess
import sys
from pathlib import Path

import dagster as dg
import yaml

from crawl_pipeline import reports
from crawl_pipeline.assets import duplicates, ranks, rounds
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.definitions import defs
from crawl_pipeline.resources.instance import SHIPPED, instance_at
from crawl_pipeline.resources.lake import storage_options

ROOT = Path(__file__).parents[2]


def test_all_definitions_are_loadable_and_free_of_cycles():
    dg.Definitions.validate_loadable(defs)


def test_every_table_of_a_round_is_an_asset_with_its_columns():
    for name in rounds.WRITTEN:
        shown = defs.resolve_assets_def(name).metadata_by_key[dg.AssetKey(name)]["dagster/column_schema"].value

        assert [column.name for column in shown.columns] == list(TABLES[name].column_names)
        assert all(column.description for column in shown.columns)


def test_every_table_that_rounds_write_is_an_asset_of_the_round():
    others = {"orders": "people write it", "leases": "it says who may write",
              "module_tables": "it names tables of modules", "module_failures": "most lakes have none",
              "erasures": "erasures and retention write it",
              **dict.fromkeys((*duplicates.WRITTEN, *ranks.WRITTEN), "derived from all buckets")}  # fmt: skip

    assert set(rounds.WRITTEN) == set(TABLES) - set(others)


def test_every_model_is_an_asset_and_every_test_a_check():
    graph = defs.resolve_asset_graph()

    assert {dg.AssetKey(model.name) for model in reports.models()} <= graph.get_all_asset_keys()
    assert {test.name for test in reports.tests()} <= {key.name for key in graph.asset_check_keys}


def test_the_round_job_runs_its_own_checks_and_not_those_over_the_whole_lake():
    assert [node.name for node in defs.resolve_job_def("crawl_round_job").nodes] == ["crawl_round"]


def test_steps_run_in_the_run_s_own_process_in_backfills_too():
    assert defs.executor is dg.in_process_executor


def test_nothing_starts_by_itself():
    assert {sensor.default_status.value for sensor in defs.sensors or ()} == {"STOPPED"}
    assert {schedule.default_status.value for schedule in defs.schedules or ()} == {"STOPPED"}


def test_loading_the_definitions_needs_neither_the_fetcher_nor_delta():
    heavy = "{'trio', 'httpx', 'deltalake', 'boto3'}"
    code = f"import crawl_pipeline.definitions, sys; print(*sorted({heavy} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "\n"


def test_the_workspace_loads_the_definitions_module():
    loaded = yaml.safe_load((ROOT / "workspace.yaml").read_text())

    assert loaded == {"load_from": [{"python_module": "crawl_pipeline.definitions"}]}


def test_the_shipped_instance_is_the_one_in_deploy():
    assert (ROOT / "deploy" / "dagster.yaml").read_text() == SHIPPED.read_text()


def test_the_instance_keeps_to_itself_and_lets_one_run_at_a_bucket(tmp_path: Path):
    with instance_at(tmp_path) as instance:
        queue = instance.get_concurrency_config().run_queue_config

        assert not instance.telemetry_enabled
        assert queue is not None
        assert queue.max_concurrent_runs == 2
        assert queue.tag_concurrency_limits == [
            {"key": "dagster/partition", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
        ]


def test_the_instance_gives_back_what_a_killed_run_held(tmp_path: Path):
    with instance_at(tmp_path) as instance:
        assert instance.run_monitoring_enabled
        assert instance.run_monitoring_max_runtime_seconds == 6 * 3600
        assert instance.get_settings("run_monitoring")["free_slots_after_run_end_seconds"] == 60
        assert instance.run_retries_enabled
        assert instance.run_retries_max_retries == 2
        assert not instance.run_retries_retry_on_asset_or_op_failure


def test_a_folder_s_own_instance_file_is_left_alone(tmp_path: Path):
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")

    with instance_at(tmp_path):
        assert (tmp_path / "dagster.yaml").read_text() == "telemetry: {enabled: false}\n"


def test_s3_settings_come_in_the_words_of_the_object_store():
    from dagster_aws.s3 import S3Resource  # noqa: PLC0415 (boto3 is slow to import)

    s3 = S3Resource(region_name="eu-north-1", endpoint_url="http://store.test:8333", aws_access_key_id="k",
                    aws_secret_access_key="s")  # fmt: skip

    assert storage_options(s3) == {
        "AWS_REGION": "eu-north-1", "AWS_ENDPOINT_URL": "http://store.test:8333", "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
    }  # fmt: skip
    assert storage_options(S3Resource()) == {}
