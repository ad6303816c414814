"""The report as one HTML page to be mailed: headline figures, then a section for each model, with chart and table.

The page is whole by itself: styles and charts (SVG) are in it, there is no script, nothing is fetched. Light or dark is
the reader's choice, and it is as wide as a phone or a screen. Host names, URLs and reasons are strangers' words: the
template escapes all of them and keeps each to its own direction; only charts, which `charts` escapes, are put in as
they are.

Decides nothing about the crawl. What a figure means is said by its model in dbt_like_reports.
"""

import os
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from markupsafe import Markup

from crawl_pipeline import corpus, reports
from crawl_pipeline.report_sections import ALL, SECTIONS, Section
from crawl_pipeline.report_words import NOTHING, said, share
from crawl_pipeline.reports import Result
from crawl_pipeline.table_views import Files

MOST = 8
"""Rows of a table: what is on a phone must end."""
_NAMED = 3
_BREAKS = re.compile(r"(?<=[./?&=_-])(?=\w)")
"""Where a name or an address may be broken on a narrow screen, rather than within a word."""

Frames = Mapping[str, pl.DataFrame]


class PageUnwritable(Exception):
    """The page cannot be written where it was asked for."""


def write(lake: Files, path: Path) -> Path:
    """Write the page of a lake as it is now, whole or not at all; give its absolute path.

    Raise PageUnwritable if nothing can be written there, before the lake is read if that can be known.
    """
    path = path.absolute()
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
        part.write_text(page(lake, datetime.now(UTC)), encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise PageUnwritable(
            f"expected to write the page to {path}, found: {error.strerror or error}; name another file with --out"
        ) from error
    finally:
        _drop(part)
    return path


def _drop(part: Path) -> None:
    try:
        part.unlink(missing_ok=True)
    except OSError:  # where nothing could be made, nothing is left
        return


def page(lake: Files, now: datetime) -> str:
    """Render the page; all of it is read from one snapshot."""
    with reports.connect(lake) as connection:
        frames = {model.name: corpus.read(connection, f"from reports.{model.name}") for model in reports.models()}
        judged = [reports.ask(connection, test) for test in reports.tests()]
        warned = [reports.ask(connection, alarm) for alarm in reports.alarms()]
    return rendered(frames, judged, warned, name=lake.root, now=now)


def rendered(frames: Frames, judged: Sequence[Result], warned: Sequence[Result], *, name: str, now: datetime) -> str:
    """Render what was read."""
    sentences = {model.name: model.sentence for model in reports.models()}
    return _template().render(
        lake=name, told_at=f"{now:%Y-%m-%d %H:%M} UTC", figures=_figures(frames, judged),
        broken=[_act(one) for one in judged if not one.holds], alarms=[_act(one) for one in warned if not one.holds],
        sections=[_section(section, frames[section.model], sentences[section.model]) for section in SECTIONS],
    )  # fmt: skip


def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report_page.html")


def _figures(frames: Frames, judged: Sequence[Result]) -> list[dict[str, Any]]:
    stages = dict(frames["funnel"].select("stage", "url_count").iter_rows())
    hosts, trouble = frames["host_coverage"], frames["hosts_in_trouble"].height
    holding = sum(one.holds for one in judged)
    fresh = _of_all(frames["page_freshness"], "expected_freshness")
    return [
        {"value": said("count", stages.get("stored", 0)), "says": "pages stored"},
        {"value": said("count", int(hosts["request_count"].sum())), "says": "requests"},
        {"value": said("count", stages.get("known", 0)), "says": "URLs known"},
        {"value": said("count", hosts.height), "says": "hosts"},
        {"value": NOTHING if fresh is None else share(fresh), "says": "expected freshness"},
        {"value": said("count", trouble), "says": "hosts in trouble"},
        {"value": f"{holding} of {len(judged)}", "says": "promises and accounts hold",
         "tone": "good" if holding == len(judged) else "bad"},
    ]  # fmt: skip


def _of_all(frame: pl.DataFrame, column: str) -> float | None:
    found = frame.filter(host=ALL)[column]
    return None if found.is_empty() or found[0] is None else float(found[0])


def _act(found: Result) -> dict[str, Any]:
    """What is broken, and the first rows that say where."""
    rows, column = found.offending, found.offending.columns[0]
    names = [said(column, value) for value in rows[column].unique(maintain_order=True).head(_NAMED)]
    return {"sentence": found.sentence, "advice": found.advice, "count": rows.height, "column": column, "names": names,
            "name": found.name, "more": rows[column].n_unique() > _NAMED}  # fmt: skip


def _section(section: Section, frame: pl.DataFrame, sentence: str) -> dict[str, Any]:
    shown = frame.tail(MOST).reverse() if section.newest else frame.head(MOST)
    rows = [[{"parts": _BREAKS.split(said(name, row[name])), "words": shown.schema[name] == pl.String}
             for name in section.columns] for row in shown.iter_rows(named=True)]  # fmt: skip
    names = [{"says": says, "words": shown.schema[name] == pl.String} for name, says in section.columns.items()]
    return {
        "model": section.model, "heading": section.heading, "says": sentence, "names": names, "rows": rows,
        "charts": [Markup(drawn) for drawn in section.draw(frame)] if rows else [],  # `charts` escapes
        "more": max(0, frame.height - MOST), "order": "earlier" if section.newest else "more", "empty": section.empty,
    }  # fmt: skip
