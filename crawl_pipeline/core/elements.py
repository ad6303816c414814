"""Find the elements of a page that lead somewhere or say something about it.

One walk over the tree for the elements whose tags stand in the source, references kept as written; resolving them is
for the caller. Which element counts is decided here: the first base, the first title, a canonical link only from the
head, a robots meta from anywhere, because an image in a head's noscript makes parsers close the head early. The same
walk finds what is not read (scripts), what a page calls navigation, and what is advertising or hidden, for `core.text`.
Invariant: a pure fragment is no reference, and each reference is kept once.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np
import numpy.typing as npt
from selectolax.lexbor import LexborCSSSelector, LexborHTMLParser, LexborNode

from crawl_pipeline.core import directives, srcset
from crawl_pipeline.core.directives import Wishes
from crawl_pipeline.core.markup import Pairs
from crawl_pipeline.core.text import ADVERTISING, HIDDEN, NAVIGATION, unmarked

Kind = Literal["link", "canonical", "frame", "refresh", "alternate", "next", "image"]
Attributes = Mapping[str, str | None]

# One selector for all pages: setting one up takes longer than the walk over a small page.
_SELECTOR = LexborCSSSelector()  # type: ignore[no-untyped-call]
_WANTED = ("meta", "iframe", "frame", "title", "script", "style", "noscript", "nav", "header", "footer", "aside")
# Names that sites give to what they are paid for. One walk for all: looking for such words in the source costs more.
_SPONSORED = ".ad,.ads,.adsbygoogle,[class*=advert],[class*=sponsor]"
_UNSHOWN = "[hidden],[style*='display:none']"
_NOISE = f"{_SPONSORED},{_UNSHOWN}"
_UNSEEN = frozenset({"script", "style", "noscript"})
# A header or footer of these is part of what they say (HTML 4.3.8).
_OWN_HEADER = frozenset({"article", "main", "section", "blockquote", "td"})
_MOST_REGIONS = 1_000
_IMAGES = (*_WANTED, "img", "source")
_SOURCES: Mapping[str, Kind] = {"iframe": "frame", "frame": "frame", "img": "image"}
# Paid and user-made links carry their own words for the same wish.
_NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
_MOST_LINK_ELEMENTS = 1_000
_FEEDS = frozenset({"application/rss+xml", "application/atom+xml"})


def _by_initials() -> npt.NDArray[np.uint16]:
    """Of each pair of letters, as `markup.initials` gives them, which elements of _IMAGES it may begin, bit by bit."""
    table = np.zeros(1 << 16, np.uint16)
    for number, name in enumerate(_IMAGES):
        for first, second in product(*((letter, letter.upper()) for letter in name[:2])):
            table[ord(first) | ord(second) << 8] |= 1 << number
    return table


_BY_INITIALS = _by_initials()
_ALL, _NO_PICTURES = (1 << len(_IMAGES)) - 1, (1 << len(_WANTED)) - 1


@lru_cache(maxsize=1 << len(_IMAGES))
def _selector(there: int) -> str:
    return ",".join(["[href]", *(name for number, name in enumerate(_IMAGES) if there >> number & 1)])


class Found:
    """What the walk has come upon so far; grows during it and is only read afterwards."""

    __slots__ = (
        "alternates",
        "around",
        "base",
        "canonical",
        "cut",
        "hrefs",
        "lang",
        "moved",
        "others",
        "refresh",
        "regions",
        "title",
        "unseen",
        "wishes",
    )

    def __init__(self) -> None:
        self.title = self.lang = ""
        self.base: str | None = None
        self.canonical: str | None = None
        self.refresh: str | None = None
        self.wishes = Wishes()
        self.hrefs: dict[str, bool] = {}
        self.others: dict[tuple[str, Kind], None] = {}
        self.alternates: list[tuple[str, str]] = []
        self.cut = False
        self.around = 0
        self.moved: bool | None = None
        self.unseen: list[LexborNode] = []
        self.regions: list[tuple[LexborNode, int]] = []


def gather(
    tree: LexborHTMLParser, source: bytes, initials: Pairs, agent: str, most_links: int, *, images: bool = False
) -> Found:
    """Walk over a page; `agent` is our token in lower case, `most_links` bounds the references kept.

    initials: of its tags, by `markup`; pictures are references only if `images` says so.
    """
    found = Found()
    hrefs = found.hrefs
    # Each name that is looked for costs a comparison per element; no element stands in a page without its tag.
    there = int(np.bitwise_or.reduce(_BY_INITIALS.take(initials))) & (_ALL if images else _NO_PICTURES)
    for node in _SELECTOR.find(_selector(there), tree.root) if tree.root else ():
        tag = node.tag or ""
        if tag in _UNSEEN:
            found.unseen.append(node)
            continue
        attributes = node.attributes
        if tag in ("a", "area"):
            href = attributes.get("href")
            if not href or not (href := unmarked(href).partition("#")[0]):
                continue
            nofollow = "rel" in attributes and not _NOFOLLOW.isdisjoint(_words(attributes["rel"]))
            if href in hrefs:
                hrefs[href] = hrefs[href] and nofollow
            elif len(hrefs) < most_links:
                hrefs[href] = nofollow
            else:
                found.cut = True
        else:
            _take(found, node, tag, attributes, source, agent, most_links)
    found.regions += _noise(tree)
    root = tree.root
    found.lang = (root.attributes.get("lang") or "") if root else ""
    return found


def _take(
    found: Found, node: LexborNode, tag: str, attributes: Attributes, source: bytes, agent: str, most_links: int
) -> None:  # fmt: skip
    """Take what any other element says."""
    match tag:
        case "meta":
            _take_meta(found, attributes, agent)
        case "link":
            _take_link(found, node, attributes, source)
        case "base":
            # The first base with an href counts, even if it is empty or no URL (HTML 4.2.3).
            found.base = unmarked(attributes.get("href") or "") if found.base is None else found.base
        case "title":
            found.title = found.title or " ".join(node.text().split())
        case "iframe" | "frame" | "img":
            if len(found.others) < most_links:
                _take_source(found, unmarked(attributes.get("src") or ""), _SOURCES[tag])
                _take_sizes(found, attributes)
        case "source":
            if len(found.others) < most_links:
                _take_sizes(found, attributes)
        case "nav" | "aside" | "header" | "footer":
            found.around += 1  # each is looked up to the root, so that not all of a hostile page may be
            if found.around <= _MOST_REGIONS and _is_navigation(node, tag):
                found.regions.append((node, NAVIGATION))


def _is_navigation(node: LexborNode, tag: str) -> bool:
    """Tell whether an element stands around the content: the header of an article is content."""
    if tag in ("nav", "aside"):
        return True
    parent = node.parent
    while parent is not None and parent.tag not in _OWN_HEADER:
        parent = parent.parent
    return parent is None


def _noise(tree: LexborHTMLParser) -> list[tuple[LexborNode, int]]:
    """Find what is advertising or hidden."""
    nodes = _SELECTOR.find(_NOISE, tree.root)[:_MOST_REGIONS] if tree.root else []
    return [(node, HIDDEN if _is_unshown(node.attributes) else ADVERTISING) for node in nodes]


def _is_unshown(attributes: Attributes) -> bool:
    return "hidden" in attributes or "display" in (attributes.get("style") or "")


def _take_source(found: Found, src: str, kind: Kind) -> None:
    if src and src[:5].lower() != "data:":  # that is the thing itself, of any length
        found.others[src, kind] = None


def _take_sizes(found: Found, attributes: Attributes) -> None:
    """Of one picture in several sizes the largest is enough."""
    if (sizes := attributes.get("srcset")) and (largest := srcset.largest(unmarked(sizes))):
        _take_source(found, largest, "image")


def _words(value: str | None) -> list[str]:
    return value.lower().split() if value else []


def _take_meta(found: Found, attributes: Attributes, agent: str) -> None:
    content = unmarked(attributes.get("content") or "")
    if not content:
        return
    name = (attributes.get("name") or "").strip().lower()
    if name and name in ("robots", agent):
        found.wishes = found.wishes.also(directives.from_words(content))
    if (attributes.get("http-equiv") or "").strip().lower() == "refresh":
        found.refresh = found.refresh or directives.refresh_target(content)


def _take_link(found: Found, node: LexborNode, attributes: Attributes, source: bytes) -> None:
    rel, href = _words(attributes.get("rel")), unmarked(attributes.get("href") or "")
    if not href or not rel or max(len(found.others), len(found.alternates)) >= _MOST_LINK_ELEMENTS:
        return
    if "canonical" in rel and found.canonical is None and _in_head(found, node, source):
        found.canonical = href.strip()
    if "next" in rel:
        found.others[href, "next"] = None
    if "alternate" in rel and "stylesheet" not in rel:
        if hreflang := attributes.get("hreflang"):
            found.alternates.append((hreflang.strip(), href))
        if hreflang or (attributes.get("type") or "").strip().lower() in _FEEDS:
            found.others[href, "alternate"] = None


def _in_head(found: Found, node: LexborNode, source: bytes) -> bool:
    """Tell whether a canonical link was written in the head: in a body anybody who may comment may write it.

    A link that the parser moved to the body counts if it stands before the end of the head in the source.
    """
    parent = node.parent
    while parent is not None and parent.tag not in ("head", "body"):
        parent = parent.parent
    if parent is not None and parent.tag == "head":
        return True
    if found.moved is None:
        lower = source.lower()
        ends = [at for mark in (b"</head", b"<body") if (at := lower.find(mark)) >= 0]
        found.moved = bool(ends) and b"canonical" in lower[: min(ends)]
    return found.moved
