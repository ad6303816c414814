"""URLs that sitemaps name take their turns in portions."""

from datetime import timedelta

import polars as pl
from crawl_rows import NOON, after, host, hosts, link, links, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import portions, urls

# One request a second of which half are for sitemaps: 30 URLs a portion.
RULES = policy(
    politeness={"delay_s": 1.0, "download_factor": 0.0}, sitemap={"share": 0.5, "portion_s": 60.0}
)  # fmt: skip


def named(count, name="a.test", start=0, **columns):
    """URLs of a host, each modified a minute before the one before."""
    return pl.DataFrame(
        [{"url_hash": urls.url_hash(f"http://{name}/{n}"), "host": name, "depth": 1, "lastmod_at": after(-60.0 * n)}
         | columns for n in range(start, start + count)]
    )  # fmt: skip


def turns(rows, among, at=NOON):
    """Seconds from noon to each URL's turn, in the order of the rows, and the hosts as they are then."""
    given_out, until = portions.give_out(rows, among, RULES, at)
    dates = rows.join(given_out, on="url_hash", how="left", maintain_order="left")["turn_at"]
    return [(date - NOON).total_seconds() for date in dates], among.with_columns(until)


def test_the_most_recently_modified_come_first_a_portion_at_a_time():
    found, _ = turns(named(70), hosts(host("a.test")))

    assert found == [0] * 30 + [60] * 30 + [120] * 10


def test_what_has_no_date_or_one_yet_to_come_is_last():
    rows = pl.concat([named(1, lastmod_at=after(60)), named(30, start=1)])

    assert turns(rows, hosts(host("a.test")))[0] == [60] + [0] * 30


def test_a_second_sitemap_stands_behind_the_first():
    _, among = turns(named(70), hosts(host("a.test")))
    found, _ = turns(named(40, start=70), among, at=after(60))

    assert found == [120] * 20 + [180] * 20


def test_hosts_do_not_wait_for_each_other_and_a_slow_one_has_small_portions():
    slow = host("b.test", crawl_delay_s=30.0)
    found, _ = turns(pl.concat([named(30), named(3, "b.test")]), hosts(host("a.test"), slow, host("c.test")))

    assert found == [0] * 30 + [0, 60, 120]


@given(st.lists(st.tuples(st.integers(1, 80), st.integers(0, 200)), min_size=1, max_size=6))
def test_none_is_lost_and_no_more_than_two_portions_fall_due_in_the_time_of_one(batches):
    among, at, start, found = hosts(host("a.test")), 0.0, 0, list[float]()
    for count, wait in batches:
        at += wait
        dates, among = turns(named(count, start=start), among, at=after(at))
        assert len(dates) == count
        assert min(dates) >= at
        found, start = found + dates, start + count

    most = max(sum(one <= other < one + 60 for other in found) for one in found)
    assert most <= 2 * 30
    assert max(found) - at <= start / 30 * 60


def test_only_what_nothing_but_sitemaps_name_waits():
    rows = links(
        link("http://a.test/1", kind="listed", lastmod_at=NOON - timedelta(days=1)),
        link("http://a.test/2", kind="listed"), link("http://a.test/2"),
        link("http://a.test/map.xml", kind="sitemap", depth=0), link("http://a.test/part.xml", kind="sitemap"),
    )  # fmt: skip

    waits = portions.patient(rows)

    expected = {urls.url_hash("http://a.test/1"): NOON - timedelta(days=1),
                urls.url_hash("http://a.test/part.xml"): None}  # fmt: skip
    assert dict(waits.iter_rows()) == expected
