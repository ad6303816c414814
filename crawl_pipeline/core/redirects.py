"""Where a redirect leads, or why it leads nowhere.

A pure rule over status, Location fields and the chain so far. It never fetches and never looks at addresses:
the target is asked like any other URL. A chain is the URLs asked so far, the first one first, the redirecting
one last.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from crawl_pipeline.core.urls import NotCrawlable, canonical

REDIRECTS = frozenset((301, 302, 303, 307, 308))  # RFC 9110 15.4; 300, 304, 305 and 306 name no one place to go to

_BEYOND_ASCII = re.compile("[\x80-\xff]")


@dataclass(frozen=True, slots=True)
class Step:
    """The next URL to ask, or the reason why there is none; both None: the answer is no redirect."""

    url: str | None = None
    reason: str | None = None


def step(status: int | None, locations: Sequence[str], chain: Sequence[str], limit: int) -> Step:
    """Decide what follows an answer with these raw Location fields; a chain has at most `limit` redirects."""
    if status not in REDIRECTS:
        return Step()
    found = target(locations, chain[-1])
    if found.url is None:
        return found
    if found.url in chain and not _first_self_redirect(found.url, chain):
        return Step(reason="redirects in a loop")
    if len(chain) > limit:
        return Step(reason=f"more than {limit} redirects")
    return found


def target(locations: Sequence[str], base: str) -> Step:
    """Resolve raw Location fields against the URL that was asked, or say what is wrong with them."""
    if not locations:
        return Step(reason="a redirect without a Location")
    if len(set(locations)) > 1:
        return Step(reason="a redirect with several Locations")
    try:
        return Step(url=canonical(escaped(locations[0]), base))
    except NotCrawlable as refusal:
        return Step(reason=f"a Location that cannot be asked ({refusal.reason}): {locations[0][:200]}")


def escaped(location: str) -> str:
    """Escape raw bytes beyond ASCII as they are, whatever coding they are in.

    A field value is bytes (RFC 9110 5.5), held here as Latin-1. In a host the escapes are undone again as
    UTF-8 (WHATWG URL 3.5), so one rule serves the whole reference.
    """
    return _BEYOND_ASCII.sub(lambda found: f"%{ord(found[0]):02X}", location)


def _first_self_redirect(url: str, chain: Sequence[str]) -> bool:
    """A page may send the asker to itself once: some do so for a first visit."""
    return url == chain[-1] and chain.count(url) == 1
