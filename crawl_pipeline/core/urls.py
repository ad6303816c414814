"""Give every URL one spelling, and every host its site and bucket.

Decides which references are crawlable URLs at all and how they are written down: the WHATWG URL Standard (by
ada), http and https only, no credentials, no fragment, then RFC 3986 6.2.2.1 and 6.2.2.2 in path and query.
It never asks the network and never drops a part of a URL that a server could tell apart; `strip` does that,
apart and on request. Invariant: `canonical(canonical(u)) == canonical(u)`, and what a URL hashes to never
changes between runs or machines.
"""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from ipaddress import IPv4Address
from urllib.parse import quote_from_bytes

import ada_url
from publicsuffixlist import PublicSuffixList
from xxhash import xxh3_64_intdigest

# Longer references are data: URLs gone astray or traps; no server of note takes a longer request line.
MAX_CHARS = 65_536

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# The escapes that are not as they should be: of an unreserved character, or with a lower-case digit. A long
# query is full of the others, and each match costs a call.
_ESCAPE = re.compile(
    r"%(?:2[DEde]|3[0-9]|4[1-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AEae]|[0-9A-F][a-f]|[a-f][0-9A-Fa-f])"
)
# Escapes within escapes are a trick or a mistake; so many levels are undone the quick way.
_PASSES = 3
_SCHEMES = ("http://", "https://")

# References that ada would only copy: plain segments that do not begin with a dot and need no escape. Nine
# links in ten of a documentation page are like that, and a match costs a tenth of a parse. Anything else goes
# to ada.
_SEGMENT = r"[A-Za-z0-9_~\-][A-Za-z0-9_.~\-]*+"
_PATH = rf"(?:{_SEGMENT}/)*(?:{_SEGMENT})?+"
_QUERY = r"(?:\?[A-Za-z0-9_.~\-=&+/,:;@]++)?+"
_PLAIN_RELATIVE = re.compile(rf"((?:\.\./)*)({_PATH}{_QUERY})")
_PLAIN_ROOTED = re.compile(rf"/{_PATH}{_QUERY}")
# Lower-case letter-digit-hyphen names that end in letters are neither IPv4 spellings nor (without xn--) IDNA
# labels.
_PLAIN_ABSOLUTE = re.compile(rf"https?://(?:(?!xn--)[a-z][a-z0-9\-]*\.)+(?!xn--)[a-z]{{2,}}/{_PATH}{_QUERY}")

HOST_NAME = re.compile(r"(?:\[.+\]|[^.]{1,63}(?:\.[^.]{1,63}){0,126})")
"""What a host may look like; ada looks at no lengths. Names of over 253 letters in many parts pass."""


class NotCrawlable(ValueError):
    """A reference that is no URL of a page: `reason` is "syntax", "scheme" or "length"."""

    def __init__(self, reason: str, href: str) -> None:
        super().__init__(
            f"expected an http or https URL, found {href[:200]!r} ({reason}); whole ones are https://www.example.org/"
        )
        self.reason = reason


def canonical(href: str, base: str | None = None, *, encoding: str = "utf-8") -> str:
    """Return the one spelling of `href`, resolved against `base`; raise NotCrawlable if there is none.

    `encoding` is that of the document the reference stands in: HTML encodes the query with it, never the path.
    """
    if len(href) > MAX_CHARS:
        raise NotCrawlable("length", href)
    if _PLAIN_ABSOLUTE.fullmatch(href):
        return href
    if encoding != "utf-8" and not href.isascii():
        href = _query_in(href, encoding)
    try:
        url = ada_url.normalize_url(href) if base is None else ada_url.join_url(base, href)
    except ValueError:
        raise NotCrawlable("syntax", href) from None
    if not url.startswith(_SCHEMES):
        raise NotCrawlable("scheme", href)
    url = _without_userinfo(url.partition("#")[0])
    if "%" in url:
        url = _respelled(url)
    # `p?` and `p` differ by RFC 3986 6.2.3, but no server of note tells them apart; the empty query goes.
    return url[:-1] if url.endswith("?") and url.find("?") == len(url) - 1 else url


