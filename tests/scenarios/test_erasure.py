"""What was ordered to be forgotten is erased from every byte of the lake, and what stays is as it was."""

import copy
import gzip
import io
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from crawls import NOON, Crawl, Died, DiesAtCommit, policy

from crawl_pipeline import corpus, duplicates, erasing, explaining, maintenance, ordering, reports
from crawl_pipeline.core import urls
from crawl_pipeline.core.contents import content_hash
from crawl_pipeline.core.erasure import Marks, Search
from crawl_pipeline.core.tables import CONTENTS, HOSTS, ORDERS
from crawl_pipeline.lake import Lake, LeaseHeld
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.pictures import png
from crawl_pipeline.testing.sites import Answer, html, redirect, robots, robots_text, routes

SECRET = "zanzibar quintessence " + " ".join(f"word{number}" for number in range(40))
PAGE = "http://a.test/secret"
PICTURE = Answer(200, (("content-type", "image/png"),), png(3, 4))


def web() -> list[Host]:
    """A page that others link to, redirect to, declare canonical, and copy; with a picture of its own."""
    shared = "a text that two pages share " + " ".join(f"common{number}" for number in range(40))
    a = {
        "/": html("home of a", ["/secret", "/moved", "/near", "/shared"]),
        "/secret": html(SECRET, ["/only-here"], head='<img src="/own.png">'), "/moved": redirect("/secret"),
        "/near": html(SECRET + " and more", [], head=f'<link rel="canonical" href="{PAGE}">'),
        "/shared": html(shared), "/only-here": html("linked from the secret page only"), "/own.png": PICTURE,
    }  # fmt: skip
    b = {"/": html("home of b", [PAGE, "/copy"]), "/copy": html(shared)}
    c = {"/": html("home of c", ["/later"]), "/later": html("links again", [PAGE, "http://a.test/new"])}
    return [Host("a.test", robots(routes(a), robots_text())), Host("b.test", routes(b)), Host("c.test", routes(c))]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """All but c, visited twice, with rows of a round that never came to be, and clustered."""
    rules = policy(modules={"use": ["png_archive"]})
    crawl = Crawl(tmp_path_factory.mktemp("crawled"), *web(), rules=rules).seed("http://a.test/", "http://b.test/")
    with pytest.raises(BaseExceptionGroup) as group:
        crawl.work(lake=DiesAtCommit(crawl, 2))
    assert group.value.subgroup(Died)
    crawl.wait(600)
    crawl.work(name="w2")
    crawl.order("recrawl", PAGE, "http://a.test/near").work(name="w3")
    duplicates.find(crawl.lake, rules, clock=lambda: NOON)
    return crawl


@pytest.fixture
def crawl(crawled: Crawl, tmp_path: Path) -> Crawl:
    own = copy.copy(crawled)
    shutil.copytree(crawled.lake.root, tmp_path / "own")
    own.lake = Lake.open(str(tmp_path / "own"))
    return own


def forget(crawl: Crawl, **scope: list[str]) -> None:
    ordering.forget(crawl.lake, **scope, now=NOON, by="a site owner")


def erase(crawl: Crawl, **wanted: Any) -> erasing.Erased:
    """Erase hours later: nobody is about to commit anything any more."""
    return erasing.erase(crawl.lake, crawl.rules, clock=lambda: crawl_time(crawl) + timedelta(days=9_000), **wanted)


def crawl_time(crawl: Crawl) -> Any:
    async def now() -> Any:
        return crawl.now

    return crawl.run(now)


