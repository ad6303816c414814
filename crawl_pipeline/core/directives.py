"""Read what a page asks of crawlers: noindex and nofollow, where it moves on to, which URL it calls its own.

Takes the values of meta elements and header fields as they stand; never finds them, never acts on them. Of
several wishes the most restrictive counts. Invariant: a value that cannot be read is no wish, never an error.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

MOST_CHARACTERS = 500
"""What is kept of a page's directives as they were said."""


class Wishes(NamedTuple):
    """What a page asks: keep it out of the index, do not follow its links; `said`: every directive, known or not."""

    noindex: bool = False
    nofollow: bool = False
    said: str = ""

    def also(self, more: "Wishes") -> "Wishes":
        """Return both wishes together."""
        said = ", ".join(dict.fromkeys(part for part in (self.said, more.said) if part))
        return Wishes(self.noindex or more.noindex, self.nofollow or more.nofollow, said[:MOST_CHARACTERS])


_WORD = re.compile(r"[^\s,;]+")


def from_words(text: str) -> Wishes:
    """Read a list of directives such as `noindex, follow`; `none` is both."""
    words = {word.lower() for word in _WORD.findall(text)}
    none = "none" in words
    return Wishes(none or "noindex" in words, none or "nofollow" in words, _folded(text))


def _folded(text: str) -> str:
    """Directives as they are recorded: in lower case, white space folded."""
    return " ".join(text[:MOST_CHARACTERS].lower().split()).strip(",; ")


# Directives that carry a value after a colon; any other word before a colon names a crawler.
_VALUED = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_SCOPE = re.compile(r"\s*([A-Za-z0-9_\-]+)\s*:(.*)", re.DOTALL)


def from_header(values: Iterable[str], agent: str) -> Wishes:
    """Read X-Robots-Tag fields; a name before a colon limits the directives after it to that crawler."""
    wishes = Wishes()
    for value in values:
        ours = True
        for part in value.split(","):
            scope = _SCOPE.fullmatch(part)
            valued = scope is not None and scope[1].lower() in _VALUED
            if scope and not valued:
                ours = scope[1].lower() in (agent.lower(), "robots", "*")
            if ours and valued:
                wishes = wishes.also(Wishes(said=_folded(part)))
            elif ours:
                wishes = wishes.also(from_words(scope[2] if scope else part))
    return wishes


# HTML 4.2.5.3, shared declarative refresh steps: a time, a separator, then maybe url=, maybe in quotes.
_REFRESH = re.compile(
    r"\s*(?:\d++|(?=\.))[\d.]*+(?:\s*[;,]\s*|\s+)(?:url\s*=\s*)?(?:'([^']*)|\"([^\"]*)|(.+))",
    re.IGNORECASE | re.DOTALL,
)


def refresh_target(content: str) -> str | None:
    """Return the reference that a meta refresh leads to; None if it only reloads the page."""
    found = _REFRESH.match(content)
    return ((found[1] or found[2] or found[3] or "").strip() or None) if found else None


_LINK = re.compile(r"<([^<>]*+)>((?:\s*+;\s*+[^;,\"]++(?:\"[^\"]*+\")?)*+)")
_REL = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,]+))", re.IGNORECASE)


def canonical_in_header(values: Iterable[str]) -> str | None:
    """Return the reference that a Link field calls canonical (RFC 6596, RFC 8288)."""
    for value in values:
        for reference, parameters in _LINK.findall(value):
            rel = _REL.search(parameters)
            if rel and "canonical" in (rel[1] or rel[2]).lower().split():
                return str(reference).strip()
    return None
