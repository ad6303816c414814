"""What a host answers for a page that does not exist, and which of its pages are that answer: soft 404s.

A host that says 404 is honest. Others answer 200 with a page that says so in words, or send everybody to one place
(Bar-Yossef et al. 2004, WWW). Words alone tell little, for real pages speak of what was not found; so a host is asked
for a URL that nobody can have made (`made_up`), in a folder whose pages repeat each other, and its answer is kept as
the set of its words. A page is like it (`alike`) if nearly all its words are the answer's and the other way round.

Sets of distinct words, not shingles of the main text: what pages of a host have in common is left out of the main
text, and the words "not found" become common the more often they are shown. Numbers are alike, and words of the page's
own URL are left out, for such answers repeat them. A page with a large menu and a few words of its own shares most of
its words with the answer: so the words that either has alone are bounded by number (OWN_WORDS) as well as by share
(ALIKE).

Pure: nothing is asked for here.
"""

import re
from collections.abc import Iterable
from typing import Literal

from crawl_pipeline.core import urls

Answer = Literal["not found", "page", "redirect", "other"]
"""What came of a made-up URL: an honest 404 or 410, a page, a way to another URL, anything else."""
HONEST, PAGE, REDIRECT, OTHER = "not found", "page", "redirect", "other"
KIND = "probe"
"""Kind of the links that lead to made-up URLs."""
NAME = "{made-up}"
"""In place of the last segment: the pattern of the made-up URLs of a folder."""
ALIKE = 0.9
"""Share of all distinct words of two pages that both have, from which on they are alike."""
OWN_WORDS = 3
"""Distinct words that one of two alike pages may have alone."""
MOST_WORDS = 1_000
"""Distinct words of an answer that are kept; longer answers are compared by their first ones."""

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+")
_LETTERS = "bcdfghjklmnpqrstvwxz"
_ENDING = re.compile(r"\.[A-Za-z]{2,5}$")


def folder(url: str) -> str:
    """Everything of a canonical URL up to the last slash of its path."""
    return url.partition("?")[0].rpartition("/")[0] + "/"


def made_up(url: str) -> str:
    """A URL beside this one that nobody can have made: letters without a vowel, and the ending that this one has."""
    place, number = folder(url), urls.hash64(f"made up {folder(url)}") % len(_LETTERS) ** 14
    letters = ""
    for _ in range(14):
        number, at = divmod(number, len(_LETTERS))
        letters += _LETTERS[at]
    ending = _ENDING.search(url.partition("?")[0].rpartition("/")[2])
    return f"{place}{letters}{ending[0] if ending else ''}"


def words(text: str, url: str) -> frozenset[int]:
    """Hashes of the first distinct words of a page's text, numbers alike, without those of its URL."""
    own = set(_bare(url))
    distinct = dict.fromkeys(word for word in _bare(text) if word not in own)
    return frozenset(urls.hash64(word) % 2**31 for word in list(distinct)[:MOST_WORDS])


def alike(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether two pages say the same."""
    if max(len(one - other), len(other - one)) > OWN_WORDS:
        return False
    return len(one & other) >= ALIKE * len(one | other)


def answer_of(outcome: str) -> str:
    """What an outcome of a made-up URL says of its host."""
    return {"gone": HONEST, "fetched": PAGE, "not_modified": PAGE, "redirected": REDIRECT}.get(outcome, OTHER)


def in_words(url: str, answer: str | None, location: str | None) -> str:
    """Say what a host answered: for people."""
    said = {
        None: "not asked yet", HONEST: "404, as it should be", PAGE: "a page, as if it existed",
        REDIRECT: f"a way to {location}, as if it had moved", OTHER: "nothing that could be judged",
    }  # fmt: skip
    return f"{url}, which nobody can have made: {said[answer]}"


def _bare(text: str) -> Iterable[str]:
    return (_NUMBER.sub("0", word) for word in _WORD.findall(text.lower()))
