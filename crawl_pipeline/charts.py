"""Charts as SVG text: bars, columns over rounds or time, and lines, drawn by Vega-Lite.

Every colour is a CSS variable with a value of its own to fall back on: inside a page the chart follows its light or
dark colours, alone it is drawn in the light ones. Text from outside stands in the rows only, never in what Vega reads
as an expression, and Vega escapes it in the SVG; characters that would turn or break what stands beside them are shown
by their numbers. Nothing is fetched and the SVG holds no script.

A chart is as wide as a phone (WIDTH). The page scales it, so that it is read the same everywhere.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from itertools import count
from typing import Any

import vl_convert

from crawl_pipeline.core.printable import printable

Rows = Sequence[Mapping[str, Any]]

WIDTH = 340
"""Of a chart, in pixels of a phone."""
INK = {"text": "#1f2933", "muted": "#62707d", "line": "#d9dee3", "surface": "#ffffff"}
"""Colours of all but the marks."""
SERIES = ("#2f6fb5", "#e07b39", "#3d9970", "#8d6cc1", "#c2415a", "#8a8f98")
"""Colours of marks, in the order in which series are named; told apart by people with colour-blindness too."""
_VARIABLE = re.compile(r"var\(--[a-z0-9-]+, (#[0-9a-f]{6})\)")
_OFFLINE: list[str] = []
_MOMENT = {"year": "%Y", "quarter": "%b", "month": "%-d %b", "week": "%-d %b", "date": "%-d %b", "day": "%-d %b",
           "hours": "%H:%M", "minutes": "%H:%M", "seconds": "%H:%M:%S", "milliseconds": "%S.%L"}  # fmt: skip
_LONGEST = 40
_HIGH = 150
_ROW = 24
LABEL = 24
"""Characters of a bar's name: more would leave no room for the bar."""


def ink(name: str) -> str:
    """One of the colours of INK, as the page has it."""
    return f"var(--{name}, {INK[name]})"


def series(place: int) -> str:
    """The colour of the series at a place."""
    return f"var(--series-{place % len(SERIES) + 1}, {SERIES[place % len(SERIES)]})"


def bars(
    rows: Rows, *, label: str, value: str, title: str = "", form: str = ",.0f", said: str = "", accent: int = 0
) -> str:
    """Draw one bar per row, from the top, each with its value beside it, or with the text of the column `said`."""
    names = labels([str(row[label]) for row in rows])
    rows = [{**row, "bar": name} for row, name in zip(rows, names, strict=True)]
    words = {"field": "bar", "type": "nominal", "sort": None, "title": None}
    length = {"field": value, "type": "quantitative", "title": None, "axis": None, "scale": _room(rows, value)}
    named = {"axis": {"labelPadding": 6, "labelLimit": 0, "domain": False, "ticks": False}}
    written = {"field": said, "type": "nominal"} if said else {"field": value, "type": "quantitative", "format": form}
    y, told = words | named, written
    bar = {"mark": {"type": "bar", "color": series(accent), "cornerRadiusEnd": 2, "height": {"band": 0.68}},
           "encoding": {"y": y, "x": length}}  # fmt: skip
    text = {"mark": {"type": "text", "align": "left", "dx": 5, "color": ink("text")},
            "encoding": {"y": y, "x": length, "text": told}}  # fmt: skip
    return _svg(rows, {"height": {"step": _ROW}, "layer": [bar, text]}, title)


def columns(
    rows: Rows, *, x: str, y: str, by: str | None = None, order: Sequence[str] = (), title: str = "",
    form: str = "~s", rule: float | None = None,
) -> str:  # fmt: skip
    """Draw one column per value of `x`; with `by` stacked, in this order. `rule` draws a line across at that value."""
    encoding: dict[str, Any] = {"x": _axis(rows, x), "y": _height(y, form)}
    if by is not None:
        encoding |= _coloured(rows, by, order)
        places = {name: place for place, name in enumerate(encoding["color"]["scale"]["domain"])}
        rows = [{**row, "place": places.get(str(row[by]))} for row in rows]
        encoding["order"] = {"field": "place", "type": "quantitative"}  # the first at the bottom
    mark = {"type": "bar", **({} if by is not None else {"color": series(0)})}
    return _svg(rows, {"height": _HIGH, "layer": [{"mark": mark, "encoding": encoding}, *_across(rule)]}, title)


def lines(
    rows: Rows, *, x: str, y: str, by: str | None = None, order: Sequence[str] = (), title: str = "",
    form: str = "~s", rule: float | None = None,
) -> str:  # fmt: skip
    """Draw one line through the rows, or one for each value of `by`; a point is drawn for each row."""
    encoding: dict[str, Any] = {"x": _axis(rows, x, steps=False), "y": _height(y, form)}
    if by is not None:
        encoding |= _coloured(rows, by, order)
    mark = {"type": "line", "strokeWidth": 2,
            "point": {"filled": True, "size": 28} if len(rows) <= _LONGEST else False,
            **({} if by is not None else {"color": series(0)})}  # fmt: skip
    return _svg(rows, {"height": _HIGH, "layer": [{"mark": mark, "encoding": encoding}, *_across(rule)]}, title)


