"""How fast the fetch path is, and how much of what politeness allows a crawl uses; nginx's log is the judge.

1. Pages per CPU second of the fetch path, alone and with reading, beside raw sockets, httpx and aiohttp: the same
   pages of the same farm, each client in a process of its own, in turns; the best turn counts.
2. The whole crawl at two delays: pages over what the delays allow, and violations by nginx's log and by `crawl audit`.
3. A fast host alone and among slow ones.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import fetch_clients, politeness_share, slow_neighbours, static_farm
from bench.figures import report
from bench.politeness_share import Share

ROOT = Path(__file__).parent.parent
PEERS = Path(os.environ.get("CRAWL_PEERS", ROOT / ".peers")) / "bin" / "python"
TARGETS = [
    ("politeness_efficiency_1s", ">=", 0.95),
    ("politeness_efficiency_200ms", ">=", 0.95),
    ("violations", "==", 0),
    ("times_httpx_client", ">=", 1.0),
    ("fast_host_delay_ratio", "<=", 1.05),
]
SIZES = {"": static_farm.LARGE, "_small": static_farm.SMALL}
"""Ends of figures' names, and the pages they are for."""

Figures = dict[str, float | None]


def main() -> None:
    """Measure the parts that are asked for, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=300)
    parser.add_argument("--fast-hosts", type=int, default=60, help="hosts at 0.2 s: as many as two cores can carry")
    parser.add_argument("--pages", type=int, default=20, help="of each size and host, for the cost of the fetch path")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0, help="length of each crawl")
    parser.add_argument("--slow-hosts", type=int, default=50)
    parser.add_argument("--parts", default="cost,politeness,neighbours")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load_before, parts = os.getloadavg()[0], options.parts.split(",")
    figures: Figures = {}
    if "cost" in parts:
        figures |= cost(options.hosts, options.pages, options.turns)
    if "neighbours" in parts:
        figures |= neighbours(options.slow_hosts)
    if "politeness" in parts:
        figures |= politeness(options.hosts, options.fast_hosts, options.seconds)
    report(
        "fetch", figures, [target for target in TARGETS if target[0] in figures],
        {"hosts": options.hosts, "fast_hosts": options.fast_hosts, "seconds": options.seconds,
         "load_before": round(load_before, 1), "load_after": round(os.getloadavg()[0], 1)}, as_json=options.json,
    )  # fmt: skip


def cost(hosts: int, pages: int, turns: int) -> Figures:
    """What each client needs of a CPU, for both sizes of pages."""
    figures: Figures = {}
    with _farm(hosts, 2 * pages) as farm:
        for end, size in SIZES.items():
            figures |= {f"{name}{end}": rate for name, rate in _named(_rates(farm, size, pages, turns)).items()}
    return figures


def _named(rates: dict[str, float | None]) -> Figures:
    ours = rates["lanes"] or 0.0
    times = {name: ours / rate if (rate := rates[name]) else None for name in ("httpx", "aiohttp", "raw")}
    return {
        "fetch_pages_per_cpu_s": ours, "fetch_and_read_pages_per_cpu_s": rates["lanes_read"],
        "raw_pages_per_cpu_s": rates["raw"], "httpx_pages_per_cpu_s": rates["httpx"],
        "aiohttp_pages_per_cpu_s": rates["aiohttp"],
        "times_httpx_client": times["httpx"], "times_aiohttp": times["aiohttp"], "times_raw": times["raw"],
    }  # fmt: skip


def _rates(farm: static_farm.StaticFarm, size: int, pages: int, turns: int) -> dict[str, float | None]:
    """Pages per CPU second of each way, its best of so many turns."""
    given = farm.folder / f"{size}.json"
    hosts = {name: address for name, (address,) in farm.hosts.items()}
    given.write_text(json.dumps({"port": farm.port, "hosts": hosts, "paths": farm.paths(size, pages)}))
    commands = {way: [sys.executable, "-m", "bench.fetch_clients", way, str(given)] for way in fetch_clients.WAYS}
    if PEERS.exists():
        commands["aiohttp"] = [str(PEERS), str(ROOT / "bench" / "aiohttp_client.py"), str(given)]
    best = dict.fromkeys([*commands, "aiohttp"], None) | dict.fromkeys(commands, 0.0)
    for _ in range(turns):
        for way, command in commands.items():
            best[way] = max(best[way] or 0.0, _rate(way, command, len(hosts) * pages))
    return best


def _rate(way: str, command: list[str], expected: int) -> float:
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout)
    if found["pages"] != expected:
        raise SystemExit(f"expected {way} to fetch {expected} pages, found {found['pages']}")
    return float(found["pages"] / found["cpu_s"])


def politeness(hosts: int, fast_hosts: int, seconds: float) -> Figures:
    """Two whole crawls: many hosts at one second, fewer at a fifth of it."""
    with tempfile.TemporaryDirectory(prefix="crawl-bench-") as folder:
        slow = politeness_share.measured(Path(folder) / "slow", hosts=hosts, delay_s=1.0, seconds=seconds)
        fast = politeness_share.measured(Path(folder) / "fast", hosts=fast_hosts, delay_s=0.2, seconds=seconds)
    return {
        "politeness_efficiency_1s": slow.steady, "politeness_efficiency_200ms": fast.steady,
        "violations": slow.violations + fast.violations,
        **_of_share("1s", slow), **_of_share("200ms", fast), "peak_rss_mb": max(slow.cost.peak_mb, fast.cost.peak_mb),
    }  # fmt: skip


def _of_share(end: str, share: Share) -> Figures:
    return {
        f"efficiency_from_start_{end}": share.from_start, f"median_gap_{end}": share.median_gap_s,
        f"p95_gap_{end}": share.p95_gap_s, f"pages_{end}": share.pages,
        f"crawl_pages_per_cpu_s_{end}": share.pages / share.cost.cpu_s,
        f"waited_for_cpu_share_{end}": share.cost.waited_s / share.cost.wall_s,
    }  # fmt: skip


def neighbours(slow: int) -> Figures:
    """A fast host alone and among slow ones."""
    with _farm(1, 400) as farm:
        alone, among = slow_neighbours.compared(farm, slow, 200)
    return {
        "fast_host_delay_ratio": among.median_gap_s / alone.median_gap_s,
        "fast_host_p95_gap_ratio": among.p95_gap_s / alone.p95_gap_s,
        "fast_host_first_byte_ms": among.median_first_byte_s * 1e3,
        "fast_host_first_byte_ratio": among.median_first_byte_s / alone.median_first_byte_s,
    }


@contextmanager
def _farm(hosts: int, pages: int) -> Iterator[static_farm.StaticFarm]:
    with (
        tempfile.TemporaryDirectory(prefix="crawl-bench-") as folder,
        static_farm.served(Path(folder) / "farm", hosts=hosts, pages=pages) as farm,
    ):
        yield farm


if __name__ == "__main__":
    main()
