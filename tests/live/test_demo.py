"""The main job as a user runs it, judged by the web's own access log.

`crawl demo` in a process of its own: a real server of real pages, Dagster, worker processes.
"""

import json
import subprocess
import sys
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path

import pytest

from crawl_pipeline import corpus, reports
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import access_log, pydoc_web
from crawl_pipeline.testing.truth import Truth, truth

DELAY_S = 0.1


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth, list[access_log.Row], str]:
    """One demo: its folder, what it should have fetched, what the web saw, what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "demo-lake"
    command = [sys.executable, "-m", "crawl_pipeline", "demo", "--folder", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    port = json.loads((folder / "demo.json").read_text())["port"]
    web = pydoc_web.web(cache_folder()).at(port)
    return folder, truth(web), access_log.rows(folder / "access.log"), done.stdout


def cache_folder() -> Path:
    """Where the demo's own process keeps its pages: what this one has imported must not count as installed."""
    code = "from crawl_pipeline.testing import pydoc_web; print(pydoc_web.cache_folder())"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return Path(found.stdout.strip())


def test_every_page_that_may_be_fetched_is_stored_exactly_once(demo) -> None:
    """By the lake, against what the web's own generator says can be reached."""
    folder, expected, _, _ = demo
    stored = corpus.query(Lake.open(str(folder / "lake")), "select url, count(*) as n from pages group by url")
    in_traps = {url for url in stored["url"] if any(trap.holds(url) for trap in expected.traps)}
    assert set(stored["url"]) - in_traps == expected.pages | expected.by_sitemap_only
    assert stored["n"].max() == 1


def test_every_page_is_answered_once_by_the_servers_log(demo) -> None:
    """No page is asked for again after it was answered."""
    _, _, log, _ = demo
    answered = Counter((row.host, row.path) for row in log if row.status == 200 and row.path != "/robots.txt")
    assert [page for page, count in answered.items() if count > 1] == []


def test_what_robots_txt_forbids_is_never_asked_for(demo) -> None:
    """By the server's log: no request for a forbidden URL, robots.txt first on every host, traps bounded."""
    _, expected, log, _ = demo
    port = expected_port(expected)
    asked = {f"http://{row.host}:{port}{row.path}" for row in log}
    assert asked.isdisjoint(expected.forbidden)
    firsts = {host: next(rows).path for host, rows in by_host(log)}
    assert set(firsts.values()) == {"/robots.txt"}
    for trap in expected.traps:
        assert sum(trap.holds(url) for url in asked) <= trap.bound


def test_no_host_is_asked_too_soon_or_twice_at_once(demo) -> None:
    """By the server's clock: from the end of an answer to the next request the promised delay.

    Where the crawler hung up on a body that was too large, the server notices late: there its end is not ours.
    """
    _, _, log, _ = demo
    for host, rows in by_host(log):
        pairs = [(before, after) for before, after in pairwise(rows) if not hung_up_on(before)]
        waits = [(after.started_at - before.ended_at) / 1e6 for before, after in pairs]
        assert min(waits, default=DELAY_S) >= DELAY_S - 0.002, host


def test_it_ends_with_the_funnel_and_what_to_try_next(demo) -> None:
    """Selected equals the sum of outcomes, refusals have reasons, three commands are named."""
    folder, _, _, printed = demo
    for words in ("sum of outcomes", "= ", "Politeness", "0 too short", "file type", " sql ", " explain ", "make ui"):
        assert words in printed
    assert all(result.holds for result in reports.run_tests(Lake.open(str(folder / "lake"))))


def hung_up_on(row: access_log.Row) -> bool:
    """Whether the answer was announced as a page, but nothing of it was taken."""
    return row.status == 200 and row.bytes == 0


def by_host(log: list[access_log.Row]):
    """Group the log by host, in the order of the requests."""
    return groupby(sorted(log, key=lambda row: (row.host, row.started_at)), key=lambda row: row.host)


def expected_port(expected: Truth) -> str:
    """The port all URLs of the web carry."""
    return next(iter(expected.pages)).split(":")[2].partition("/")[0]
