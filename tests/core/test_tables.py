"""The declared tables hang together, and a frame takes a table's shape or is refused."""

import polars as pl
import pytest

from crawl_pipeline.core.tables import COLUMNS, FRONTIER, HOSTS, TABLES

EACH = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)


@EACH
def test_every_column_of_a_table_is_described(table):
    assert [column.name for column in table.columns] == list(table.column_names)
    assert all(column.meaning for column in table.columns)


@EACH
def test_key_partitions_and_order_are_columns_of_the_table(table):
    assert {*table.key, *table.partitioned_by, *table.sorted_by} <= set(table.column_names)
    assert len(set(table.column_names)) == len(table.column_names)


@EACH
def test_an_empty_frame_has_the_declared_schema(table):
    assert table.empty().schema == table.schema
    assert table.frame([]).schema == table.schema


def test_every_described_column_is_used():
    used = {name for table in TABLES.values() for name in table.column_names}

    assert set(COLUMNS) <= used


def test_no_column_is_unsigned_since_delta_has_no_such_type():
    assert not [name for name, column in COLUMNS.items() if column.dtype.is_unsigned_integer()]


def test_sizes_times_and_waits_say_their_unit():
    units = {"_s": "s", "_bytes": "bytes", "_at": "UTC"}

    for name, column in COLUMNS.items():
        for ending, unit in units.items():
            if name.endswith(ending):
                assert column.unit == unit, name


def test_state_has_layers_and_rounds_and_a_bucket():
    for table in TABLES.values():
        if table.kind == "state":
            assert {"bucket", "layer", "round"} <= set(table.column_names)


def test_absent_columns_become_null_and_types_are_those_declared():
    frame = FRONTIER.frame([{"url": "http://a.test/", "depth": 3}])

    assert frame.schema == FRONTIER.schema
    assert frame.row(0, named=True)["depth"] == 3
    assert frame.row(0, named=True)["due_at"] is None


def test_columns_take_the_declared_order_whatever_order_rows_have():
    given = pl.DataFrame({"url": ["http://a.test/"], "bucket": [1]})

    assert FRONTIER.frame(given).columns == list(FRONTIER.schema)


def test_an_unknown_column_is_refused_naming_it():
    with pytest.raises(ValueError, match=r"rows also bring \['colour'\]"):
        FRONTIER.frame([{"url": "http://a.test/", "colour": "red"}])


def test_rows_need_not_all_have_the_same_columns():
    frame = HOSTS.frame([{"host": "a.test"}, {"host": "b.test", "paused": True}])

    assert frame["paused"].to_list() == [None, True]


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(pl.exceptions.InvalidOperationError):
        FRONTIER.frame(pl.DataFrame({"depth": [1_000_000]}))
