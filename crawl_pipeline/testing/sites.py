"""Sites as functions: a site takes a Request and gives an Answer, and combinators make sites out of
sites.

Nothing here reads a clock, a socket or a disk. What changes with time is a function of the request, which
says how many came before it and how long ago the first one was, so the memory web and the loopback web
answer alike. Links are made through the request (`request.link`), so that one site works under any port.
"""

import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from urllib.parse import urlsplit

import httpx


class NotYet(Exception):
    """A site says this when its answer is still being made; the web asks it again a moment later."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as a site sees it."""

    host: str
    target: str  # as in the request line: path and query, still escaped
    port: int | None = None  # None: the port is not written in URLs
    user_agent: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)  # lower-case names
    nth: int = 0  # how many requests this host answered before; robots.txt has a count of its own
    nth_here: int = 0  # how many requests this very target answered before
    at_s: float = 0.0  # seconds since this host was first asked

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def url(self) -> str:
        return self.link(self.host, self.target)

    def link(self, host: str, target: str = "/") -> str:
        """The URL of a target on a host of the same web."""
        return f"http://{host}{'' if self.port in (None, 80) else f':{self.port}'}{target}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a site says: a status, headers and a body, how slowly, or a failure instead."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    first_byte_s: float = 0.0  # before the status line
    drip_s: float = 0.0  # before each piece of the body but the first
    piece_bytes: int = 1 << 18
    chunked: bool = False  # on the wire: chunked coding instead of a length
    failure: type[httpx.TransportError] | None = None  # memory: raised; loopback: the connection is reset

    def pieces(self) -> list[bytes]:
        return [self.body[i : i + self.piece_bytes] for i in range(0, len(self.body), self.piece_bytes)]


Site = Callable[[Request], Answer]


@dataclass(frozen=True, slots=True)
class Trap:
    """URLs without end: the pattern that they match and how many of them a crawl may ask for."""

    pattern: str
    bound: int

    def holds(self, url: str) -> bool:
        return re.search(self.pattern, url) is not None


@dataclass(frozen=True, slots=True)
class Host:
    """A site under its name."""

    name: str
    site: Site


@dataclass(frozen=True, slots=True)
class Web:
    """Hosts together with what is true of them: where to start, what is forbidden, what has no end."""

    hosts: tuple[Host, ...]
    entries: tuple[tuple[str, str], ...] = ()  # (host, target) of the seeds
    disallowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # host -> path prefixes
    sitemaps: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # host -> targets that its robots.txt names
    traps: tuple[Trap, ...] = ()
    unresolved: tuple[str, ...] = ()  # hosts that pages link to and that do not exist
    mirrors: Mapping[str, str] = field(default_factory=dict)  # host -> the host that it copies
    page_bytes: int = 4 << 20  # a longer page is too large for any crawl of this web
    port: int | None = None

    def at(self, port: int) -> "Web":
        """The same web served under this port."""
        return replace(self, port=port)

    @property
    def seeds(self) -> list[str]:
        return [Request(host, target, self.port).url for host, target in self.entries]


# Answers.

WORDS = (  # noqa: SIM905 (a list of seventy quoted words is no easier to read)
    "able acid aged also area army away baby back ball band bank base bath bear beat been beer bell "
    "belt best bird blow blue boat body bond bone book born both bowl bulk burn bush busy cake call "
    "calm came camp card care case cash cast cell chat city club coal coat code cold come cook cool "
    "cope copy core cost crew crop dark date dawn "
).split()


def prose(seed: str, words: int = 120) -> str:
    """Text that is always the same for one seed and unlike that of any other."""
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def html(title: str, links: Iterable[str] = (), text: str = "", head: str = "", status: int = 200) -> Answer:
    """A page with these links, in this order."""
    items = "".join(f'<li><a href="{escape(href)}">{escape(href)}</a></li>\n' for href in links)
    page = (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
        f"<title>{escape(title)}</title>{head}</head>\n"
        f"<body><h1>{escape(title)}</h1>\n<p>{escape(text)}</p>\n<ul>\n{items}</ul></body></html>\n"
    )
    return Answer(status, (("content-type", "text/html; charset=utf-8"),), page.encode())


def plain(text: str, status: int = 200, content_type: str = "text/plain; charset=utf-8") -> Answer:
    return Answer(status, (("content-type", content_type),), text.encode())


def redirect(to: str, status: int = 301) -> Answer:
    return Answer(status, (("location", to),))


def not_found(request: Request) -> Answer:
    """The site that has nothing."""
    return html("Not found", text=f"There is no {request.path} here.", status=404)


def throttled(retry_after_s: int | None = None) -> Answer:
    return with_retry_after(plain("slow down\n", 429), retry_after_s)


def unavailable(retry_after_s: int | None = None) -> Answer:
    return with_retry_after(plain("back soon\n", 503), retry_after_s)


def with_retry_after(answer: Answer, retry_after_s: int | None) -> Answer:
    if retry_after_s is None:
        return answer
    return replace(answer, headers=(*answer.headers, ("retry-after", str(retry_after_s))))


def failing(failure: type[httpx.TransportError] = httpx.ConnectError) -> Answer:
    """No answer at all: the transport raises this."""
    return Answer(failure=failure)


