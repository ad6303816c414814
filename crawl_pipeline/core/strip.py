"""Drop the query parameters that say nothing about a page: campaigns, sessions.

Applies the rules it is given and decides nothing by itself. Never part of `canonical`, because a server could
use what is dropped here. Invariant: `strip` of a canonical URL is canonical, and strip twice is strip once.
"""

import re
from dataclasses import dataclass

# What campaigns and sessions leave behind; a page is the same without them. Names are compared in lower case.
TRACKING = frozenset(
    [
        "fbclid",
        "gclid",
        "gclsrc",
        "dclid",
        "gbraid",
        "wbraid",
        "msclkid",
        "yclid",
        "twclid",
        "igshid",
        "mc_cid",
        "mc_eid",
        "_ga",
        "_gl",
        "_hsenc",
        "_hsmi",
        "mkt_tok",
        "oly_anon_id",
        "oly_enc_id",
        "vero_id",
        "wickedid",
    ]
)
SESSION = frozenset(
    [
        "jsessionid",
        "phpsessid",
        "aspsessionid",
        "sessionid",
        "session_id",
        "cfid",
        "cftoken",
    ]
)
_PATH_SESSION = re.compile(r";(?:jsessionid|phpsessid|sid)=[^/?;]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StripRules:
    """Which query parameters say nothing about the page, by name or prefix; whether to sort the others."""

    names: frozenset[str] = TRACKING | SESSION
    prefixes: tuple[str, ...] = ("utm_",)
    path_session: bool = True
    sort: bool = False


def strip(url: str, rules: StripRules) -> str:
    """Drop the parameters that `rules` name from a canonical URL; sort the rest by name if they say so."""
    head, mark, query = url.partition("?")
    if rules.path_session and ";" in head:
        head = _PATH_SESSION.sub("", head)
    if not mark:
        return head
    kept = [p for p in query.split("&") if not _named(p, rules)]
    if rules.sort:
        kept.sort(key=lambda p: p.partition("=")[0])
    return f"{head}?{'&'.join(kept)}" if kept else head


def _named(parameter: str, rules: StripRules) -> bool:
    name = parameter.partition("=")[0].lower()
    return name in rules.names or name.startswith(rules.prefixes)
