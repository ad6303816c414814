"""The instances for a fleet are ones that Dagster takes, as far as that can be told without a fleet."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from dagster._config import validate_config
from dagster._core.instance.config import dagster_instance_config_schema

from crawl_pipeline.resources.instance import SHIPPED

DEPLOY = Path(__file__).parents[2] / "deploy"
FLEETS = ("fleet-k8s.yaml", "fleet-ecs.yaml")


def read(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("name", FLEETS)
def test_a_fleet_s_instance_has_the_form_of_one_and_guards_runs_as_the_laptop_s_does(name: str):
    fleet, laptop = read(name), yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))

    checked = validate_config(dagster_instance_config_schema(), {key: fleet[key] for key in fleet if key != "storage"})

    assert checked.success, checked.errors
    assert not fleet["telemetry"]["enabled"]
    assert set(fleet["storage"]) == {"postgres"}
    assert (
        fleet["concurrency"]["runs"]["tag_concurrency_limits"]
        == (laptop["concurrency"]["runs"]["tag_concurrency_limits"])
    )
    assert fleet["run_retries"] == laptop["run_retries"]
    assert fleet["run_monitoring"]["free_slots_after_run_end_seconds"] == 60


@pytest.mark.parametrize("name", FLEETS)
def test_secrets_and_places_come_from_the_environment(name: str):
    database = read(name)["storage"]["postgres"]["postgres_db"]

    assert {database[key]["env"] for key in ("hostname", "username", "password", "db_name")} == {
        "DAGSTER_PG_HOST", "DAGSTER_PG_USER", "DAGSTER_PG_PASSWORD", "DAGSTER_PG_DB",
    }  # fmt: skip
    assert not any(key in (DEPLOY / name).read_text(encoding="utf-8") for key in ("AWS_SECRET", "AWS_ACCESS"))


def test_the_ecs_launcher_and_the_log_store_take_their_config(monkeypatch: pytest.MonkeyPatch):
    from dagster_aws.ecs import EcsRunLauncher  # noqa: PLC0415 (boto3 is slow to import)
    from dagster_aws.s3.compute_log_manager import S3ComputeLogManager  # noqa: PLC0415

    monkeypatch.setenv("CRAWL_TASK_DEFINITION", "crawl:1")
    monkeypatch.setenv("CRAWL_LOGS_BUCKET", "logs")
    fleet = read("fleet-ecs.yaml")

    for part, taken_by in (("run_launcher", EcsRunLauncher), ("compute_logs", S3ComputeLogManager)):
        assert fleet[part]["class"] == taken_by.__name__
        checked = validate_config(taken_by.config_type(), fleet[part]["config"])
        assert checked.success, checked.errors


def test_on_kubernetes_dagster_alone_starts_a_run_again():
    config = read("fleet-k8s.yaml")["run_launcher"]["config"]["run_k8s_config"]

    assert config["job_spec_config"]["backoff_limit"] == 0
    assert config["pod_spec_config"]["termination_grace_period_seconds"] >= 60
