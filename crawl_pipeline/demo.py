"""The main job on a web that needs no internet: serve real pages on loopback, crawl them through Dagster, report.

The web is the documentation of Python's library and of installed packages (testing.pydoc_web), served by a process of
its own; the lake, the policy and the web's access log stay in one folder, so that everything can be looked at after.
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from crawl_pipeline import seeding
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake

MARK = "demo.json"
BUCKETS = 16
START_S = 60.0
"""How long the web may take to start, in seconds."""


class DemoError(Exception):
    """The demo cannot run; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Web:
    """The demo's web while it runs."""

    port: int
    seeds: tuple[str, ...]
    hosts: dict[str, list[str]]
    log: Path


def prepare(folder: Path, web: Web) -> tuple[Lake, Policy]:
    """Make a fresh lake in the folder, with the demo's policy and seeds."""
    policy = policies.load(policy_toml(web))
    lake = Lake.create(str(folder / "lake"), BUCKETS)
    (folder / "lake" / "policy.toml").write_text(policies.render(policy))
    (folder / MARK).write_text(json.dumps({"port": web.port}))
    seeding.seed(lake, web.seeds, tag="demo", by="demo", now=datetime.now(UTC))
    return lake, policy


def clear(folder: Path) -> None:
    """Remove an earlier demo; refuse a folder that is something else."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise DemoError(f"{folder} holds something that is no demo: name another folder, or remove it yourself")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARK).write_text("{}")


def policy_toml(web: Web) -> str:
    """The demo's policy: small delays, since host and visitor are one machine."""
    hosts = "\n".join(f'"{name}" = {json.dumps(addresses)}' for name, addresses in web.hosts.items())
    return f"""
[agent]
name = "DemoCrawler"
contact = "http://docs.test:{web.port}/"
[round]
seconds = 10.0
shortest_s = 0.5
lease_s = 45.0
[politeness]
delay_s = 0.1
download_factor = 1.0
backoff_first_s = 0.5
[scope]
follow = "everywhere"
depth = 6
[budget]
urls_per_host = 300
[retry]
first_s = 1.0
attempts = 3
[addresses]
allow = ["127.0.0.0/8"]
[resolver.hosts]
{hosts}
"""


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[Web]:
    """Serve the demo's web while the block runs; its access log is in the folder."""
    ready, log = folder / "web.json", folder / "access.log"
    ready.unlink(missing_ok=True)
    command = [sys.executable, "-m", "crawl_pipeline.testing.pydoc_web", "--port", str(port), "--log", str(log),
               "--ready", str(ready)]  # fmt: skip
    with (folder / "web.log").open("wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors)
    try:
        told = _wait_for(ready, process, folder / "web.log")
        yield Web(told["port"], tuple(told["seeds"]), told["hosts"], log)
    finally:
        process.terminate()
        process.wait()


def port_of(folder: Path) -> int | None:
    """The port an earlier demo's web had, if the folder holds one."""
    mark = folder / MARK
    return json.loads(mark.read_text()).get("port") if mark.exists() else None


def _wait_for(ready: Path, process: subprocess.Popen[bytes], errors: Path) -> Any:
    until = time.monotonic() + START_S
    while not ready.exists() or not ready.read_text():
        if process.poll() is not None or time.monotonic() > until:
            raise DemoError(f"the demo's web did not start within {START_S:g} s; it said: {errors.read_text()[-2000:]}")
        time.sleep(0.05)
    return json.loads(ready.read_text())
