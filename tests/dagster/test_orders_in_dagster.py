"""What people order through Dagster's jobs is what the lake keeps, and what is wrong says what to correct."""

from pathlib import Path

import dagster as dg
import pytest
from conftest import load

from crawl_pipeline.lake import Lake


def run(lake: Lake, instance: dg.DagsterInstance, op: str, **config: object) -> dg.ExecuteInProcessResult:
    defs = load(lake, Path(lake.root) / "policy.toml")
    return defs.resolve_job_def(f"{op}_job").execute_in_process(
        instance=instance, raise_on_error=False,
        run_config={"ops": {op: {"config": config}}, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )  # fmt: skip


def test_seeds_pauses_and_what_is_to_be_forgotten_become_orders(empty_lake: Lake, instance: dg.DagsterInstance):
    seeded = run(
        empty_lake, instance, "seed", urls=["http://a.test", "http://b.test/x"], tag="news", region="fi", band=2
    )
    assert seeded.success
    assert run(empty_lake, instance, "pause", hosts=["a.test"], by="Ann").success
    assert run(empty_lake, instance, "resume", hosts=["a.test"]).success
    assert run(empty_lake, instance, "revisit", hosts=["b.test"]).success
    assert run(empty_lake, instance, "forget", sites=["c.test"], urls=["http://b.test/x"]).success

    given = empty_lake.scan("orders").collect().sort("order")
    assert given.select("kind", "url", "host", "site", "tag", "region", "band").rows() == [
        ("seed", "http://a.test/", "a.test", None, "news", "fi", 2),
        ("seed", "http://b.test/x", "b.test", None, "news", "fi", 2),
        ("pause", None, "a.test", None, None, None, None),
        ("resume", None, "a.test", None, None, None, None),
        ("recrawl", None, "b.test", None, None, None, None),
        ("forget", "http://b.test/x", "b.test", None, None, None, None),
        ("forget", None, None, "c.test", None, None, None),
    ]
    assert given["ordered_by"][2] == "Ann"
    assert given["ordered_by"][0] == f"Dagster run {seeded.run_id[:8]}"
    told = instance.get_latest_materialization_event(dg.AssetKey("orders"))
    assert told is not None
    assert told.asset_materialization is not None
    assert told.asset_materialization.metadata["kind"].value == "forget"


@pytest.mark.parametrize(("op", "config", "said"), [
    ("seed", {"urls": ["mailto:a@b.test"]}, "so nothing was ordered"),
    ("seed", {"urls": ["http://a.test/"], "topic": "news"}, "give --tag NAME"),
    ("pause", {"hosts": ["nobody.test"]}, "no such host is known here"),
    ("forget", {"sites": ["www.a.test"]}, "expected a site"),
    ("forget", {}, "fill in one of its lists"),
])  # fmt: skip
def test_a_wrong_order_fails_its_run_with_what_to_correct(
    empty_lake: Lake, instance: dg.DagsterInstance, op: str, config: dict[str, object], said: str
):
    result = run(empty_lake, instance, op, **config)

    assert not result.success
    assert said in str(result.failure_data_for_node(op))
    assert empty_lake.scan("orders").collect().is_empty()
