"""Traps that are whole sites: one crawl of a web in memory, over a lake of its own, on a clock that jumps.

Each `site.kind` is a site as a function of the request; the limits of the case become a policy; the crawl runs until
nothing is due, and the web's own log says what was asked for.
"""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, Request, Site, html, not_found, redirect
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import AGENT, Adapters, Input
from tests.scenarios.crawls import Crawl

SECONDS = 3_600.0
"""How long the worker may work, on the web's clock; every site must be done with before."""

SOON_S = 60.0
"""When the pages that count must have been asked for, on the web's clock: traps must not hold them up for long."""

LIMITS = {
    "max_pages_per_host": ("budget", "urls_per_host"),
    "max_pages_per_site": ("budget", "urls_per_site"),
    "max_pages_per_domain": ("budget", "urls_per_site"),
    "max_depth": ("scope", "depth"),
    "max_redirects": ("scope", "hops"),
    "max_url_length": ("budget", "url_length"),
    "max_path_depth": ("budget", "path_depth"),
    "max_query_params": ("budget", "query_parameters"),
    "max_repeated_segment": ("budget", "repeated_segment"),
    "total_timeout_s": ("fetch", "total_s"),
}


@dataclass(frozen=True, slots=True)
class Trap:
    """A site, what it is called, and which of its paths must be asked for (a pattern; its groups tell pages apart)."""

    site: Site
    hosts: tuple[str, ...] = ("trap.example",)
    must: str | None = None
    port: int | None = None


def policy(limits: Input) -> Policy:
    """The limits of a case as a policy; what a case says of a host holds for its site too."""
    sections: dict[str, dict[str, Json]] = {
        "agent": {"name": AGENT, "contact": "https://bot.example/"},
        "politeness": {"delay_s": 0.01, "download_factor": 0.0, "backoff_first_s": 0.01, "backoff_cap_s": 0.01},
        "round": {"shortest_s": 0.01},
        "recrawl": {"again": False},
        "retry": {"attempts": 2},
        "scope": {"follow": "everywhere"},
        "budget": {"urls_per_site": limits.get("max_pages_per_host", 1_000_000)},
    }
    for name, most in limits.items():
        section, key = LIMITS.get(name, (None, None))
        if section is not None and key is not None:
            sections.setdefault(section, {})[key] = float(most) if key == "total_s" else most
    return Policy.model_validate(sections)


def crawl_site(given: Input) -> dict[str, Json]:
    """Crawl the site of a case and say what was asked for."""
    trap = KINDS[given["site"]["kind"]](given["site"])
    place = f"{trap.hosts[0]}:{trap.port}" if trap.port else trap.hosts[0]
    hosts = [Host(name, _without_robots(trap.site)) for name in trap.hosts]
    with tempfile.TemporaryDirectory() as root:
        crawl = Crawl(Path(root), *hosts, rules=policy(given["limits"])).seed(f"http://{place}/")
        worked = crawl.work(seconds=SECONDS)
    if not worked.stopped.startswith("nothing"):  # due, or to ask before a host that failed is tried again
        raise RuntimeError(f"expected a crawl that comes to its end, but {worked.stopped}")
    asked = [row.path for row in crawl.web.log if row.path != "/robots.txt"]
    first = crawl.web.log[0].started
    soon = [row.path for row in crawl.web.log if row.started < first + SOON_S]
    found = {match.groups() for path in soon if trap.must and (match := re.fullmatch(trap.must, path))}
    segments = [len([part for part in path.partition("?")[0].split("/") if part]) for path in asked]
    return {"fetches": len(asked), "must_fetch_count": len(found), "path_depth": max(segments)}


def _without_robots(site: Site) -> Site:
    return lambda request: not_found(request) if request.path == "/robots.txt" else site(request)


def _calendar(site: Input) -> Trap:
    def answer(request: Request) -> Answer:
        if request.path == "/":
            return html("Home", [*(f"/a/{i}" for i in range(1, site["articles"] + 1)), "/cal/2026/7"])
        if not (found := re.fullmatch(r"/cal/(-?\d+)/(\d+)", request.path)):
            return html("Article", text=f"An article at {request.path}")
        month = int(found[1]) * 12 + int(found[2]) - 1
        return html("Month", [f"/cal/{m // 12}/{m % 12 + 1}" for m in (month - 1, month + 1)])

    return Trap(answer, must=r"/a/(\d+)")


