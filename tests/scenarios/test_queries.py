"""Every query of docs/queries.md runs, on one small lake, and prints what the page says it prints.

With CRAWL_WRITE_DOCS=1 the page's outputs are written anew instead.
"""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from crawls import DAY, Crawl, policy

from crawl_pipeline import moments, reports
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import html, prose, robots, robots_text, routes

PAGE = Path(__file__).parents[2] / "docs" / "queries.md"
QUERY = re.compile(r"```sql\n(?P<sql>.*?)```\n\n```text\n(?P<shown>.*?)```", re.S)


def web() -> tuple[Host, ...]:
    """A manual with a page that changes, one that is gone, one that is forbidden, and a mirror of its guide."""

    def news(request: Any) -> Any:
        return html("News", text=prose(f"news {request.nth_here}", 80))

    guide = html("Guide", text=prose("guide", 90))
    home = html("Manual", ["/guide", "/news", "/old", "/private/notes", "http://mirror.test/"], prose("manual", 60))
    manual = routes({"/": home, "/guide": guide, "/news": news})
    mirror = routes({"/": html("Mirror", ["/guide"], prose("mirror", 40)), "/guide": guide})
    return (Host("manual.test", robots(manual, robots_text(["/private/"]))), Host("mirror.test", robots(mirror, "")))


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    rules = policy(recrawl={"first_s": DAY, "shortest_s": DAY}, round={"seconds": 30.0})
    crawl = Crawl(tmp_path_factory.mktemp("queries"), *web(), rules=rules)
    crawl.seed("http://manual.test/", "http://mirror.test/")
    for _ in range(3):
        crawl.work(seconds=120)
        crawl.wait(2 * DAY)
    return crawl


def table(connection: Any, sql: str) -> str:
    """Columns of text; times without what is below a second."""
    found = connection.sql(sql)
    rows = [[shown(value) for value in row] for row in found.fetchall()]
    lines = [list(found.columns), *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(found.columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
                     for line in lines) + "\n"  # fmt: skip


def shown(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)


def test_every_query_of_the_page_gives_what_stands_below_it(crawl):
    text = PAGE.read_text(encoding="utf-8")
    last = moments.of(crawl.lake, round=int(crawl.rows("rounds")["round"].max()))
    with reports.connect(last) as connection:
        now = {match["sql"]: table(connection, match["sql"]) for match in QUERY.finditer(text)}
    if os.environ.get("CRAWL_WRITE_DOCS"):
        told = QUERY.sub(lambda match: f"```sql\n{match['sql']}```\n\n```text\n{now[match['sql']]}```", text)
        PAGE.write_text(told, encoding="utf-8")
        return

    assert len(now) >= 10
    for match in QUERY.finditer(text):
        assert now[match["sql"]] == match["shown"], match["sql"]
