"""Views show what exists, queries cannot do more than read, every SQL test catches what it is for."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import unquote

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake
from polars.testing import assert_frame_equal

from crawl_pipeline import corpus, reports
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.lake import Lake
from crawl_pipeline.views import VIEWS

Rows = dict[str, list[dict[str, object]]]

T0 = datetime(2026, 3, 1, 12, tzinfo=UTC)
RULES = Policy.model_validate(
    {
        "agent": {"name": "ExampleBot", "contact": "https://example.org/"},
        "budget": {"fetches_per_host_day": 2},
        "politeness": {"delay_s": 1.9},
    }
)
ROBOTS, PAGE, LOST, LATER = (f"http://a.test/{path}" for path in ("robots.txt", "", "lost", "later"))
LAYERS: dict[str, dict[str, object]] = {name: {"layer": "tail"} for name in ("frontier", "hosts")}


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


class Folder:
    """Delta tables in a folder, with the attributes that the views need of a lake."""

    tables = TABLES
    uneven = frozenset()

    def __init__(self, path: Path, rows: Rows) -> None:
        self.root = str(path)
        for name, some in rows.items():
            self.add(name, *some)

    def add(self, name: str, *rows: dict[str, object]) -> None:
        table = TABLES[name]
        frame = table.frame(list(rows)) if rows else table.empty()
        write_deltalake(f"{self.root}/{name}", frame.to_arrow(), partition_by=list(table.partitioned_by), mode="append")

    def files(self, table: str) -> list[str]:
        path = f"{self.root}/{table}"
        return [unquote(file) for file in DeltaTable(path).file_uris()] if DeltaTable.is_deltatable(path) else []

    def dataset(self, table: str) -> object:
        path = f"{self.root}/{table}"
        if not DeltaTable.is_deltatable(path):
            self.add(table)
        return DeltaTable(path).to_pyarrow_dataset()


class Remote(Folder):
    """The same, but its root says that DuckDB cannot open the files itself."""

    def files(self, table: str) -> list[str]:
        raise AssertionError("files of a remote lake are not to be opened by name")

    def dataset(self, table: str) -> object:
        self.root = self.root.removeprefix("s3://")
        try:
            return super().dataset(table)
        finally:
            self.root = f"s3://{self.root}"


def request(url: str, start: float, end: float, **more: object) -> dict[str, object]:
    usual = {
        "bucket": 1, "round": 7, "request_id": int(start * 10), "host": "a.test", "origin": "http://a.test",
        "url": url, "url_hash": len(url), "cause": "page", "started_at": at(start), "ended_at": at(end),
        "address": "127.0.0.2", "http_status": 200, "outcome": "fetched", "wire_bytes": 100, "gap_s": 2.0,
        "worker": "w", "policy_id": RULES.id, "user_agent": RULES.agent.header,
    }  # fmt: skip
    return usual | more


def beside(start: float, **more: object) -> dict[str, object]:
    """A request to another host at the same address."""
    url = "http://b.test/robots.txt"
    return request(url, start, start + 0.1, host="b.test", origin="http://b.test", cause="robots", **more)


def known(url: str, status: str, **more: object) -> dict[str, object]:
    usual = {
        "bucket": 1, "layer": "tail", "round": 7, "url_hash": len(url), "url": url, "host": "a.test",
        "status": status,
    }  # fmt: skip
    return usual | more


def clustered(url: str, canonical: str, **more: object) -> dict[str, object]:
    place = {"layer": "tail", "clustering": 1, "url_hash": len(url), "url": url}
    return place | {"cluster_id": 1, "canonical": canonical} | more


def a_round(**more: object) -> dict[str, object]:
    outcomes = [{"name": name, "count": 1} for name in ("fetched", "gone", "carried")]
    usual = {
        "bucket": 1, "round": 7, "worker": "w", "epoch": 1, "started_at": at(0), "plan_s": 0.0, "orders_seen": 3,
        "selected_count": 3, "outcomes": outcomes,
        "links_read_count": 4, "admitted_count": 3, "refused": [{"name": "seen", "count": 1}],
        "request_count": 3, "page_count": 1, "fetch_s": 5.0,
    }  # fmt: skip
    return usual | more


def under_policy(rows: Rows, **sections: object) -> None:
    """Send all requests under one policy, and keep it as an order."""
    agent = {"name": "ExampleBot", "contact": "https://example.org/"}
    policy = Policy.model_validate({"agent": agent} | sections)
    rows["orders"] = [{"order": 1, "kind": "policy", "policy_id": policy.id, "policy_toml": policies.render(policy)}]
    for row in rows["fetches"]:
        row.update(policy_id=policy.id)


def clean() -> Rows:
    """One round of one host: robots.txt, a page, a page that is gone, one URL not reached in time."""
    return {
        "fetches": [
            request(ROBOTS, 0.0, 0.2, cause="robots"),
            request(PAGE, 2.2, 2.5),
            request(LOST, 5.0, 5.4, http_status=404, outcome="gone"),
        ],
        "robots": [
            {"bucket": 1, "round": 7, "robots_id": 1, "host": "a.test", "origin": "http://a.test",
             "state": "rules", "fetched_at": at(0.2), "expires_at": at(86_400), "http_status": 200,
             "body": b"User-agent: *\nDisallow: /private/\nCrawl-delay: 1\n"},
        ],
        "orders": [
            {"order": 1, "kind": "policy", "policy_id": RULES.id, "policy_toml": policies.render(RULES)},
            {"order": 2, "kind": "pause", "host": "a.test"},
            {"order": 3, "kind": "resume", "host": "a.test"},
        ],
        "pages": [
            {"bucket": 1, "month": "2026-03", "round": 7, "url": PAGE, "url_hash": len(PAGE),
             "host": "a.test", "fetched_at": at(2.5), "body_hash": b"h" * 16, "charset": "utf-8", "body_bytes": 4,
             "content_round": 7},
        ],
        "contents": [
            {"bucket": 1, "month": "2026-03", "round": 7, "body_hash": b"h" * 16, "charset": "utf-8", "body_bytes": 4,
             "body": b"body", "text": "text"},
        ],
        "frontier": [known(PAGE, "fetched"), known(LOST, "gone"), known(LATER, "waiting")],
        "hosts": [{"bucket": 1, "layer": "tail", "round": 7, "host": "a.test", "site": "a.test"}],
        "rounds": [a_round()],
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[Rows], Folder]:
    return lambda rows: Folder(tmp_path, rows)


# Views.


@pytest.mark.parametrize("table", ["fetches", "robots", "pages", "frontier", "hosts"])
def test_rows_of_a_round_that_never_committed_are_invisible(folder, table):
    lake = folder(clean())
    lake.add(table, {"bucket": 1, "round": 8, "host": "late.test"} | LAYERS.get(table, {}))
    assert corpus.query(lake, f"select distinct host from {table}").rows() == [("a.test",)]


def test_a_link_exists_once_the_round_that_found_it_is_committed(folder):
    link = {"target_bucket": 3, "source_bucket": 1, "round": 7, "url": "http://b.test/"}
    elsewhere = link | {"target_bucket": 1, "source_bucket": 3, "url": "http://c.test/"}
    lake = folder({"links": [link, elsewhere], "rounds": [a_round()]})
    assert corpus.query(lake, "select url from links").rows() == [("http://b.test/",)]


def test_the_newest_committed_row_of_a_key_wins(folder):
    frontier = [
        known(PAGE, "waiting", layer="base", round=2),
        known(PAGE, "fetched", round=7),
        known(PAGE, "dead", round=8),
        known(LOST, "gone", layer="base", round=9),
        known(LOST, "waiting", round=7),
    ]
    lake = folder({"frontier": frontier, "rounds": [a_round()]})
    assert corpus.query(lake, "select url, status from frontier order by url").rows() == [
        (PAGE, "fetched"), (LOST, "gone"),
    ]  # fmt: skip


def test_base_rows_need_no_round_in_the_ledger(folder):
    lake = folder({"hosts": [{"bucket": 1, "layer": "base", "round": 2, "host": "a.test"}]})
    assert corpus.query(lake, "select host from hosts").rows() == [("a.test",)]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_an_empty_table_has_its_columns_and_types(folder, table):
    assert corpus.query(folder({}), f"from {table.name}").schema == table.schema


@pytest.mark.parametrize("table", ["fetches", "rounds", "frontier", "pages", "contents", "hosts"])
def test_a_table_with_rows_has_its_columns_and_types(folder, table):
    assert corpus.query(folder(clean()), f"from {table}").schema == TABLES[table].schema


def test_a_column_that_no_file_has_yet_is_null(folder, tmp_path):
    lake = folder({})
    older = TABLES["orders"].frame([{"order": 1, "kind": "seed"}]).drop("policy_toml")
    write_deltalake(f"{tmp_path}/orders", older.to_arrow())
    assert corpus.query(lake, 'select "order", policy_toml from orders').rows() == [(1, None)]


def test_a_connection_goes_on_seeing_the_lake_as_it_was(folder):
    lake = folder(clean())
    with corpus.connect(lake) as connection:
        lake.add("fetches", request(LATER, 9.0, 9.1))
        assert corpus.read(connection, "select count(*) from fetches").item() == 3
    assert corpus.query(lake, "select count(*) from fetches").item() == 4


def test_a_remote_lake_has_the_same_views(folder, tmp_path):
    local = folder(clean())
    remote = Remote(tmp_path, {})
    remote.root = f"s3://{tmp_path}"
    asked = "from fetches where host = 'a.test' and cause <> 'x' and outcome in ('fetched', 'gone') order by request_id"
    bodies = "select body_hash is null as none, count(*) n from pages where body_hash <> '\\x00'::blob group by 1"
    with corpus.connect(remote) as connection:
        for question in (asked, bodies):
            assert_frame_equal(corpus.read(connection, question), corpus.query(local, question))
        for table in TABLES:
            ours = corpus.read(connection, f"from {table}")
            assert ours.schema == TABLES[table].schema
            assert ours.height == corpus.query(local, f"select count(*) from {table}").item()


def test_tables_and_columns_say_what_they_mean(folder):
    with corpus.connect(folder({})) as connection:
        shown = "not internal and schema_name = 'main'"
        tables = corpus.read(connection, f"select view_name, comment from duckdb_views() where {shown}")
        columns = corpus.read(
            connection, "select column_name, comment from duckdb_columns() where table_name = 'fetches'"
        )
    all_of_them = {name: thing.one_row_is for name, thing in (*TABLES.items(), *((view.name, view) for view in VIEWS))}
    assert dict(tables.rows()) == {name: f"one row is {text}" for name, text in all_of_them.items()}
    assert dict(columns.rows())["wire_bytes"] == "body bytes received, before content decoding [bytes]"
    assert columns["comment"].null_count() == 0


def test_a_lake_may_stand_in_a_folder_with_any_name(tmp_path):
    lake = Folder(tmp_path / "it's a ü=1", clean())
    assert corpus.query(lake, "select count(*) from fetches").item() == 3


def test_the_views_show_what_the_lakes_own_scan_shows(tmp_path):
    lake = Lake.create(str(tmp_path), buckets=2)
    for number in range(3):
        lease = lake.claim([0, 1], "w", T0, lease_s=60)
        for name in ("frontier", "fetches", "pages"):
            rows = [row | {"round": lease.round} for row in clean()[name]]
            lake.write(lease, name, TABLES[name].frame(rows))
        lake.fold(lease, "frontier", rounds=number)
        if number < 2:
            lake.commit(lease, TABLES["rounds"].frame([{"bucket": 0}, {"bucket": 1}]).drop("round"))
            lake.release(lease)
    with corpus.connect(lake) as connection:
        for name, table in TABLES.items():
            ours, theirs = corpus.read(connection, f"from {name}"), lake.scan(name).collect()
            assert_frame_equal(ours, theirs.select(table.column_names), check_row_order=False)
        assert corpus.read(connection, "select count(*), count(distinct round) from fetches").row(0) == (6, 2)


@pytest.mark.parametrize("spelling", ["lake", "./lake", "link", "../x/lake"])
def test_the_root_may_be_spelt_in_any_way(tmp_path, monkeypatch, spelling):
    (tmp_path / "x").mkdir()
    monkeypatch.chdir(tmp_path / "x")
    Lake.create("lake", buckets=2)
    (tmp_path / "x" / "link").symlink_to(tmp_path / "x" / "lake")
    assert corpus.query(Lake.open(spelling), "select count(*) from leases").item() == 2


def test_a_document_is_a_page_with_its_body_and_text_kept_or_not(folder):
    rows = clean()
    rows["pages"].append(rows["pages"][0] | {"url": LATER, "url_hash": len(LATER), "content_round": None})
    found = corpus.query(folder(rows), "select url, body, text from documents order by url")
    assert found.rows() == [(PAGE, b"body", "text"), (LATER, None, None)]


def test_the_main_text_of_a_document_is_its_text_without_the_removed_blocks(folder):
    rows = clean()
    rows["pages"].append(rows["pages"][0] | {"url": LATER, "url_hash": len(LATER), "removed_blocks": [1, 3]})
    rows["contents"] = [rows["contents"][0] | {"text": "Home\nwhat it says\nAll rights reserved\nthe end"}]
    found = corpus.query(folder(rows), "select url, main_text from documents order by url")
    assert found.rows() == [
        (PAGE, "Home\nwhat it says\nAll rights reserved\nthe end"),
        (LATER, "what it says\nthe end"),
    ]


# Queries.


def test_times_come_back_in_utc(folder):
    assert corpus.query(folder(clean()), "select min(started_at) from fetches").item() == T0


def test_an_unknown_table_is_answered_with_the_tables_there_are(folder):
    with pytest.raises(corpus.QueryError, match=r"(?s)fetchs.*The lake has the tables .*fetches"):
        corpus.query(folder({}), "select url from fetchs")


def test_an_unknown_column_is_answered_with_the_columns_of_the_tables_used(folder):
    with pytest.raises(corpus.QueryError, match=r"(?s)hosst.*\nfetches has the columns bucket, round, .*host"):
        corpus.query(folder({}), "with a as (select hosst from fetches) select hosst from a")


def test_broken_sql_is_our_error_not_duckdbs(folder):
    with pytest.raises(corpus.QueryError, match="syntax error"):
        corpus.query(folder({}), "selec url")


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "drop view fetches",
        "select 1; select 2",
        "copy (select 1) to '{root}/x.csv'",
        "explain analyze copy (select 1) to '{root}/x.csv'",
        "set threads = 1",
    ],
)
def test_only_one_select_is_run(folder, tmp_path, sql):
    with pytest.raises(corpus.QueryError, match="one select is wanted"):
        corpus.query(folder({}), sql.format(root=tmp_path))
    assert not (tmp_path / "x.csv").exists()


def test_sql_reads_no_file_outside_the_lake(folder, tmp_path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(corpus.QueryError, match="disabled by configuration"):
        corpus.query(Folder(tmp_path / "lake", {}), f"from '{tmp_path}/secret.csv'")


def test_an_open_snapshot_cannot_be_unlocked(folder):
    with corpus.connect(folder({})) as connection, pytest.raises(Exception, match="locked"):
        connection.execute("set enable_external_access = true")


# Models.


def test_host_coverage_counts_urls_requests_and_waits(folder):
    assert reports.run_model(folder(clean()), "host_coverage").to_dicts() == [
        {
            "host": "a.test",
            "known_count": 3, "fetched_count": 1, "waiting_count": 1, "redirected_count": 0,
            "refused_count": 0, "failed_count": 1, "request_count": 3,
            "first_request_at": at(0), "last_request_at": at(5),
            "wire_bytes": 300, "min_waited_over_promised": 1.0, "median_waited_over_promised": 1.125,
        },
    ]  # fmt: skip


def test_host_coverage_names_hosts_that_were_never_asked(folder):
    lake = folder({"frontier": [known(LATER, "waiting")], "rounds": [a_round()]})
    row = reports.run_model(lake, "host_coverage").row(0, named=True)
    assert (row["known_count"], row["request_count"], row["first_request_at"]) == (1, 0, None)


def test_crawl_progress_sums_the_buckets_of_a_round(folder):
    idle = a_round(bucket=2, selected_count=0, outcomes=[], request_count=0, page_count=0, admitted_count=0)
    nothing = idle | {"round": 9, "fetch_s": 0.0}
    lake = folder({"rounds": [a_round(), a_round(bucket=3), idle, nothing]})
    assert reports.run_model(lake, "crawl_progress").drop("started_at").to_dicts() == [
        {
            "round": 7, "bucket_count": 3, "selected_count": 6, "outcomes": "carried 2, fetched 2, gone 2",
            "request_count": 6, "page_count": 2, "admitted_count": 6, "fetch_s": 5.0, "pages_per_s": 0.4,
        },
        {
            "round": 9, "bucket_count": 1, "selected_count": 0, "outcomes": "nothing selected",
            "request_count": 0, "page_count": 0, "admitted_count": 0, "fetch_s": 0.0, "pages_per_s": None,
        },
    ]  # fmt: skip


# Tests in SQL: each line breaks one sentence and no other.

BREAKS: dict[str, list[Callable[[Rows], object]]] = {
    "a_host_is_never_asked_too_soon": [
        lambda rows: rows["fetches"][1].update(started_at=at(2.198)),
        lambda rows: rows["fetches"][0].update(gap_s=60.0),
    ],
    "a_host_is_never_asked_twice_at_once": [
        lambda rows: [row.update(gap_s=None, ended_at=at(60)) for row in rows["fetches"]],
        lambda rows: rows["fetches"][1].update(gap_s=None, ended_at=at(5.1)),
    ],
    "a_host_is_left_alone_as_long_as_it_asks": [
        lambda rows: rows["fetches"][0].update(retry_after_s=5.0),
        lambda rows: rows["fetches"][1].update(retry_after_s=2.6, http_status=503),
    ],
    "a_host_lives_in_one_bucket": [
        lambda rows: rows["hosts"].append({"bucket": 2, "layer": "base", "round": 1, "host": "a.test"}),
    ],
    "a_host_rests_as_long_as_it_is_owed": [
        # Crawl-delay, trouble, duration, the policy's delay.
        lambda rows: rows["robots"][0].update(body=b"User-agent: ExampleBot\nCrawl-delay: 2.6\n"),
        lambda rows: rows["fetches"][0].update(outcome="unavailable"),
        lambda rows: rows["fetches"][1].update(started_at=at(2.21), ended_at=at(2.91)),
        lambda rows: rows["orders"][0].update(policy_toml=rows["orders"][0]["policy_toml"].replace(
            "\ndelay_s = 1.9", "\ndelay_s = 2.3")),
    ],
    "a_paused_host_is_not_asked": [
        lambda rows: rows["orders"].pop(),
        lambda rows: rows["orders"][2].update(order=9),
    ],
    "a_round_counts_its_requests_and_pages": [
        lambda rows: rows["rounds"][0].update(request_count=4),
        lambda rows: rows["rounds"][0].update(page_count=0),
        lambda rows: rows["rounds"][0].update(page_count=None),
        lambda rows: rows["fetches"].pop(),
    ],
    "an_address_is_asked_in_turn": [
        lambda rows: (rows["fetches"].append(beside(2.6)), rows["rounds"][0].update(request_count=4)),
        lambda rows: (rows["fetches"].append(beside(4.6)), rows["rounds"][0].update(request_count=4)),
    ],
    "every_link_read_is_admitted_or_refused": [
        lambda rows: rows["rounds"][0].update(refused=[]),
        lambda rows: rows["rounds"][0].update(links_read_count=5),
    ],
    "every_request_names_an_address_or_a_failure": [
        lambda rows: rows["fetches"][2].update(address=None),
        lambda rows: rows["fetches"][2].update(outcome=None),
        lambda rows: rows["fetches"][2].update(address=None, outcome="timeout"),
    ],
    "every_request_says_who_asks": [
        lambda rows: rows["fetches"][1].update(user_agent="Mozilla/5.0"),
        lambda rows: rows["fetches"][0].update(user_agent="ExampleBot/1.0"),
    ],
    "every_stored_page_is_known": [
        lambda rows: rows["frontier"].pop(0),
    ],
    "no_host_is_asked_beyond_its_day": [
        lambda rows: rows["orders"][0].update(policy_toml=rows["orders"][0]["policy_toml"].replace(
            "fetches_per_host_day = 2", "fetches_per_host_day = 1")),
    ],
    "no_page_without_its_request": [
        lambda rows: rows["fetches"][1].update(outcome="gone"),
        lambda rows: rows["fetches"][1].update(url_hash=0),
    ],
    "no_site_is_asked_beyond_its_day": [
        lambda rows: rows["orders"][0].update(policy_toml=rows["orders"][0]["policy_toml"].replace(
            "fetches_per_site_day = 100000", "fetches_per_site_day = 1")),
    ],
    "every_copy_follows_a_canonical_page_of_its_cluster": [
        lambda rows: rows.update(clusters=[clustered(PAGE, LOST)]),
        lambda rows: rows.update(clusters=[clustered(PAGE, LOST), clustered(LOST, LOST, cluster_id=2)]),
        lambda rows: rows.update(clusters=[clustered(PAGE, LOST), clustered(LOST, PAGE)]),
    ],
    "no_url_is_stored_twice_in_a_round": [
        lambda rows: rows.update(pages=2 * rows["pages"], rounds=[a_round(page_count=2)]),
    ],
    "nothing_is_asked_of_a_blocked_host": [
        lambda rows: under_policy(rows, block={"hosts": ["[::1]", "a.test"]}),
        lambda rows: under_policy(rows, block={"sites": ["test"]}),
    ],
    "nothing_is_asked_while_robots_forbid_everything": [
        lambda rows: rows["robots"][0].update(state="disallow_all"),
        lambda rows: rows["robots"][0].update(http_status=503, state="allow_all"),
        lambda rows: rows["robots"].append(
            rows["robots"][0] | {"fetched_at": at(3), "state": "disallow_all"}
        ),
    ],
    "one_worker_at_a_time_asks_a_host": [
        lambda rows: rows["fetches"][1].update(worker="another"),
        lambda rows: [rows["fetches"][1].update(round=8),
                      rows["rounds"].append(a_round(round=8, epoch=2, request_count=1, page_count=0)),
                      rows["rounds"][0].update(request_count=2), rows["fetches"][1].update(outcome="carried"),
                      rows["pages"].clear(), rows["rounds"][0].update(page_count=0)],
    ],
    "every_kept_page_has_its_content": [
        lambda rows: rows["contents"].clear(),
        lambda rows: rows["contents"].append(dict(rows["contents"][0])),
        lambda rows: rows["contents"][0].update(charset="koi8-r"),
        lambda rows: rows["contents"][0].update(body_hash=b"i" * 16),
        lambda rows: rows["pages"][0].update(content_round=6),
    ],
    "robots_allow_what_is_asked": [
        lambda rows: rows["robots"][0].update(body=b"User-agent: ExampleBot\nDisallow: /los"),
        lambda rows: rows["robots"].append(
            rows["robots"][0] | {"fetched_at": at(3), "body": b"User-agent: *\nDisallow: /*st$\nAllow: /l"}
        ),
    ],
    "robots_come_first": [
        lambda rows: rows["robots"][0].update(fetched_at=at(-86_396), expires_at=at(86_400)),
        lambda rows: rows["robots"].clear(),
        lambda rows: rows["robots"][0].update(fetched_at=at(2.3)),
        lambda rows: rows["robots"][0].update(expires_at=at(4)),
        lambda rows: rows["robots"][0].update(origin="https://a.test"),
        lambda rows: rows["fetches"][2].update(cause="sitemap", origin="http://a.test:8080"),
    ],
    "selected_equals_sum_of_outcomes": [
        lambda rows: rows["rounds"][0].update(selected_count=4),
        lambda rows: rows["rounds"][0].update(outcomes=None),
    ],
}  # fmt: skip


def test_a_clean_lake_breaks_no_sentence(folder):
    assert [result.name for result in reports.run_tests(folder(clean())) if not result.holds] == []


def test_hosts_that_a_policy_does_not_block_may_be_asked(folder):
    rows = clean()
    under_policy(rows, block={"hosts": ["www.a.test", "b.test"], "sites": ["b.test"], "urls": ["*a.test*"]})
    assert reports.run_test(folder(rows), "nothing_is_asked_of_a_blocked_host").holds


def test_an_empty_lake_breaks_no_sentence(folder):
    assert all(result.holds for result in reports.run_tests(folder({})))


def test_every_sql_test_has_a_case_that_breaks_it():
    assert [report.name for report in reports.tests()] == sorted(BREAKS)


@pytest.mark.parametrize(("name", "spoil"), [(name, spoil) for name, spoils in BREAKS.items() for spoil in spoils])
def test_a_broken_sentence_is_found_and_no_other(folder, name, spoil):
    rows = clean()
    spoil(rows)
    assert [result.name for result in reports.run_tests(folder(rows)) if not result.holds] == [name]


def test_a_gap_may_fall_short_by_the_precision_of_our_clock(folder):
    rows = clean()
    rows["fetches"][1].update(started_at=at(2.1995))
    assert reports.run_test(folder(rows), "a_host_is_never_asked_too_soon").holds


def test_a_promise_is_kept_across_rounds_and_workers(folder):
    rows = clean()
    rows["fetches"].append(request(LATER, 6.0, 6.2, round=8, worker="another"))
    rows["rounds"].append(a_round(round=8))
    found = reports.run_test(folder(rows), "a_host_is_never_asked_too_soon").offending
    assert found.select("previous_url", "url", "round", "promised_s").rows() == [(LOST, LATER, 8, 2.0)]
    assert found["waited_s"].item() == pytest.approx(0.6)


def test_a_request_that_reached_no_address_may_name_none(folder):
    rows = clean()
    rows["fetches"][2].update(address=None, http_status=None, outcome="dns_error")
    assert reports.run_test(folder(rows), "every_request_names_an_address_or_a_failure").holds


# Reports as files.


def tables_read(sql: str) -> set[str]:
    """The tables that SQL reads, through views too."""
    named = set(re.findall(r"(?:from|join) (?:snapshot\.stored_)?(\w+)", sql))
    return named & TABLES.keys() | {table for view in VIEWS if view.name in named for table in tables_read(view.sql)}


@pytest.mark.parametrize("report", [*reports.models(), *reports.tests()], ids=lambda report: report.name)
def test_a_report_names_exactly_the_tables_it_reads(report):
    assert tables_read(report.sql) == set(report.tables)


@pytest.mark.parametrize("report", [*reports.models(), *reports.tests()], ids=lambda report: report.name)
def test_a_report_is_lower_case_and_names_its_columns(report):
    code = [line.partition("--")[0] for line in report.sql.splitlines()]
    assert not re.search(r"(select|,)\s+\*|\.\*", "\n".join(code))
    assert code == [line.lower() for line in code]


def write(folder: Path, kind: str, **files: str) -> Path:
    (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, sql in files.items():
        (folder / kind / f"{name}.sql").write_text(f"-- A sentence.\n-- tables: none\n{sql}\n")
    return folder


def test_a_report_stands_on_the_models_it_refers_to_in_whatever_order_they_are_read(folder, tmp_path):
    own = write(tmp_path / "own", "models", a="select n + 1 as n from ref('b')", b="select n * 2 as n from ref('c')",
                c="select 20 as n")  # fmt: skip
    write(own, "tests", none_is_large="select n from ref('a') where n > 40")

    assert reports.run_model(folder({}), "a", own).rows() == [(41,)]
    assert reports.run_test(folder({}), "none_is_large", own).offending.rows() == [(41,)]
    assert [model.name for model in reports.in_order(reports.models(own))] == ["c", "b", "a"]
    with reports.connect(folder({}), own) as connection:
        assert connection.sql("select n from reports.b").fetchall() == [(40,)]


def test_a_reference_to_no_model_or_in_a_circle_is_refused_when_the_files_are_read(tmp_path):
    with pytest.raises(reports.ReportError, match=r"a\.sql refers to 'hosts', which is no model; there are a, b"):
        reports.models(write(tmp_path / "x", "models", a="select 1 from ref('hosts')", b="select 1"))
    with pytest.raises(reports.ReportError, match=r"in a circle: .* → .* → "):
        reports.models(write(tmp_path / "y", "models", a="select 1 from ref('b')", b="select 1 from ref('a')"))
    with pytest.raises(reports.ReportError, match="which is no model"):
        reports.tests(write(tmp_path / "z", "tests", a="select 1 from ref('b')"))
    with pytest.raises(reports.ReportError, match="must say what to do"):
        reports.alarms(write(tmp_path / "w", "alarms", a="select 1"))


def test_a_report_without_its_sentence_is_refused(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "bare.sql").write_text("select 1\n")
    with pytest.raises(reports.ReportError, match="must begin with"):
        reports.models(tmp_path)


def test_an_unknown_report_is_answered_with_the_reports_there_are(folder):
    with pytest.raises(reports.ReportError, match=r"host_coverag\.sql.*duplicate_clusters, funnel, host_coverage"):
        reports.run_model(folder({}), "host_coverag")


def test_a_model_gives_a_frame_even_of_an_empty_lake(folder):
    for report in reports.models():
        assert isinstance(reports.run_model(folder({}), report.name), pl.DataFrame)
