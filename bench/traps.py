"""Traps and good sites, labelled: what a crawl makes of fifteen kinds of trap beside good sites that look like them.

The product's own rounds crawl a web in memory, on a clock that jumps, into a real lake in a folder that is deleted. The
web's own log is the judge. A second run without traps, and with nothing done about patterns, says which good pages
there are to fetch (`--no-baseline`: all that the web has, which is what that run fetches).
"""

import argparse
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import trio
from trio.testing import MockClock

from bench.figures import report
from crawl_pipeline import ordering, rounds
from crawl_pipeline.core import traps
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.reading import InlineReaders
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import FakeWeb
from crawl_pipeline.testing.held_out_web import held_out
from crawl_pipeline.testing.trap_web import Labelled, LabelledWeb, web

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REPEATS = "repeats"


def policy(stranger_urls: int, **sections: Any) -> Policy:
    """The defaults, but for a fixed budget for sites that no seed names, which by default grows with what they say."""
    given: dict[str, Any] = {
        "agent": {"name": "ExampleBot", "contact": "https://example.org/"},
        "fetch": {"wire_mb": 0.3},
        "scope": {"follow": "everywhere", "depth": 1_000},
        "budget": {"trust_first": stranger_urls, "trust_first_share": 0.0, "trust_growth": 0.0},
    }
    return Policy.model_validate(given | sections)


@dataclass(frozen=True, slots=True)
class Crawled:
    """What a crawl asked for, in the web's log, and its patterns."""

    asked: list[str]
    patterns: pl.DataFrame
    frontier: pl.DataFrame
    stopped: str
    cpu_s: float

    def of(self, trap: Labelled) -> int:
        """Requests for the URLs of a trap."""
        return sum(map(trap.holds, self.asked))


def crawl(
    labelled: LabelledWeb, rules: Policy, seconds: float, tell: Callable[[int], None] = lambda n: None
) -> Crawled:
    """Crawl until nothing is due, or the time on the web's clock is over."""
    began, fetched = time.process_time(), Counter[str]()

    def done(one: rounds.Done) -> None:
        fetched.update(pages=int(one.rows["page_count"].sum()))
        tell(fetched["pages"])

    with tempfile.TemporaryDirectory() as folder:
        lake = Lake.create(str(Path(folder) / "lake"), 4)
        fake = FakeWeb(*labelled.hosts)
        ordering.seed(lake, labelled.seeds, tag=None, now=NOON)
        outside = rounds.Outside(fake, InlineReaders(rules, lake.buckets), _inline)

        async def main() -> rounds.Worked:
            return await rounds.work(
                lake, rules, outside, buckets=range(lake.buckets), worker="bench", seconds=seconds, now=NOON, tell=done
            )

        worked = trio.run(main, clock=MockClock(autojump_threshold=0))
        patterns = lake.scan("patterns").collect()
        frontier = lake.scan("frontier").select("host", "url").collect()
    asked = [f"http://{row.host}{row.path}" for row in fake.log if row.path != "/robots.txt"]
    return Crawled(asked, patterns, frontier, worked.stopped, time.process_time() - began)


