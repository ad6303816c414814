"""The models of the report count what is there: figures that a person can check by hand, of one small lake."""

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

from crawl_pipeline import corpus, reports
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import (
    CHANGE_FREQUENCY,
    FETCHES,
    FRONTIER,
    HOSTS,
    ORDERS,
    PAGES,
    ROBOTS,
    ROUNDS,
    Table,
)
from crawl_pipeline.lake import Lake

NOW = datetime.now(UTC)
PAST, TOMORROW, LATER = NOW - timedelta(days=3), NOW + timedelta(hours=20), NOW + timedelta(days=9)
WAITING = 120
TOLD = 0.05
"""Days by which an age may be off: these rows are made when tests are collected, and read up to an hour later."""
Row = dict[str, Any]
RULES = Policy.model_validate({"agent": {"name": "ExampleBot", "contact": "https://example.org/"},
                               "budget": {"fetches_per_host_day": 900}})  # fmt: skip


def host(name: str, **told: Any) -> Row:
    """A row of `hosts`; its count of requests is beyond its count of URLs, as that of each recrawled host is."""
    return {"host": name, "site": name, "known_count": 200, "fetched_count": 500, "paused": False, "aside_s": 0.0,
            "backoff_s": 0.0, "failures": 0, **told}  # fmt: skip


def robots(state: str, expires_at: datetime) -> list[Row]:
    return [{"origin": "http://x.test", "robots_id": 1, "state": state, "expires_at": expires_at}]


HOST_ROWS = [
    host("paused.test", paused=True, failures=2),
    host("aside.test", aside_s=3600.0, failures=9, next_allowed_at=LATER),
    host("backing-off.test", backoff_s=8.0, failures=1, next_allowed_at=TOMORROW),
    host("rested.test", backoff_s=4.0, next_allowed_at=PAST),
    host("failing.test", aside_s=60.0, failures=3, next_allowed_at=PAST),
    host("closed.test", robots=robots("disallow_all", TOMORROW)),
    host("closed-once.test", robots=robots("disallow_all", PAST)),
    host("half-closed.test", robots=robots("disallow_all", LATER) + robots("rules", LATER)),
    host("fine.test", robots=robots("rules", LATER), next_allowed_at=NOW + timedelta(hours=9)),
    host("f.test", day=NOW.date(), day_count=7),
]


def answers(name: str, *found: tuple[float, str]) -> list[Row]:
    """Answers of robots.txt of one host: how many days ago, and what each meant."""
    return [{"robots_id": urls.url_hash(f"{name} {days}"), "host": name, "origin": f"http://{name}", "state": state,
             "fetched_at": NOW - timedelta(days=days), "http_status": 503} for days, state in found]  # fmt: skip


ROBOTS_ROWS = [
    *answers("long.test", (9, "rules"), (6, "disallow_all"), (4, "disallow_all"), (2, "disallow_all")),
    *answers("short.test", (3, "rules"), (2, "disallow_all"), (1, "disallow_all")),
    *answers("again.test", (9, "disallow_all"), (2, "disallow_all"), (1, "rules")),
]


def url(name: str, place: int, status: str = "waiting", **told: Any) -> Row:
    address = f"http://{name}/{place}"
    return {"host": name, "url": address, "url_hash": urls.url_hash(address), "status": status, **told}


