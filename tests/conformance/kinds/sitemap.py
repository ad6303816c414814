"""Sitemaps: reading one, and walking from index to index.

What an index names is admitted as in a round: by core.admission, against what is known.
"""

import gzip
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline.core import sitemap
from crawl_pipeline.core.admission import admit
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import HOSTS, LINKS
from crawl_pipeline.core.urls import host, origin, site, url_hash
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input, octets

MIB = 1 << 20
NOW = datetime(2026, 7, 1, tzinfo=UTC)
POLICY = Policy.model_validate({"agent": {"name": AGENT, "contact": "https://bot.example/"}})


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


def _admitted(named: list[str], depth: int, seen: list[str]) -> list[str]:
    """Which of the sitemaps that an index names become frontier rows."""
    rows = [{"url": url, "url_hash": url_hash(url), "host": host(url), "kind": "sitemap", "nofollow": False,
             "depth": depth, "hops": 0, "target_bucket": 0, "source_bucket": 0} for url in named]  # fmt: skip
    links = LINKS.frame(rows).with_columns(site=pl.Series([site(host(url)) for url in named], dtype=pl.String))
    names = {host(url) for url in seen}
    hosts = HOSTS.frame(
        [{"host": name, "site": site(name), "seeded": True, "known_count": len(seen)} for name in names]
    )
    known = pl.Series("url_hash", [url_hash(url) for url in seen], dtype=pl.Int64)
    return admit(links, known, hosts, POLICY, NOW).rows["url"].to_list()


def _walk(given: Input) -> dict[str, Json]:
    pages, locs = _pages(given), set()
    seen = [given["start"]]
    todo, fetches = [(given["start"], 0)], 0
    while todo:
        url, depth = todo.pop(0)
        fetches += 1
        page = pages.get(url, {})
        locs.update(page.get("urls", ()))
        fresh = _admitted(list(page.get("index", ())), depth + 1, seen)
        seen += fresh
        todo += [(loc, depth + 1) for loc in fresh]
    return {"locs": sorted(locs), "fetches": fetches}


ADAPTERS: Adapters = {("sitemap", "parse"): _parse, ("sitemap", "walk"): _walk}
