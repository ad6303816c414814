"""The checks that come with every run, on rows that keep the promises and rows that break them."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import polars as pl
import pytest
from conftest import load, policy_for

from crawl_pipeline.assets import checks, telling
from crawl_pipeline.assets.telling import facts, with_margin
from crawl_pipeline.core.tables import FETCHES, PAGES, ROUNDS
from crawl_pipeline.lake import Lake

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(second: float) -> datetime:
    return NOON + timedelta(seconds=second)


def requests(*spans: tuple[float, float], host: str = "a.test", gap_s: float = 2.0) -> pl.DataFrame:
    """Requests to one host, each from and until so many seconds after noon."""
    return FETCHES.frame(
        [{"bucket": 0, "round": 7, "request_id": i, "host": host, "url": f"http://{host}/{i}", "cause": "robots",
          "origin": f"http://{host}",
          "started_at": at(start), "ended_at": at(end), "gap_s": gap_s, "worker": "w"}
         for i, (start, end) in enumerate(spans)]
    )  # fmt: skip


def rounds(selected: int, *outcomes: int) -> pl.DataFrame:
    tally = [{"name": f"outcome {i}", "count": count} for i, count in enumerate(outcomes)]
    return ROUNDS.frame([{"bucket": 0, "round": 7, "started_at": NOON, "selected_count": selected, "outcomes": tally}])


def verdicts(rows: pl.DataFrame, fetches: pl.DataFrame) -> dict[str | None, bool]:
    return {answer.check_name: answer.passed for answer in checks.judge(rows, fetches)}


def test_rows_that_keep_the_promises_pass():
    assert verdicts(rounds(3, 2, 1), requests((0, 1), (3, 4))) == {"accounts": True, "manners": True}


def test_a_selected_url_without_an_outcome_fails_the_accounts():
    assert verdicts(rounds(4, 2, 1), requests()) == {"accounts": False, "manners": True}


@pytest.mark.parametrize("second", [(2.9, 4.0), (0.5, 4.0)], ids=["too soon", "twice at once"])
def test_a_request_too_soon_or_beside_another_fails_the_manners(second: tuple[float, float]):
    assert verdicts(rounds(0), requests((0, 1), second)) == {"accounts": True, "manners": False}


def test_a_failed_check_shows_the_sentence_and_the_offending_rows():
    [_, manners] = checks.judge(rounds(0), requests((0, 1), (2.5, 4)))

    shown = str(manners.metadata["a_host_is_never_asked_too_soon"].value)
    assert "starts no sooner" in shown
    assert "| a.test | http://a.test/0 |" in shown
    assert manners.metadata["offending rows"].value == 1


def test_every_promise_is_a_number_of_the_check():
    page = requests((0, 1), (3, 4)).with_columns(cause=pl.lit("page"))
    [_, manners] = checks.judge(rounds(0), page)

    assert not manners.passed
    assert manners.metadata["P5 violations: robots.txt is obeyed"].value == 2
    assert manners.metadata["P1 violations: one request at a time to a host"].value == 0
    assert "robots_come_first" in manners.metadata


def test_the_margin_is_how_much_longer_than_promised_a_host_was_left_alone():
    assert with_margin(requests((0, 1), (3.5, 4), (6, 7)))["margin_s"].to_list() == [None, 0.5, 0.0]


def test_a_promise_made_in_the_round_before_is_judged_in_this_one(empty_lake: Lake):
    for start, numbers in ((0, {"gap_s": 10.0}), (5, {"gap_s": 2.0})):
        lease = empty_lake.claim([0], f"worker {start}", at(start), 60.0)
        empty_lake.write(lease, "fetches", requests((start, start + 1), **numbers).drop("round"))
        empty_lake.commit(lease, rounds(0).with_columns(started_at=at(start)).drop("round"))
        empty_lake.release(lease)
    this_run = empty_lake.scan("rounds", since=1).collect()

    recent = checks.recent_fetches(empty_lake, policy_for({}), this_run)

    assert verdicts(this_run, recent) == {"accounts": True, "manners": False}
    assert facts(this_run, recent, telling.hosts(empty_lake, this_run))[0]["fetches"]["politeness_margin_s"] == -6.0


def test_the_checks_over_the_whole_lake_fail_on_a_lake_that_breaks_a_promise(
    empty_lake: Lake, instance: dg.DagsterInstance, tmp_path: object
):
    lease = empty_lake.claim([0], "a worker", NOON, 60.0)
    page = {
        "bucket": 0,
        "month": "2026-03",
        "url": "http://a.test/",
        "url_hash": 1,
        "host": "a.test",
        "fetched_at": NOON,
    }
    empty_lake.write(lease, "fetches", requests((0, 1), (1.5, 2)).drop("round"))
    empty_lake.write(lease, "pages", PAGES.frame([page]).drop("round"))
    empty_lake.commit(lease, rounds(5, 1).drop("round"))

    job = load(empty_lake, tmp_path).resolve_job_def("reports_job")  # type: ignore[arg-type]
    result = job.execute_in_process(instance=instance)

    broken = {check.check_name for check in result.get_asset_check_evaluations() if not check.passed}
    assert {
        "a_host_is_never_asked_too_soon",
        "selected_equals_sum_of_outcomes",
        "no_page_without_its_request",
    } <= broken


def test_a_table_in_markdown_keeps_its_columns_whatever_its_cells_hold():
    rows = pl.DataFrame({"a": ["x|y"] * 12})

    assert checks.markdown(rows, 1) == "| a |\n| --- |\n| x\\|y |\n\nand 11 more"
