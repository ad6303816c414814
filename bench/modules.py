"""What modules cost in CPU, per page: nothing when none is used; else the way to their process, and themselves.

The same pages go through the readers without modules, with one that does nothing, and with the copyright monitor. Only
CPU time counts, of this process and of all that it starts, so that the figures do not depend on how busy the machine
is; what starting the processes takes is measured by a run over one page, and taken off.
"""

import argparse
import resource
from collections.abc import Iterable
from dataclasses import dataclass

import trio

from bench.figures import report
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.bodies import Body, Result
from crawl_pipeline.fetch.reading import Readers
from crawl_pipeline.modules import Content, Declaration, Row
from crawl_pipeline.modules.loading import load
from crawl_pipeline.testing.sites import html, prose

TARGETS = [("monitored_times", "<=", 1.5)]
WAYS: dict[str, dict[str, object]] = {
    "none": {},
    "idle": {"use": ["bench.modules:Idle"]},
    "monitored": {
        "use": ["copyright_monitor"],
        "settings": {"copyright_monitor": {"phrases": ["all rights reserved", "example press"]}},
    },
}


@dataclass(frozen=True)
class Idle:
    """Wants every page and says nothing."""

    declares = Declaration("idle", "nothing", ("title",), ("text/html",))

    def read(self, content: Content) -> Iterable[Row]:
        """Nothing."""
        return ()


def cpu_s() -> float:
    """CPU time so far, of this process and of those that have ended."""
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(of.ru_utime + of.ru_stime for of in used)


def spent_s(bodies: list[Body], policy: Policy) -> float:
    """CPU time of reading the bodies, from starting the processes to their end."""
    left = len(bodies)
    done = trio.Event()

    def count(result: Result) -> None:
        nonlocal left
        assert not isinstance(result, str)
        left -= 1
        if not left:
            done.set()

    async def main() -> None:
        readers = Readers(policy, 1, load(policy))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(readers.run)
            for body in bodies:
                await readers.give(body, count)
            await done.wait()
            nursery.cancel_scope.cancel()

    before = cpu_s()
    trio.run(main)
    return cpu_s() - before


def per_page_ms(pages: int, words: int, turns: int) -> dict[str, float]:
    """Milliseconds of CPU per page, by way: the best of some turns."""
    links = [f"/{n}" for n in range(40)]
    bodies = [Body(f"http://a.test/{n}", "page", html(str(n), links, prose(str(n), words)).body, "text/html")
              for n in range(pages)]  # fmt: skip
    agent = {"name": "BenchBot", "contact": "https://bot.example/"}
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(turns):
        for way, modules in WAYS.items():
            policy = Policy.model_validate({"agent": agent, "parse": {"processes": 1}, "modules": modules})
            found[way].append((spent_s(bodies, policy) - spent_s(bodies[:1], policy)) / (pages - 1) * 1000)
    return {way: min(times) for way, times in found.items()}


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(prog="python -m bench.modules", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--words", type=int, default=1_500, help="of a page")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true", dest="as_json")
    asked = parser.parse_args()
    times = per_page_ms(asked.pages, asked.words, asked.turns)
    figures = {f"{way}_ms_per_page": value for way, value in times.items()}
    figures |= {f"{way}_times": times[way] / times["none"] for way in ("idle", "monitored")}
    report("modules", figures, TARGETS, {"pages": asked.pages, "words": asked.words}, as_json=asked.as_json)


if __name__ == "__main__":
    main()
