"""A worker is killed after hosts told it to wait: what they were promised holds across the crash, by their own log.

Committed, a Retry-After is kept to the second. What was answered since the last commit dies with the worker: then the
host is left alone until the lease has run out, and its gap after that.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path

import polars as pl
import pytest

from crawl_pipeline import ordering
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import Host, Request, Web, loopback_web, site
from crawl_pipeline.testing.sites import Answer, Site, at_first, robots, slow, throttled, tree
from tests.effort import long
from tests.live.test_kills import finish, worker

RETRY_AFTER_S, DELAY_S = 10, 0.2
MICROSECOND = 1e-6

POLICY = """
[agent]
name = "KilledBot"
contact = "http://bot.test/"
[round]
seconds = {round_s}
shortest_s = {shortest_s}
lease_s = {lease_s}
[fetch]
total_s = 1.0
[parse]
processes = 1
[politeness]
delay_s = 0.2
download_factor = 0.0
address_gap_s = 0.0
backoff_first_s = 0.1
[addresses]
allow = ["127.0.0.0/8"]
[resolver.hosts]
{hosts}
"""


def dated(request: Request) -> Answer:
    """429 until a date, written in whole seconds (RFC 9110 5.6.7)."""
    date = formatdate(int(time.time()) + RETRY_AFTER_S, usegmt=True)
    return replace(throttled(), headers=(*throttled().headers, ("retry-after", date)))


def told(name: str, answer: Answer | None = None) -> Host:
    """A host that asks for a wait at its first page, and is a tree of pages from then on."""
    own: Site = tree(3)
    content = at_first(own, answer, requests=1) if answer else lambda r: dated(r) if r.nth == 0 else own(r)
    return Host(name, robots(content, ""))


def prepared(web: loopback_web.Served, folder: Path, seeds: list[str], **terms: float) -> Path:
    root = folder / "lake"
    lake = Lake.create(str(root), 2)
    hosts = "\n".join(f'"{name}" = ["{addresses[0]}"]' for name, addresses in web.hosts.items())
    (root / "policy.toml").write_text(POLICY.format(hosts=hosts, **terms))
    ordering.seed(lake, seeds, tag=None, now=datetime.now(UTC))
    return root


def killed(process: subprocess.Popen[bytes], when: Callable[[], bool]) -> None:
    """Kill a worker as soon as it is time."""
    for _ in range(3_000):
        if when():
            process.kill()
            process.wait()
            return
        time.sleep(0.01)
    process.kill()
    pytest.fail("what was waited for did not come within half a minute")


def starts(web: loopback_web.Served, host: str) -> list[float]:
    return sorted(row.started_at * MICROSECOND for row in web.rows() if row.host == host and row.path != "/robots.txt")


def throttled_hosts(root: Path) -> set[str]:
    return set(Lake.open(str(root)).scan("fetches").filter(pl.col("outcome") == "throttled").collect()["host"])


@long
def test_a_committed_retry_after_is_kept_across_a_kill_whether_seconds_or_a_date(tmp_path: Path) -> None:
    hosts = (told("seconds.test", throttled(RETRY_AFTER_S)), told("date.test"), site("calm.test", pages=45))
    with loopback_web.serving(Web(hosts=hosts), log=tmp_path / "access.log") as web:
        seeds = [web.url(host.name) for host in hosts]
        root = prepared(web, tmp_path, seeds, round_s=0.5, shortest_s=0.1, lease_s=2.0)
        killed(worker(root), lambda: throttled_hosts(root) == {"seconds.test", "date.test"})
        died_at = time.time()
        finish(root)

    calm = [start for start in starts(web, "calm.test") if start > died_at]
    for host, since in (("seconds.test", float), ("date.test", int)):
        [answered] = [row for row in web.rows() if row.host == host and row.status == 429]
        again = starts(web, host)[1]
        assert again >= since(answered.started_at * MICROSECOND) + RETRY_AFTER_S
        assert min(calm) < again  # the next worker was there, and asked whom it might
        assert len(starts(web, host)) == 4


def test_an_uncommitted_retry_after_is_lost_but_the_host_rests_until_the_lease_is_over_and_its_gap(
    tmp_path: Path,
) -> None:
    busy = tuple(Host(f"busy{n}.test", robots(slow(tree(12), first_byte_s=0.4), "")) for n in range(3))
    hosts = (told("seconds.test", throttled(RETRY_AFTER_S)), *busy)
    with loopback_web.serving(Web(hosts=hosts), log=tmp_path / "access.log") as web:
        seeds = [web.url("seconds.test"), *(web.url(host.name, f"/{n}") for host in busy for n in range(1, 12))]
        root = prepared(web, tmp_path, seeds, round_s=3.0, shortest_s=3.0, lease_s=5.0)
        killed(worker(root), lambda: bool(starts(web, "seconds.test")))
        died_at, lost = time.time(), throttled_hosts(root)
        [deadline_at] = Lake.open(str(root)).leases().filter(~pl.col("released"))["deadline_at"].unique().to_list()
        finish(root)

    assert lost == set()
    for host in hosts:
        after = [start for start in starts(web, host.name) if start > died_at]
        assert min(after) >= deadline_at.timestamp() + DELAY_S
    assert len(starts(web, "seconds.test")) == 4
