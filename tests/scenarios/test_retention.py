"""What was kept as long as the policy says goes, a month at a time; what a page is now stays while it is visited."""

from datetime import timedelta

import polars as pl
import pytest
from crawls import DAY, NOON, Crawl, policy

from crawl_pipeline import ordering, reports, retaining
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.orders import Tag
from crawl_pipeline.core.policy import PolicyError
from crawl_pipeline.testing import site
from crawl_pipeline.testing.sites import html

KEPT = {"bodies_days": 100, "pages_days": 200, "requests_days": 30, "links_days": 30, "bodies_of": {"topic press": 30}}


def test_months_go_by_their_age_and_class_and_what_is_current_stays(tmp_path):
    pages = {"/": html("home", ["/again", "/once"]), "/again": html("the same again"), "/once": html("seen once")}
    rules = policy(retention=KEPT, recrawl={"again": False})
    crawl = Crawl(tmp_path, site("a.test", pages), site("n.test", pages=1), rules=rules).seed("http://a.test/")
    ordering.seed(crawl.lake, ["http://n.test/"], tag="news", facts=Tag("press"), now=NOON)
    crawl.work()

    def retain(days: int) -> retaining.Retained:
        done = retaining.retain(crawl.lake, rules, clock=lambda: NOON + timedelta(days=days))
        assert [result.name for result in reports.run_tests(crawl.lake) if not result.holds] == []
        return done

    def bodies() -> set[str]:
        return set(crawl.documents().filter(pl.col("body").is_not_null())["url"].str.strip_prefix("http://"))

    assert retain(30).tables == {}  # the month is not over for so long
    crawl.wait(80 * DAY)
    crawl.order("recrawl", "http://a.test/again").work(name="w2")  # in May

    retain(100)  # links and requests of March, and bodies of the press
    assert bodies() == {"a.test/", "a.test/again", "a.test/once"}
    assert crawl.stored("n.test") == ["/"]
    assert crawl.rows("links").filter(pl.col("url") == "http://a.test/once").is_empty()
    assert crawl.rows("fetches").filter(cause="page").height == 1
    assert set(crawl.stored("a.test")) == set(pages)

    retain(180)  # bodies of March, but for the one that a page of May has too
    assert bodies() == {"a.test/again"}
    assert set(crawl.rows("contents")["text"]) == {"the same again"}
    retain(260)
    assert set(crawl.stored("a.test")) == {"/again"}
    assert retain(260).tables == {}
    told = crawl.rows("erasures")
    assert told["order"].is_null().all()
    assert set(told["table_name"]) >= {"pages", "contents", "fetches", "links"}


@pytest.mark.parametrize("wrong", ["bodies_days = 2000", "pages_days = 10", "bodies_of = {news = 3}"])
def test_a_retention_beyond_five_years_or_of_no_class_is_refused(wrong):
    agent = '[agent]\nname = "A"\ncontact = "http://a.test/"\n'
    with pytest.raises(PolicyError, match="retention"):
        policies.load(f"{agent}[retention]\n{wrong}\n")
