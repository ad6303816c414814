"""The cost model: measured constants times the sizes that a crawl of the web is reckoned with.

Constants stand in bench/measured.toml, with the command that measured each; nothing is measured here. Pure
arithmetic, so that the page depends on that file alone.
"""

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MEASURED = Path(__file__).parent.parent / "bench" / "measured.toml"
MONTH_S = 30 * 86_400
BUCKETS = 1_024
URLS_PER_BUCKET = 50_000_000
"""Known URLs that one bucket is meant to hold: state of some 5 GB."""
COMMITS = 8
"""Delta commits of a round: seven tables and `rounds`; the lease's renewal is one more."""


@dataclass(frozen=True, slots=True)
class Target:
    """A size to reckon with: pages kept, known URLs, pages asked for in a month."""

    name: str
    pages: float
    urls: float
    monthly: float


TARGETS = (
    Target("a site or two", 1e6, 5e6, 1e6),
    Target("a country", 1e9, 5e9, 1e8),
    Target("10 B pages, 1 B a month", 1e10, 5e10, 1e9),
    Target("10 B pages, all each month", 1e10, 5e10, 1e10),
)
"""The last two have the sizes that two published outlines of a web crawler reckon with."""


def constants(path: Path = MEASURED) -> dict[str, Mapping[str, Any]]:
    """Every constant with its value, unit, command, day and meaning."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class Cost:
    """What a target costs, from the constants by name."""

    target: Target
    of: Mapping[str, float]

    @property
    def state_bytes(self) -> float:
        """Frontier of all known URLs and change frequency of all pages."""
        return self.target.urls * self.of["frontier_bytes"] + self.target.pages * self.of["change_frequency_bytes"]

    @property
    def metadata_per_url(self) -> float:
        """State and a page's metadata per known URL."""
        return (self.state_bytes + self.target.pages * self.of["page_metadata_bytes"]) / self.target.urls

    @property
    def content_bytes(self) -> float:
        """One version of every page, body and text."""
        return self.target.pages * (self.of["page_body_bytes"] + self.of["page_text_bytes"])

    @property
    def log_bytes_month(self) -> float:
        """Requests, links and metadata of the pages asked for in a month."""
        per_page = self.of["request_bytes"] + self.of["page_metadata_bytes"]
        return self.target.monthly * (per_page + self.of["links_per_page"] * self.of["link_bytes"])

    @property
    def pages_per_s(self) -> float:
        """Pages asked for, on average."""
        return self.target.monthly / MONTH_S

    @property
    def cores(self) -> float:
        """Cores that fetch, read, store and judge links, all year at full use."""
        links = self.pages_per_s * self.of["links_per_page"] / self.of["links_per_cpu_s"]
        return self.pages_per_s / self.of["pages_per_cpu_s"] + links

    @property
    def workers(self) -> int:
        """Workers of two cores each, which are half used on average: as many as a peak of twice the average needs."""
        return max(1, math.ceil(self.cores))

    @property
    def upkeep_s(self) -> float:
        """CPU seconds of a daily maintenance of all buckets."""
        return self.target.urls / 1e6 * self.of["maintain_s"]

    @property
    def buckets(self) -> float:
        """Buckets of `URLS_PER_BUCKET`, as a power of two, 16 at least."""
        count = 16
        while count * URLS_PER_BUCKET < self.target.urls:
            count *= 2
        return count

    @property
    def rebucket_s(self) -> float:
        """CPU seconds to rewrite all state into another number of buckets, reckoned as one fold of each table."""
        return 2 * self.target.urls / 1e6 * self.of["fold_s"]

    @property
    def seen_bytes(self) -> float:
        """A Bloom filter over all known URLs."""
        return self.target.urls * self.of["seen_bits"] / 8


