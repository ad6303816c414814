"""How much of what politeness allows a crawl uses, judged from nginx's access log: the whole product, rounds and all.

A host that is asked again the moment it may be gives a page every `delay` seconds. The share is the pages that were
answered over the hosts times the time over the delay. An answer takes time too, in which the host owes nothing yet, so
that not even a perfect crawler comes to 1.
"""

import json
import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import farm_crawl, static_farm
from bench.figures import Cost, run
from bench.recall import violations
from crawl_pipeline.testing import access_log, site_farm

WARM_S = 15.0
"""Seconds from the first request after which hosts are asked steadily: robots.txt, front page, the first commits."""
SPARE = 1.2
"""Times the pages that a host could be asked for, so that none runs out of known pages."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one crawl used of its politeness, and how."""

    hosts: int
    delay_s: float
    steady: float
    from_start: float
    pages: int
    median_gap_s: float
    p95_gap_s: float
    violations: int
    cost: Cost


def measured(folder: Path, *, hosts: int, delay_s: float, seconds: float) -> Share:
    """Crawl a farm for so many seconds and judge."""
    pages = math.ceil(SPARE * seconds / delay_s) + 20
    with static_farm.served(folder / "farm", hosts=hosts, pages=pages) as farm:
        root = farm_crawl.prepared(farm, folder, delay_s=delay_s)
        crawl = [sys.executable, "-m", "crawl_pipeline", "--lake", str(root)]
        cost = run([*crawl, "run", "--minutes", str(seconds / 60)], look_s=1.0, stdout=sys.stderr)
        log = site_farm.rows(farm.log)
        too_soon, overlapping = violations(log, delay_s)
        if too_soon or overlapping:
            print("by nginx's log:", too_soon, "too soon,", overlapping, "overlapping", file=sys.stderr)
        broken = too_soon + overlapping + broken_promises([*crawl, "audit", "--json"])
        broken += broken_promises([*crawl, "audit", "--json", "--access-log", str(farm.log)])
    return judged(log, hosts, delay_s, broken, cost)


def broken_promises(audit: Sequence[str]) -> int:
    """How many rows break a promise; they are shown."""
    found = json.loads(subprocess.run(audit, stdout=subprocess.PIPE, check=False).stdout)
    for promise in found["promises"]:
        for broken in promise["broken"]:
            print("broken:", promise["id"], broken["sentence"], broken["rows"][:3], file=sys.stderr)
    return sum(int(promise["violations"]) for promise in found["promises"])


def judged(log: list[access_log.Row], hosts: int, delay_s: float, broken: int, cost: Cost) -> Share:
    """Count the log's pages, from the first request on and from when all is steady."""
    began, ended = min(row.started_at for row in log) / 1e6, max(row.ended_at for row in log) / 1e6
    gaps = sorted(gaps_s(log, began + WARM_S))

    def share(since: float) -> float:
        asked = sum(row.started_at / 1e6 >= since and row.path != "/robots.txt" for row in log)
        return asked / (hosts * (ended - since) / delay_s)

    return Share(
        hosts, delay_s, share(began + WARM_S), share(began), sum(row.path != "/robots.txt" for row in log),
        gaps[len(gaps) // 2], gaps[len(gaps) * 95 // 100], broken, cost,
    )  # fmt: skip


def gaps_s(log: list[access_log.Row], since: float) -> list[float]:
    """From the end of each request to the start of the next of its host."""
    last: dict[str, int] = {}
    found = []
    for row in sorted(log, key=lambda row: row.started_at):
        if row.host in last and row.started_at / 1e6 >= since:
            found.append((row.started_at - last[row.host]) / 1e6)
        last[row.host] = row.ended_at
    return found
