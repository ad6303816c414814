"""Every query and command of docs/queries.md runs, on one small lake, and prints what the page says it prints.

With CRAWL_WRITE_DOCS=1 the page's outputs are written anew instead.
"""

import os
import re
import shlex
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from crawls import DAY, NOON, Crawl, policy
from rich.console import Console

from crawl_pipeline import corpus, display, duplicates, moments, reports
from crawl_pipeline.cli import main
from crawl_pipeline.commands import common
from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import ORDERS
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import always, html, prose, robots, robots_text, routes, unavailable

PAGE = Path(__file__).parents[2] / "docs" / "queries.md"
ASKED = re.compile(r"```(?P<kind>sql|console)\n(?P<asked>.*?)```\n\n```text\n(?P<shown>.*?)```", re.S)
WIDE = 120


def web() -> tuple[Host, ...]:
    """A manual with pages that change, are gone, are forbidden; a mirror of its guide; a host that is down."""

    def news(request: Any) -> Any:
        return html("News", text=prose(f"news {request.nth_here}", 80))

    text = prose("guide", 90)
    guide, printed = html("Guide", text=text), html("Guide, to print", text=text + " Printed by nobody.")
    home = html("Manual", ["/guide", "/guide/print", "/news", "/old", "/private/notes", "http://mirror.test/"],
                prose("manual", 60))  # fmt: skip
    manual = routes({"/": home, "/guide": guide, "/guide/print": printed, "/news": news})
    mirror = routes({"/": html("Mirror", ["/guide"], prose("mirror", 40)), "/guide": guide})
    return (Host("manual.test", robots(manual, robots_text(["/private/"]))), Host("mirror.test", robots(mirror, "")),
            Host("down.test", robots(always(unavailable()), "")))  # fmt: skip


SEEDS = [("http://manual.test/", "manuals", "software"), ("http://mirror.test/", "mirrors", "software"),
         ("http://down.test/", "mirrors", None)]  # fmt: skip


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    rules = policy(recrawl={"first_s": DAY, "shortest_s": DAY}, round={"seconds": 30.0})
    crawl = Crawl(tmp_path_factory.mktemp("queries"), *web(), rules=rules)
    orders = [{"kind": "seed", "url": url, "host": urls.host(url), "tag": tag, "topic": topic, "ordered_at": NOON}
              for url, tag, topic in SEEDS]  # fmt: skip
    crawl.lake.give(ORDERS.frame(orders))
    for _ in range(3):
        crawl.work(seconds=120)
        crawl.wait(2 * DAY)
    crawl.run(partial(_found, crawl))
    return crawl


async def _found(crawl: Crawl) -> None:
    duplicates.find(crawl.lake, crawl.rules, clock=lambda: crawl.now)


def table(connection: Any, sql: str) -> str:
    """What `crawl sql` prints."""
    printed = Console(file=StringIO(), width=WIDE, highlight=False, soft_wrap=True)
    display.rows(printed, corpus.read(connection, sql))
    return _bare(printed.file.getvalue())  # type: ignore[attr-defined]


def typed(crawl: Crawl, line: str) -> str:
    """What a command prints that stands after a `$ crawl `."""
    arguments = shlex.split(line.removeprefix("$ crawl "))
    done = CliRunner().invoke(main, ["--lake", crawl.lake.root, *arguments])
    assert done.exit_code == 0, done.output
    return _bare(done.stdout)


def _bare(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())


def test_every_query_of_the_page_gives_what_stands_below_it(crawl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(common.out, "width", WIDE)
    text = PAGE.read_text(encoding="utf-8")
    last = moments.of(crawl.lake, round=int(crawl.rows("rounds")["round"].max()))
    with reports.connect(last) as connection:
        now = {match["asked"]: table(connection, match["asked"]) if match["kind"] == "sql"
               else typed(crawl, match["asked"].strip()) for match in ASKED.finditer(text)}  # fmt: skip
    if os.environ.get("CRAWL_WRITE_DOCS"):
        told = ASKED.sub(
            lambda match: f"```{match['kind']}\n{match['asked']}```\n\n```text\n{now[match['asked']]}```", text
        )
        PAGE.write_text(told, encoding="utf-8")
        return

    assert len(now) >= 20
    assert {path.suffix for path in (tmp_path / "bodies").iterdir()} == {".html", ".csv"}
    for match in ASKED.finditer(text):
        assert now[match["asked"]] == match["shown"], match["asked"]
