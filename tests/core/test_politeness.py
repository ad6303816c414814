"""The gap after a request is never less than promised, grows with trouble and shrinks with calm."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.policy import Agent, HostRule, Policy, Politeness
from crawl_pipeline.core.politeness import HostPace, after, gap_s

AGENT = Agent(name="ExampleBot", contact="https://example.org/")
POLICY = Policy(agent=AGENT)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TROUBLE = sorted(name for name, meaning in OUTCOMES.items() if meaning.host_trouble)
CALM = sorted(set(OUTCOMES) - set(TROUBLE))

short = st.floats(0.01, 100.0)
rules = st.builds(
    Politeness, delay_s=short, download_factor=st.floats(0, 20), download_gap_cap_s=short, crawl_delay_cap_s=short,
    retry_after_cap_s=short, backoff_first_s=short, backoff_cap_s=st.floats(0.01, 1e4),
    calm_answers=st.integers(1, 20), backoff_jitter=st.floats(0, 1), aside_after=st.integers(1, 5),
    aside_first_s=short, aside_cap_s=short,
)  # fmt: skip
policies = st.builds(lambda politeness: Policy(agent=AGENT, politeness=politeness), rules)
paces = st.builds(
    HostPace, crawl_delay_s=st.none() | st.floats(0, 1e6), backoff_s=st.floats(0, 1e4), calm_count=st.integers(0, 30),
    failures=st.integers(0, 30), download_s=st.floats(0, 100), aside_s=st.floats(0, 100),
)  # fmt: skip
requests = st.tuples(st.sampled_from(list(OUTCOMES)), st.floats(0, 100), st.none() | st.floats(0, 1e6))
chances = st.floats(0, 1, exclude_max=True)


@given(policies, paces, requests)
def test_the_gap_is_never_below_the_configured_delay(policy, pace, request):
    _, gap = after(pace, *request, policy, "a.test", NOON)

    assert gap >= policy.politeness.delay_s


@given(policies, paces, requests)
def test_the_gap_honours_every_reason_to_wait_up_to_its_cap(policy, pace, request):
    name, download_s, retry_after_s = request
    limits = policy.politeness

    moved, gap = after(pace, name, download_s, retry_after_s, policy, "a.test", NOON)

    assert gap >= min(limits.download_factor * download_s, limits.download_gap_cap_s)
    assert gap >= min(pace.crawl_delay_s or 0, limits.crawl_delay_cap_s)
    assert gap >= min(retry_after_s or 0, limits.retry_after_cap_s) + moved.backoff_s


@given(policies, paces, requests)
def test_the_gap_is_bounded_by_the_caps(policy, pace, request):
    limits = policy.politeness

    moved, gap = after(pace, *request, policy, "a.test", NOON)

    longest = max(limits.delay_s, limits.download_gap_cap_s, limits.crawl_delay_cap_s, limits.retry_after_cap_s,
                  limits.aside_cap_s, pace.aside_s)  # fmt: skip
    assert gap <= longest + max(pace.backoff_s, limits.backoff_cap_s * (1 + limits.backoff_jitter))
    assert moved.download_s == request[1]


@given(policies, st.lists(st.tuples(st.sampled_from(TROUBLE), chances), min_size=1, max_size=30))
def test_the_back_off_never_shrinks_while_trouble_lasts(policy, troubles):
    pace, seen = HostPace(), []
    for trouble, chance in troubles:
        pace, _ = after(pace, trouble, 0.1, None, policy, "a.test", NOON, chance)
        seen.append(pace.backoff_s)

    assert seen == sorted(seen)
    assert seen[-1] <= policy.politeness.backoff_cap_s * (1 + policy.politeness.backoff_jitter)
    assert pace.failures == len(troubles)


@given(policies, paces, requests, chances)
def test_chance_only_lengthens_a_wait(policy, pace, request, chance):
    plain_pace, plain_gap = after(pace, *request, policy, "a.test", NOON)
    drawn_pace, drawn_gap = after(pace, *request, policy, "a.test", NOON, chance)

    assert drawn_gap >= plain_gap
    assert plain_pace.backoff_s <= drawn_pace.backoff_s
    assert drawn_gap - plain_gap <= policy.politeness.backoff_cap_s * policy.politeness.backoff_jitter + 1e-6


def test_hosts_that_failed_together_come_back_apart():
    waits = {
        after(HostPace(), "timeout", 0, None, POLICY, "a.test", NOON, chance)[1] for chance in (0.0, 0.25, 0.5, 0.75)
    }

    assert waits == {2 + 8, 2 + 9, 2 + 10, 2 + 11}


def test_a_host_that_fails_in_a_row_is_put_aside_longer_each_time_until_it_answers():
    pace, seen = HostPace(), []
    for n, outcome in enumerate(["timeout", "connect_error", "unavailable", *["dns_error"] * 9, "fetched", "timeout"]):
        pace, _ = after(pace, outcome, 0, None, POLICY, "a.test", NOON + n * timedelta(minutes=10))
        seen.append(pace.aside_s)

    assert seen == [0, 0, 600, 1200, 2400, 4800, 9600, 19200, 38400, 76800, 86400, 86400, 0, 0]


def test_a_host_is_put_aside_only_when_it_has_failed_for_as_long_as_that():
    """Ten pages that never answer must not hold up the others of a host that answered a minute ago."""
    pace, asides = HostPace(), list[tuple[int, float]]()
    for minute in range(13):
        pace, _ = after(pace, "timeout", 0, None, POLICY, "a.test", NOON + timedelta(minutes=minute))
        asides.append((minute, pace.aside_s))

    assert [minute for minute, aside_s in asides if aside_s] == [10, 11, 12]
    pace, _ = after(pace, "fetched", 0, None, POLICY, "a.test", NOON + timedelta(minutes=13))
    assert (pace.aside_s, pace.troubled_at) == (0, None)


def test_a_host_that_asks_for_less_is_slowed_and_not_put_aside():
    pace = HostPace()
    for _ in range(9):
        pace, _ = after(pace, "throttled", 0, None, POLICY, "a.test", NOON)

    assert (pace.aside_s, pace.failures) == (0, 9)


@given(policies, paces)
def test_a_request_that_was_cut_off_tells_nothing_of_its_host(policy, pace):
    moved, _ = after(pace, "carried", pace.download_s, None, policy, "a.test", NOON)

    assert moved == pace


def test_a_page_that_began_and_never_ends_costs_its_own_time_and_no_back_off():
    calm = replace(HostPace(), download_s=0.1)
    drips, gap = after(calm, "timeout", 30.0, None, POLICY, "a.test", NOON, began=True)
    silent, longer = after(calm, "timeout", 30.0, None, POLICY, "a.test", NOON)

    assert drips == replace(calm, download_s=30.0)
    assert silent.backoff_s > 0
    assert longer > gap > after(calm, "fetched", 0.1, None, POLICY, "a.test", NOON)[1]


def test_the_back_off_doubles_from_its_first_value_to_its_cap():
    policy = Policy(agent=AGENT, politeness=Politeness(backoff_first_s=8, backoff_cap_s=50))
    pace, seen = HostPace(), []
    for _ in range(5):
        pace, _ = after(pace, "throttled", 0, None, policy, "a.test", NOON)
        seen.append(pace.backoff_s)

    assert seen == [8, 16, 32, 50, 50]


@given(policies, paces, st.lists(st.sampled_from(CALM), max_size=300))
def test_the_back_off_never_grows_while_all_is_calm(policy, pace, answers):
    for answer in answers:
        before = pace.backoff_s
        pace, _ = after(pace, answer, 0.1, None, policy, "a.test", NOON)
        assert pace.backoff_s <= before


def test_the_back_off_halves_after_so_many_calm_answers_and_ends():
    policy = Policy(agent=AGENT, politeness=Politeness(backoff_first_s=8, calm_answers=3))
    pace, seen = HostPace(backoff_s=16), []
    for _ in range(10):
        pace, _ = after(pace, "fetched", 0, None, policy, "a.test", NOON)
        seen.append(pace.backoff_s)

    assert seen == [16, 16, 8, 8, 8, 4, 4, 4, 0, 0]


def test_trouble_starts_the_count_of_calm_answers_again():
    policy = Policy(agent=AGENT, politeness=Politeness(calm_answers=3))
    pace = HostPace(backoff_s=16, calm_count=2)
    pace, _ = after(pace, "unavailable", 0, None, policy, "a.test", NOON)
    pace, _ = after(pace, "fetched", 0, None, policy, "a.test", NOON)

    assert (pace.backoff_s, pace.calm_count, pace.failures) == (32, 1, 0)


@pytest.mark.parametrize(
    ("pace", "retry_after_s", "gap"),
    [
        (HostPace(), None, 2),
        (HostPace(download_s=1.5), None, 7.5),
        (HostPace(download_s=60), None, 30),
        (HostPace(crawl_delay_s=10), None, 10),
        (HostPace(crawl_delay_s=0.5), None, 2),
        (HostPace(crawl_delay_s=600), None, 600),
        (HostPace(crawl_delay_s=864_000), None, 864_000),
        (HostPace(crawl_delay_s=1e300), None, 31_536_000),
        (HostPace(), 120, 120),
        (HostPace(), 1e9, 604_800),
        (HostPace(backoff_s=8), 120, 128),
        (HostPace(backoff_s=8, crawl_delay_s=10, download_s=1), None, 18),
    ],
)
def test_the_longest_reason_counts_and_the_back_off_is_added(pace, retry_after_s, gap):
    assert gap_s(pace, retry_after_s, POLICY, "a.test") == gap


def test_a_host_rule_replaces_the_general_delay():
    policy = Policy(agent=AGENT, host={"a.test": HostRule(delay_s=20)})

    assert gap_s(HostPace(), None, policy, "a.test") == 20
    assert gap_s(HostPace(), None, policy, "b.test") == 2
