"""Pages leave the lake as WARC that two tools accept and a third one replays, whole however often it was killed."""

import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from crawls import DAY, NOON, Crawl, Died, policy
from fastwarc.warc import ArchiveIterator
from fastwarc.warc import WarcRecordType as Type

from crawl_pipeline import exporting, ordering
from crawl_pipeline.core import cdxj
from crawl_pipeline.testing import Host
from crawl_pipeline.testing.sites import html, redirect, routes, validated

ROOT = Path(__file__).parent.parent.parent
REPLAYER = ROOT / ".pywb" / "bin"
COMMON = " ".join(f"common{number}" for number in range(40))
NEVER = '<meta name="robots" content="noarchive">'


@pytest.fixture(scope="module")
def crawl(tmp_path_factory: pytest.TempPathFactory) -> Crawl:
    """March: all pages, a copy and a redirect among them; April: one page again (304), and one page as it was (200)."""
    links = ["/copy", "/moved", "/never", "/Query?b=2&a=1", "/same", "/forgotten"]
    a = {
        "/": html("home of a", links), "/copy": html("shared", text=COMMON), "/moved": redirect("/copy"),
        "/never": html("not for archives", head=NEVER), "/Query": html("a query"), "/forgotten": html("forgotten"),
        "/same": validated(routes({"/same": html("it stays")})),
    }  # fmt: skip
    b = {"/": html("home of b", ["/original", "http://a.test/"]), "/original": html("shared", text=COMMON)}
    crawl = Crawl(tmp_path_factory.mktemp("crawled"), Host("a.test", routes(a)), Host("b.test", routes(b)), buckets=1,
                  rules=policy(recrawl={"again": False}))  # fmt: skip
    crawl.seed("http://a.test/", "http://b.test/").work()
    for _ in range(2):
        crawl.wait(20 * DAY)
        crawl.order("recrawl", "http://a.test/same", "http://a.test/copy").work(name="w2")
    ordering.forget(crawl.lake, hrefs=["http://a.test/forgotten"], now=NOON)
    return crawl


def entries(folder: Path) -> list[cdxj.Entry]:
    return [entry for path in sorted(folder.glob("*.cdxj")) for entry in cdxj.entries(path.read_text().splitlines())]


def records(folder: Path, kind: Any) -> list[tuple[dict[str, str], bytes]]:
    found = []
    for path in sorted(folder.glob("*.warc.gz")):
        with path.open("rb") as stream:
            found += [(dict(one.headers), one.reader.read()) for one in ArchiveIterator(stream, record_types=kind)]
    return found


def test_an_export_holds_every_page_once_and_two_other_tools_accept_it(crawl, tmp_path):
    done = exporting.export(crawl.lake, tmp_path / "out")

    files = sorted((tmp_path / "out").glob("*.warc.gz"))
    assert [path.name for path in files] == ["crawl-2026-03-b000-00000.warc.gz", "crawl-2026-04-b000-00000.warc.gz"]
    for path in files:
        for tool in (
            [sys.executable, "-m", "warcio.cli", "check"],
            [str(Path(sys.executable).parent / "fastwarc"), "check", "-q"],
        ):
            assert subprocess.run([*tool, str(path)], check=False, capture_output=True).returncode == 0, tool
    answers = records(tmp_path / "out", Type.response)
    assert all(head["WARC-Payload-Digest"] == exporting.digest(body) for head, body in answers)
    stored = crawl.documents().filter(~pl.col("url").is_in(["http://a.test/never", "http://a.test/forgotten"]))
    bodies = {(head["WARC-Target-URI"], body) for head, body in answers if body}
    assert {url for url, _ in bodies} | {"http://a.test/copy", "http://b.test/original"} == set(stored["url"])
    assert bodies <= set(stored.select("url", "body").iter_rows())
    # A copy in the same month is a revisit; so is a 304, of a version of another month too.
    again = [head for head, _ in records(tmp_path / "out", Type.revisit)]
    assert {head["WARC-Profile"].rpartition("/")[2] for head in again} == {"identical-payload-digest"}
    assert {head["WARC-Target-URI"] for head in again} >= {"http://a.test/same"}
    assert (done.responses, done.revisits) == (len(answers), len(again))
    assert len(records(tmp_path / "out", Type.request)) == len(answers) + len(again)
    [info, _] = records(tmp_path / "out", Type.warcinfo)
    assert b"made from the request log" in info[1]
    assert "http://a.test/never" not in {entry.url for entry in entries(tmp_path / "out")}
    # Again, there is nothing to do; and whoever comes second is told so.
    assert exporting.export(crawl.lake, tmp_path / "out").files == ()
    with exporting.alone(tmp_path / "out"), pytest.raises(exporting.ExportBusy):
        exporting.export(crawl.lake, tmp_path / "out")


def test_an_export_that_is_killed_goes_on_without_doubles_or_halves(crawl, tmp_path):
    whole = exporting.export(crawl.lake, tmp_path / "whole")
    out = tmp_path / "out"

    for nth in range(1, 9):
        lake = Dies(crawl.lake, nth)
        try:
            exporting.export(lake, out, most=1)  # type: ignore[arg-type]
        except Died:
            (out / "crawl-2026-03-b000-00099.warc.gz").write_bytes(b"half")
            (out / "crawl-2026-03-b000-00098.warc.gz.open").write_bytes(b"half")
    exporting.export(crawl.lake, out, months=["2026-03"], buckets=[0])
    exporting.export(crawl.lake, out)

    assert not list(out.glob("*.open"))
    found = sorted((entry.url, entry.at, entry.digest) for entry in entries(out))
    assert found == sorted((entry.url, entry.at, entry.digest) for entry in entries(tmp_path / "whole"))
    assert len(found) == len(set(found)) == whole.responses + whole.revisits
    assert len(records(out, Type.response)) == whole.responses


