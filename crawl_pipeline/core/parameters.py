"""Which parameters of a host's URLs do not matter: sessions, tracking, orders of one list. Learnt from pages alone.

Two pages of a host whose URLs differ in one parameter only, in its value or in that one of them lacks it, are a trial:
they say the same, or not. They do if their main texts are equal, or all that they show is: what a host has in common is
learnt as pages come, so that of two copies the earlier has the longer main text. Of a parameter these make a sequence
for the test of core.traps (Wald 1945), here between a share of equal pairs that a parameter may have which matters, and
that of one that does not. With the default shares of 0.5 and 0.98 an equal pair adds 0.67 to the score and another one
takes 3.22 away, so that 14 equal pairs are needed: fewer than the 16 copies by which a pattern that grows is blocked
(errors as for patterns: 1e-4 that one that matters is dropped, 1e-2 that one that does not is kept). The score stays
within its ends, so that two pairs that differ bring a dropped parameter back.

Equal pairs alone say nothing of the URL without the parameter. So of pages whose parameter is suspicious, halfway
through the test, the URL without it is asked for, like a canonical URL that the page names, and while that is to come
no other URL that differs from it: the second half of the test is made of URLs that will be kept if it is passed. Only
when BARE of those pairs were equal is the parameter dropped. A host that refuses the URL without it, or sends back to
the one with it, has told that it matters.

Two parameters that always change together (a session and its check) never make such a pair. So URLs that differ in two
are a trial of both together, as one with the name `a&b`: by the same test, and only as long as neither of the two was
seen to differ alone. Pages that are equal though both differ show that neither matters; if one does, pairs differ.
Dropped are both or none, from URLs that have both.

Thin pages and soft 404s are no evidence: an empty page is like any other. Names are kept as they are spelled.

Invariant: no more than `traps.parameters` names of a host are told apart; a pair counts once, with the later page.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.traps import CLEARED, NONE, Steps

DROPPED = "dropped"
"""What is done about a parameter that does not matter: URLs are known without it."""
MARK = "?"
"""Patterns that begin with it stand for all URLs of the host that have a parameter."""
BARE = 2
"""Equal pairs of which one page's URL lacks the parameter, from which on it may be dropped."""
LONGEST = 60
"""Characters of a name."""
BOTH = "&"
"""Between the names of two parameters that are judged as one."""
MOST_NAMES = 16
"""Parameters of a URL up to which it makes trials: each is kept with the URL without it, which costs the square."""
MOST_FOR_BOTH = 4
"""Parameters of a URL up to which two of them are judged together: of more there are too many choices."""
HELD = "differs in a parameter that does not matter"
"""Why a URL is left out whose parameter is dropped."""
TRIED = NONE
"""What is done about a parameter while it is judged; from a suspicious score on the URLs without it are tried."""
WAITS = "differs in a parameter that may not matter"
"""Why a URL is left out for now: that without the parameter is asked for first."""


Content = tuple[int, ...]
"""Hashes of what a page says: of its main text, and of all that it shows. One of them in common is enough."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two URLs of a host that differ in one parameter, or two together, and whether their pages are equal."""

    name: str
    url: str
    other: str
    same: bool
    bare: bool
    """One of them lacks the parameter."""


