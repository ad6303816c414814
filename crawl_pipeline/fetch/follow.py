"""Follow redirects on the spot, for what must have its answer now: robots.txt, sitemaps, probes.

The rule is in core/redirects.py; each hop is one request made by the `ask` that was given, so each hop keeps
its own row, address check and politeness. Pages are not followed here: the target of a page's redirect is a
link.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from crawl_pipeline.core import redirects
from crawl_pipeline.fetch.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Followed:
    """The last exchange of a chain, all URLs asked, and why the chain ended if it ended badly."""

    last: Exchange
    chain: tuple[str, ...]
    failure: str | None
    reason: str | None


Barred = Callable[[str], str | None]


def nothing(url: str) -> None:
    """Bar no URL."""


async def follow(ask: Callable[[str], Awaitable[Exchange]], url: str, limit: int, barred: Barred = nothing) -> Followed:
    """Ask for a URL and for what it redirects to, at most `limit` redirects long (RFC 9309 2.3.1.2).

    `barred` gives the reason why a redirect may not be followed to a URL, if there is one.
    """
    chain = [url]
    while True:
        last = await ask(chain[-1])
        # If the head came, trouble in the body of a redirect does not matter: nobody needs it.
        step = redirects.step(last.status, last.values("location"), chain, limit)
        if step.reason is not None:
            return Followed(last, tuple(chain), "redirect_error", step.reason)
        if step.url is None:
            return Followed(last, tuple(chain), last.failure, last.reason)
        if (reason := barred(step.url)) is not None:
            return Followed(last, tuple(chain), "blocked", f"a redirect to {step.url[:200]}: {reason}")
        chain.append(step.url)
