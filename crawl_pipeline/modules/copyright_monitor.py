"""Tell which pages hold phrases that somebody watches for: where each stands, with the text around it.

A shipped example of a module that looks at pages. Letters count whatever their case, and any white space counts as one
space, so that a phrase is found across lines. The policy says which phrases:

    [modules]
    use = ["copyright_monitor"]
    [modules.settings.copyright_monitor]
    phrases = ["all rights reserved by Example Press"]
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import polars as pl

from crawl_pipeline.modules import Content, Declaration, Row, column

AROUND = 80
"""Characters of text shown on either side of a phrase."""

DECLARATION = Declaration(
    table="copyright_matches",
    one_row_is="one place in a page at which a watched phrase stands",
    columns=(
        "title",
        column("phrase", pl.String, "the phrase as it stands in the policy"),
        column("position", pl.Int64, "where it begins in the page's text", "characters"),
        column("excerpt", pl.String, "the phrase as it stands in the page, with the text around it"),
    ),
    content_types=("text/html", "application/xhtml+xml"),
)


@dataclass(frozen=True)
class CopyrightMonitor:
    """The module `copyright_monitor`."""

    phrases: Sequence[str] = field(default_factory=tuple)
    """What to look for; at least one phrase."""
    most: int = 100
    """Places told per page and phrase."""

    declares = DECLARATION

    def __post_init__(self) -> None:
        well = isinstance(self.phrases, (list, tuple)) and all(
            isinstance(phrase, str) and phrase.split() for phrase in self.phrases
        )
        if not self.phrases or not well:
            raise ValueError(
                f"phrases: expected a list of phrases to look for, found {self.phrases!r}: name at least one"
            )
        if not isinstance(self.most, int) or self.most < 1:
            raise ValueError(f"most: expected a number of places over 0, found {self.most!r}")

    def read(self, content: Content) -> Iterator[Row]:
        """A row per place of each phrase."""
        text = content.text or ""
        for phrase, pattern in self._patterns:
            for number, found in enumerate(pattern.finditer(text)):
                if number == self.most:
                    break
                around = text[max(0, found.start() - AROUND) : found.end() + AROUND]
                yield {"title": content.title, "phrase": phrase, "position": found.start(),
                       "excerpt": " ".join(around.split())}  # fmt: skip

    @cached_property
    def _patterns(self) -> list[tuple[str, re.Pattern[str]]]:
        spaced = {phrase: r"\s+".join(map(re.escape, phrase.split())) for phrase in self.phrases}
        return [(phrase, re.compile(pattern, re.IGNORECASE)) for phrase, pattern in spaced.items()]
