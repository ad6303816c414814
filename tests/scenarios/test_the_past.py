"""The lake as it was: what SQL shows of a moment is what it showed then, whatever was folded since."""

from datetime import timedelta
from pathlib import Path

import pytest
from crawls import DAY, NOON, Crawl, policy

import crawl_pipeline
from crawl_pipeline import corpus, maintenance, moments
from crawl_pipeline.moments import NoSuchMoment
from crawl_pipeline.testing import site

SEEN = (
    "select url, status, visited_at, attempts, due_at from frontier order by url",
    "select host, next_allowed_at, fetched_count from hosts order by host",
    "select url_hash, visit_count, interval_s from change_frequency order by url_hash",
    "select url, round, body_hash from pages order by url, round",
    "select bucket, round from rounds order by all",
    "select url, reason from unfetched order by url",
)


def seen(connection) -> list[list[tuple[object, ...]]]:
    return [connection.sql(query).fetchall() for query in SEEN]


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> tuple[Crawl, dict[int, object]]:
    """Two visits days apart, and what was to be seen after each; then a fold of everything, and one more."""
    crawl = Crawl(tmp_path_factory.mktemp("past"), site("a.test", pages=4), site("c.test", pages=2),
                  rules=policy(recrawl={"first_s": DAY}, round={"urls": 4, "seconds": 10.0}))  # fmt: skip
    crawl.seed("http://a.test/", "http://c.test/")
    then: dict[int, object] = {}
    for _ in range(2):
        crawl.work(seconds=60)
        newest = crawl.rows("rounds")["round"].max()
        with corpus.connect(moments.of(crawl.lake, round=newest)) as connection:
            now = crawl.rows("rounds")["ended_at"].max()
            then[newest] = (now, seen(connection))
        with corpus.connect(crawl.lake) as connection:
            assert seen(connection)[:5] == then[newest][1][:5]  # the reasons are of another time
        crawl.wait(2 * DAY)
        crawl.run(lambda: _keep(crawl))
    return crawl, then


async def _keep(crawl: Crawl) -> None:
    maintenance.maintain(crawl.lake, crawl.rules, clock=lambda: crawl.now)


def test_a_round_or_its_time_shows_what_was_to_be_seen_then(crawl):
    crawl, then = crawl
    assert len({str(shown) for _, shown in then.values()}) == len(then)
    for number, (ended_at, shown) in then.items():
        with crawl_pipeline.connect(crawl.lake.root, round=number) as connection:
            assert seen(connection) == shown
            assert connection.sql("select as_of()").fetchall() == [(ended_at,)]
    with crawl_pipeline.connect(Path(crawl.lake.root), at=ended_at.isoformat()) as connection:
        assert seen(connection) == shown


def test_a_version_of_rounds_shows_the_rounds_it_holds(crawl):
    crawl, then = crawl
    version = crawl.lake.versions()["rounds"]
    with crawl_pipeline.connect(crawl.lake.root, version=version) as connection:
        assert seen(connection) == [*then.values()][-1][1]


def test_what_is_no_moment_is_told_with_the_moments_there_are(crawl):
    lake, first = crawl[0].lake, min(crawl[0].rows("rounds")["round"])
    with pytest.raises(NoSuchMoment, match=f"found 999999: the lake has rounds {first} to"):
        moments.of(lake, round=999_999)
    with pytest.raises(NoSuchMoment, match="by which a round had ended"):
        moments.of(lake, at=NOON - timedelta(days=1))
    with pytest.raises(NoSuchMoment, match="a time that has passed"):
        moments.of(lake, at=NOON + timedelta(days=40_000))
    with pytest.raises(NoSuchMoment, match="within 0 and"):
        moments.of(lake, version=10_000)
    with pytest.raises(NoSuchMoment, match="one of version, at and round, found at and round"):
        moments.of(lake, at=NOON, round=1)


def test_what_was_forgotten_since_or_deleted_is_not_shown_of_the_past(crawl):
    crawl, then = crawl
    first = min(then)
    [page, *_] = crawl.rows("pages").filter(host="c.test")["url"]
    crawl.order("forget", page).work(seconds=60)

    with crawl_pipeline.connect(crawl.lake.root, round=first) as connection:
        pages = {url for (url,) in connection.sql("select distinct url from pages").fetchall()}
    assert page not in pages
    assert len(pages) > 2

    for file in set(moments.of(crawl.lake, round=first).files("frontier")) - set(crawl.lake.files("frontier")):
        Path(file).unlink()
    with pytest.raises(NoSuchMoment, match="'frontier' has been deleted: maintenance keeps a week; name a time from"):
        crawl_pipeline.connect(crawl.lake.root, round=first)
