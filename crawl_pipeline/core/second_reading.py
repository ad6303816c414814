"""Read robots.txt a second time, by other means, to judge what the crawl did (RFC 9309).

The crawl decides by `core.robots`. An audit that asked the same code could only repeat its mistakes, so this one shares
nothing with it, not even the canonical spelling of paths: a file becomes a string of one letter per record, groups are
found in that by a regular expression, and each rule becomes a regular expression over octets. `make check` holds that
neither imports the other. Never decides what is asked; only what should not have been.

Invariant: linear in file and path. What follows a wildcard is matched once, from the left (an atomic group).
"""

import re
from dataclasses import dataclass
from functools import lru_cache

MOST_BYTES = 512_000  # RFC 9309 2.5: 500 KiB; the line that is cut there is half a rule

_NAMES = {
    "U": r"user[ -]?agent",
    "A": r"allow",
    "D": r"disallow|dissallow|dissalow|disalow|diasllow|disallaw",  # as often mistyped
    "C": r"crawl-?delay",
}
_RECORD = re.compile(
    r"\s*(?:" + "|".join(f"(?P<{letter}>{name})" for letter, name in _NAMES.items()) + r")"
    r"(?:\s*:(?P<value>.*)|\s+(?P<bare>\S+)\s*)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_BLANK = " \t\n\r\x0b\x0c"


@dataclass(frozen=True, slots=True)
class Line:
    """One allow or disallow line: what it matches, how much it weighs in octets, and how it reads."""

    allow: bool
    octets: int
    pattern: re.Pattern[str]
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What the file says to one crawler."""

    lines: tuple[Line, ...] = ()
    delay_s: float | None = None

    def forbids(self, url: str) -> str | None:
        """The line that forbids a URL, or None: the heaviest match decides, allow wins a tie (RFC 9309 2.2.2)."""
        path = _octets(_path(url))
        if path == "/robots.txt":
            return None
        found = [line for line in self.lines if line.pattern.match(path)]
        allowed = max((line.octets for line in found if line.allow), default=0)
        against = max((line for line in found if not line.allow), key=lambda line: line.octets, default=None)
        return against.text if against is not None and against.octets > allowed else None


@lru_cache(maxsize=1_000)
def reading(body: bytes, agent: str) -> Reading:
    """Read a file for the crawler with this product token."""
    records = list(_records(body))
    rules, delays = _groups(records, "UAD"), _groups(records, "UADC")
    token = _token(agent)
    named = token if any(token in agents for agents, _ in rules) else "*"
    lines = [line for agents, own in rules if named in agents for line in map(_line, own) if line]
    waits = [float(value) for agents, own in delays if named in agents for letter, value, _ in own
             if letter == "C" and re.fullmatch(r"\d{1,12}(\.\d*)?|\.\d+", value, re.ASCII)]  # fmt: skip
    return Reading(tuple(lines), max(waits, default=None))


Record = tuple[str, str, str]


def _records(body: bytes) -> list[Record]:
    """Letter, value and whole text of each record that matters; an octet is a character here."""
    text = re.sub(r"^\xef(\xbb\xbf?)?", "", body[: MOST_BYTES + 3].decode("latin-1"))[:MOST_BYTES]
    lines = re.split(r"\r\n|\r|\n", text)
    if len(body) >= MOST_BYTES:
        lines.pop()
    found = ((_RECORD.fullmatch(line.split("#")[0]), line) for line in lines)
    return [(next(letter for letter in _NAMES if match[letter]),
             (match["value"] if match["bare"] is None else match["bare"]).strip(_BLANK),
             line.strip(_BLANK).encode("latin-1").decode("utf-8", "replace"))
            for match, line in found if match]  # fmt: skip


def _groups(records: list[Record], letters: str) -> list[tuple[frozenset[str], list[Record]]]:
    """Runs of agents, each with the records that follow it; records of other letters do not exist (RFC 9309 2.2.4)."""
    kept = [record for record in records if record[0] in letters]
    spelled = "".join(letter for letter, _, _ in kept)
    return [
        (frozenset(_token(value) for _, value, _ in kept[run.start(1) : run.end(1)]), kept[run.end(1) : run.end()])
        for run in re.finditer(r"(U+)[^U]*", spelled)
    ]


def _token(value: str) -> str:
    """The product token a value begins with, or `*` (RFC 9309 2.2.1)."""
    found = re.match(r"\*(?=\s*$)|[A-Za-z_-]*", value)
    return found[0].lower() if found else ""


def _line(record: Record) -> Line | None:
    letter, value, text = record
    if letter == "C" or value[:1] not in ("/", "*"):
        return None
    anchored = value.endswith("$")
    octets = _octets(value[:-1] if anchored else value, special="*")
    first, *parts = re.split(r"\*+", octets)
    last = parts.pop() if parts else None
    pattern = re.escape(first) + "".join(rf"(?>.*?{re.escape(part)})" for part in parts)
    if last is not None:
        pattern += f".*{re.escape(last)}" if anchored else f".*?{re.escape(last)}"
    weight = sum(1 if char in _ONE else 3 for char in octets) + anchored
    return Line(letter == "A", weight, re.compile(pattern + (r"\Z" if anchored else ""), re.DOTALL), text)


# Octets that mean something else when escaped (RFC 3986 2.2); escaped, they are moved to a range of their own.
_DELIMITERS = "%/?:@!&()+,;=[]#"
_ONE = frozenset(_DELIMITERS + "*$-._~" + "abcdefghijklmnopqrstuvwxyz" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "0123456789")
_APART = 0xE000
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})|[*$]")


def _octets(text: str, special: str = "") -> str:
    """One character per octet, escapes undone, so that what means the same is spelled the same (RFC 9309 2.2.2)."""

    def undone(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0] if found[0] in special else chr(_APART + ord(found[0]))
        octet = int(found[1], 16)
        return chr(_APART + octet) if chr(octet) in _DELIMITERS + "*$" else chr(octet)

    path, mark, query = _ESCAPE.sub(undone, text).partition("?")
    # In a query, an escaped slash or colon says the same as a plain one (2.2.2, table, second row).
    return path + mark + query.replace(chr(_APART + 0x2F), "/").replace(chr(_APART + 0x3A), ":")


def _path(url: str) -> str:
    """Path and query of an absolute URL, as octets of its UTF-8 form."""
    found = re.match(r"[a-z]+://[^/?#]*([^#]*)", url, re.IGNORECASE | re.DOTALL)
    path = (found[1] if found else url).encode().decode("latin-1")
    return path if path.startswith("/") else f"/{path}"
