"""Text of strangers without what a screen would obey: control and direction characters, halves of pairs.

They are shown by their numbers. A name of right-to-left letters stays as it is; one that turns what stands beside it
does not.
"""

import unicodedata


def printable(text: str) -> str:
    """Show each control, format or surrogate character but line feeds as its number."""
    hidden = {c for c in set(text) - {"\n"} if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in hidden})
