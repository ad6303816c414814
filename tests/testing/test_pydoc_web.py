"""The demo's web is as large as promised, and what it serves is what its truth says."""

import http.client
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

import httpx
import pytest
import trio
import trio.testing

from crawl_pipeline.testing import FakeWeb, Web, pydoc_pages, pydoc_web
from crawl_pipeline.testing.loopback_web import serving
from crawl_pipeline.testing.truth import Truth, truth


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    """Over the user's own cache of rendered pages: the first run on a machine renders them."""
    folder = pydoc_web.cache_folder()
    with pydoc_web.rendering(folder):
        yield pydoc_web.web(folder)


@pytest.fixture(scope="module")
def true(web: Web) -> Truth:
    return truth(web)


def links(text: str) -> list[str]:
    """By a regular expression, which will do for these pages and has nothing in common with any parser."""
    return re.findall(r'<a[^>]* href="([^"]*)"', text)


class Crawl:
    """A crawl that any textbook has: one page after the other, robots obeyed, the known trap left alone."""

    def __init__(self, web: Web) -> None:
        self.web, self.net = web, FakeWeb(*web.hosts)
        self.rules: dict[str, RobotFileParser] = {}
        self.pages: set[str] = set()
        self.refused: set[str] = set()

    async def run(self) -> None:
        seen, queue = set(self.web.seeds), list(self.web.seeds)
        for url in queue:
            found = [urldefrag(urljoin(url, href)).url for href in await self.visit(url)]
            new = dict.fromkeys(u for u in found if u.startswith("http://") and u not in seen)
            queue += [u for u in new if not any(trap.holds(u) for trap in self.web.traps)]
            seen.update(new)

    async def visit(self, url: str) -> list[str]:
        host = urlsplit(url).hostname or ""
        if host in self.web.unresolved:
            return []
        if host not in self.rules:
            answer = await self.get(f"http://{host}/robots.txt")
            self.rules[host] = RobotFileParser()
            self.rules[host].parse(answer.text.splitlines() if answer.status_code == 200 else [])
            self.rules[host].disallow_all = answer.status_code >= 500
        if not self.rules[host].can_fetch("crawler", url):
            self.refused.add(url)
            return []
        answer = await self.get(url)
        if "location" in answer.headers:
            return [answer.headers["location"]]
        if answer.status_code != 200 or "html" not in answer.headers["content-type"]:
            return []
        if len(answer.content) <= self.web.page_bytes:
            self.pages.add(url)
        return links(answer.text)

    async def get(self, url: str) -> httpx.Response:
        while True:
            answer = await self.net.handle_async_request(httpx.Request("GET", url))
            await answer.aread()
            if answer.status_code != 503:
                return answer
            await trio.sleep(float(answer.headers["retry-after"]))


@pytest.fixture(scope="module")
def crawl(web: Web, true: Truth) -> Crawl:
    crawl = Crawl(web)
    trio.run(crawl.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return crawl


def test_there_are_650_pages_on_24_hosts(true: Truth):
    counts = Counter(urlsplit(url).hostname for url in true.pages)
    assert len(true.pages) >= 650
    assert sum(count >= 5 for count in counts.values()) >= 24


def test_a_plain_crawl_finds_exactly_the_pages_of_the_truth(crawl: Crawl, true: Truth):
    assert crawl.pages == true.pages


def test_a_plain_crawl_is_refused_exactly_what_the_truth_forbids(crawl: Crawl, true: Truth):
    assert crawl.refused == true.forbidden
    assert true.forbidden


def test_a_busy_host_answers_503_at_first_and_then_works(crawl: Crawl):
    ((host, (requests, _)),) = pydoc_web.BUSY.items()
    told = [row.status for row in crawl.net.asked(host) if row.path != "/robots.txt"]
    assert told[:requests] == [503] * requests
    assert 503 not in told[requests:]


def test_a_page_is_found_only_through_the_sitemap(true: Truth):
    assert {urlsplit(url).path for url in true.by_sitemap_only} == {"/only-in-sitemap.html"}
    assert not true.by_sitemap_only & true.pages


def test_every_trouble_of_the_tables_is_linked_to(true: Truth):
    assert {"unresolved", "404", "301", "302", "application/pdf", "too large"} == set(true.others.values())
    assert {urlsplit(url).path for url in true.noindex} == {"/printable.html"}
    assert {"http://shut.test/", "http://anyio.test/private/notes.html"} <= true.forbidden


def test_a_mirror_has_the_same_bytes_under_another_name(crawl: Crawl, true: Truth):
    async def main() -> list[tuple[bytes, bytes]]:
        pairs = [(copy, own) for copy, own in true.mirrors.items() if not copy.endswith(".test/")]
        return [((await crawl.get(copy)).content, (await crawl.get(own)).content) for copy, own in pairs]

    pairs = trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert len(pairs) >= 10
    assert all(copy == own for copy, own in pairs)


def test_no_link_leads_out_of_the_web(web: Web, true: Truth):
    hosts = {host.name for host in web.hosts} | set(web.unresolved)
    assert {urlsplit(url).hostname for url in {*true.pages, *true.others, *true.forbidden}} <= hosts


def test_pages_carry_the_port_they_are_served_under(web: Web, true: Truth, tmp_path: Path):
    with serving(web, log=tmp_path / "log") as served:
        line = http.client.HTTPConnection(served.hosts["json.test"][0], served.port, timeout=10)
        line.request("GET", "/csv.html", headers={"Host": f"json.test:{served.port}"})
        body = line.getresponse().read().decode()
        line.close()
    leading_out = [href for href in links(body) if href.startswith("http://")]
    assert leading_out
    assert all(f".test:{served.port}/" in href for href in leading_out)


def test_a_page_is_rendered_the_same_way_twice():
    owner = pydoc_pages.modules()
    assert pydoc_pages.render("json.decoder", owner) == pydoc_pages.render("json.decoder", owner)
