"""Dedup of bodies: one is stored once, every URL keeps its record. A whole crawl over a web in memory, page by page."""

import tempfile
from collections import defaultdict
from functools import partial
from pathlib import Path

import polars as pl

from crawl_pipeline import corpus
from crawl_pipeline.core import urls
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, Request, not_found, plain
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input
from tests.scenarios.crawls import Crawl

Served = dict[str, list[str]]


def store(given: Input) -> dict[str, Json]:
    """Fetch the pages in their order, each in a round of its own."""
    served: dict[str, Served] = defaultdict(lambda: defaultdict(list))
    names: dict[str, str] = {}
    for page in given["pages"]:
        names.setdefault(urls.canonical(page["url"]), page["url"])
    with tempfile.TemporaryDirectory() as root:
        hosts = [Host(host, partial(_answer, served[host])) for host in dict.fromkeys(map(urls.host, names))]
        crawl, met = Crawl(Path(root), *hosts), set[str]()
        for page in given["pages"]:
            url = urls.canonical(page["url"])
            served[urls.host(url)][_path(url)].append(page["body"])
            crawl.order("recrawl" if url in met else "seed", url).work()
            met.add(url)
        documents = corpus.query(crawl.lake, "select url, content_round, body_hash, body from documents order by round")
        stored = corpus.query(crawl.lake, "select count(*) from contents").item()
    documents = documents.with_columns(pl.col("url").replace_strict(names))
    latest = documents.group_by("url", maintain_order=True).last()
    groups = latest.group_by("content_round", "body_hash", maintain_order=True).agg("url")["url"].to_list()
    return {
        "bodies_stored": stored,
        "urls_recorded": documents["url"].n_unique(),
        "same_content": [group for group in groups if len(group) > 1],
        "current": {url: body.decode() for url, body in latest.select("url", "body").iter_rows()},
    }


def _answer(served: Served, request: Request) -> Answer:
    """The newest body of a path; nothing else answers."""
    found = served.get(request.target)
    return plain(found[-1], content_type="text/html; charset=utf-8") if found else not_found(request)


def _path(url: str) -> str:
    return "/" + url.split("/", 3)[3]


ADAPTERS: Adapters = {("dedup", "store"): store}
