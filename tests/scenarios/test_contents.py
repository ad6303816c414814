"""A body is stored once, whoever serves it and however often; what happens to one of its pages costs no other."""

import copy
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import polars as pl
import pytest
from crawls import DAY, NOON, Crawl, Died, DiesAtCommit, policy, taking

from crawl_pipeline import corpus, extracting, maintenance, reports
from crawl_pipeline.contents import ContentSeen
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.fetch.bodies import FoundLinks, ReadPage
from crawl_pipeline.fetch.visits import Target, Visit
from crawl_pipeline.lake import Lake, doubles
from crawl_pipeline.testing import Host, site
from crawl_pipeline.testing.sites import html, plain, routes
from tests.effort import some

APART = ("a.test", "c.test")
"""Two hosts in different buckets."""
SAME = html("Same", text="the same words everywhere")


def mirrors(*names: str, pages: int = 3) -> list[Host]:
    """Hosts that all have the same pages, and a home of their own."""
    paths = [f"/{number}" for number in range(pages)]
    shared = {path: html(f"Page {path}", text=f"what page {path} says") for path in paths}
    return [Host(name, routes({"/": html(name, paths, text=name)} | shared)) for name in names]


def crawl_of(tmp_path: Any, *names: str, **wanted: Any) -> Crawl:
    crawl = Crawl(tmp_path, *mirrors(*names), **wanted)
    return crawl.seed(*(f"http://{name}/" for name in names))


def whole(crawl: Crawl) -> pl.DataFrame:
    """All pages with their bodies, each of which must be what its URL serves."""
    found = crawl.documents()
    assert found["body"].null_count() == 0
    for row in found.iter_rows(named=True):
        path = row["url"].removeprefix(f"http://{row['host']}")
        said = f"what page {path} says" if path != "/" else row["host"]
        assert said in row["body"].decode(), row["url"]
        assert said in row["text"], row["url"]
    assert reports.run_test(crawl.lake, "every_kept_page_has_its_content").holds
    return found


def test_one_body_is_stored_once_whatever_host_and_bucket_and_round_it_is_read_in(tmp_path):
    crawl = crawl_of(tmp_path, "a.test", "b.test", "c.test", buckets=4)

    crawl.work()

    assert len({row["bucket"] for row in whole(crawl).iter_rows(named=True)}) > 1
    assert whole(crawl).height == 3 * 4
    assert crawl.rows("contents").height == 3 + 3
    assert crawl.rows("rounds")["content_count"].sum() == 3 + 3
    crawl.check()


def test_a_content_that_another_worker_has_committed_is_not_stored_again(tmp_path):
    crawl = crawl_of(tmp_path, *APART)

    crawl.work(buckets=[0], name="first")
    before = crawl.rows("contents").height
    crawl.work(buckets=[1], name="second")

    assert before < crawl.rows("contents").height == 3 + 2
    whole(crawl)


def test_a_body_read_in_another_charset_is_another_content(tmp_path):
    pages = {path: plain("<p>Größe</p>", content_type=f"text/html; charset={name}") for path, name in
             (("/u", "utf-8"), ("/l", "iso-8859-1"))}  # fmt: skip
    crawl = Crawl(tmp_path, Host("a.test", routes({"/": html("Home", list(pages))} | pages)))

    crawl.seed("http://a.test/").work()

    texts = dict(crawl.documents().select("url", "text").iter_rows())
    assert (texts["http://a.test/u"], texts["http://a.test/l"]) == ("Größe", "GrÃ¶ÃŸe")


def test_a_page_that_asks_not_to_be_kept_has_no_content_though_another_has_the_same(tmp_path):
    shown, private = SAME, replace(SAME, headers=(*SAME.headers, ("x-robots-tag", "noindex")))
    pages = {"/": html("Home", ["/shown", "/private"]), "/shown": shown, "/private": private}
    crawl = Crawl(tmp_path, Host("a.test", routes(pages)))

    crawl.seed("http://a.test/").work()

    found = {row["url"].removeprefix("http://a.test"): row for row in crawl.documents().iter_rows(named=True)}
    assert found["/private"]["body_hash"] == found["/shown"]["body_hash"]
    assert (found["/private"]["body"], found["/private"]["text"]) == (None, None)
    assert found["/shown"]["body"] == SAME.body


@pytest.mark.parametrize("commits", some([2, 1, 3]))
def test_a_worker_that_dies_before_its_commit_leaves_no_page_without_its_content(tmp_path, commits):
    crawl = crawl_of(tmp_path, "a.test", "b.test", rules=policy(round={"seconds": 3.0, "shortest_s": 1.0}))
    with pytest.raises(BaseExceptionGroup) as group:
        crawl.work(lake=DiesAtCommit(crawl, commits))
    assert group.value.subgroup(Died)
    whole(crawl)

    crawl.wait(crawl.rules.round.lease_s)
    crawl.work(name="w2", in_thread=taking(0.3))

    assert whole(crawl)["url"].n_unique() == 2 * 4
    assert crawl.rows("contents").height == 3 + 2
    swept(crawl)
    assert whole(crawl).height == 2 * 4