def _session(site: Input) -> Trap:
    numbers = count(1)

    def answer(request: Request) -> Answer:
        session = next(numbers)
        return html("Page", [f"/p/{i}?sid={session}" for i in range(1, site["pages"] + 1)], request.path)

    return Trap(answer, must=r"/p/(\d+)\?sid=\d+")


def _facets(site: Input) -> Trap:
    def answer(request: Request) -> Answer:
        if request.path == "/":
            return html("Home", ["/shop"])
        chosen = dict(part.split("=", 1) for part in request.query.split("&") if part)
        return html("Shop", [_shop(chosen, f"f{f}", value) for f in range(1, site["facets"] + 1)
                             for value in [None, *map(str, range(1, site["values"] + 1))]])  # fmt: skip

    return Trap(answer)


def _shop(chosen: dict[str, str], facet: str, value: str | None) -> str:
    others = {name: set_to for name, set_to in chosen.items() if name != facet}
    facets = sorted((others | {facet: value} if value else others).items())
    return "/shop" + "?" * bool(facets) + "&".join(f"{name}={set_to}" for name, set_to in facets)


def _redirect_maze(_: Input) -> Trap:
    def answer(request: Request) -> Answer:
        number = re.fullmatch(r"/r/(\d+)", request.path)
        return redirect(f"/r/{int(number[1]) + 1}", 302) if number else html("Home", ["/r/1"])

    return Trap(answer)


def _soft404(_: Input) -> Trap:
    words = " ".join(f"word{n}" for n in range(500))

    def answer(request: Request) -> Answer:
        number = re.fullmatch(r"/s/(\d+)", request.path)
        first = 10 * int(number[1]) if number else 0
        return html("Sorry", [f"/s/{first + k}" for k in range(1, 11)], f"{words} {request.path}")

    return Trap(answer)


def _subdomains(_: Input) -> Trap:
    def answer(request: Request) -> Answer:
        number = int(request.host.partition(".")[0][1:])
        return html(request.host, [f"http://s{2 * number + k}.trap.example/" for k in (1, 2)])

    return Trap(answer, tuple(f"s{n}.trap.example" for n in range(1 << 13)))


def _two_hosts_loop(_: Input) -> Trap:
    def answer(request: Request) -> Answer:
        if request.path == "/":
            return html("Home", ["/x?n=0"])
        other = "b.example" if request.host == "a.example" else "a.example"
        return redirect(f"http://{other}/x?n={int(request.query.removeprefix('n=')) + 1}", 302)

    return Trap(answer, ("a.example", "b.example"))


def _self_link_variants(_: Input) -> Trap:
    port = 8_080
    hrefs = ["#a", "/#b", f"HTTP://SITE.EXAMPLE:{port}/", f"//site.example:{port}/.", "/a/..", "/%2e"]
    return Trap(lambda request: html("Home", hrefs), ("site.example",), must="/", port=port)


def _slow(site: Input) -> Trap:
    def answer(request: Request) -> Answer:
        if request.path == "/":
            slow = [f"/slow/{i}" for i in range(1, site["slow"] + 1)]
            return html("Home", slow + [f"/p/{i}" for i in range(1, site["pages"] + 1)])
        if request.path.startswith("/slow/"):
            return Answer(200, (), b"", first_byte_s=float("inf"))
        return html("Page", text=request.path)

    return Trap(answer, must=r"/p/(\d+)")


def _always(href: str) -> Trap:
    return Trap(lambda request: html("Page", [href], request.path))


KINDS: dict[str, Callable[[Input], Trap]] = {
    "calendar": _calendar,
    "session": _session,
    "facets": _facets,
    "deep": lambda site: _always("d/"),
    "relative_growth": lambda site: _always("next/page.html"),
    "redirect_maze": _redirect_maze,
    "soft404": _soft404,
    "subdomains": _subdomains,
    "two_hosts_loop": _two_hosts_loop,
    "self_link_variants": _self_link_variants,
    "slow": _slow,
}

ADAPTERS: Adapters = {("trap", "site"): crawl_site}
