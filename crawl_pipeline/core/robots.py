"""Decide what a robots.txt file lets us ask for (RFC 9309).

Bytes in, rules out: the groups of our product token, or else those of `*`, as one list of rules, and the line
that decided each verdict, so that it can be shown and judged again; Content-Usage lines come along, read by `usage`.
Never fetches, never looks at a clock: what a status means and when an answer is too old are functions of their
arguments. Where the RFC leaves room, the reading that asks less of the host wins.

Grouping and matching are both ours, because no matcher at hand follows the RFC to the letter: protego 0.7
closes a group at unknown lines, reads `$` at the end as a literal too, takes all octets outside UTF-8 for
equal, and needs quadratic time and memory for many agents times many rules. Its answers are compared with
ours in the tests. Invariant: reading and matching take time linear in the file, whatever it holds.
"""

import re
from dataclasses import dataclass
from typing import Literal

from crawl_pipeline.core import usage
from crawl_pipeline.core.path_rules import Rule, rule_of, spelled
from crawl_pipeline.core.urls import NotCrawlable, canonical, origin
from crawl_pipeline.core.usage import Preferences, UsageRule

# RFC 9309 2.5 wants at least 500 KiB to be parsed.
READ_BYTES = 512_000

_REDIRECTS = (300, 301, 302, 303, 305, 307, 308)

