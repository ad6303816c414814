"""Near-duplicates over a real lake: what is found, what is chosen, who leaves, and that no order or kill matters."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from crawls import DAY, Crawl, policy

from crawl_pipeline import corpus, duplicates, explaining
from crawl_pipeline.core import fingerprint, urls
from crawl_pipeline.core.clusters import Clusters
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import FETCHES, FRONTIER, ORDERS, PAGES, ROUNDS
from crawl_pipeline.lake import Lake, Overtaken
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import html, robots, routes
from tests.effort import some

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
BUCKETS = 4
RULES = Policy.model_validate({"agent": {"name": "ExampleBot", "contact": "https://example.org/"}})


def words(seed: int, count: int = 120) -> list[str]:
    numbers = np.random.default_rng(seed).integers(0, 8_000, count)
    return ["".join(chr(ord("a") + int(digit)) for digit in f"{number:04d}") for number in numbers]


def text(seed: int, edits: int = 0) -> str:
    """A text, with its first words replaced."""
    return " ".join([*words(seed + 1_000, edits), *words(seed)[edits:]])


ARTICLE, CORRECTED, REVISED, OTHER = text(1), text(1, 4), text(1, 14), text(2)


class Pages:
    """A lake into which rounds of pages are committed by hand."""

    def __init__(self, root: Path, rules: Policy = RULES) -> None:
        self.lake, self.rules, self.now = Lake.create(str(root / "lake"), BUCKETS), rules, NOON

    def read(self, *pages: tuple[str, str] | tuple[str, str, str], missed: Iterable[str] = ()) -> "Pages":
        """Commit one round: pages (URL, text, and what it declares as canonical), and URLs where there was none."""
        self.now += timedelta(hours=1)
        rows = pl.DataFrame([self._page(*page) for page in pages], schema_overrides=PAGES.schema)
        signed = PAGES.frame(rows.drop("text").hstack(fingerprint.signatures(rows["text"])) if pages else PAGES.empty())
        fetches = FETCHES.frame([self._place(url) | {"cause": "page", "outcome": "gone", "url": url} for url in missed])
        known = [self._place(url) | {"status": "fetched", "url": url, "score": 0.5, "found_at": self.now}
                 for url, *_ in pages]  # fmt: skip
        self._commit({"pages": signed, "fetches": fetches, "frontier": FRONTIER.frame(known)})
        return self

    def forget(self, url: str) -> None:
        self.lake.give(ORDERS.frame([{"kind": "forget", "url": url, "host": urls.host(url)}]))
        row = self._place(url) | {"status": "forgotten", "url": url}
        self._commit({"frontier": FRONTIER.frame([row])})

    def _commit(self, frames: Mapping[str, pl.DataFrame]) -> None:
        lease = self.lake.claim(range(BUCKETS), "a test", self.now, 60)
        stamped = {name: rows.drop("round", *(["layer"] if "layer" in rows.columns else []))
                   for name, rows in frames.items()}  # fmt: skip
        self.lake.write_all(lease, stamped)
        stored = dict(frames["pages"].group_by("bucket").len().iter_rows()) if "pages" in frames else {}
        rows = [{"bucket": bucket, "page_count": stored.get(bucket, 0)} for bucket in range(BUCKETS)]
        self.lake.commit(lease, ROUNDS.frame(rows).drop("round"))
        self.lake.release(lease)

    def _place(self, url: str) -> dict[str, Any]:
        host = urls.host(url)
        return {"bucket": urls.bucket(urls.site(host), BUCKETS), "url_hash": urls.url_hash(url), "host": host}

    def _page(self, url: str, said: str, declared: str | None = None) -> dict[str, Any]:
        return self._place(url) | {
            "url": url, "text": said, "month": "2026-03", "fetched_at": self.now, "canonical_url": declared,
        }  # fmt: skip

    def find(self, lake: Lake | None = None) -> duplicates.Found:
        return duplicates.find(lake or self.lake, self.rules, clock=lambda: self.now)

    def rows(self) -> pl.DataFrame:
        return self.lake.scan("clusters").sort("url").collect()

    def row(self, url: str) -> dict[str, Any]:
        return self.rows().filter(url=url).row(0, named=True)

    def canonical(self) -> dict[str, str | None]:
        return dict(self.rows().select("url", "canonical").iter_rows())

    def clusters(self) -> set[frozenset[str]]:
        return {frozenset(urls) for (urls,) in self.rows().group_by("cluster_id").agg("url").select("url").iter_rows()}


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    return Pages(tmp_path)


def test_copies_on_other_hosts_have_one_canonical_page_and_say_how_like_it_they_are(pages):
    pages.read(("http://a.test/x", ARTICLE), ("https://b.test/x", ARTICLE), ("http://c.test/", CORRECTED))
    pages.read(("http://d.test/other", OTHER))
    found = pages.find()

    assert found.pages == 4
    assert pages.canonical() == {
        "http://a.test/x": "https://b.test/x", "https://b.test/x": "https://b.test/x",
        "http://c.test/": "https://b.test/x", "http://d.test/other": None,
    }  # fmt: skip
    assert pages.row("http://a.test/x")["reason"] == "same text"
    assert pages.row("http://c.test/")["reason"] == "nearly the same text"
    assert pages.row("https://b.test/x")["reason"] == "canonical: https"
    assert 0.8 <= pages.rows().filter(pl.col("similarity") < 1)["similarity"].min() < 1


def test_a_second_run_finds_nothing_and_writes_nothing(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/", ARTICLE))
    first, versions, rows = pages.find(), pages.lake.versions(), pages.rows()
    second = pages.find()

    assert (first.clusterings, second.clusterings) == (1, 0)
    assert pages.lake.versions() == versions
    assert pages.rows().equals(rows)


def test_a_page_that_is_found_later_joins_those_that_were_there(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/", OTHER)).find()
    assert set(pages.canonical().values()) == {None}
    pages.read(("http://c.test/longer/", CORRECTED)).find()
    assert pages.canonical()["http://c.test/longer/"] == pages.canonical()["http://a.test/"] == "http://a.test/"
    assert pages.canonical()["http://b.test/"] is None


def test_a_page_that_changed_a_little_stays_and_one_that_changed_much_leaves_at_the_second_visit(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/", ARTICLE), ("http://c.test/", ARTICLE)).find()
    pages.read(("http://b.test/", REVISED), ("http://c.test/", OTHER)).find()
    assert len(pages.clusters()) == 1
    assert (pages.row("http://b.test/")["doubts"], pages.row("http://c.test/")["doubts"]) == (0, 1)

    pages.read(("http://b.test/", REVISED), ("http://c.test/", OTHER)).find()
    assert pages.clusters() == {frozenset({"http://a.test/", "http://b.test/"}), frozenset({"http://c.test/"})}
    assert pages.canonical()["http://c.test/"] is None


def test_one_error_page_in_between_moves_nothing(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/", ARTICLE)).find()
    for said in [OTHER, ARTICLE, OTHER, ARTICLE]:
        pages.read(("http://b.test/", said)).find()
    assert len(pages.clusters()) == 1


def test_a_page_that_stands_alone_follows_its_text_at_once(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/", OTHER)).find()
    pages.read(("http://b.test/", ARTICLE)).find()
    assert pages.clusters() == {frozenset({"http://a.test/", "http://b.test/"})}


def test_a_page_that_is_gone_on_two_visits_leaves_and_comes_back_when_it_is_read_again(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/", ARTICLE)).find()
    pages.read(missed=["http://a.test/"]).find()
    assert pages.canonical()["http://b.test/"] == "http://a.test/"
    pages.read(missed=["http://a.test/"]).find()
    assert pages.canonical() == {"http://b.test/": None}
    pages.read(("http://a.test/", ARTICLE)).find()
    assert set(pages.canonical()) == {"http://a.test/", "http://b.test/"}


def test_a_forgotten_page_leaves_and_its_copies_choose_another(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/b", ARTICLE), ("http://c.test/c/c", ARTICLE)).find()
    pages.forget("http://a.test/")
    pages.find()
    assert pages.canonical() == {"http://b.test/b": "http://b.test/b", "http://c.test/c/c": "http://b.test/b"}
    assert pages.find().clusterings == 0


def test_the_canonical_page_stays_unless_a_better_one_declares_itself_or_is_https(pages):
    pages.read(("http://a.test/long/one", ARTICLE), ("http://b.test/long/two?x=1", ARTICLE)).find()
    pages.read(("http://c.test/", ARTICLE)).find()
    assert set(pages.canonical().values()) == {"http://a.test/long/one"}
    pages.read(("https://d.test/long/three?utm_source=x", ARTICLE)).find()
    assert set(pages.canonical().values()) == {"https://d.test/long/three?utm_source=x"}
    pages.read(("http://e.test/", ARTICLE, "http://e.test/")).find()
    assert set(pages.canonical().values()) == {"http://e.test/"}
    assert pages.row("http://e.test/")["reason"] == "canonical: declared canonical by itself"


def many(seed: int) -> list[tuple[str, str]]:
    chance = np.random.default_rng(seed)
    return [(f"http://h{number}.test/{number}", text(int(chance.integers(8)) * 50, int(chance.integers(7))))
            for number in range(60)]  # fmt: skip


def from_scratch(pages: Iterable[tuple[str, str]]) -> set[frozenset[str]]:
    """The clusters that the rule gives for all pages at once."""
    listed = list(pages)
    signed = fingerprint.signatures(pl.Series([said for _, said in listed]))
    known = Clusters()
    known.apply(signed, pl.Series(dtype=pl.Int64))
    of = signed.select("main_hash").hstack([pl.Series("url", [url for url, _ in listed])])
    grouped = of.hstack(known.of(of["main_hash"]).select("cluster_id")).group_by("cluster_id").agg("url")
    return {frozenset(urls) for (urls,) in grouped.select("url").iter_rows()}


@pytest.mark.parametrize("seed", some([0, 1, 2]))
def test_clusters_are_the_same_in_any_order_of_pages_and_any_cut_into_rounds(pages, seed):
    chance, left = np.random.default_rng(seed), many(7)
    chance.shuffle(left)
    while left:
        cut = int(chance.integers(1, 30))
        pages.read(*((str(url), str(said)) for url, said in left[:cut]))
        left = left[cut:]
        if chance.random() < 0.5:
            pages.find()
    pages.find()
    assert pages.clusters() == from_scratch(many(7))


def test_what_the_caches_lost_is_made_anew_with_the_same_clusters(pages):
    pages.read(*many(7)[:40]).find()
    for file in sorted((pages.lake.caches / "clusters").iterdir()):
        file.unlink()
    pages.read(*many(7)[40:]).find()
    assert pages.clusters() == from_scratch(many(7))


def test_clusterings_are_bounded_by_pages_and_merges_are_told(tmp_path):
    rules = RULES.model_copy(update={"duplicates": RULES.duplicates.model_copy(update={"pages": 6})})
    pages = Pages(tmp_path, rules)
    for at in range(0, 60, 6):
        pages.read(*many(7)[at : at + 6])
    found = pages.find()
    assert found.clusterings == 10
    assert pages.clusters() == from_scratch(many(7))
    merges = sorted(pages.lake.scan("merges").collect().iter_rows())
    assert len(merges) == found.merged > 0
    assert pages.lake.scan("merges").collect()["similarity"].min() >= 0.7
    before = pages.rows()
    assert pages.lake.fold_clusters(least=1)
    assert pages.rows().drop("layer", "cluster_before").equals(before.drop("layer", "cluster_before"))
    assert sorted(pages.lake.scan("merges").collect().iter_rows()) == merges


def test_of_two_clusterings_at_once_the_later_is_refused_and_nothing_is_counted_twice(pages):
    pages.read(*many(7)[:30])
    other = Lake.open(pages.lake.root)

    class Slow:
        """A lake in which another clustering is done just before this one's commit."""

        def __getattr__(self, name: str) -> Any:
            return getattr(other, name)

        def commit_clustering(self, *given: Any) -> Any:
            pages.find()
            return other.commit_clustering(*given)

    with pytest.raises(Overtaken):
        pages.find(Slow())  # type: ignore[arg-type]
    assert pages.find().clusterings == 0
    pages.read(*many(7)[30:]).find()
    assert pages.clusters() == from_scratch(many(7))


