"""`crawl rebucket` in a process of its own, killed with SIGKILL at one moment after the other."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import FRONTIER, HOSTS, ROUNDS
from crawl_pipeline.lake import Lake
from tests.effort import long

LEASE_S = 1.0
HOSTS_, URLS = 60, 6_000
POLICY = f"""
[agent]
name = "KilledBot"
contact = "http://bot.test/"
[round]
lease_s = {LEASE_S}
seconds = 0.5
shortest_s = 0.1
[fetch]
total_s = 0.3
"""


@long
def test_a_rebucketing_that_is_killed_again_and_again_loses_and_doubles_nothing_and_ends(tmp_path: Path) -> None:
    """Killed as it says that a step begins, a little later each time, until nothing stops it."""
    root = prepared(tmp_path)
    expected, counts = known(root), set[int]()

    for step in range(1, 10, 2):
        kill_at(root, step)
        assert known(root) == expected
        counts.add(Lake.open(str(root)).buckets)
        time.sleep(LEASE_S)
    done = start(root)
    said, _ = done.communicate(timeout=60)

    lake = Lake.open(str(root))
    assert done.returncode == 0, said
    assert lake.buckets == 8
    assert counts <= {4, 8}
    assert known(root) == expected
    places = lake.scan("frontier").select("host", "bucket").unique().collect()
    assert all(bucket == urls.bucket(host, 8) for host, bucket in places.iter_rows())
    assert {lake.size(table).rows for table in ("frontier", "change_frequency")} == {URLS, 0}


def prepared(folder: Path) -> Path:
    """A lake of some thousand URLs, in tails."""
    root, now = folder / "lake", datetime.now(UTC)
    lake = Lake.create(str(root), 4)
    (root / "policy.toml").write_text(POLICY)
    names = [f"h{number}.test" for number in range(HOSTS_)]
    pages = [(host, f"http://{host}/{number}") for host in names for number in range(URLS // HOSTS_)]
    frontier = FRONTIER.frame(
        [{"bucket": urls.bucket(host, 4), "url_hash": urls.url_hash(url), "url": url, "host": host, "status": "waiting",
          "band": 1, "score": 1.0, "depth": 0, "hops": 0, "kind": "link", "found_at": now, "attempts": 0,
          "due_at": now + timedelta(seconds=number % 900 - 300)} for number, (host, url) in enumerate(pages)]
    ).drop("round", "layer")  # fmt: skip
    hosts = HOSTS.frame(
        [{"bucket": urls.bucket(host, 4), "host": host, "site": host, "seeded": True, "paused": False,
          "known_count": URLS // HOSTS_, "fetched_count": 0, "day_count": 0, "backoff_s": 4.0, "calm_count": 0,
          "failures": 0, "next_allowed_at": now + timedelta(hours=1), "found_at": now} for host in names]
    ).drop("round", "layer")  # fmt: skip
    lease = lake.claim(range(4), "a worker", now, 60)
    lake.write_all(lease, {"frontier": frontier, "hosts": hosts})
    sizes = dict(frontier.group_by("bucket").len().iter_rows())
    rounds = [{"bucket": b, "links_seen": [0] * 4, "orders_seen": -1, "known_count": sizes[b]} for b in range(4)]
    lake.commit(lease, ROUNDS.frame(rounds).drop("round"))
    lake.release(lease)
    return root


def known(root: Path) -> set[tuple[object, ...]]:
    """What is known of every URL and every host, but for the bucket; fails if anything is there twice."""
    lake = Lake.open(str(root))
    frontier = lake.scan("frontier").select("url", "due_at", "status").collect()
    hosts = lake.scan("hosts").select("host", "next_allowed_at", pl.col("backoff_s").cast(str)).collect()
    assert frontier["url"].is_unique().all()
    assert hosts["host"].is_unique().all()
    return {*frontier.iter_rows(), *hosts.iter_rows()}


def start(root: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "crawl_pipeline", "--lake", str(root), "rebucket", "8"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=os.environ | {"PYTHONUNBUFFERED": "1"})  # fmt: skip


def kill_at(root: Path, step: int) -> None:
    """Start one, and kill it soon after it has said so many steps; each time a bit later in the step."""
    process = start(root)
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(step)]
    time.sleep(0.01 * step)
    process.kill()
    process.wait()
    process.stdout.close()
    assert not any("Error" in line for line in said), said
