"""The view `unfetched`: every URL without a stored page is there once, with the reason in words."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from crawls import NOON, Crawl, policy

from crawl_pipeline import corpus
from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import FRONTIER, HOSTS, ROUNDS
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import site
from crawl_pipeline.testing.sites import Answer, Host, html, plain, redirect, robots, robots_text, routes
from crawl_pipeline.views import VIEWS

SOON = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
URL = "http://a.test/x"


def unfetched(lake: Lake) -> dict[str, tuple[Any, ...]]:
    """Reason, whether known, since and until, by URL; each URL may stand there once."""
    rows = corpus.query(lake, "select url, reason, known, since_at, until_at from unfetched").rows()
    assert len({row[0] for row in rows}) == len(rows)
    return {row[0]: row[1:] for row in rows}


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """A site with every kind of URL that gives no page, and hosts that are paused, unreachable, out of scope."""
    down = Answer(500, (("content-type", "text/html"),), b"")
    links = ["/1", "/secret", "/lost", "/file", "/moved", "/down", "http://far.test/", "/deep/a/1", "/2?skip=1"]
    pages = routes({
        "/": html("Home", links), "/1": html("One"), "/lost": plain("x", 404), "/down": down,
        "/file": plain("x", content_type="image/x"), "/moved": redirect("/1"),
        "/map.xml": plain("<urlset/>", content_type="application/xml"),
    })  # fmt: skip
    a = Host("a.test", robots(pages, robots_text(["/secret"], sitemaps=["http://a.test/map.xml"])))
    crawl = Crawl(tmp_path_factory.mktemp("unfetched"), a, site("p.test", pages=2),
                  rules=policy(scope={"exclude": ["*skip=*"]}, budget={"path_depth": 2}))  # fmt: skip
    crawl.seed("http://a.test/", "http://p.test/", "http://nowhere.test/").order("pause", "p.test").work(seconds=58)
    return crawl


def test_each_url_without_a_page_stands_there_with_its_reason(crawl):
    reasons = {url: row[0] for url, row in unfetched(crawl.lake).items()}

    assert reasons.pop("http://nowhere.test/").startswith("robots.txt unreachable")
    assert reasons.pop("http://a.test/down") == "failed 1 time, at last: 5xx"
    assert reasons == {
        "http://a.test/secret": "refused: robots.txt forbids it; not asked (Disallow: /secret)",
        "http://a.test/lost": "gone: 404 or 410 (the body is not wanted)",
        "http://a.test/file": "unfit: a media type the policy does not read (the body is not wanted)",
        "http://a.test/moved": "redirected: 3xx: the target became a link",
        "http://a.test/map.xml": "a sitemap: read for its links, not stored",
        "http://p.test/": "host paused",
        "http://far.test/": "refused at admission",
        "http://a.test/deep/a/1": "refused at admission",
        "http://a.test/2?skip=1": "refused at admission",
    }


def test_it_is_the_rest_of_all_urls_when_those_with_a_page_are_left_out(crawl):
    rows = unfetched(crawl.lake)
    known = {url for url, row in rows.items() if row[1]}

    assert known == set(crawl.rows("frontier")["url"]) - set(crawl.rows("pages")["url"])
    assert set(rows) - known == set(crawl.rows("links")["url"]) - set(crawl.rows("frontier")["url"])


def test_since_and_until_are_told(crawl):
    rows = unfetched(crawl.lake)

    assert rows["http://p.test/"][2:] == (NOON, None)
    assert rows["http://a.test/secret"][3] == NOON + timedelta(days=1)
    assert NOON < rows["http://a.test/down"][2] < rows["http://a.test/down"][3]
    assert rows["http://far.test/"][2] > NOON


def test_the_view_has_the_columns_it_explains(crawl):
    assert corpus.query(crawl.lake, "from unfetched limit 0").columns == list(VIEWS[0].columns)


CLOSED = {"origin": "http://a.test", "robots_id": 1, "state": "disallow_all", "expires_at": SOON}


@pytest.mark.parametrize(
    ("url", "host", "reason", "until"),
    [
        ({}, {}, "waits for its first turn", NOON),
        ({}, {"next_allowed_at": SOON}, "host waits", SOON),
        ({}, {"next_allowed_at": SOON, "backoff_s": 8.0}, "host backing off", SOON),
        ({}, {"next_allowed_at": LONG_AGO, "backoff_s": 8.0}, "waits for its first turn", NOON),
        ({}, {"robots": [CLOSED]}, "robots.txt unreachable", SOON),
        ({}, {"robots": [CLOSED, CLOSED | {"state": "rules"}]}, "waits for its first turn", NOON),
        ({}, {"robots": [CLOSED | {"expires_at": LONG_AGO}]}, "waits for its first turn", NOON),
        ({"outcome": "carried"}, {}, "waits for its turn: the round ended before its turn; not asked", NOON),
        ({"outcome": "timeout", "attempts": 2, "due_at": SOON}, {},
         "failed 2 times, at last: no complete answer in time", SOON),
        ({"outcome": "timeout", "attempts": 5, "status": "dead", "due_at": None}, {},
         "dead: failed 5 times, at last: no complete answer in time", None),
        ({"status": "forgotten", "due_at": None}, {}, "forgotten", None),
    ],
)  # fmt: skip
def test_what_a_host_or_a_failure_holds_up_is_told(tmp_path, url, host, reason, until):
    lake = Lake.create(str(tmp_path / "lake"), 1)
    lease = lake.claim([0], "w", NOON, 600)
    row = {"bucket": 0, "url": URL, "url_hash": urls.url_hash(URL), "host": "a.test", "status": "waiting",
           "found_at": NOON, "due_at": NOON, "attempts": 0, "kind": "link"} | url  # fmt: skip
    calm = {"bucket": 0, "host": "a.test", "paused": False, "backoff_s": 0.0} | host
    lake.write(lease, "frontier", FRONTIER.frame([row]).drop("round", "layer"))
    lake.write(lease, "hosts", HOSTS.frame([calm]).drop("round", "layer"))
    lake.commit(lease, ROUNDS.frame([{"bucket": 0, "ended_at": NOON}]).drop("round"))

    assert unfetched(lake)[URL] == (reason, True, NOON, until)