ROWS = (
    ("pages kept", lambda c: number(c.target.pages)),
    ("known URLs", lambda c: number(c.target.urls)),
    ("pages a month", lambda c: number(c.target.monthly)),
    ("pages a second", lambda c: f"{c.pages_per_s:,.1f}"),
    ("cores that crawl, at full use", lambda c: f"{c.cores:,.1f}"),
    ("workers of two cores, half used", lambda c: f"{c.workers:,}"),
    ("state: frontier, change frequency", lambda c: size(c.state_bytes)),
    ("state and page metadata per known URL", lambda c: f"{c.metadata_per_url:,.0f} B"),
    ("a Bloom filter over known URLs", lambda c: size(c.seen_bytes)),
    ("content, one version of each page", lambda c: size(c.content_bytes)),
    ("content for five years of new versions at that rate",
     lambda c: size(60 * c.target.monthly * c.content_bytes / c.target.pages)),
    ("logs a month: links, requests, metadata", lambda c: size(c.log_bytes_month)),
    (f"buckets of {URLS_PER_BUCKET // 1_000_000} M known URLs", lambda c: f"{c.buckets:,}"
     + (f" (more than {BUCKETS:,}, the most a lake has)" if c.buckets > BUCKETS else "")),
    ("cores for one maintenance of all a day", lambda c: f"{c.upkeep_s / 86_400:,.2f}"),
    ("rebucketing: CPU; bytes written", lambda c: f"{c.rebucket_s / 3_600:,.1f} h; {size(c.state_bytes)}"),
)  # fmt: skip

THEIRS = (
    ("pages kept; known URLs", "10 B; 50 B", "-", "the same are reckoned with"),
    ("pages a second, 10 B a month", "3,860, peak 12,000", "-", "{rate_all}"),
    ("pages a second, 1 B a month", "-", "400, peak 800", "{rate_one}"),
    ("bytes of a stored page", "50 KB, compressed", "500 KB", "{page}"),
    ("content, 10 B pages", "500 TB", "-", "{content}"),
    ("content, 1 B pages a month", "-", "500 TB a month, 30 PB in five years", "{month}; {years} in five years"),
    ("metadata per URL", "200 B", "-", "{metadata} of known URLs; {per_page} of fetched ones"),
    (
        "bits per seen URL",
        "9.6 in a Bloom filter: 60 GB",
        "-",
        "{bits}: {seen} for such a filter; the frontier's hashes are exact",
    ),
    ("pages a second of a worker", "1,000 with 500 connections", "-", "{per_core} a core"),
)
"""What is estimated; by the first outline, by the second, and what ours comes to."""


def page() -> str:
    """Give the page."""
    measured = constants()
    of = {name: float(one["value"]) for name, one in measured.items()}
    costs = [Cost(target, of) for target in TARGETS]
    rows = [[name, *(tell(cost) for cost in costs)] for name, tell in ROWS]
    facts = [[f"`{name}`", f"{one['value']:,g}", one["unit"], one["says"], f"`{one['command']}`", str(one["on"])]
             for name, one in measured.items()]  # fmt: skip
    return PAGE.format(
        costs=_table(["", *(target.name for target in TARGETS)], rows), theirs=_theirs(costs, of),
        facts=_table(["constant", "value", "unit", "of what", "command", "measured on"], facts), delta=_delta(costs[2]),
        bucket=URLS_PER_BUCKET // 1_000_000, gb=f"{URLS_PER_BUCKET * of['frontier_bytes'] / 1e9:.1f}",
        growth=f"{of['round_growth']:g}", most=f"{BUCKETS:,}", whole=f"{BUCKETS * URLS_PER_BUCKET / 1e9:,.0f} B",
    )  # fmt: skip