def holds(root: str, *needles: bytes) -> set[str]:
    """Files below a folder that hold one of these bytes, Parquet files unpacked; the orders themselves left out."""
    found = set()
    for path in Path(root).rglob("*"):
        if not path.is_file() or (path.suffix == ".parquet" and path.parent.name == "orders"):
            continue
        content = path.read_bytes()
        if path.suffix == ".parquet":
            rows = pl.read_parquet(io.BytesIO(content))
            binary = [name for name, dtype in rows.schema.items() if dtype == pl.Binary]
            texts = rows.select(pl.exclude(binary)).write_ndjson().replace("\\", "").encode()
            content += texts + b"".join(value for name in binary for value in rows[name].drop_nulls())
        if any(needle in content for needle in needles):
            found.add(str(path.relative_to(root)))
    return found


def others(crawl: Crawl) -> dict[str, Any]:
    """What there is of pages other than the secret one."""
    return {
        "pages": sorted(url for url in crawl.rows("pages")["url"] if url != PAGE),
        "documents": crawl.documents().filter(pl.col("url") != PAGE).select("url", "body", "text").sort("url").rows(),
        "frontier": sorted(url for url in crawl.rows("frontier")["url"] if url != PAGE),
    }


def test_a_page_is_erased_from_every_file_and_nothing_else_is(crawl):
    [body] = crawl.documents().filter(url=PAGE)["body"].unique()
    needles = (b"zanzibar quintessence word0 ", PAGE.encode() + b'"', content_hash(body),
               str(urls.url_hash(PAGE)).encode())  # fmt: skip
    near = crawl.documents().filter(url="http://a.test/near")["body"].unique().to_list()
    assert {path.partition("/")[0] for path in holds(crawl.lake.root, *needles)} >= {
        "pages", "contents", "links", "frontier", "fetches", "clusters", "change_frequency"
    }  # fmt: skip
    before = others(crawl)
    versions = crawl.lake.versions()
    assert erase(crawl).tables == {}
    assert crawl.lake.versions() == versions
    requests = crawl.rows("fetches").height

    forget(crawl, hrefs=[PAGE])
    done = erase(crawl)

    assert done.proof.holds, done.proof.found
    assert done.proof.mentions > 0
    # The near copy, and pages that link to it, are other pages: their bodies name it still, and only they.
    left = holds(crawl.lake.root, PAGE.encode() + b'"', content_hash(body), str(urls.url_hash(PAGE)).encode())
    assert {path.partition("/")[0] for path in left} <= {"contents"}
    assert content_hash(body) not in crawl.rows("contents")["body_hash"].to_list()
    assert crawl.documents().filter(url="http://a.test/near")["body"].unique().to_list() == near
    assert others(crawl) == before
    assert crawl.rows("fetches").height == requests
    assert crawl.rows("fetches").filter(pl.col("url").is_null()).height > 0
    assert all(result.holds for result in reports.run_tests(crawl.lake))
    known = crawl.rows("hosts").filter(host="a.test")["known_count"].item()
    assert known == crawl.rows("frontier").filter(host="a.test").height
    [record] = crawl.rows("erasures").filter(table_name="pages").to_dicts()
    assert (record["order"], record["left_count"], record["gone_count"]) == (done.orders[0], 0, 2)
    assert PAGE not in str(crawl.rows("erasures").to_dicts())
    assert "forget" in str(explaining.explain(crawl.lake, crawl.rules, PAGE, crawl_time(crawl)))
    assert erase(crawl).orders == ()

    # Files that were written anew can be asked for strings in an object store too.
    question = "select count(*) n from fetches where host = 'b.test' and cause <> 'robots' and etag is null"
    assert corpus.query(Far(crawl.lake), question).rows() == corpus.query(crawl.lake, question).rows() != [(0,)]

    # A search that cannot fail proves nothing.
    root = Path(crawl.lake.root)
    (root / "notes.txt").write_text(f"see {PAGE}.")
    (root / "hash.bin").write_text(f'"min":{urls.url_hash(PAGE)}')
    stray = CONTENTS.frame([{"bucket": 0, "month": "2026-03", "round": 1, "body": b"x", "text": PAGE}])
    (root / "fetches" / "bucket=0").mkdir(exist_ok=True)
    stray.select(url="text").write_parquet(root / "fetches" / "bucket=0" / "stray.parquet")

    found = erasing.proved(crawl.lake).found

    assert set(found) == {"notes.txt: URL", "hash.bin: hash", "fetches/bucket=0/stray.parquet: url"}


