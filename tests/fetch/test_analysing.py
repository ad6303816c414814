"""A module that hurts costs its own result and nothing else: real processes, real deadlines, real kills."""

from dataclasses import replace

import pytest
import trio

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import PAGES
from crawl_pipeline.fetch.bodies import Body, ReadPage
from crawl_pipeline.fetch.reading import Readers, ReadingRules, read
from crawl_pipeline.modules.calling import Told
from crawl_pipeline.modules.loading import load
from crawl_pipeline.testing.sites import html, prose
from tests.modules.hurtful import SECONDS

BUCKETS = 4
HURTFUL = "tests.modules.hurtful:Hurtful"
ROUND = "tests.modules.hurtful:HurtfulRound"
LATE = f"not done within {SECONDS:g} s"
DIED = "it killed its process"
HURT = {"busy": LATE, "sleeps": LATE, "deaf": LATE, "dies": DIED,
        "eats-memory": "it took over 300000000 bytes of memory", "raises": "LookupError: no such thing",
        "says-what-cannot-be-sent": "expected Int64"}  # fmt: skip
"""What a module does and what is told of it; all that needs no process is in tests/modules/test_calling.py."""


def policy(name: str = HURTFUL, strikes: int = 100, **settings: str) -> Policy:
    return Policy.model_validate(
        {
            "agent": {"name": "ExampleBot", "contact": "https://example.org/"},
            "parse": {"processes": 1, "seconds": 60.0, "batch_pages": 4},
            "modules": {"use": [name], "settings": {name: settings}, "strikes": strikes},
        }
    )


def page(path: str) -> Body:
    return Body(f"http://a.test/{path}", "page", html(path, [], prose(path)).body, "text/html")


def read_apart(paths: list[str], rules: Policy) -> list[ReadPage]:
    """Have pages read in worker processes and shown to modules in others; results in the order of the pages."""
    results: dict[int, ReadPage] = {}

    async def main() -> None:
        readers = Readers(rules, BUCKETS, load(rules))
        done = trio.Event()

        def keep(place: int, result: ReadPage) -> None:
            results[place] = result
            if len(results) == len(paths):
                done.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run)
            for place, path in enumerate(paths):
                await readers.give(page(path), lambda result, place=place: keep(place, result))
            await done.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    return [results[place] for place in range(len(paths))]


def of_round(deed: str) -> tuple[Told, Told]:
    """What a module told of a round, and what it told of the next one."""

    async def main() -> tuple[Told, Told]:
        rules = policy(ROUND, deed=deed)
        readers = Readers(rules, BUCKETS, load(rules))
        pages = PAGES.frame([{"url_hash": 7, "title": "seven", "content_type": "text/html; charset=utf-8"},
                             {"url_hash": 8, "title": "eight", "content_type": "text/plain"}])  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run)
            (told,) = await readers.of_round({"pages": pages})
            (again,) = await readers.of_round({"pages": pages})
            nursery.cancel_scope.cancel()
        return told, again

    return trio.run(main)


def test_a_module_that_hurts_costs_its_result_of_that_page_alone():
    paths = [path for number, deed in enumerate(HURT) for path in (f"before-{number}", deed)]
    rules = ReadingRules.of(policy(), BUCKETS)

    found = read_apart([*paths, "last"], policy())

    assert [replace(one, told=()) for one in found] == [read(page(path), rules) for path in [*paths, "last"]]
    for path, one in zip([*paths, "last"], found, strict=True):
        (told,) = one.told
        if path in HURT:
            assert (told.rows, (told.failure or "")[: len(HURT[path])]) == (None, HURT[path])
        else:
            assert told.rows is not None, (path, told)
            assert told.rows["letters"].to_list() == [len(one.text)]


def test_a_module_that_forks_is_heard_once_and_holds_up_nobody():
    paths = ["forks", "one", "forks-and-stays", "two", "forks", "dies", "three"]

    found = read_apart(paths, policy())

    assert [one.told[0].failure for one in found] == [None, None, None, None, None, DIED, None]
    assert [one.told[0].rows["letters"].item() for one in found[:5:2]] == [1, 1, 1]
    assert found[-1].told[0].rows["letters"].to_list() == [len(found[-1].text)]


def test_a_module_that_hangs_or_dies_again_and_again_is_called_no_more():
    found = read_apart(["dies", "sleeps", "one", "two"], policy(strikes=2))

    assert [one.told[0].failure for one in found[2:]] == ["called no more: it hung or died 2 times in a row"] * 2
    assert all(one.text for one in found)


def test_a_module_is_shown_the_pages_of_its_types_in_a_round():
    told, again = of_round("well")

    assert told.rows.rows() == again.rows.rows() == [(7, "seven", 1)]


@pytest.mark.parametrize(
    ("deed", "reason"), [("sleeps", LATE), ("dies", DIED), ("strangers", "1 rows are not about pages of the round")]
)
def test_a_module_that_hurts_in_a_round_costs_its_result_alone(deed, reason):
    told, again = of_round(deed)

    assert told.failure.startswith(reason)
    assert again.failure.startswith(reason)
