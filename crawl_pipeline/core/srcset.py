"""Read `srcset`: of the sizes in which a page offers one picture, the largest.

Text in, a reference out (HTML 4.8.4.2.3, "parsing a srcset attribute"); nothing is resolved or judged here.
"""

import re
from collections.abc import Iterator

_CANDIDATE = re.compile(r"[\s,]*(\S+)")
_DESCRIBED = re.compile(r"(?:\([^)]*\)|[^,(])*,?")
_SIZE = re.compile(r"(?:^|\s)(\d+(?:\.\d+)?)[wx](?:\s|,|$)")
MOST = 100
"""Candidates that are looked at."""


def largest(srcset: str) -> str | None:
    """The reference with the largest width or density; the first of equals."""
    return max(candidates(srcset), key=lambda found: found[1], default=(None, 0.0))[0]


def candidates(srcset: str) -> Iterator[tuple[str, float]]:
    """Each reference and its width or density; 1 where none is told."""
    at = 0
    for _ in range(MOST):
        found = _CANDIDATE.match(srcset, at)
        if found is None:
            return
        href, at, described = found[1], found.end(), ""
        if not href.endswith(","):
            rest = _DESCRIBED.match(srcset, at)
            described, at = (rest[0], rest.end()) if rest else ("", at)
        size = _SIZE.search(described)
        if href := href.rstrip(","):
            yield href, float(size[1]) if size else 1.0