def test_the_proof_finds_what_is_packed_bare_or_broken_and_says_what_to_do(crawl):
    root = Path(crawl.lake.root)
    forget(crawl, hosts=["a.test", "example.org"])  # which every request names as our own
    (root / "policy.toml").write_text('[block]\nurls = ["http://a.test/*"]\n[resolver]\nhosts = {"a.test" = []}\n')
    done = erase(crawl)
    assert done.proof.holds, done.proof.found
    assert [line for line in done.proof.advice if line.startswith("policy.toml names it")] == done.proof.advice

    (root / "dagster").mkdir()
    planted = {
        "crawl.warc.gz": gzip.compress(b"x" * 100) + gzip.compress(f"WARC-Target-URI: {PAGE}".encode()),
        "long.txt": b"." * (erasing.PART - 9) + PAGE.encode(), "hosts.csv": b"b.test,1\na.test,2\n",
        "shouted.txt": b"HTTP://A.TEST/Secret", "dagster/runs.db": f'\0{{"urls": ["{PAGE}"]}}'.encode(),
        "other.txt": b"xa.test a.test.org a.tests http://x-a.test/", "pages/torn.parquet": b"PAR1 torn",
        "torn.gz": gzip.compress(PAGE.encode())[:-9],
    }  # fmt: skip
    for name, content in planted.items():
        (root / name).write_bytes(content)
    proof = erasing.proved(crawl.lake)

    assert {place.partition(":")[0] for place in proof.found} == planted.keys() - {"other.txt"}
    assert [word for line in proof.advice for word in ("again", "dagster run delete", "by hand") if word in line] == [
        "again", "dagster run delete", "by hand"]  # fmt: skip
    erase(crawl, again=True)
    assert not (root / "pages" / "torn.parquet").exists(), "what no version uses goes, whatever it is"


class Far:
    """A lake whose root says that DuckDB cannot open its files itself."""

    def __init__(self, lake: Lake) -> None:
        self.root, self.tables, self.dataset = f"s3:/{lake.root}", lake.tables, lake.dataset
        self.uneven = lake.uneven

    def files(self, table: str) -> list[str]:
        raise AssertionError(f"files of {table} are not to be opened by name")


def test_a_host_may_go_whose_site_has_others_and_a_recrawl_of_a_site_goes_with_it():
    of_host, of_site = (
        Marks(hosts=frozenset({"a.test"})),
        Marks(hosts=frozenset({"a.test"}), sites=frozenset({"a.test"})),
    )
    other = HOSTS.frame([{"host": "www.a.test", "site": "a.test"}])
    assert Search.of(of_host).in_rows(other, HOSTS) == []
    assert Search.of(of_site).in_rows(HOSTS.frame([{"host": "a.test", "site": "a.test"}]), HOSTS) == ["host"]
    told = ORDERS.frame([{"kind": kind, "site": "a.test"} for kind in ("recrawl", "forget")])
    assert of_site.left(told, ORDERS)["kind"].to_list() == ["forget"]
    assert Search.of(of_site).in_rows(told, ORDERS) == ["site"]


def test_what_is_erased_does_not_come_back_by_a_link_and_does_by_a_seed(crawl):
    forget(crawl, hosts=["a.test"])
    erase(crawl)
    asked = len(crawl.web.paths("a.test"))

    crawl.seed("http://c.test/").work(name="w4")
    assert crawl.stored("c.test") == ["/", "/later"]
    assert len(crawl.web.paths("a.test")) == asked
    assert erasing.proved(crawl.lake).holds
    assert not erasing.open_orders(crawl.lake).height
    duplicates.find(crawl.lake, crawl.rules, clock=lambda: NOON)
    assert all(result.holds for result in reports.run_tests(crawl.lake))

    crawl.seed("http://a.test/").work(name="w5")
    assert "/secret" in crawl.stored("a.test")


