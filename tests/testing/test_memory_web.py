"""The web in memory keeps Trio's time, answers as told, and remembers who asked for what, and when."""

import re

import httpx
import pytest
import trio
import trio.testing

from crawl_pipeline.testing import FakeWeb, Host, site
from crawl_pipeline.testing.shapes import SHAPES, soft_404
from crawl_pipeline.testing.sites import (
    always,
    at_first,
    failing,
    html,
    plain,
    redirect,
    robots,
    slow,
    throttled,
    tree,
    unavailable,
    validated,
)


def on_mock_clock(main):
    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def get(web: FakeWeb, url: str, **headers: str) -> httpx.Response:
    request = httpx.Request("GET", url, headers={k.replace("_", "-"): v for k, v in headers.items()})
    response = await web.handle_async_request(request)
    await response.aread()
    return response


def test_a_tree_of_pages_is_reached_from_its_root():
    web = FakeWeb(site("a.test", pages=7))

    async def main():
        found, queue = set(), ["/"]
        while queue:
            path = queue.pop()
            found.add(path)
            queue += re.findall(r'href="([^"]+)"', (await get(web, f"http://a.test{path}")).text)
        return found

    assert on_mock_clock(main) == {"/", "/1", "/2", "/3", "/4", "/5", "/6"}


def test_gaps_are_counted_from_start_to_start_and_rests_from_end_to_start():
    web = FakeWeb(site("a.test", first_byte_s=2))

    async def main():
        await get(web, "http://a.test/")
        await trio.sleep(8)
        await get(web, "http://a.test/1")

    on_mock_clock(main)
    assert web.gaps_s("a.test") == [10]
    assert web.rests_s("a.test") == [8]
    assert web.paths("a.test") == ["/", "/1"]
    assert web.count("http://a.test/1") == 1


def test_requests_that_overlap_are_found():
    web = FakeWeb(site("a.test", first_byte_s=2), site("b.test", first_byte_s=2))

    async def main():
        async with trio.open_nursery() as nursery:
            for url in ("http://a.test/", "http://a.test/1", "http://b.test/"):
                nursery.start_soon(get, web, url)

    on_mock_clock(main)
    assert [(a.path, b.path) for a, b in web.overlaps("a.test")] in ([("/", "/1")], [("/1", "/")])
    assert web.overlaps("b.test") == []


def test_a_request_lasts_until_its_body_is_read():
    web = FakeWeb(Host("a.test", slow(always(plain("abcd")), drip_s=3, piece_bytes=1)))
    on_mock_clock(lambda: get(web, "http://a.test/"))
    (row,) = web.log
    assert row.ended - row.started == 9


def test_robots_txt_carries_the_delay_and_the_rules():
    web = FakeWeb(site("a.test", crawl_delay_s=10, disallow=["/private/"]))
    answer = on_mock_clock(lambda: get(web, "http://a.test/robots.txt"))
    assert answer.text == "User-agent: *\nDisallow: /private/\nCrawl-delay: 10\n"


def test_early_trouble_passes_after_its_requests_and_robots_txt_does_not_count():
    web = FakeWeb(Host("a.test", robots(at_first(tree(3), unavailable(5), requests=2), "User-agent: *\n")))

    async def main():
        urls = ["http://a.test/robots.txt", *["http://a.test/"] * 3]
        return [(await get(web, url)).status_code for url in urls]

    assert on_mock_clock(main) == [200, 503, 503, 200]


def test_early_trouble_passes_after_its_time():
    web = FakeWeb(Host("a.test", at_first(tree(3), throttled(60), seconds=60)))

    async def main():
        first = await get(web, "http://a.test/")
        await trio.sleep(60)
        return first, await get(web, "http://a.test/")

    first, second = on_mock_clock(main)
    assert (first.status_code, first.headers["retry-after"], second.status_code) == (429, "60", 200)


def test_a_failure_is_raised_and_stands_in_the_log_without_a_status():
    web = FakeWeb(site("a.test", pages={"/": failing(httpx.ReadTimeout)}))
    with pytest.raises(httpx.ReadTimeout):
        on_mock_clock(lambda: get(web, "http://a.test/"))
    assert [row.status for row in web.log] == [None]


def test_a_host_that_is_not_there_does_not_resolve():
    with pytest.raises(httpx.ConnectError, match="does not resolve"):
        on_mock_clock(lambda: get(FakeWeb(), "http://nobody.test/"))


def test_a_redirect_names_its_target():
    web = FakeWeb(site("a.test", pages={"/old": redirect("/new", 302)}))
    answer = on_mock_clock(lambda: get(web, "http://a.test/old"))
    assert (answer.status_code, answer.headers["location"]) == (302, "/new")


def test_a_page_with_a_validator_is_sent_once():
    web = FakeWeb(Host("a.test", validated(always(html("Same")))))

    async def main():
        first = await get(web, "http://a.test/")
        return first, await get(web, "http://a.test/", if_none_match=first.headers["etag"])

    first, second = on_mock_clock(main)
    assert (first.status_code, second.status_code, second.content) == (200, 304, b"")


def test_a_site_with_soft_404_has_no_missing_page():
    web = FakeWeb(Host("a.test", soft_404(tree(3))))
    assert on_mock_clock(lambda: get(web, "http://a.test/nothing")).status_code == 200


@pytest.mark.parametrize("shape", SHAPES)
def test_a_trap_has_no_end(shape: str):
    web = FakeWeb(Host("trap.test", SHAPES[shape]()))

    async def main():
        seen, queue = {"/"}, ["/"]
        while queue and len(seen) < 300:
            answer = await get(web, f"http://trap.test{queue.pop()}")
            found = re.findall(r'href="([^"]+)"', answer.text.replace("&amp;", "&"))
            found += [answer.headers["location"]] if "location" in answer.headers else []
            queue += [href for href in found if href not in seen]
            seen.update(found)
        return len(seen)

    assert on_mock_clock(main) >= 300
