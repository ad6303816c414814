"""Traps: bounds on a URL, and pages made to choke a parser."""

from collections.abc import Callable

import polars as pl

from crawl_pipeline.core import page
from crawl_pipeline.core.admission import judge
from crawl_pipeline.core.policy import Agent, Budget, Policy, Scope
from crawl_pipeline.core.urls import NotCrawlable, canonical, host, site
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input

BUDGETS = {
    "max_url_length": "url_length",
    "max_path_depth": "path_depth",
    "max_query_params": "query_parameters",
    "max_repeated_segment": "repeated_segment",
}


def _url_limits(given: Input) -> dict[str, Json]:
    budget = {BUDGETS[name]: most for name, most in given["limits"].items() if name in BUDGETS}
    agent = Agent(name=AGENT, contact="https://bot.example/")
    policy = Policy(agent=agent, budget=Budget(**budget), scope=Scope(follow="everywhere"))
    try:
        url = canonical(given["url"])
    except NotCrawlable:
        return {"reject": True}
    link = {
        "url": url,
        "host": host(url),
        "site": site(host(url)),
        "kind": "link",
        "nofollow": False,
        "depth": 1,
        "hops": 0,
    }
    hosts = pl.DataFrame(schema={"host": pl.String, "site": pl.String, "seeded": pl.Boolean, "known_count": pl.Int64})
    refusal = judge(pl.DataFrame([link]), hosts, policy)["refusal"].item()
    return {"reject": refusal is not None and refusal.startswith("over budget.")}


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
