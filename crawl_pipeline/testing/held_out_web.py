"""The web with labels once more, in other words: to judge a crawl by what nobody has looked at while it was made.

Other texts, other names of paths and parameters, another number of pages; the kinds of sites and traps are the same.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from html import escape, unescape

from crawl_pipeline.testing.sites import Answer, Host, Request, Site
from crawl_pipeline.testing.trap_web import Labelled, LabelledWeb, web

WORDS: Mapping[str, str] = {
    "calendar": "agenda", "facets": "wares", "session": "visit", "tandem": "nested", "missing": "lost",
    "counter": "serial", "redirects": "jumps", "drip": "trickle", "huge": "endless", "case": "spelling",
    "order": "listing", "now": "clock", "sid": "zenid", "t": "stamp", "colour": "tint", "size": "fit",
    "brand": "maker", "sort": "by", "post": "note", "archive": "older", "item": "thing", "range": "shelf",
    "api": "manual", "events": "diary", "thread": "topic", "user": "people", "wiki": "lexicon",
    "population": "census", "page": "part", "list": "all",
}  # fmt: skip
"""Segments of paths and names of parameters, here and there."""
BACK = {there: here for here, there in WORDS.items()}


def held_out(sites: int = 40, pages: int = 100, *, traps: bool = True) -> LabelledWeb:
    """The same kinds of sites and traps as `web` has, two thirds as large, spelled otherwise."""
    made = web(sites, pages * 2 // 3, traps=traps, name="fine")
    return LabelledWeb(
        tuple(Host(host.name, _otherwise(host.site)) for host in made.hosts), made.seeds,
        frozenset(_url(url) for url in made.good), tuple(map(_label, made.traps)),
    )  # fmt: skip


def spelled(target: str, words: Mapping[str, str]) -> str:
    """A path and query, or a reference to one, in other words."""
    path, mark, query = target.partition("?")
    path = "/".join(words.get(segment, segment) for segment in path.split("/"))
    parts = [part.partition("=") for part in query.split("&")]
    return path + mark + "&".join(f"{words.get(name, name)}{sign}{value}" for name, sign, value in parts)


def _otherwise(site: Site) -> Site:
    def answer(request: Request) -> Answer:
        found = site(replace(request, target=spelled(request.target, BACK)))
        headers = tuple((name, spelled(value, WORDS) if name == "location" else value) for name, value in found.headers)
        return replace(found, headers=headers, body=re.sub(rb'href="([^"]*)"', _href, found.body))

    return answer


def _href(found: re.Match[bytes]) -> bytes:
    return f'href="{escape(_url(unescape(found[1].decode())))}"'.encode()


def _url(url: str) -> str:
    """A URL or reference in other words; names of hosts stay."""
    scheme, mark, rest = url.rpartition("://")
    host, slash, target = rest.partition("/") if mark else ("", "", rest)
    return f"{scheme}{mark}{host}{slash}{spelled(target, WORDS)}"


def _label(trap: Labelled) -> Labelled:
    pattern = re.sub(r"/(\w+)/$", lambda found: f"/{WORDS.get(found[1], found[1])}/", trap.pattern)
    return replace(trap, pattern=pattern)
