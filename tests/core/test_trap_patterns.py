"""The sequential test of URL patterns: its numbers, its errors, what it does and what it never does."""

import random
from datetime import timedelta

import polars as pl
import pytest
from crawl_rows import NOON, after, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import traps
from crawl_pipeline.core.tables import PATTERNS
from crawl_pipeline.core.traps import BLOCKED, CLEARED, GOOD, NONE, THROTTLED, News, Steps

PATTERN = "/cal/{int}"
TRIAL = {"host": pl.String, "pattern": pl.String, "shape": pl.String, "url": pl.String, "verdict": pl.String,
         "like": pl.String}  # fmt: skip
NOTHING = PATTERNS.empty()


def news(*verdicts: str, pattern: str = PATTERN, released=False, split=False, **others) -> News:
    key = {"host": "a.test", "pattern": pattern, "shape": "/{slug}/{int}"}
    trials = [key | {"url": f"http://a.test/{n}", "verdict": v, "like": None} for n, v in enumerate(verdicts)]
    grows = {"grown_count": 50} | {name: value for name, value in others.items() if name in traps.COUNTS}
    counts = [key | grows]
    linked = [
        key | {"linked_from": site, "listed": others.get("listed", False)} for site in others.get("sites", [None])
    ]
    return News(
        pl.DataFrame(trials, schema=TRIAL), pl.DataFrame(counts).with_columns(pl.selectors.integer().cast(pl.Int64)),
        pl.DataFrame(linked, schema_overrides={"linked_from": pl.Int64}),
        pl.DataFrame([key] if released else [], schema={"host": pl.String, "pattern": pl.String}),
        pl.DataFrame([{"host": "a.test", "path": key["shape"]}] if split else [],
                     schema={"host": pl.String, "path": pl.String}),
    )  # fmt: skip


def row(*told: News, rules=None, seconds: float = 0.0) -> dict:
    """The row of the pattern after these rounds."""
    before = NOTHING
    for n, one in enumerate(told):
        learnt = traps.learn(before, one, after(seconds * n), rules or policy())
        before = pl.concat([learnt, before]).unique(["host", "pattern"], keep="first", maintain_order=True)
    return before.filter(pattern=PATTERN).row(0, named=True)


def test_the_numbers_are_those_that_are_told():
    steps = Steps.of(policy())

    assert [round(value, 3) for value in (steps.worthless, steps.good)] == [0.588, -1.609]
    assert [round(value, 1) for value in (steps.suspicious, steps.block, steps.clear)] == [4.6, 9.2, -4.6]


@pytest.mark.parametrize(
    ("verdicts", "action"),
    [
        (["near"] * 7, NONE),
        (["near"] * 8, THROTTLED),
        (["exact"] * 15, THROTTLED),
        (["thin"] * 16, BLOCKED),
        ([GOOD] * 2, NONE),
        ([GOOD] * 3, CLEARED),
        ([GOOD] * 9 + ["near"] * 23, THROTTLED),
        ([GOOD] * 9 + ["near"] * 24, BLOCKED),
        (["near"] * 40 + [GOOD] * 2, BLOCKED),
        (["near"] * 40 + [GOOD] * 3, NONE),
    ],
)
def test_pages_lead_to_an_action_one_after_the_other(verdicts, action):
    assert row(news(*verdicts))["action"] == action


@given(st.lists(st.sampled_from([GOOD, "near", "exact", "thin"]), max_size=60), st.integers(0, 60))
def test_it_does_not_matter_how_pages_are_dealt_out_to_rounds(verdicts, cut):
    rounds = row(news(*verdicts[:cut]), news(*verdicts[cut:]))

    assert rounds["trap_score"] == pytest.approx(row(news(*verdicts))["trap_score"])
    assert rounds["trial_count"] == len(verdicts)
    assert rounds["near_count"] == verdicts.count("near")


def test_the_errors_are_within_what_is_told():
    steps, chance = Steps.of(policy()), random.Random(5)

    def ends(share: float) -> tuple[str, int]:
        score = 0.0
        for n in range(1, 2_000):
            score += steps.worthless if chance.random() < share else steps.good
            if not steps.clear < score < steps.block:
                return ("blocked" if score > 0 else "cleared"), n
        return "open", n

    ordinary, trap = ([ends(share) for _ in range(3_000)] for share in (0.5, 0.9))
    assert sum(end == "blocked" for end, _ in ordinary) <= 2
    assert sum(end == "cleared" for end, _ in trap) <= 0.015 * 3_000
    assert sum(n for _, n in ordinary) / 3_000 < 12
    assert sum(n for _, n in trap) / 3_000 < 28


@pytest.mark.parametrize("spared", [{"sites": [1, 2, 3]}, {"listed": True}])
def test_what_others_vouch_for_is_only_drawn_seldom(spared):
    assert row(news(*["near"] * 40, **spared))["action"] == THROTTLED


def test_links_of_two_other_sites_spare_no_pattern():
    assert row(news(*["near"] * 40, sites=[1, 2, 2]))["action"] == BLOCKED


def test_the_front_page_is_never_blocked():
    learnt = traps.learn(NOTHING, news(*["near"] * 40, pattern="/"), NOON, policy())

    assert learnt["action"].item() == THROTTLED


