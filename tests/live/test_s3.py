"""A lake in S3: a real server on loopback, whose conditional writes decide who may commit."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier

import pytest

from crawl_pipeline.lake import Lake, LeaseHeld
from crawl_pipeline.testing import access_log
from tests.live import object_store, small_web

WRITERS = 4


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """What the environment must say to use the store."""
    with object_store.serving(tmp_path_factory.mktemp("store")) as settings:
        yield settings


def test_of_several_who_claim_buckets_of_a_lake_in_s3_at_once_one_gets_them(store: Mapping[str, str]) -> None:
    Lake.create("s3://crawl/claimed", 2, store)
    lakes = [Lake.open("s3://crawl/claimed", store) for _ in range(WRITERS)]
    ready = Barrier(WRITERS)

    def claim(lake: Lake) -> bool:
        ready.wait()
        try:
            lake.claim([0, 1], "a writer", datetime.now(UTC), 600)
        except LeaseHeld:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        assert sorted(pool.map(claim, lakes)) == [False] * (WRITERS - 1) + [True]


def test_a_lake_in_s3_is_made_crawled_audited_read_and_erased_from(store: Mapping[str, str], tmp_path: Path) -> None:
    with small_web.serving(tmp_path) as web:
        (tmp_path / "policy.toml").write_text(small_web.policy(web))
        crawl = Commands(store, tmp_path)
        crawl("init", "--buckets", "2")
        crawl("seed", *web.web.seeds)
        crawl("run", "--minutes", "0.1")
    asked = access_log.rows(tmp_path / "access.log")
    seen = {(row.host, row.path) for row in asked if row.path != "/robots.txt"}

    small_web.assert_polite(asked)
    assert len(seen) > 40
    assert crawl.count("from pages") == len(seen)
    crawl("audit")
    crawl("forget", "--host", small_web.HOSTS[0])
    crawl("erase", "--wait", "30")  # fails unless no file of the bucket holds a byte of it
    assert crawl.count("from pages") == sum(host != small_web.HOSTS[0] for host, _ in seen)


class Commands:
    """The command line, on the lake in the store."""

    def __init__(self, store: Mapping[str, str], folder: Path) -> None:
        own = {"CRAWL_LAKE": "s3://crawl/lake", "CRAWL_POLICY": str(folder / "policy.toml")}
        self.environment = {**os.environ, **store, **own, "CRAWL_CACHES": str(folder / "caches")}
        self.folder = folder

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "crawl_pipeline", *words],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def count(self, rows: str) -> int:
        """How many rows there are, by DuckDB."""
        return int(self("sql", "--csv", f"select count(*) as n {rows}").split()[1])