def swept(crawl: Crawl) -> None:
    async def now() -> Any:
        return crawl.now

    at = crawl.run(now)
    assert maintenance.maintain(crawl.lake, clock=lambda: at).buckets


def test_forgetting_one_of_two_pages_leaves_the_other_its_content(tmp_path):
    crawl = crawl_of(tmp_path, "a.test", "b.test")
    crawl.work()
    first = "a.test" if whole(crawl).filter(host="a.test")["round"].min() == whole(crawl)["round"].min() else "b.test"
    other = {"a.test": "b.test", "b.test": "a.test"}[first]

    crawl.order("forget", first)
    crawl.wait(10)
    crawl.work()
    swept(crawl)

    shown = corpus.query(crawl.lake, "select host, url, text, body from documents order by url")
    assert shown["host"].unique().to_list() == [other]
    assert shown["text"].null_count() == shown["body"].null_count() == 0
    left = corpus.query(crawl.lake, "select text from contents")["text"]
    assert len(left) == 3 + 1
    assert not left.str.contains(first).any()


def test_copies_are_told_with_what_they_are_copies_of(tmp_path):
    crawl = crawl_of(tmp_path, "a.test", "b.test")
    crawl.work()

    found = corpus.query(crawl.lake, "select url, copy_of from copies order by url")

    assert found.height == 3
    assert all(url.rpartition("/")[2] == of.rpartition("/")[2] and url != of for url, of in found.iter_rows())


def test_a_page_that_has_not_changed_is_stored_as_a_row_alone(tmp_path):
    crawl = Crawl(tmp_path, site("a.test", pages=3), rules=policy(recrawl={"first_s": DAY}))
    crawl.seed("http://a.test/").work()
    crawl.wait(2 * DAY)

    crawl.work()

    assert crawl.rows("pages").height > 3
    assert crawl.rows("contents").height == 3
    assert corpus.query(crawl.lake, "select count(*) from copies").item() == 0  # of themselves they are no copies


@pytest.mark.parametrize("false_positives", [1e-6, 0.1])
def test_filters_of_files_change_nothing_but_what_is_read(tmp_path, false_positives):
    """Across a join of files, with files of a round that never came to be, and in a worker that begins with none."""
    rules = policy(round={"seconds": 2.0, "shortest_s": 1.0},
                   contents={"filter_from": 0, "false_positives": false_positives})  # fmt: skip
    crawl = crawl_of(tmp_path, *APART, "b.test", rules=rules)
    with pytest.raises(BaseExceptionGroup):
        crawl.work(lake=DiesAtCommit(crawl, 3))
    crawl.lake.tidy("contents", files=1)
    crawl.wait(rules.round.lease_s)

    crawl.work(name="w2", in_thread=taking(0.2))

    assert whole(crawl)["url"].n_unique() == 3 * 4
    assert crawl.rows("contents").height == 3 + 3


def test_a_file_is_asked_only_if_its_filter_may_hold_the_content(tmp_path):
    crawl = crawl_of(tmp_path, "a.test", rules=policy(contents={"filter_from": 0}))
    crawl.work()
    seen = ContentSeen()
    page = ReadPage(FoundLinks(), body_hash=b"n" * 16, charset="utf-8")
    new = Visit(0, Target("http://x.test/", 1, "link", 0, 0, None), "fetched", NOON, page=page)

    assert seen.stored(crawl.lake, [new], crawl.rules) == {}
    assert set(seen.filters) == set(crawl.lake.files("contents"))
    known = crawl.rows("contents").row(0, named=True)
    old = replace(page, body_hash=known["body_hash"])
    found = seen.stored(crawl.lake, [replace(new, page=old)], crawl.rules)
    assert found == {(known["body_hash"], "utf-8"): known["round"]}


def test_bodies_come_out_as_files_each_content_once_and_nothing_of_what_is_forgotten(tmp_path):
    crawl = crawl_of(tmp_path, "a.test", "b.test")
    crawl.work()

    assert extracting.extract(crawl.lake, tmp_path / "all") == (2 * 4, 3 + 2)
    listed = pl.read_csv(tmp_path / "all" / "pages.csv")
    for url, file in listed.select("url", "file").iter_rows():
        served = crawl.documents().filter(url=url)["body"].item()
        assert (tmp_path / "all" / file).read_bytes() == served
        assert file.endswith(".html")

    crawl.order("forget", "a.test").work()
    assert extracting.extract(crawl.lake, tmp_path / "left") == (4, 4)
    assert extracting.extract(crawl.lake, tmp_path / "one", "url like '%/1'") == (1, 1)
    with pytest.raises(corpus.QueryError):
        extracting.extract(crawl.lake, tmp_path / "none", "nonsense")