def test_copies_of_which_there_are_no_more_are_drawn_seldom_and_never_blocked():
    told = news(*[GOOD] * 9)

    assert row(told, news(*["near"] * 40, grown_count=7))["action"] == THROTTLED
    assert row(told, news(*["near"] * 40, grown_count=8))["action"] == BLOCKED


SIGNS = {"out_link_count": 100, "own_link_count": 100, "step_link_count": 100, "new_url_count": 500}


def test_signs_of_a_calendar_never_act_alone():
    assert row(news(*["near"] * 3, **SIGNS))["action"] == NONE
    assert row(news(*["near", GOOD] * 20, **SIGNS))["action"] in (NONE, CLEARED)


def test_signs_of_a_calendar_add_to_what_pages_say():
    assert row(news(*["near"] * 13, **SIGNS))["action"] == BLOCKED
    assert row(news(*["near"] * 13))["action"] == THROTTLED


def test_what_is_released_is_not_blocked_again_at_once_but_later():
    trap = news(*["near"] * 40)

    assert row(trap, news(released=True))["action"] == CLEARED
    assert row(trap, news(released=True), trap)["action"] == THROTTLED
    later = policy(traps={"released_s": 60.0})
    assert row(trap, news(released=True), trap, rules=later, seconds=100)["action"] == BLOCKED


@pytest.mark.parametrize(("act", "action"), [("throttle", THROTTLED), ("record", NONE)])
def test_a_policy_may_ask_for_less(act, action):
    assert row(news(*["near"] * 40), rules=policy(traps={"act": act}))["action"] == action


def test_a_shape_of_which_a_pattern_is_taken_out_begins_anew_and_the_pattern_at_suspicion():
    whole = traps.learn(NOTHING, news(*["near"] * 40, pattern="/{slug}/{int}"), NOON, policy())
    told = news(split=True)
    both = traps.learn(whole, told, NOON, policy())
    shape = traps.learn(whole, news(pattern="/{slug}/{int}", split=True), NOON, policy())

    assert both.filter(pattern=PATTERN)["trap_score"].item() == pytest.approx(Steps.of(policy()).suspicious)
    assert shape.row(0, named=True)["trap_score"] == 0
    assert shape.row(0, named=True)["action"] == NONE


def test_when_the_next_probe_begins_is_told():
    blocked = row(news(*["near"] * 20), news("near"), seconds=3_000_000)

    assert blocked["probe_at"] == NOON + timedelta(seconds=2 * 2_592_000)


def test_patterns_beyond_the_bound_of_a_host_count_as_one():
    keys = [{"host": "a.test", "pattern": f"/{n}", "shape": f"/{n}"} for n in range(5)]
    known = PATTERNS.frame(keys[3:4])

    found = traps.bounded(pl.DataFrame(keys), known, 3)

    assert found["pattern"].to_list() == ["/0", "/1", "*", "/3", "*"]


def test_what_is_known_is_said_in_words():
    said = traps.in_words(row(news(*["near"] * 20, GOOD, **SIGNS)), policy())

    assert said.startswith("/cal/{int} is blocked: of 21 pages judged 20 near; score 7.6, with: its links lead back")


def test_patterns_of_one_path_are_judged_together_when_none_is_good():
    names = ("a", "b", "c")
    bad = [news(*["near"] * 6, pattern=f"/list?{name}") for name in names]
    rows = pl.concat([traps.learn(NOTHING, one, NOON, policy()) for one in bad])
    good = traps.learn(NOTHING, news(*[GOOD] * 5, pattern="/list?page"), NOON, policy())

    assert traps.paths(rows, policy()).select("path", "held").rows() == [("/list", True)]
    assert not traps.paths(pl.concat([rows, good]), policy())["held"].any()
    assert not traps.paths(rows.head(2), policy())["held"].any()


def test_what_failed_may_take_a_tenth_of_its_hosts_time_and_no_more():
    acted = row(news(*[traps.FAILED] * 3)) | {"host": "a.test"}

    def allowed(seconds: float, **other) -> float | None:
        frame = PATTERNS.frame([acted | other])
        return frame.select(traps.allowed_failures(policy(), after(seconds))).item()

    assert acted["action"] == THROTTLED
    assert allowed(0) == 3
    assert allowed(6_000) == pytest.approx(3 + 0.1 * 6_000 / (30 + 30))
    assert allowed(0, trial_count=6) is None
    assert allowed(0, action=NONE) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"ordinary": 0.9, "trap": 0.9}, {"trap": 1.0}, {"ordinary": 0.0}, {"block_error": 0.0}, {"block_error": 0.5},
        {"clear_error": 0.0}, {"weight": 0.0}, {"weight": 1.5}, {"doubt_urls": 0}, {"probe_share": 1.1},
        {"probe_s": 0.0}, {"linking_sites": 0}, {"patterns": 0}, {"signatures": 0}, {"parameters": -1},
        {"parameter_equal": 0.5}, {"act": "hold"}, {"thin": 3},
    ],
)  # fmt: skip
def test_numbers_with_which_the_test_would_mean_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        policy(traps=wrong)


@pytest.mark.parametrize("odd", [{"probe_share": 0.0, "probe_urls": 0}, {"probe_s": 1e-6}, {"thin_tokens": 0}])
def test_odd_numbers_that_are_allowed_work(odd):
    assert row(news(*["near"] * 40), rules=policy(traps=odd))["action"] == BLOCKED
