"""Refuse markup that HTML parsers take quadratic time for, before a parser sees it.

20,000 nested elements (100 KB) keep lexbor busy for seconds, 20,000 attributes on one element too; browsers
stop at 512 levels. A plain count over slices of the page clears nearly all pages in a twentieth of the time
of a parse; only the rest are read tag by tag. A page made to deceive the count still meets the time limit of
the process it is parsed in: this is the cheap sieve, not the wall. Never changes the page. Invariant: takes
time linear in the page.
"""

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.intp]
Pairs = npt.NDArray[np.uint16]

_LESS, _SLASH = ord("<"), ord("/")
# Depth to which lexbor is cheap whatever the page holds; browsers nest no deeper than 512.
MAX_DEPTH = 512
MAX_ATTRIBUTES = 1_000
_SLICE = 4_096
# Unclosed void elements and paragraphs count as nesting in the quick count, so it is generous; the exact one
# is not.
_QUICK_DEPTH = 1_500
# So few tags cannot nest deeply enough to cost more than some 20 ms.
_QUICK_TAGS = 4_000

# Elements without content, and those that a sibling, one of their kind or the end of the parent closes (HTML
# 13.1.2.4): they nest no deeper.
_FLAT = frozenset(
    b"a area base br col embed hr img input link meta param source track wbr frame keygen "
    b"li dt dd p option optgroup thead tbody tfoot tr td th colgroup rb rt rtc rp html head body".split()
)
# Comments and raw text hold no elements, though they may look like it.
_TAG = re.compile(
    rb"<!--(?:.*?-->|.*)|<(script|style|textarea|title)\b(?:.*?</\1|.*)|<(/?)([a-z][^\s/>]*)",
    re.IGNORECASE | re.DOTALL,
)
_LONG_TAG = re.compile(rb"<[a-z](?:[^>\"']|\"[^\"]*\"|'[^']*')*+", re.IGNORECASE)
# One of these stands between two attributes of a tag.
_REST = bytes(octet for octet in range(256) if octet not in b" \n\t\r\f/\"'")
_ATTRIBUTE = re.compile(rb"(?<![\s/])[\s/]++[^\s/>=]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s>\"'][^\s>]*))?")


class Malformed(ValueError):
    """A page that is not worth parsing: `reason` is "size", "nesting" or "attributes"."""

    def __init__(self, reason: str, found: int, limit: int) -> None:
        super().__init__(f"expected {reason} of at most {limit}, found {found}; leave the page unparsed")
        self.reason = reason


def starts(body: bytes) -> Positions:
    """Give where tags may begin: the place of each `<`. The one pass over the bytes that others go by."""
    return np.flatnonzero(np.frombuffer(body, np.uint8) == _LESS)


def initials(body: bytes, tags: Positions) -> Pairs:
    """Give the first two letters of each tag's name, the second times 256 on the first; tags: its `starts`."""
    octets = np.frombuffer(body + b"\0\0\0", np.uint8)
    name = tags + (octets[1:].take(tags) == _SLASH)
    pairs: Pairs = octets[1:].take(name) | octets[2:].take(name).astype(np.uint16) << 8
    return pairs


def check(body: bytes, tags: Positions) -> None:
    """Raise Malformed if the markup is nested too deeply or an element has too many attributes; tags: its `starts`."""
    if len(tags) > _QUICK_TAGS and _may_nest(body, tags) and (depth := _depth(body)) > MAX_DEPTH:
        raise Malformed("nesting", depth, MAX_DEPTH)
    for start in _long_stretches(body):
        if (attributes := _attributes(body, start)) > MAX_ATTRIBUTES:
            raise Malformed("attributes", attributes, MAX_ATTRIBUTES)


def _may_nest(body: bytes, tags: Positions) -> bool:
    """Tell whether at the end of some slice many more tags have opened than closed."""
    slices = len(body) // _SLICE + 1
    closing = tags[np.frombuffer(body + b" ", np.uint8)[tags + 1] == _SLASH]
    opened = np.bincount(tags // _SLICE, minlength=slices) - 2 * np.bincount(closing // _SLICE, minlength=slices)
    net = 0
    for more in opened.tolist():
        net = max(0, net + more)
        if net > _QUICK_DEPTH:
            return True
    return False


def _long_stretches(body: bytes) -> Iterator[int]:
    """Give where stretches begin that hold no end of a tag for a slice or more, and enough to part many attributes.

    Scripts and styles are full of such stretches, and hold no tags.
    """
    at = 0
    while at < len(body) - _SLICE:
        if body.find(b">", at, at + _SLICE) < 0:
            start, end = body.rfind(b">", 0, at) + 1, body.find(b">", at)
            end = len(body) if end < 0 else end
            if not _is_raw(body, start) and len(body[start:end].translate(None, _REST)) >= MAX_ATTRIBUTES:
                yield start
            at = end
        at += _SLICE


def _depth(body: bytes) -> int:
    """Return the greatest number of elements open at once; an end tag counts only if its element is open."""
    unclosed: Counter[bytes] = Counter()
    depth = deepest = 0
    for _, closing, written in _TAG.findall(body):
        name = written.lower()
        if not name or name in _FLAT:
            continue
        if not closing:
            unclosed[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif unclosed[name]:
            unclosed[name] -= 1
            depth -= 1
    return deepest


def _is_raw(body: bytes, at: int) -> bool:
    """Tell whether the last script or style that was begun has not ended yet."""
    last = body.rfind(b"<", 0, at)
    if body.startswith((b"<script", b"<style"), last) and last >= 0:  # as nearly all are
        return True
    return any(body.rfind(b"<" + name, 0, at) > body.rfind(b"</" + name, 0, at) for name in (b"script", b"style"))


def _attributes(body: bytes, start: int) -> int:
    """Return the number of attributes of the most laden tag that begins in a stretch without the end of a tag."""
    end = body.find(b">", start)
    most, tag = 0, _LONG_TAG.search(body, start)
    while tag and (end < 0 or tag.start() < end):
        most = max(most, len(_ATTRIBUTE.findall(tag[0])) if len(tag[0]) >= _SLICE else 0)
        tag = _LONG_TAG.search(body, tag.end())
    return most
