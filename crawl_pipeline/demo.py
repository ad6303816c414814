"""The main job on a web that needs no internet: serve real pages on loopback, crawl them through Dagster, report.

The web is the documentation of Python's library and of installed packages (testing.pydoc_web), served by a process of
its own; the lake, the policy and the web's access log stay in one folder, so that everything can be looked at after.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from crawl_pipeline import corpus, display, duplicates, ordering, standing
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.lake import Lake

MARK = "demo.json"
BUCKETS = 8
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
    ordering.seed(lake, web.seeds, tag="demo", by="demo", now=datetime.now(UTC))
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
first_s = 600.0
[addresses]
allow = ["127.0.0.0/8"]
[resolver]
name_servers = ["127.0.0.1"]
timeout_s = 0.5
[resolver.hosts]
{hosts}
"""


def run(folder: Path, minutes: float, console: Console) -> None:
    """Serve the web, crawl it through Dagster with a line per round, and say what came of it."""
    from crawl_pipeline.definitions import find_duplicates, materialize

    clear(folder)
    console.print("starting a web of real pages on loopback: up to half a minute")
    with serving(folder) as web:
        lake, _ = prepare(folder, web)
        console.print(f"a web of {len(web.hosts)} hosts on loopback, a lake of {lake.buckets} buckets: {lake.root}")
        console.print("starting Dagster, which takes as long; then each round has its line")
        lines = display.RoundLines(console)
        home, policy_path = folder / "dagster", f"{lake.root}/policy.toml"
        materialize(lake.root, policy_path, lake.buckets, minutes * 60, home, lines)
        find_duplicates(lake.root, policy_path, lake.buckets, home)
    display.funnel(console, standing.standing(lake))
    display.duplicates(console, duplicates.standing(lake), duplicates.largest(lake, 5))
    console.print(farewell(folder, lake))


def farewell(folder: Path, lake: Lake) -> str:
    """Where everything is, and what to try next."""
    asked = corpus.query(lake, "select url from frontier where status = 'refused' order by url limit 1")
    url = asked.item() if asked.height else "http://docs.test/"
    crawl = f"{_near(Path(sys.executable).parent / 'crawl')} --lake {_near(Path(lake.root))}"
    return f"""
The lake is in {_near(Path(lake.root))}, the web's access log in {_near(folder / "access.log")}. Try next:
  {crawl} sql "select host, count(*) as pages, sum(word_count) as words from pages group by host order by pages desc"
  {crawl} explain {url}
  make ui"""


def _near(path: Path) -> Path:
    """The path as a person here would type it."""
    here = Path.cwd()
    return path.absolute().relative_to(here) if path.absolute().is_relative_to(here) else path


def open_ui(lake: str, port: int, console: Console) -> int:
    """Run Dagster's UI on the lake until it is closed; a demo's lake gets its web back, to be crawled on."""
    from crawl_pipeline.resources.instance import instance_at

    local = "://" not in lake
    root = str(Path(lake).resolve()) if local else lake
    folder = Path(root).parent
    is_demo = local and (folder / MARK).exists()
    home = folder / "dagster" if is_demo else Path(root, "dagster") if local else Path("dagster-home").resolve()
    _expect_free(port)
    with instance_at(home):  # so that the folder has its settings
        pass
    settings = {"DAGSTER_HOME": str(home), "CRAWL_LAKE": root, "CRAWL_BUCKETS": str(Lake.open(lake).buckets),
                "PYTHONWARNINGS": "ignore"}  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "dagster",
        "dev",
        "-m",
        "crawl_pipeline.definitions",
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    with serving(folder, port_of(folder) or 0) if is_demo else nullcontext():
        console.print(f"Dagster's UI comes up at http://127.0.0.1:{port} in half a minute; Ctrl-C ends it")
        process = subprocess.Popen(command, env=os.environ | settings)
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            return process.wait()
        finally:
            process.terminate()
            process.wait()


def _expect_free(port: int) -> None:
    """Tell that a port is taken before Dagster starts: it tells that half a minute later, and not where to look."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DemoError(
                f"expected port {port} of 127.0.0.1 to be free, found: {error.strerror}; name another with --port"
            ) from error


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
