"""What is believed of a page before its visits tell: its host's mean, shrunk to that of all."""

import pytest
from crawl_rows import history, host, hosts, policy

from crawl_pipeline.core import prior

POLICY = policy()


def mean_of(name, *rows):
    found = dict(prior.of_hosts(hosts(*rows), POLICY).iter_rows())
    return prior.SHAPE / found[name]


def test_before_anything_is_known_a_page_is_expected_to_change_in_the_first_wait():
    assert mean_of("a.test", host("a.test")) == pytest.approx(1 / 7)


def test_a_host_of_fast_pages_makes_its_other_pages_be_expected_to_be_fast():
    fast, slow = host("a.test", rate_sum=200.0, rate_count=100), host("b.test", rate_sum=1.0, rate_count=100)

    means = [mean_of(name, fast, slow, host("c.test")) for name in ("a.test", "b.test", "c.test")]

    assert means[0] == pytest.approx((200 + 20 * means[2]) / 120)
    assert means[1] == pytest.approx((1 + 20 * means[2]) / 120)
    assert means[2] == pytest.approx((201 + 20 / 7) / 220)


def test_whatever_pages_say_a_mean_stays_within_limits():
    assert mean_of("a.test", host("a.test", rate_sum=1e9, rate_count=100)) == pytest.approx(prior.LIMITS[1])


def test_a_page_counts_once_in_its_hosts_mean_however_often_it_is_visited():
    first = history(rate=0.5)

    assert prior.told(first, history().head(0)) == {"a.test": (0.5, 1)}
    assert prior.told(history(rate=0.2), first) == {"a.test": (pytest.approx(-0.3), 0)}
    assert prior.told(history(rate=None), history().head(0)) == {"a.test": (0.0, 0)}