def written(lake: Lake, frames: dict[Table, list[Row]]) -> Lake:
    lease = lake.claim([0], "a test", NOW, 600.0)
    for table, rows in frames.items():
        layer = {"layer": "tail"} if "layer" in table.schema else {}
        stamped = table.frame([{"bucket": 0, "round": lease.round, **layer, **row} for row in rows])
        lake.write(lease, table, stamped.drop("layout", "part", strict=False))
    done = ROUNDS.frame([{"bucket": 0, "started_at": NOW, "page_count": 1, "request_count": 1}])
    lake.commit(lease, done.drop("round", "epoch", "worker"))
    return lake


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every model's rows and every alarm's offenders, by name."""
    fetched = [
        url("f.test", 1, "fetched", score=0.75, due_at=PAST, tag="docs"),
        url("f.test", 2, "fetched", score=0.25),
    ]
    waiting = [url(name, place) for name in ("paused.test", "closed.test") for place in range(WAITING)]
    sitemap = url("f.test", 3, "fetched", kind="sitemap")
    pages = [{name: each[name] for name in ("host", "url", "url_hash")} for each in fetched]
    failed = {**pages[1], "request_id": 2, "cause": "page", "origin": "http://f.test", "outcome": "unavailable",
              "reason": "503", "http_status": 503, "started_at": NOW, "ended_at": NOW}  # fmt: skip
    asked = {**pages[0], "request_id": 1, "cause": "page", "origin": "http://f.test", "outcome": "fetched",
             "http_status": 200, "started_at": PAST, "ended_at": PAST, "gap_s": 2.0, "wire_bytes": 500}  # fmt: skip
    visits = [
        {"host": "f.test", "url_hash": fetched[0]["url_hash"], "visit_count": 3, "change_count": 1, "evidence_a": 1.6,
         "rate": 0.5, "fetched_at": NOW - timedelta(days=4), "weight": 1.0},
        {"host": "f.test", "url_hash": fetched[1]["url_hash"], "visit_count": 3, "change_count": 0, "evidence_a": 0.6,
         "rate": 0.25, "fetched_at": NOW - timedelta(days=4), "weight": 0.5},
        {"host": "f.test", "url_hash": sitemap["url_hash"], "visit_count": 1, "fetched_at": NOW},
    ]  # fmt: skip
    stored = {"fetched_at": PAST, "month": "2026-03", "body_hash": b"b" * 16, "body_bytes": 9}
    lake = written(Lake.create(str(tmp_path_factory.mktemp("models") / "lake"), 1), {
        HOSTS: HOST_ROWS, FRONTIER: [*fetched, sitemap, *waiting], CHANGE_FREQUENCY: visits,
        FETCHES: [asked, failed], ROBOTS: ROBOTS_ROWS, PAGES: [{**page, **stored} for page in pages],
    })  # fmt: skip
    lake.give(ORDERS.frame([{"kind": "policy", "policy_id": RULES.id, "policy_toml": policies.render(RULES)}]))
    with corpus.connect(lake) as connection:
        views = {name: corpus.read(connection, f"from {name} order by all") for name in ("page_meta", "hosts_now")}
    return {**views, **reports.run_models(lake), **{alarm.name: alarm.offending for alarm in reports.run_alarms(lake)}}


def test_each_host_in_trouble_is_told_with_its_reason_and_until_when(found):
    told = {row["host"]: row for row in found["hosts_in_trouble"].iter_rows(named=True)}

    assert {name: (row["reason"], row["until_at"]) for name, row in told.items()} == {
        "paused.test": ("paused by an order", None),
        "aside.test": ("put aside after failures", LATER),
        "backing-off.test": ("backing off", TOMORROW),
        "failing.test": ("failing", None),
        "closed.test": ("robots.txt unreachable or not to be read", TOMORROW),
    }


def test_what_waits_on_a_host_is_counted_however_often_others_were_recrawled(found):
    waiting = dict(found["hosts_in_trouble"].select("host", "waiting_count").iter_rows())

    assert waiting["paused.test"] == waiting["closed.test"] == WAITING
    assert waiting["aside.test"] == 0


def test_hosts_that_wait_for_a_person_or_for_days_with_much_to_fetch_are_an_alarm(found):
    assert found["a_host_is_kept_waiting_for_long"]["host"].to_list() == ["paused.test"]


def test_freshness_is_that_of_a_change_rate_that_is_not_known_for_certain(found):
    whole = found["page_freshness"].row(by_predicate=pl.col("host") == "all hosts", named=True)

    # Shapes 0.4 + 1.6 = 2 and 0.4 + 0.6 = 1, means 0.5 and 0.25 a day, so scales of 4 days: (1 + 4 / 4) ^ -2 = 1 / 4
    # with an importance of 0.75, (1 + 4 / 4) ^ -1 = 1 / 2 with one of 0.25 x 0.5.
    assert whole["expected_freshness"] == pytest.approx((0.75 / 4 + 0.125 / 2) / 0.875, abs=1e-2)
    assert whole["page_count"] == 2  # the sitemap is not stored
    assert whole["useful_share"] == 1 / 4
    assert whole["median_age_days"] == pytest.approx(4, abs=TOLD)
    assert whole["lag_p95_days"] == pytest.approx(0.95 * 3, abs=TOLD)


def test_the_funnel_and_the_cost_of_a_page_count_each_url_once(found):
    funnel = dict(found["funnel"].select("stage", "url_count").iter_rows())
    cost = found["cost_per_useful_page"].row(0, named=True)

    assert funnel == {"known": 3 + 2 * WAITING, "asked for": 2, "answered": 2, "stored": 2, "distinct": 2}
    assert (cost["useful_count"], cost["requests_per_useful"], cost["patience_s_per_useful"]) == (2, 1.0, 1.0)


def test_each_page_has_its_metadata_once_by_what_is_known_of_it_last(found):
    first, second = found["page_meta"].sort("url").iter_rows(named=True)

    assert first | {"fetched_at": None} == {
        "url_hash": urls.url_hash("http://f.test/1"), "url": "http://f.test/1", "host": "f.test",
        "content_hash": b"b" * 16, "simhash": None, "http_status": 200, "fetched_at": None, "content_length": 9,
        "change_count": 1, "next_recrawl_at": PAST,
    }  # fmt: skip
    assert (second["http_status"], second["change_count"], second["next_recrawl_at"]) == (503, 0, None)


def test_a_host_is_told_with_its_pages_its_state_its_last_trouble_and_its_budget(found):
    told = {row["host"]: row for row in found["hosts_now"].iter_rows(named=True)}

    one = told["f.test"]
    assert (one["pages"], one["known"], one["waiting"], one["due"]) == (2, 3, 0, 1)
    assert (one["last_trouble"], one["last_trouble_at"]) == ("unavailable: 503", NOW)
    assert (one["asked_today"], one["allowed_a_day"]) == (7, 900)
    assert {name: row["state"] for name, row in told.items() if not row["in_trouble"]} == {
        "f.test": "may be asked", "fine.test": "rests", "rested.test": "nothing is due",
        "closed-once.test": "nothing is due", "half-closed.test": "nothing is due",
    }  # fmt: skip


def test_freshness_is_told_by_seed_list_too(found):
    fresh = {row["tag"]: row for row in found["seed_list_freshness"].iter_rows(named=True)}

    assert list(fresh) == ["all pages", "docs", "no tag"]
    assert fresh["docs"]["expected_freshness"] == pytest.approx(1 / 4, abs=1e-2)
    assert fresh["no tag"]["expected_freshness"] == pytest.approx(1 / 2, abs=1e-2)


def test_robots_that_cannot_be_read_for_days_are_an_alarm_until_they_can(found):
    rows = found["robots_are_unreadable_for_long"].select("host", "try_count", "last_reason").rows()

    assert rows == [("long.test", 3, "status 503")]


def test_urls_are_counted_by_their_state(found):
    states = dict(found["url_states"].select("status", "url_count").iter_rows())

    assert states == {"waiting": 2 * WAITING, "fetched": 3}


@pytest.mark.parametrize("model", reports.models(), ids=lambda model: model.name)
def test_a_model_says_what_each_of_its_columns_means(found, model):
    assert list(model.columns) == found[model.name].columns
