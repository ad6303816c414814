"""What a run says of its rounds: a log line per round, numbers per bucket and table.

Frames in, plain numbers out; Dagster draws each number as a line over the runs. The numbers are those of the `rounds`
table, so what is seen here and what SQL says agree.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from crawl_pipeline.core import traps

if TYPE_CHECKING:
    from crawl_pipeline.lake import Lake

Facts = Mapping[str, int | float]

REGIONS = 5
"""Regions that a tag names at most."""
_COUNTS = ("selected_count", "request_count", "page_count", "content_count", "links_read_count",
           "admitted_count", "wire_bytes")  # fmt: skip


def line(round_: int, rows: pl.DataFrame) -> str:
    """One round in one line."""
    total = _totals(rows)
    known, due = rows["known_count"].sum(), rows["due_count"].sum()
    outcomes = _words(_tally(rows, "outcomes"))
    return (
        f"round {round_}: {rows.height} buckets, {total['selected_count']} selected: {outcomes}; "
        f"{total['request_count']} requests, {total['page_count']} pages in {_number(rows['fetch_s'].max()):.1f} s, "
        f"{total['links_read_count']} links read, {total['admitted_count']} admitted; {known} known, {due} due"
    )


def span(rows: pl.DataFrame) -> str:
    """The numbers of the first and the last round."""
    return f"{_number(rows['round'].min()):.0f}-{_number(rows['round'].max()):.0f}"


def hosts(lake: "Lake", rows: pl.DataFrame) -> pl.DataFrame:
    """How many hosts each of the buckets has in each region: bucket, region, count."""
    known = lake.scan("hosts", buckets=rows["bucket"].unique().to_list())
    return known.group_by("bucket", "region").agg(count=pl.len()).collect()


def regions(hosts: pl.DataFrame) -> dict[str, str]:
    """The tag that names the regions of these hosts, largest first; none if no seed list says where its hosts are."""
    found = hosts.drop_nulls("region").group_by("region").agg(pl.col("count").sum())
    names = found.sort("count", "region", descending=[True, False])["region"].head(REGIONS)
    return {"crawl/region": ", ".join(names)} if names.len() else {}


def facts(rows: pl.DataFrame, fetches: pl.DataFrame, hosts: pl.DataFrame) -> dict[int, dict[str, Facts]]:
    """Per bucket, per table: what the rounds in `rows` wrote."""
    own = with_margin(fetches).join(rows.select("bucket", "round"), on=["bucket", "round"])
    asked = {bucket: part for (bucket,), part in own.group_by("bucket")}
    known_hosts = dict(hosts.group_by("bucket").agg(pl.col("count").sum()).iter_rows())
    return {
        bucket: _of_bucket(part, asked.get(bucket, own.clear()), known_hosts.get(bucket, 0))
        for (bucket,), part in rows.sort("round").group_by("bucket", maintain_order=True)
    }


def with_margin(fetches: pl.DataFrame) -> pl.DataFrame:
    """Add `margin_s`: how much longer than promised a host was left alone before each request."""
    before = pl.col("ended_at", "gap_s").shift().over("host", order_by=["started_at", "request_id"])
    waited = fetches.with_columns(before.name.prefix("last_"))
    waited_s = (pl.col("started_at") - pl.col("last_ended_at")).dt.total_microseconds() / 1e6
    return waited.with_columns(margin_s=waited_s - pl.col("last_gap_s"))


def _of_bucket(rows: pl.DataFrame, fetches: pl.DataFrame, host_count: int) -> dict[str, Facts]:
    total, plan_s, fetch_s = _totals(rows), float(rows["plan_s"].sum()), float(rows["fetch_s"].sum())
    last = rows.row(-1, named=True)
    outcomes, refused = _tally(rows, "outcomes"), _tally(rows, "refused")
    margin = fetches["margin_s"].min()
    each: dict[str, dict[str, int | float]] = {
        "links": {
            "rows": int(rows["links_to"].list.sum().sum()), "read": total["links_read_count"],
            "admitted": total["admitted_count"], **{f"refused: {why}": count for why, count in refused.items()},
        },
        "fetches": {
            "rows": total["request_count"], "wire_bytes": total["wire_bytes"], "selected": total["selected_count"],
            **{f"outcome: {name}": count for name, count in outcomes.items()},
            **({"politeness_margin_s": _number(margin)} if margin is not None else {}),
        },
        "pages": {
            "rows": total["page_count"],
            "pages_per_s": total["page_count"] / fetch_s if fetch_s else 0.0,
        },
        "contents": {"rows": total["content_count"]},
        "robots": {"rows": fetches.filter(cause="robots").height},
        "frontier": {
            "dagster/partition_row_count": last["known_count"], "known": last["known_count"], "due": last["due_count"],
        },
        "hosts": {"dagster/partition_row_count": host_count, "known": host_count,
                  "asked": fetches["host"].n_unique()},
        "change_frequency": {"visits": outcomes.get("fetched", 0) + outcomes.get("not_modified", 0)},
        "patterns": {"held_back": _tally(rows.tail(1), "left_out").get(traps.HELD_BACK, 0)},
        "templates": {},
        "rounds": {
            "rows": rows.height, "plan_s": plan_s, "fetch_s": fetch_s,
            "selected": total["selected_count"], "fetched": outcomes.get("fetched", 0),
        },
    }  # fmt: skip
    return {table: {"round": last["round"], **numbers} for table, numbers in each.items()}


def _number(value: object) -> float:
    return float(str(value))


def _totals(rows: pl.DataFrame) -> dict[str, int]:
    return {name: int(rows[name].sum()) for name in _COUNTS}


def _tally(rows: pl.DataFrame, column: str) -> dict[str, int]:
    parts = rows.select(pl.col(column).explode().struct.unnest()).drop_nulls("name")
    return dict(
        parts.group_by("name").agg(pl.col("count").sum()).sort("count", "name", descending=[True, False]).iter_rows()
    )


def _words(tally: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in tally.items()) or "nothing asked"
