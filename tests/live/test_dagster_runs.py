"""Two Dagster runs after one another: the promise to hosts holds across them, by the web's own log."""

from pathlib import Path

import polars as pl

from crawl_pipeline import corpus, reports
from crawl_pipeline.definitions import materialize
from crawl_pipeline.lake import Lake
from crawl_pipeline.testing import access_log
from tests.live import small_web


def test_no_host_is_asked_too_soon_across_two_runs(tmp_path: Path) -> None:
    """Each run is cut short while hosts have work left, so the second starts where the first was asking."""
    with small_web.serving(tmp_path) as web:
        root = small_web.prepared(web, tmp_path)
        for _ in range(2):
            materialize(str(root), str(root / "policy.toml"), 4, 2.5, tmp_path / "dagster")

    lake = Lake.open(str(root))
    asked = corpus.query(lake, "select worker, host from fetches group by all")
    both = asked.group_by("host").len().filter(pl.col("len") == 2)
    assert both.height > 0, "no host was asked by both runs, so nothing was shown"
    small_web.assert_polite(access_log.rows(tmp_path / "access.log"))
    assert all(result.holds for result in reports.run_tests(lake))
