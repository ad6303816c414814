"""Sites that no seed names earn their budgets page by page: good ones are crawled whole, farms and traps stay small."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from crawls import DAY, NOON, Crawl, Died, DiesAtCommit, policy

from crawl_pipeline import corpus, explaining, ordering, past, whatif
from crawl_pipeline.core import trust
from crawl_pipeline.sensors import work
from crawl_pipeline.testing import site
from crawl_pipeline.testing.shapes import calendar
from crawl_pipeline.testing.sites import Answer, Host, Request, html, robots, routes
from tests.effort import long, some

FEW = {"trust_first": 8, "trust_first_share": 0.0, "trust_growth": 3.0}
OPEN = {"follow": "everywhere", "sitemaps": False}
GOOD = sorted(["/", *(f"/{n}" for n in range(1, 120))])


def rules(**budget: Any) -> Any:
    return policy(scope=OPEN, budget=FEW | budget, traps={"act": "record", "probes_per_host": 0})


def good(pages: int = 120) -> Host:
    """A host whose first page links to all its others."""
    return site("good.test", pages=pages, links={"/": [f"/{n}" for n in range(1, pages)]})


def crawl_of(root: Path, *hosts: Host, **budget: Any) -> Crawl:
    """A seed that links to the first page of each host."""
    seed = site("seed.test", pages=1, links={"/": [f"http://{host.name}/" for host in hosts[:1]]})
    return Crawl(root, seed, *hosts, rules=rules(**budget)).seed("http://seed.test/")


def allowed(crawl: Crawl, host: str) -> dict[str, Any]:
    row: dict[str, Any] = trust.limits(crawl.rows("hosts"), crawl.rules).filter(host=host).row(0, named=True)
    return row


def within_trust(crawl: Crawl, host: str) -> None:
    row = allowed(crawl, host)
    assert row["host_known"] - row["host_parked"] <= row["host_allowance"] < row["host_full"]
    assert row["site_known"] - row["site_parked"] <= row["site_allowance"]


def parked(crawl: Crawl) -> int:
    return int(crawl.rows("hosts")["parked_count"].sum())


def test_a_good_host_that_no_seed_names_is_crawled_whole_without_a_pause(tmp_path):
    crawl = crawl_of(tmp_path, good())
    left: list[int] = []

    crawl.work(seconds=300, tell=lambda done: left.append(done.rows["parked_count"].sum()))

    assert max(left) > 50
    assert crawl.stored("good.test") == GOOD
    assert max(crawl.web.gaps_s("good.test")) < 5
    assert left[-1] == 0
    crawl.check()


def test_hosts_of_a_farm_with_the_same_pages_share_what_one_host_gets(tmp_path):
    pages = {"/": html("Buy", [f"http://h{n}.farm.test/" for n in range(60)] + ["/more"]), "/more": html("More", ["/"])}
    farm = [Host(f"h{n}.farm.test", robots(routes(pages), "")) for n in range(60)]
    crawl = crawl_of(tmp_path, *farm)

    crawl.work(seconds=900)

    # One site links to it, its pages have two texts: 8 x sqrt(2) + 2 x 3.
    asked = [row.path for row in crawl.web.log if row.host.endswith("farm.test") and row.path != "/robots.txt"]
    assert len(asked) == 17
    assert parked(crawl) > 40
    within_trust(crawl, "h0.farm.test")
    crawl.check()


def test_a_trap_whose_pages_say_the_same_stays_at_its_first_share(tmp_path):
    def answer(request: Request) -> Answer:
        hrefs = [f"{request.path.rstrip('/')}/{n}" for n in range(3)]
        body = "".join(f'<a href="{href}">more</a>' for href in hrefs)
        return Answer(200, (("content-type", "text/html"),), body.encode())

    crawl = crawl_of(tmp_path, Host("trap.test", robots(answer, "")))

    crawl.work(seconds=200)

    # One site links to it, and it has one text: 8 x sqrt(2) + 3.
    assert len(crawl.asked("trap.test")) == 14
    assert parked(crawl) > 14
    within_trust(crawl, "trap.test")
    crawl.check()


@long
def test_a_calendar_without_end_gets_what_its_texts_earn_and_never_more_than_the_budget(tmp_path):
    crawl = crawl_of(tmp_path, Host("cal.test", robots(calendar(""), "")), urls_per_host=40, trust_growth=0.5)

    crawl.work(seconds=25)
    within_trust(crawl, "cal.test")
    assert parked(crawl) > 0
    crawl.work(seconds=100)

    assert len(crawl.asked("cal.test")) <= allowed(crawl, "cal.test")["host_allowance"] <= 40
    crawl.check()


def test_a_day_grows_with_trust_too(tmp_path):
    pages = {"/": html("Same", [f"/{n}" for n in range(40)])} | {f"/{n}": html("Same") for n in range(40)}
    poor = Host("poor.test", robots(routes(pages), ""))
    crawl = crawl_of(tmp_path, poor, fetches_per_host_day=20, urls_per_host=30)

    crawl.work(seconds=200)

    assert len(crawl.asked("poor.test")) <= allowed(crawl, "poor.test")["host_allowance_day"] < 20
    crawl.check()


def test_a_worker_that_dies_between_rounds_changes_nothing_of_what_is_let_in(tmp_path):
    crawl = crawl_of(tmp_path, good(40))

    for death in range(3):
        with pytest.raises(BaseExceptionGroup) as group:
            crawl.work(lake=DiesAtCommit(crawl, 2), name=f"w{death}")
        assert group.value.subgroup(Died)
        crawl.check_accounts()
        crawl.wait(121)
    crawl.work(seconds=300, name="last")

    assert crawl.stored("good.test") == sorted(["/", *(f"/{n}" for n in range(1, 40))])
    assert parked(crawl) == 0
    crawl.check()


POOR = [f"/{n}" for n in range(40)]


def poor(root: Path) -> Crawl:
    """A crawl that has come to rest with URLs parked at a host whose pages all say the same."""
    pages = {"/": html("Same", POOR)} | {path: html("Same") for path in POOR}
    crawl = crawl_of(root, Host("poor.test", robots(routes(pages), "")))
    crawl.work(seconds=120)
    assert parked(crawl) > 20
    return crawl


@pytest.mark.parametrize("how", some(["an order for the host", "a seed", "a policy file", "an order"], 2))
def test_what_people_say_lets_parked_urls_in(tmp_path, how):
    crawl = poor(tmp_path)
    if how == "an order":
        ordering.set_key(crawl.lake, crawl.rules, "budget.trust_first", "100", now=NOON)
    elif how == "an order for the host":
        ordering.set_key(crawl.lake, crawl.rules, "urls", "25", host="poor.test", now=NOON)
        ordering.set_key(crawl.lake, crawl.rules, "budget.trust_growth", "10", now=NOON)
    elif how == "a seed":
        crawl.seed("http://poor.test/39")

    before = parked(crawl)
    crawl.work(seconds=120, rules=rules(trust_first=100) if how == "a policy file" else None)

    assert parked(crawl) == (41 - 25 if how == "an order for the host" else 0) < before
    assert len(set(crawl.asked("poor.test"))) == 41 - parked(crawl)
    crawl.check()


def test_parked_urls_are_no_work_and_say_why_they_wait(tmp_path):
    crawl = poor(tmp_path)
    [url, *_] = sorted(crawl.rows("frontier").filter(status="parked")["url"])

    assert work.look(crawl.lake, NOON + timedelta(hours=1)).work == {}
    reasons = corpus.query(crawl.lake, "select distinct reason from unfetched where status = 'parked'")["reason"]
    assert reasons.to_list() == [f"parked: {trust.PARKED_BY['host']}"]
    said = explaining.explain(crawl.lake, crawl.rules, url, NOON).because
    row = allowed(crawl, "poor.test")
    assert said.startswith(f"it is parked, until trust has grown: {trust.PARKED_BY['host']}")
    assert f"host: 41 known, of these {parked(crawl)} parked, {row['host_allowance']} allowed of 100000 in full" in said


def test_a_recrawl_passes_by_what_is_parked_and_forgetting_takes_it_out_of_parking(tmp_path):
    crawl = poor(tmp_path)
    before, asked = parked(crawl), len(crawl.asked("poor.test"))
    crawl.wait(DAY)

    ordering.recrawl(crawl.lake, hosts=["poor.test"], now=NOON)
    crawl.work(seconds=120)
    assert (parked(crawl), len(crawl.asked("poor.test"))) == (before, 2 * asked)
    crawl.check()

    ordering.forget(crawl.lake, hosts=["poor.test"], now=NOON)
    crawl.work(seconds=60)
    assert parked(crawl) == 0
    crawl.check()


def test_a_refusal_and_a_full_day_are_explained_with_the_numbers_of_the_budget(tmp_path):
    crawl = crawl_of(tmp_path, good(30), urls_per_host=9, fetches_per_host_day=4)
    crawl.work(seconds=60)
    known = set(crawl.rows("frontier")["url"])
    [refused, *_] = [url for n in range(1, 30) if (url := f"http://good.test/{n}") not in known]
    [waits, *_] = crawl.rows("frontier").filter(host="good.test", status="waiting")["url"]

    later = NOON + timedelta(minutes=1)
    because = [explaining.explain(crawl.lake, crawl.rules, url, later).because for url in (refused, waits)]

    assert "refused: over budget.urls_per_host (host: 9 known, of these 0 parked, 9 allowed of 9 in full" in because[0]
    assert "host's day is full (host: 4 allowed of 4 in full" in because[1]


def test_whatif_tells_what_another_trust_would_have_parked(tmp_path):
    crawl = crawl_of(tmp_path, good(60), trust_first=100)
    crawl.work(seconds=30)
    ledger = crawl.rows("rounds").filter(pl.col("selected_count") > 0)

    found = [whatif.compare(crawl.lake, past.of_round(crawl.lake, number), rules()) for number in
             sorted(ledger["round"].unique())[:4]]  # fmt: skip

    assert f"left out: parked, {trust.PARKED_BY['host']}" in {why for one in found for why in one.urls["new"]}