class SeesNoContents:
    """A lake as a worker sees it while another that stores the same has not committed yet."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def scan(self, table: str, **wanted: Any) -> pl.LazyFrame:
        return self._lake.scan(table, **wanted).filter(pl.lit(table != "contents"))


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """A crawl by two workers, each of which has stored the same without knowing of the other."""
    crawl = crawl_of(tmp_path_factory.mktemp("doubled"), *APART)
    for bucket in range(2):
        crawl.work(60, buckets=[bucket], name=f"w{bucket}", lake=SeesNoContents(crawl.lake))
    return crawl


def test_workers_that_store_the_same_at_the_same_time_lose_nothing(doubled):
    assert whole(doubled).height == 2 * 4
    assert doubled.rows("contents").height > 3 + 2


class DiesAtCommits:
    """A lake in which one table takes no commit any more."""

    def __init__(self, lake: Lake, table: str) -> None:
        self._lake, self._table = lake, table

    def drop_doubles(self, before: datetime) -> int:
        tables = {**self._lake._tables, self._table: _Dead(self._lake._tables[self._table])}
        return doubles.drop(tables, before)


class _Dead:
    def __init__(self, opened: Any) -> None:
        self._opened = opened

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)

    def commit(self, decide: Any) -> None:
        raise Died


class DropsDoubles:
    """A lake in which doubles are dropped after so many looks at its tables."""

    def __init__(self, lake: Lake, looks: int) -> None:
        self._lake, self._left, self.root, self.tables = lake, looks, lake.root, lake.tables
        self.uneven = lake.uneven

    def files(self, table: str) -> list[str]:
        found = self._lake.files(table)
        self._left -= 1
        if not self._left:
            assert self._lake.drop_doubles(NOON + timedelta(days=2)) > 0
        return found

    def dataset(self, table: str) -> object:
        return self._lake.dataset(table)


def copied(crawl: Crawl, tmp_path: Any) -> Crawl:
    own = copy.copy(crawl)
    shutil.copytree(crawl.lake.root, tmp_path / "own")
    own.lake = Lake.open(str(tmp_path / "own"))
    return own


def test_maintenance_drops_what_was_stored_twice_and_all_pages_keep_their_bodies(tmp_path, doubled):
    crawl = copied(doubled, tmp_path)
    twice = crawl.rows("contents").height - 5
    before = whole(crawl).drop("content_round").sort("url")

    done = maintenance.maintain(crawl.lake, clock=lambda: NOON + timedelta(days=3))

    assert done.doubles == twice > 0
    assert crawl.rows("contents").height == 5
    assert whole(crawl).drop("content_round").sort("url").equals(before)
    assert not maintenance.maintain(crawl.lake, clock=lambda: NOON + timedelta(days=4)).doubles


def test_what_was_stored_twice_is_left_alone_while_a_worker_may_just_have_looked_it_up(tmp_path, doubled):
    crawl = copied(doubled, tmp_path)

    assert maintenance.maintain(crawl.lake, clock=lambda: NOON + timedelta(hours=20)).doubles == 0
    assert crawl.rows("contents").height > 5


def test_killed_between_pointing_and_dropping_a_maintenance_leaves_every_page_its_content(tmp_path, doubled):
    crawl = copied(doubled, tmp_path)
    contents = DiesAtCommits(crawl.lake, "contents")

    with pytest.raises(Died):
        contents.drop_doubles(NOON + timedelta(days=2))

    assert crawl.rows("contents").height > 5
    assert set(whole(crawl)["content_round"]) == set(whole(crawl).group_by("body_hash").agg(
        pl.col("content_round").min())["content_round"])  # fmt: skip
    assert crawl.lake.drop_doubles(NOON + timedelta(days=2)) > 0
    assert whole(crawl).height == 2 * 4
    assert crawl.rows("contents").height == 5


def test_a_snapshot_taken_while_doubles_are_dropped_shows_every_body(tmp_path, doubled):
    """After the look at the first table, the second, the third, the last."""
    for nth in (1, 2, 3, len(TABLES)):
        crawl = copied(doubled, tmp_path / str(nth))
        with corpus.connect(DropsDoubles(crawl.lake, nth)) as connection:
            found = corpus.read(connection, "select count(*), count(body), count(text) from documents")
        assert found.row(0) == (8, 8, 8), nth
