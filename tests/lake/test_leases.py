"""Who gets a bucket, and what happens to a holder who comes back late."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

import polars as pl
import pytest
from lake_rows import LATER, NOON, done, statuses, urls

from crawl_pipeline.core.tables import FRONTIER, ROUNDS
from crawl_pipeline.lake import Lake, Lease, LeaseHeld, LeaseLost
from crawl_pipeline.lake.delta import Backoff, Change, DeltaTable
from crawl_pipeline.lake.folding import Due, fold
from crawl_pipeline.lake.leases import check_fences, fences


def race(lake: Lake, wishes: list[list[int]]) -> list[Lease]:
    """Let one thread per wish claim at the same time, each through a lake of its own; give the leases won."""
    start, won = threading.Barrier(len(wishes)), []

    def claim(number: int, buckets: list[int]) -> None:
        own = Lake.open(lake.root)
        start.wait()
        with suppress(LeaseHeld):
            won.append(own.claim(buckets, f"worker-{number}", NOON, 60))

    threads = [threading.Thread(target=claim, args=item) for item in enumerate(wishes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


@pytest.mark.parametrize("attempt", range(4))
def test_of_eight_who_claim_one_bucket_exactly_one_wins(lake: Lake, attempt: int) -> None:
    won = race(lake, [[3]] * 8)

    assert [lease.buckets for lease in won] == [(3,)]
    assert lake.leases()["worker"][3] == won[0].holder


def test_all_who_claim_different_buckets_win_with_different_rounds(lake: Lake) -> None:
    won = race(lake, [[bucket] for bucket in range(8)])

    assert sorted(lease.buckets for lease in won) == [(bucket,) for bucket in range(8)]
    assert len({lease.round for lease in won}) == 8


def test_overlapping_claims_of_several_buckets_never_share_one(lake: Lake) -> None:
    won = race(lake, [[0, 1], [1, 2], [2, 3], [3, 0]])

    taken = [bucket for lease in won for bucket in lease.buckets]
    assert won
    assert len(taken) == len(set(taken))


def test_threads_that_share_one_lake_do_not_share_a_bucket(lake: Lake) -> None:
    won, start = [], threading.Barrier(8)

    def claim(number: int) -> None:
        start.wait()
        with suppress(LeaseHeld):
            won.append(lake.claim([5], f"thread-{number}", NOON, 60))

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1


def test_of_two_processes_exactly_one_wins(lake: Lake) -> None:
    code = (
        "import sys; from datetime import *; from crawl_pipeline.lake import *\n"
        "lake = Lake.open(sys.argv[1]); now = datetime(2026, 3, 1, 12, tzinfo=UTC)\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "try: lake.claim(range(8), sys.argv[2], now, 60); print('won')\n"
        "except LeaseHeld: print('held')"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code, lake.root, name], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]  # fmt: skip
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"

    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    answers = [worker.communicate(timeout=60)[0].strip() for worker in workers]

    assert sorted(answers) == ["held", "won"]


def test_a_held_bucket_is_refused_with_holder_and_deadline(lake: Lake) -> None:
    lake.claim([1, 2], "first", NOON, 60)

    with pytest.raises(LeaseHeld) as refused:
        lake.claim([2, 3], "second", NOON, 60)

    assert refused.value.buckets == (2,)
    assert refused.value.holder == "first"
    assert refused.value.deadline_at == datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
    assert "found 2 held by 'first' until 2026-03-01 12:01:00 UTC" in str(refused.value)
    assert lake.leases()["worker"][3] is None


def test_skipping_held_buckets_takes_the_free_ones(lake: Lake) -> None:
    lake.claim([1, 2], "first", NOON, 60)

    assert lake.claim([2, 3], "second", NOON, 60, skip_held=True).buckets == (3,)
    with pytest.raises(LeaseHeld):
        lake.claim([1, 3], "third", NOON, 60, skip_held=True)


def test_a_lease_is_held_until_its_deadline_and_free_from_it_on(lake: Lake) -> None:
    first = lake.claim([0], "first", NOON, 60)

    with pytest.raises(LeaseHeld):
        lake.claim([0], "second", datetime(2026, 3, 1, 12, 0, 59, tzinfo=UTC), 60)
    second = lake.claim([0], "second", datetime(2026, 3, 1, 12, 1, 0, tzinfo=UTC), 60)

    assert second.epochs == {0: first.epochs[0] + 1}
    assert second.crashed == {0: datetime(2026, 3, 1, 12, 1, tzinfo=UTC)}


def test_a_released_bucket_is_free_at_once_and_not_crashed(lake: Lake) -> None:
    lake.release(lake.claim([0, 1], "first", NOON, 60))

    assert lake.claim([0], "second", NOON, 60).crashed == {}


def test_a_renewal_moves_the_deadline_and_takes_a_later_round(lake: Lake) -> None:
    first = lake.claim([0], "first", NOON, 60)
    again = lake.renew(first, LATER, 60)

    assert again.round > first.round
    assert again.epochs == first.epochs
    assert lake.leases()["deadline_at"][0] == datetime(2026, 3, 1, 12, 6, tzinfo=UTC)


def test_rounds_grow_whoever_takes_them(lake: Lake) -> None:
    one = lake.claim([0], "one", NOON, 60)
    two = lake.claim([1], "two", NOON, 60)
    rounds = [one.round, two.round, lake.renew(one, NOON, 60).round, lake.renew(two, NOON, 60).round]

    assert rounds == sorted(set(rounds))


def test_a_bucket_outside_the_lake_is_refused(lake: Lake) -> None:
    with pytest.raises(ValueError, match="from 0 to 7"):
        lake.claim([8], "first", NOON, 60)


def test_a_time_without_zone_is_refused(lake: Lake) -> None:
    with pytest.raises(ValueError, match="UTC"):
        lake.claim([0], "first", datetime(2026, 3, 1, 12, 0), 60)  # noqa: DTZ001


@pytest.fixture
def late(lake: Lake) -> Lease:
    """A lease that expired and was taken over, with rows written but not committed."""
    late = lake.claim([0, 1], "late", NOON, 60)
    lake.write(late, "frontier", urls(0, {1: "late"}))
    lake.claim([0], "heir", LATER, 60)
    return late


def test_a_late_writer_cannot_commit(lake: Lake, late: Lease) -> None:
    with pytest.raises(LeaseLost) as lost:
        lake.commit(late, done(late))

    assert lost.value.buckets == (0,)
    assert lake.scan("rounds").collect().is_empty()


def test_a_late_writer_cannot_renew(lake: Lake, late: Lease) -> None:
    with pytest.raises(LeaseLost):
        lake.renew(late, LATER, 60)


def test_a_late_writer_cannot_release(lake: Lake, late: Lease) -> None:
    with pytest.raises(LeaseLost):
        lake.release(late)

    assert lake.leases()["worker"][0] == "heir"


def test_a_late_writer_cannot_fold(lake: Lake, late: Lease) -> None:
    with pytest.raises(LeaseLost):
        lake.fold(late, "frontier", least=1)


def test_rows_of_a_late_writer_are_never_seen_and_a_fold_drops_them(lake: Lake, late: Lease) -> None:
    heir = lake.claim([1], "heir", LATER, 60)
    lake.write(heir, "frontier", urls(1, {2: "new"}))
    lake.commit(heir, done(heir))
    other = lake.claim([0], "next", datetime(2026, 3, 1, 12, 30, tzinfo=UTC), 60)
    lake.write(other, "frontier", urls(0, {3: "new"}))
    lake.commit(other, done(other))
    before = statuses(lake)
    lake.fold(other, "frontier", least=1)

    assert before == {2: "new", 3: "new"}
    assert statuses(lake) == before
    assert lake.dataset("frontier").count_rows() == 2


def test_a_commit_decided_before_a_takeover_collides_with_it(lake: Lake) -> None:
    """The takeover falls between the late writer's look at the epoch and its write."""
    late = lake.claim([0], "late", NOON, 60)
    rounds = DeltaTable(lake.root, ROUNDS, {}, Backoff(sleep=lambda _: None))
    row = ROUNDS.frame([{"bucket": 0, "round": late.round}])
    looks = []

    def decide(opened: object) -> Change:
        check_fences(late, opened.transaction_version)  # type: ignore[attr-defined]
        if not looks:
            Lake.open(lake.root).claim([0], "heir", LATER, 60)
        looks.append(1)
        return Change(row, f"bucket in (0) and round = {late.round}", fences(late))

    with pytest.raises(LeaseLost):
        rounds.commit(decide)

    assert looks == [1]
    assert lake.scan("rounds").collect().is_empty()


