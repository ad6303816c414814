"""What a plan costs when one host has half of all URLs, all of them due: its URLs in slices, and in one piece.

Two lakes of one bucket hold the same rows. A plan is made for each as a worker would; ratios are of CPU seconds, all
threads counted, and of the memory that a plan adds, each lake in a process of its own.
"""

import argparse
import tempfile
from collections.abc import Iterator
from typing import Any

import polars as pl

from bench.figures import report
from bench.frontier import Stopwatch, _apart
from bench.known_urls import NOW, POLICY, base, by_day, host_names, host_sizes, known
from crawl_pipeline import planning
from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import FRONTIER, HOSTS, ROUNDS
from crawl_pipeline.lake import Lake, slicing
from crawl_pipeline.lake.folding import SHAPE

HOST = "hot.example"
ROUNDS_TIMED = 5
TARGETS = [("plan_cpu_ratio", "<=", 0.5), ("plan_memory_ratio", "<=", 0.25)]


def hot(count: int) -> Iterator[pl.DataFrame]:
    """Rows of the large host: never fetched, all due."""
    for first in range(0, count, 250_000):
        numbers = range(first, min(count, first + 250_000))
        paths = [f"https://{HOST}/wiki/{number // 1_000:06d}/page-{number}" for number in numbers]
        yield FRONTIER.frame(
            pl.DataFrame({"url": paths, "url_hash": [urls.url_hash(url) for url in paths]}).with_columns(
                bucket=0, layer=pl.lit("base"), layout=0, part=0, round=1, host=pl.lit(HOST), status=pl.lit("waiting"),
                band=1, score=0.7, depth=1, hops=0, kind=pl.lit("link"), found_at=pl.lit(NOW), due_at=pl.lit(NOW),
                attempts=0,
            )
        )  # fmt: skip


def build(root: str, count: int, slice_rows: int) -> None:
    """Make a lake of so many URLs, half of them on one host, in slices of so many."""
    lake = Lake.create(root, 1)
    with tempfile.TemporaryDirectory(prefix="bench-hot-") as folder:
        for number, rows in enumerate((*known(count // 2), *hot(count // 2))):
            rows.write_parquet(f"{folder}/{number:04d}.parquet")
        stored = pl.scan_parquet(f"{folder}/*.parquet")
        cuts = slicing.cuts(stored, slice_rows)
        base(root, FRONTIER, (slicing.sliced(rows, cuts) for rows in by_day(stored)))
    sizes = host_sizes(count // 2)
    hosts = pl.DataFrame({"host": [*host_names(len(sizes)), HOST], "known_count": [*sizes.tolist(), count // 2]})
    rows = hosts.with_columns(
        bucket=0, site="host", seeded=True, paused=False, fetched_count=0, day_count=0, backoff_s=0.0, calm_count=0,
        failures=0, found_at=pl.lit(NOW), round=1, layer=pl.lit("base"), layout=0, download_s=0.2,
    )  # fmt: skip
    base(root, HOSTS, iter([HOSTS.frame(rows)]))
    lease = lake.claim([0], "bench", NOW, 3_600)
    lake.commit(lease, ROUNDS.frame([{"bucket": 0, "round": lease.round, "links_seen": [0], "orders_seen": -1,
                                      "known_count": count}]))  # fmt: skip
    lake.release(lease)


def measure(root: str) -> dict[str, Any]:
    """Plan some rounds; give seconds, memory, and what was looked at."""
    lake, watch = Lake.open(root), Stopwatch()
    lease = lake.claim([0], "bench", NOW, 3_600)
    cursors = planning.read_cursors(lake, lease)
    for _ in range(ROUNDS_TIMED):
        before = _peak_mb(reset=True)
        plan = watch.time("plan", planning.plan, lake, lease, cursors, POLICY, NOW, (), {})
        added = _peak_mb() - before
        lease = lake.renew(lease, NOW, 3_600)
    return {"cpu_s": min(watch.cpu["plan"]), "wall_s": min(watch.wall["plan"]), "added_mb": added,
            "looked_at": plan.due.filter(host=HOST).height, "listed": plan.fetch_list.filter(host=HOST).height,
            "due": plan.due.height + plan.due_unread.get(0, 0)}  # fmt: skip


def _peak_mb(*, reset: bool = False) -> float:
    """Resident memory now, after a reset, else its peak since then."""
    if reset:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmHWM"))


def of_slices(count: int, slice_rows: int) -> dict[str, Any]:
    """Build and measure one lake."""
    with tempfile.TemporaryDirectory(prefix="bench-hot-") as folder:
        _apart(build, f"{folder}/lake", count, slice_rows)
        return _apart(measure, f"{folder}/lake")


def main() -> None:
    """Measure, print a table, and one JSON object if asked for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--urls", type=int, default=4_000_000)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    cut, whole = of_slices(given.urls, SHAPE.slice_rows), of_slices(given.urls, 10**9)
    if not cut["due"] == whole["due"] > 0:
        raise SystemExit(f"expected the same due URLs in both lakes, found {cut['due']} and {whole['due']}")
    figures = {
        "plan_cpu_ratio": cut["cpu_s"] / whole["cpu_s"], "plan_memory_ratio": cut["added_mb"] / whole["added_mb"],
        **{f"{name}_{kind}": lake[name] for kind, lake in (("sliced", cut), ("whole", whole))
           for name in ("cpu_s", "wall_s", "added_mb", "looked_at", "listed")},
    }  # fmt: skip
    report("hot_host", figures, TARGETS, {"urls": given.urls, "slice": SHAPE.slice_rows}, as_json=given.json)


if __name__ == "__main__":
    main()
