"""What a plan makes of dates that sitemaps tell of URLs that are known."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from crawl_pipeline import planning
from crawl_pipeline.core import urls
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER, HOSTS, LINKS, ROUNDS
from crawl_pipeline.lake import Lake

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
DAY = timedelta(days=1)
POLICY = Policy.model_validate({"agent": {"name": "ExampleBot", "contact": "https://example.org/"}})
TOLD = {"changed": 30, "told": 29, "moved": 30, "foretold": 3}


def known(name: str, status: str, due_at: datetime | None) -> dict[str, object]:
    page = f"https://h.test/{name}"
    return {"bucket": 0, "url": page, "url_hash": urls.url_hash(page), "host": "h.test", "status": status, "band": 1,
            "depth": 1, "kind": "listed", "due_at": due_at, "attempts": 0, "outcome": "fetched", "found_at": NOON - DAY,
            "visited_at": NOON - DAY, "lastmod_at": NOON - 9 * DAY}  # fmt: skip


def listed(row: dict[str, object]) -> dict[str, object]:
    return {"target_bucket": 0, "source_bucket": 0, "source_url": "https://h.test/map.xml", "source_hash": 1,
            "depth": 1, "kind": "listed", "nofollow": False, "hops": 0, "lastmod_at": NOON - timedelta(hours=1)} | {
                name: row[name] for name in ("url", "url_hash", "host")}  # fmt: skip


def test_a_moved_date_brings_a_page_onto_the_list_of_this_round_and_leaves_alone_what_is_never_due(
    tmp_path: Path,
) -> None:
    pages = [known("late", "fetched", NOON + 5 * DAY), known("due", "fetched", NOON - DAY), known("dead", "dead", None),
             known("gone", "gone", NOON + 9 * DAY)]  # fmt: skip
    host = {"host": "h.test", "site": "h.test", "bucket": 0, "seeded": True, "paused": False, "day_count": 0}
    lake = Lake.create(str(tmp_path / "lake"), 1)
    lease = lake.claim([0], "w", NOON, 600)
    lake.write(lease, "frontier", FRONTIER.frame(pages).drop("round", "layer"))
    lake.write(lease, "hosts", HOSTS.frame([host | {"sitemap_dates": TOLD}]).drop("round", "layer"))
    lake.write(lease, "links", LINKS.frame([listed(page) for page in pages]).drop("round"))
    ledger = {"bucket": 0, "links_seen": [0], "orders_seen": -1, "known_count": len(pages)}
    lake.commit(lease, ROUNDS.frame([ledger]).drop("round"))
    lease = lake.renew(lease, NOON, 600)

    plan = planning.plan(lake, lease, planning.read_cursors(lake, lease), POLICY, NOON, [], {})

    assert set(plan.fetch_list["url"]) == {"https://h.test/late", "https://h.test/due"}
    moved = {row["url"].rpartition("/")[2]: row for row in plan.brought_forward.iter_rows(named=True)}
    assert {name: (row["due_at"], row["moved_count"]) for name, row in moved.items()} == {
        "late": (NOON, 1), "due": (NOON - DAY, 1), "dead": (None, 1), "gone": (NOON + 9 * DAY, 1),
    }  # fmt: skip
    assert plan.next_at is not None
