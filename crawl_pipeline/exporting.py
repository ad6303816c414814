"""Export as WARC/1.1 (ISO 28500), per bucket and month, with a CDXJ index beside each file.

Reads the lake and writes into one folder. Decides what becomes a record. A stored page is a response with its request;
a page whose body another record of the same bucket and month has is a revisit of that, and an answer 304 is one of the
version it confirms; a redirect is a response without a body. What is forgotten, what asks for `noarchive`, and what has
no body in the lake is left out.

Bodies are exported as they are kept: transfer and content coding undone. The lake keeps no HTTP headers but those that
the crawl needs, so heads of requests and answers are made from its log, and each record says so (`X-Crawl-Head`);
nothing is made up.

A file is written as `.open`, and renamed when it is whole; then its index is, which marks it as done. So what was
killed goes on after the last whole file, and what came since the last export is appended as further files.

Invariant: each page version is in exactly one file that has an index.
"""

import fcntl
import io
import re
from base64 import b32encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha1
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import polars as pl
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from crawl_pipeline import __version__, ordering
from crawl_pipeline.core import cdxj, orders, urls
from crawl_pipeline.core.cdxj import Entry
from crawl_pipeline.lake import Lake
from crawl_pipeline.standstill import Tell

BYTES = 1_000_000_000
"""A file is closed once it is so long: the usual size."""
AT_ONCE = 200
"""Bodies in memory at a time."""
VERSION = "WARC/1.1"
SPECIFICATION = "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
DESCRIPTION = (
    "Pages of one host bucket and month. Bodies are decoded: transfer and content coding are undone. HTTP heads were "
    "not kept and are made from the request log: status, content-type, etag, last-modified, location; content-length "
    "is that of the decoded body. Forgotten pages, and those that ask for noarchive, are left out."
)
_PAGES = ["bucket", "month", "round", "url", "url_hash", "host", "fetched_at", "content_type", "content_round",
          "body_hash", "charset", "robots_directives"]  # fmt: skip
_REQUESTS = ["bucket", "round", "url", "url_hash", "host", "started_at", "ended_at", "outcome", "address",
             "http_status", "content_type", "etag", "last_modified", "location", "user_agent"]  # fmt: skip
_EXPORTED = ("fetched", "not_modified", "redirected")
_BODY = ["content_round", "body_hash", "charset"]
_MONTH = re.compile(r"\d{4}-(0[1-9]|1[0-2])")


class ExportError(Exception):
    """Nothing can be exported as it was asked for; the message says what was expected, found and to do."""


class ExportBusy(ExportError):
    """Another export writes into the folder."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    files: tuple[str, ...]
    responses: int
    revisits: int
    bytes: int
    there: int
    """Records that were in the folder already."""


@dataclass(slots=True)
class _Unit:
    """One bucket and month: what its whole files hold, and the file that is being written."""

    folder: Path
    name: str
    most: int
    number: int = 0
    done: set[tuple[str, str]] = field(default_factory=set)
    payloads: dict[str, tuple[str, str]] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    out: BinaryIO | None = None
    written: list[str] = field(default_factory=list)
    responses: int = 0
    revisits: int = 0
    bytes: int = 0


def export(
    lake: Lake, folder: Path, *, months: Sequence[str] = (), buckets: Sequence[int] = (), since: datetime | None = None,
    most: int = BYTES, tell: Tell = lambda step: None,
) -> Exported:  # fmt: skip
    """Write all page versions, or those of some months, buckets, or fetched since a time, that the folder lacks."""
    _check(lake, months, buckets)
    with _writable(folder), alone(folder):
        _clean(folder)
        units, there = list[_Unit](), 0
        places = lake.scan("pages").select("bucket", "month").unique().sort("month", "bucket").collect()
        hidden = _hidden(lake)
        for bucket, month in places.iter_rows():
            if (months and month not in months) or (buckets and bucket not in buckets):
                continue
            unit = _unit(folder, f"crawl-{month}-b{bucket:03d}", most)
            there += len(unit.done)
            tell(f"{unit.name}: {len(unit.done):,} records are there")
            rows = _rows(lake, bucket, month, since).filter(~hidden).drop("site")
            _write(lake, unit, rows, tell)
            units.append(unit)
    return Exported(tuple(name for unit in units for name in unit.written), sum(unit.responses for unit in units),
                    sum(unit.revisits for unit in units), sum(unit.bytes for unit in units), there)  # fmt: skip


def _check(lake: Lake, months: Sequence[str], buckets: Sequence[int]) -> None:
    if wrong := [month for month in months if not _MONTH.fullmatch(month)]:
        raise ExportError(f"expected months such as 2026-03, found {', '.join(map(repr, wrong))}")
    if strange := [bucket for bucket in buckets if not 0 <= bucket < lake.buckets]:
        raise ExportError(f"expected buckets from 0 to {lake.buckets - 1}, found {', '.join(map(str, strange))}")


@contextmanager
def _writable(folder: Path) -> Iterator[None]:
    """A folder that is there; what is whole in it stays so, though the disk is full."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as trouble:
        raise ExportError(
            f"expected a folder with room that can be written to, found of {folder}: {trouble}; files that have an "
            "index are whole and stay: make room, or correct what it says, and run it again"
        ) from trouble


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder, or raise ExportBusy."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            raise ExportBusy(
                f"expected nobody else to export into {folder}, found another at work: wait for it, or name another"
            ) from held
        yield