class Dies:
    """A lake that is killed when it is asked for the n-th time."""

    def __init__(self, lake: Any, nth: int) -> None:
        self._lake, self._left = lake, nth

    def __getattr__(self, name: str) -> Any:
        self._left -= name == "scan"
        if self._left < 0:
            raise Died
        return getattr(self._lake, name)


def test_an_index_gives_seeds(crawl, tmp_path):
    exporting.export(crawl.lake, tmp_path / "out", months=["2026-03"])
    [index] = (tmp_path / "out").glob("*.cdxj")
    found = cdxj.urls_of(index.read_text().splitlines())
    assert set(found) == {entry.url for entry in entries(tmp_path / "out")}
    braces = 'com,example)/{id} 2026 {"url": "http://example.com/{id}"}'
    assert cdxj.urls_of([braces]) == ["http://example.com/{id}"]
    foreign = ['!OpenWayback-CDXJ 1.0', 'com,example)/ 2026 {"url": "http://example.com/", "mime": "warc/revisit"}',
               'dns:example.com 2026 {"url": "dns:example.com"}']  # fmt: skip
    assert cdxj.urls_of(foreign) == ["http://example.com/"]
    with pytest.raises(cdxj.NotCdxj, match="line 1"):
        cdxj.urls_of(["no index"])
    for wrong in ("[1]", '{"url": 5}', '{"url": ' + "[" * 100_000, "{}", '{"url": NaN}'):
        with pytest.raises(cdxj.NotCdxj, match="line 1"):
            cdxj.urls_of([f"com,example)/ 2026 {wrong}"])


def test_an_export_that_cannot_be_is_told_in_words_and_a_full_disk_costs_no_whole_file(crawl, tmp_path):
    out = tmp_path / "out"
    for wrong, says in (({"months": ["2026-13"]}, "expected months such as"), ({"buckets": [99]}, "expected buckets")):
        with pytest.raises(exporting.ExportError, match=says):
            exporting.export(crawl.lake, out, **wrong)
    exporting.export(crawl.lake, out, months=["2026-03"])
    whole = {path.name: path.read_bytes() for path in out.glob("crawl-*")}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, hard))
    try:
        with pytest.raises(exporting.ExportError, match=r"File too large.*run it again"):
            exporting.export(crawl.lake, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert {path.name: path.read_bytes() for path in out.glob("crawl-*") if path.suffix != ".open"} == whole
    (out / "crawl-2026-03-b000-00001.cdxj").write_text("of another\n")
    with pytest.raises(exporting.ExportError, match="delete it with its"):
        exporting.export(crawl.lake, out)


@pytest.mark.parametrize(("url", "key"), [
    ("http://www.Example.com/A/b/", "com,example)/a/b"),
    ("https://example.com:8443/?b=2&a=1", "com,example:8443)/?a=1&b=2"),
    ("http://127.0.0.1/", "127.0.0.1)/"), ("http://a.test", "test,a)/"),
])  # fmt: skip
def test_keys_are_those_that_archives_sort_by(url, key):
    assert cdxj.key(url) == key


def test_pywb_replays_an_export_by_its_index(crawl, tmp_path):
    if not (REPLAYER / "wayback").exists():
        (pytest.fail if os.environ.get("CRAWL_TESTS_NEED_SERVERS") else pytest.skip)("no pywb: make replayer")
    exporting.export(crawl.lake, tmp_path / "out")
    collection = tmp_path / "collections" / "ours"
    for part in ("archive", "indexes"):
        (collection / part).mkdir(parents=True)
    for path in (tmp_path / "out").glob("*.warc.gz"):
        shutil.copy(path, collection / "archive")
    lines = [line for path in (tmp_path / "out").glob("*.cdxj") for line in path.read_text().splitlines()]
    (collection / "indexes" / "index.cdxj").write_text("".join(f"{line}\n" for line in sorted(lines)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(REPLAYER / "wayback"), "-b", "127.0.0.1", "-p", str(port), "-d", str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path)
    try:
        documents = dict(crawl.documents().sort("round").select("url", "body").iter_rows())
        for url in ("http://a.test/", "http://a.test/Query?b=2&a=1", "http://a.test/copy", "http://b.test/original"):
            assert replayed(server, f"http://127.0.0.1:{port}/ours/20260401000000id_/{url}").content == documents[url]
        moved = replayed(server, f"http://127.0.0.1:{port}/ours/20260301id_/http://a.test/moved")
        assert moved.status_code == 301
        assert moved.headers["location"].endswith("http://a.test/copy")
        gone = replayed(server, f"http://127.0.0.1:{port}/ours/2026id_/http://a.test/never")
        assert gone.status_code == 404
    finally:
        server.kill()
        server.wait()


def replayed(server: subprocess.Popen[bytes], url: str) -> httpx.Response:
    """What the replayer answers, once it is up."""
    for _ in range(300):
        assert server.poll() is None, "pywb has ended"
        try:
            return httpx.get(url, timeout=10)
        except httpx.ConnectError:
            time.sleep(0.1)
    raise AssertionError("pywb does not come up")