Answer = Literal["rules", "allow_all", "disallow_all"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """May a URL be asked for, and which line says so (None: no line speaks of it)."""

    allowed: bool
    line: str | None


@dataclass(frozen=True, slots=True)
class Rules:
    """What a robots.txt file says to one crawler; the most specific rule stands first, allow before disallow.

    `heads` are the texts before the first wildcard of each rule.
    """

    rules: tuple[Rule, ...] = ()
    heads: tuple[str, ...] = ()
    crawl_delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    usage: tuple[UsageRule, ...] = ()

    def verdict(self, url: str) -> Verdict:
        """Return the verdict of the longest matching rule; allow wins a tie (RFC 9309 2.2.2)."""
        path = spelled(url)
        if path == "/robots.txt":
            return Verdict(True, None)
        # One call settles the usual case that no rule begins like the path.
        if not path.startswith(self.heads):
            return Verdict(True, None)
        for rule in self.rules:
            if rule.matches(path):
                return Verdict(rule.allow, rule.line)
        return Verdict(True, None)

    def allowed(self, url: str) -> bool:
        """Tell whether a URL may be asked for."""
        return self.verdict(url).allowed

    def preferences(self, url: str) -> Preferences:
        """Return what the site prefers as to the use of a page that may be asked for."""
        return usage.by_rules(self.usage, spelled(url)) if self.usage else {}


def robots_url(url: str) -> str:
    """Return where the rules for a URL stand: one file per scheme, host and port (RFC 9309 2.3)."""
    return origin(canonical(url)) + "/robots.txt"


def answer(status: int | None, failure: str | None = None) -> Answer:
    """Say what a robots.txt answer means (RFC 9309 2.3.1).

    429 asks to slow down, so taking it for "no rules" would be perverse: it counts as unreachable. So does 304, the
    answer to a question that is never asked. A chain of
    more than five redirects, or a broken one, may be taken for a missing file (2.3.1.2). A long file comes here as
    what was read of it; one that cannot be unpacked within the limits has rules that we do not know.
    """
    if failure == "redirect_error" or (failure is None and status in _REDIRECTS):
        return "allow_all"
    if failure is not None or status is None:
        return "disallow_all"
    if 200 <= status < 300:
        return "rules"
    return "allow_all" if 400 <= status < 500 and status != 429 else "disallow_all"


def lives_s(state: str, ttl_s: float, retry_s: float, failures: int = 1) -> float:
    """Seconds for which an answer counts: `ttl_s` (RFC 9309 2.4: at most a day), less if it was unreachable.

    Then `retry_s`, doubled with each further failure in a row: a host that stays away is asked less and less.
    """
    if state != "disallow_all":
        return ttl_s
    return min(retry_s * 2.0 ** max(0, min(failures, 32) - 1), ttl_s)


def read(body: bytes, agent: str, url: str | None = None) -> Rules:
    """Read a robots.txt body for the crawler with product token `agent`; `url` is where the file stood.

    Without `url` relative sitemaps are dropped.
    """
    records = [record for line in _lines(body) if (record := _record(line))]
    rules, delays, usages = _own(records, _token(agent.encode()))
    # The most specific rule first, allow before disallow; of several delays the longest is the polite one.
    ordered = tuple(sorted(rules, key=lambda rule: (-rule.octets, not rule.allow)))
    return Rules(
        rules=ordered,
        heads=tuple(rule.parts[0] for rule in ordered),
        crawl_delay_s=max(delays, default=None),
        sitemaps=_sitemaps([value for name, value, _ in records if name == "sitemap"], url),
        usage=tuple(sorted(usages, key=lambda rule: -rule.pattern.octets)),
    )


Record = tuple[str, bytes, bytes]

_EOL = re.compile(rb"\r\n|\r|\n")
# A byte-order mark, or as much of one as an editor left.
_BOM = re.compile(rb"\xef(?:\xbb\xbf?)?")


def _lines(body: bytes) -> list[bytes]:
    """Split at CR, LF, CRLF only (RFC 9309 2.2); drop the line that the size limit cuts, half a path is no rule."""
    mark = _BOM.match(body)
    lines = _EOL.split(body[mark.end() if mark else 0 : READ_BYTES])
    # A caller may have cut the file at the limit already.
    return lines[:-1] if len(body) >= READ_BYTES else lines


# Frequent misspellings and a missing colon are forgiven, as the site's wish is plain.
_NAMES = {
    b"user-agent": "agent",
    b"useragent": "agent",
    b"user agent": "agent",
    b"allow": "allow",
    b"disallow": "disallow",
    b"dissallow": "disallow",
    b"dissalow": "disallow",
    b"disalow": "disallow",
    b"diasllow": "disallow",
    b"disallaw": "disallow",
    b"crawl-delay": "delay",
    b"crawldelay": "delay",
    b"sitemap": "sitemap",
    b"site-map": "sitemap",
    b"content-usage": "usage",
}
_RECORD = re.compile(
    rb"\s*(" + rb"|".join(map(re.escape, sorted(_NAMES, key=len, reverse=True))) + rb")(?:\s*:\s*(.*)|\s+(\S+)\s*)",
    re.IGNORECASE | re.DOTALL,
)


def _record(line: bytes) -> Record | None:
    found = _RECORD.fullmatch(line.partition(b"#")[0])
    if not found:
        return None
    return (
        _NAMES[found[1].lower()],
        (found[3] if found[2] is None else found[2]).strip(),
        line,
    )


_TOKEN = re.compile(rb"[A-Za-z_-]+")


def _token(value: bytes) -> bytes:
    """Return the product token that a value begins with (RFC 9309 2.2.1); `Bot/1.0` means Bot."""
    if value[:1] == b"*" and not value[1:].strip():
        return b"*"
    found = _TOKEN.match(value)
    return found[0].lower() if found else b""


def _own(records: list[Record], mine: bytes) -> tuple[list[Rule], list[float], list[UsageRule]]:
    """Return rules, delays and preferences of the groups that name `mine`, else of the `*` groups (RFC 9309 2.2.1).

    Only allow and disallow end a run of user-agent lines, other records must not (2.2.4). A crawl-delay, no
    record of the RFC, counts for the agents named just before it: "agent, delay, agent, delay" gives each its own.
    So does a content-usage: it is a rule for those who know it, and ends a run for what they read by it alone.
    """
    rules: dict[bytes, list[Rule]] = {}
    delays: dict[bytes, list[float]] = {mine: [], b"*": []}
    usages: dict[bytes, list[UsageRule]] = {mine: [], b"*": []}
    group: set[bytes] = set()
    named: set[bytes] = set()
    told: set[bytes] = set()
    last = ""
    ruled = used = False
    for name, value, line in records:
        if name == "agent":
            group = set() if ruled else group
            named = set() if ruled or last == "delay" else named
            told = set() if ruled or used else told
            ruled = used = False
            if (token := _token(value)) in delays:
                group.add(token)
                named.add(token)
                told.add(token)
                rules.setdefault(token, [])
        elif name == "delay":
            for token in named:
                delays[token] += _seconds(value)
        elif name == "usage":
            used = True
            for token in told:
                usages[token] += usage.rule_of(value)
        elif name in ("allow", "disallow"):
            ruled = True
            for token in group:
                rules[token] += rule_of(name == "allow", value, line)
        last = name
    token = mine if mine in rules else b"*"
    return rules.get(token, []), delays[token], usages[token]


_DECIMAL = re.compile(rb"[0-9]{1,12}(?:\.[0-9]*)?|\.[0-9]+")


def _seconds(value: bytes) -> list[float]:
    return [float(value)] if _DECIMAL.fullmatch(value) else []


def _sitemaps(values: list[bytes], base: str | None) -> tuple[str, ...]:
    """Return the crawlable sitemap URLs in file order, each once."""
    found = dict.fromkeys(_sitemap(value.decode("utf-8", "replace"), base) for value in values)
    return tuple(url for url in found if url)


def _sitemap(href: str, base: str | None) -> str | None:
    try:
        return canonical(href, base) if href else None
    except NotCrawlable:
        return None
