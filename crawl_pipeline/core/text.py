"""Turn a parsed page into its visible text: one line per block, white space folded, and say which lines are noise.

A block is what stands between two tags that are not inline: a sentence with links and emphasis in it is one line. To
know where blocks end without a walk over the tree in Python, the source gets a form feed before each such tag, which
is white space in HTML and so changes no tree; `marked` does that before parsing, `blocks_of` cuts there afterwards.

Scripts, styles and noscript are left out. What a page itself calls navigation (nav, header, footer, aside), marks as
advertising, or hides is told line by line, not left out: whoever compares pages decides. Takes the tree apart, so
whatever looks for elements must come before. Invariant: no line is empty or begins or ends with white space, and
there is one region per line.
"""

import re
from collections.abc import Iterable, Sequence

from selectolax.lexbor import LexborHTMLParser, LexborNode

CONTENT, NAVIGATION, ADVERTISING, HIDDEN = range(4)
"""What a line stands in. Of several the innermost counts."""

_CUT = "\f"
# Told by their first letters, in a quarter of the time that their names take: p, pre; div, dl, dt, dd; h1 to h6, hr,
# header; table, tr, td; li; ol, option; form, footer, figure; nav, main, menu; article, aside, address; br, blockquote;
# center; section, select; ul. A few inline ones (time, del, label, font) come with them.
_BLOCK = re.compile(rb"<(?=/?(?:[pdhtlofnmPDHTLOFNM]|[abcsuABCSU][rlsdeRLSDE]))")
# No page has these, and no white space is made of them.
_OPEN, _CLOSE = "\x01", "\x02"
_REGIONS = {"nav": NAVIGATION, "header": NAVIGATION, "footer": NAVIGATION, "aside": NAVIGATION}


def marked(source: bytes) -> bytes:
    """Mark in the source of a page where its blocks end."""
    return b"\f<".join(_BLOCK.split(source))  # a third quicker than a substitution


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
    # Most cuts hold nothing: between an end tag and the next one there is white space at the most.
    lines = [line for cut in body.text().split(_CUT) if cut and (line := " ".join(cut.split()))]
    return _told(lines) if told else (lines, bytes(len(lines)))


def _told(lines: list[str]) -> tuple[list[str], bytes]:
    """Take the marks of regions out of lines, and give the region of each line that is left."""
    kept: list[str] = []
    of_kept = bytearray()
    open_ = [CONTENT]
    for line in lines:
        if line[0] == _OPEN and line[1:].isdecimal():
            open_.append(int(line[1:]) & 3)
        elif line == _CLOSE:
            if len(open_) > 1:
                open_.pop()
        else:
            kept.append(line)
            of_kept.append(open_[-1])
    return kept, bytes(of_kept)