@dataclass(slots=True)
class Known:
    """What pages of one host said, by URL, newest last: of at most `most` URLs."""

    most: int
    contents: dict[str, Content] = field(default_factory=dict)
    variants: dict[str, dict[str, str]] = field(default_factory=dict)
    """By URL without a parameter: per name the first URL that has it."""

    def add(self, url: str, content: Content) -> None:
        """Keep a page."""
        if url in self.contents:
            return
        self.contents[url] = content
        for name, rest in without_each(url):
            self.variants.setdefault(rest, {}).setdefault(name, url)
        if len(self.contents) > self.most:
            self._forget(next(iter(self.contents)))

    def drop(self, names: Sequence[str]) -> None:
        """Keep each page under its URL without these parameters too: pages are compared as if they were not there."""
        for url, content in list(self.contents.items()):
            self.add(bare(url, names), content)

    def pairs(self, url: str, content: Content, dropped: Sequence[str] = ()) -> Iterator[Pair]:
        """The pairs that a page makes with those that are known; `dropped`: parameters that do not matter."""
        plain = bare(url, dropped)
        if plain != url:
            yield from (pair for pair in self._pairs(url, content) if pair.name in dropped)
        yield from (pair for pair in self._pairs(plain, content) if pair.name not in dropped)

    def _pairs(self, url: str, content: Content) -> Iterator[Pair]:
        for name, rest in without_each(url):
            other, without_it = self.variants.get(rest, {}).get(name), rest in self.contents
            if without_it or other is not None:
                named = rest if without_it or other is None else other
                yield Pair(name, url, named, self._says(named, content), without_it)
        for name, other in self.variants.get(url, {}).items():
            yield Pair(name, url, other, self._says(other, content), bare=True)

    def _says(self, url: str, content: Content) -> bool:
        return not set(self.contents.get(url, ())).isdisjoint(content)

    def refused(self, url: str) -> Iterator[Pair]:
        """The pairs that a URL makes which gave no page: the parameter that it lacks matters."""
        for name, other in self.variants.get(url, {}).items():
            yield Pair(name, url, other, same=False, bare=True)

    def _forget(self, url: str) -> None:
        del self.contents[url]
        for name, rest in without_each(url):
            names = self.variants.get(rest, {})
            if names.get(name) == url:
                del names[name]
            if not names:
                self.variants.pop(rest, None)


def content(hashes: Iterable[int | None]) -> Content:
    """What a page says, by those of its hashes that are known."""
    return tuple(one for one in hashes if one is not None)


def without_each(url: str) -> list[tuple[str, str]]:
    """Each parameter of a canonical URL of at most MOST_NAMES, each two of few, and the URL without them."""
    names = [name for name in _names(url) if name and len(name) <= LONGEST]
    if len(names) > MOST_NAMES:
        return []
    both = combinations(sorted(names), 2) if len(names) <= MOST_FOR_BOTH else ()
    return [(name, without(url, [name])) for name in names] + [(BOTH.join(two), without(url, two)) for two in both]


def _names(url: str) -> list[str]:
    parts = url.partition("?")[2].split("&")
    return list(dict.fromkeys(part.partition("=")[0] for part in parts if part))


def bare(url: str, dropped: Iterable[str]) -> str:
    """A canonical URL without what does not matter: parameters, or two together where the URL has both."""
    has = set(_names(url))
    gone = [name for one in dropped if has.issuperset(names := one.split(BOTH)) for name in names]
    return without(url, gone) if gone else url


def without(url: str, names: Iterable[str]) -> str:
    """A canonical URL without some parameters; what is left stays as it is spelled."""
    path, mark, query = url.partition("?")
    gone = frozenset(names)
    kept = [part for part in query.split("&") if part.partition("=")[0] not in gone] if mark else []
    return f"{path}?{'&'.join(kept)}" if kept else path


def steps(policy: Policy) -> Steps:
    """The test of a parameter: its numbers, in the terms of that of a pattern."""
    rule = policy.traps
    ends = Steps.of(policy)
    return Steps(
        math.log(rule.parameter_equal / rule.parameter_ordinary),
        math.log((1 - rule.parameter_equal) / (1 - rule.parameter_ordinary)), ends.suspicious, ends.block, ends.clear,
    )  # fmt: skip


def after(score: float, pairs: Sequence[Pair], policy: Policy) -> float:
    """The score of a parameter once these pairs are judged."""
    test = steps(policy)
    for pair in pairs:
        score = min(max(score + (test.worthless if pair.same else test.good), test.clear), test.block)
    return score


def action(score: float, bare: int, was: str, policy: Policy, *, fresh: bool = False) -> str:
    """What is done about a parameter with this score; `bare`: equal pairs of which one URL lacks it; `fresh`: a person
    released it lately. What is dropped stays so until its score is no longer suspicious.
    """
    test = steps(policy)
    held = score >= test.block - 1e-9 or (was == DROPPED and score >= test.suspicious)
    if held and bare >= BARE and not fresh and policy.traps.act == "block":
        return DROPPED
    return CLEARED if score <= test.clear + 1e-9 or (was == CLEARED and score < test.block - 1e-9) else NONE


def suspicious(policy: Policy) -> float:
    """The score from which on the URL without the parameter is asked for."""
    return steps(policy).suspicious
