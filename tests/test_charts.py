"""Charts: SVG text that is safe in a page and shows what the rows say."""

from datetime import UTC, datetime
from xml.etree import ElementTree

from crawl_pipeline import charts

HOSTILE = "</svg><script>alert(1)</script>\"'&"


def test_charts_escape_hostile_text_and_bring_neither_scripts_nor_requests():
    rows = [{"host": HOSTILE, "pages": 3}, {"host": "kept.test", "pages": 1}]

    drawn = charts.bars(rows, label="host", value="pages", title=HOSTILE)

    root = ElementTree.fromstring(drawn)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "g", "path", "text", "line", "defs", "clipPath", "rect"}
    shown = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert "kept.test" in shown
    assert any(text and text.startswith(HOSTILE[:9]) and text.endswith(HOSTILE[-9:]) for text in shown)  # cut
    assert "url(http" not in drawn
    assert not [name for element in root.iter() for name in element.attrib if "href" in name]


def test_a_chart_has_light_colours_of_its_own_where_no_page_gives_others():
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [{"at": noon.replace(hour=hour), "n": hour, "by": by} for hour in (12, 13, 14) for by in ("a", "b")]

    column = charts.columns(rows, x="at", y="n", by="by", order=["b", "a"], rule=20)
    line = charts.lines(rows, x="at", y="n", by="by")

    for drawn in (column, line):
        assert "var(--series-1, " in drawn
        assert "13:00" in drawn
        assert "var(" not in charts.plain(drawn)
        assert charts.SERIES[1] in charts.plain(drawn)
    assert charts.picture(column, "two\n](x) series").startswith("![two  (x) series](data:image/png;base64,iVBOR")


def test_a_chart_without_rows_is_empty_and_no_error():
    assert charts.bars([], label="host", value="pages").startswith("<svg")
    assert charts.columns([], x="round", y="pages").startswith("<svg")
    assert charts.lines([], x="round", y="pages", by="host").startswith("<svg")


def test_names_that_differ_somewhere_are_told_apart_however_long_they_are():
    long = "http://a-host-of-this-name.test/folder/of/pages/"
    names = [
        f"{long}one.html",
        f"{long}two.html",
        f"{long}x/page.html",
        f"{long}y/page.html",
        "a\u202eb.test",
        "b.test",
    ]

    shown = charts.labels(names)

    assert shown == [
        "a-host-of…pages/one.html", "a-host-of…pages/two.html", "a-host-of…es/x/page.html", "a-host-of…es/y/page.html",
        "a\\u202eb.test", "b.test",
    ]  # fmt: skip
    alike = charts.labels([f"{'m' * 20}{place}{'n' * 20}" for place in range(3)])
    assert alike == ["mmmmmmmmm…nnnnnnnnnnnnnn", "mmmmmmmm…nnnnnnnnnnn (2)", "mmmmmmmm…nnnnnnnnnnn (3)"]
