"""Read one page: its text, where its links lead, and what it asks of crawlers.

Bytes and header fields in, a `Page` of canonical URLs and plain strings out. Never fetches, never judges
whether a link is wanted, and refuses (Malformed) what a parser would choke on instead of repairing it. Runs
once per page in processes that may be killed, so it is written for speed: lexbor gets the bytes as they came
if they are UTF-8, elements are found in one walk, and a reference is resolved once however often it stands in
the page. Invariant: every URL in a Page is canonical.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser

from crawl_pipeline.core import charset, directives, markup
from crawl_pipeline.core.elements import Found, Kind, gather
from crawl_pipeline.core.markup import Malformed
from crawl_pipeline.core.text import blocks_of, marked
from crawl_pipeline.core.urls import NotCrawlable, canonical, joiner

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

    `regions`: what each line of the text stands in (core.text).
    `references` and `base_href` are as they are written.
    """

    title: str
    lang: str
    text: str
    regions: bytes
    links: tuple[Link, ...]
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
    markup.check(source)
    # Without mutation events many options in a select take linear instead of quadratic time.
    tree = LexborHTMLParser(marked(source), options=LexborDocumentOptions.WO_EVENTS)
    found = gather(tree, source, agent.lower(), limits.links, images=images)
    base = _target(found.base, partial(canonical, base=url)) or url
    join = joiner(base, charset.query_codec(encoding))
    wishes = found.wishes.also(directives.from_header(x_robots_tag, agent))
    declared = _target(found.canonical or directives.canonical_in_header(link_header), join)
    refresh = _target(found.refresh, join)
    blocks, regions = blocks_of(tree, found.unseen, found.regions)  # last, for it takes the tree apart
    return Page(
        title=found.title,
        lang=found.lang,
        links=_links(found, join, declared, refresh, limits.link_characters),
        base=base,
        canonical=declared,
        alternates=tuple((lang, to) for lang, href in found.alternates if (to := _target(href, join))),
        refresh=refresh,
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


def _target(href: str | None, resolve: Callable[[str], str]) -> str | None:
    """Resolve a reference that may be missing or no URL of a page."""
    try:
        return resolve(href) if href else None
    except NotCrawlable:
        return None


def _links(
    found: Found, join: Callable[[str], str], declared: str | None, refresh: str | None, most_characters: int
) -> tuple[Link, ...]:
    """Return every link once per kind, in document order within a kind."""
    followed: dict[str, bool] = {}
    # A long base makes every short reference long: what is kept of one page is bounded in characters too.
    room = most_characters
    for href, nofollow in found.hrefs.items():
        try:
            url = join(href)
        except NotCrawlable:
            continue
        room -= len(url)
        if room < 0:
            found.cut = True
            break
        followed[url] = nofollow and followed.get(url, True)
    links = [Link(url, "link", nofollow) for url, nofollow in followed.items()]
    others = [Link(to, kind) for href, kind in found.others if (to := _target(href, join))]
    single: tuple[tuple[str | None, Kind], ...] = ((declared, "canonical"), (refresh, "refresh"))
    return (*links, *dict.fromkeys(others), *(Link(to, kind) for to, kind in single if to))
