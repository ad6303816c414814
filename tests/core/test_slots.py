"""Two starts at an address are never closer than the gap, whoever makes them; nobody waits longer than a turn."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.slots import GUARD, Slots

ADDRESSES = st.sampled_from(["192.0.2.1", "192.0.2.2", "2001:db8::1"])
TIMES = st.floats(1.7e9, 1.9e9)


@st.composite
def shares(draw, buckets=8):
    """The shares of several workers, none of which has a bucket of another."""
    owners = draw(st.lists(st.integers(0, 3), min_size=buckets, max_size=buckets))
    leased = [[bucket for bucket, owner in enumerate(owners) if owner == worker] for worker in range(4)]
    return [Slots.of(0.5, buckets, mine) for mine in leased if mine]


@given(shares(), ADDRESSES, TIMES, st.lists(st.tuples(st.integers(0, 3), st.floats(0, 3)), max_size=40))
def test_starts_of_all_workers_at_an_address_are_a_gap_apart(workers, address, begin, asks):
    last, starts = [None] * len(workers), []
    for asker, wait_s in asks:
        worker = asker % len(workers)
        last[worker] = workers[worker].next_start(address, (last[worker] or begin) + wait_s, last[worker])
        starts.append(last[worker])

    starts.sort()
    assert all(later - earlier >= 0.5 - 1e-5 for earlier, later in pairwise(starts))


@given(shares(), ADDRESSES, TIMES)
def test_nobody_waits_longer_than_a_turn_of_all_buckets(workers, address, now):
    for slots in workers:
        assert 0 <= slots.next_start(address, now, None) - now <= 8 * 0.5 * (1 + GUARD) + 1e-5


@given(ADDRESSES, TIMES)
def test_who_has_every_bucket_waits_for_the_gap_alone(address, now):
    slots = Slots.of(0.5, 16, range(16))

    assert slots.next_start(address, now, None) == now
    assert slots.next_start(address, now, now - 0.2) == now - 0.2 + 0.5


@pytest.mark.parametrize(("workers", "wait_s"), [(2, 1.2), (4, 2.4), (8, 4.8), (16, 9.6)])
def test_neighbours_among_buckets_come_in_turn_evenly(workers, wait_s):
    share = 16 // workers
    for worker in range(workers):
        slots = Slots.of(0.5, 16, range(worker * share, (worker + 1) * share))
        starts = [slots.next_start("192.0.2.1", 1.7e9, None)]
        for _ in range(40):
            starts.append(slots.next_start("192.0.2.1", starts[-1], starts[-1]))
        assert all(abs(later - earlier - wait_s) < 0.11 for earlier, later in pairwise(starts))


def test_without_a_gap_nobody_waits():
    assert Slots.of(0.0, 16, [3]).next_start("192.0.2.1", 1.7e9, 1.7e9) == 1.7e9