async def _inline(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


def figures(labelled: LabelledWeb, crawled: Crawled, reachable: frozenset[str]) -> dict[str, float | None]:
    """The bars of the labels."""
    fetched = frozenset(crawled.asked)
    each = {trap: crawled.of(trap) for trap in labelled.traps}
    repeats = [count for trap, count in each.items() if trap.ends_by == REPEATS]
    held = held_good(labelled, crawled)
    return {
        "good_recall": len(fetched & reachable) / len(reachable),
        "trap_share": sum(each.values()) / len(crawled.asked),
        "max_fetches_per_trap_pattern": max(repeats, default=0),
        "good_patterns_blocked": held[traps.BLOCKED], "good_patterns_throttled": held[traps.THROTTLED],
        "fetches": len(crawled.asked), "good_pages": len(reachable), "trap_kinds": len(each),
        "mazes_fetches": sum(count for trap, count in each.items() if trap.ends_by == "budget"),
        "cpu_s": crawled.cpu_s,
    }  # fmt: skip


def unfinished(labelled: LabelledWeb, crawled: Crawled, reachable: frozenset[str]) -> list[tuple[str, int, int, str]]:
    """Hosts with good pages that were not fetched: how many, how many of them are known, and the trap beside them."""
    missing = reachable - frozenset(crawled.asked)
    known = missing & frozenset(crawled.frontier["url"])
    hosts, waiting = (Counter(url.split("/")[2] for url in urls) for urls in (missing, known))
    beside = {host: trap.name for host in hosts for trap in labelled.traps if trap.pattern.find(re.escape(host)) >= 0}
    return [(host, count, waiting[host], beside.get(host, "no trap")) for host, count in hosts.most_common()]


def held_good(labelled: LabelledWeb, crawled: Crawled) -> Counter[str]:
    """Patterns by action that hold a good page."""
    counts = Counter[str]()
    good = _by_host(labelled.good)
    for row in crawled.patterns.filter(pl.col("action").is_in([traps.THROTTLED, traps.BLOCKED])).iter_rows(named=True):
        fits = re.compile(_as_regex(row["pattern"]))
        counts[row["action"]] += any(fits.fullmatch(target) for target in good.get(row["host"], ()))
    return counts


def _by_host(urls: frozenset[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for url in urls:
        host, _, target = url.removeprefix("http://").partition("/")
        found.setdefault(host, []).append(f"/{target}")
    return found


def _as_regex(pattern: str) -> str:
    """The targets of a pattern, by its words: names of parameters in any order are not needed here."""
    path, _, names = pattern.partition("?")
    classes = {"{int}": r"\d+", "{slug}": "[^/?]+", "{hex}": "[0-9a-f-]+", "{mixed}": "[^/?]+", "{date}": r"[\d-]+"}
    parts = "".join(classes.get(part, re.escape(part)) for part in re.split(r"(\{\w+\})", path))
    return parts + (r"\?" + "&".join(f"{re.escape(name)}=[^&]*" for name in names.split("&")) if names else "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Crawl, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=40)
    parser.add_argument("--pages", type=int, default=600, help="of each good site, about")
    parser.add_argument("--stranger-urls", type=int, default=20, help="budget of a site that no seed names")
    parser.add_argument("--baseline", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--held-out", action="store_true", help="a web in other words, which was not looked at")
    parser.add_argument(
        "--hours", type=float, help="on the web's clock, at most; default: enough for a host that answers"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    of = held_out if options.held_out else web
    labelled = of(options.sites, options.pages)
    seconds = 3_600 * options.hours if options.hours else 2.5 * options.pages + 1_200
    reachable = labelled.good
    if options.baseline:
        calm = crawl(of(options.sites, options.pages, traps=False),
                     policy(options.stranger_urls, traps={"act": "record"}), seconds)  # fmt: skip
        reachable = reachable & frozenset(calm.asked)
    crawled = crawl(labelled, policy(options.stranger_urls), seconds)
    for trap in labelled.traps:
        print(f"  {trap.name:<12} ends by {trap.ends_by:<10} {crawled.of(trap):>6} fetches")
    for host, left, known, beside in unfinished(labelled, crawled, reachable):
        print(f"  unfinished: {host} lacks {left} good pages, of which {known} are known and wait; beside: {beside}")
    report(
        "traps", figures(labelled, crawled, reachable),
        [("good_recall", ">=", 0.99), ("trap_share", "<=", 0.02), ("max_fetches_per_trap_pattern", "<=", 50),
         ("good_patterns_blocked", "==", 0)],
        {"held_out": options.held_out, "sites": options.sites, "pages": options.pages,
         "stranger_urls": options.stranger_urls,
         "stopped": crawled.stopped}, as_json=options.json,
    )  # fmt: skip


if __name__ == "__main__":
    main()
