"""Dagster's UI as an engineer uses it: lineage, a round, a recrawl of three buckets, the retry of one, a check."""

from contextlib import suppress
from datetime import UTC, datetime

from playwright.sync_api import TimeoutError
from ui import BUCKETS, NAMES, PAGES, Dagit

from crawl_pipeline.assets import partitions
from crawl_pipeline.core import urls

CONFIG = """ops:
  recrawl:
    config:
      mode: all
      seconds: 30
"""


def test_a_round_is_launched_and_a_recrawl_of_three_buckets_is_carried_out_though_one_was_held(dagit: Dagit):
    page = dagit.page
    dagit.open("/asset-groups")
    for group in ("people", "crawl_round", "recrawl", "duplicates", "freshness", "reports", "upkeep"):
        page.get_by_text(group, exact=True).first.wait_for()
    page.get_by_text("crawl_round", exact=True).last.wait_for()
    dagit.picture("lineage")

    # A round in one bucket; the run's page says what it did.
    dagit.open("/assets/rounds")
    choose(dagit, ["b000"])
    page.get_by_role("button", name="Launch 1 run").click()
    first = dagit.ended(1, "b000")["b000"]
    assert first.is_success
    dagit.open(f"/runs/{first.run_id}")
    page.get_by_text("The worker stopped").first.wait_for()
    dagit.picture("run")

    # A recrawl of three buckets, one of which somebody else holds.
    wanted = sorted({bucket_of(name) for name in NAMES})[:3]
    keys, held = [partitions.key(bucket) for bucket in wanted], wanted[1]
    seen, lease = dagit.asked(), dagit.lake.claim([held], "somebody else", datetime.now(UTC), 3_600.0)
    dagit.open("/assets/recrawl")
    choose(dagit, keys)
    configure(dagit, CONFIG)
    dagit.picture("backfill-launch")
    page.get_by_role("button", name="Launch backfill").click()
    of = dagit.ended(3, *keys, besides=[first.run_id])
    assert {key: run.is_success for key, run in of.items()} == {
        partitions.key(bucket): bucket != held for bucket in wanted
    }
    dagit.open("/assets/recrawl?view=partitions")
    page.get_by_text("Failed (1)").wait_for()
    dagit.picture("backfill")

    # The failed bucket is free again; its run is retried.
    dagit.lake.release(lease)
    failed = of[partitions.key(held)]
    dagit.open(f"/runs/{failed.run_id}")
    page.get_by_text("held by 'somebody else'").first.wait_for()
    retry(dagit, failed.run_id, partitions.key(held))
    retried = dagit.ended(1, partitions.key(held), besides=[first.run_id, failed.run_id])
    assert retried[partitions.key(held)].is_success
    orders = dagit.lake.scan("orders").collect().filter(kind="recrawl")
    assert sorted(orders["of_bucket"]) == wanted
    assert orders["visited_before"].n_unique() == 1
    assert dagit.asked() == seen + sum(PAGES for name in NAMES if bucket_of(name) in wanted)

    # A check is read.
    dagit.open("/assets/recrawl?view=checks&checkDetail=manners")
    page.get_by_text("In this run every promise to hosts was kept").first.wait_for()
    page.get_by_text("P5 violations").first.wait_for()
    dagit.picture("checks")
    assert dagit.elsewhere == []


def retry(dagit: Dagit, run_id: str, key: str) -> None:
    """Press the button of a run until there is a new one: it does nothing while its page is still being drawn."""
    confirm, before = dagit.page.get_by_role("button", name="Confirm"), len(dagit.runs(key))
    for _ in range(4):
        dagit.open(f"/runs/{run_id}")
        dagit.page.get_by_role("button", name="Re-execute").first.click()
        with suppress(TimeoutError):
            confirm.click(timeout=10_000)
        for _ in range(20):
            if len(dagit.runs(key)) > before:
                return
            dagit.page.wait_for_timeout(250)


def choose(dagit: Dagit, keys: list[str]) -> None:
    """Open the dialog that materialises the asset, and choose these partitions; some are chosen for us at times."""
    page = dagit.page
    page.get_by_role("button", name="Materialize").first.click()
    dialog, more = page.get_by_role("dialog").first, page.get_by_role("button", name="Confirm")
    dialog.wait_for()
    if more.is_visible():  # other tables are written by the same runs
        more.click()
    page.get_by_text("Partition selection").wait_for()
    page.wait_for_timeout(700)
    dialog.get_by_text("Select a partition").or_(dialog.locator('[data-tooltip^="b0"]')).first.click()
    page.get_by_placeholder("Filter partitions").wait_for()
    for number in range(BUCKETS):
        key = partitions.key(number)
        row = page.get_by_role("menuitem").filter(has_text=key)
        if row.locator("input").is_checked() != (key in keys):
            row.click()
    page.keyboard.press("Escape")
    dialog.get_by_text(f"{len(keys)} partition", exact=False).first.wait_for()


def configure(dagit: Dagit, text: str) -> None:
    """Give the backfill its config, in the editor of the launchpad."""
    dialog = dagit.page.get_by_role("dialog").first
    dialog.get_by_text("Config", exact=True).first.click()
    dialog.get_by_role("button", name="Add config").click()
    editor = dagit.page.locator(".CodeMirror").last
    editor.wait_for()
    editor.evaluate("(element, text) => element.CodeMirror.setValue(text)", text)
    dagit.page.get_by_role("button", name="Save config").click()


def bucket_of(host: str) -> int:
    return urls.bucket(urls.site(host), BUCKETS)
