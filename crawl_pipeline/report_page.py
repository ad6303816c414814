"""The report as one HTML page to be mailed: headline figures, then a section for each model, with chart and table.

The page is whole by itself: styles and charts (SVG) are in it, there is no script, nothing is fetched. Light or dark is
the reader's choice, and it is as wide as a phone or a screen. Host names, URLs and reasons are strangers' words: the
template escapes all of them; only charts, which `charts` escapes, are put in as they are.

Decides nothing about the crawl. What a figure means is said by its model in dbt_like_reports.
"""

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from crawl_pipeline import charts, corpus, reports
from crawl_pipeline.reports import Result
from crawl_pipeline.table_views import Files

MOST = 8
"""Rows of a table: what is on a phone must end."""
_BARS, _COLUMNS = 10, 48
ALL = "all hosts"

Draw = Callable[[pl.DataFrame], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """One model on the page: its columns by what they are called there."""

    model: str
    heading: str
    columns: Mapping[str, str]
    draw: Draw
    empty: str


def write(lake: Files, path: Path) -> Path:
    """Write the page of a lake as it is now, whole or not at all; give its absolute path."""
    text = page(lake, datetime.now(UTC))
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)
    return path


def page(lake: Files, now: datetime) -> str:
    """Render the page; all of it is read from one snapshot."""
    with reports.connect(lake) as connection:
        frames = {model.name: corpus.read(connection, f"from reports.{model.name}") for model in reports.models()}
        judged = [reports.ask(connection, test) for test in reports.tests()]
        warned = [reports.ask(connection, alarm) for alarm in reports.alarms()]
    sentences = {model.name: model.sentence for model in reports.models()}
    return _template().render(
        lake=lake.root, told_at=f"{now:%Y-%m-%d %H:%M} UTC", figures=_figures(frames, judged),
        broken=[one for one in judged if not one.holds], alarms=[one for one in warned if not one.holds],
        sections=[_section(section, frames[section.model], sentences[section.model]) for section in SECTIONS],
    )  # fmt: skip


def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined).get_template(
        "report_page.html"
    )


def _figures(frames: Mapping[str, pl.DataFrame], judged: Sequence[Result]) -> list[dict[str, Any]]:
    stages = dict(frames["funnel"].select("stage", "url_count").iter_rows())
    holding = sum(one.holds for one in judged)
    fresh = _of_all(frames["page_freshness"], "expected_freshness")
    return [
        {"value": _said("count", stages.get("stored", 0)), "says": "pages stored"},
        {"value": _said("count", stages.get("known", 0)), "says": "URLs known"},
        {"value": _said("count", frames["host_coverage"].height), "says": "hosts"},
        {"value": "–" if fresh is None else f"{fresh:.0%}", "says": "expected freshness, by importance"},
        {"value": _said("count", frames["hosts_in_trouble"].height), "says": "hosts in trouble"},
        {"value": f"{holding} of {len(judged)}", "says": "promises and accounts hold",
         "tone": "good" if holding == len(judged) else "bad"},
    ]  # fmt: skip


def _of_all(frame: pl.DataFrame, column: str) -> float | None:
    found = frame.filter(host=ALL)[column]
    return None if found.is_empty() or found[0] is None else float(found[0])


def _section(section: Section, frame: pl.DataFrame, sentence: str) -> dict[str, Any]:
    rows = [[_said(name, row[name]) for name in section.columns] for row in frame.head(MOST).iter_rows(named=True)]
    return {
        "model": section.model, "heading": section.heading, "says": sentence, "names": list(section.columns.values()),
        "charts": [Markup(drawn) for drawn in section.draw(frame)] if rows else [],  # `charts` escapes
        "rows": rows, "more": max(0, frame.height - MOST), "empty": section.empty,
    }  # fmt: skip


# How values are written.


