"""Turn a parsed page into its visible text: one line per run of text, white space folded.

Decides what a reader would see and no more: scripts, styles and noscript are left out. Every text node starts
a line, also those of inline elements: telling them from blocks would cost as much as parsing the page, and
whoever counts words or compares lines does not need it. It does not tell navigation from content. Takes
scripts out of the tree, so whatever looks for them must come before. Invariant: no line is empty or begins or
ends with white space.
"""

import re

from selectolax.lexbor import LexborHTMLParser

# A template's content is outside the tree anyway, and frames rarely hold a fallback. Each name costs a walk.
_HIDDEN = ["script", "style", "noscript"]
_BREAK = "\0"  # cannot stand in a parsed page, and is no white space
_EMPTY_LINES = re.compile(r"\n{2,}")


def text_of(tree: LexborHTMLParser) -> str:
    """Return the text of the body of `tree`."""
    body = tree.body
    if body is None:
        return ""
    tree.strip_tags(_HIDDEN)
    runs = body.text(separator=_BREAK, strip=True, skip_empty=True)
    text = " ".join(runs.split()).replace(_BREAK, "\n")
    # Text of nothing but no-break spaces is stripped to nothing and leaves an empty line.
    return _EMPTY_LINES.sub("\n", text).strip("\n") if "\n\n" in text or text[:1] == "\n" else text.strip("\n")
