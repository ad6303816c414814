"""How the report writes a value: sizes and times in units a person reads, shares that are never rounded up to all.

What kind of value it is follows from the name of its column. A share or a margin just below one is told below one, and
one just above nought above it: to round there would tell of a promise that it was kept.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from crawl_pipeline.core.printable import printable

NOTHING = "–"
_NBSP = "\N{NO-BREAK SPACE}"
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_DAY_S = 86_400.0
_SPANS: Mapping[str, float] = {"d": _DAY_S, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 0.001}


def said(name: str, value: Any) -> str:
    """Write a value of the column of this name."""
    match value:
        case None:
            return NOTHING
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}"
        case bool() | str():
            return printable(str(value))
        case int() | float():
            return _number(name, value)
        case _:
            return printable(str(value))


def share(value: float, places: int = 1) -> str:
    """Per cent; neither all nor nothing unless it is."""
    return (
        f"{value:.0%}".replace("%", f"{_NBSP}%")
        if value in (0, 1)
        else f"{_held_off(value * 100, 100.0, places)}{_NBSP}%"
    )


def size(value: float) -> str:
    """Bytes in the largest unit of which there is one."""
    unit = 0
    while abs(value) >= 999.5 and unit < len(_SIZES) - 1:
        value, unit = value / 1000, unit + 1
    return (
        f"{value:.0f}{_NBSP}{_SIZES[unit]}" if unit == 0 or abs(value) >= 99.5 else f"{value:.1f}{_NBSP}{_SIZES[unit]}"
    )


def span(seconds: float) -> str:
    """Seconds, minutes, hours or days, whichever is read most easily."""
    unit = next((name for name, length in _SPANS.items() if abs(seconds) >= length), "s")
    count = seconds / _SPANS[unit]
    return f"{count:,.0f}{_NBSP}{unit}" if abs(count) >= 9.95 or count == round(count) else f"{count:.1f}{_NBSP}{unit}"


def _held_off(value: float, whole: float, places: int) -> str:
    """Round, but not to the whole, nor to nought, from beside it."""
    rounded, step = round(value, places), 10.0**-places
    if rounded == whole and value < whole:
        rounded = whole - step
    if rounded == 0 and value > 0:
        rounded = step
    return f"{rounded:,.{places}f}"


def _number(name: str, value: float) -> str:
    written = next((write for kind, write in _KINDS if kind.search(name)), None)
    if written is not None:
        return written(value)
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1_000 else f"{value:.3g}"


_KINDS: Sequence[tuple[re.Pattern[str], Callable[[float], str]]] = (
    (re.compile("bytes"), size),
    (re.compile("_days$"), lambda days: span(days * _DAY_S)),
    (re.compile("(?<!_per)_s(_per_|$)"), span),
    (re.compile("(share|freshness)$"), share),
    (re.compile("margin$"), lambda margin: _held_off(margin, 1.0, 3)),
)
"""Kinds of numbers by the names of their columns: the first that fits."""