def _clean(folder: Path) -> None:
    """Delete what a killed export left half done."""
    for path in folder.glob("crawl-*"):
        if path.name.endswith(".open") or (path.name.endswith(".warc.gz") and not _index(path).exists()):
            path.unlink()


def _index(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".warc.gz") + ".cdxj")


def _unit(folder: Path, name: str, most: int) -> _Unit:
    """A bucket and month as its whole files tell of it."""
    unit = _Unit(folder, name, most)
    for path in sorted(folder.glob(f"{name}-*.cdxj")):
        unit.number = max(unit.number, int(path.stem.rpartition("-")[2]) + 1)
        for entry in _entries(path):
            unit.done.add((entry.url, entry.at))
            if entry.mime != cdxj.REVISIT and entry.digest != digest(b""):
                unit.payloads.setdefault(entry.digest, (entry.url, entry.at))
    return unit


def _entries(path: Path) -> list[Entry]:
    try:
        return list(cdxj.entries(path.read_text(encoding="utf-8").split("\n")))
    except (ValueError, KeyError, TypeError) as trouble:
        raise ExportError(
            f"expected the index of an export at {path}, found other content: delete it with its .warc.gz, whose pages "
            "are then written anew, or export into another folder"
        ) from trouble


# What is exported.


def _hidden(lake: Lake) -> pl.Expr:
    """Which rows, with their site, are of what is forgotten."""
    return orders.is_forgotten(ordering.in_force(lake))


def _rows(lake: Lake, bucket: int, month: str, since: datetime | None) -> pl.DataFrame:
    """Pages with their requests, answers 304 and redirects of a bucket and month, as they came."""
    of_month = (pl.col("month") == month) & pl.col("content_round").is_not_null()
    pages = lake.scan("pages", buckets=[bucket], where=of_month).select(_PAGES).collect()
    kept = pages.filter(~_asks_not_to().fill_null(value=False)).drop("robots_directives")
    asked = (pl.col("cause") == "page") & pl.col("url").is_not_null()
    wanted = asked & pl.col("outcome").is_in(_EXPORTED) & (pl.col("ended_at").dt.strftime("%Y-%m") == month)
    requests = lake.scan("fetches", buckets=[bucket], where=wanted).select(_REQUESTS).collect()
    answered = requests.filter(outcome="fetched").select(pl.exclude("url", "host", "content_type", "outcome"))
    # A page may have been asked for twice in a round: its own request is the one that ended with it.
    own = answered.sort("ended_at").unique(["bucket", "round", "url_hash"], keep="last")
    of_pages = kept.join(own, on=["bucket", "round", "url_hash"], how="left").with_columns(
        outcome=pl.lit("fetched"), ended_at=pl.coalesce("ended_at", "fetched_at")
    )
    moved = requests.filter(outcome="redirected")
    same = _found_again(requests.filter(outcome="not_modified"), lake, bucket)
    rows = pl.concat([of_pages.drop("month", "fetched_at"), same, moved], how="diagonal")
    rows = rows if since is None else rows.filter(pl.col("ended_at") >= since)
    sites = {host: urls.site(host) for host in rows["host"].unique()}
    site = pl.col("host").replace_strict(sites, default=None, return_dtype=pl.String)
    return rows.with_columns(site=site).sort("round", "host", "url", "ended_at")


