"""Where references lead, remembered: most of what a page refers to its neighbours refer to as well.

A menu stands on every page of a host, so the places it leads to are worked out once per folder in which pages stand,
with all that is told of a place. Not remembered is what depends on more of a page's URL than its folder, and what is
long. Bounds: FOLDERS, of each twice ENTRIES, of LONGEST characters; what was not met among the last ENTRIES goes.

Invariant: what is given is what `urls.joiner` gives; what is remembered changes the time that takes, nothing else.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from crawl_pipeline.core import urls

FOLDERS, ENTRIES, LONGEST = 128, 512, 256

# A scheme of its own and two slashes, or no scheme and not only a query: a colon before all of /?# may end a scheme,
# and then `http:?q` is the page itself with another query (URL Standard 4.4, special relative states).
_OF_FOLDER = re.compile(rf"(?:https?://|(?=[A-Za-z0-9_~./-])(?![^/?#]*:))(?s:.){{0,{LONGEST}}}")


class Place(NamedTuple):
    """What a reference leads to."""

    url: str
    url_hash: int
    host: str


Resolve = Callable[[str], Place | None]


def resolver(base: str, encoding: str) -> Resolve:
    """Return a function that tells where a reference leads from `base` (canonical), None if it is no URL of a page."""
    join = urls.joiner(base, encoding)
    folder = _folder(base[: base.partition("?")[0].rindex("/")], encoding)

    def resolve(href: str) -> Place | None:
        if href in folder.met:
            return folder.met[href]
        found = folder.before[href] if href in folder.before else _place(join, href)
        if _OF_FOLDER.fullmatch(href):
            folder.keep(href, found)
        return found

    return resolve


def forget() -> None:
    """Begin with nothing remembered."""
    _folder.cache_clear()


def place(url: str) -> Place:
    """Tell of a canonical URL."""
    return Place(url, urls.url_hash(url), _host(urls.origin(url)))


def _place(join: Callable[[str], str], href: str) -> Place | None:
    try:
        return place(join(href))
    except urls.NotCrawlable:
        return None


@dataclass(slots=True)
class Folder:
    """What is remembered of one folder: references met lately, and those met before."""

    met: dict[str, Place | None] = field(default_factory=dict)
    before: dict[str, Place | None] = field(default_factory=dict)

    def keep(self, href: str, found: Place | None) -> None:
        """Remember a reference; what was met before is let go once there are enough that were met lately."""
        if len(self.met) >= ENTRIES:
            self.met, self.before = {}, self.met
        self.met[href] = found


@lru_cache(maxsize=FOLDERS)
def _folder(folder: str, encoding: str) -> Folder:
    return Folder()


@lru_cache(maxsize=4_096)
def _host(origin: str) -> str:
    return urls.host(f"{origin}/")
