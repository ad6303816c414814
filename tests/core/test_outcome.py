"""Every answer and every failure has one outcome, and every outcome one consequence."""

from datetime import timedelta
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import outcome
from crawl_pipeline.core.outcome import OUTCOMES, STATUSES, Again, of_status, retry_after_failure
from crawl_pipeline.core.policy import Retry

LISTED = (outcome.__doc__ or "").partition("is one of\n")[2]
DOCUMENTED = [line.split()[0] for line in LISTED.splitlines() if line.strip()]

WIRE = """truncated too_large timeout protocol_error decode_error connect_error dns_error tls_error address_refused
redirect_error"""


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (200, "fetched"), (203, "fetched"), (204, "fetched"), (206, "fetched"),
        (300, "client_error"), (301, "redirected"), (302, "redirected"), (303, "redirected"), (304, "not_modified"),
        (305, "client_error"), (307, "redirected"), (308, "redirected"),
        (400, "client_error"), (401, "forbidden"), (403, "forbidden"), (404, "gone"), (407, "forbidden"),
        (408, "client_error"), (410, "gone"), (418, "client_error"), (429, "throttled"), (451, "forbidden"),
        (500, "unavailable"), (502, "unavailable"), (503, "unavailable"), (599, "unavailable"),
        (100, "client_error"), (600, "client_error"), (999, "client_error"), (0, "client_error"),
    ],
)  # fmt: skip
def test_a_status_has_its_outcome(status, name):
    assert of_status(status) == name


def test_503_throttles_if_it_says_for_how_long():
    assert of_status(503, has_retry_after=True) == "throttled"


def test_retry_after_changes_no_other_status():
    for status in range(1000):
        if status != 503:
            assert of_status(status, has_retry_after=True) == of_status(status)


@given(st.integers(0, 999), st.booleans())
def test_every_status_has_an_outcome_with_a_consequence(status, has_retry_after):
    assert of_status(status, has_retry_after=has_retry_after) in OUTCOMES


@pytest.mark.parametrize("failure", WIRE.split())
def test_every_failure_of_the_wire_is_an_outcome(failure):
    assert failure in OUTCOMES


@pytest.mark.parametrize("name", OUTCOMES)
def test_every_outcome_says_what_follows(name):
    meaning = OUTCOMES[name]

    assert meaning.status in STATUSES
    assert meaning.again in get_args(Again)
    assert meaning.says


def test_every_status_of_a_url_is_documented_and_nothing_else():
    assert sorted(DOCUMENTED) == sorted(STATUSES)


def test_what_slows_a_host_is_asked_again():
    for name, meaning in OUTCOMES.items():
        if meaning.host_trouble:
            assert meaning.again in ("retry", "next round"), name


@given(st.integers(2, 40), st.floats(0.1, 1e4), st.floats(1.0, 1e6))
def test_waits_after_failures_double_up_to_the_cap(attempts, first_s, cap_s):
    policy = Retry(attempts=attempts, first_s=first_s, cap_s=cap_s)

    waits = [retry_after_failure(n, policy) for n in range(1, attempts)]

    assert waits[0] == timedelta(seconds=min(first_s, cap_s))
    for wait, following in pairwise(waits):
        assert following.total_seconds() == pytest.approx(min(2 * wait.total_seconds(), cap_s), abs=1e-5)


@given(st.integers(1, 5000), st.integers(0, 100))
def test_a_url_is_given_up_after_the_last_attempt(attempts, more):
    policy = Retry(attempts=attempts)

    assert retry_after_failure(attempts + more, policy) is None
    assert attempts == 1 or retry_after_failure(attempts - 1, policy) is not None
