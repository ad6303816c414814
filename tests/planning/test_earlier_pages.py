"""What earlier pages said is at hand for all hosts of a round, and bounded between rounds."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from crawl_pipeline import planning
from crawl_pipeline.core import repeats
from crawl_pipeline.core.parameters import Known
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import PAGES, ROUNDS
from crawl_pipeline.lake import Lake
from crawl_pipeline.planning.earlier import EarlierPages

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
POLICY = Policy.model_validate({"agent": {"name": "ExampleBot", "contact": "https://example.org/"}})
HOSTS = ("a.test", "b.test", "c.test")


def page(host: str, number: int) -> dict[str, object]:
    return {"bucket": 0, "month": "2026-03", "url": f"http://{host}/p?sid={number}", "url_hash": number, "host": host,
            "fetched_at": NOON + timedelta(seconds=number), "token_count": 500, "main_hash": 7, "text_hash": 7,
            "simhash": 1, "minhash": [1] * 128}  # fmt: skip


def test_a_round_of_more_pages_than_are_kept_finds_them_all_and_leaves_no_more_than_the_bound(tmp_path: Path) -> None:
    lake = Lake.create(str(tmp_path / "lake"), 1)
    lease = lake.claim([0], "w", NOON, 600)
    lake.write(lease, "pages", PAGES.frame([page(host, n) for host in HOSTS for n in range(4)]).drop("round"))
    lake.commit(
        lease, ROUNDS.frame([{"bucket": 0, "links_seen": [-1], "orders_seen": -1, "known_count": 12}]).drop("round")
    )
    plan = planning.plan(lake, lake.renew(lease, NOON, 600), planning.read_cursors(lake, lease), POLICY, NOON, [], {})
    earlier = EarlierPages(most=6)

    found = earlier.of(lake, plan, pl.Series(HOSTS), POLICY)

    assert dict(found.group_by("host").len().iter_rows()) == dict.fromkeys(HOSTS, 4)
    assert all(len(earlier.by_url[host].contents) == 4 for host in HOSTS)
    earlier.add(repeats.NOBODY, POLICY)
    assert list(earlier.kept) == list(earlier.by_url) == ["c.test"]
    assert earlier.of(lake, plan, pl.Series(["a.test"]), POLICY).height == 4, "what was let go is read again"


def test_hosts_of_copies_alone_take_room_too() -> None:
    earlier = EarlierPages(most=3)
    for host in HOSTS:
        earlier.kept[host], earlier.by_url[host] = repeats.NOBODY, Known(10)
        for number in range(2):
            earlier.by_url[host].add(f"http://{host}/p?sid={number}", (7,))

    earlier.add(repeats.NOBODY, POLICY)

    assert list(earlier.by_url) == ["c.test"]
