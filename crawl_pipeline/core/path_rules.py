"""Match paths against the patterns of robots.txt (RFC 9309 2.2.2 and 2.2.3).

Decides whether one pattern covers one path, and how much it weighs; which of several decides is for `robots`.
Both sides are brought to one spelling before they are compared. Never backtracks. Invariant: matching takes
time linear in path and pattern.
"""

import re
from dataclasses import dataclass
from urllib.parse import quote_from_bytes

from crawl_pipeline.core.urls import origin, respell


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of paths: literal parts between its wildcards, and its weight in octets."""

    octets: int
    parts: tuple[str, ...]
    anchored: bool

    def matches(self, path: str) -> bool:
        """Tell whether the pattern covers a path as written by `spelled`; greedy from the left, so linear."""
        first, *rest = self.parts
        if not path.startswith(first):
            return False
        if not rest:
            return not self.anchored or len(path) == len(first)
        at = len(first)
        for part in rest[:-1]:
            at = path.find(part, at)
            if at < 0:
                return False
            at += len(part)
        last = rest[-1]
        if self.anchored:
            return len(path) - len(last) >= at and path.endswith(last)
        return path.find(last, at) >= 0


@dataclass(frozen=True, slots=True)
class Rule(Pattern):
    """One allow or disallow line."""

    allow: bool
    line: str


# What stays as it is in a path and query; the rest is escaped before comparison (RFC 9309 2.2.2). Characters
# that URL parsers escape in one component and leave alone in another (such as the apostrophe) are escaped on
# both sides.
_PLAIN = "%/?:@!&()+,;=[]#~"


def spelled(url: str) -> str:
    """Return path and query of a canonical URL in the spelling that patterns are compared in."""
    return _query_plain(quote_from_bytes(url[len(origin(url)) :].encode(), _PLAIN))


def pattern_of(value: bytes) -> Pattern | None:
    """Read a pattern; an empty one, or one that starts with neither / nor *, is none."""
    if not value.startswith((b"/", b"*")):
        return None
    pattern = respell(quote_from_bytes(value, _PLAIN + "*$"))
    anchored = pattern.endswith("$")
    # Only `*` and a final `$` are special (2.2.3); a literal one is written %2A and %24, here and in
    # `spelled`.
    literal = _query_plain(pattern[:-1] if anchored else pattern).replace("$", "%24")
    return Pattern(len(pattern), tuple(re.sub(r"\*+", "*", literal).split("*")), anchored)


def rule_of(allow: bool, value: bytes, line: bytes) -> list[Rule]:
    """Read an allow or disallow line; one without a pattern is no rule."""
    if (pattern := pattern_of(value)) is None:
        return []
    text = line.strip().decode("utf-8", "replace")
    return [Rule(pattern.octets, pattern.parts, pattern.anchored, allow, text)]


def _query_plain(path: str) -> str:
    """Undo the escapes of : and / in the query, where they say the same (RFC 9309 2.2.2, table, second row)."""
    head, mark, query = path.partition("?")
    return head + mark + query.replace("%2F", "/").replace("%3A", ":") if "%" in query else path
