"""URL: the one spelling, and what has none."""

from crawl_pipeline.core.urls import NotCrawlable, canonical
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input


def _canonical(given: Input) -> dict[str, Json]:
    try:
        return {"canonical": canonical(given["url"], given.get("base")), "reject": False}
    except NotCrawlable:
        return {"canonical": None, "reject": True}


def _same(given: Input) -> dict[str, Json]:
    one, other = given["urls"]
    return {"same": canonical(one) == canonical(other)}


def _idempotent(given: Input) -> dict[str, Json]:
    once = canonical(given["url"])
    return {"idempotent": canonical(once) == once}


ADAPTERS: Adapters = {
    ("url", "canonical"): _canonical,
    ("url", "same"): _same,
    ("url", "idempotent"): _idempotent,
}
