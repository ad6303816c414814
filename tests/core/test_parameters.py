"""A parameter is dropped when pages show that it does not matter, within the stated errors, and never before."""

import random
from collections.abc import Iterable

import pytest
from crawl_rows import policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import parameters, urls
from crawl_pipeline.core.parameters import BARE, DROPPED, Known, Pair
from crawl_pipeline.core.traps import CLEARED, NONE

RULES = policy()
NEEDED = 14


def pairs(*same: bool, bare: bool = False) -> list[Pair]:
    return [Pair("sid", "http://a.test/1", "http://a.test/2", one, bare) for one in same]


def alone(found: Iterable[Pair]) -> list[Pair]:
    return [pair for pair in found if parameters.BOTH not in pair.name]


def test_the_numbers_are_those_that_are_told():
    test = parameters.steps(RULES)

    assert (round(test.worthless, 2), round(test.good, 2)) == (0.67, -3.22)
    assert parameters.after(0.0, pairs(*[True] * NEEDED), RULES) == pytest.approx(test.block)
    assert parameters.after(0.0, pairs(*[True] * (NEEDED - 1)), RULES) < test.block


@pytest.mark.parametrize(
    ("same", "bare", "was", "expected"),
    [
        (NEEDED, BARE, NONE, DROPPED),
        (NEEDED, BARE - 1, NONE, NONE),
        (NEEDED - 1, BARE, NONE, NONE),
        (7, BARE, DROPPED, DROPPED),
        (6, BARE, DROPPED, NONE),
        (7, BARE, CLEARED, CLEARED),
        (NEEDED, BARE, CLEARED, DROPPED),
    ],
)
def test_equal_pairs_lead_to_an_action(same, bare, was, expected):
    score = parameters.after(0.0, pairs(*[True] * same), RULES)

    assert parameters.action(score, bare, was, RULES) == expected


def test_two_pairs_that_differ_clear_a_parameter_and_two_bring_a_dropped_one_back():
    assert parameters.action(parameters.after(0.0, pairs(False, False), RULES), 0, NONE, RULES) == CLEARED
    dropped = parameters.after(0.0, pairs(*[True] * 100), RULES)
    assert parameters.action(parameters.after(dropped, pairs(False), RULES), 9, DROPPED, RULES) == DROPPED
    assert parameters.action(parameters.after(dropped, pairs(False, False), RULES), 9, DROPPED, RULES) == NONE


def test_what_a_person_released_and_a_policy_that_only_records_drop_nothing():
    score = parameters.after(0.0, pairs(*[True] * NEEDED), RULES)

    assert parameters.action(score, BARE, NONE, RULES, fresh=True) == NONE
    assert parameters.action(score, BARE, NONE, policy(traps={"act": "throttle"})) == NONE


def test_the_errors_are_within_what_is_told():
    chance = random.Random(1)

    def is_dropped(share: float) -> bool:
        score = 0.0
        for _ in range(200):
            score = parameters.after(score, pairs(chance.random() < share), RULES)
            if score <= parameters.steps(RULES).clear:
                return False
            if score >= parameters.steps(RULES).block:
                return True
        return False

    assert sum(is_dropped(0.5) for _ in range(4_000)) <= 3
    assert sum(not is_dropped(0.98) for _ in range(1_000)) <= 30


def test_pairs_are_urls_that_differ_in_one_parameter_or_lack_it():
    known = Known(100)
    known.add("http://a.test/p?sid=1&x=2", (7,))

    assert alone(known.pairs("http://a.test/p?sid=2&x=2", (7,))) == [
        Pair("sid", "http://a.test/p?sid=2&x=2", "http://a.test/p?sid=1&x=2", same=True, bare=False)
    ]
    assert list(known.pairs("http://a.test/p?x=2", (8,))) == [
        Pair("sid", "http://a.test/p?x=2", "http://a.test/p?sid=1&x=2", same=False, bare=True)
    ]
    assert alone(known.pairs("http://a.test/p?sid=2&x=3", (7,))) == []
    known.add("http://a.test/p?x=2", (7,))
    assert [(pair.name, pair.bare) for pair in alone(known.pairs("http://a.test/p?sid=3&x=2", (7,)))] == [("sid", True)]


def test_a_url_that_is_refused_without_a_parameter_speaks_for_the_parameter():
    known = Known(100)
    known.add("http://a.test/p?id=1", (7,))

    assert [(pair.name, pair.same) for pair in known.refused("http://a.test/p")] == [("id", False)]
    assert list(known.refused("http://a.test/q")) == []


@given(st.lists(st.sampled_from(["/a", "/a?x=1", "/a?x=2", "/a?y=1", "/a?x=1&y=1", "/b?x=1", "/b?x&x=2"]), max_size=30))
def test_of_a_host_few_urls_are_kept_and_nothing_else(paths):
    known = Known(3)
    for path in paths:
        known.add(f"http://a.test{path}", (1,))

    assert len(known.contents) <= 3
    kept = {rest for url in known.contents for _, rest in parameters.without_each(url)}
    assert set(known.variants) <= kept
    assert all(url in known.contents for names in known.variants.values() for url in names.values())


@given(st.lists(st.sampled_from(["a=1", "b", "c=%20", "a=2", "d="]), max_size=5))
def test_a_url_without_a_parameter_is_canonical_and_lacks_it(parts):
    url = urls.canonical("http://a.test/p?" + "&".join(parts))

    for name, rest in parameters.without_each(url):
        assert urls.canonical(rest) == rest
        assert name not in {part.partition("=")[0] for part in rest.partition("?")[2].split("&") if part}
        assert parameters.without(rest, [name]) == rest


def test_two_that_always_differ_together_are_judged_as_one():
    known = Known(100)
    known.add("http://a.test/p?id=1&sid=1&sum=9", (7,))

    found = list(known.pairs("http://a.test/p?id=1&sid=2&sum=8", (7,)))

    assert [(pair.name, pair.same, pair.bare) for pair in found] == [("sid&sum", True, False)]
    known.add("http://a.test/p?id=1", (7,))
    found = list(known.pairs("http://a.test/p?id=1&sid=3&sum=5", (7,)))
    assert [(pair.name, pair.same, pair.bare) for pair in found] == [("sid&sum", True, True)]


def test_two_together_are_left_out_where_a_url_has_both_only():
    assert parameters.bare("http://a.test/p?sid=1&id=2&sum=3", ["sid&sum"]) == "http://a.test/p?id=2"
    assert parameters.bare("http://a.test/p?sid=1&id=2", ["sid&sum"]) == "http://a.test/p?sid=1&id=2"
    assert parameters.bare("http://a.test/p?sid=1&id=2&sum=3", ["sid", "id&sum"]) == "http://a.test/p"


def test_a_url_of_hundreds_of_parameters_makes_no_trial_and_is_not_kept_once_for_each():
    many = [f"a{number}=1" for number in range(parameters.MOST_NAMES + 1)]
    known = Known(100)
    known.add(f"http://a.test/p?{'&'.join(many)}", (7,))

    assert not known.variants
    assert len(parameters.without_each(f"http://a.test/p?{'&'.join(many[1:])}")) == parameters.MOST_NAMES
    assert parameters.bare(f"http://a.test/p?{'&'.join(many)}", ["a0"]) == f"http://a.test/p?{'&'.join(many[1:])}"
