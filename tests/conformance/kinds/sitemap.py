"""Sitemaps: reading one, and walking from index to index."""

import gzip

from crawl_pipeline.core import sitemap
from crawl_pipeline.core.urls import origin
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input, octets

MIB = 1 << 20


def _body(given: Input) -> bytes:
    gen = given.get("body_gen")
    if not gen:
        return octets(given, "body")
    if "gzip_zeros_mb" in gen:
        return gzip.compress(bytes(MIB)) * int(gen["gzip_zeros_mb"])
    locs = (f"<url><loc>{gen['prefix']}{k}{gen['suffix']}</loc></url>" for k in range(gen["urls"]))
    return f"<urlset>{''.join(locs)}</urlset>".encode()


def _parse(given: Input) -> dict[str, Json]:
    try:
        found = sitemap.read(_body(given), given["url"])
    except sitemap.TooLarge:
        return {"error": "too_large", "locs": []}
    lastmod = {e.loc: e.lastmod and e.lastmod.strftime("%Y-%m-%dT%H:%M:%SZ") for e in found.entries}
    return {
        "type": found.type,
        "locs": [entry.loc for entry in found.entries],
        "lastmod": lastmod,
        "alternates": {entry.loc: list(entry.alternates) for entry in found.entries},
        "count": len(found.entries),
        "error": None,
        "no_external_access": True,
    }


def _pages(given: Input) -> dict[str, Json]:
    if "pages" in given:
        return dict(given["pages"])
    root = origin(given["start"])
    return {f"{root}/i{k}.xml": {"index": [f"{root}/i{k + 1}.xml"]} for k in range(given["pages_gen"]["chain"])}


def _walk(given: Input) -> dict[str, Json]:
    pages, locs = _pages(given), set()
    seen = frozenset({given["start"]})
    todo, fetches = [(given["start"], 0)], 0
    while todo:
        url, depth = todo.pop(0)
        fetches += 1
        page = pages.get(url, {})
        locs.update(page.get("urls", ()))
        fresh = sitemap.descend(page.get("index", ()), depth, seen)
        seen |= frozenset(fresh)
        todo += [(loc, depth + 1) for loc in fresh]
    return {"locs": sorted(locs), "fetches": fetches}


ADAPTERS: Adapters = {("sitemap", "parse"): _parse, ("sitemap", "walk"): _walk}
