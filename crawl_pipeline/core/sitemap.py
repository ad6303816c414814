"""Read a sitemap: the pages, or the further sitemaps, that a site names (sitemaps.org protocol).

XML sitemaps and indexes, RSS, Atom and plain text, gzipped or not; the first bytes tell which, never the name
or the media type. External entities, DTDs and the network are out of reach, and a compressed file is unpacked
only up to the limit. Judges neither scope nor other hosts: that is for admission. Invariant: only entries
that were closed count, so that a file cut in the middle of a location yields no wrong URL; every location is
canonical and stands once.
"""

import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from html.entities import name2codepoint
from itertools import islice
from typing import Literal

from lxml import etree

from crawl_pipeline.core.urls import NotCrawlable, canonical

Type = Literal["urlset", "index", "text", "rss", "atom", "none"]

# The protocol's own limits: 50 MB uncompressed, 50,000 locations.
BODY_BYTES = 52_428_800
LOCATIONS = 50_000


class TooLarge(ValueError):
    """A sitemap that unpacks to more than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"expected a sitemap of at most {limit} bytes unpacked, found more; leave it out")


@dataclass(frozen=True, slots=True)
class Entry:
    """One location; `lastmod` and `rate`, changes per day, are hints of the site, `alternates` its translations."""

    loc: str
    lastmod: datetime | None = None
    alternates: tuple[str, ...] = ()
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Sitemap:
    """What a sitemap names: further sitemaps if it is an index, else pages; `cut` if there were more."""

    type: Type
    entries: tuple[Entry, ...] = ()
    cut: bool = False


def read(body: bytes, url: str, *, most_bytes: int = BODY_BYTES, most: int = LOCATIONS) -> Sitemap:
    """Read the sitemap that stood at `url`; raise TooLarge beyond `most_bytes` unpacked."""
    text = _as_ascii(_unpacked(body, most_bytes))
    if not text.startswith(b"<"):
        return _kept("text", map(Entry, _plain(text)), url, most)
    return _read_xml(_repaired(text), url, most)


def named(found: Sitemap, *, most: int = LOCATIONS) -> tuple[Entry, ...]:
    """Everything a sitemap names, each once: its locations, then as many of their translations as fit beside them.

    A translation has no date of its own: lastmod speaks of the location it belongs to.
    """
    known = dict.fromkeys(entry.loc for entry in found.entries)
    others = dict.fromkeys(other for entry in found.entries for other in entry.alternates if other not in known)
    return (*found.entries, *(Entry(loc) for loc in islice(others, most)))


def _unpacked(body: bytes, most_bytes: int) -> bytes:
    """Undo gzip, recognised by its first bytes, member by member; a cut file gives what can be read."""
    out = bytearray()
    while body.startswith(b"\x1f\x8b"):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            out += unpacker.decompress(body, most_bytes + 1 - len(out))
        except zlib.error:
            break
        if len(out) > most_bytes:
            raise TooLarge(most_bytes)
        body = unpacker.unused_data
        if not body.startswith(b"\x1f\x8b"):
            return bytes(out)
    if len(body) > most_bytes:
        raise TooLarge(most_bytes)
    return bytes(out) or body


_DECLARED = re.compile(rb"^(<\?xml[^>]{0,99}?)\s{1,9}encoding\s*=\s*(?:\"[^\"]*\"|'[^']*')")


def _as_ascii(body: bytes) -> bytes:
    """Return the file in an encoding that extends ASCII, without byte-order mark and leading white space."""
    if body.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = body.decode("utf-16", "replace").lstrip().encode()
        return _DECLARED.sub(rb"\1", text)
    if body.startswith(b"\xef\xbb\xbf"):
        return _DECLARED.sub(rb"\1", body[3:].lstrip())
    return body.lstrip()


def _plain(text: bytes) -> Iterator[str]:
    """Yield the lines of a text sitemap that begin like a URL."""
    for line in text.splitlines():
        if line.strip().lower().startswith((b"http://", b"https://")):
            yield line.strip().decode("utf-8", "replace")


_AMPERSAND = re.compile(rb"<!\[CDATA\[(?:.*?\]\]>|.*)|&(?:#\d+;|#x[0-9A-Fa-f]+;|([A-Za-z_][\w.\-]*);)?", re.DOTALL)


def _repaired(text: bytes) -> bytes:
    """Escape a bare & and spell out the entities of HTML, outside CDATA: a parser that recovers loses both."""
    return _AMPERSAND.sub(_repair, text) if b"&" in text else text


def _repair(found: re.Match[bytes]) -> bytes:
    if found[0] == b"&":
        return b"&amp;"
    code = name2codepoint.get((found[1] or b"").decode("ascii", "replace"))
    return f"&#{code};".encode() if code else found[0]


_ROOTS: dict[str, Type] = {
    "urlset": "urlset",
    "sitemapindex": "index",
    "rss": "rss",
    "rdf": "rss",
    "feed": "atom",
}
_ENTRIES = frozenset({"url", "sitemap", "item", "entry"})
_CHUNK = 65_536


def _read_xml(text: bytes, url: str, most: int) -> Sitemap:
    elements = _elements(text)
    root = next(elements, None)
    kind = _ROOTS.get(_local(root), "none") if root is not None else "none"
    return Sitemap("none") if kind == "none" else _kept(kind, map(_entry, elements), url, most)


def _elements(text: bytes) -> Iterator[etree._Element]:
    """Yield the root as soon as it opens, then every entry that is closed by its own end tag.

    The parser is never told that the file is over, so an entry that the end of the file cuts does not come.
    """
    parser = etree.XMLPullParser(
        events=("start", "end"),
        recover=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    opened = False
    for start in range(0, len(text), _CHUNK):
        try:
            parser.feed(text[start : start + _CHUNK])
        except etree.XMLSyntaxError:
            return
        for event, element in parser.read_events():
            if not opened:
                opened = True
                yield element
            elif event == "end" and _local(element) in _ENTRIES:
                yield element
                _forget(element)


def _forget(element: etree._Element) -> None:
    """Drop an entry that was read and its elder siblings, so that memory does not grow with the file."""
    element.clear()
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _local(element: etree._Element) -> str:
    """Return the name of an element in lower case, without namespace or prefix; both are often wrong."""
    tag = element.tag
    return tag.rpartition("}")[2].rpartition(":")[2].lower() if isinstance(tag, str) else ""


def _entry(element: etree._Element) -> Entry:
    """Read one entry; only its own children count, as images and videos have a loc too."""
    loc, guid, rate = "", "", None
    lastmod: dict[str, str] = {}
    alternates: list[str] = []
    for child in element:
        name, text = _local(child), (child.text or "").strip()
        if name == "loc":
            # What is left of a location with an unknown entity in it would be another URL.
            loc = loc or ("" if len(child) else text)
        elif name == "link":
            href, rel = child.get("href", "").strip(), child.get("rel", "alternate").lower()
            if href and child.get("hreflang") and rel == "alternate":
                alternates.append(href)
            elif rel == "alternate":
                loc = loc or text or href
        elif name == "guid" and child.get("isPermaLink", "true").lower() == "true":
            guid = text
        elif name in _DATES:
            lastmod[name] = text
        elif name == "changefreq":
            rate = RATES.get(text.lower())
    written = next((lastmod[name] for name in _DATES if name in lastmod), "")
    return Entry(loc or guid, _moment(written), tuple(alternates), rate)


def _kept(kind: Type, entries: Iterable[Entry], url: str, most: int) -> Sitemap:
    """Return the entries whose location is a crawlable URL, each once and in canonical form."""
    kept: dict[str, Entry] = {}
    for entry in entries:
        loc = _located(entry.loc, url)
        if loc is None or loc in kept:
            continue
        if len(kept) == most:
            return Sitemap(kind, tuple(kept.values()), cut=True)
        others = tuple(other for href in entry.alternates if (other := _located(href, url)))
        kept[loc] = Entry(loc, entry.lastmod, others, entry.rate)
    return Sitemap("none" if kind == "text" and not kept else kind, tuple(kept.values()))


def _located(href: str, url: str) -> str | None:
    try:
        return canonical(href, url) if href else None
    except NotCrawlable:
        return None


RATES = {"always": 24.0, "hourly": 24.0, "daily": 1.0, "weekly": 0.14, "monthly": 0.033, "yearly": 0.003,
         "never": 0.0003}  # fmt: skip
"""Changes per day that the words of changefreq stand for."""
# In order of trust where an entry has several.
_DATES = ("lastmod", "updated", "pubdate", "published", "date")
# W3C date and time formats, and with a space for the T.
_W3C = re.compile(
    r"(\d{4})(?:-(\d\d?)(?:-(\d\d?)"
    r"(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?\s*([Zz]|[+-]\d\d:?\d\d)?)?)?)?"
)


def _moment(text: str) -> datetime | None:
    """Read a date as UTC to the second; without offset it is taken for UTC. None if it is no date."""
    try:
        if not (found := _W3C.fullmatch(text)):
            at = parsedate_to_datetime(text)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).replace(microsecond=0)
        year, month, day, hour, minute, second = (int(found[n] or n in (2, 3)) for n in range(1, 7))
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        return at - _offset(found[7] or "Z")
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _offset(zone: str) -> timedelta:
    if zone in "Zz":
        return timedelta(0)
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return timedelta(minutes=-minutes if zone[0] == "-" else minutes)
