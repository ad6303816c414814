"""What docs/fingerprints.md shows works on a lake as it is stored."""

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from crawl_pipeline import corpus
from crawl_pipeline.core import fingerprint
from crawl_pipeline.core.tables import PAGES
from crawl_pipeline.lake import Lake
from tests.lake.lake_rows import NOON, done

PAGE = (Path(__file__).parents[2] / "docs" / "fingerprints.md").read_text(encoding="utf-8")
SAME = "A text, from elsewhere: of ten words or MORE, as it stands!"
OTHER = "another text that has nothing to do with what is asked for at all"


@pytest.fixture
def stored(tmp_path: Path) -> Lake:
    lake = Lake.create(str(tmp_path / "lake"), 1)
    lease = lake.claim([0], "w", NOON, 60)
    rows = pl.DataFrame({"url": ["http://docs.example/1", "http://docs.example/2", "http://docs.example/3"]})
    rows = rows.with_columns(
        fingerprint.signatures(pl.Series([SAME, OTHER, "too short"])), bucket=0, month=pl.lit("2026-03"),
        url_hash=pl.int_range(3), host=pl.lit("docs.example"),
    )  # fmt: skip
    lake.write(lease, PAGES, PAGES.frame(rows).drop("round"))
    lake.commit(lease, done(lease))
    return lake


def _block(language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(block)


def test_datasketch_goes_on_as_the_page_says(stored: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(stored.root).parent)
    names: dict[str, Any] = {}
    exec(_block("python"), names)
    assert names["alike"] == {"http://docs.example/1": 1.0}
    assert set(names["found"]) == {"http://docs.example/1", "http://docs.example/2"}


def test_bits_are_counted_in_sql_as_the_page_says(stored: Lake) -> None:
    assert corpus.query(stored, _block("sql")).is_empty()
    all_ = corpus.query(stored, _block("sql").replace("<= 8", "<= 64"))
    bits = fingerprint.distance(*(fingerprint.signatures(pl.Series([text]))["simhash"] for text in (SAME, OTHER)))
    assert all_.rows() == [("http://docs.example/1", "http://docs.example/2", bits.item())]
