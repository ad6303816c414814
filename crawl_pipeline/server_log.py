"""Read the log of a server that was crawled, and put it beside the crawl's own.

The server's clock and memory are the judge: its lines become rows of `fetches`, so that the SQL of every promise can
be asked of them. A log knows neither policies nor rules, so each line borrows from the lake's request for the same URL
that is nearest in time what was in force then: policy, cause, origin, and the Retry-After if the log does not have it;
and how long we waited for its first byte, which bounds how long it was on its way.
When it was asked, by whom and with what result is the server's word alone.

One JSON object a line, either as our own test servers write it (times in microseconds since 1970), or as nginx does
with the `log_format` that docs/politeness.md shows (`ended` and `took` in seconds).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from crawl_pipeline.core.tables import FETCHES, ORDERS, ROBOTS, ROUNDS, TABLES, TIME, Table
from crawl_pipeline.lake import Lake
from crawl_pipeline.reports import Result

SKEW = timedelta(seconds=5)
"""How far the server's clock may be from ours before a request counts as another."""
NGINX_CLOCK = timedelta(milliseconds=1)
"""What nginx rounds a time to; read to the crawl's favour, as what is finer cannot be known."""

LINES: dict[str, pl.DataType | type[pl.DataType]] = {
    "host": pl.String, "path": pl.String, "started_at": TIME, "ended_at": TIME, "http_status": pl.Int16,
    "user_agent": pl.String, "client": pl.String, "address": pl.String, "retry_after_s": pl.Float64,
}  # fmt: skip


class LogError(Exception):
    """The file is no such log; the message says which line and what was expected."""


@dataclass(frozen=True, slots=True)
class AsLake:
    """A server's log with the shape of a lake; all rows belong to one bucket and round."""

    frames: Mapping[str, pl.DataFrame]
    root: str = "memory://server"
    uneven: frozenset[str] = frozenset()

    def files(self, table: str, /) -> list[str]:
        """None: the rows are in memory."""
        return []

    @property
    def tables(self) -> Mapping[str, Table]:
        """Those of every lake."""
        return TABLES

    def dataset(self, table: str, /) -> object:
        """The rows of a table."""
        return self.frames.get(table, TABLES[table].empty()).to_arrow()


def read(path: Path, client: str | None = None) -> pl.DataFrame:
    """The requests in a log, in the order they started; of one client address only, if that is given."""
    if not path.exists():
        raise LogError(f"expected a server's log at {path}, found none")
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            row = _row(json.loads(line))
        except (ValueError, KeyError, TypeError) as trouble:
            raise LogError(
                f"{path}, line {number}: expected a JSON object with host, path, status, user_agent and either "
                f"started_at and ended_at or ended and took, found {line[:80]!r} ({trouble})"
            ) from trouble
        if client is None or row["client"] == client:
            rows.append(row)
    return pl.DataFrame(rows, schema=LINES, orient="row").sort("started_at")


def _row(line: Mapping[str, Any]) -> dict[str, object]:
    started_at, ended_at = _times(line)
    status = line["status"]
    return {
        "host": str(line["host"]).lower(), "path": str(line["path"]), "started_at": started_at, "ended_at": ended_at,
        "http_status": None if status is None else int(status), "user_agent": str(line["user_agent"]),
        "client": _without_port(line.get("client")), "address": _without_port(line.get("server")),
        "retry_after_s": float(line["retry_after"]) if str(line.get("retry_after") or "").isdecimal() else None,
    }  # fmt: skip


def _times(line: Mapping[str, Any]) -> tuple[datetime, datetime]:
    if "took" in line:
        ended_at = datetime.fromtimestamp(float(line["ended"]), UTC)
        return ended_at - timedelta(seconds=float(line["took"])) + NGINX_CLOCK, ended_at
    return tuple(datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(line[name]))
                 for name in ("started_at", "ended_at"))  # type: ignore[return-value]  # fmt: skip


def _without_port(name: object) -> str | None:
    return str(name).rpartition(":")[0].strip("[]") or None if name else None


def own_requests(lake: Lake, log: pl.DataFrame) -> pl.DataFrame:
    """The lake's requests that this log could have seen: of its hosts, in its time."""
    if log.is_empty():
        return _with_path(FETCHES.empty().with_columns(must=pl.lit(True)))
    first, last = log.select(pl.col("started_at").min() - NGINX_CLOCK, pl.col("ended_at").max()).row(0)
    rows = lake.scan("fetches", where=pl.col("host").is_in(log["host"].unique().to_list())).collect()
    slack = rows.filter(pl.col("ended_at") >= first - SKEW, pl.col("started_at") <= last + SKEW)
    # At the ends of a log its clock, which may be coarse or wrong, does not tell whether a request must stand in it.
    return _with_path(slack.with_columns(must=(pl.col("ended_at") >= first) & (pl.col("started_at") <= last)))


