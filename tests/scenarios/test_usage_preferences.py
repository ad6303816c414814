"""A crawl records what each page's site prefers as to its use, and leaves out bodies if the policy says so."""

from dataclasses import replace

import pytest
from crawls import Crawl, policy

from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, html, plain, robots, routes

TEXT = "User-agent: *\nContent-Usage: /lines/ train-ai=n\nContent-Usage: /lines/open train-ai=y, search=y\n"


def said(answer: Answer, *usage: str, name: str = "content-usage") -> Answer:
    return replace(answer, headers=(*answer.headers, *((name, value) for value in usage)))


def crawled(tmp_path, **scope: object) -> dict[str, dict[str, object]]:
    pages = {
        "/lines/closed": html("Closed by a line"),
        "/lines/open": html("Opened by a line"),
        "/lines/both": said(html("Closed by a line, opened by its answer"), "train-ai=y", "ai-use=n"),
        "/header": said(html("Closed by its answer"), "search=y;x=1, train-ai=n"),
        "/broken": said(html("Not to be read"), "train-ai: n"),
        "/meta": said(
            html("In its head", head='<meta name="robots" content="NoAI, max-snippet:5"><meta name="x" content="y">'),
            "otherbot: noindex, unavailable_after: 25 Jun 2027 15:00:00 PST", "examplebot: noarchive",
            name="x-robots-tag",
        ),
    }  # fmt: skip
    home = {"/": html("Home", [*pages, "/text"]), "/text": plain("train-ai=n")}
    crawl = Crawl(tmp_path, Host("a.test", robots(routes(home | pages), TEXT)), rules=policy(scope=scope))
    crawl.seed("http://a.test/").work()
    crawl.check()
    return {row["url"].removeprefix("http://a.test"): row for row in crawl.documents().iter_rows(named=True)}


@pytest.mark.parametrize("no_training", ["record", "no_body"])
def test_every_page_says_how_its_site_prefers_it_to_be_used(tmp_path, no_training):
    pages = crawled(tmp_path, no_training=no_training)

    assert {path: row["usage"] for path, row in pages.items()} == {
        "/": None,
        "/lines/closed": "train-ai=n",
        "/lines/open": "search=y, train-ai=y",
        "/lines/both": "ai-use=n, train-ai=n",
        "/header": "search=y, train-ai=n",
        "/broken": None,
        "/meta": None,
    }
    assert {path for path, row in pages.items() if row["body"] is None and row["text"] is None} == (
        {"/lines/closed", "/lines/both", "/header"} if no_training == "no_body" else set()
    )
    assert all(row["text_hash"] for row in pages.values())


def test_what_a_page_says_to_robots_is_recorded_as_it_said_it(tmp_path):
    pages = crawled(tmp_path)

    assert pages["/meta"]["robots_directives"] == "noai, max-snippet:5, noarchive"
    assert pages["/"]["robots_directives"] is None
    assert not pages["/meta"]["noindex"]