def _asks_not_to() -> pl.Expr:
    return pl.col("robots_directives").str.to_lowercase().str.contains(r"(^|[^a-z])noarchive([^a-z]|$)")


def _found_again(answers: pl.DataFrame, lake: Lake, bucket: int) -> pl.DataFrame:
    """Answers 304 with the content of the version before, if that may be exported."""
    versions = lake.scan("pages", buckets=[bucket], where=pl.col("url_hash").is_in(answers["url_hash"].implode()))
    before = versions.select("url_hash", "robots_directives", *_BODY, before="round", version_at="fetched_at").collect()
    pairs = answers.join(before, on="url_hash").filter(pl.col("before") <= pl.col("round"))
    last = pairs.sort("before").group_by("url_hash", "started_at", maintain_order=True).last()
    kept = last.filter(pl.col("content_round").is_not_null() & ~_asks_not_to().fill_null(value=False))
    return kept.select(*_REQUESTS, *_BODY, "version_at")


def _bodies(lake: Lake, rows: pl.DataFrame) -> dict[tuple[int, bytes, str], bytes]:
    wanted = rows.select(_BODY).drop_nulls(["content_round"]).unique()
    rounds, hashes = wanted["content_round"].implode(), wanted["body_hash"].implode()
    where = pl.col("round").is_in(rounds) & pl.col("body_hash").is_in(hashes)
    found = lake.scan("contents", where=where).select("round", "body_hash", "charset", "body").collect()
    return {(round_, body_hash, charset or ""): body for round_, body_hash, charset, body in found.iter_rows()}


# How.


def _write(lake: Lake, unit: _Unit, rows: pl.DataFrame, tell: Tell) -> None:
    try:
        for some in rows.iter_slices(AT_ONCE):
            new = [row for row in some.iter_rows(named=True) if (row["url"], _at(row)) not in unit.done]
            bodies = _bodies(lake, some) if new else {}
            for row in new:
                body = b"" if row["content_round"] is None else bodies.get(
                    (row["content_round"], row["body_hash"], row["charset"] or "")
                )  # fmt: skip
                if body is not None:  # else it went between the two looks
                    _record(unit, row, body)
            tell(f"{unit.name}: {unit.responses + unit.revisits:,} records written")
        _close(unit)
    finally:
        if unit.out is not None:
            unit.out.close()


def _at(row: dict[str, Any]) -> str:
    return cdxj.timestamp(row["ended_at"])


def digest(content: bytes) -> str:
    """SHA-1 in base32, which archives take copies by."""
    return "sha1:" + b32encode(sha1(content, usedforsecurity=False).digest()).decode()


