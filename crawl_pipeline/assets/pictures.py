"""Pictures in Dagster's metadata, beside the tables they are drawn from: Markdown that carries its PNG along.

Small (some ten kilobytes each), since they are kept with every materialisation. Frames in, Markdown out; what a figure
means is said by the model or the asset that it comes from.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
import polars as pl

MOST = 12
"""Bars in a picture: more cannot be told apart at its size."""
_ROUNDS = 60

Pictures = dict[str, dg.MarkdownMetadataValue]


def of_report(name: str, rows: pl.DataFrame) -> Pictures:
    """The pictures of a model, if it has some and there is something to draw."""
    draw = {"crawl_progress": _progress, "politeness_margins": _margins, "host_coverage": _balance}.get(name)
    return draw(rows) if draw and rows.height else {}


def of_freshness(figures: Mapping[str, Any]) -> Pictures:
    """How fresh pages are expected to be, beside what is planned and the best there is."""
    from crawl_pipeline import charts  # noqa: PLC0415 (keeps the code server small)

    names = {"expected_freshness": "expected", "planned_freshness": "as planned", "bound": "best plan"}
    rows = [{"what": said, "share": figures[name]} for name, said in names.items() if figures.get(name) is not None]
    if not rows:
        return {}
    drawn = charts.bars(rows, label="what", value="share", title="Freshness, weighted by importance", form=".1%")
    return _pictures({"freshness": drawn})


def _progress(rows: pl.DataFrame) -> Pictures:
    from crawl_pipeline import charts  # noqa: PLC0415

    stages = {"selected": "selected_count", "requests": "request_count", "pages stored": "page_count",
              "links admitted": "admitted_count"}  # fmt: skip
    funnel = [{"stage": stage, "count": int(rows[column].sum())} for stage, column in stages.items()]
    last = rows.tail(_ROUNDS).select("round", "page_count").to_dicts()
    return _pictures({
        "funnel": charts.bars(funnel, label="stage", value="count", title="All rounds"),
        "pages per round": charts.columns(last, x="round", y="page_count", title="Pages per round"),
    })  # fmt: skip


def _margins(rows: pl.DataFrame) -> Pictures:
    from crawl_pipeline import charts  # noqa: PLC0415

    least = rows.filter(pl.col("host") != "all hosts").sort("least_margin").head(MOST).to_dicts()
    title = "Least rest over what was owed; under 1 breaks a promise"
    return _pictures({"politeness margin": charts.bars(least, label="host", value="least_margin", title=title,
                                                       form=".2f")}) if least else {}  # fmt: skip


def _balance(rows: pl.DataFrame) -> Pictures:
    from crawl_pipeline import charts  # noqa: PLC0415

    top = rows.sort("fetched_count", descending=True).head(MOST).select("host", "fetched_count").to_dicts()
    return _pictures({"host balance": charts.bars(top, label="host", value="fetched_count",
                                                  title="Pages fetched, by host")})  # fmt: skip


def _pictures(drawn: Mapping[str, str]) -> Pictures:
    from crawl_pipeline import charts  # noqa: PLC0415

    return {
        f"picture: {name}": dg.MetadataValue.md(charts.picture(svg, name, scale=1.0)) for name, svg in drawn.items()
    }
