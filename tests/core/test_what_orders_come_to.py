"""What orders come to: the last word counts, reading twice does no harm, the log may be taken in pieces."""

from typing import Any

import polars as pl
import pytest
from crawl_rows import NOON, due, hosts, policy
from crawl_rows import host as known_host
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import frontier, orders, settings, urls
from crawl_pipeline.core.orders import NOTHING, InForce, Tag, fold
from crawl_pipeline.core.outcome import ORDERED
from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.core.tables import ORDERS

PAGES = ["http://a.test/x", "http://a.test/y", "http://www.a.test/x", "http://b.test/x"]


def rows(*given_: dict[str, Any]) -> pl.DataFrame:
    """Orders, numbered as they are given."""
    return ORDERS.frame(
        [{"order": n, "ordered_at": NOON, "ordered_by": "a person"} | row for n, row in enumerate(given_)]
    )


def of_url(kind: str, url: str, **columns: Any) -> dict[str, Any]:
    return {"kind": kind, "url": url, "host": urls.host(url)} | columns


def forgotten(in_force: InForce, *pages: str) -> set[str]:
    """Which of these pages are forgotten."""
    frame = pl.DataFrame([(url, urls.url_hash(url), urls.host(url), urls.site(urls.host(url))) for url in pages],
                         schema=["url", "url_hash", "host", "site"], orient="row")  # fmt: skip
    return set(frame.filter(orders.is_forgotten(in_force))["url"])


# Laws.

words = st.one_of(
    st.builds(of_url, st.sampled_from(["seed", "forget", "recrawl"]), st.sampled_from(PAGES)),
    st.builds(lambda url, tag: of_url("seed", url, tag=tag, topic=tag), st.sampled_from(PAGES), st.sampled_from("tu")),
    st.builds(lambda page: {"kind": "forget", "host": urls.host(page)}, st.sampled_from(PAGES)),
    st.builds(lambda page: {"kind": "forget", "site": urls.site(urls.host(page))}, st.sampled_from(PAGES)),
    st.builds(lambda value: {"kind": "set", "policy_key": "politeness.delay_s", "policy_value": str(value)},
              st.integers(1, 9)),
    st.builds(lambda value: {"kind": "set", "policy_key": "delay_s", "policy_value": str(value), "host": "a.test"},
              st.integers(1, 9)),
    st.just({"kind": "unset", "policy_key": "politeness.delay_s"}),
    st.just({"kind": "unset", "policy_key": "delay_s", "host": "a.test"}),
    st.just({"kind": "pause", "host": "a.test"}),
)  # fmt: skip
logs = st.lists(words, max_size=12)


@given(logs)
def test_orders_read_twice_come_to_the_same(log):
    once = fold(NOTHING, rows(*log))

    assert fold(once, rows(*log)) == once


@given(logs, st.integers(0, 12))
def test_a_log_taken_in_pieces_comes_to_the_same(log, cut):
    frame = rows(*log)

    assert fold(fold(NOTHING, frame.head(cut)), frame.slice(cut)) == fold(NOTHING, frame)


@given(logs)
def test_a_setting_is_what_was_said_last(log):
    said = {}
    for word in log:
        if word["kind"] in ("set", "unset"):
            said[word.get("host"), word["policy_key"]] = word.get("policy_value")

    in_force = fold(NOTHING, rows(*log))

    wanted = {place: value for place, value in said.items() if value is not None}
    assert {(one.host, one.key): one.value for one in in_force.settings.values()} == wanted
    made = settings.overlay(policy(), in_force.settings.values())
    assert made.politeness.delay_s == float(wanted.get((None, "politeness.delay_s"), policy().politeness.delay_s))
    assert made.delay_s("a.test") == float(wanted.get(("a.test", "delay_s"), made.politeness.delay_s))


@given(logs, st.sampled_from(PAGES))
def test_a_seed_lifts_and_a_later_order_forgets_again(log, page):
    seeded = fold(NOTHING, rows(*log, of_url("seed", page)))
    again = fold(seeded, rows(*log, of_url("seed", page), {"kind": "forget", "site": "a.test"}).tail(1))

    assert page not in forgotten(seeded, page)
    assert forgotten(again, *PAGES[:3]) == set(PAGES[:3])


@given(logs)
def test_settings_may_be_laid_over_in_any_order_and_twice(log):
    told = list(fold(NOTHING, rows(*log)).settings.values())
    made = settings.overlay(policy(), told)

    assert settings.overlay(policy(), told[::-1]) == made
    assert settings.overlay(made, told) == made
    assert (made.id == policy().id) == (made == policy())


# Forgetting.


def test_what_is_forgotten_is_a_url_a_host_or_a_whole_site():
    told = [of_url("forget", PAGES[0]), {"kind": "forget", "host": "a.test"}, {"kind": "forget", "site": "a.test"}]

    found = [forgotten(fold(NOTHING, rows(word)), *PAGES) for word in told]

    assert found == [set(PAGES[:1]), set(PAGES[:2]), set(PAGES[:3])]


def test_a_forgotten_site_is_lifted_host_by_host():
    in_force = fold(NOTHING, rows({"kind": "forget", "site": "a.test"}, of_url("seed", "http://a.test/")))

    assert forgotten(in_force, *PAGES) == {"http://www.a.test/x"}