def labels(names: Sequence[str]) -> list[str]:
    """Short names, no two alike: the middle is left out of a long one, since addresses differ at their end."""
    given: dict[str, None] = {}
    for name in names:
        short = _short(printable(name), LABEL)
        again = (f"{_short(printable(name), LABEL - 4)} ({n})" for n in count(2))
        given[short if short not in given else next(other for other in again if other not in given)] = None
    return list(given)


def _short(name: str, most: int) -> str:
    bare = re.sub(r"^https?://", "", name)
    if len(bare) <= most:
        return bare
    head = most * 2 // 5
    return f"{bare[:head]}…{bare[-(most - head - 1) :]}"


def plain(svg: str) -> str:
    """The same chart in its light colours on white, for places that know no CSS variables."""
    alone = _VARIABLE.sub(r"\1", svg)
    return alone.replace("<svg ", f'<svg style="background:{INK["surface"]}" ', 1)


def png(svg: str, scale: float = 2.0) -> bytes:
    """The same chart as a picture of points."""
    return bytes(vl_convert.svg_to_png(plain(svg), scale=scale))


def picture(svg: str, alt: str, scale: float = 2.0) -> str:
    """The same chart as Markdown that carries its picture along."""
    said = re.sub(r"[\[\]\\\n]", " ", alt)
    return f"![{said}](data:image/png;base64,{base64.b64encode(png(svg, scale)).decode()})"


def _room(rows: Rows, value: str) -> dict[str, Any]:
    """Leave place beside the longest bar for what is written there."""
    most = max((float(row[value] or 0) for row in rows), default=0.0)
    return {"domain": [0, most * 1.4 or 1], "nice": False}


def _axis(rows: Rows, x: str, *, steps: bool = True) -> dict[str, Any]:
    """Time where there is time, numbers where a line runs through them, else one step per value."""
    found = next((row[x] for row in rows if row[x] is not None), None)
    if isinstance(found, (datetime, date)):
        clock = {"grid": False, "labelOverlap": True, "format": _MOMENT, "tickCount": 5}
        return {"field": x, "type": "temporal", "title": None, "axis": clock, "scale": {"type": "utc"}}
    if not steps and isinstance(found, (int, float)):
        return {"field": x, "type": "quantitative", "title": None, "axis": {"grid": False}, "scale": {"zero": False}}
    upright = {"grid": False, "labelAngle": 0, "labelOverlap": True, "labelLimit": 90}
    return {"field": x, "type": "ordinal", "sort": None, "title": None, "axis": upright}


def _height(y: str, form: str) -> dict[str, Any]:
    return {"field": y, "type": "quantitative", "title": None, "axis": {"format": form, "tickCount": 4}}


def _coloured(rows: Rows, by: str, order: Sequence[str]) -> dict[str, Any]:
    names = list(order) or list(dict.fromkeys(str(row[by]) for row in rows))
    scale = {"domain": names, "range": [series(place) for place in range(len(names))]}
    legend = {"orient": "top", "title": None, "columns": 3, "symbolType": "circle", "symbolSize": 60}
    return {"color": {"field": by, "type": "nominal", "scale": scale, "legend": legend}}


def _across(rule: float | None) -> list[dict[str, Any]]:
    if rule is None:
        return []
    mark = {"type": "rule", "strokeDash": [4, 3], "color": ink("text")}
    return [{"mark": mark, "encoding": {"y": {"datum": rule, "type": "quantitative"}}}]


def _svg(rows: Rows, drawn: Mapping[str, Any], title: str) -> str:
    spec = {"width": WIDTH, "autosize": {"type": "fit-x", "contains": "padding"}, "padding": 4, "background": None,
            "data": {"values": [{name: _value(each) for name, each in row.items()} for row in rows]},
            "config": _CONFIG, **({"title": printable(title)} if title else {}), **drawn}  # fmt: skip
    return str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=_OFFLINE))


def _value(value: Any) -> Any:
    """What JSON can hold; times are UTC, as everywhere in the lake."""
    if isinstance(value, str):
        return printable(value)
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(value, (datetime, date)) else value


_LETTERS = {"labelColor": ink("muted"), "labelFontSize": 11, "titleColor": ink("muted")}
_CONFIG: dict[str, Any] = {
    "font": "system-ui, -apple-system, 'Segoe UI', sans-serif",
    "view": {"stroke": None},
    "title": {"anchor": "start", "color": ink("text"), "fontSize": 13, "fontWeight": 600, "offset": 8},
    "axis": {**_LETTERS, "domainColor": ink("line"), "tickColor": ink("line"), "gridColor": ink("line"),
             "tickSize": 4},
    "axisY": {"domain": False, "ticks": False},
    "legend": {**_LETTERS, "rowPadding": 2, "columnPadding": 12},
    "text": {"fontSize": 11},
}  # fmt: skip
