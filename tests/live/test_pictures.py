"""The pictures of the status page and of the report in docs/, of the demo while it crawls and afterwards.

Only where pictures are wanted (`make screenshots`): what the pages do is tested elsewhere.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from crawl_pipeline import report_page
from crawl_pipeline.lake import Lake
from tests.live.api_server import TOKEN, serving_api

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.skipif(not os.environ.get("CRAWL_TESTS_TAKE_PICTURES"), reason="no pictures are wanted"),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: tests/servers.sh installs it"),
]


def test_the_status_page_and_the_report_of_the_demo_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the report names its lake
    folder = Path("demo-lake")
    root, command = folder / "lake", [sys.executable, "-m", "crawl_pipeline", "demo", "--folder", str(folder)]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        demo = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until_it_stores(root, demo)
            with serving_api(root) as api:
                status(browser, str(api.base_url))
        finally:
            code = demo.wait(timeout=300)
        assert code == 0
        report(browser, report_page.write(Lake.open(str(root)), folder / "report.html"))
        browser.close()


def until_it_stores(root: Path, demo: "subprocess.Popen[bytes]") -> None:
    """Wait for the first of its rounds that stored pages."""
    while demo.poll() is None:
        if (root / "rounds").exists() and Lake.open(str(root)).scan("rounds").collect()["page_count"].sum():
            return
        time.sleep(0.1)
    pytest.fail(f"the demo ended with {demo.returncode} before a picture could be taken")


def status(browser: Browser, url: str) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 640}, locale="en-GB")
    page.goto(url)
    page.fill("#token", TOKEN)
    page.click("button")
    page.wait_for_selector("#figures dd")
    page.wait_for_timeout(9_000)  # some rounds go by
    page.screenshot(path=PICTURES / "status.png")


def report(browser: Browser, path: Path) -> None:
    page = browser.new_page(viewport={"width": 1200, "height": 1000})
    page.goto(path.as_uri())
    page.screenshot(path=PICTURES / "report.png")
