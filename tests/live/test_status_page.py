"""The live status page in a real browser: logging in, figures that change as the crawl does, a phone, the dark."""

import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from crawl_pipeline import ordering
from crawl_pipeline.lake import Lake
from tests.live.api_server import MINIMAL, TOKEN, serving_api

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: tests/servers.sh installs it")


def opened(browser: Browser, url: str, wrong: list[str], **screen: object) -> Page:
    """The page, after logging in as a person does; what its script complains of goes to `wrong`."""
    page = browser.new_context(**screen).new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(url)
    page.fill("#token", "not a token of this server")
    page.click("button")
    page.wait_for_selector("#wrong:visible")
    page.fill("#token", TOKEN)
    page.click("button")
    page.wait_for_selector("#figures dd")
    return page


def test_the_status_page_follows_the_crawl_and_fits_a_phone_in_the_dark(tmp_path: Path) -> None:
    root = tmp_path / "lake"
    lake, wrong = Lake.create(str(root), 2), list[str]()
    (root / "policy.toml").write_text(MINIMAL)
    with serving_api(root) as api, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = opened(browser, str(api.base_url), wrong, color_scheme="dark", viewport={"width": 360, "height": 700})
        waiting = page.locator("#figures div", has_text="orders to obey").locator("dd")
        before = waiting.inner_text()
        ordering.seed(lake, ["http://a.test/"], tag=None, now=datetime.now(UTC))
        page.locator("#figures dd", has_text=re.compile("^1next due")).wait_for()
        wide = page.evaluate("document.documentElement.scrollWidth")
        dark = page.evaluate("getComputedStyle(document.documentElement).colorScheme")
        cookie, address = page.evaluate("document.cookie"), page.url
        page.click("text=Log out")
        page.wait_for_selector("#token")
        browser.close()

    assert wrong == []
    assert before.startswith("0")
    assert wide <= 360
    assert "dark" in dark
    assert (cookie, TOKEN in address) == ("", False)