def sitemap(request: Request, targets: Iterable[str]) -> Answer:
    """A sitemap of targets of this host."""
    rows = "".join(f"<url><loc>{escape(request.link(request.host, target))}</loc></url>\n" for target in targets)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n{rows}</urlset>\n'
    return plain(text, content_type="application/xml")


# Combinators: sites out of answers and sites.


def always(answer: Answer) -> Site:
    return lambda request: answer


def routes(table: Mapping[str, Answer | Site], otherwise: Site = not_found) -> Site:
    """Answer by exact target first, then by exact path."""

    def answer(request: Request) -> Answer:
        found = table.get(request.target) or table.get(request.path) or otherwise
        return found if isinstance(found, Answer) else found(request)

    return answer


def below(prefix: str, site: Site, otherwise: Site = not_found) -> Site:
    """Give every path that starts with the prefix to one site."""
    return lambda request: (site if request.path.startswith(prefix) else otherwise)(request)


def robots(site: Site, text: str | Answer) -> Site:
    """The site with this robots.txt; an Answer when it is not a plain 200."""
    return routes({"/robots.txt": plain(text) if isinstance(text, str) else text}, otherwise=site)


def at_first(site: Site, answer: Answer, *, requests: int = 0, seconds: float = 0.0) -> Site:
    """Give this answer to the first requests, or for the first seconds, and the site's own from then on."""
    return lambda request: answer if request.nth < requests or request.at_s < seconds else site(request)


def slow(site: Site, first_byte_s: float = 0.0, drip_s: float = 0.0, piece_bytes: int = 1 << 18) -> Site:
    """The site, answering late or in drips."""
    return lambda request: replace(site(request), first_byte_s=first_byte_s, drip_s=drip_s, piece_bytes=piece_bytes)


def chunked(site: Site) -> Site:
    """The site, sending its bodies in chunked coding."""
    return lambda request: replace(site(request), chunked=True)


def validated(site: Site) -> Site:
    """The site with an ETag on every page, and 304 to whoever has that page already."""

    def answer(request: Request) -> Answer:
        own = site(request)
        tag = f'"{hashlib.sha256(own.body).hexdigest()[:16]}"'
        if own.status != 200:
            return own
        if request.headers.get("if-none-match") == tag:
            return Answer(304, (("etag", tag),))
        return replace(own, headers=(*own.headers, ("etag", tag)))

    return answer


def tree(pages: int, links: Mapping[str, Sequence[str]] | None = None) -> Site:
    """Pages /, /1, /2 and so on; page i links to pages 2i+1 and 2i+2, so all are reached from /."""
    more = links or {}
    paths = ["/", *(f"/{i}" for i in range(1, pages))]
    place = {path: i for i, path in enumerate(paths)}

    def answer(request: Request) -> Answer:
        i = place.get(request.target)
        if i is None:
            return not_found(request)
        hrefs = [*paths[2 * i + 1 : 2 * i + 3], *more.get(request.target, ())]
        return html(f"Page {i} of {request.host}", hrefs, prose(request.host + request.target))

    return answer


def site(
    name: str,
    pages: int | Mapping[str, Answer | Site] = 10,
    *,
    links: Mapping[str, Sequence[str]] | None = None,
    crawl_delay_s: float | None = None,
    disallow: Sequence[str] = (),
    robots_txt: str | Answer | None = None,
    status: int = 200,
    first_byte_s: float = 0.0,
) -> Host:
    """A host in one line: a tree of pages (or the given ones), its robots.txt, and what may be wrong with it.

    `links` adds links to pages of the tree; a status other than 200 is what every page answers.
    """
    content = tree(pages, links) if isinstance(pages, int) else routes(pages)
    if status != 200:
        content = always(html(f"Status {status}", status=status))
    if first_byte_s:
        content = slow(content, first_byte_s)
    if robots_txt is None:
        robots_txt = robots_text(disallow, crawl_delay_s)
    return Host(name, robots(content, robots_txt))


def robots_text(disallow: Sequence[str] = (), crawl_delay_s: float | None = None, sitemaps: Sequence[str] = ()) -> str:
    """A robots.txt with one group for everybody."""
    lines = ["User-agent: *", *(f"Disallow: {path}" for path in disallow or [""])]
    if crawl_delay_s is not None:
        lines.append(f"Crawl-delay: {crawl_delay_s:g}")
    return "\n".join([*lines, *(f"Sitemap: {url}" for url in sitemaps)]) + "\n"


class Front:
    """What a web remembers of the requests it got: the counts and the first moment that a Request carries."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._first: dict[str, float] = {}

    def request(self, host: str, target: str, now: float, headers: Mapping[str, str], port: int | None) -> Request:
        """The request with its counts; counting it is part of making it."""
        first = self._first.setdefault(host, now)
        kind = "robots" if urlsplit(target).path == "/robots.txt" else "page"
        nth, nth_here = self._counts[host, kind], self._counts[host, target]
        self._counts[host, kind] += 1
        self._counts[host, target] += 1
        return Request(host, target, port, headers.get("user-agent", ""), headers, nth, nth_here, now - first)
