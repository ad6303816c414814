"""What a fetch came to, and what follows from it.

Rule 1: whatever a visit or an order makes of a URL's status is in OUTCOMES, or in ORDERED; the frontier's fold reads
        these tables and nothing else.
Rule 2: remote trouble is an outcome, never an exception.
Rule 3: host_trouble is what slows a host down: it doubles the host's back-off, anything else calms it.
Rule 4: every selected URL ends a round with exactly one outcome, so selected = sum of outcomes.

A URL's status is one of
    parked      known, not asked for until its host or site has earned more of its budget (see core.trust)
    waiting     known, not fetched yet, or to be fetched again after trouble
    fetched     its last visit gave a page (or told that the page had not changed)
    redirected  it names another URL, which became a link of its own
    refused     robots.txt forbids it; asked again when robots.txt has changed
    unfit       it answers, but not with a page (wrong type, too large, malformed)
    gone        404 or 410; looked at again after a long while
    dead        it failed too often in a row
    orphan      fetched, and no page links to it any more (see core.orphans); visited at the longest interval
    forgotten   a person had it forgotten; known still, so that it is not found anew
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from crawl_pipeline.core.policy import Retry

Again = Literal["recrawl", "retry", "gone", "robots", "next round", "never"]


@dataclass(frozen=True, slots=True)
class Consequence:
    """What an outcome means for the URL and for its host."""

    status: str
    again: Again
    host_trouble: bool = False
    says: str = ""


OUTCOMES: dict[str, Consequence] = {
    "fetched": Consequence("fetched", "recrawl", says="a page, sitemap or wanted file was answered and read"),
    "not_modified": Consequence("fetched", "recrawl", says="304: the stored page is still right"),
    "redirected": Consequence("redirected", "recrawl", says="3xx: the target became a link"),
    "disallowed": Consequence("refused", "robots", says="robots.txt forbids it; not asked"),
    "robots_unreachable": Consequence("waiting", "robots", says="robots.txt could not be read; not asked"),
    "throttled": Consequence("waiting", "next round", host_trouble=True, says="429, or 503 with Retry-After"),
    "unavailable": Consequence("waiting", "retry", host_trouble=True, says="5xx"),
    "gone": Consequence("gone", "gone", says="404 or 410"),
    "forbidden": Consequence("unfit", "gone", says="401, 403, 407 or 451"),
    "client_error": Consequence("unfit", "gone", says="any other 4xx, or a status that does not exist"),
    "not_html": Consequence("unfit", "recrawl", says="a media type the policy does not read"),
    "too_large": Consequence("unfit", "recrawl", says="over a size limit of the policy"),
    "malformed": Consequence("unfit", "recrawl", says="answered, but could not be parsed within the limits"),
    "truncated": Consequence("waiting", "retry", says="the body ended too soon"),
    "decode_error": Consequence("waiting", "retry", says="the content coding is broken"),
    "protocol_error": Consequence("waiting", "retry", host_trouble=True, says="not HTTP"),
    "timeout": Consequence("waiting", "retry", host_trouble=True, says="no complete answer in time"),
    "connect_error": Consequence("waiting", "retry", host_trouble=True, says="no connection"),
    "dns_error": Consequence("waiting", "retry", host_trouble=True, says="the name has no address"),
    "tls_error": Consequence("waiting", "retry", host_trouble=True, says="no trusted TLS connection"),
    "address_refused": Consequence("dead", "never", says="the name leads to an address we do not connect to"),
    "redirect_error": Consequence("unfit", "gone", says="a redirect without a usable target"),
    "carried": Consequence("waiting", "next round", says="the round ended before its turn; not asked"),
}


@dataclass(frozen=True, slots=True)
class Obeyed:
    """What an order makes of a known URL: its status (None: as it was), and whether it falls due at once or never."""

    status: str | None
    due: bool
    says: str


ORDERED: dict[str, Obeyed] = {
    "forget": Obeyed("forgotten", due=False, says="the URL, its host or its site was ordered to be forgotten"),
    "seed": Obeyed("waiting", due=True, says="it was forgotten, and a later seed lifts that"),
    "recrawl": Obeyed(None, due=True, says="the URL, its host or its site was ordered to be visited again"),
}
"""Failed fetches in a row are counted anew in each case."""

PARKED = "parked"
ORPHAN = "orphan"
STATUSES = tuple(
    dict.fromkeys([PARKED, "waiting", *(c.status for c in OUTCOMES.values()), "dead", ORPHAN, "forgotten"])
)

_BY_STATUS = {304: "not_modified", 404: "gone", 410: "gone", 429: "throttled"} | dict.fromkeys(
    (401, 403, 407, 451), "forbidden"
)


def of_status(status: int, *, has_retry_after: bool = False) -> str:
    """Name the outcome of a complete answer with this status code (RFC 9110 15)."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 300 <= status < 400:
        return "redirected" if status in (301, 302, 303, 307, 308) else "client_error"
    if status == 503 and has_retry_after:
        return "throttled"
    return {2: "fetched", 5: "unavailable"}.get(status // 100, "client_error")


def retry_after_failure(attempts: int, policy: Retry) -> timedelta | None:
    """Wait after the given number of failures in a row; None when the URL is to be given up."""
    if attempts >= policy.attempts:
        return None
    return timedelta(seconds=min(policy.cap_s, policy.first_s * 2.0 ** min(attempts - 1, 64)))
