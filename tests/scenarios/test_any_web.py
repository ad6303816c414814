"""Whatever the web and whenever workers die: every good page once, every host in peace, every count adding up."""

import tempfile
from pathlib import Path

import trio
from crawls import Crawl, policy, taking
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import at_first, redirect, robots, robots_text, slow, throttled, tree, unavailable
from tests.effort import times

NAMES = ["a.test", "c.test", "www.a.test", "d.test"]

troubles = st.sampled_from([None, throttled(), throttled(15), unavailable(), unavailable(9)])


@st.composite
def hosts(draw: st.DrawFn, name: str) -> tuple[Host, int]:
    """A tree of pages that may be slow, in trouble at first, with a Crawl-delay, or with its robots.txt elsewhere."""
    pages = draw(st.integers(1, 12))
    content = slow(tree(pages), first_byte_s=draw(st.sampled_from([0.0, 0.4, 2.1])))
    trouble = draw(troubles)
    if trouble is not None:
        content = at_first(content, trouble, requests=draw(st.integers(1, 2)))
    elsewhere = draw(st.sampled_from([None, None, *NAMES]))
    text = robots_text(crawl_delay_s=draw(st.sampled_from([None, 0.5, 2.5])))
    moved = elsewhere is not None and elsewhere != name
    return Host(name, robots(content, redirect(f"http://{elsewhere}/robots.txt", 302) if moved else text)), pages


webs = st.tuples(*(hosts(name) for name in NAMES))
deaths = st.lists(st.floats(0.05, 40), max_size=2)


@settings(max_examples=times(1, 10), phases=[Phase.explicit, Phase.generate])  # each crawl takes a second or two
@given(webs, deaths, st.sampled_from([0.0, 0.3, 1.7]), st.sampled_from([4.0, 25.0]))
def test_a_crawl_is_whole_polite_and_accounted_for(web, die_after_s, commit_s, round_s):
    rules = policy(round={"seconds": round_s}, retry={"first_s": 5.0}, politeness={"backoff_first_s": 2.0})
    with tempfile.TemporaryDirectory() as root:
        crawl = Crawl(Path(root), *(host for host, _ in web), rules=rules)
        crawl.seed(*(f"http://{name}/" for name in NAMES))

        async def killed(after_s: float) -> None:
            with trio.move_on_after(after_s):
                await crawl.worker(in_thread=taking(commit_s))

        for after_s in die_after_s:
            crawl.run(lambda after_s=after_s: killed(after_s))
            crawl.wait(rules.round.lease_s)
        crawl.work(seconds=1_500, name="last", in_thread=taking(commit_s))

        for host, pages in web:
            assert len(crawl.stored(host.name)) == len(set(crawl.stored(host.name))) == pages, host.name
        crawl.check()
        if not die_after_s:
            crawl.check_requests()
