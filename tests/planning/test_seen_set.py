"""The seen set: no URL lost and none doubled, whatever state the filters' files are in."""

import logging
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FRONTIER, ROUNDS
from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.planning import SeenSet, read_cursors
from crawl_pipeline.planning.seen import Known
from crawl_pipeline.planning.sight import Sight
from tests.effort import times

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
AGENT = {"name": "ExampleBot", "contact": "https://example.org/"}
ALWAYS = Policy.model_validate({"agent": AGENT, "seen": {"filter_from": 0}})
NEVER = Policy.model_validate({"agent": AGENT, "seen": {"filter_from": 1_000_000_000}})
BUCKETS = (0, 1)


def spread(number: int) -> int:
    """A hash for a number, of the bucket of its last bit."""
    return (number * 0x9E3779B97F4A7C15 % 2**63) // 2 * 2 + number % 2


class Books:
    """A lake of two buckets, and workers that admit whatever is new to them."""

    def __init__(self, root: Path) -> None:
        self.lake, self.workers = Lake.create(str(root / "lake"), 2), 0
        self.linked: set[int] = set()
        self.lease, self.seen = self.worker()

    def worker(self) -> tuple[Lease, SeenSet]:
        self.workers += 1
        return self.lake.claim(BUCKETS, f"w{self.workers}", NOON, 60), SeenSet()

    def next_worker(self, *, saved: bool) -> None:
        """Another worker takes over; its forerunner ended in order, or was killed."""
        if saved:
            self.seen.save(self.lake)
        self.lake.release(self.lease)
        self.lease, self.seen = self.worker()

    def known(self, numbers: list[int], rules: Policy = ALWAYS) -> Known:
        links = pl.DataFrame([(number % 2, spread(number)) for number in numbers],
                             schema={"target_bucket": pl.Int16, "url_hash": pl.Int64}, orient="row")  # fmt: skip
        sight = Sight(self.lake, self.lease, self.lake.versions(), NOON)
        return self.seen.known(sight, links, read_cursors(self.lake, self.lease), rules)

    def round(self, numbers: list[int], rules: Policy = ALWAYS, dies: str = "") -> None:
        """Admit the new ones of the linked URLs in one round; `dies`: before or after its commit."""
        known = set(self.known(numbers, rules).hashes)
        new = [number for number in set(numbers) if spread(number) not in known]
        rows = FRONTIER.frame([{"bucket": number % 2, "url_hash": spread(number), "host": "h.test",
                                "url": f"http://h.test/{number}"} for number in new])  # fmt: skip
        self.lake.write(self.lease, "frontier", rows.drop("round", "layer"))
        if dies != "before":
            self.lake.commit(self.lease, ROUNDS.frame([
                {"bucket": b, "known_count": 1, "links_seen": [self.lease.round - 1] * 2, "orders_seen": -1}
                for b in BUCKETS
            ]).drop("round"))  # fmt: skip
            self.linked |= set(numbers)
        if dies != "after":
            self.seen.committed(self.lease, rows)
        if dies:
            self.next_worker(saved=dies == "before")  # saved though its commit did not stand: more than is known
            return
        self.lease = self.lake.renew(self.lease, NOON, 60)

    @property
    def files(self) -> list[Path]:
        return sorted((self.lake.caches / "seen").glob("*"))

    def check(self) -> None:
        """Every linked URL has exactly one row."""
        rows = self.lake.scan("rounds").select("bucket", "round").collect()
        written = pl.read_parquet(self.lake.files("frontier"), hive_partitioning=True).with_columns(
            pl.col("bucket").cast(pl.Int16)
        )
        admitted = written.join(rows, on=["bucket", "round"], how="semi")["url_hash"]
        assert sorted(admitted) == sorted(map(spread, self.linked))


def each(change: Callable[[bytes], bytes]) -> Callable[[Books], None]:
    def spoil(books: Books) -> None:
        for file in books.files:
            file.write_bytes(change(file.read_bytes()))

    return spoil


def swapped(books: Books) -> None:
    """Each bucket's file in the place of the other's."""
    held = [file.read_bytes() for file in books.files]
    for file, content in zip(books.files, reversed(held), strict=True):
        file.write_bytes(content)


