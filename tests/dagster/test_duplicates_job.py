"""Near-duplicates as Dagster runs them: assets over all buckets, with figures that are drawn over time."""

import dagster as dg
import polars as pl
from conftest import Crawl

from crawl_pipeline.core.tables import PAGES, ROUNDS
from crawl_pipeline.lake import Lake

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
NAMES = ("one", "two", "three")


def store(lake: Lake) -> None:
    """A round of three pages, two of which have one text."""
    from datetime import UTC, datetime  # noqa: PLC0415

    lease = lake.claim([0], "a test", datetime.now(UTC), 60)
    rows = [{"bucket": 0, "month": "2026-03", "url": f"http://{name}.test/", "url_hash": number, "host": f"{name}.test",
             "token_count": 5, "main_hash": min(number, 1)} for number, name in enumerate(NAMES)]  # fmt: skip
    lake.write(lease, "pages", PAGES.frame(rows).drop("round"))
    lake.commit(lease, ROUNDS.frame([{"bucket": 0, "page_count": len(rows)}]).drop("round"))
    lake.release(lease)


def test_the_job_finds_duplicates_and_shows_figures(crawl: Crawl, instance: dg.DagsterInstance) -> None:
    store(crawl.lake)
    job = crawl.defs.resolve_job_def("duplicates_job")

    result = job.execute_in_process(instance=instance, raise_on_error=False, run_config=QUIET)

    assert result.success
    shown = {m.asset_key.to_user_string(): m.metadata for m in result.asset_materializations_for_node("duplicates")}
    assert set(shown) == {"clusters", "merges"}
    figures = {name: value.value for name, value in shown["clusters"].items()}
    assert (figures["new_pages"], figures["pages"], figures["clusters"], figures["copies"]) == (3, 3, 2, 1)
    assert "http://two.test/ | 2" in figures["largest clusters"].replace("  ", " ")
    assert crawl.lake.scan("clusters", where=pl.col("canonical") != pl.col("url")).collect()["url"].to_list() == [
        "http://three.test/"
    ]
