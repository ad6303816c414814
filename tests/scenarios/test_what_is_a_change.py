"""A visit finds a change only where the main text of a page is another: not in clocks, menus, advertising or ids."""

import random

import pytest
from crawls import DAY, Crawl, policy

from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import Answer, robots, routes
from tests.effort import some

PAGES = 14
RULES = policy(recrawl={"first_s": DAY, "shortest_s": 3_600.0, "longest_s": 2 * DAY})
_WORDS = [f"{a}{b}" for a in ("ba", "do", "fi", "ku", "le", "mo", "nu", "po", "ri", "sa") for b in "bcdfghklmnprst"]


def prose(path: str, version: int = 0) -> str:
    """What a page has to say: the same for one path and version."""
    chance = random.Random(f"{path} {version}")
    return " ".join(chance.choice(_WORDS) for _ in range(120))


def page(request, *, body="", menu="", version=0) -> Answer:
    """A page of the site: a menu that no element calls so, prose, and a foot."""
    links = "".join(f"<div><a href='/{n}'>Chapter {n}</a></div>" for n in range(PAGES))
    text = f"""<html><title>T</title><body><div>The Site</div>{menu}{links if request.target == "/" else ""}
        <p>{prose(request.target, version)}</p>{body}<div>All rights reserved</div></body></html>"""
    return Answer(200, (("content-type", "text/html; charset=utf-8"),), text.encode())


def visited(tmp_path, answer, times=2) -> dict[str, tuple[int, int, int]]:
    """Visits, changes and cosmetic changes per path after so many visits, a day or more apart."""
    paths = dict.fromkeys(("/", *(f"/{n}" for n in range(PAGES))), answer)
    crawl = Crawl(tmp_path, Host("a.test", robots(routes(paths), "")), rules=RULES).seed("http://a.test/")
    for _ in range(times):
        crawl.work()
        crawl.wait(2 * DAY)
    crawl.check()
    rows = crawl.rows("frontier", "url", "url_hash").join(crawl.rows("change_frequency"), on="url_hash")
    of = rows.select("url", "visit_count", "change_count", "cosmetic_count").iter_rows()
    return {url.removeprefix("http://a.test"): tuple(counts) for url, *counts in of}


def clock(request):
    return page(request, body=f"<div>Served at 2026-03-0{request.nth_here + 1} 12:0{request.nth_here}:17</div>")


def advertising(request):
    return page(request, body=f"<div class='advert'>{prose('advert', request.nth_here)}</div>")


def session(request):
    number = f"{random.Random(f'{request.target} {request.nth_here}').getrandbits(64):016x}"
    return page(request, body=f"<div><a rel=nofollow href='/?sid={number}'>Session a{number}</a></div>")


def navigation(request):
    return page(request, menu="<nav>New: the shop</nav>" if request.nth_here else "")


@pytest.mark.parametrize("answer", some([advertising, session, navigation, clock], 2))
def test_what_is_not_of_a_pages_subject_is_no_change(tmp_path, answer):
    counts = visited(tmp_path, answer)

    assert len(counts) == PAGES + 1
    assert set(counts.values()) == {(2, 0, 1)}


def test_a_template_that_is_learnt_between_two_visits_is_no_change(tmp_path):
    """Of the first pages the foot is main text, of the last ones it is not; nothing has changed on any."""
    assert set(visited(tmp_path, page).values()) == {(2, 0, 0)}


def test_an_entry_that_is_new_on_every_page_is_a_change_of_the_first_few_at_most(tmp_path):
    """No element calls it navigation: that it is one is learnt from the pages that have it."""
    counts = visited(tmp_path, lambda request: page(request, menu="<div>Shop</div>" if request.nth_here else ""))

    assert sum(told[1] for told in counts.values()) <= 9


def test_a_real_edit_is_a_change_of_the_page_that_was_edited(tmp_path):
    def edited(request):
        return page(request, version=request.nth_here if request.target == "/7" else 0)

    counts = visited(tmp_path, edited)

    assert counts.pop("/7") == (2, 1, 0)
    assert set(counts.values()) == {(2, 0, 0)}


def test_small_edits_count_once_they_add_up(tmp_path):
    def growing(request):
        more = " ".join(f"addition{n}" for n in range(4 * request.nth_here if request.target == "/7" else 0))
        return page(request, body=f"<p>{prose('x')} {prose('y')} {prose('z')} {more}</p>")

    visits, changes, cosmetic = visited(tmp_path, growing, times=6)["/7"]

    assert visits == 6
    assert 1 <= changes <= 3
    assert cosmetic == visits - 1 - changes


SPONSORS = [f"{' '.join(random.Random(f'sponsor {n}').choices(_WORDS, k=4 + 12 * (n % 4)))} today" for n in range(12)]
"""Advertisements, some longer than a template's blocks may be."""


def test_advertisements_that_take_turns_come_and_vanish_are_noise_once_they_were_seen_to_and_edits_are_not(tmp_path):
    """No element calls them so; each page shows other ones at each visit, in two places, or none."""
    edited = {"/3": 6, "/5": 7}

    def rotating(request):
        chance = random.Random(f"{request.target} {request.nth_here}")
        first, second = (f"<div>{chance.choice(SPONSORS)}</div>" if chance.random() < 0.8 else "" for _ in range(2))
        is_edited = request.nth_here >= edited.get(request.target, 99)
        return page(request, menu=first, body=second, version=int(is_edited))

    paths = dict.fromkeys(("/", *(f"/{n}" for n in range(PAGES))), rotating)
    crawl = Crawl(tmp_path, Host("a.test", robots(routes(paths), "")), rules=RULES).seed("http://a.test/")
    changes = list[dict[str, int]]()
    for _ in range(9):
        crawl.work()  # by a worker that knows what the last one wrote
        crawl.wait(2 * DAY)
        rows = crawl.rows("frontier", "url", "url_hash").join(crawl.rows("change_frequency"), on="url_hash")
        changes.append(dict(rows.select("url", "change_count").iter_rows()))

    late = {url.removeprefix("http://a.test"): count - changes[5][url] for url, count in changes[8].items()}
    assert {path: late.pop(path) for path in edited} == {"/3": 1, "/5": 1}
    assert sum(late.values()) <= 1
    assert crawl.rows("change_frequency")["cosmetic_count"].sum() >= 75
    stripped = crawl.rows("pages").sort("fetched_at").group_by("url", maintain_order=True).last()
    assert stripped["removed_blocks"].list.len().sum() > 15 * 2
    crawl.check()
