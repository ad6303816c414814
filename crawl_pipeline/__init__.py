"""A polite batch web crawl over Delta Lake, scheduled by Dagster.

For notebooks: `crawl_pipeline.connect("lake")` gives a DuckDB connection over a lake, as it is or as it was.
"""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

__version__ = "0.1.0"
__all__ = ["__version__", "connect"]


def connect(
    lake: str | Path, *, version: int | None = None, at: datetime | str | None = None, round: int | None = None
) -> "duckdb.DuckDBPyConnection":
    """Open a lake for reading: a view per table, views over several, and the models of `reports`; close it when done.

    It is a snapshot of now, or of a moment of the past: once `round` was committed, `at` a time (UTC, unless it says
    otherwise), or at a `version` of the table `rounds`. Raises LakeMissing, or NoSuchMoment with the moments there are.
    """
    from crawl_pipeline import moments, reports  # noqa: PLC0415 (importing the package costs nothing)
    from crawl_pipeline.lake import Lake  # noqa: PLC0415

    try:
        then = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError as error:
        raise moments.NoSuchMoment(f"expected a time such as 2026-03-01T12:00, found {at!r}") from error
    return reports.connect(moments.of(Lake.open(str(lake)), version=version, at=then, round=round))
