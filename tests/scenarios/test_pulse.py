"""The live figures: what a crawl does right now, what stalls and why, and which orders wait."""

from datetime import datetime, timedelta

import polars as pl
from crawls import NOON, Crawl, policy

from crawl_pipeline import order_log, ordering, pulse
from crawl_pipeline.pulse import NOBODY, VANISHED
from crawl_pipeline.testing import site


def after(crawl: Crawl) -> datetime:
    """The crawl's time, outside its run."""

    async def now() -> datetime:
        return crawl.now

    return crawl.run(now)


def test_the_pulse_tells_pace_size_lag_and_what_stalls_for_which_reason(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=8), site("b.test", pages=2), rules=policy(recrawl={"first_s": 3600.0}))
    empty = pulse.pulse(crawl.lake, NOON)
    crawl.seed("http://a.test/", "http://b.test/").work()
    soon = pulse.pulse(crawl.lake, after(crawl))
    ordering.pause(crawl.lake, ["b.test"], paused=True, now=NOON, by="ann")
    waiting = pulse.pulse(crawl.lake, after(crawl))
    crawl.work()
    crawl.wait(10 * 86_400)
    late = pulse.pulse(crawl.lake, after(crawl))
    lease = crawl.lake.claim(range(crawl.lake.buckets), "gone", after(crawl) - timedelta(hours=1), 60.0)
    vanished = pulse.pulse(crawl.lake, after(crawl))
    crawl.lake.release(lease)

    assert (empty.frontier_size, empty.avg_recrawl_lag_hours, empty.stalls, empty.rounds) == (0, None, (), 0)
    assert (soon.frontier_size, soon.hosts_active, soon.due) == (10, 2, 0)
    assert soon.pages_per_sec > 0
    assert (soon.orders_waiting, waiting.orders_waiting, late.orders_waiting) == (0, 1, 0)
    assert late.paused == ("b.test",)
    assert (late.pages_per_sec, late.hosts_active, late.workers) == (0.0, 0, ())
    assert late.pages_due_again == late.due == 10
    assert 24 < late.avg_recrawl_lag_hours <= late.longest_recrawl_lag_hours < 240
    assert {stall.reason: stall.urls for stall in late.stalls} == {NOBODY: 10}
    assert {stall.reason for stall in vanished.stalls} == {VANISHED}


def test_the_log_of_orders_says_who_ordered_what_and_who_has_still_to_obey(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=2)).seed("http://a.test/")
    crawl.work()
    ordering.change_policy(crawl.lake, crawl.rules, {"politeness.delay_s": "3", "budget.path_depth": "5"}, now=NOON,
                           by="ann")  # fmt: skip
    ordering.recrawl(crawl.lake, hosts=["a.test"], now=NOON, by="bob")
    ordering.recrawl_buckets(crawl.lake, [1], visited_before=NOON, pattern="*/news/*", now=NOON, by="bob")
    before = order_log.listed(crawl.lake, order_log.Wanted())
    crawl.work()
    later = order_log.listed(crawl.lake, order_log.Wanted())

    assert [(one.ordered_by, one.names) for one in before[:3]] == [
        ("bob", ("bucket 1 */news/*",)), ("bob", ("a.test",)),
        ("ann", ("politeness.delay_s = 3", "budget.path_depth = 5")),
    ]  # fmt: skip
    assert [len(one.waits_for) for one in before] == [1, 1, 2, 0]
    assert all(one.waits_for == () for one in later)
    assert [one.ordered_by for one in order_log.listed(crawl.lake, order_log.Wanted(by="ann"))] == ["ann"]
    assert order_log.listed(crawl.lake, order_log.Wanted(before=before[1].order, most=1)) == [later[2]]
    assert "policy" not in {kind for one in later for kind in one.kinds}
    assert crawl.lake.scan("orders").select(pl.col("request_key").null_count()).collect().item() > 0
