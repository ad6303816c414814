"""Traps: measures of a URL, and pages made to choke a parser. Whole sites join in where crawls are tested."""

from collections.abc import Callable

from crawl_pipeline.core import page
from crawl_pipeline.core.strip import shape
from crawl_pipeline.core.urls import NotCrawlable, canonical
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input


def _url_limits(given: Input) -> dict[str, Json]:
    limits = given["limits"]
    try:
        found = shape(canonical(given["url"]))
    except NotCrawlable:
        return {"reject": True}
    measured = {
        "max_url_length": found.chars,
        "max_path_depth": found.path_depth,
        "max_query_params": found.query_params,
        "max_repeated_segment": found.segment_repeats,
    }
    return {"reject": any(measured[name] > most for name, most in limits.items() if name in measured)}


PAGES: dict[str, Callable[[Input], str]] = {
    "nested": lambda page: f"<{page['tag']}>" * page["n"] + "<a href=/x>x</a>",
    "nested_pair": lambda page: "".join(f"<{tag}>" for tag in page["tags"]) * page["n"] + "<a href=/x>x</a>",
    "options": lambda page: "<select>" + "<option>a" * page["n"],
    "attributes": lambda page: f"<a {' '.join(f'a{k}=1' for k in range(page['n']))} href=/x>x</a>",
    "links": lambda page: "".join(f"<a href=/p/{k}>x</a>" for k in range(page["n"])),
    "long_link": lambda page: f'<a href="/{"x" * page["n"]}">x</a>',
    "unclosed_comment": lambda page: "<!--" + "x" * page["n"],
}


def _parse_page(given: Input) -> dict[str, Json]:
    body = PAGES[given["page"]["kind"]](given["page"]).encode()
    try:
        found = page.read(body, canonical(given["url"]), limits=page.Limits(body_bytes=20_000_000))
    except page.Malformed as refused:
        return {"links": 0, "refused": refused.reason}
    return {"links": len(found.links)}


ADAPTERS: Adapters = {("trap", "url_limits"): _url_limits, ("trap", "parse_page"): _parse_page}
