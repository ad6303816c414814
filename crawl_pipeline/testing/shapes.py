"""Hostile shapes: sites that have no end, or that show one page under many URLs; each a function of the
request.

A shape answers below its own prefix; put it in a host with `below`. Nothing good hides behind a trap, so
a test only has to count how many of its URLs a crawl asked for.
"""

import hashlib
import re
from collections.abc import Callable

from crawl_pipeline.testing.sites import Answer, Request, Site, html, not_found, prose, redirect


def calendar(prefix: str = "/cal", first: int = 2024) -> Site:
    """Months that link to the month before and the month after, for ever."""

    def answer(request: Request) -> Answer:
        found = re.fullmatch(rf"{prefix}/(\d+)/(\d+)", request.path)
        year, month = map(int, found.groups()) if found else (first, 1)
        months = year * 12 + month - 1
        links = [f"{prefix}/{m // 12}/{m % 12 + 1}" for m in (months - 1, months + 1, months + 12)]
        return html(f"Events of {year}-{month:02}", links, "There are no events in this month.")

    return answer


def session_ids(pages: int = 10, name: str = "sid") -> Site:
    """A few pages whose every link carries a fresh session id, so that no two links are spelled alike."""

    def answer(request: Request) -> Answer:
        number = request.path.removeprefix("/p") if request.path != "/" else "0"
        if not number.isdecimal() or int(number) >= pages:
            return not_found(request)
        paths = ["/", *(f"/p{i}" for i in range(1, pages))]
        links = [f"{path}?{name}={_digest(request.target, path)}" for path in paths]
        return html(f"Page {number}", links, prose(f"{request.host} {number}"))

    return answer


def endless_depth(prefix: str = "/deep") -> Site:
    """Each page links one folder further down, as a wrong relative link does."""
    return lambda request: html("Deeper", [request.path.rstrip("/") + prefix + "/"], "You are nearly there.")


def redirect_maze(prefix: str = "/maze", status: int = 302) -> Site:
    """Redirects to somewhere new, for ever."""
    return lambda request: redirect(f"{prefix}/{_digest(request.target)}", status)


def redirect_loop(*paths: str, status: int = 302) -> Site:
    """Redirects in a ring over these paths."""
    following = dict(zip(paths, (*paths[1:], paths[0]), strict=True))
    return lambda request: (
        redirect(following[request.path], status) if request.path in following else not_found(request)
    )


def soft_404(site: Site) -> Site:
    """The site, saying 200 and an apology, with links to more of the same, where it should say 404."""

    def answer(request: Request) -> Answer:
        own = site(request)
        if own.status != 404:
            return own
        links = [f"/missing-{_digest(request.path, str(i))}" for i in range(3)]
        return html("Sorry", links, "The page that you asked for could not be found.")

    return answer


def facets(prefix: str = "/shop", names: tuple[str, ...] = ("colour", "size", "brand", "price", "sort")) -> Site:
    """A shop list: each page links to every facet switched to another value, in the order it was clicked."""

    def answer(request: Request) -> Answer:
        chosen = [pair for pair in request.query.split("&") if pair]
        links = [f"{prefix}?{'&'.join([*chosen, f'{name}={value}'])}" for name in names for value in range(3)]
        return html("Things to buy", links, prose(f"{request.host} shop"))

    return answer


SHAPES: dict[str, Callable[[], Site]] = {
    "calendar": calendar,
    "session_ids": session_ids,
    "endless_depth": endless_depth,
    "redirect_maze": redirect_maze,
    "facets": facets,
}


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
