"""What a polite crawl of a web must fetch: found by following the links inside the generator, without
HTTP.

Independent of the crawler on purpose: pages are read with lxml, URLs joined with `urllib.parse`,
and what robots.txt forbids is taken from the web's own declaration. Every site is asked as if its early
trouble were over.
"""

from collections import deque
from dataclasses import dataclass, replace
from time import sleep
from urllib.parse import urldefrag, urljoin, urlsplit

import lxml.html

from crawl_pipeline.testing.sites import Answer, NotYet, Request, Site, Trap, Web

LATER = 10**9  # requests and seconds after which every site is over its early trouble


@dataclass(frozen=True, slots=True)
class Truth:
    """The URLs of a web by what a crawl from its seeds owes them; found by links unless said otherwise."""

    pages: frozenset[str]  # answer 200 with HTML: each must be fetched, once
    by_sitemap_only: frozenset[str]  # the same, but found only through a sitemap that robots.txt names
    others: dict[str, str]  # may be asked for, but hold no page -> why: the status, the content type or "unresolved"
    forbidden: frozenset[str]  # robots.txt disallows them and pages link to them: must never be asked for
    traps: tuple[Trap, ...]
    noindex: frozenset[str]  # pages that ask not to be indexed
    mirrors: dict[str, str]  # page of a mirror -> the page that it copies


@dataclass
class _Found:
    pages: dict[str, bytes]
    others: dict[str, str]
    forbidden: set[str]


def truth(web: Web) -> Truth:
    """Walk the web from its seeds, then once more with what its sitemaps add."""
    linked = _walk(web, web.seeds)
    listed = [url for host, targets in web.sitemaps.items() for t in targets for url in _listed(web, host, t)]
    whole = _walk(web, [*web.seeds, *listed])
    return Truth(
        pages=frozenset(linked.pages),
        by_sitemap_only=frozenset(whole.pages.keys() - linked.pages.keys()),
        others=whole.others,
        forbidden=frozenset(whole.forbidden),
        traps=web.traps,
        noindex=frozenset(url for url, body in whole.pages.items() if b"noindex" in body[:2000]),
        mirrors={url: original for url in whole.pages if (original := _original(web, url))},
    )


def _walk(web: Web, start: list[str]) -> _Found:
    sites = {host.name: host.site for host in web.hosts}
    found = _Found({}, {}, set())
    seen, queue = set(start), deque(start)
    while queue:
        for url in _visit(web, sites, queue.popleft(), found):
            if url not in seen and not any(trap.holds(url) for trap in web.traps):
                seen.add(url)
                queue.append(url)
    return found


def _visit(web: Web, sites: dict[str, Site], url: str, found: _Found) -> list[str]:
    """Sort one URL into what was found; returns where it leads."""
    split = urlsplit(url)
    host = split.hostname or ""
    if host not in sites:
        found.others[url] = "unresolved"
        return []
    if any(split.path.startswith(prefix) for prefix in web.disallowed.get(host, ())):
        found.forbidden.add(url)
        return []
    answer = _ask(sites[host], _request(web, host, url))
    headers = dict(answer.headers)
    if "location" in headers and answer.status in (301, 302, 303, 307, 308):
        found.others[url] = str(answer.status)
        return [_join(url, headers["location"])]
    content_type = headers.get("content-type", "")
    if answer.status != 200 or not content_type.startswith("text/html"):
        found.others[url] = content_type if answer.status == 200 else str(answer.status)
        return []
    if len(answer.body) > web.page_bytes:
        found.others[url] = "too large"
        return []
    found.pages[url] = answer.body
    joined = (_join(url, href) for href in links(answer.body))
    return [target for target in joined if target.startswith("http://")]


def _ask(site: Site, request: Request) -> Answer:
    while True:
        try:
            return site(request)
        except NotYet:
            sleep(0.02)


def _request(web: Web, host: str, url: str) -> Request:
    split = urlsplit(url)
    target = (split.path or "/") + (f"?{split.query}" if split.query else "")
    return Request(host, target, web.port, nth=LATER, nth_here=LATER, at_s=LATER)


def _listed(web: Web, host: str, target: str) -> list[str]:
    """The URLs that a sitemap lists."""
    site = {h.name: h.site for h in web.hosts}[host]
    body = _ask(site, replace(Request(host, target, web.port), nth=LATER, at_s=LATER)).body.decode()
    return [part.partition("</loc>")[0] for part in body.split("<loc>")[1:]]


def _original(web: Web, url: str) -> str | None:
    split = urlsplit(url)
    copied = web.mirrors.get(split.hostname or "")
    return Request(copied, split.path, web.port).url if copied else None


def _join(base: str, href: str) -> str:
    joined = urldefrag(urljoin(base, href.strip())).url
    return joined if urlsplit(joined).path else joined + "/"


def links(body: bytes) -> list[str]:
    """Where a page leads by a, area, frame and iframe: as written, with a base element applied."""
    tree = lxml.html.document_fromstring(body)
    found = tree.xpath("//a/@href | //area/@href | //frame/@src | //iframe/@src")
    base = str(tree.xpath("string(//base/@href)"))
    return [urljoin(base, str(href)) if base else str(href) for href in found]
