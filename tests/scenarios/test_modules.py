"""Modules attach to a crawl: what they want is fetched, what they make of it is stored with its round."""

import copy
import shutil
from dataclasses import dataclass

import polars as pl
import pytest
from crawls import Crawl, Died, DiesAtCommit, policy

from crawl_pipeline import corpus, maintenance
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.lake import Lake, LakeMismatch
from crawl_pipeline.modules import Content, Declaration, Unusable, column
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.pictures import png
from crawl_pipeline.testing.sites import Answer, html, plain, robots, robots_text, routes

HERE = "tests.scenarios.test_modules"
PHRASES = {"copyright_monitor": {"phrases": ["all rights reserved"]}}


def picture(width: int, height: int, *, shade: int = 0, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return Answer(200, (("content-type", "image/png"), *headers), png(width, height, shade))


def gallery() -> Host:
    """Pages with pictures: two the same, one broken, one hidden behind robots.txt, one without an ending."""
    pictures = "".join(
        f"<img src={src}>" for src in ("/1.png", "/2.png", "/broken.png", "/private/4.png", "/show?id=5", "/6.jpg")
    )
    pictures += '<picture><source srcset="/small.png 1x, /8.png 2x"><img src=/1.png srcset="/9.png, "></picture>'
    broken = Answer(200, picture(1, 1).headers, b"\x89PNG")
    table = {
        "/": html("home", ["/second"], head=pictures), "/second": html("second", ["/data.json", "/7.png"]),
        "/1.png": picture(3, 4), "/2.png": picture(3, 4), "/broken.png": broken,
        "/show": picture(7, 2), "/7.png": picture(5, 5),
        "/8.png": picture(8, 8), "/9.png": picture(9, 9), "/10.png": picture(10, 1),
        "/data.json": plain('{"a": 1}', content_type="application/json"),
    }  # fmt: skip
    return Host("a.test", robots(routes(table), robots_text(disallow=["/private/"])))


def using(*names: str, **settings: dict[str, object]) -> dict[str, object]:
    return {"use": list(names), "settings": settings}


def images(crawl: Crawl) -> dict[str, tuple[int, int]]:
    found = crawl.rows("images").sort("url")
    return {row["url"]: (row["width_px"], row["height_px"]) for row in found.iter_rows(named=True)}


@pytest.fixture(scope="module")
def archived(tmp_path_factory) -> Crawl:
    """A crawl with the archive, to be looked at."""
    folder = tmp_path_factory.mktemp("archived")
    crawl = Crawl(folder, gallery(), rules=policy(modules=using("png_archive"))).seed(
        "http://a.test/", "http://a.test/10.png"
    )
    crawl.work()
    return crawl


@pytest.fixture
def own(archived, tmp_path) -> Crawl:
    """The same with a lake of one's own."""
    crawl = copy.copy(archived)
    shutil.copytree(archived.lake.root, tmp_path / "own")
    crawl.lake = Lake.open(str(tmp_path / "own"))
    return crawl


# What is fetched.


def test_pictures_in_pages_and_links_to_them_are_archived_with_their_size(archived):
    assert images(archived) == {
        "http://a.test/1.png": (3, 4),
        "http://a.test/2.png": (3, 4),
        "http://a.test/7.png": (5, 5),
        "http://a.test/show?id=5": (7, 2),
        "http://a.test/8.png": (8, 8),
        "http://a.test/9.png": (9, 9),  # the largest of each srcset
        "http://a.test/10.png": (10, 1),  # a seed
    }
    assert set(archived.stored("a.test")) == {"/", "/second"}
    assert archived.outcomes()["http://a.test/1.png"] == "fetched"
    archived.check()
    archived.check_requests()


def test_what_robots_forbid_is_not_asked_for_a_module_either(archived):
    assert "/private/4.png" not in archived.asked("a.test")
    assert archived.outcomes()["http://a.test/private/4.png"] == "disallowed"


def test_pictures_of_other_types_are_refused_by_their_ending(archived):
    assert archived.tally("refused")["file type"] == 2  # the one in a page, and data.json


def test_without_a_module_no_picture_is_asked_for_and_json_is_no_page(tmp_path):
    crawl = Crawl(tmp_path, gallery(), rules=policy(budget={"skip_extensions": ["png"]})).seed("http://a.test/")

    crawl.work()

    assert crawl.asked("a.test") == ["/", "/second", "/data.json"]
    assert crawl.outcomes()["http://a.test/data.json"] == "not_html"
    assert crawl.rows("fetches").filter(outcome="not_html")["body_bytes"].to_list() == [0]
    crawl.check()


@dataclass(frozen=True)
class JsonKeeper:
    """Wants JSON, whatever its name ends in."""

    declares = Declaration(
        "json_files", "one JSON document", (column("length", pl.Int64, "its length", "bytes"),),
        ("application/json",), endings=("json",),
    )  # fmt: skip

    def read(self, content: Content):
        if content.text is not None:
            raise Unusable("that is a page")
        return [{"length": len(content.body)}]


def test_a_type_that_a_module_wants_is_fetched_and_handed_over(tmp_path):
    crawl = Crawl(tmp_path, gallery(), rules=policy(modules=using(f"{HERE}:JsonKeeper"))).seed("http://a.test/")

    crawl.work()

    assert crawl.rows("json_files", "url", "length").rows() == [("http://a.test/data.json", 8)]
    assert crawl.rows("fetches").filter(url="http://a.test/data.json")["body_bytes"].to_list() == [8]
    assert crawl.asked("a.test") == ["/", "/second", "/data.json"]
    crawl.check()


@pytest.mark.parametrize(
    ("headers", "rules"),
    [
        ((("x-robots-tag", "noindex"),), {}),
        ((("content-usage", "train-ai=n"),), {"scope": {"no_training": "no_body"}}),
    ],
)
def test_what_is_not_to_be_kept_is_given_to_no_module(tmp_path, headers, rules):
    table = {"/": html("home", ["/1.png", "/2.png"]), "/1.png": picture(1, 1, headers=headers), "/2.png": picture(2, 2)}
    crawl = Crawl(tmp_path, Host("a.test", routes(table)), rules=policy(modules=using("png_archive"), **rules))

    crawl.seed("http://a.test/").work()

    assert images(crawl) == {"http://a.test/2.png": (2, 2)}


# What is stored.


def test_a_body_is_kept_once_whoever_works(tmp_path):
    pictures = {f"/{n}.png": picture(3, 3, shade=n // 2) for n in range(8)}
    late = {"/later.png": picture(3, 3, shade=1), "/other.png": picture(9, 9)}
    table = {"/": html("home", list(pictures)), "/more": html("more", list(late)), **pictures, **late}
    rules = policy(modules=using("png_archive"))
    crawl = Crawl(tmp_path, Host("a.test", routes(table)), rules=rules, buckets=1).seed("http://a.test/")

    crawl.work()
    crawl.seed("http://a.test/more").work(name="w2")

    found, contents = crawl.rows("images"), crawl.rows("contents").filter(pl.col("charset").is_null())
    assert found.height == 10
    assert set(contents["body"]) == {*(png(3, 3, n) for n in range(4)), png(9, 9)}
    assert contents.height == 5
    kept = contents.select("body_hash", "body", content_round="round", size="body_bytes")
    joined = found.join(kept, on=["body_hash", "content_round"], validate="m:1")
    assert joined.height == 10
    assert (joined["size"] == joined["body_bytes"]).all()
    assert joined["body"].bin.size().to_list() == joined["body_bytes"].to_list()
    crawl.check()


def test_pages_with_watched_phrases_are_told_with_their_place(tmp_path):
    table = {"/": html("home", ["/1", "/2"]), "/1": html("one", text="All rights\nreserved, and all rights reserved."),
             "/2": html("two", text="nothing of the kind")}  # fmt: skip
    rules = policy(modules=using("copyright_monitor", **PHRASES))
    crawl = Crawl(tmp_path, Host("a.test", routes(table)), rules=rules).seed("http://a.test/")

    crawl.work()

    found = crawl.rows("copyright_matches").sort("position")
    assert set(found["url"]) == {"http://a.test/1"}
    assert found.height == 2
    text = crawl.documents().filter(url="http://a.test/1")["text"][0]
    assert [text[at : at + 3] for at in found["position"]] == ["All", "all"]
    assert crawl.stored("a.test") == ["/", "/1", "/2"]
    crawl.check()


def test_a_module_that_can_make_nothing_of_an_answer_leaves_its_reason_and_nothing_else(archived):
    found = archived.rows("module_failures").row(0, named=True)

    assert archived.rows("module_failures").height == 1
    assert (found["module"], found["phase"], found["url"]) == ("png_archive", "read", "http://a.test/broken.png")
    assert found["reason"].startswith("no PNG")
    assert archived.outcomes()["http://a.test/broken.png"] == "fetched"


@pytest.mark.parametrize("name", ["tests.modules.hurtful:NeedsWhatIsMissing"])
def test_a_module_that_does_not_load_leaves_a_row_and_the_crawl_goes_on(tmp_path, name):
    crawl = Crawl(tmp_path, gallery(), rules=policy(modules=using(name, "png_archive"))).seed("http://a.test/")

    crawl.work()

    (row,) = crawl.rows("module_failures").filter(phase="load").iter_rows(named=True)
    assert (row["module"], row["url"]) == (name, None)
    assert "no_such_package" in row["reason"]
    assert images(crawl)
    crawl.check()


def test_rows_of_modules_exist_only_with_their_round(tmp_path):
    crawl = Crawl(tmp_path, gallery(), rules=policy(modules=using("png_archive"), round={"seconds": 3.0}))
    crawl.seed("http://a.test/")

    with pytest.raises(BaseExceptionGroup) as group:
        crawl.work(lake=DiesAtCommit(crawl, 2))
    assert group.value.subgroup(Died)
    stored = crawl.lake.size("images").rows
    assert stored > crawl.rows("images").height
    crawl.wait(200)
    crawl.work(name="w2")
    before = images(crawl)

    done = maintenance.maintain(crawl.lake)

    assert {kept.table: kept.swept for kept in done.tables}["images"] > 0
    assert images(crawl) == before
    assert len(before) == 6
    assert crawl.lake.size("images").rows == crawl.rows("images").height


def test_a_forgotten_url_is_shown_by_no_module(own):
    own.order("forget", "http://a.test/7.png", "http://a.test/broken.png").work()

    seen = corpus.query(own.lake, "select url from images union all select url from module_failures")
    assert set(seen["url"]) == set(images(own)) - {"http://a.test/7.png"}
    contents = corpus.query(own.lake, "select body from contents where charset is null")["body"]
    assert set(contents) == {png(3, 4), png(7, 2), png(8, 8), png(9, 9), png(10, 1)}


def test_who_opens_the_lake_sees_the_tables_of_modules_and_what_their_columns_mean(archived):
    opened = Lake.open(archived.lake.root)

    assert opened.tables.keys() - TABLES.keys() == {"images"}
    with corpus.connect(opened) as connection:
        comments = dict(
            connection.execute(
                "select column_name, comment from duckdb_columns() where table_name = 'images'"
            ).fetchall()
        )
    assert comments["width_px"] == "width [px]"
    assert comments["body_hash"].startswith("BLAKE2b of the decoded body")
    with pytest.raises(corpus.QueryError, match=r"tables .*images"):
        corpus.query(opened, "select * from imges")
    assert archived.rows("module_tables", "table_name", "module").rows() == [("images", "png_archive")]


@dataclass(frozen=True)
class OtherImages:
    """Would write the archive's table with other columns."""

    declares = Declaration("images", "one image", ("title",), ("image/png",))

    def read(self, content: Content):
        return []


def test_a_table_is_never_given_other_columns(own):
    rules = policy(modules=using(f"{HERE}:OtherImages"))

    with pytest.raises(LakeMismatch, match=r"table 'images' of module .*expected the columns .*title"):
        own.work(name="w2", rules=rules)
    assert own.lake.leases()["released"].all()


# A round's rows.


@dataclass(frozen=True)
class Longest:
    """Tells the longest page of each round."""

    declares = Declaration("longest", "the longest page of a round", (column("words", pl.Int64, "its words", "words"),),
                           ("text/html",), frames=("pages", "links"))  # fmt: skip

    def round(self, frames):
        assert "body" not in frames["pages"].columns
        assert set(frames) == {"pages", "links"}
        longest = frames["pages"].sort("word_count", "url").tail(1)
        return longest.select("url_hash", words=pl.col("word_count").cast(pl.Int64))


def test_a_module_sees_the_rows_of_a_round_before_they_are_committed(tmp_path):
    crawl = Crawl(tmp_path, gallery(), rules=policy(modules=using(f"{HERE}:Longest"))).seed("http://a.test/")

    crawl.work()

    pages = crawl.rows("pages").sort("word_count", "url").group_by("round", maintain_order=True).last()
    expected = pages.select("round", "url", "bucket", "fetched_at", words=pl.col("word_count").cast(pl.Int64))
    found = crawl.rows("longest").select(expected.columns)
    assert found.height
    assert found.sort("round").equals(expected.sort("round"))
    crawl.check()


def test_a_module_that_fails_in_a_round_leaves_a_row_and_the_round_is_committed(tmp_path):
    name = "tests.modules.hurtful:HurtfulRound"
    crawl = Crawl(tmp_path, gallery(), rules=policy(modules=using(name, **{name: {"deed": "raises"}})))

    crawl.seed("http://a.test/").work()

    failures = crawl.rows("module_failures")
    assert set(failures["reason"]) == {"LookupError: no such thing"}
    assert set(failures["phase"]) == {"round"}
    assert crawl.stored("a.test") == ["/", "/second"]
    crawl.check()
