"""One Dagster with its UI and daemon, on a small lake that has been crawled, and one browser: for all tests here."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest
from playwright.sync_api import Page, sync_playwright

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import ORDERS
from crawl_pipeline.definitions import materialize
from crawl_pipeline.lake import Lake
from crawl_pipeline.resources.instance import SHIPPED
from crawl_pipeline.testing.loopback_web import Served, serving
from crawl_pipeline.testing.sites import Web, site

BUCKETS, PAGES = 4, 5
NAMES = tuple(f"{name}.test" for name in ("ant", "bee", "cow", "dog", "elk", "fox"))
CHROMIUM = shutil.which("chromium")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync"]  # fmt: skip
LAUNCHER = """
# Runs happen in the daemon: a process for each takes longer to start than the run lasts.
run_launcher:
  module: dagster._core.launcher.sync_in_memory_run_launcher
  class: SyncInMemoryRunLauncher
"""
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
PATIENCE_MS = 120_000


@dataclass(frozen=True, slots=True)
class Dagit:
    """A running UI and what stands behind it."""

    address: str
    lake: Lake
    served: Served
    instance: dg.DagsterInstance
    page: Page
    elsewhere: list[str]
    """Requests of the browser that left this machine."""

    def open(self, path: str) -> None:
        self.page.goto(self.address + path)

    def picture(self, name: str) -> None:
        """Keep what is to be seen for the documentation, if that is wanted."""
        if os.environ.get("CRAWL_TESTS_TAKE_PICTURES"):
            self.page.wait_for_timeout(1_500)  # what moves comes to rest
            PICTURES.mkdir(exist_ok=True)
            self.page.screenshot(path=PICTURES / f"{name}.png")

    def runs(self, *keys: str) -> list[dg.DagsterRun]:
        """Runs over these partitions, the newest first."""
        return [run for run in self.instance.get_runs() if run.tags.get("dagster/partition") in keys]

    def ended(self, count: int, *keys: str, besides: Collection[str] = ()) -> dict[str, dg.DagsterRun]:
        """Wait until so many runs over these partitions have ended, those `besides` not counted; give them by key."""
        ends = time.monotonic() + PATIENCE_MS / 1000
        while time.monotonic() < ends:
            found = [run for run in self.runs(*keys) if run.is_finished and run.run_id not in besides]
            if len(found) == count:
                return {run.tags["dagster/partition"]: run for run in found}
            self.page.wait_for_timeout(250)
        pytest.fail(f"expected {count} runs of {keys} to end, found {[(r.run_id, r.status) for r in self.runs(*keys)]}")

    def asked(self) -> int:
        """Pages that the web was asked for."""
        return sum(row.path != "/robots.txt" for row in self.served.rows())


@contextmanager
def opened(root: Path) -> Iterator[Dagit]:
    """Crawl a small web, start Dagster and a browser, and end all of it."""
    web = Web(hosts=tuple(site(name, pages=PAGES) for name in NAMES), entries=tuple((name, "/") for name in NAMES))
    with serving(web, log=root / "access.log") as served:
        lake = _crawled(root, served)
        with (
            _dagster(root, lake) as address,
            dg.DagsterInstance.from_config(str(root / "home")) as instance,
            sync_playwright() as playwright,
        ):
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
            page = browser.new_page(viewport={"width": 1200, "height": 720})
            page.set_default_timeout(PATIENCE_MS)
            left: list[str] = []
            own = (address, address.replace("http", "ws"), "data:", "blob:")
            page.on("request", lambda request: None if request.url.startswith(own) else left.append(request.url))
            yield Dagit(address, lake, served, instance, page, left)
            browser.close()


def _crawled(root: Path, served: Served) -> Lake:
    """A lake that one run has crawled; the run stands in the instance."""
    lake = Lake.create(str(root / "lake"), BUCKETS)
    policy = policies.Policy.model_validate(
        {
            "agent": {"name": "TestCrawler", "contact": "https://crawler.test/about"},
            "politeness": {"delay_s": 0.02, "download_factor": 1.0},
            "round": {"shortest_s": 0.5, "seconds": 5.0},
            "resolver": {"hosts": dict(served.hosts)},
            "addresses": {"allow": ["127.0.0.0/8"]},
            "parse": {"processes": 1},
        }
    )
    (root / "policy.toml").write_text(policies.render(policy), encoding="utf-8")
    home = root / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(SHIPPED.read_text(encoding="utf-8") + LAUNCHER, encoding="utf-8")
    now = datetime.now(UTC)
    seeds = [{"ordered_at": now, "kind": "seed", "url": url, "host": urls.host(url)} for url in served.web.seeds]
    lake.give(ORDERS.frame(seeds))
    assert materialize(lake.root, str(root / "policy.toml"), BUCKETS, 60.0, home).success
    return lake


@contextmanager
def _dagster(root: Path, lake: Lake) -> Iterator[str]:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"CRAWL_LAKE": lake.root, "CRAWL_POLICY": str(root / "policy.toml"), "CRAWL_BUCKETS": str(BUCKETS),
            "CRAWL_CACHES": str(root / "caches"), "DAGSTER_HOME": str(root / "home")}  # fmt: skip
    command = [sys.executable, "-W", "ignore", "-m", "dagster", "dev", "-m", "crawl_pipeline.definitions",
               "-h", "127.0.0.1", "-p", str(port)]  # fmt: skip
    with (root / "dagster.log").open("w") as log:
        started = subprocess.Popen(
            command, env=os.environ | told, cwd=root, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _wait(f"http://127.0.0.1:{port}/server_info", started, root / "dagster.log")
            yield f"http://127.0.0.1:{port}"
        finally:
            started.send_signal(signal.SIGINT)
            try:
                started.wait(5)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if started.poll() is None:
                    os.killpg(started.pid, signal.SIGKILL)
                    started.wait()


def _wait(address: str, started: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < ends and started.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    pytest.fail(f"Dagster did not start: {log.read_text(errors='replace')[-2000:]}")
