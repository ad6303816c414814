"""Which modules a policy names: what cannot be meant is refused before the crawl, what does not load is absent."""

from pathlib import Path

import polars as pl
import pytest

from crawl_pipeline.core import declared_tables
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.modules import Declaration, column
from crawl_pipeline.modules.loading import SHIPPED, load, registered

AGENT = {"name": "ExampleBot", "contact": "https://example.org/"}
HURTFUL = "tests.modules.hurtful:Hurtful"
SETTINGS = {"copyright_monitor": {"phrases": ["all rights reserved"]}}


def policy(*use: str, **settings: dict[str, object]) -> Policy:
    return Policy.model_validate({"agent": AGENT, "modules": {"use": list(use), "settings": settings}})


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_module_loads_by_its_name(name):
    found = load(policy(name, **{name: SETTINGS[name]} if name in SETTINGS else {}))

    assert [one.name for one in found.ready] == [name]
    assert found.tables[name].columns


def test_no_module_is_used_by_default():
    found = load(policy())

    assert (found.ready, found.absent) == ((), ())
    assert not found.wants("image/png")


def test_a_module_is_named_by_where_it_is_too():
    assert load(policy(HURTFUL, **{HURTFUL: {"table": "hurt"}})).ready[0].phase == "read"


def test_an_installed_package_registers_its_modules_by_name(tmp_path: Path, monkeypatch):
    (tmp_path / "counting.py").write_text("from tests.modules.hurtful import Hurtful as Counting\n")
    registration = tmp_path / "counting-1.0.dist-info"
    registration.mkdir()
    (registration / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (registration / "entry_points.txt").write_text("[crawl_pipeline.modules]\ncounting = counting:Counting\n")
    monkeypatch.syspath_prepend(tmp_path)

    assert registered()["counting"] == "counting:Counting"
    assert load(policy("counting")).ready[0].table.name == "hurt"


@pytest.mark.parametrize(
    ("use", "settings", "message"),
    [
        (["png_archiv"], {}, r"expected package\.module:Name, or one of .*png_archive.*found 'png_archiv'"),
        (["png_archive", "png_archive"], {}, "png_archive more than once"),
        (["no_such_package.thing:Module"], {}, "expected a Python module no_such_package.thing"),
        (["tests.modules.hurtful:Absent"], {}, "expected a class Absent in tests.modules.hurtful"),
        (["tests.modules.hurtful:Unspeakable"], {}, "to have `declares` and one of the methods"),
        ([HURTFUL], {HURTFUL: {"colour": "red"}}, f"modules.settings.{HURTFUL}: .*colour"),
        (["copyright_monitor"], {}, "phrases: expected a list of phrases"),
        (["copyright_monitor"], {"copyright_monitor": {"phrases": "x"}}, "phrases: expected a list of phrases"),
        (["png_archive"], {"png_archive": {"smallest_px": 0}}, "smallest_px: expected a whole number"),
        ([], {"png_archive": {}}, "modules.settings.png_archive: expected a module that modules.use names"),
        ([HURTFUL], {HURTFUL: {"table": "pages"}}, "table 'pages': expected a name"),
        ([HURTFUL], {HURTFUL: {"table": "a b"}}, "table 'a b': expected a name"),
        ([HURTFUL, "png_archive"], {HURTFUL: {"table": "images"}}, "modules that write different tables, found images"),
    ],
)
def test_what_cannot_be_meant_is_refused_saying_what_was_expected(use, settings, message):
    with pytest.raises(PolicyError, match=message):
        load(policy(*use, **settings))


def test_a_module_that_is_there_and_does_not_load_is_absent_with_the_reason():
    found = load(policy("tests.modules.hurtful:NeedsWhatIsMissing", "png_archive"))

    assert [one.name for one in found.ready] == ["png_archive"]
    assert "no_such_package" in found.absent[0].reason


# Tables of modules.


def declared(*columns: object, name: str = "letters", keeps: bool = False) -> Declaration:
    return Declaration(name, "one page", columns, ("text/html",), keeps_bodies=keeps)  # type: ignore[arg-type]


def test_a_table_of_a_module_names_url_bucket_and_round_of_every_row():
    table = declared("title", column("letters", pl.Int64, "letters", "letters")).as_table

    assert table.column_names == ("bucket", "round", "url", "url_hash", "host", "fetched_at", "title", "letters")
    assert table.empty().schema == table.schema
    assert table.frame([{"letters": 3}]).row(0, named=True)["letters"] == 3


@pytest.mark.parametrize(
    "declaration",
    [
        declared(),
        declared("no_such_column"),
        declared("title", "title"),
        declared("url"),
        declared(column("title", pl.Int64, "another meaning")),
        declared(column("letters", pl.Int64, "")),
        declared(column("letters", pl.UInt64, "letters")),
        declared(column("Letters!", pl.Int64, "letters")),
        declared("body_hash", keeps=True),
        declared("title", name="frontier"),
    ],
)
def test_a_table_that_cannot_be_is_refused(declaration):
    with pytest.raises(ValueError, match=r"^table '"):
        assert declaration.as_table


@pytest.mark.parametrize("dtype", declared_tables.TYPES.values(), ids=str)
def test_a_lake_tells_the_table_of_a_module_as_the_module_declared_it(dtype):
    table = declared("title", column("found", dtype, "what was found", "px")).as_table

    assert declared_tables.from_row(declared_tables.as_row(table, "m")) == table


def test_a_name_of_ours_is_never_that_of_a_modules_table():
    for name in SHIPPED:
        assert load(policy(name, **{name: SETTINGS[name]} if name in SETTINGS else {})).tables[name].name not in TABLES
