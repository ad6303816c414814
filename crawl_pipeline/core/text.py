"""Turn a parsed page into its visible text: one line per block, white space folded, and say which lines are noise.

A block is what stands between two tags that are not inline: a sentence with links and emphasis in it is one line. To
know where blocks end without a walk over the tree in Python, the source gets a form feed before each such tag, which
is white space in HTML and so changes no tree; `marked` does that before parsing, `blocks_of` cuts there afterwards.

Scripts, styles and noscript are left out. What a page itself calls navigation (nav, header, footer, aside), marks as
advertising, or hides is told line by line, not left out: whoever compares pages decides. Takes the tree apart, so
whatever looks for elements must come before. Invariant: no line is empty or begins or ends with white space, and
there is one region per line.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawl_pipeline.core.markup import Pairs, Positions

CONTENT, NAVIGATION, ADVERTISING, HIDDEN = range(4)
"""What a line stands in. Of several the innermost counts."""

_CUT = "\f"
_FORM_FEED = ord(_CUT)
# Octets that no page of note holds.
_UNUSED = [bytes([octet]) for octet in (*range(1, 9), *range(14, 27))]
# Told by their first letters, in a quarter of the time that their names take: p, pre; div, dl, dt, dd; h1 to h6, hr,
# header; table, tr, td; li; ol, option; form, footer, figure; nav, main, menu; article, aside, address; br, blockquote;
# center; section, select; ul. A few inline ones (time, del, label, font) come with them.
_ONE, _FIRST, _SECOND = "pdhtlofnm", "abcsu", "rlsde"
# White space beside the cut and the blank itself, as str.split knows it.
_SPACES = (
    "\n\t\r\v\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_OF_ASCII = 8
# No page has these, and no white space is made of them.
_OPEN, _CLOSE = "\x01", "\x02"
_OPENED = {f"{_OPEN}{region}": region for region in (NAVIGATION, ADVERTISING, HIDDEN)}
_REGIONS = {"nav": NAVIGATION, "header": NAVIGATION, "footer": NAVIGATION, "aside": NAVIGATION}


def _beginnings() -> npt.NDArray[np.bool_]:
    """Of each pair of letters, the second times 256 on the first, whether a block's name begins so."""
    table = np.zeros((256, 256), bool)
    table[:, [ord(letter) for letter in _ONE + _ONE.upper()]] = True
    seconds = [ord(letter) for letter in _SECOND + _SECOND.upper()]
    for letter in _FIRST + _FIRST.upper():
        table[seconds, ord(letter)] = True
    return table.ravel()


_IS_BLOCK = _beginnings()


def marked(source: bytes, tags: Positions, initials: Pairs) -> bytes:
    """Mark in the source of a page where its blocks end; tags, initials: as `markup` tells them."""
    octets = np.frombuffer(source, np.uint8)
    at = tags[_IS_BLOCK.take(initials)]
    mark = next((octet for octet in _UNUSED if octet not in source), None)
    if mark is None:
        return np.insert(octets, at, _FORM_FEED).tobytes()
    # One octet for another in place, and then the quick replacement: half the time of an insertion.
    changed = octets.copy()
    changed[at] = mark[0]
    return changed.tobytes().replace(mark, b"\f<")


def unmarked(value: str) -> str:
    """Give the value of an attribute as it was before `marked`."""
    return value.replace("\f<", "<") if "\f" in value else value


def blocks_of(
    tree: LexborHTMLParser, unseen: Sequence[LexborNode] = (), regions: Iterable[tuple[LexborNode, int]] = ()
) -> tuple[list[str], bytes]:
    """Return the lines of the body of `tree`, which was parsed from marked source, and the region of each.

    `unseen`: elements to leave out; `regions`: elements and what they are; both in document order.
    """
    for node in reversed(unseen):  # what is inside of another before that one
        node.decompose()
    told = False
    for node, region in regions:
        node.insert_before(f"{_CUT}{_OPEN}{region}{_CUT}")
        node.insert_after(f"{_CUT}{_CLOSE}{_CUT}")
        told = True
    body = tree.body
    if body is None:
        return [], b""
    lines = _folded(body.text())
    return _told(lines) if told else (lines, bytes(len(lines)))


def _folded(text: str) -> list[str]:
    """Cut into lines, and fold the white space in them."""
    for space in _SPACES[:_OF_ASCII] if text.isascii() else _SPACES:
        if space in text:
            text = text.replace(space, " ")
    # Most cuts hold nothing: between an end tag and the next one there is white space at the most.
    lines = filter(None, map(str.strip, text.split(_CUT)))
    return [" ".join(line.split()) if "  " in line else line for line in lines]


def _told(lines: list[str]) -> tuple[list[str], bytes]:
    """Take the marks of regions out of lines, and give the region of each line that is left."""
    kept: list[str] = []
    of_kept = bytearray()
    open_ = [CONTENT]
    for line in lines:
        if (region := _OPENED.get(line)) is not None:
            open_.append(region)
        elif line == _CLOSE:
            if len(open_) > 1:
                open_.pop()
        else:
            kept.append(line)
            of_kept.append(open_[-1])
    return kept, bytes(of_kept)
