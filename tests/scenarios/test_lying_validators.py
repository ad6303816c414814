"""Validators are sent while they tell the truth; a share of visits goes without, to find out whose do not."""

import hashlib
from dataclasses import replace
from typing import Any

from crawls import DAY, Crawl, policy

from crawl_pipeline import explaining
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, html, robots, tree, validated

PAGES = 12
RULES = policy(
    recrawl={"first_s": DAY, "shortest_s": DAY, "longest_s": DAY},
    fetch={"unconditional": 0.2},
    traps={"probes_per_host": 0},
)


def tagged(content: Any, tag: Any) -> Any:
    """Pages with an entity tag made from the request, and 304 to whoever sends that."""

    def answer(request: Any) -> Answer:
        said = tag(request)
        if request.headers.get("if-none-match") == said:
            return Answer(304, (("etag", said),))
        own = content(request)
        return replace(own, headers=(*own.headers, ("etag", said)))

    return answer


def always_new(request: Any) -> Answer:
    """Pages that link to each other and say something else each time."""
    return html(request.target, [f"/{n}" for n in range(1, PAGES)], text=f"edition {request.nth_here}")


def revisited(tmp_path: Any, content: Any, times: int) -> Crawl:
    """A host whose pages are visited once, then so often again, a day apart."""
    crawl = Crawl(tmp_path, Host("a.test", robots(content, "")), rules=RULES).seed("http://a.test/")
    for _ in range(1 + times):
        crawl.work(seconds=60)
        crawl.wait(1.1 * DAY)
    crawl.check()
    return crawl


def statuses(crawl: Crawl) -> list[int]:
    """Of all requests for pages, in order."""
    return crawl.rows("fetches").filter(cause="page").sort("started_at")["http_status"].to_list()


def counts(crawl: Crawl) -> tuple[int, int]:
    return crawl.rows("hosts").filter(host="a.test").select("validators_checked", "validators_lied").row(0)


def test_an_honest_host_sends_few_bodies_again(tmp_path):
    crawl = revisited(tmp_path, validated(tree(PAGES)), 3)

    again = statuses(crawl)[PAGES:]
    assert len(again) == 3 * PAGES
    assert again.count(304) > 0.6 * len(again)
    checked, lied = counts(crawl)
    assert (checked, lied) == (again.count(200), 0)
    assert checked > 0


def test_a_host_whose_tag_stays_while_the_text_changes_is_found_out_within_two_visits_of_its_pages(tmp_path):
    crawl = revisited(tmp_path, tagged(always_new, lambda request: '"same"'), 3)

    found = statuses(crawl)
    assert 304 in found[PAGES : 2 * PAGES]
    assert set(found[3 * PAGES :]) == {200}
    assert counts(crawl)[1] > 0

    async def now() -> Any:
        return crawl.now

    told = explaining.explain(crawl.lake, RULES, "http://a.test/1", crawl.run(now)).facts["validators"]
    assert told.startswith("not sent: of ")
    # The change that 304s had hidden is dated to the time since the text was last read.
    changes = crawl.rows("change_frequency")
    assert changes["change_count"].min() >= 1
    assert changes["rate"].min() > 1 / 3


def test_a_host_whose_tag_changes_while_the_text_does_not_costs_bodies_and_no_more(tmp_path):
    def new_tag(request: Any) -> str:
        return f'"{hashlib.sha256(f"{request.target} {request.nth_here}".encode()).hexdigest()[:8]}"'

    crawl = revisited(tmp_path, tagged(tree(PAGES), new_tag), 2)

    assert set(statuses(crawl)) == {200}
    assert crawl.rows("change_frequency").select("visit_count", "change_count").unique().rows() == [(3, 0)]
    assert counts(crawl) == (0, 0)
