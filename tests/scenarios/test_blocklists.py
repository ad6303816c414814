"""What a person blocks is not asked for, known or not, by whatever way it is met, and comes back with the list."""

import pytest
from crawls import NOON, Crawl, policy

from crawl_pipeline import explaining
from crawl_pipeline.core import blocks
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import html, redirect, robots, routes
from tests.effort import some

OPEN = {"follow": "everywhere"}
B = "http://b.test/"


@pytest.mark.parametrize(
    ("block", "reason"),
    [({"hosts": ["b.test"]}, blocks.HOSTS), ({"sites": ["b.test"]}, blocks.SITES), ({"urls": [f"{B}*"]}, blocks.URLS)],
)
def test_what_is_blocked_is_refused_with_its_reason_and_never_asked(tmp_path, block, reason):
    home = site("a.test", pages=3, links={"/": [B, f"{B}1"]})
    crawl = Crawl(tmp_path, home, site("b.test", pages=3), rules=policy(scope=OPEN, block=block))

    crawl.seed("http://a.test/", B).work()

    assert len(crawl.stored("a.test")) == 3
    assert crawl.web.asked("b.test") == []
    assert crawl.tally("refused")[reason] == 3
    assert reason in explaining.explain(crawl.lake, crawl.rules, f"{B}1", NOON).because
    crawl.check()


@pytest.mark.parametrize(
    ("block", "reason"),
    some(
        [
            ({"urls": [f"{B}*"]}, blocks.URLS),
            ({"hosts": ["b.test"]}, blocks.HOSTS),
            ({"sites": ["b.test"]}, blocks.SITES),
        ]
    ),
)
def test_known_urls_wait_while_they_are_blocked_and_come_back_when_they_are_not(tmp_path, block, reason):
    crawl = Crawl(tmp_path, site("a.test", pages=2), site("b.test", pages=9), buckets=1)
    crawl.seed("http://a.test/", B).work(seconds=4)
    asked = len(crawl.asked("b.test"))
    assert 0 < asked < 9

    crawl.rules = policy(block=block)
    worked = crawl.work(seconds=600)

    assert worked.stopped == "nothing to ask before 2026-03-08 12:00:01 UTC"
    assert len(worked.rounds) < 6
    assert len(crawl.asked("b.test")) == asked
    assert crawl.tally("left_out")[reason] > 0
    assert reason in explaining.explain(crawl.lake, crawl.rules, B, NOON).because

    crawl.rules = policy()
    crawl.work(seconds=600)
    assert len(crawl.stored("b.test")) == 9
    crawl.check()


@pytest.mark.parametrize("block", some([{"urls": [f"{B}*"]}, {"hosts": ["b.test"]}, {"sites": ["b.test"]}]))
def test_a_robots_txt_that_is_sent_on_to_a_blocked_host_cannot_be_read(tmp_path, block):
    moved = Host("a.test", routes({"/robots.txt": redirect(f"{B}robots.txt"), "/": html("Home")}))
    crawl = Crawl(tmp_path, moved, Host("b.test", robots(routes({}), "")), rules=policy(block=block))

    crawl.seed("http://a.test/").work(seconds=60)

    assert crawl.web.paths("a.test") == ["/robots.txt"]
    assert crawl.web.asked("b.test") == []
    assert crawl.url("http://a.test/")["outcome"] == "robots_unreachable"
    assert "blocked by block." in crawl.url("http://a.test/")["reason"]
    crawl.check()


def test_a_page_that_is_sent_on_to_a_blocked_url_ends_there(tmp_path):
    crawl = Crawl(
        tmp_path,
        Host("a.test", robots(routes({"/": redirect("/private/x")}), "")),
        rules=policy(block={"urls": ["*/private/*"]}),
    )

    crawl.seed("http://a.test/").work()

    assert crawl.asked("a.test") == ["/"]
    assert crawl.tally("refused") == {blocks.URLS: 1}
    crawl.check()
