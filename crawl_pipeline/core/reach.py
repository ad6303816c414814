"""What the references of a page depend on, so that a copy of it elsewhere need not be read again.

Pure. A reference that names its host leads to one place wherever it stands; `/x` to one place within an origin, `x`
within a folder, `?x` of one page only. The most dependent one decides for the page; in doubt it is all of the URL.

Invariant: two pages with one content, whose URLs have the same `stem` for its reach, lead to the same places.
"""

import re
from collections.abc import Iterable
from typing import Literal

from crawl_pipeline.core.urls import NotCrawlable, canonical, origin

Reach = Literal["nothing", "origin", "folder", "page"]
ORDER: tuple[Reach, ...] = ("nothing", "origin", "folder", "page")

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(//)?", re.IGNORECASE)
# Of these, `http:x` is a reference relative to a page with the same scheme (WHATWG URL 4.4, "scheme state").
_SPECIAL = frozenset({"http", "https", "ws", "wss", "ftp", "file"})
_STRIPPED = "".join(map(chr, range(0x21)))


def reach(references: Iterable[str], base: str | None) -> Reach:
    """What a page with these references, and with this base element, depends on; all of them as they are written."""
    if base is not None:
        return "nothing" if _of(base) == "nothing" and _is_url(base) else "page"
    return max(map(_of, references), key=ORDER.index, default="nothing")


def stem(url: str, of: Reach) -> str:
    """The part of a canonical URL on which the reach depends."""
    if of == "nothing":
        return ""
    if of == "origin":
        return origin(url)
    return url if of == "page" else url.partition("?")[0].rpartition("/")[0]


def _of(reference: str) -> Reach:
    written = reference.strip(_STRIPPED)
    if not written or written[0] in "?#" or not written.isprintable():
        return "page"
    if scheme := _SCHEME.match(written):
        return "page" if scheme[1].lower() in _SPECIAL and not scheme[2] else "nothing"
    return "origin" if written[0] in "/\\" else "folder"


def _is_url(base: str) -> bool:
    """Tell whether a base is one for every page: what is none counts as if it were not there."""
    try:
        return bool(canonical(base))
    except NotCrawlable:
        return False
