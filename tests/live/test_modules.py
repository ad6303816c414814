"""Modules in a real crawl: worker processes, sockets, the shipped ones, the one in the documents, one that hurts.

One crawl with `crawl run`; the tests look at what it left.
"""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from crawl_pipeline import corpus, ordering, reports
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import Host, Web, loopback_web
from crawl_pipeline.testing.pictures import png
from crawl_pipeline.testing.sites import Answer, html, prose, routes
from tests.modules import hurtful

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
HURTFUL = "tests.modules.hurtful:Hurtful"
LATE = f"not done within {hurtful.SECONDS:g} s"
DEEDS = ("sleeps", "deaf", "dies", "raises")
SECONDS = 90
"""At most: it ends when there is nothing left to ask."""

POLICY = """
[agent]
name = "ModularBot"
contact = "http://bot.test/"
[round]
seconds = 2.0
shortest_s = 0.3
[parse]
processes = 1
[politeness]
delay_s = 0.05
download_factor = 0.0
[addresses]
allow = ["127.0.0.0/8"]
[resolver.hosts]
{hosts}
[modules]
use = ["png_archive", "copyright_monitor", "headings:Headings", "{hurtful}"]
strikes = 100
[modules.settings.copyright_monitor]
phrases = ["all rights reserved by Example Press"]
{settings}
"""


def block(language: str, *, holding: str) -> str:
    """The block of the document in a language that holds these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return next(found for found in blocks if holding in found)


def web() -> Web:
    pages = [f"/{n}" for n in range(6)]
    pictures = {f"/{n}.png": Answer(200, (("content-type", "image/png"),), png(n + 1, 2)) for n in range(4)}
    pictures["/copy.png"] = pictures["/0.png"]
    shown = "".join(f"<img src={path}>" for path in pictures)
    table = {path: html(f"page {path}", text=prose(path)) for path in (*pages, *(f"/{deed}" for deed in DEEDS))}
    table["/3"] = html("three", text=f"{prose('three')} All rights reserved  by Example Press.")
    table["/"] = html("home", [*pages, *(f"/{deed}" for deed in DEEDS)], head=shown)
    return Web(hosts=(Host("a.test", routes({**table, **pictures})),), entries=(("a.test", "/"),))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "headings.py").write_text(block("python", holding="class Headings"))
    root = folder / "lake"
    made = Lake.create(str(root), 1)
    settings = block("toml", holding="headings:Headings").partition("\n\n")[2]
    with loopback_web.serving(web(), log=folder / "access.log") as served:
        hosts = "\n".join(f'"{name}" = ["{addresses[0]}"]' for name, addresses in served.hosts.items())
        (root / "policy.toml").write_text(POLICY.format(hosts=hosts, hurtful=HURTFUL, settings=settings))
        ordering.seed(made, served.web.seeds, tag=None, now=datetime.now(UTC))
        command = [sys.executable, "-m", "crawl_pipeline", "--lake", str(root), "run", "--minutes", f"{SECONDS / 60}"]
        paths = os.pathsep.join([str(folder), str(ROOT)])
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": paths}, check=False
        )
    assert done.returncode == 0, done.stderr
    return Lake.open(str(root))


def rows(lake: Lake, sql: str) -> pl.DataFrame:
    return corpus.query(lake, sql)


def test_every_page_is_stored_whatever_modules_did(lake):
    stored = rows(lake, "select regexp_extract(url, '[^/]*$') as name from pages")["name"]

    assert sorted(stored) == sorted(["", *map(str, range(6)), *DEEDS])
    assert all(result.holds for result in reports.run_tests(lake))


def test_the_archive_has_every_picture_with_its_size_and_each_body_once(lake):
    found = rows(lake, "select regexp_extract(url, '[^/]*$') as name, width_px, height_px from images order by name")

    assert found.rows() == [*((f"{n}.png", n + 1, 2) for n in range(4)), ("copy.png", 1, 2)]
    bodies = rows(
        lake, "select c.body from images i join contents c on c.round = i.content_round and c.body_hash = i.body_hash"
    )["body"]
    assert sorted(bodies) == sorted([png(1, 2), *(png(n + 1, 2) for n in range(4))])
    assert rows(lake, "select count(*) as n from contents where charset is null")["n"].item() == 4


def test_the_monitor_has_the_page_with_the_phrase(lake):
    (found,) = rows(lake, "select title, excerpt from copyright_matches").rows()

    assert found[0] == "three"
    assert found[1].endswith("All rights reserved by Example Press.")


def test_the_module_in_the_documents_tells_the_headings_of_each_page(lake):
    found = rows(lake, "select title, level, heading from headings")

    assert set(found["title"]) == set(rows(lake, "select title from pages")["title"])
    assert set(found["level"]) == {1}


def test_one_that_hurts_leaves_its_reasons_and_its_other_results(lake):
    failures = rows(
        lake, f"select regexp_extract(url, '[^/]*$') as name, reason from module_failures where module = '{HURTFUL}'"
    )
    assert dict(failures.rows()) == {
        "sleeps": LATE, "deaf": LATE, "dies": "it killed its process",
        "raises": "LookupError: no such thing",
    }  # fmt: skip
    assert rows(lake, "select count(*) as n from hurt")["n"].item() == 7


def test_the_document_shows_a_module_of_thirty_lines():
    shown = block("python", holding="class Headings").rstrip().splitlines()

    assert len([line for line in shown if line.strip()]) <= 30