def _record(unit: _Unit, row: dict[str, Any], body: bytes) -> None:
    """Write the answer and its request."""
    out = unit.out or _open(unit)
    payload, at, begins = digest(body), _at(row), out.tell()
    writer = WARCWriter(out, gzip=True, warc_version=VERSION)
    head = {"WARC-Date": _iso(row["ended_at"]), "X-Crawl-Head": "made from the request log"}
    head |= {"WARC-IP-Address": row["address"]} if row["address"] else {}
    http = StatusAndHeaders(_status(row), _answer(row, body), protocol="HTTP/1.1")
    first = unit.payloads.get(payload) if row["content_round"] is not None else None
    if row["outcome"] == "not_modified" and first is None:
        first = row["url"], cdxj.timestamp(row["version_at"])  # in the files of another month
    if first is not None:
        known = writer.create_revisit_record(
            row["url"], payload, first[0], _iso_of(first[1]), http_headers=http, warc_headers_dict=head
        )
    elif row["outcome"] == "redirected":
        head |= {"WARC-Truncated": "unspecified"}  # its body was not kept
        known = writer.create_warc_record(row["url"], "response", io.BytesIO(), 0, warc_headers_dict=head,
                                          http_headers=http)  # fmt: skip
    else:
        known = writer.create_warc_record(row["url"], "response", io.BytesIO(body), len(body), warc_headers_dict=head,
                                          http_headers=http)  # fmt: skip
        unit.payloads[payload] = row["url"], at
    writer.write_record(known)
    ends = out.tell()
    if row["user_agent"] is not None:
        writer.write_record(_request(writer, row, known.rec_headers.get_header("WARC-Record-ID")))
    mime = cdxj.REVISIT if first is not None else (row["content_type"] or "unk").partition(";")[0].strip() or "unk"
    status = _status(row).partition(" ")[0]
    unit.entries.append(Entry(row["url"], at, mime, status, payload, ends - begins, begins, _name(unit)))
    unit.revisits, unit.responses = unit.revisits + (first is not None), unit.responses + (first is None)
    if out.tell() >= unit.most:
        _close(unit)


def _request(writer: WARCWriter, row: dict[str, Any], answer: str) -> Any:
    parts = urlsplit(row["url"])
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    http = StatusAndHeaders(f"GET {target} HTTP/1.1", [("Host", parts.netloc), ("User-Agent", row["user_agent"])],
                            is_http_request=True)  # fmt: skip
    head = {"WARC-Date": _iso(row["started_at"]), "WARC-Concurrent-To": answer,
            "X-Crawl-Head": "made from the request log"}  # fmt: skip
    return writer.create_warc_record(row["url"], "request", io.BytesIO(), 0, warc_headers_dict=head, http_headers=http)


def _status(row: dict[str, Any]) -> str:
    code = row["http_status"] or 200
    try:
        return f"{code} {HTTPStatus(code).phrase}"
    except ValueError:
        return f"{code} Unknown"


def _answer(row: dict[str, Any], body: bytes) -> list[tuple[str, str]]:
    named = {"Content-Type": row["content_type"], "ETag": row["etag"], "Last-Modified": row["last_modified"],
             "Location": row["location"]}  # fmt: skip
    length = [] if row["outcome"] == "not_modified" else [("Content-Length", str(len(body)))]
    # No value ends the line that it stands in, whatever transport brought it.
    return [*((name, value) for name, value in named.items() if value and value.isprintable()), *length]


def _iso(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _iso_of(timestamp: str) -> str:
    return datetime.strptime(timestamp + "+0000", "%Y%m%d%H%M%S%z").strftime("%Y-%m-%dT%H:%M:%SZ")


def _name(unit: _Unit) -> str:
    return f"{unit.name}-{unit.number:05d}.warc.gz"


def _open(unit: _Unit) -> BinaryIO:
    out = (unit.folder / f"{_name(unit)}.open").open("wb")
    unit.out, unit.entries = out, []
    writer = WARCWriter(out, gzip=True, warc_version=VERSION)
    told = {"software": f"crawl-pipeline/{__version__}", "format": "WARC File Format 1.1", "conformsTo": SPECIFICATION,
            "description": DESCRIPTION}  # fmt: skip
    writer.write_record(writer.create_warcinfo_record(_name(unit), told))
    return out


def _close(unit: _Unit) -> None:
    """Make the file one that is whole: it first, then its index."""
    if unit.out is None:
        return
    unit.bytes += unit.out.tell()
    unit.out.close()
    path = unit.folder / _name(unit)
    lines = "".join(f"{line}\n" for line in sorted(entry.line for entry in unit.entries))
    index = _index(path)
    begun = index.with_name(f"{index.name}.open")
    begun.write_text(lines, encoding="utf-8")
    path.with_name(f"{path.name}.open").replace(path)
    begun.replace(index)
    unit.done |= {(entry.url, entry.at) for entry in unit.entries}
    unit.written.append(path.name)
    unit.out, unit.number = None, unit.number + 1
