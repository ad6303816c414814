"""Sessions, tracking parameters and pages that say not found: learnt from what a host shows, visible, taken back."""

import polars as pl
import pytest
from crawls import Crawl, policy

from crawl_pipeline import corpus, ordering
from crawl_pipeline.core import not_found, urls
from crawl_pipeline.core.orders import OrderError
from crawl_pipeline.explaining import explain
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, Request, prose, robots, robots_text
from crawl_pipeline.testing.trap_web import html as page

PRODUCTS, BOOKS = 16, 30


def number(request: Request, name: str) -> str | None:
    return dict(pair.partition("=")[::2] for pair in request.query.split("&") if pair).get(name)


def shop(request: Request) -> Answer:
    """Products told by their id, under any session, and reviews of them, under any campaign, which two parameters name
    together; without an id none."""
    item, kind = number(request, "id"), request.path.strip("/")
    if request.path == "/":
        hrefs = [f"/item?id={n}&sid={n}" for n in range(PRODUCTS)] + [f"/review?id={n}" for n in range(PRODUCTS)]
        return page("Shop", hrefs, prose("shop"))
    if item is None or not item.isdecimal() or int(item) >= PRODUCTS:
        return Answer(404)
    other = {"item": "sid={0}", "review": "utm={0}&check={0}"}[kind]
    value = urls.hash64(request.target) % 10**9
    others = [f"/{kind}?id={(int(item) + step) % PRODUCTS}&{other.format(value + step)}" for step in range(1, 5)]
    return page(f"{kind} {item}", others, prose(f"{kind} {item}"))


def library(request: Request) -> Answer:
    """Thirty books, and an apology with status 200 for every other one, in one folder of two; the other is honest."""
    name = request.path.rpartition("/")[2]
    if request.path == "/":
        gone = [f"/books/gone-{prose(str(n), 2).replace(' ', '-')}" for n in range(12)]
        return page(
            "Library", [f"/books/{n}" for n in range(BOOKS)] + gone + ["/moved/1", "/moved/2"], prose("library")
        )
    if request.path.startswith("/books/") and name.isdecimal() and int(name) < BOOKS:
        return page(f"Book {name}", ["/"], prose(f"book {name}"))
    return page("Sorry", ["/help"], f"We could not find {name}, sorry: it may have been given away or lost by somebody")


def now(crawl: Crawl):
    async def at():
        return crawl.now

    return crawl.run(at)


@pytest.fixture(scope="module")
def shopped(tmp_path_factory) -> Crawl:
    crawl = Crawl(tmp_path_factory.mktemp("shop"), Host("a.test", robots(shop, ""))).seed("http://a.test/")
    crawl.work(seconds=2_000)
    return crawl


def parameter(crawl: Crawl, name: str) -> dict:
    return crawl.rows("patterns").filter(pattern=f"?{name}").row(0, named=True)


def test_parameters_that_do_not_matter_are_dropped_and_all_pages_fetched(shopped):
    asked = shopped.asked("a.test")

    dropped = shopped.rows("patterns").filter(action="dropped")["pattern"]
    assert set(dropped) == {"?sid", "?check&utm"}
    for kind in ("item", "review"):
        assert {path[len(kind) + 5 :].partition("&")[0] for path in asked if path.startswith(f"/{kind}?id=")} == {
            str(n) for n in range(PRODUCTS)
        }
    assert len(asked) <= 120
    assert parameter(shopped, "sid")["bare_count"] >= 2
    shopped.check()


def test_what_is_dropped_is_visible_and_explained(shopped):
    view = corpus.query(
        shopped.lake, "select pattern, action, judged, exact, examples from traps where action = 'dropped'"
    )
    url = "http://a.test/item?id=3&sid=never-seen"

    said = explain(shopped.lake, shopped.rules, url, now(shopped)).because

    assert set(view["pattern"]) >= {"?sid", "?check&utm"}
    assert view["examples"][0][0].startswith("equal: http://a.test/")
    assert said.startswith("it differs in a parameter that does not matter, and is known as http://a.test/item?id=3;")
    assert "`crawl release 'a.test?sid'`" in said


def test_a_dropped_parameter_is_taken_back_by_an_order(shopped):
    with pytest.raises(OrderError, match=r"nothing is done about this pattern; of this host .*a\.test\?sid"):
        ordering.release(shopped.lake, ["a.test/no/such"], now=now(shopped))
    with pytest.raises(OrderError, match="nothing is done about any pattern of this host"):
        ordering.release(shopped.lake, ["b.test?sid"], now=now(shopped))

    ordering.release(shopped.lake, ["a.test?sid"], now=now(shopped))
    shopped.order("recrawl", "http://a.test/").work(seconds=60)

    assert tuple(parameter(shopped, name)["action"] for name in ("sid", "check&utm")) == ("cleared", "dropped")
    assert parameter(shopped, "sid")["released_at"] is not None
    shopped.check()


def test_pages_that_say_not_found_are_told_by_what_the_host_shows_for_a_made_up_url(tmp_path):
    crawl = Crawl(tmp_path, Host("a.test", robots(library, robots_text(disallow=["/moved/"]))), rules=policy()).seed(
        "http://a.test/"
    )
    crawl.work(seconds=2_000)

    probes = crawl.rows("fetches").filter(cause="probe")
    made_up = crawl.rows("frontier").filter(kind="probe")
    soft = corpus.query(crawl.lake, "select url, probed_url from soft_404s")

    assert 1 <= probes.height <= crawl.rules.traps.probes_per_host
    assert made_up["url"][0].startswith("http://a.test/books/")
    assert (made_up["due_at"] - made_up["found_at"]).min().days >= 29
    assert soft.height >= 3
    assert not [url for url in soft["url"] if url.rpartition("/")[2].isdecimal()]
    assert not set(made_up["url"]) & set(crawl.rows("pages")["url"])
    counted = crawl.rows("patterns")["soft404_count"].sum()
    assert counted == soft.height
    told = explain(crawl.lake, crawl.rules, soft["url"][0], now(crawl)).facts["not found"]
    assert told[-1] == "the page is like that"
    assert "a page, as if it existed" in told[0]
    assert {path for path in crawl.asked("a.test") if path.startswith("/books/") and path[7:].isdecimal()} == {
        f"/books/{n}" for n in range(BOOKS)
    }
    crawl.check()


def test_a_policy_may_ask_for_no_made_up_url(tmp_path):
    rules = policy(traps={"probes_per_host": 0, "parameters": 0})
    crawl = Crawl(tmp_path, Host("a.test", robots(library, "")), rules=rules).seed("http://a.test/")
    crawl.work(seconds=100)

    assert crawl.rows("frontier").filter(kind=not_found.KIND).is_empty()
    assert crawl.rows("patterns").filter(pl.col("pattern").str.starts_with("?")).is_empty()
