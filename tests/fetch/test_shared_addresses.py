"""Hosts that share an address share its pace, whoever asks them; hosts of a site share a few places.

Two workers that know nothing of each other, each with half of the buckets, by the log of the web that they ask.
"""

from datetime import UTC, datetime
from ipaddress import ip_network
from itertools import pairwise

import trio
from lane_runs import lanes_over, on_mock_clock, policy, queue

from crawl_pipeline.core.slots import GUARD, Slots
from crawl_pipeline.fetch.exchange import Clock
from crawl_pipeline.fetch.lanes import Lanes
from crawl_pipeline.fetch.reading import InlineReaders
from crawl_pipeline.fetch.resolver import Resolver
from crawl_pipeline.fetch.transport import WireTransport
from crawl_pipeline.testing import FakeWeb, site
from crawl_pipeline.testing.loopback_web import serving
from crawl_pipeline.testing.sites import Web

BUCKETS = 4
ONE_PLACE = "127.9.0.1"


async def asked_by_two(rules, transports, queues, wall):
    """Let two workers ask these lists, one worker each, at the same time, until nothing is left; give their cuts."""
    async with trio.open_nursery() as nursery:
        workers = []
        for transport, lists, leased in zip(transports, queues, (range(2), range(2, 4)), strict=True):
            readers = InlineReaders(rules, BUCKETS)
            nursery.start_soon(readers.run)
            slots = Slots.of(rules.address_gap_s, BUCKETS, leased)
            workers.append(Lanes(nursery, transport, readers, rules, Clock.start(wall), slots))
            workers[-1].load(lists)
        while not all(lanes.idle for lanes in workers):
            await trio.sleep(0.05)
        cuts = [lanes.cut() for lanes in workers]
        nursery.cancel_scope.cancel()
    return cuts


def test_a_hundred_hosts_on_one_address_are_asked_a_gap_apart_by_workers_that_do_not_know_of_each_other():
    names = [f"h{n}.s{n}.test" for n in range(100)]
    web = FakeWeb(*(site(name, pages=2, first_byte_s=0.2) for name in names), site("alone.test", pages=20))
    web.hosts |= {name: [ONE_PLACE] for name in names}
    lists = [[queue(name, "/", "/1") for name in names[half::2]] for half in (0, 1)]
    lists[0].append(queue("alone.test", *(f"/{n}" for n in range(20))))
    rules = policy(politeness={"address_gap_s": 0.5})

    cuts = on_mock_clock(lambda: asked_by_two(rules, [web, web], lists, datetime(2026, 3, 1, tzinfo=UTC)))

    starts = sorted(row.started for row in web.log if row.host != "alone.test")
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert len(starts) == 300
    assert min(gaps) >= 0.5 - 1e-4
    assert starts[-1] - starts[0] <= 300 * 0.5 * (1 + GUARD) * 1.25  # and hardly a slot is wasted
    assert web.asked("alone.test")[-1].started < 60  # who has an address of its own does not notice
    assert sum(len(cut.visits) for cut in cuts) == 220


def test_another_gap_is_kept_from_the_next_start_on():
    names = [f"h{n}.s{n}.test" for n in range(6)]
    web = FakeWeb(*(site(name, pages=1) for name in names))
    web.hosts |= {name: [ONE_PLACE] for name in names}

    async def main():
        async with lanes_over(web, policy(politeness={"address_gap_s": 0.1})) as lanes:
            lanes.obey(policy(politeness={"address_gap_s": 0.8}))
            lanes.load([queue(name, "/") for name in names])
            while not lanes.idle:
                await trio.sleep(0.05)

    on_mock_clock(main)

    starts = sorted(row.started for row in web.log)
    assert len(starts) == 12
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 0.8 - 1e-4


def test_on_loopback_the_servers_log_shows_no_two_starts_closer_than_the_gap(tmp_path):
    names = [f"h{n}.s{n}.test" for n in range(10)]
    rules = policy(politeness={"address_gap_s": 0.15, "delay_s": 0.15})
    with serving(Web(tuple(site(name, pages=2) for name in names), ()), log=tmp_path / "log") as served:
        place = next(iter(served.hosts.values()))
        hosts = dict.fromkeys(names, place)
        lists = [[queue(f"{name}", f":{served.port}/") for name in names[half::2]] for half in (0, 1)]
        transports = [WireTransport(Resolver(hosts), (ip_network(place[0]),)) for _ in range(2)]

        trio.run(asked_by_two, rules, transports, lists, datetime.now(UTC))
        starts = sorted(row.started_at / 1e6 for row in served.rows())

    assert len(starts) == 20
    # A busy machine may hold a start up on its way to the server by as much as the guard.
    assert min(later - earlier for earlier, later in pairwise(starts)) >= 0.15 * (1 - GUARD)


def test_no_more_hosts_of_a_site_are_asked_at_once_than_there_are_places():
    names = [f"h{n}.farm.test" for n in range(60)]
    web = FakeWeb(*(site(name, pages=1, first_byte_s=1.0) for name in names), site("other.test", pages=5))
    rules = policy(politeness={"site_requests": 4})
    lists = [[queue(name, "/") for name in names], [queue("other.test", *(f"/{n}" for n in range(5)))]]

    on_mock_clock(lambda: asked_by_two(rules, [web, web], lists, datetime(2026, 3, 1, tzinfo=UTC)))

    farm = [row for row in web.log if row.host != "other.test"]
    moments = {row.started for row in farm}
    assert len(farm) == 120
    assert max(sum(row.started <= moment < row.ended for row in farm) for moment in moments) == 4
    assert web.asked("other.test")[-1].started < 12
