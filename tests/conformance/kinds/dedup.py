"""Dedup: what is the same, what is nearly the same, and the arithmetic under it. Known URLs are dedup_seen's.

A document goes the way of a fetched page: read and stripped if it is HTML, then fingerprinted.
"""

import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import polars as pl

from crawl_pipeline import corpus
from crawl_pipeline.core import fingerprint, page, sketches, stripping, templates, tokens
from crawl_pipeline.core.contents import content_hash
from crawl_pipeline.core.tables import PAGES, ROUNDS
from crawl_pipeline.fetch import decoding
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, plain, routes
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input, octets
from tests.scenarios.crawls import Crawl

NOW = datetime(2026, 7, 1, tzinfo=UTC)
BODY_LIMIT = 100_000_000
CONSONANTS, VOWELS = "bcdfghjklmnprstvwzxq", "aeiou"


def near(given: Input) -> dict[str, Json]:
    """Compare two documents by the full rule."""
    a, b = (fingerprint.signatures(pl.Series([_text(given[name])])) for name in ("a", "b"))
    return {"near_duplicate": fingerprint.near(a, b).item()}


def _text(document: Input) -> str:
    if "html" in document:
        return _read(document["html"])
    words = list(_generated(**document["gen"])) if "gen" in document else [document["text"]]
    for index, word in document.get("replace", ()):
        words[index] = word
    parts = (document.get("prepend"), *words, document.get("append"))
    text = " ".join(part for part in parts if part)
    before, after = document.get("wrap_html", ("", ""))
    return _read(before + text + after) if before or after else text


def _read(html: str) -> str:
    found = page.read(html.encode(), "https://site.example/", "text/html; charset=utf-8")
    unknown_host = templates.Counts().template()
    main = stripping.strip([found.text], [templates.hashes(found.text)], [found.regions], [unknown_host])["main"]
    return str(main.item())


def _generated(seed: int, n: int) -> Iterator[str]:
    """The words that the cases' own description defines."""
    for _ in range(n):
        seed = (seed * 1103515245 + 12345) % 2**31
        k = (seed >> 8) % 10000
        yield CONSONANTS[k % 20] + VOWELS[k // 20 % 5] + CONSONANTS[k // 100 % 20] + VOWELS[k // 2000 % 5]


def exact(given: Input) -> dict[str, Json]:
    """Group bodies by the hash of their content, codings undone."""
    groups: dict[bytes, list[int]] = {}
    for index, sent in enumerate(given["pages"]):
        coding = [sent["content_encoding"]] if sent.get("content_encoding") else []
        groups.setdefault(content_hash(decoding.decode(octets(sent, "body"), coding, BODY_LIMIT)), []).append(index)
    return {"groups": list(groups.values())}


def store(given: Input) -> dict[str, Json]:
    """Crawl the pages, then ask the lake what it has stored, and what is the same."""
    hosts = [Host(name, routes(own)) for name, own in _by_host(given["pages"]).items()]
    with tempfile.TemporaryDirectory() as root:
        crawl = Crawl(Path(root), *hosts).seed(*(sent["url"] for sent in given["pages"]))
        crawl.work()
        urls = "select list_sort(list(url)) as urls from pages group by content_round, body_hash having count(*) > 1"
        return {
            "bodies_stored": crawl.rows("contents").height,
            "urls_recorded": crawl.rows("pages")["url"].n_unique(),
            "same_content": corpus.query(crawl.lake, urls)["urls"].sort().to_list(),
        }


def _by_host(pages: list[Input]) -> dict[str, dict[str, Answer]]:
    hosts: dict[str, dict[str, Answer]] = {}
    for sent in pages:
        parts = urlsplit(sent["url"])
        hosts.setdefault(parts.netloc, {})[parts.path] = plain(sent["body"], content_type="text/html")
    return hosts


def hamming(given: Input) -> dict[str, Json]:
    """Look a fingerprint up in the block index."""
    known = _simhashes(given["fingerprints"].values()).with_columns(
        id=pl.Series(list(given["fingerprints"]), dtype=pl.String)
    )
    found = fingerprint.within(known, _simhashes([given["query"]]), given["k"])
    return {"ids": found["id"].to_list()}


def _simhashes(digits: Iterable[str]) -> pl.DataFrame:
    numbers = [_signed(each) for each in digits]
    return pl.DataFrame({"id": range(len(numbers)), "simhash": pl.Series(numbers, dtype=pl.Int64)})


def _signed(digits: str) -> int:
    return int.from_bytes(bytes.fromhex(digits), "big", signed=True)


def roundtrip(given: Input) -> dict[str, Json]:
    """Store a fingerprint with a page, and read it back."""
    with tempfile.TemporaryDirectory() as root:
        lake = Lake.create(f"{root}/lake", 1)
        lease = lake.claim([0], "w", NOW, 60)
        row = {"bucket": 0, "month": "2026-07", "url_hash": 1, "simhash": _signed(given["fingerprint"])}
        lake.write(lease, PAGES, PAGES.frame([row]).drop("round"))
        lake.commit(lease, ROUNDS.frame([{"bucket": 0, "links_seen": [-1], "orders_seen": -1}]).drop("round"))
        stored = Lake.open(lake.root).scan(PAGES).select("simhash").collect().item()
    return {"fingerprint": f"{stored % 2**64:016x}"}


def jaccard(given: Input) -> dict[str, Json]:
    """Estimate from MinHashes whose features are the tokens themselves."""
    a, b = (_minhash(given[name]) for name in ("a", "b"))
    return {"jaccard": float(np.mean(a == b))}


def _minhash(words: list[str]) -> sketches.Signatures:
    if not words:
        return np.full((1, sketches.PERMUTATIONS), 2**32 - 1, np.uint32)
    features = np.unique(np.array([tokens.word_hash(word) for word in words], np.uint64))
    return sketches.minhash(features, np.array([len(features)]))


ADAPTERS: Adapters = {
    ("dedup", "near"): near,
    ("dedup", "exact"): exact,
    ("dedup", "store"): store,
    ("dedup", "hamming"): hamming,
    ("dedup", "roundtrip"): roundtrip,
    ("dedup", "jaccard"): jaccard,
}