def _said(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, float):
        return _number(name, value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _number(name: str, value: float) -> str:
    if "bytes" in name:
        return f"{value / 1000:,.1f} kB"
    if name.endswith(("share", "freshness")):
        return f"{value:.1%}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


# What is drawn.


def _funnel(rows: pl.DataFrame) -> Sequence[str]:
    return [charts.bars(rows.to_dicts(), label="stage", value="url_count")]


def _hours(rows: pl.DataFrame) -> Sequence[str]:
    last = rows.tail(_COLUMNS).to_dicts()
    return [charts.columns(last, x="hour_at", y="page_count", title="Pages an hour")]


def _margins(rows: pl.DataFrame) -> Sequence[str]:
    hosts = rows.filter(pl.col("host") != ALL).sort("least_margin").head(_BARS).to_dicts()
    title = "Least rest over what was owed"
    return [charts.bars(hosts, label="host", value="least_margin", title=title, form=".2f", accent=2)] if hosts else []


def _fresh(rows: pl.DataFrame) -> Sequence[str]:
    hosts = rows.filter(pl.col("host") != ALL).drop_nulls("expected_freshness").head(_BARS).to_dicts()
    title = "The least fresh hosts"
    return [charts.bars(hosts, label="host", value="expected_freshness", title=title, form=".1%")] if hosts else []


def _copies(rows: pl.DataFrame) -> Sequence[str]:
    return [charts.bars(rows.head(_BARS).to_dicts(), label="canonical", value="page_count",
                        title="Pages of the largest clusters", accent=3)]  # fmt: skip


def _costs(rows: pl.DataFrame) -> Sequence[str]:
    hosts = rows.filter(pl.col("host") != ALL).drop_nulls("requests_per_useful").head(_BARS).to_dicts()
    title = "Requests per useful page"
    return [charts.bars(hosts, label="host", value="requests_per_useful", title=title, form=".1f", accent=1)
            ] if hosts else []  # fmt: skip


def _rounds(rows: pl.DataFrame) -> Sequence[str]:
    last = rows.tail(_COLUMNS).select(pl.col("round").cast(pl.String), "page_count").to_dicts()
    return [charts.columns(last, x="round", y="page_count", title="Pages a round")]


def _nothing(rows: pl.DataFrame) -> Sequence[str]:
    return []


SECTIONS = (
    Section("funnel", "From known to kept", {"stage": "stage", "url_count": "URLs", "share": "of known"}, _funnel,
            "Nothing is known yet: `crawl seed` names the first URLs."),
    Section("throughput", "Throughput", {"hour_at": "hour (UTC)", "request_count": "requests", "page_count": "pages",
                                         "host_count": "hosts", "wire_bytes": "bytes"}, _hours,
            "No request was made yet."),
    Section("politeness_margins", "Politeness", {"host": "host", "rest_count": "rests", "least_margin": "least margin",
                                                 "p05_margin": "5 % under", "median_margin": "median"}, _margins,
            "No host was asked twice yet."),
    Section("hosts_in_trouble", "Hosts in trouble", {"host": "host", "reason": "reason", "until_at": "until (UTC)",
                                                     "failure_count": "failures", "waiting_count": "waiting URLs"},
            _nothing, "None: every host may be asked."),
    Section("page_freshness", "Freshness", {"host": "host", "page_count": "pages", "expected_freshness": "expected",
                                            "age_p95_days": "age p95, days", "lag_p95_days": "late p95, days",
                                            "useful_share": "visits that found a change"}, _fresh,
            "No page was stored yet."),
    Section("cost_per_useful_page", "Cost per useful page", {"host": "host", "useful_count": "useful pages",
                                                             "requests_per_useful": "requests each",
                                                             "bytes_per_useful": "bytes each",
                                                             "patience_s_per_useful": "seconds each"}, _costs,
            "No request was made yet."),
    Section("duplicate_clusters", "Duplicates", {"canonical": "canonical page", "page_count": "pages",
                                                 "host_count": "hosts", "same_text_count": "same text",
                                                 "near_text_count": "nearly same"}, _copies,
            "None found; `crawl duplicates` looks for them."),
    Section("trap_patterns", "Traps", {"host": "host", "throttled_patterns": "throttled", "blocked_patterns": "blocked",
                                       "judged_of_held": "pages judged", "worthless_of_held": "of these worthless"},
            _nothing, "No pattern is held for a trap."),
    Section("crawl_progress", "Rounds", {"round": "round", "selected_count": "selected", "request_count": "requests",
                                         "page_count": "pages", "pages_per_s": "pages a second"}, _rounds,
            "No round was committed yet."),
)  # fmt: skip