def test_a_host_is_erased_with_its_pictures_robots_and_politeness_but_for_a_pause(crawl):
    assert crawl.rows("images").height > 0
    crawl.order("pause", "a.test").work(name="w4")
    shared = crawl.documents().filter(url="http://b.test/copy")["body"].to_list()
    forget(crawl, sites=["a.test"])
    done = erase(crawl)

    assert done.proof.holds, done.proof.found
    for table in ("images", "pages", "fetches", "robots", "frontier", "clusters", "templates", "links", "patterns"):
        assert crawl.lake.stored(table).filter(host="a.test").collect().height == 0, table
    [host] = crawl.rows("hosts").filter(host="a.test").to_dicts()
    assert host["paused"]
    # A content that another site has too is its content, and stays.
    assert crawl.documents().filter(url="http://b.test/copy")["body"].to_list() == shared
    assert PICTURE.body not in crawl.rows("contents")["body"].to_list()
    left = holds(crawl.lake.root, b"://a.test/")
    assert {path.partition("/")[0] for path in left} <= {"contents"}
    assert all(result.holds for result in reports.run_tests(crawl.lake))


class DiesAt:
    """A lake for an erasure that is killed at its n-th step; what would be done on the way out is not."""

    def __init__(self, lake: Lake, nth: int) -> None:
        self._lake, self._left = lake, nth

    def __getattr__(self, name: str) -> Any:
        if name in ("erase", "drop_files", "record", "sweep"):
            self._left -= 1
            if self._left < 0:
                raise Died
        return getattr(self._lake, name)

    def release(self, lease: Any) -> None:
        raise Died


@pytest.mark.parametrize("step", [28])
def test_an_erasure_that_was_killed_is_done_by_the_next_one(crawl, step):
    forget(crawl, hrefs=[PAGE])
    [body] = crawl.documents().filter(url="http://a.test/shared")["body"].unique()
    with pytest.raises(Died):
        erasing.erase(DiesAt(crawl.lake, step), crawl.rules, clock=lambda: crawl_time(crawl))  # type: ignore[arg-type]

    done = erase(crawl)

    assert done.proof.holds, done.proof.found
    left = holds(crawl.lake.root, PAGE.encode() + b'"', str(urls.url_hash(PAGE)).encode())
    assert {path.partition("/")[0] for path in left} <= {"contents"}
    assert [result.name for result in reports.run_tests(crawl.lake) if not result.holds] == []
    assert [text for text in crawl.rows("contents")["text"] if text and text.endswith("word39")] == []
    assert body in crawl.rows("contents")["body"].to_list()


def test_an_erasure_waits_for_workers_and_says_whom_it_waits_for(crawl):
    forget(crawl, hrefs=[PAGE])
    held = crawl.lake.claim([0], "a worker", crawl_time(crawl), 60)

    with pytest.raises(LeaseHeld, match="a worker"):
        erasing.erase(crawl.lake, crawl.rules, clock=lambda: crawl_time(crawl))
    done = maintenance.maintain(crawl.lake, crawl.rules, clock=lambda: crawl_time(crawl))
    assert done.waits_for
    assert erasing.open_orders(crawl.lake).height == 1
    crawl.lake.release(held)
    assert "expected a policy file" in maintenance.maintain(crawl.lake, clock=lambda: crawl_time(crawl)).waits_for
    late = crawl_time(crawl) + timedelta(days=9_000)
    done = maintenance.maintain(crawl.lake, crawl.rules, orphans=False, clock=lambda: late)
    assert done.erased.proof.holds, done.erased.proof.found
    assert not erasing.open_orders(crawl.lake).height
