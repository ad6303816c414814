"""CDXJ: an index of archived answers, a line each: sorted key of the URL, time, and what it is as JSON.

Pure: lines in, values out, and back. The key is the URL as archives sort it (SURT): the host's parts from last to
first, without `www`; path and query in lower case, parameters sorted. pywb finds what it replays by it. URLs that
differ in these alone share a key, and the time tells them apart.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

REVISIT = "warc/revisit"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Entry:
    """One archived answer, and where it lies."""

    url: str
    at: str
    mime: str
    status: str
    digest: str
    length: int
    offset: int
    filename: str

    @property
    def line(self) -> str:
        """The line of the index, without its end."""
        told = {"url": self.url, "mime": self.mime, "status": self.status, "digest": self.digest,
                "length": str(self.length), "offset": str(self.offset), "filename": self.filename}  # fmt: skip
        return f"{key(self.url)} {self.at} {json.dumps(told)}"


def timestamp(at: datetime) -> str:
    """A time as archives write it: 14 digits."""
    return at.strftime("%Y%m%d%H%M%S")


def key(url: str) -> str:
    """The sorted key of a URL."""
    parts = urlsplit(url)
    host = re.sub(r"^www\d*\.", "", (parts.hostname or "").lower())
    is_address = ":" in host or re.fullmatch(r"[\d.]+", host)
    named = host if is_address else ",".join(reversed(host.split(".")))
    port = f":{parts.port}" if parts.port and parts.port != _PORTS.get(parts.scheme) else ""
    path = parts.path.lower()
    path = path.rstrip("/") if path.strip("/") else "/"
    query = "&".join(sorted(part for part in parts.query.lower().split("&") if part))
    return f"{named}{port}){path}{'?' + query if query else ''}"


def entries(lines: Iterable[str]) -> Iterator[Entry]:
    """The entries of an index that this product wrote."""
    for line in filter(None, lines):
        _, at, told = line.rstrip("\n").split(" ", 2)
        values: dict[str, Any] = json.loads(told)
        yield Entry(values["url"], at, values["mime"], values["status"], values["digest"], int(values["length"]),
                    int(values["offset"]), values["filename"])  # fmt: skip


class NotCdxj(ValueError):
    """A line is none of CDXJ."""


def urls_of(lines: Iterable[str]) -> list[str]:
    """The web addresses that an index of any archive names, each once; other schemes, such as `dns:`, are passed by."""
    found = dict[str, None]()
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith(("!", " ", "#")):  # a head, or a comment
            continue
        try:
            told = json.loads(line.split(maxsplit=2)[2])  # a key may have braces of its own
            url = told["url"]
            scheme = url.lower()
        except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise NotCdxj(
                f"line {number}: expected CDXJ, a key, a time and JSON with a `url`, found {line[:80].strip()!r}"
            ) from error
        if scheme.startswith(("http://", "https://")):
            found[url] = None
    return list(found)
