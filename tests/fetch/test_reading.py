"""Reading in processes gives what reading here gives, and a page that hangs or kills costs only itself."""

import os
import signal
import time
from dataclasses import dataclass, replace

import pytest
import trio

from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch import reading
from crawl_pipeline.fetch.bodies import Body, ReadPage, Result
from crawl_pipeline.fetch.reading import Readers, ReadingRules, read, read_all
from crawl_pipeline.testing.sites import html, prose

BUCKETS = 4


def policy(**parse: object) -> Policy:
    agent = {"name": "ExampleBot", "contact": "https://example.org/"}
    return Policy.model_validate({"agent": agent, "parse": {"processes": 1, "seconds": 60.0} | parse})


RULES = ReadingRules.of(policy(), BUCKETS)


def page(number: int) -> Body:
    found = html(f"Page {number}", [f"/{number}/{n}" for n in range(5)], prose(str(number)))
    return Body(f"http://a.test/{number}", "page", found.body, "text/html")


# Bodies that hurt whoever reads them: pickled whole, they act where they are read.


@dataclass(frozen=True, slots=True)
class Hangs:
    """A body that never gets read."""

    cause: str = "page"

    def __getattr__(self, name: str) -> object:
        time.sleep(3_600)
        raise AttributeError(name)


@dataclass(frozen=True, slots=True)
class Kills:
    """A body that crashes its reader natively."""

    cause: str = "page"

    def __getattr__(self, name: str) -> object:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AttributeError(name)


def read_apart(bodies: list[object], rules: Policy) -> list[Result]:
    """Have the bodies read in worker processes, and give the results in the order of the bodies."""
    results: dict[int, Result] = {}

    async def main() -> None:
        readers = Readers(rules, BUCKETS)
        done = trio.Event()

        def keep(place: int, result: Result) -> None:
            results[place] = result
            if len(results) == len(bodies):
                done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run)
            for place, body in enumerate(bodies):
                await readers.give(body, lambda result, place=place: keep(place, result))
            await done.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    return [results[place] for place in range(len(bodies))]


def test_reading_in_processes_gives_what_reading_here_gives_in_order():
    bodies = [page(n) for n in range(20)]

    assert read_apart(bodies, policy(batch_pages=8)) == read_all(bodies, RULES)


def test_a_page_that_hangs_costs_only_itself():
    results = read_apart([page(0), Hangs(), page(1)], policy(seconds=5.0))

    assert results == [read(page(0), RULES), "not read within 5 s", read(page(1), RULES)]


def test_a_page_that_kills_its_process_costs_only_itself():
    results = read_apart([page(0), Kills(), page(1)], policy())

    assert results == [read(page(0), RULES), "reading it killed its process", read(page(1), RULES)]


def test_readers_go_on_after_pages_that_hurt():
    bodies = [Kills(), Kills(), *(page(n) for n in range(4))]

    assert read_apart(bodies, policy(batch_pages=2))[2:] == [read(page(n), RULES) for n in range(4)]


# What reading gives.


def test_links_have_hash_host_and_bucket():
    body = Body("http://a.test/", "page", html("x", ["/1#top", "http://sub.b.test/2", "mailto:x@a.test"]).body, None)

    links = read(body, RULES).links

    assert links.urls == ("http://a.test/1", "http://sub.b.test/2")
    assert links.hashes == tuple(map(urls.url_hash, links.urls))
    assert links.hosts == ("a.test", "sub.b.test")
    assert links.buckets == tuple(urls.bucket(name, BUCKETS) for name in ("a.test", "b.test"))


def test_a_page_that_says_nofollow_says_it_of_every_link():
    body = Body("http://a.test/", "page", html("x", ["/1", "/2"]).body, "text/html", ("nofollow",))

    found = read(body, RULES)

    assert found.nofollow
    assert found.links.nofollow == (True, True)


def test_the_same_text_in_another_dress_has_the_same_text_hash_only():
    one, other = (read(Body("http://a.test/", "page", body, "text/html"), RULES)
                  for body in (b"<p>same words</p>", b"<div class=x>same   words</div>"))  # fmt: skip

    assert one.text_hash == other.text_hash
    assert one.body_hash != other.body_hash


REMEMBERING, FORGETTING = (replace(RULES, remembered=most) for most in (2, 0))


def page_of(url: str, *hrefs: str, tags: tuple[str, ...] = ()) -> Body:
    return Body(url, "page", html("copied", hrefs).body, "text/html", tags)


def test_a_copy_in_the_same_folder_is_not_parsed_again():
    first = read(page_of("http://a.test/x/1?sid=1", "y", "/z"), REMEMBERING)

    assert read(page_of("http://a.test/x/2?sid=2", "y", "/z"), REMEMBERING) is first


@pytest.mark.parametrize(
    "other",
    [
        page_of("http://a.test/1", "y", "/z"),
        page_of("http://b.test/x/1", "y", "/z"),
        page_of("http://a.test/x/1", "y", "/z", tags=("nofollow",)),
        replace(page_of("http://a.test/x/1", "y", "/z"), content_type="text/html; charset=koi8-r"),
    ],
)
def test_what_differs_in_anything_that_reading_depends_on_is_read_for_itself(other):
    read(page_of("http://a.test/x/0", "y", "/z"), REMEMBERING)

    assert read(other, REMEMBERING) == read(other, FORGETTING)


def test_only_the_pages_wanted_last_are_remembered():
    kept, lost = (page_of(f"http://lru.test/{n}", f"/{n}") for n in "kl")
    first, second = read(kept, REMEMBERING), read(lost, REMEMBERING)
    assert read(kept, REMEMBERING) is first
    read(page_of("http://lru.test/n", "/n"), REMEMBERING)

    assert read(kept, REMEMBERING) is first
    assert read(lost, REMEMBERING) is not second
    assert read(lost, FORGETTING) == second


SITEMAP = (
    '<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<url><loc>http://www.a.test/1</loc><lastmod>2026-01-02</lastmod></url>"
    "<url><loc>http://b.test/2</loc></url></urlset>"
)


def test_a_sitemap_lists_pages_of_its_own_site_only():
    found = read(Body("http://a.test/map", "sitemap", SITEMAP.encode(), "text/html"), RULES)

    assert found.links.urls == ("http://www.a.test/1",)
    assert found.links.kinds == ("listed",)
    assert found.links.lastmod_at[0].year == 2026
    assert found.body_hash is None


@pytest.mark.parametrize(
    "body",
    [
        Body("http://a.test/", "page", b"x" * 5_000_000, "text/html"),
        Body("http://a.test/", "page", b"<div>" * 20_000, "text/html"),
    ],
)
def test_what_cannot_be_read_within_the_limits_has_a_reason(body):
    assert isinstance(read(body, RULES), str)


def test_a_fault_of_our_own_costs_its_page_and_says_so():
    broken = Body("not a url", "sitemap", SITEMAP.encode(), None)

    found = read_all([page(0), broken, page(1)], RULES)

    assert [type(one) for one in found] == [ReadPage, str, ReadPage]
    assert "our reader failed" in found[1]


def test_what_travels_to_a_process_with_a_batch_is_small():
    assert set(reading.ReadingRules.__dataclass_fields__) == {
        "agent", "buckets", "limits", "images", "endings", "remembered",
    }  # fmt: skip
