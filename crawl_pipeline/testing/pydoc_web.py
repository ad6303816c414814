"""The demo's web: real documentation pages on some forty hosts, with everything that real hosts do to a
crawler.

Pages come from `pydoc_pages`; this file decides who serves them and how: which host is slow, shut, moved,
copied or without end. The tables below are the whole of it. `web(folder)` builds the web over a folder of
rendered pages, `rendering(folder)` keeps the process alive that fills it; a page that is not there yet
makes its request wait.

    python -m crawl_pipeline.testing.pydoc_web --port 0 --log FILE --ready FILE
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from crawl_pipeline.testing import loopback_web, pydoc_pages
from crawl_pipeline.testing.shapes import calendar, redirect_loop
from crawl_pipeline.testing.sites import (
    Answer,
    Host,
    NotYet,
    Request,
    Site,
    Trap,
    Web,
    at_first,
    below,
    chunked,
    html,
    not_found,
    prose,
    redirect,
    robots_text,
    routes,
    sitemap,
    slow,
    unavailable,
    validated,
)

PORTAL = "docs.test"  # links to every host
SLOW = {"sockets.test": 1.0}  # host -> seconds to the first byte
CRAWL_DELAY = {"secrets.test": 1.0}
DISALLOWED = {  # host -> path prefixes that robots.txt forbids; pages do link there
    "trio.test": ("/trio._core._io", "/trio._socket"),
    "rich.test": ("/rich._win", "/rich._unicode_data"),
    "anyio.test": ("/anyio._core", "/private/"),
    "shut.test": ("/",),  # not by rules: its robots.txt answers 500, which forbids everything (RFC 9309, 2.3.1.4)
}
WITHOUT_ROBOTS = ("yaml.test", "jinja2.test")  # 404: everything is allowed
SITEMAPS = {"email.test": ("/sitemap.xml",), "xml.test": ("/sitemap.xml",)}  # named in robots.txt
SITEMAP_UNNAMED = ("json.test", "http.test")  # there, but nothing says so
BUSY = {"archives.test": (3, 2)}  # host -> first page requests answered 503, Retry-After in seconds
MIRRORS = {"json-mirror.test": "json.test"}
MOVED = {"simplejson.test": "json.test"}  # every URL redirects to the other host
IN_CHUNKS = ("http.test", "asyncio.test")
VALIDATED = ("json.test", "json-mirror.test", "email.test", "text.test")  # ETag and 304
CALENDAR = "calendar.test"
TRAP = Trap(rf"//{re.escape(CALENDAR)}(:\d+)?/cal/", 50)
TOO_LARGE_BYTES = 24 << 20

PDF = Answer(200, (("content-type", "application/pdf"),), b"%PDF-1.4\n" + bytes(range(256)) * 64)
PRINTABLE = html("To print", ["/"], prose("printable"), head='<meta name="robots" content="noindex, follow">')
ONLY_IN_SITEMAP = html("Only in the sitemap", ["/"], prose("only in the sitemap"))
PRIVATE = html("Private", ["/"], "robots.txt forbids this page.")


def web(folder: Path) -> Web:
    """The web over a folder of rendered pages."""
    pages: dict[str, list[str]] = {}
    for name, host in pydoc_pages.modules().items():
        pages.setdefault(host, []).append(name)
    hosts = [Host(host, _host(host, names, folder)) for host, names in pages.items()]
    copies = [Host(copy, _host(host, pages[host], folder)) for copy, host in MIRRORS.items()]
    moved = [Host(old, _moved(new)) for old, new in MOVED.items()]
    shut = Host("shut.test", routes({"/robots.txt": html("Broken", status=500)}, otherwise=not_found))
    names = [host.name for host in (*hosts, *copies, *moved, shut)]
    portal = Host(PORTAL, _portal(names))
    return Web(
        hosts=(portal, *hosts, *copies, *moved, shut),
        entries=((PORTAL, "/"), ("json.test", "/"), ("asyncio.test", "/asyncio.html"), ("trio.test", "/")),
        disallowed=DISALLOWED,
        sitemaps=SITEMAPS,
        traps=(TRAP,),
        unresolved=(pydoc_pages.RFC_HOST,),
        mirrors=MIRRORS,
    )


def _host(host: str, names: Sequence[str], folder: Path) -> Site:
    """One host: its robots.txt and index, its pages, and what the tables above say of it."""
    listed = {f"/{name}.html": name for name in names}
    extra = _extra(host, names)
    special: dict[str, Answer | Site] = {
        "/": html(f"Documentation on {host}", [*listed, *extra, f"/gone-from-{host}.html"], prose(host)),
        "/index.html": redirect("/"),
        "/robots.txt": lambda request: _robots(host, request),
        **extra,
    }
    if host in SITEMAPS or host in SITEMAP_UNNAMED:
        orphan = "/only-in-sitemap.html"
        special[orphan] = ONLY_IN_SITEMAP
        special["/sitemap.xml"] = lambda request: sitemap(request, ["/", *listed, orphan])
        if host in SITEMAP_UNNAMED:
            del special[orphan]
            special["/sitemap.xml"] = lambda request: sitemap(request, ["/", *listed])
    content = _behaving(host, routes(special, otherwise=_pages(listed, folder)))
    # robots.txt is never late and never busy: only what a host says of itself is tried on its pages.
    return routes({"/robots.txt": special["/robots.txt"]}, otherwise=content)


def _extra(host: str, names: Sequence[str]) -> dict[str, Answer | Site]:
    """What a host has beside its index and its pages; its index links to all of it."""
    extra: dict[str, Answer | Site] = {
        "/index.html": redirect("/"),
        f"/lib/{names[0]}": redirect(f"/{names[0]}.html"),
        f"/lib/{names[-1]}": redirect(f"/{names[-1]}.html", 302),
    }
    if host == CALENDAR:
        trap = calendar("/cal")
        extra["/cal/"] = trap
    if host == "archives.test":
        extra["/manual.pdf"] = PDF
    if host == "text.test":
        ring = redirect_loop("/loop/a", "/loop/b", "/loop/c")
        extra |= {"/loop/a": ring, "/loop/b": ring, "/loop/c": ring, "/all-in-one.html": _too_large}
    if host == "json.test":
        extra["/printable.html"] = PRINTABLE
    if host == "anyio.test":
        extra |= {"/private/notes.html": PRIVATE, "/private/plans.html": PRIVATE}
    return extra


def _behaving(host: str, content: Site) -> Site:
    if host == CALENDAR:
        content = below("/cal/", calendar("/cal"), otherwise=content)
    if host in VALIDATED:
        content = validated(content)
    if host in IN_CHUNKS:
        content = chunked(content)
    if host in SLOW:
        content = slow(content, SLOW[host])
    if host in BUSY:
        requests, retry_after_s = BUSY[host]
        content = at_first(content, unavailable(retry_after_s), requests=requests)
    return content


def _pages(listed: dict[str, str], folder: Path) -> Site:
    def answer(request: Request) -> Answer:
        name = listed.get(request.target)
        if name is None or (folder / f"{name}.missing").exists():
            return not_found(request)
        try:
            body = (folder / f"{name}.html").read_bytes()
        except FileNotFoundError:
            (folder / f"{name}.wanted").touch()
            raise NotYet(name) from None
        port = request.link("", "").removeprefix("http://")
        body = body.replace(pydoc_pages.PORT.encode(), port.encode())
        return Answer(200, (("content-type", "text/html; charset=utf-8"),), body)

    return answer


def _robots(host: str, request: Request) -> Answer:
    if host in WITHOUT_ROBOTS:
        return not_found(request)
    sitemaps = [request.link(request.host, target) for target in SITEMAPS.get(host, ())]
    text = robots_text(DISALLOWED.get(host, ()), CRAWL_DELAY.get(host), sitemaps)
    return Answer(200, (("content-type", "text/plain; charset=utf-8"),), text.encode())


def _moved(new: str) -> Site:
    def answer(request: Request) -> Answer:
        if request.path == "/robots.txt":
            return _robots(request.host, request)
        return redirect(request.link(new, request.target))

    return answer


def _portal(names: Sequence[str]) -> Site:
    def answer(request: Request) -> Answer:
        if request.target == "/robots.txt":
            return _robots(request.host, request)
        if request.target != "/":
            return not_found(request)
        return html("All documentation", [request.link(name) for name in names], prose(PORTAL))

    return answer


def _too_large(request: Request) -> Answer:
    page = html("All in one", text="")
    return replace(page, body=page.body + b"<p>too much\n" * (TOO_LARGE_BYTES // 12))


# The folder of rendered pages.


def cache_folder() -> Path:
    """Where pages rendered by this Python with these packages are kept, in the user's cache."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "crawl-pipeline" / f"pydoc-{pydoc_pages.digest()}"


@contextmanager
def rendering(folder: Path) -> Iterator[None]:
    """Render into the folder, in a process of its own, until all is there or the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "crawl_pipeline.testing.pydoc_pages", str(folder)]
    settings = os.environ | {"PYTHONHASHSEED": "0"}  # the order in sets shows on pages
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, env=settings)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = loopback_web.arguments(argparse.ArgumentParser(description="Serve the demo's web on loopback."))
    parser.add_argument("--cache", type=Path, help="folder of rendered pages (default: in the user's cache)")
    options = parser.parse_args()
    folder = options.cache or cache_folder()
    with rendering(folder):
        loopback_web.run(web(folder), port=options.port, log=options.log, ready=options.ready)


if __name__ == "__main__":
    main()