def joiner(base: str, encoding: str = "utf-8") -> Callable[[str], str]:
    """Return a function like `canonical(href, base, encoding=encoding)` that is quick for plain references.

    `base` must be canonical.
    """
    root = origin(base)
    path = base[len(root) :].partition("?")[0]
    # prefixes[n] is the directory that n times `../` leads to; above the root one stays there (RFC 3986
    # 5.2.4).
    folders = path.split("/")[:-1]
    prefixes = [root + "/".join(folders[:n]) + "/" for n in range(len(folders), 0, -1)]
    last = len(prefixes) - 1

    def join(href: str) -> str:
        if len(href) <= MAX_CHARS:
            if (plain := _PLAIN_RELATIVE.fullmatch(href)) and plain[2] and plain[2][0] != "?":
                return prefixes[min(len(plain[1]) // 3, last)] + plain[2]
            if _PLAIN_ROOTED.fullmatch(href):
                return root + href
        return canonical(href, base, encoding=encoding)

    return join


def _without_userinfo(url: str) -> str:
    """Drop credentials: a reference from an untrusted page must not carry them (RFC 9110 4.2.4)."""
    start = url.index("://") + 3
    end = url.index("/", start)
    at = url.rfind("@", start, end)
    return url if at < 0 else url[:start] + url[at + 1 :]


def respell(text: str) -> str:
    """Apply RFC 3986 6.2.2.1 and 6.2.2.2 until nothing changes: no escaped letters, no lower-case escapes."""
    for _ in range(_PASSES):
        if (spelled := _ESCAPE.sub(_spelling, text)) == text:
            return text
        text = spelled
    return _ESCAPE.sub(_spelling, _unnested(text))


def _unnested(text: str) -> str:
    """Decode escapes within escapes such as %%%333 in one pass; pass after pass would take quadratic time."""
    out: list[str] = []
    for character in text:
        out.append(character)
        while len(out) > 2 and out[-3] == "%" and len(plain := _decoded("".join(out[-3:]))) == 1:
            out[-3:] = plain
    return "".join(out)


def _decoded(escape: str) -> str:
    return _ESCAPE.sub(_spelling, escape)


def _respelled(url: str) -> str:
    """Respell a URL; a dot laid bare may make a dot segment, so it goes through the parser again."""
    while (spelled := respell(url)) != url:
        url = ada_url.normalize_url(spelled) if "/." in spelled else spelled
    return url


def _spelling(escape: re.Match[str]) -> str:
    octet = int(escape[0][1:], 16)
    return chr(octet) if octet in _UNRESERVED else escape[0].upper()


def _query_in(href: str, encoding: str) -> str:
    """Escape the query of `href` in the document's encoding (HTML 2.4.3, WHATWG URL 4.4 query state)."""
    before, mark, rest = href.partition("?")
    query, hash_mark, fragment = rest.partition("#")
    if not mark or "#" in before or query.isascii():
        return href
    # What the encoding lacks becomes a numeric character reference, itself escaped (WHATWG URL 1.3).
    escaped = "".join(_in_encoding(c, encoding) for c in query)
    return f"{before}?{escaped}{hash_mark}{fragment}"


def _in_encoding(character: str, encoding: str) -> str:
    if character.isascii():
        return character
    try:
        return quote_from_bytes(character.encode(encoding))
    except UnicodeEncodeError:
        return f"%26%23{ord(character)}%3B"


def origin(url: str) -> str:
    """Return scheme, host and port (unless the default) of a canonical URL: what robots.txt belongs to."""
    return url[: url.index("/", url.index("://") + 3)]


def host(url: str) -> str:
    """Return the host of a canonical URL without port; IPv6 keeps its brackets.

    Final dots, which the URL may keep, are left out: `h.example.` is the same server, and has one turn with it.
    """
    authority = origin(url).partition("://")[2]
    if authority.startswith("["):
        return authority[: authority.index("]") + 1]
    return authority.partition(":")[0].rstrip(".")


def can_exist(host: str) -> bool:
    """Tell whether a host is an address or can be a name: no label is empty or too long (RFC 1035 2.3.4)."""
    return bool(HOST_NAME.fullmatch(host))


@cache
def _suffixes() -> PublicSuffixList:
    """The list that is packaged with the library; private section on, unknown top-level domains accepted."""
    return PublicSuffixList()


@lru_cache(maxsize=65_536)
def site(host: str) -> str:
    """Return the registrable domain of a host; an address, one label or a public suffix stands for itself."""
    name = host.rstrip(".")
    if name.startswith("[") or _is_ipv4(name):
        return name
    return _suffixes().privatesuffix(name) or name


def is_public_suffix(host: str) -> bool:
    """Tell whether the list names this host as one under which strangers register: com, co.uk."""
    return bool(PublicSuffixList(accept_unknown=False).publicsuffix(host) == host)


def _is_ipv4(name: str) -> bool:
    if not name[-1:].isdigit():
        return False
    try:
        return bool(IPv4Address(name))
    except ValueError:
        return False


def hash64(text: str | bytes) -> int:
    """Return the signed 64-bit XXH3 of a text, seed 0; stored columns depend on it, so it never changes."""
    digest = xxh3_64_intdigest(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return digest - (1 << 64) if digest >= 1 << 63 else digest


url_hash = hash64


def bucket(site: str, buckets: int) -> int:
    """Return the bucket of a site out of `buckets`, a power of two: the low bits of its hash."""
    if buckets < 1 or buckets & (buckets - 1):
        raise ValueError(f"expected a power of two as number of buckets, found {buckets}; choose 1, 2, 4, ... 4096")
    return hash64(site) & (buckets - 1)