def _with_path(rows: pl.DataFrame) -> pl.DataFrame:
    path = pl.col("url").str.slice(pl.col("origin").str.len_chars())
    return rows.with_columns(path=path).sort("started_at")


def as_lake(lake: Lake, log: pl.DataFrame) -> AsLake:
    """The log as rows of `fetches`, with the lake's robots.txt answers and policies."""
    asked = lake.scan("fetches").select("host", "origin", "url", "cause", "started_at", "policy_id", "retry_after_s",
                                        "first_byte_s")  # fmt: skip
    own = _with_path(asked.collect())
    here = {"bucket": pl.lit(0), "round": pl.lit(0)}
    return AsLake({
        "fetches": FETCHES.frame(_borrowed(log, own)),
        "robots": ROBOTS.frame(lake.scan("robots").collect().with_columns(**here)),
        "orders": ORDERS.frame(lake.scan("orders").collect()),
        "rounds": ROUNDS.frame([{"bucket": 0, "round": 0}]),
    })  # fmt: skip


def _borrowed(log: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Each line with what was in force at the lake's nearest request for its URL, or else at the nearest of all."""
    lent = own.select(
        "host", "path", "started_at", "origin", "cause", "policy_id", "first_byte_s", lent_s="retry_after_s"
    )
    near = log.join_asof(lent, on="started_at", by=["host", "path"], strategy="nearest", check_sortedness=False)
    of_host = lent.select("host", "started_at", host_origin="origin")
    near = near.join_asof(of_host, on="started_at", by="host", strategy="nearest", check_sortedness=False)
    near = near.join_asof(lent.select("started_at", any_policy="policy_id"), on="started_at", strategy="nearest")
    origin = pl.coalesce("origin", "host_origin", pl.concat_str(pl.lit("http://"), "host"))
    answered_slowly = pl.col("http_status").is_in([429, 503]) | pl.col("http_status").is_between(300, 399)
    asked_for_s = pl.coalesce("retry_after_s", pl.when(answered_slowly).then("lent_s"))
    return near.select(
        "host", "started_at", "ended_at", "http_status", "user_agent", "address", "first_byte_s",
        bucket=pl.lit(0), round=pl.lit(0), request_id=pl.int_range(pl.len()), origin=origin,
        url=pl.concat_str(origin, "path"),
        cause=pl.coalesce("cause", pl.when(pl.col("path") == "/robots.txt").then(pl.lit("robots")), pl.lit("page")),
        policy_id=pl.coalesce("policy_id", "any_policy"),
        outcome=_outcome(asked_for_s.is_not_null()),
        retry_after_s=asked_for_s,
    )  # fmt: skip


def _outcome(slower: pl.Expr) -> pl.Expr:
    """As much of an outcome as a status tells: whether it was trouble, and whether it was a call for less."""
    status = pl.col("http_status")
    return (
        pl.when(status.is_null()).then(pl.lit("protocol_error"))
        .when((status == 429) | ((status == 503) & slower)).then(pl.lit("throttled"))
        .when(status >= 500).then(pl.lit("unavailable"))
        .otherwise(pl.lit("fetched"))
    )  # fmt: skip


def known_to_both(lake: Lake, log: pl.DataFrame) -> Result:
    """The URLs that server and lake do not know the same requests for.

    A request without an answer may have reached the server or not, and one just before or after the log may stand in
    it or not, so that they may be missing there. Where both know as many,
    each pair must be of one time, within SKEW.
    """
    own = own_requests(lake, log)
    key = ["host", "path"]
    ours = own.group_by(key).agg(
        lake_count=pl.len(), answered_count=(pl.col("http_status").is_not_null() & pl.col("must")).sum(),
        lake_started="started_at", lake_ended="ended_at",
    )  # fmt: skip
    theirs = log.group_by(key).agg(server_count=pl.len(), server_started="started_at")
    both = theirs.join(ours, on=key, how="full", coalesce=True).with_columns(
        pl.col("server_count", "lake_count", "answered_count").fill_null(0)
    )
    same = pl.col("server_count").is_between("answered_count", "lake_count")
    rows = both.with_columns(another_time_count=_at_another_time(both)).filter(
        ~same | (pl.col("another_time_count") > 0)
    )
    offending = rows.select(*key, "server_count", "lake_count", "answered_count", "another_time_count").sort(key)
    return Result("known_to_both", "Server and lake know the same requests, at the same time.", ("fetches",), offending)


def _at_another_time(both: pl.DataFrame) -> pl.Series:
    rows = both.select("server_count", "lake_count", "server_started", "lake_started", "lake_ended").iter_rows()
    return pl.Series([
        sum(not start - SKEW <= seen <= end + SKEW
            for seen, start, end in zip(sorted(server), *map(sorted, (starts, ends)), strict=True))
        if count == own_count else 0
        for count, own_count, server, starts, ends in rows
    ], dtype=pl.Int64)  # fmt: skip
