"""Turn a parsed page into its visible text: one line per block, white space folded.

Decides what a reader would see and no more: scripts, styles, noscript and frame fallbacks are left out, the
common inline elements run on, any other element starts a new line. It does not tell navigation from content.
Takes the tree apart, so everything else must have been read before. Invariant: no line is empty or begins or
ends with white space.
"""

import re

from selectolax.lexbor import LexborHTMLParser

# A template's content is outside the tree anyway.
_HIDDEN = ["script", "style", "noscript", "iframe"]
# Each name costs a walk over the tree, so the rare ones are left out: they break a line, on every visit in
# the same way.
_INLINE = [
    "a",
    "span",
    "code",
    "em",
    "strong",
    "b",
    "i",
    "sup",
    "sub",
    "small",
    "abbr",
    "kbd",
]
_BREAK = "\0"  # cannot stand in a parsed page, and is no white space
_EMPTY_LINES = re.compile(r"\n{2,}")


def text_of(tree: LexborHTMLParser) -> str:
    """Return the text of the body of `tree`, which is of no use afterwards."""
    body = tree.body
    if body is None:
        return ""
    tree.strip_tags(_HIDDEN)
    tree.unwrap_tags(_INLINE, delete_empty=True)
    tree.merge_text_nodes()
    blocks = body.text(separator=_BREAK, strip=True, skip_empty=True)
    # Blocks of nothing but no-break spaces are stripped to nothing and leave empty lines.
    return _EMPTY_LINES.sub("\n", " ".join(blocks.split()).replace(_BREAK, "\n")).strip("\n")
