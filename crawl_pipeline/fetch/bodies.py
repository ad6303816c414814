"""What goes to the processes that read bodies, and what comes back: plain facts, no behaviour of their own."""

from dataclasses import dataclass
from datetime import datetime

from crawl_pipeline.modules.calling import Told


@dataclass(frozen=True, slots=True)
class Body:
    """One body to read, with what of its answer matters for reading it."""

    url: str
    cause: str
    """What it is read as: a page, a sitemap, or a file that only modules want."""
    body: bytes
    content_type: str | None
    x_robots_tag: tuple[str, ...] = ()
    withheld: bool = False
    """The site does not want it kept: no module is given it."""
    obey_noindex: bool = True
    """Nor is it, if it says noindex."""


@dataclass(frozen=True, slots=True)
class FoundLinks:
    """Links of one body, column by column."""

    urls: tuple[str, ...] = ()
    hashes: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    buckets: tuple[int, ...] = ()
    kinds: tuple[str, ...] = ()
    nofollow: tuple[bool, ...] = ()
    lastmod_at: tuple[datetime | None, ...] = ()
    said_rate: tuple[float | None, ...] = ()

    @property
    def size(self) -> int:
        """About how many bytes the links hold."""
        return sum(map(len, self.urls)) + 200 * len(self.urls)


@dataclass(frozen=True, slots=True)
class ReadPage:
    """What one body holds."""

    links: FoundLinks
    text: str | None = None
    blocks: bytes = b""
    """For each line of the text the hash by which templates know it, 32 bits; 0 for a long one."""
    regions: bytes = b""
    """What each line stands in: see core.text."""
    text_hash: int | None = None
    named_hash: int | None = None
    """Of a sitemap: what it names, without dates."""
    word_count: int = 0
    body_hash: bytes | None = None
    title: str | None = None
    lang: str | None = None
    charset: str | None = None
    canonical_url: str | None = None
    noindex: bool = False
    nofollow: bool = False
    robots_directives: str | None = None
    is_file: bool = False
    """No page: only modules want it."""
    told: tuple[Told, ...] = ()
    """What modules made of it."""

    @property
    def size(self) -> int:
        """About how many bytes it holds, the body apart, which its answer holds too."""
        rows = sum(told.rows.estimated_size() for told in self.told if told.rows is not None)
        return len(self.text or "") + self.links.size + int(rows)


Result = ReadPage | str
"""A page, or the reason why it is malformed."""


def media_type(content_type: str | None) -> str:
    """The media type of a Content-Type field, in lower case and without parameters; "" if it says none."""
    return (content_type or "").partition(";")[0].strip().lower()