class Interrupted:
    """The table `rounds`, as a fold sees it, with something that happens in the middle of its first look."""

    def __init__(self, rounds: DeltaTable, meanwhile: Callable[[], None]) -> None:
        self._rounds = rounds
        self._meanwhile = [meanwhile]

    def live(self) -> pl.DataFrame:
        live = self._rounds.live()
        while self._meanwhile:
            self._meanwhile.pop()()
        return live

    def __getattr__(self, name: str) -> object:
        return getattr(self._rounds, name)


def test_a_fold_decided_before_a_takeover_collides_with_what_the_heir_wrote(lake: Lake) -> None:
    late = lake.claim([0], "late", NOON, 60)
    lake.write(late, "frontier", urls(0, {1: "new"}))
    lake.commit(late, done(late))

    def take_over() -> None:
        other = Lake.open(lake.root)
        heir = other.claim([0], "heir", LATER, 60)
        other.write(heir, "frontier", urls(0, {1: "fetched", 2: "new"}))
        other.commit(heir, done(heir))

    quick = Backoff(sleep=lambda _: None)
    rounds = Interrupted(DeltaTable(lake.root, ROUNDS, {}, quick), take_over)
    with pytest.raises(LeaseLost):
        fold(rounds, DeltaTable(lake.root, FRONTIER, {}, quick), late, Due(0.25, 20, 1))  # type: ignore[arg-type]

    assert statuses(lake) == {1: "fetched", 2: "new"}
    assert set(lake.scan("frontier").collect()["layer"]) == {"tail"}


def test_a_holder_whose_lease_expired_but_was_not_taken_may_still_commit(lake: Lake) -> None:
    slow = lake.claim([0], "slow", NOON, 60)
    lake.write(slow, "frontier", urls(0, {1: "new"}))
    lake.claim([1], "other", LATER, 60)
    lake.commit(slow, done(slow))

    assert statuses(lake) == {1: "new"}