def test_a_url_forgotten_by_itself_stays_so_when_its_host_is_lifted():
    told = rows({"kind": "forget", "host": "a.test"}, of_url("forget", PAGES[0]), of_url("seed", "http://a.test/"))

    assert forgotten(fold(NOTHING, told), *PAGES) == {PAGES[0]}


# What orders make of known URLs.


def obeyed(in_force: InForce, told: pl.DataFrame, **columns: Any) -> dict[str, Any] | None:
    known = due("a.test", 1, **columns)
    among = hosts(known_host("a.test"))
    worded = orders.words(known.with_columns(site=pl.lit("a.test")), told, among, in_force)
    return next(frontier.obey(worded, NOON).iter_rows(named=True), None)


@pytest.mark.parametrize("status", ["waiting", "fetched", "redirected", "refused", "unfit", "gone", "dead"])
def test_a_recrawl_makes_any_known_url_due_and_counts_failures_anew(status):
    told = rows({"kind": "recrawl", "site": "a.test"})

    row = obeyed(fold(NOTHING, told), told, status=status, attempts=5, due_at=None)

    assert row is not None
    assert (row["status"], row["due_at"], row["attempts"]) == (status, NOON, 0)


def test_a_recrawl_leaves_forgotten_and_other_urls_alone():
    told = rows({"kind": "forget", "host": "a.test"}, {"kind": "recrawl", "host": "a.test"})
    other = rows({"kind": "recrawl", "host": "b.test"})

    assert obeyed(fold(NOTHING, told), told, status="forgotten", due_at=None) is None
    assert obeyed(fold(NOTHING, other), other, status="gone") is None


def test_a_known_url_is_forgotten_and_lifted():
    told = rows({"kind": "forget", "host": "a.test"}, of_url("seed", "http://a.test/"))

    gone = obeyed(fold(NOTHING, told.head(1)), told.head(1), status="fetched")
    back = obeyed(fold(NOTHING, told), told.tail(1), status="forgotten", due_at=None)

    assert gone is not None
    assert back is not None
    assert (gone["status"], gone["due_at"]) == ("forgotten", None)
    assert (back["status"], back["due_at"]) == ("waiting", NOON)
    assert {"forget", "seed", "recrawl"} == set(ORDERED)


# Tags.


def test_a_tag_is_what_its_lists_said_of_it():
    told = rows(of_url("seed", PAGES[0], tag="t"), of_url("seed", PAGES[1], tag="t", topic="maths"),
                of_url("seed", PAGES[2], tag="t", region="eu", band=2))  # fmt: skip

    assert fold(NOTHING, told).tags == {"t": Tag("maths", "eu", 2)}


def test_tags_contradict_each_other_where_both_say_something():
    assert Tag("maths").contradicts(Tag("art", "eu"))
    assert not Tag("maths", "eu", 2).contradicts(Tag("maths"))
    assert not Tag().contradicts(Tag("maths", "eu", 2))


# Settings as people type them.


@pytest.mark.parametrize(
    ("key", "typed", "stands"),
    [
        ("politeness.delay_s", "5", "5"),
        ("scope.follow", "hosts", '"hosts"'),
        ("scope.follow", '"hosts"', '"hosts"'),
        ("scope.exclude", '["*/private/*"]', '["*/private/*"]'),
        ("recrawl.again", "false", "false"),
        ("scope.follow", 'x"\npoliteness = 1', '"x\\"\\npoliteness = 1"'),
    ],
)
def test_a_value_is_toml_or_else_text(key, typed, stands):
    assert settings.setting(key, typed).value == stands


@pytest.mark.parametrize(
    ("key", "host", "says"),
    [
        ("politeness.delay", None, "no such key in \\[politeness\\]; known here: delay_s"),
        ("delay_s", None, "known here: bands.KEY, politeness.KEY"),
        ("agent.name", None, "edit the policy file"),
        ("round.seconds", None, "edit the policy file"),
        ("politeness.delay_s", "a.test", "no such key for a host; known here: delay_s"),
    ],
)
def test_a_key_that_cannot_be_set_is_told_with_those_that_can(key, host, says):
    with pytest.raises(PolicyError, match=says):
        settings.setting(key, "1", host)


def test_an_order_asks_hosts_no_more_often_than_the_file_or_ten_times_a_second():
    def laid(key: str, value: str, host: str | None = None, **file: float) -> Policy:
        return settings.overlay(policy(politeness=file), [settings.setting(key, value, host)])

    for key, value, host in (("politeness.delay_s", "0.05", None), ("delay_s", "0.05", "a.test"),
                             ("politeness.retry_after_cap_s", "1", None),
                             ("politeness.crawl_delay_cap_s", "1", None)):  # fmt: skip
        with pytest.raises(PolicyError, match=r"expected .* s or more, found .*: crawl unset"):
            laid(key, value, host)
    assert laid("politeness.delay_s", "0.1").politeness.delay_s == 0.1
    assert laid("politeness.delay_s", "0.02", delay_s=0.01).politeness.delay_s == 0.02, "as the file says of our own"


def test_every_section_that_can_be_set_is_one_of_the_policy():
    assert set(settings.SETTABLE) < set(settings.policies.sections())


def test_a_setting_that_does_not_fit_is_told_with_its_order_and_the_way_back():
    told = fold(NOTHING, rows({"kind": "set", "policy_key": "politeness.delay_s", "policy_value": "-1"}))

    with pytest.raises(PolicyError, match=r"order 0 of a person .* crawl unset politeness.delay_s"):
        settings.overlay(policy(), told.settings.values())
