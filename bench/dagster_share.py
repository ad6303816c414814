"""What a run costs that is not crawling: Dagster's share of the wall time of one run in process.

A web on loopback with more pages than the time allows is crawled by materialising `crawl_round` over all buckets, the
run kept in SQLite as on a person's machine. Its wall time less the time inside the worker is the rim's: planning the
run, opening the lake, checks, events. Importing Dagster is given apart: a process pays it once, whatever it runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import report
from crawl_pipeline.testing.sites import Web, site

HOSTS, PAGES, DELAY_S, BUCKETS = 20, 20_000, 0.5, 16
NAMES = tuple(f"host{i}.test" for i in range(HOSTS))


def web() -> Web:
    """Hosts that last longer than any run: two pages a second each."""
    return Web(hosts=tuple(site(name, pages=PAGES) for name in NAMES), entries=tuple((name, "/") for name in NAMES))


def main() -> None:
    """Crawl for some seconds and say where the time went."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0, help="time budget of the run (default 300)")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="crawl-bench-") as folder, served(Path(folder)) as where:
        prepare(Path(folder), where)
        figures = measure(Path(folder), options.seconds)
    settings = {"seconds": options.seconds, "hosts": HOSTS, "buckets": BUCKETS, "delay_s": DELAY_S}
    report("dagster_share", figures, [("dagster_share", "<", 0.05)], settings, as_json=options.json)


@contextmanager
def served(folder: Path) -> Iterator[Mapping[str, Any]]:
    """Serve the web in a process of its own while the block runs."""
    ready = folder / "ready.json"
    command = [sys.executable, "-m", "crawl_pipeline.testing.loopback_web", "--web", "bench.dagster_share:web",
               "--log", str(folder / "access.log"), "--ready", str(ready)]  # fmt: skip
    with subprocess.Popen(command) as server:
        while not ready.exists() and server.poll() is None:
            time.sleep(0.05)
        try:
            yield json.loads(ready.read_text())
        finally:
            server.terminate()


def prepare(folder: Path, where: Mapping[str, Any]) -> None:
    """Make a lake with the web's seeds, and a policy."""
    from crawl_pipeline import ordering  # noqa: PLC0415 (reader processes import this module: it stays light)
    from crawl_pipeline.core import policy  # noqa: PLC0415
    from crawl_pipeline.lake import Lake  # noqa: PLC0415

    rules = policy.Policy.model_validate(
        {"agent": {"name": "BenchCrawler", "contact": "http://bench.test/"}, "politeness": {"delay_s": DELAY_S},
         "addresses": {"allow": ["127.0.0.0/8"]}, "resolver": {"hosts": where["hosts"]}}
    )  # fmt: skip
    lake = Lake.create(str(folder / "lake"), BUCKETS)
    (folder / "lake" / "policy.toml").write_text(policy.render(rules))
    ordering.seed(lake, where["seeds"], tag="bench", by="bench", now=datetime.now(UTC))


def measure(folder: Path, seconds: float) -> dict[str, float | None]:
    """Materialise once; the worker's own seconds stand in the run's tags."""
    from crawl_pipeline import corpus, worker  # noqa: F401, PLC0415 (a crawl without Dagster imports these too)

    began = time.monotonic()
    from crawl_pipeline.definitions import materialize  # noqa: PLC0415

    import_s = time.monotonic() - began
    cpu, began = time.process_time(), time.monotonic()
    lake = folder / "lake"
    result = materialize(str(lake), str(lake / "policy.toml"), BUCKETS, seconds, folder / "home")
    wall_s, cpu_s = time.monotonic() - began, time.process_time() - cpu
    pages = sum(
        int(str(event.step_materialization_data.materialization.metadata["rows"].value))
        for event in result.all_events
        if event.is_step_materialization and event.asset_key and event.asset_key.path[-1] == "pages"
    )
    worker_s = float(tag_of(folder / "home", result.run_id, "crawl/worker_s"))
    dagster_s = wall_s - worker_s
    return {
        "dagster_share": dagster_s / wall_s,
        "share_with_import": (dagster_s + import_s) / (wall_s + import_s),
        "wall_s": wall_s,
        "worker_s": worker_s,
        "dagster_s": dagster_s,
        "import_s": import_s,
        "cpu_s": cpu_s,
        "pages": pages,
        "machine_load": os.getloadavg()[0],
    }


def tag_of(home: Path, run_id: str, name: str) -> str:
    """A tag of a run that stands in an instance."""
    from crawl_pipeline.resources.instance import instance_at  # noqa: PLC0415

    with instance_at(home) as instance:
        run = instance.get_run_by_id(run_id)
        assert run is not None
        return run.tags[name]


if __name__ == "__main__":
    main()
