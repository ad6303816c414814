"""Decide in which encoding a page is written (HTML 13.2.3.2, Encoding Standard).

The order is that of the standard: byte-order mark, Content-Type, a prescan of the first 1024 bytes for meta
elements, the XML declaration, then what the bytes look like. Labels are those of the web, never names of
Python codecs (utf-7, base64, ...). Never fails: what cannot be decoded becomes U+FFFD. Invariant: the name is
one of the Encoding Standard, in lower case.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from webencodings import Encoding, lookup

PRESCAN_BYTES = 1024
# How far a meta element is looked for if nothing else tells: HTML changes the encoding when the parser meets
# one later.
LATE_BYTES = 65_536

_BOMS = (
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xfe\xff", "utf-16be"),
    (b"\xff\xfe", "utf-16le"),
)
# `<?x` in UTF-16 (13.2.3.2, step 1 of the prescan).
_WIDE_XML = ((b"<\0?\0x\0", "utf-16le"), (b"\0<\0?\0x", "utf-16be"))
_PARAMETER = re.compile(r";\s*charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^;,\s]*))", re.IGNORECASE)
_IN_CONTENT = re.compile(r"charset\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;\"'][^\s;]*))", re.IGNORECASE)
_XML = re.compile(rb"<\?xml[^>]*?\sencoding\s*=\s*(?:\"([^\">]*)\"|'([^'>]*)')")


def sniff(body: bytes, content_type: str | None) -> str:
    """Return the encoding of a page by its bytes and its Content-Type field."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return name
    declared = from_content_type(content_type) or _declared(body, content_type or "")
    if declared:
        return declared
    if _is_utf8(body):
        return "utf-8"
    return prescan(body[:LATE_BYTES]) or "windows-1252"


def decode(body: bytes, encoding: str) -> str:
    """Decode without the byte-order mark; errors become U+FFFD as in the Encoding Standard."""
    found = lookup(encoding)
    if found is None:
        raise ValueError(f"expected a name of the Encoding Standard, found {encoding!r}; take one from `sniff`")
    text: str = found.codec_info.decode(without_mark(body), "replace")[0]
    return text


def without_mark(body: bytes) -> bytes:
    """Drop a byte-order mark."""
    mark = next((mark for mark, _ in _BOMS if body.startswith(mark)), b"")
    return body[len(mark) :]


def codec(encoding: str) -> str:
    """Return the Python codec for an encoding of the standard."""
    found = lookup(encoding)
    return str(found.codec_info.name) if found else "utf-8"


@lru_cache(maxsize=64)
def query_codec(encoding: str) -> str:
    """Return the Python codec for queries of a page in this encoding (Encoding 4.3, output encoding)."""
    return "utf-8" if encoding.startswith(("utf-16", "replacement")) else codec(encoding)


def from_content_type(content_type: str | None) -> str | None:
    """Return the encoding that the charset parameter of Content-Type names (RFC 9110 8.3.1), if it is one."""
    found = _PARAMETER.search(content_type) if content_type else None
    name = _named(found[1] or found[2] or found[3] or "") if found else None
    return "windows-1252" if name == "x-user-defined" else name


def _named(label: str) -> str | None:
    found: Encoding | None = lookup(label) if label.isascii() else None
    return found.name if found else None


def _declared(body: bytes, content_type: str) -> str | None:
    head = body[:PRESCAN_BYTES]
    for start, name in _WIDE_XML:
        if head.startswith(start):
            return name
    media_type = content_type.partition(";")[0].strip().lower()
    # XML knows no meta (XML 1.0 4.3.3); HTML looks at the declaration last (13.2.3.2, "getting an XML
    # encoding").
    if media_type.endswith(("+xml", "/xml")):
        return _from_xml(head) or prescan(head)
    return prescan(head) or _from_xml(head)


def _from_xml(head: bytes) -> str | None:
    found = _XML.match(head)
    return _tame(_named((found[1] or found[2] or b"").decode("latin-1").strip())) if found else None


def _tame(name: str | None) -> str | None:
    """A declaration that could be read as ASCII is not UTF-16; x-user-defined is not for pages (13.2.3.2)."""
    if name in ("utf-16le", "utf-16be"):
        return "utf-8"
    return "windows-1252" if name == "x-user-defined" else name


def _is_utf8(body: bytes) -> bool:
    """Tell whether the bytes are UTF-8; one character may be cut off at the end if others before it are whole."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and not body[: error.start].isascii()
    return True


# Possessive, so that no markup makes them backtrack. The tokens of the prescan: comments, tags with their
# attributes, other markup. It knows no script or title: the standard does not.
_MARKUP = re.compile(
    rb"<!--(?:>|->|.*?-->|.*)"
    rb"|<meta(?=[\s/])(?P<meta>(?:[^>\"']|\"[^\"]*\"|'[^']*')*+)"
    rb"|</?[A-Za-z](?:[^>\"'=]|=\s*\"[^\"]*\"|=\s*'[^']*'|[\"'=])*+>?"
    rb"|<[!/?][^>]*+>?",
    re.IGNORECASE | re.DOTALL,
)
_ATTRIBUTE = re.compile(rb"([^\s/>=][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)?))?")


def prescan(head: bytes) -> str | None:
    """Return the encoding that the first telling meta element names (HTML 13.2.3.2, prescan)."""
    for token in _MARKUP.finditer(head):
        if (attributes := token["meta"]) is not None and (name := _from_meta(dict(_attributes(attributes)))):
            return name
    return None


def _attributes(tag: bytes) -> Iterator[tuple[str, str]]:
    """Yield names and values; later ones first, so that in a dict the first of a name counts."""
    for found in reversed(list(_ATTRIBUTE.finditer(tag))):
        value = found[2] or found[3] or found[4] or b""
        yield found[1].decode("latin-1").lower(), value.decode("latin-1")


def _from_meta(attributes: dict[str, str]) -> str | None:
    if "charset" in attributes:
        return _tame(_named(attributes["charset"].strip()))
    if attributes.get("http-equiv", "").lower() != "content-type":
        return None
    found = _IN_CONTENT.search(attributes.get("content", ""))
    return _tame(_named((found[1] or found[2] or found[3] or "").strip())) if found else None