def test_analysts_see_duplicates_without_single_pages(pages):
    pages.read(("http://a.test/", ARTICLE), ("http://b.test/b", CORRECTED), ("http://c.test/", OTHER)).find()
    with corpus.connect(pages.lake) as connection:
        seen = corpus.read(connection, "select url, canonical, reason from duplicates order by url")
    assert seen.rows() == [("http://b.test/b", "http://a.test/", "nearly the same text")]


def test_a_copy_waits_ten_times_as_long_for_its_visits_and_says_why(tmp_path):
    """Three pages that never change; one is a copy of another. Found between the first and the second visit."""
    said = {"a.test": ARTICLE, "b.test": ARTICLE, "c.test": OTHER}
    hosts = [
        Host(name, robots(routes({"/": lambda _, text=text: html("Page", text=text)}), ""))
        for name, text in said.items()
    ]
    crawl = Crawl(tmp_path, *hosts, rules=policy(recrawl={"first_s": DAY, "shortest_s": 3_600.0}))
    crawl.seed(*(f"http://{name}/" for name in said)).work()
    assert duplicates.find(crawl.lake, crawl.rules).pages == 3
    crawl.wait(1.5 * DAY)
    crawl.work()

    waits = dict(crawl.rows("change_frequency").select("host", "interval_s").iter_rows())
    weights = dict(crawl.rows("change_frequency").select("host", pl.col("weight").round(3)).iter_rows())
    assert weights == pytest.approx({"a.test": 1.0, "b.test": 0.1, "c.test": 1.0})
    assert waits["b.test"] == pytest.approx(10 * waits["a.test"], rel=0.01)
    assert waits["c.test"] == pytest.approx(waits["a.test"], rel=0.01)
    assert crawl.url("http://b.test/")["due_at"] > crawl.url("http://a.test/")["due_at"] + timedelta(days=10)
    explained = explaining.explain(crawl.lake, crawl.rules, "http://b.test/", NOON + timedelta(days=2))
    assert explained.facts["duplicates"]["canonical"] == "http://a.test/"
    assert explained.facts["duplicates"]["why"].startswith("it has the same text as http://a.test/")
    assert explained.facts["changes"]["weight"] == pytest.approx(0.1)
    crawl.check()


def test_a_copy_that_changes_for_good_is_visited_like_any_page_again(tmp_path):
    text_of_b = [ARTICLE]
    web = {"a.test": lambda _: html("Page", text=ARTICLE), "b.test": lambda _: html("Page", text=text_of_b[0])}
    hosts = [Host(name, robots(routes({"/": page}), "")) for name, page in web.items()]
    crawl = Crawl(tmp_path, *hosts, rules=policy(recrawl={"first_s": DAY, "shortest_s": DAY, "longest_s": 2 * DAY}))
    crawl.seed("http://a.test/", "http://b.test/").work()
    duplicates.find(crawl.lake, crawl.rules)
    text_of_b[0] = OTHER
    for _ in range(3):
        crawl.wait(2.5 * DAY)
        crawl.work()
        duplicates.find(crawl.lake, crawl.rules)
    weights = dict(crawl.rows("change_frequency").select("host", pl.col("weight").round(3)).iter_rows())
    assert weights == {"a.test": 1.0, "b.test": 1.0}
    assert crawl.rows("clusters").select("canonical").unique().rows() == [(None,)]
