"""Traps: bounds on a URL, budgets over many, and pages made to choke a parser."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline.core import page
from crawl_pipeline.core.admission import admit, judge
from crawl_pipeline.core.policy import Agent, Budget, Policy, Scope
from crawl_pipeline.core.tables import HOSTS, LINKS
from crawl_pipeline.core.urls import NotCrawlable, canonical, host, site, url_hash
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input

BUDGETS = {
    "max_url_length": "url_length",
    "max_path_depth": "path_depth",
    "max_query_params": "query_parameters",
    "max_repeated_segment": "repeated_segment",
    "max_pages_per_host": "urls_per_host",
    "max_pages_per_site": "urls_per_site",
    "max_pages_per_domain": "urls_per_site",
}
NOW = datetime(2026, 7, 1, tzinfo=UTC)
HOST = {name: HOSTS.schema[name] for name in ("host", "site", "seeded", "known_count")}


def _policy(limits: Input) -> Policy:
    budget = {BUDGETS[name]: most for name, most in limits.items() if name in BUDGETS}
    scope = {"depth": limits["max_depth"]} if "max_depth" in limits else {}
    agent = Agent(name=AGENT, contact="https://bot.example/")
    return Policy(agent=agent, budget=Budget(**budget), scope=Scope(follow="everywhere", **scope))


def _link(url: str, depth: int = 1) -> pl.DataFrame:
    """Make the row of `links` for one URL, with its site."""
    row = {"url": url, "url_hash": url_hash(url), "host": host(url), "kind": "link", "nofollow": False,
           "depth": depth, "hops": 0, "target_bucket": 0, "source_bucket": 0}  # fmt: skip
    return LINKS.frame([row]).with_columns(site=pl.lit(site(host(url))))


def _url_limits(given: Input) -> dict[str, Json]:
    try:
        link = _link(canonical(given["url"]))
    except NotCrawlable:
        return {"reject": True}
    refusal = judge(link, pl.DataFrame(schema=HOST), _policy(given["limits"]))["refusal"].item()
    return {"reject": refusal is not None and refusal.startswith("over budget.")}


def _budget(given: Input) -> dict[str, Json]:
    """Offer the URLs one after the other, as links that come in so many rounds."""
    policy = _policy(given["limits"])
    known: list[str] = []
    return {"admitted": [_is_admitted(offer, known, policy) for offer in given["sequence"]]}


def _is_admitted(offer: Json, known: list[str], policy: Policy) -> bool:
    """Whether the URL becomes a frontier row; if so it is known from then on."""
    fields: Input = {"url": offer} if isinstance(offer, str) else offer
    try:
        link = _link(canonical(fields["url"]), fields.get("depth", 1))
    except NotCrawlable:
        return False
    counts = Counter(map(host, known))
    rows = [(name, site(name), False, count) for name, count in counts.items()]
    hosts = HOSTS.frame(pl.DataFrame(rows, schema=HOST, orient="row"))
    seen = pl.Series("url_hash", list(map(url_hash, known)), dtype=pl.Int64)
    admitted = admit(link, seen, hosts, policy, NOW).rows["url"].to_list()
    known += admitted
    return bool(admitted)


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


ADAPTERS: Adapters = {
    ("trap", "url_limits"): _url_limits,
    ("trap", "budget"): _budget,
    ("trap", "parse_page"): _parse_page,
}