SPOILT: dict[str, Callable[[Books], None]] = {
    "missing": lambda books: [file.unlink() for file in books.files] and None,
    "cut off": each(lambda found: found[: len(found) // 2]),
    "empty": each(lambda found: b""),
    "flipped": each(lambda found: found[:-99] + bytes([found[-99] ^ 4]) + found[-98:]),
    "swapped": swapped,
    "folded": lambda books: books.lake.fold(books.lease, "frontier", least=1) and None,
}
STEPS = st.one_of(
    st.tuples(st.just("round"), st.lists(st.integers(0, 40), max_size=12)),
    st.tuples(st.sampled_from(["before", "after"]), st.lists(st.integers(0, 40), max_size=12)),
    st.tuples(st.sampled_from(["ends", "is killed", "keep", "put back", *SPOILT]), st.just([])),
)


@settings(max_examples=times(5, 25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEPS, min_size=4, max_size=12))
def test_no_url_is_lost_and_none_doubled_whatever_happens_to_workers_and_files(
    steps: list[tuple[str, list[int]]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        books, old = Books(Path(folder)), {}
        for name, numbers in steps:
            if name in ("round", "before", "after"):
                books.round(numbers, dies=name if name != "round" else "")
            elif name in ("ends", "is killed"):
                books.next_worker(saved=name == "ends")
            elif name == "keep":
                old = {file: file.read_bytes() for file in books.files}
            elif name == "put back":
                [file.write_bytes(content) for file, content in old.items()]
            else:
                SPOILT[name](books)
        books.round(list(range(41)))
        books.check()


@pytest.fixture
def books(tmp_path: Path) -> Books:
    return Books(tmp_path)


def test_a_worker_goes_on_with_the_filter_that_the_last_one_left(
    books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    books.round(list(range(50)))
    books.round(list(range(20, 60)))
    books.next_worker(saved=True)
    caplog.set_level(logging.INFO)

    known = books.known(list(range(40, 80)))

    assert not caplog.records  # nothing was made anew
    assert set(known.hashes) == {spread(number) for number in range(40, 60)}
    assert {bucket: asked.asked for bucket, asked in known.asked.items()} == {0: 20, 1: 20}
    assert sum(asked.maybe - asked.false for asked in known.asked.values()) == 20


def test_a_filter_that_was_left_behind_is_caught_up_without_being_made_anew(
    books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    books.round(list(range(50)))
    books.round([1])
    books.next_worker(saved=True)
    books.round(list(range(50, 90)))
    books.next_worker(saved=False)
    caplog.set_level(logging.INFO)

    assert len(books.known(list(range(100))).hashes) == 90
    assert not caplog.records


def test_a_spoilt_file_is_made_anew_and_said_to_be(books: Books, caplog: pytest.LogCaptureFixture) -> None:
    books.round(list(range(50)))
    books.round([0, 1])
    books.next_worker(saved=True)
    SPOILT["cut off"](books)

    assert len(books.known(list(range(100))).hashes) == 50
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "checksum" in caplog.text


def test_a_lake_put_back_to_an_older_copy_trusts_no_filter_of_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRAWL_CACHES", str(tmp_path / "caches"))
    books = Books(tmp_path)
    books.round([0, 1, 2])
    shutil.copytree(tmp_path / "lake", tmp_path / "copy")
    then = books.lease
    for number in (10, 11, 12):
        books.round([number])
    books.seen.save(books.lake)
    shutil.rmtree(tmp_path / "lake")
    (tmp_path / "copy").rename(tmp_path / "lake")
    books.lake, books.lease = Lake.open(str(tmp_path / "lake")), then
    books.next_worker(saved=False)
    for number in (20, 21, 22, 23, 24, 25):
        books.round([number], NEVER)

    known = books.known([0, 10, 20, 21, 22, 23, 24, 25])

    assert set(known.hashes) == {spread(number) for number in (0, 20, 21, 22, 23, 24, 25)}


def test_a_small_bucket_has_no_filter(books: Books) -> None:
    books.round([1, 2, 3], NEVER)
    books.round([1, 2], NEVER)

    assert books.known([1, 9], NEVER).asked == {}
    assert books.files == []


def test_a_folder_that_cannot_be_written_costs_the_cache_and_nothing_else(books: Books) -> None:
    books.lake.caches.write_text("a file where the folder should be")
    books.round([1, 2, 3])
    books.round([2, 3, 4])
    books.next_worker(saved=True)

    assert set(books.known([1, 4, 5]).hashes) == {spread(1), spread(4)}
