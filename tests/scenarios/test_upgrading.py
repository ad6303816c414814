"""A lake that an earlier version made: it gets the tables and columns of today, and the crawl goes on as it was."""

import json
import shutil
from datetime import timedelta
from pathlib import Path

import deltalake
import pyarrow.parquet as pq
import pytest
from crawls import DAY, NOON, Crawl, policy

from crawl_pipeline import corpus
from crawl_pipeline.lake import Lake, LakeMismatch, LeaseHeld
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import html, prose, robots, routes

NEW = {
    "frontier": ("moved_count", "said_rate", "gone_count"),
    "hosts": ("listed_until_at", "validators_lied", "said_wrong_count"),
    "change_frequency": ("main_blocks", "weight", "change_expected"),
    "templates": ("moving_blocks", "moving_came", "moving_went", "moving_stayed", "moving_since"),
    "pages": ("soft404", "thin"),
}
"""What the earlier version did not have yet."""
PAGES = 6
LATER = NOON + timedelta(days=2)


def as_before(root: str) -> None:
    """Take these columns out of the files and the log of a lake, and a table with all it holds."""
    for table, columns in NEW.items():
        for log in Path(root, table, "_delta_log").glob("*.json"):
            actions = [json.loads(line) for line in log.read_text().splitlines()]
            log.write_text("\n".join(json.dumps(_without(action, columns)) for action in actions) + "\n")
        for file in Path(root, table).rglob("*.parquet"):
            rows = pq.ParquetFile(file).read()
            pq.write_table(rows.drop_columns([name for name in columns if name in rows.column_names]), file)
    shutil.rmtree(Path(root, "erasures"))


def _without(action: dict, columns: tuple[str, ...]) -> dict:
    """One action of a Delta log that knows nothing of some columns."""
    if "metaData" in action:
        schema = json.loads(action["metaData"]["schemaString"])
        schema["fields"] = [field for field in schema["fields"] if field["name"] not in columns]
        action["metaData"]["schemaString"] = json.dumps(schema)
    return action


@pytest.fixture
def crawl(tmp_path) -> Crawl:
    """A site that was crawled once, by a version that knew less."""
    paths = ["/", *(f"/{n}" for n in range(1, PAGES))]
    site = Host("a.test", robots(routes({path: html(path, paths, prose(path)) for path in paths}), ""))
    made = Crawl(tmp_path, site, rules=policy(recrawl={"first_s": DAY, "shortest_s": 3_600.0})).seed("http://a.test/")
    made.work()
    as_before(made.lake.root)
    return made


def test_a_lake_of_before_is_refused_then_upgraded_and_the_crawl_goes_on(crawl):
    root = crawl.lake.root
    with pytest.raises(LakeMismatch, match="crawl upgrade"):
        Lake.open(root)

    added = Lake.upgrade(root, LATER)

    assert set(added) == {"erasures", *(f"{table}.{name}" for table, names in NEW.items() for name in names)}
    assert Lake.upgrade(root, LATER) == []
    crawl.lake = Lake.open(root)
    with corpus.connect(crawl.lake) as sql:
        assert sql.sql("select count(*), count(soft404) from pages").fetchall() == [(PAGES, 0)]
        assert sql.sql("select count(main_blocks) from change_frequency").fetchall() == [(0,)]
    crawl.wait(2 * DAY)
    crawl.work()
    crawl.check()
    assert crawl.rows("change_frequency")["visit_count"].to_list() == [2] * PAGES


def test_an_upgrade_that_was_killed_before_its_last_step_ends_what_it_began(crawl):
    Lake.upgrade(crawl.lake.root, LATER)
    kept = "delta.dataSkippingStatsColumns"
    table = deltalake.DeltaTable(f"{crawl.lake.root}/hosts")
    whole = table.metadata().configuration[kept]
    table.alter.set_table_properties({kept: "host"})

    assert Lake.upgrade(crawl.lake.root, LATER) == []
    assert deltalake.DeltaTable(f"{crawl.lake.root}/hosts").metadata().configuration[kept] == whole


def test_without_its_rounds_a_lake_is_not_upgraded(crawl):
    shutil.rmtree(Path(crawl.lake.root, "rounds"))

    with pytest.raises(LakeMismatch, match="put it back"):
        Lake.upgrade(crawl.lake.root, LATER)


def test_a_lake_is_not_upgraded_while_a_worker_holds_a_bucket(crawl):
    Lake.upgrade(crawl.lake.root, LATER)
    Lake.open(crawl.lake.root).claim([0], "a worker", LATER, 600)

    with pytest.raises(LeaseHeld, match="a worker"):
        Lake.upgrade(crawl.lake.root, LATER)
