"""The report page is whole by itself, safe with strangers' words, and there for any lake."""

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from crawl_pipeline import report_page
from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FETCHES, FRONTIER, HOSTS, PAGES, ROUNDS
from crawl_pipeline.lake import Lake

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
EVIL = "<script>alert(1)</script>.test"


def lake_with(tmp_path: Path) -> Lake:
    """One round of one bucket: a page that was stored, one that is waiting, and a host with a name of markup."""
    lake = Lake.create(str(tmp_path / "lake"), 1)
    lease = lake.claim([0], "a test", datetime.now(UTC), 600.0)
    hashes = {url: urls.url_hash(url) for url in ("http://a.test/", "http://a.test/1")}
    first = {"bucket": 0, "host": "a.test", "url": "http://a.test/", "url_hash": hashes["http://a.test/"]}
    asked = {**first, "request_id": 1, "cause": "page", "origin": "http://a.test", "outcome": "fetched",
             "http_status": 200, "started_at": NOW, "ended_at": NOW, "gap_s": 2.0, "wire_bytes": 500}  # fmt: skip
    evil = {"bucket": 0, "host": EVIL, "site": EVIL, "backoff_s": 8.0, "failures": 3, "known_count": 7,
            "fetched_count": 0, "paused": False, "aside_s": 0.0}  # fmt: skip
    known = [{**first, "status": "fetched", "score": 0.5}, {**first, "url": "http://a.test/1", "status": "waiting",
                                                            "url_hash": hashes["http://a.test/1"]}]  # fmt: skip
    change = {"bucket": 0, "host": "a.test", "url_hash": first["url_hash"], "visit_count": 3, "change_count": 1,
              "evidence_a": 0.6, "rate": 0.5, "fetched_at": datetime.now(UTC), "weight": 1.0}  # fmt: skip
    frames = {FETCHES: [asked], FRONTIER: known, HOSTS: [evil], CHANGE_FREQUENCY: [change],
              PAGES: [{**first, "fetched_at": NOW, "month": "2026-03"}]}  # fmt: skip
    for table, rows in frames.items():
        stamped = [{"round": lease.round, **({"layer": "tail"} if "layer" in table.schema else {}), **row}
                   for row in rows]  # fmt: skip
        lake.write(lease, table, _of(table, stamped))
    done = ROUNDS.frame([{"bucket": 0, "started_at": NOW, "page_count": 1, "request_count": 1}])
    lake.commit(lease, done.drop("round", "epoch", "worker"))
    return lake


def _of(table, rows) -> pl.DataFrame:
    return table.frame(rows).drop("layout", "part", strict=False)


def test_what_strangers_wrote_is_text_and_nothing_is_fetched(tmp_path):
    lake = lake_with(tmp_path)

    text = report_page.write(lake, tmp_path / "out" / "report.html").read_text(encoding="utf-8")

    assert "&lt;script&gt;alert(1)" in text
    assert "<script" not in text
    assert not re.search(r"(src|href)\s*=|url\((?!#)|@import", text)
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


def test_a_lake_without_rounds_has_a_page_that_says_so(tmp_path):
    text = report_page.page(Lake.create(str(tmp_path / "lake"), 1), NOW)

    assert "No round was committed yet." in text
    assert "<svg" not in text.split("Rounds</h2>")[1]
