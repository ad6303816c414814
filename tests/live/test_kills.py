"""Workers that are killed at any moment: what the lake holds afterwards, and what the hosts saw.

The web is a real server with its own access log, the workers are real processes, the kill is SIGKILL.
"""

import random
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from crawl_pipeline import corpus, seeding
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import Host, Web, access_log, loopback_web, site
from crawl_pipeline.testing.sites import html, prose
from crawl_pipeline.testing.truth import truth

KILLS = 20
DELAY_S = 0.05
LEASE_S = 2.0
HOSTS = [f"h{n}.test" for n in range(8)]

POLICY = """
[agent]
name = "KilledBot"
contact = "http://bot.test/"
[round]
seconds = 0.5
shortest_s = 0.1
lease_s = {lease_s}
[fetch]
total_s = 0.5
[parse]
processes = 1
[politeness]
delay_s = {delay_s}
[scope]
follow = "everywhere"
[addresses]
allow = ["127.0.0.0/8"]
[resolver.hosts]
{hosts}
"""


def host(name: str, following: str) -> Host:
    """Forty pages in a chain of indexes; the first one links to the next host, so that links cross buckets."""
    paths = ["/", *(f"/{n}" for n in range(1, 40))]
    pages = {path: html(path, paths[n + 1 : n + 8], prose(f"{name}{path}")) for n, path in enumerate(paths)}
    pages["/"] = lambda request: html("index", [*paths[1:8], request.link(following, "/")], prose(name))
    return site(name, pages=pages)


@pytest.fixture
def web(tmp_path: Path):
    """Eight hosts of forty pages, of which only the first is a seed."""
    hosts = tuple(host(name, following) for name, following in zip(HOSTS, [*HOSTS[1:], HOSTS[0]], strict=True))
    with loopback_web.serving(Web(hosts=hosts, entries=((HOSTS[0], "/"),)), log=tmp_path / "access.log") as served:
        yield served


def test_twenty_kills_lose_nothing_double_nothing_and_are_never_impolite(web, tmp_path: Path) -> None:
    """After SIGKILL at random moments every page is stored once, no lease outlives its deadline, no host was rushed."""
    root = prepared(web, tmp_path)
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
    finish(root)

    lake = Lake.open(str(root))
    stored = corpus.query(lake, "select url, count(*) as n from pages group by url")
    assert set(stored["url"]) == set(truth(web.web).pages)
    assert stored["n"].max() == 1
    assert [result.name for result in corpus.run_tests(lake) if not result.holds] == []
    assert_polite(access_log.rows(tmp_path / "access.log"))


def prepared(web: loopback_web.Served, folder: Path) -> Path:
    """A lake with the web's seeds and a policy of short leases."""
    root = folder / "lake"
    lake = Lake.create(str(root), 4)
    hosts = "\n".join(f'"{name}" = ["{addresses[0]}"]' for name, addresses in web.hosts.items())
    (root / "policy.toml").write_text(POLICY.format(lease_s=LEASE_S, delay_s=DELAY_S, hosts=hosts))
    seeding.seed(lake, web.web.seeds, tag=None, now=datetime.now(UTC))
    return root


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
            subprocess.run(["sleep", "60"], timeout=LEASE_S / 2, check=False)
    pytest.fail("no worker could take the buckets over")


def assert_no_lease_is_stuck(root: Path) -> None:
    """A lease never reaches further into the future than a lease lasts."""
    held = Lake.open(str(root)).leases().drop_nulls("deadline_at")
    if held.height:
        assert held["deadline_at"].max() <= datetime.now(UTC) + timedelta(seconds=LEASE_S)


def assert_polite(rows: list[access_log.Row]) -> None:
    """By the server's clock no host was asked too soon after an answer, nor while it answered."""
    by_host = sorted(rows, key=lambda row: (row.host, row.started_at))
    for host, of_host in groupby(by_host, key=lambda row: row.host):
        waits = [(after.started_at - before.ended_at) / 1e6 for before, after in pairwise(of_host)]
        assert min(waits, default=DELAY_S) >= DELAY_S - 0.002, host
