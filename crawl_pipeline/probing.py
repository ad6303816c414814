"""Soft 404s: which pages of a round are what their host shows for URLs that do not exist, and which hosts to ask.

Reads `patterns` once per lease: a row of it holds a made-up URL of a folder and what its host answered. The rule is
core.not_found's. A made-up URL is a link of kind `probe` that a round writes: it is admitted, counted, drawn, judged by
robots.txt and asked like any other URL; what it shows is no page of the corpus, and it falls due again after
`traps.probe_s`.

It is asked for where it tells something: in the folder of a page that repeated others, or that bears the title of
others, on a host of which MET pages were judged. Invariant: no host has more made-up URLs than `traps.probes_per_host`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import polars as pl

from crawl_pipeline.core import not_found, traps, urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.fetch.visits import Visit
from crawl_pipeline.lake import Lake, Lease

MET = 10
"""Judged pages of a host, from which on a made-up URL is worth its request."""
SAME_TITLE = 3
"""Pages of a host with one title in one round, from which on it may be that of what does not exist."""

_OPEN = ("pattern", "probed_url", "answer", "answer_words", "location")


@dataclass(frozen=True, slots=True)
class Probe:
    """A made-up URL, and what came of it."""

    pattern: str
    url: str
    answer: str | None = None
    words: frozenset[int] = frozenset()
    location: str | None = None

    def is_like(self, visit: Visit, words: frozenset[int] | None) -> bool:
        """Whether a visit came to the same: a page of the same words, or a way to the same place."""
        if self.answer == not_found.REDIRECT:
            return visit.request is not None and visit.request.location == self.location
        return self.answer == not_found.PAGE and words is not None and not_found.alike(words, self.words)


@dataclass(slots=True)
class Probes:
    """All made-up URLs of the hosts of a lease, by host: kept by a worker while it has their buckets."""

    kept: dict[str, dict[str, Probe]] = field(default_factory=dict)
    buckets: frozenset[int] = frozenset()

    def read(self, lake: Lake, lease: Lease) -> None:
        """Take over what was stored for the buckets, once."""
        if new := set(lease.buckets) - self.buckets:
            rows = lake.scan("patterns", buckets=sorted(new), where=pl.col("probed_url").is_not_null())
            for host, pattern, url, answer, words, location in rows.select("host", *_OPEN).collect().iter_rows():
                probe = Probe(pattern, url, answer, frozenset(words or ()), location)
                self.kept.setdefault(host, {})[pattern] = probe
            self.buckets |= new

    def answered(self, visits: Sequence[Visit], now: datetime) -> list[dict[str, Any]]:
        """Keep what came of made-up URLs; rows of `patterns` that say so."""
        rows = []
        for visit in visits:
            if visit.target.kind != not_found.KIND or visit.request is None:
                continue
            host = urls.host(visit.target.url)
            before = next((p for p in self.kept.get(host, {}).values() if p.url == visit.target.url), None)
            if before is not None:
                probe = _told(before, visit)
                self.kept[host][probe.pattern] = probe
                rows.append(_row(host, probe, now))
        return rows

    def soft(self, visits: Sequence[Visit]) -> dict[int, str]:
        """Visits (url_hash) that came to what their host shows for what does not exist, and the made-up URL."""
        found = dict[int, str]()
        for visit in visits:
            host = urls.host(visit.target.url) if self.kept else ""
            probes = [p for p in self.kept.get(host, {}).values() if p.answer in (not_found.PAGE, not_found.REDIRECT)]
            if not probes or _is_front(visit.target.url):
                continue
            words = None
            if visit.page is not None and visit.page.text is not None:
                words = not_found.words(visit.page.text, visit.target.url)
            like = next((probe.url for probe in probes if probe.is_like(visit, words)), None)
            if like is not None:
                found[visit.target.url_hash] = like
        return found

    def wanted(
        self, judged: pl.DataFrame, met: Mapping[str, int], policy: Policy, now: datetime
    ) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:  # fmt: skip
        """Rows of `patterns` for new made-up URLs, and a page beside each with the URL.

        judged: pages with their verdicts and titles, in order; met: how many pages of each host were judged before.
        """
        if policy.traps.act == "record":
            return [], []
        counts = dict(judged.group_by("host").len().iter_rows())
        titled = (pl.col("title") != "") & (pl.len().over("host", "title") >= SAME_TITLE)
        repeats = ~pl.col("verdict").is_in([traps.GOOD, traps.FAILED]) | titled.fill_null(value=False)
        bad = judged.filter(repeats & (pl.col("verdict") != "soft404")).select("host", "url")
        rows, beside = list[dict[str, Any]](), list[tuple[str, str]]()
        for host, url in bad.iter_rows():
            mine = self.kept.get(host, {})
            place = not_found.folder(url)
            pattern = place[len(urls.origin(url)) :] + not_found.NAME
            if any(probe.answer is None for probe in mine.values()):
                continue
            few = counts[host] + met.get(host, 0) < MET or len(mine) >= policy.traps.probes_per_host
            if few or pattern in mine:
                continue
            probe = Probe(pattern, not_found.made_up(url))
            self.kept.setdefault(host, {})[pattern] = probe
            rows.append(_row(host, probe, now))
            beside.append((url, probe.url))
        return rows, beside


def _told(probe: Probe, visit: Visit) -> Probe:
    answer = not_found.answer_of(visit.outcome)
    if visit.outcome == "not_modified":
        return probe
    text = visit.page.text if visit.page is not None and answer == not_found.PAGE else None
    words = frozenset[int]() if text is None else not_found.words(text, visit.target.url)
    if answer == not_found.PAGE and text is None:
        answer = not_found.OTHER
    location = visit.request.location if visit.request and answer == not_found.REDIRECT else None
    return Probe(probe.pattern, probe.url, answer, words, location)


def _row(host: str, probe: Probe, now: datetime) -> dict[str, Any]:
    return dict.fromkeys(traps.COUNTS, 0) | {
        "host": host, "pattern": probe.pattern, "shape": probe.pattern, "probed_url": probe.url,
        "answer": probe.answer, "answer_words": sorted(probe.words) or None, "location": probe.location,
        "action": traps.NONE, "acted_at": now, "trap_score": 0.0, "listed": False,
    }  # fmt: skip


def _is_front(url: str) -> bool:
    return url.partition("?")[0].count("/") == 3 and url.partition("?")[0].endswith("/")
