"""A small web on loopback, a lake seeded with it, and the definitions that crawl it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from crawl_pipeline.assets.working import Tell, nobody
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import ORDERS
from crawl_pipeline.definitions import definitions
from crawl_pipeline.lake import Lake
from crawl_pipeline.resources.lake import LakeResource
from crawl_pipeline.resources.policy import PolicyResource
from crawl_pipeline.resources.runs import RunsResource
from crawl_pipeline.testing.loopback_web import Served, serving
from crawl_pipeline.testing.sites import Web, site

BUCKETS = 4
NAMES = tuple(f"{name}.test" for name in ("ant", "bee", "cow", "dog", "elk", "fox"))


@dataclass(frozen=True, slots=True)
class Crawl:
    """A lake that was told of a web, its policy's file, and what Dagster loads for both."""

    lake: Lake
    policy_path: Path
    defs: dg.Definitions
    served: Served

    def bucket(self, host: str) -> int:
        return urls.bucket(urls.site(host), self.lake.buckets)

    def run(self, instance: dg.DagsterInstance, seconds: float = 6.0, **how: object) -> dg.ExecuteInProcessResult:
        return self.defs.resolve_job_def("crawl_round_job").execute_in_process(
            instance=instance, raise_on_error=False,
            run_config={"ops": {"crawl_round": {"config": {"seconds": seconds}}},
                        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            **how,
        )  # type: ignore[arg-type]  # fmt: skip


def seed(lake: Lake, seeds: list[str]) -> None:
    now = datetime.now(UTC)
    lake.give(ORDERS.frame([{"ordered_at": now, "kind": "seed", "url": url, "host": urls.host(url)} for url in seeds]))


def load(lake: Lake, policy_path: Path, buckets: int = BUCKETS, tell: Tell = nobody) -> dg.Definitions:
    where, rules = LakeResource(root=lake.root), PolicyResource(path=str(policy_path))
    return definitions(buckets, where, rules, RunsResource(seconds=5.0), tell)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral(settings={"telemetry": {"enabled": False}}) as own:
        yield own


@pytest.fixture
def empty_lake(tmp_path: Path) -> Lake:
    return Lake.create(str(tmp_path / "lake"), BUCKETS)


@pytest.fixture
def crawl(tmp_path: Path, empty_lake: Lake) -> Iterator[Crawl]:
    web = Web(hosts=tuple(site(name, pages=4) for name in NAMES), entries=tuple((name, "/") for name in NAMES))
    with serving(web, log=tmp_path / "access.log") as served:
        policy_path = tmp_path / "policy.toml"
        policy_path.write_text(policies.render(policy_for(served.hosts)), encoding="utf-8")
        seed(empty_lake, served.web.seeds)
        yield Crawl(empty_lake, policy_path, load(empty_lake, policy_path), served)


def policy_for(hosts: Mapping[str, list[str]]) -> policies.Policy:
    """A policy for a web on loopback, quick for tests and otherwise as shipped."""
    return policies.Policy.model_validate(
        {
            "agent": {"name": "TestCrawler", "contact": "https://crawler.test/about"},
            "politeness": {"delay_s": 0.02, "download_factor": 1.0},
            "round": {"shortest_s": 0.5, "seconds": 5.0},
            "resolver": {"hosts": dict(hosts)},
            "addresses": {"allow": ["127.0.0.0/8"]},
            "parse": {"processes": 1},
        }
    )
