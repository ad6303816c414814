"""Made-up pages, revisions of them that are still the same page, and others that only look alike.

For measuring what is taken for a near-duplicate. Words are drawn as in language, the k-th most frequent with weight
1/k. Everything follows from the generator that is handed in.
"""

from collections.abc import Callable

import numpy as np

Page = list[str]
Rng = np.random.Generator
Draw = Callable[[Rng], tuple[Page, Page]]

SEED = 7
LENGTHS = {"short": (50, 100), "middle": (100, 300), "long": (300, 1_000)}
"""Words of a page, by class."""
STAMP, BLOCK = 5, 30
"""Words of a session's stamp; of an advertisement."""
EDITS, TEMPLATES = (1, 2, 5, 10), (30, 50, 70, 80)
"""Percent of the words that edits touch; percent of a page that is a template's."""

_SYLLABLES = np.array([first + vowel for first in "bcdfghjklmnprstvwz" for vowel in "aeiou"])
_WORDS = 20_000
_UP_TO = np.cumsum(1 / np.arange(1, _WORDS + 1))


def words(rng: Rng, count: int) -> Page:
    """Draw words."""
    ranks = np.searchsorted(_UP_TO, rng.random(count) * _UP_TO[-1])
    size = len(_SYLLABLES)
    parts = (_SYLLABLES[ranks % size], _SYLLABLES[ranks // size % size], _SYLLABLES[ranks // size**2])
    return ["".join(three) for three in zip(*parts, strict=True)]


def page(rng: Rng, length: str) -> Page:
    """Draw a page of a class of LENGTHS."""
    return words(rng, int(rng.integers(*LENGTHS[length], endpoint=True)))


def stamped(rng: Rng, given: Page) -> tuple[Page, Page]:
    """The page twice, each time with another stamp in the same place."""
    at = int(rng.integers(0, len(given) + 1))
    first, second = ([*given[:at], *words(rng, STAMP), *given[at:]] for _ in range(2))
    return first, second


def advertised(rng: Rng, given: Page) -> tuple[Page, Page]:
    """The page, and the page with a block in it."""
    at = int(rng.integers(0, len(given) + 1))
    return given, [*given[:at], *words(rng, BLOCK), *given[at:]]


def edited(rng: Rng, given: Page, percent: int) -> tuple[Page, Page]:
    """The page, and the page with bursts of edits of 1 + Poisson(2) words: most replace, some insert or delete."""
    made, left = list(given), max(1, round(len(given) * percent / 100))
    while left > 0:
        size = min(left, 1 + int(rng.poisson(2)))
        at = int(rng.integers(0, max(1, len(made) - size)))
        kind = rng.choice(3, p=(0.6, 0.2, 0.2))
        made[at : at + (0 if kind == 1 else size)] = [] if kind == 2 else words(rng, size)
        left -= size
    return given, made


def on_one_template(rng: Rng, length: str, percent: int) -> tuple[Page, Page]:
    """Two pages of a template that makes up so much of them, with bodies of their own."""
    count = int(rng.integers(*LENGTHS[length], endpoint=True))
    shared = words(rng, count * percent // 100)
    before = len(shared) // 2
    first, second = (
        [*shared[:before], *words(rng, count - len(shared)), *shared[before:]] for _ in range(2)
    )  # fmt: skip
    return first, second


def kinds(length: str) -> dict[str, tuple[bool, Draw]]:
    """All kinds of pairs of a class: whether they are near-duplicates, and how to draw one."""
    return {
        "stamp": (True, lambda rng: stamped(rng, page(rng, length))),
        "block": (True, lambda rng: advertised(rng, page(rng, length))),
        **{f"edits_{percent}": (True, _edits(length, percent)) for percent in EDITS},
        **{f"template_{percent}": (False, _template(length, percent)) for percent in TEMPLATES},
    }


def _edits(length: str, percent: int) -> Draw:
    return lambda rng: edited(rng, page(rng, length), percent)


def _template(length: str, percent: int) -> Draw:
    return lambda rng: on_one_template(rng, length, percent)
