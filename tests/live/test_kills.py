"""Workers that are killed at any moment: what the lake holds afterwards, and what the hosts saw.

The web is a real server with its own access log, the workers are real processes, the kill is SIGKILL.
"""

import random
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crawl_pipeline import corpus, reports
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import access_log
from crawl_pipeline.testing.truth import truth
from tests.effort import times
from tests.live import small_web

KILLS = times(4, 20)


def test_kills_lose_nothing_double_nothing_and_are_never_impolite(tmp_path: Path) -> None:
    """After SIGKILL at random moments every page is stored once, no lease outlives its deadline, no host was rushed."""
    with small_web.serving(tmp_path) as web:
        root = small_web.prepared(web, tmp_path)
        kill_workers(root)
        finish(root)

    lake = Lake.open(str(root))
    stored = corpus.query(lake, "select url, count(*) as n from pages group by url")
    assert set(stored["url"]) == truth(web.web).pages
    assert stored["n"].max() == 1
    assert [result.name for result in reports.run_tests(lake) if not result.holds] == []
    small_web.assert_polite(access_log.rows(tmp_path / "access.log"))


def kill_workers(root: Path) -> None:
    """Start workers and kill them at random moments; those that end by themselves do not count."""
    moments = random.Random(20)
    killed = 0
    while killed < KILLS:
        process = worker(root)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=moments.uniform(0.3, 2.5))
        if process.poll() is None:
            process.kill()
            process.wait()
            killed += 1
        assert_no_lease_is_stuck(root)


def worker(root: Path) -> subprocess.Popen[bytes]:
    """Start `crawl run` in a process of its own."""
    command = [sys.executable, "-m", "crawl_pipeline", "--lake", str(root), "run", "--minutes", "1"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def finish(root: Path) -> None:
    """Let workers run undisturbed until one of them has nothing left to do."""
    for _ in range(20):
        process = worker(root)
        if process.wait(timeout=120) == 0:
            return
        with suppress(subprocess.TimeoutExpired):  # a lease of a killed worker is still held
            subprocess.run(["sleep", "60"], timeout=small_web.LEASE_S / 2, check=False)
    pytest.fail("no worker could take the buckets over")


def assert_no_lease_is_stuck(root: Path) -> None:
    """A lease never reaches further into the future than a lease lasts."""
    held = Lake.open(str(root)).leases().drop_nulls("deadline_at")
    if held.height:
        assert held["deadline_at"].max() <= datetime.now(UTC) + timedelta(seconds=small_web.LEASE_S)
