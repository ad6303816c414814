"""Read one page: its text, where its links lead, and what it asks of crawlers.

Bytes and header fields in, a `Page` of canonical URLs and plain strings out. Never fetches, never judges
whether a link is wanted, and refuses (Malformed) what a parser would choke on instead of repairing it. Runs
once per page in processes that may be killed, so it is written for speed: lexbor gets the bytes as they came
if they are UTF-8, elements are found in one walk, and a reference is resolved once however often it stands in
the page. Invariant: every URL in a Page is canonical.
"""

from dataclasses import dataclass
from typing import NamedTuple

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from crawl_pipeline.core import charset, directives, markup
from crawl_pipeline.core.elements import Found, Kind, gather
from crawl_pipeline.core.markup import Malformed
from crawl_pipeline.core.references import Place, Resolve, resolver
from crawl_pipeline.core.text import blocks_of, marked
from crawl_pipeline.core.urls import NotCrawlable, canonical

__all__ = ["Limits", "Link", "Malformed", "Page", "read"]


class Link(NamedTuple):
    """Where a page leads, and how; `nofollow` if every element that leads there says so."""

    url: str
    kind: Kind = "link"
    nofollow: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a page is read: bytes of markup, links, characters of all its links together."""

    body_bytes: int = 3_000_000
    links: int = 5_000
    link_characters: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says. `base` is what references are relative to; `links_cut` tells that there were more.

    `places`, `kinds`, `nofollows`: its links, column by column. `regions`: what each line of the text stands in
    (core.text). `references` and `base_href` are as they are written.
    """

    title: str
    lang: str
    text: str
    regions: bytes
    places: tuple[Place, ...]
    kinds: tuple[Kind, ...]
    nofollows: tuple[bool, ...]
    base: str
    canonical: str | None
    alternates: tuple[tuple[str, str], ...]
    refresh: str | None
    noindex: bool
    nofollow: bool
    robots_directives: str
    charset: str
    links_cut: bool
    references: tuple[str, ...]
    base_href: str | None

    @property
    def links(self) -> tuple[Link, ...]:
        """Its links one by one."""
        urls = (place.url for place in self.places)
        return tuple(map(Link, urls, self.kinds, self.nofollows))


def read(
    body: bytes,
    url: str,
    content_type: str | None = None,
    x_robots_tag: tuple[str, ...] = (),
    agent: str = "",
    *,
    limits: Limits = Limits(),
    link_header: tuple[str, ...] = (),
    images: bool = False,
) -> Page:
    """Read the page that stood at `url` (canonical); raise Malformed if it is too large or hostile.

    `images`: the pictures in it are links too.
    """
    if len(body) > limits.body_bytes:
        raise Malformed("size", len(body), limits.body_bytes)
    encoding = charset.sniff(body, content_type)
    # Other encodings are turned into UTF-8 first; lexbor and the markup check know only that.
    source = (
        charset.without_mark(body) if encoding == "utf-8" else charset.decode(body, encoding).encode("utf-8", "replace")
    )
    tags = markup.starts(source)
    markup.check(source, tags)
    initials = markup.initials(source, tags)
    # Without mutation events many options in a select take linear instead of quadratic time.
    tree = LexborHTMLParser(marked(source, tags, initials), options=LexborDocumentOptions.WO_EVENTS)
    found = gather(tree, source, initials, agent.lower(), limits.links, images=images)
    base = _base(found.base, url)
    resolve = resolver(base, charset.query_codec(encoding))
    wishes = found.wishes.also(directives.from_header(x_robots_tag, agent))
    declared = _target(found.canonical or directives.canonical_in_header(link_header), resolve)
    refresh = _target(found.refresh, resolve)
    links = _links(found, resolve, declared, refresh, limits.link_characters)
    blocks, regions = blocks_of(tree, found.unseen, found.regions)  # last, for it takes the tree apart
    return Page(
        title=found.title,
        lang=found.lang,
        places=tuple(place for place, _, _ in links),
        kinds=tuple(kind for _, kind, _ in links),
        nofollows=tuple(nofollow for _, _, nofollow in links),
        base=base,
        canonical=declared and declared.url,
        alternates=tuple((lang, to.url) for lang, href in found.alternates if (to := _target(href, resolve))),
        refresh=refresh and refresh.url,
        noindex=wishes.noindex,
        nofollow=wishes.nofollow,
        robots_directives=wishes.said,
        charset=encoding,
        links_cut=found.cut,
        text="\n".join(blocks),
        regions=regions,
        references=_references(found),
        base_href=found.base,
    )


def _references(found: Found) -> tuple[str, ...]:
    single = [href for href in (found.canonical, found.refresh) if href]
    return (*found.hrefs, *(href for href, _ in found.others), *(href for _, href in found.alternates), *single)


def _base(href: str | None, url: str) -> str:
    """What references are relative to: a base element may be no URL of a page."""
    try:
        return canonical(href, url) if href else url
    except NotCrawlable:
        return url


def _target(href: str | None, resolve: Resolve) -> Place | None:
    """Resolve a reference that may be missing."""
    return resolve(href) if href else None


def _links(
    found: Found, resolve: Resolve, declared: Place | None, refresh: Place | None, most_characters: int
) -> list[tuple[Place, Kind, bool]]:
    """Return every link once per kind, in document order within a kind."""
    followed: dict[str, Place] = {}
    nofollows: dict[str, bool] = {}
    # A long base makes every short reference long: what is kept of one page is bounded in characters too.
    room = most_characters
    for href, nofollow in found.hrefs.items():
        place = resolve(href)
        if place is None:
            continue
        url = place.url
        room -= len(url)
        if room < 0:
            found.cut = True
            break
        followed[url] = place
        nofollows[url] = nofollow and nofollows.get(url, True)
    links: list[tuple[Place, Kind, bool]] = [
        (place, "link", nofollow) for place, nofollow in zip(followed.values(), nofollows.values(), strict=True)
    ]
    others = [(to, kind, False) for href, kind in found.others if (to := resolve(href))]
    single: tuple[tuple[Place | None, Kind], ...] = ((declared, "canonical"), (refresh, "refresh"))
    return [*links, *dict.fromkeys(others), *((to, kind, False) for to, kind in single if to)]