def _theirs(costs: Sequence[Cost], of: Mapping[str, float]) -> str:
    one, all_ = costs[2], costs[3]
    ours = {
        "rate_all": f"{all_.pages_per_s:,.0f}", "rate_one": f"{one.pages_per_s:,.0f}",
        "page": f"{(of['page_body_bytes'] + of['page_text_bytes']) / 1e3:,.1f} KB, of these pages",
        "content": size(one.content_bytes), "month": size(one.content_bytes / 10), "years": size(6 * one.content_bytes),
        "metadata": f"{one.metadata_per_url:,.0f} B",
        "per_page": f"{of['frontier_bytes'] + of['change_frequency_bytes'] + of['page_metadata_bytes']:,.0f} B",
        "bits": f"{of['seen_bits']:g}", "seen": size(one.seen_bytes), "per_core": f"{of['pages_per_cpu_s']:,.0f}",
    }  # fmt: skip
    rows = [[what, first, second, mine.format(**ours)] for what, first, second, mine in THEIRS]
    return _table(["", "first outline (estimate)", "second outline (estimate)", "ours (from measured constants)"], rows)


def _delta(cost: Cost, workers: int = 32, round_s: float = 25.0) -> str:
    """Versions and files a day for so many workers, each with its share of the buckets."""
    rounds = workers * 86_400 / round_s
    share = cost.buckets / workers
    rows = [
        ["rounds, all workers", f"{rounds:,.0f}"],
        ["versions of `leases`, and of `rounds`", f"{rounds:,.0f} each"],
        ["versions of all tables", f"{rounds * (COMMITS + 1):,.0f}"],
        ["files that rounds add to `links`", f"{rounds:,.0f}"],
        ["files that rounds add to a table with partitions, before folds and tidying", f"{rounds * share:,.0f}"],
        ["URLs that change per round", f"{cost.target.monthly / 30 / rounds:,.0f}"],
    ]
    return _table([f"a day, {workers} workers, {share:,.0f} buckets each, a round of {round_s:g} s", ""], rows)


def number(value: float) -> str:
    """A count in millions or billions."""
    return f"{value / 1e9:,g} B" if value >= 1e9 else f"{value / 1e6:,g} M"


def size(value: float) -> str:
    """A size in the unit that gives few digits."""
    for unit, of in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= of:
            return f"{value / of:,.3g} {unit}"
    return f"{value:,.0f} B"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])


PAGE = """# Scale

<!-- Made by `python -m docs.generate` from bench/measured.toml; edit that or docs/scale.py, not this page. -->

What a crawl of so many pages costs, by multiplication: constants that were measured here, at a million URLs and on
one machine, times sizes of which nobody has tried any here but the smallest. It says what to plan with and where it
will not fit; it proves nothing.

## What sizes cost

{costs}

M and B are 10⁶ and 10⁹, sizes decimal. Content is what pages of this kind compress to; the web's are larger.

## Beside two published outlines

Two outlines of a web crawler, written for design interviews, estimate sizes of their own. The first reckons with 10 B
pages, all visited each month, the second with 1 B pages a month, kept for five years. What they give is an estimate;
what stands under ours is a product of constants that were measured.

{theirs}

## What does not fit yet

* **Buckets.** A bucket of {bucket} M known URLs has a frontier of {gb} GB; {most} of them, the most a lake has, hold
  {whole} URLs. A round of equal work costs {growth} times the CPU at 10 M known URLs that it costs at 1 M; larger
  buckets have not been measured.
* **One Delta log for all.** Every round commits once to each table, and all workers share the table's log. Commits of
  different buckets do not conflict, but each is one more version of the same log:

{delta}

  How many commits a second a store takes to one log has not been measured; workers that are few and large, or
  longer rounds (`round.seconds`), make fewer.
* **Rebucketing** rewrites all state once, nothing else: logs keep their rows. The figure above reckons it as one fold
  of each state table.
* **Orphans.** Each bucket reads two columns of `pages` of the buckets that link to it
  ([operations.md](operations.md#orphans)): weekly, not daily, at such sizes.

## The constants

{facts}

They stand in `bench/measured.toml`, and only there. Measured at the same time as other work on the machine, so that
CPU seconds were taken, never wall time.
"""
