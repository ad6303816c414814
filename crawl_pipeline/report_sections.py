"""The sections of the report page: which columns of which model are shown, and what is drawn of them.

Frames in, SVG out. What a figure means is said by its model in dbt_like_reports; how it is written, by `report_words`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import polars as pl

from crawl_pipeline import charts
from crawl_pipeline.report_words import said

ALL = "all hosts"
_SUMS = (ALL, "all pages")
HOUR = timedelta(hours=1)
_BARS, _COLUMNS, _FEWEST = 10, 48, 12

Draw = Callable[[pl.DataFrame], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Section:
    """One model on the page: its columns by what they are called there, what is drawn, what is said of no rows."""

    model: str
    heading: str
    columns: Mapping[str, str]
    draw: Draw
    empty: str
    newest: bool = False
    """The rows that matter come last in the model."""


def _nothing(rows: pl.DataFrame) -> Sequence[str]:
    return []


def _bars(label: str, value: str, title: str, accent: int, rows: pl.DataFrame) -> Sequence[str]:
    """Bars of the first rows that have a value, each with it beside as the tables write it; not of all hosts."""
    chosen = rows.filter(~pl.col(label).is_in(_SUMS)).drop_nulls(value).head(_BARS)
    told: list[dict[str, Any]] = [{**row, "said": said(value, row[value])} for row in chosen.iter_rows(named=True)]
    drawn = charts.bars(told, label=label, value=value, said="said", title=title, accent=accent)
    return [drawn] if told else []


def _hours(rows: pl.DataFrame) -> Sequence[str]:
    """The last hours, those without a request too: a gap is what one looks for."""
    pages: dict[datetime, int] = dict(rows.select("hour_at", "page_count").iter_rows())
    last = max(pages)
    oldest = min(hour for hour in pages if hour > last - _COLUMNS * HOUR)
    count = max((last - oldest) // HOUR + 1, _FEWEST)
    every = [last - (count - 1 - place) * HOUR for place in range(count)]
    shown = [{"hour": f"{hour:%-d %b %H:%M}", "page_count": pages.get(hour, 0)} for hour in every]
    return [charts.columns(shown, x="hour", y="page_count", title="Pages an hour")]


def _rounds(rows: pl.DataFrame) -> Sequence[str]:
    last = rows.tail(_COLUMNS).select(pl.col("round").cast(pl.String), "page_count").to_dicts()
    return [charts.columns(last, x="round", y="page_count", title="Pages a round")]


SECTIONS = (
    Section("funnel", "From known to kept", {"stage": "stage", "url_count": "URLs", "share": "of known"},
            partial(_bars, "stage", "url_count", "", 0),
            "Nothing is known yet: `crawl seed` names the first URLs."),
    Section("url_states", "Where URLs stand", {"status": "state", "url_count": "URLs", "share": "of known",
                                               "host_count": "hosts", "most_came_to": "most came to"},
            _nothing, "Nothing is known yet."),
    Section("throughput", "Throughput", {"hour_at": "hour (UTC)", "request_count": "requests", "page_count": "pages",
                                         "host_count": "hosts", "wire_bytes": "received"}, _hours,
            "No request was made yet.", newest=True),
    Section("hosts_in_trouble", "Hosts in trouble", {"host": "host", "reason": "reason", "last_trouble": "last trouble",
                                                     "until_at": "until (UTC)", "waiting_count": "waiting URLs"},
            _nothing, "None: every host may be asked."),
    Section("politeness_margins", "Politeness", {"host": "host", "rest_count": "rests", "least_margin": "least margin",
                                                 "p05_margin": "5 % under", "median_margin": "median"},
            lambda rows: _bars("host", "least_margin", "Least rest over what was owed", 2, rows.sort("least_margin")),
            "No host was asked twice yet."),
    Section("page_freshness", "Freshness", {"host": "host", "page_count": "pages", "expected_freshness": "expected",
                                            "age_p95_days": "age, p95", "lag_p95_days": "late, p95",
                                            "useful_share": "found a change"},
            partial(_bars, "host", "expected_freshness", "The least fresh hosts", 0), "No page was stored yet."),
    Section("seed_list_freshness", "Freshness of seed lists", {"tag": "seed list", "host_count": "hosts",
                                                               "page_count": "pages", "expected_freshness": "expected",
                                                               "age_p95_days": "age, p95", "lag_p95_days": "late, p95"},
            partial(_bars, "tag", "expected_freshness", "The least fresh seed lists", 2), "No page was stored yet."),
    Section("cost_per_useful_page", "Cost per useful page", {"host": "host", "useful_count": "useful pages",
                                                             "requests_per_useful": "requests each",
                                                             "bytes_per_useful": "received each",
                                                             "patience_s_per_useful": "patience each"},
            partial(_bars, "host", "requests_per_useful", "Requests per useful page", 1), "No request was made yet."),
    Section("duplicate_clusters", "Duplicates", {"canonical": "canonical page", "page_count": "pages",
                                                 "host_count": "hosts", "same_text_count": "same text",
                                                 "near_text_count": "nearly same"},
            partial(_bars, "canonical", "page_count", "Pages of the largest clusters", 3),
            "None found; `crawl duplicates` looks for them."),
    Section("trap_patterns", "Traps", {"host": "host", "throttled_patterns": "throttled", "blocked_patterns": "blocked",
                                       "judged_of_held": "pages judged", "worthless_of_held": "of these worthless"},
            _nothing, "No pattern is held for a trap."),
    Section("crawl_progress", "Rounds", {"round": "round", "selected_count": "selected", "request_count": "requests",
                                         "page_count": "pages", "pages_per_s": "pages a second"}, _rounds,
            "No round was committed yet.", newest=True),
)  # fmt: skip
