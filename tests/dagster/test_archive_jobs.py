"""Erasure and export as Dagster jobs do what the commands do."""

from pathlib import Path

import dagster as dg
from conftest import load

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake


def run(lake: Lake, instance: dg.DagsterInstance, op: str, **config: object) -> dg.ExecuteInProcessResult:
    defs = load(lake, Path(lake.root) / "policy.toml")
    return defs.resolve_job_def(f"{op}_job").execute_in_process(
        instance=instance, raise_on_error=False,
        run_config={"ops": {op: {"config": config}}, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )  # fmt: skip


def test_what_was_ordered_to_be_forgotten_is_erased_and_proved_by_a_job(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: Path
):
    policy = Policy.model_validate({"agent": {"name": "Bot", "contact": "http://bot.test/"}})
    (Path(empty_lake.root) / "policy.toml").write_text(policies.render(policy))
    assert run(empty_lake, instance, "forget", hosts=["owner.test"]).success
    assert run(empty_lake, instance, "erase", wait_s=0).success
    assert empty_lake.scan("erasures").collect()["left_count"].unique().to_list() == [0]
    assert run(empty_lake, instance, "warc", folder=str(tmp_path / "out")).success
    assert not run(empty_lake, instance, "warc", folder=str(tmp_path / "out"), since="yesterday").success
