"""Links: where a page leads, and what it asks of crawlers."""

from crawl_pipeline.core import charset, page
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input


def _links(given: Input) -> dict[str, Json]:
    encoding = given.get("document_encoding", "utf-8")
    headers = {name.lower(): value for name, value in given.get("headers", {}).items()}
    found = page.read(
        given["html"].encode(charset.codec(encoding), "xmlcharrefreplace"),
        given["url"],
        headers.get("content-type", f"text/html; charset={encoding}"),
        _values(headers, "x-robots-tag"),
        AGENT,
        link_header=_values(headers, "link"),
    )
    return {
        "links": [link.url for link in found.links if link.kind == "link"],
        "nofollow": [link.url for link in found.links if link.nofollow],
        "base": found.base,
        "canonical": found.canonical,
        "alternates": dict(found.alternates),
        "frames": [link.url for link in found.links if link.kind == "frame"],
        "refresh": found.refresh,
        "robots": {"noindex": found.noindex, "nofollow": found.nofollow},
    }


def _values(headers: dict[str, Json], name: str) -> tuple[str, ...]:
    value = headers.get(name, ())
    return (value,) if isinstance(value, str) else tuple(value)


ADAPTERS: Adapters = {("links", ""): _links}
