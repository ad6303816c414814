"""The report page is whole by itself, safe with strangers' words, and there for any lake."""

import re
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from selectolax.lexbor import LexborHTMLParser

from crawl_pipeline import report_page, reports
from crawl_pipeline.core import urls
from crawl_pipeline.core.tables import CHANGE_FREQUENCY, FETCHES, FRONTIER, HOSTS, PAGES, ROUNDS
from crawl_pipeline.lake import Lake
from crawl_pipeline.report_page import PageUnwritable
from crawl_pipeline.report_sections import SECTIONS
from crawl_pipeline.report_words import said

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


HOSTILE = (
    "</td></svg></style><!--]]><script>alert(1)</script>", "\"' onload='alert(1)", "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#60;", "\u05e9\u05dc\u05d5\u05dd\U0001f577\ufe0f.test", "moc.live\u202etest", "nul\x00bell\x07",
    "x" * 3000,
)  # fmt: skip


def hostile(frame: pl.DataFrame) -> pl.DataFrame:
    """Rows of a model whose every text is a stranger's, each number 1 and each time now."""
    given = {pl.String: list(HOSTILE), pl.Datetime: [NOW] * len(HOSTILE)}
    ones = [1] * len(HOSTILE)
    columns = {name: given.get(dtype.base_type(), ones) for name, dtype in frame.schema.items()}
    return pl.DataFrame(columns, schema_overrides=frame.schema)


def test_no_text_of_strangers_breaks_out_of_any_table_or_chart(tmp_path):
    empty = Lake.create(str(tmp_path / "lake"), 1)
    frames = {name: hostile(frame) for name, frame in reports.run_models(empty).items()}
    offending = pl.DataFrame({"host": [*HOSTILE], "url": [*HOSTILE]})
    broken = [reports.Result(f"t{n}", "A sentence.", (), offending[n:], "do it") for n in range(0, len(HOSTILE), 3)]

    text = report_page.rendered(frames, broken, broken, name=HOSTILE[0], now=NOW)

    tree = LexborHTMLParser(text)
    tags = {node.tag for node in tree.root.traverse()}
    assert not tags & {"script", "iframe", "object", "img", "foreignobject", "a", "link", "base", "form"}
    names = {name.lower() for node in tree.root.traverse() for name in node.attributes}
    assert not [name for name in names if name.startswith("on") or "href" in name or name == "src"]
    for section in (section for section in SECTIONS if "host" in section.columns):
        cells = [cell.text() for cell in tree.css(f"#{section.model} tbody td:first-child")]
        assert cells == [said("host", each) for each in HOSTILE[:: -1 if section.newest else 1]]
    assert len(tree.css("section")) == 1 + len(SECTIONS)
    assert not re.search("[\x00-\x08\u202a-\u202e]", text)


def test_the_newest_hours_and_rounds_are_shown_first(tmp_path):
    frames = {name: hostile(frame) for name, frame in reports.run_models(Lake.create(str(tmp_path), 1)).items()}
    frames["crawl_progress"] = frames["crawl_progress"].head(1).join(pl.DataFrame({"n": range(1, 31)}), how="cross")
    frames["crawl_progress"] = frames["crawl_progress"].with_columns(round="n").drop("n")

    tree = LexborHTMLParser(report_page.rendered(frames, [], [], name="lake", now=NOW))

    rounds = [cell.text() for cell in tree.css("#crawl_progress tbody td:first-child")]
    assert rounds == [str(place) for place in range(30, 30 - report_page.MOST, -1)]
    assert "22 earlier" in tree.css_first("#crawl_progress .more").text()


def test_a_page_that_cannot_be_written_is_told_and_leaves_nothing_behind(tmp_path):
    lake = Lake.create(str(tmp_path / "lake"), 1)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "out").mkdir()

    for path in (tmp_path / "file" / "report.html", tmp_path / "out", tmp_path / "out" / f"{'n' * 250}.html",
                 Path("/proc/report.html")):  # fmt: skip
        with pytest.raises(PageUnwritable, match=r"expected to write the page to .*; name another file with --out"):
            report_page.write(lake, path)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "lake", "out"]
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(("name", "value", "text"), [
    ("share", 0.9997, "99.9 %"), ("share", 1.0, "100 %"), ("share", 0.0, "0 %"), ("share", 0.0001, "0.1 %"),
    ("least_margin", 0.99996, "0.999"), ("least_margin", 1.00004, "1.000"),
    ("wire_bytes", 999, "999 B"), ("wire_bytes", 23_463_562, "23.5 MB"), ("wire_bytes", 999_960, "1.0 MB"),
    ("age_p95_days", 0.0136, "20 min"), ("age_p95_days", 12.04, "12 d"), ("lag_p95_days", 0, "0 s"),
    ("patience_s_per_useful", 0.275, "275 ms"), ("pages_per_s", 6.041, "6.04"), ("count", 1234567, "1,234,567"),
    ("until_at", None, "–"), ("host", "a\u202eb", "a\\u202eb"),
])  # fmt: skip
def test_values_are_written_in_units_that_a_person_reads_and_never_rounded_to_all_or_nothing(name, value, text):
    assert said(name, value).replace("\N{NO-BREAK SPACE}", " ") == text
