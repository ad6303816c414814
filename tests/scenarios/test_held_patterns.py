"""Traps on a host: found by what their pages are worth, held back with evidence, let go by order."""

import polars as pl
from crawls import Crawl, policy

from crawl_pipeline import corpus, ordering, rebucketing
from crawl_pipeline.explaining import explain
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.shapes import calendar, session_ids
from crawl_pipeline.testing.sites import Answer, Request, below, prose, robots, tree
from crawl_pipeline.testing.trap_web import html as page
from tests.effort import long

CALENDAR = "/cal/{int}/{int}"


def with_calendar(pages: int = 40) -> Host:
    return Host("a.test", robots(below("/cal", calendar("/cal"), tree(pages, {"/": ["/cal"]})), ""))


def months(crawl: Crawl) -> list[str]:
    return [path for path in crawl.asked("a.test") if path.startswith("/cal")]


def pattern(crawl: Crawl, name: str = CALENDAR) -> dict:
    return crawl.rows("patterns").filter(pattern=name).row(0, named=True)


def test_a_calendar_without_events_is_blocked_and_all_else_is_fetched(tmp_path):
    crawl = Crawl(tmp_path, with_calendar()).seed("http://a.test/")

    worked = crawl.work(seconds=3_000)

    assert worked.stopped.startswith("nothing to ask before 2026-03-0")
    assert len(months(crawl)) <= 50
    assert len([path for path in crawl.stored("a.test") if not path.startswith("/cal")]) == 40
    assert pattern(crawl)["action"] == "blocked"
    assert set(crawl.rows("patterns").filter(pl.col("pattern") != CALENDAR)["action"]) <= {"none", "cleared"}
    assert crawl.tally("left_out")["pattern blocked as a trap"] > 0
    crawl.check()


def test_what_is_done_is_visible_with_its_evidence(tmp_path):
    crawl = Crawl(tmp_path, with_calendar(3)).seed("http://a.test/")
    crawl.work(seconds=3_000)
    open_ = crawl.rows("frontier").filter(status="waiting")["url"][0]

    said = explain(crawl.lake, crawl.rules, open_, crawl.run(_now(crawl))).because
    view = corpus.query(crawl.lake, "select pattern, action, judged, worthless, examples from traps")

    assert said.startswith("it waits: pattern blocked as a trap since 2026-03-01")
    assert "of 1" in said
    assert "crawl release 'a.test/cal/{int}/{int}'" in said
    row = view.row(0, named=True)
    assert (row["pattern"], row["action"]) == (CALENDAR, "blocked")
    assert row["worthless"] == row["judged"]
    assert "like http://a.test/cal" in row["examples"][0]


@long
def test_a_released_pattern_is_crawled_on_and_only_drawn_seldom_when_it_repeats_itself_again(tmp_path):
    crawl = Crawl(tmp_path, with_calendar(3), rules=policy(budget={"urls_per_host": 150})).seed("http://a.test/")
    crawl.work(seconds=600)
    before = len(months(crawl))

    ordering.release(crawl.lake, [f"a.test{CALENDAR}"], now=crawl.run(_now(crawl)))
    crawl.work(seconds=450)

    assert len(months(crawl)) > before + 15
    assert pattern(crawl)["action"] == "throttled"
    assert pattern(crawl)["released_at"] is not None
    crawl.check()


@long
def test_what_is_known_of_patterns_moves_with_its_host(tmp_path):
    crawl = Crawl(tmp_path, with_calendar(3)).seed("http://a.test/")
    crawl.work(seconds=600)
    before = crawl.rows("patterns").drop("bucket", "layer", "layout", "round").sort("pattern")

    rebucketing.rebucket(crawl.lake, crawl.rules, 8, clock=lambda: crawl.run(_now(crawl)))
    crawl.work(seconds=600)

    after = crawl.rows("patterns").drop("bucket", "layer", "layout", "round").sort("pattern")
    assert after.equals(before)


def test_session_ids_end_soon_and_every_page_is_fetched_once_at_least(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(session_ids(8), ""))).seed("http://a.test/")

    crawl.work(seconds=3_000)

    assert {path.partition("?")[0] for path in crawl.asked("a.test")} >= {f"/p{n}" for n in range(1, 8)}
    assert len(crawl.asked("a.test")) <= 100
    crawl.check()


def _now(crawl: Crawl):
    async def now():
        return crawl.now

    return now


def test_facets_are_held_by_their_path_and_that_is_explained(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(facets_alike, ""))).seed("http://a.test/")
    crawl.work(seconds=3_000)
    held = crawl.tally("left_out")["patterns of its path blocked as a trap"]
    waiting = crawl.rows("frontier").filter(status="waiting")["url"]

    said = [explain(crawl.lake, crawl.rules, url, crawl.run(_now(crawl))).because for url in waiting.head(3)]

    assert len(crawl.asked("a.test")) <= 50
    assert held > 0
    assert all("blocked as a trap" in one and "crawl release" in one for one in said)
    crawl.check()


def facets_alike(request: Request) -> Answer:
    chosen = [pair for pair in request.query.split("&") if pair]
    names = ("colour", "size", "brand", "price", "sort")
    hrefs = ["/shop?" + "&".join([*chosen, f"{name}={value}"]) for name in names for value in range(3)]
    return page("Things to buy", hrefs if len(chosen) < 6 else [], prose("shop"))
