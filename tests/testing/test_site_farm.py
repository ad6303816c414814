"""The farm of real documents serves what its survey says, on hosts of their own, and says what it lacks."""

import http.client
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from crawl_pipeline.testing import site_farm
from crawl_pipeline.testing.farm_survey import Survey, survey
from crawl_pipeline.testing.site_farm import Farm, FarmMissing, conf, rows


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Farm]:
    if not any(map(shutil.which, site_farm.NGINX)) or not Path("/usr/share/doc/python3-doc/html").exists():
        pytest.skip(site_farm.INSTALL)
    planned = site_farm.farm(tmp_path_factory.mktemp("farm"))
    with site_farm.serving(planned):
        yield planned


@pytest.fixture(scope="module")
def surveyed(served: Farm) -> Survey:
    return survey(served)


class Client:
    """A plain client with one connection per host."""

    def __init__(self, farm: Farm) -> None:
        self.hosts, self.port = farm.hosts, farm.port
        self.lines: dict[str, http.client.HTTPConnection] = {}

    def get(self, url: str) -> tuple[int, str, str | None]:
        split = urlsplit(url)
        host = split.hostname or ""
        if host not in self.lines:
            self.lines[host] = http.client.HTTPConnection(self.hosts[host][0], self.port, timeout=10)
        target = split.path + (f"?{split.query}" if split.query else "")
        self.lines[host].request("GET", target, headers={"Host": split.netloc, "User-Agent": "plain"})
        answer = self.lines[host].getresponse()
        answer.read()
        return answer.status, answer.getheader("content-type") or "", answer.getheader("location")

    def close(self) -> None:
        for line in self.lines.values():
            line.close()


@pytest.fixture(scope="module")
def client(served: Farm) -> Iterator[Client]:
    client = Client(served)
    yield client
    client.close()


def test_there_are_fifty_hosts_with_addresses_of_their_own(served: Farm):
    assert len(served.hosts) >= 50
    assert len({address for (address,) in served.hosts.values()}) == len(served.hosts)


def test_every_page_of_the_survey_is_served_as_html(surveyed: Survey, client: Client):
    told = {url: client.get(url)[:2] for url in surveyed.pages}
    assert {url: t for url, t in told.items() if t[0] != 200 or not t[1].startswith("text/html")} == {}


def test_what_the_survey_calls_missing_redirected_or_other_is_so(surveyed: Survey, client: Client):
    assert {client.get(url)[0] for url in sorted(surveyed.missing)[:300]} <= {404, 403}
    assert {client.get(url)[0] for url in sorted(surveyed.redirected)[:300]} == {301}
    others = [client.get(url)[:2] for url in surveyed.others]
    assert all(status == 200 and not kind.startswith("text/html") for status, kind in others)


def test_most_hosts_hold_pages_that_links_reach(surveyed: Survey):
    assert len({urlsplit(url).hostname for url in surveyed.pages}) >= 50


def test_the_log_tells_host_path_status_and_both_times(served: Farm, client: Client):
    url = served.seeds[0]
    client.get(url)
    row = rows(served.log)[-1]
    assert (row.host, row.path, row.status, row.user_agent) == (urlsplit(url).hostname, "/", 200, "plain")
    assert row.started_at <= row.ended_at
    assert row.server == f"{served.hosts[row.host][0]}:{served.port}"


def test_robots_txt_allows_everything_on_every_host(served: Farm, client: Client):
    assert {client.get(f"http://{name}:{served.port}/robots.txt")[0] for name in served.names} == {200}


def small_docs(root: Path) -> dict[str, tuple[str, ...]]:
    """A Boost of two libraries, one of them in two folders."""
    files = {
        "index.html": "<a href=any/a.html><a href=boost/any/b.html><a href=none.html><a href=notes.txt>",
        "any/a.html": '<a href="../units/c.html#top"> <a href="http://elsewhere.example/">',
        "boost/any/b.html": '<frame src="../../any/a.html">',
        "units/c.html": '<base href="/"><a href="index.html">',
        "units/never-linked.html": "",
        "notes.txt": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return {"boost": (str(root),)}


def test_more_hosts_are_whole_copies_under_other_names(tmp_path: Path):
    planned = site_farm.farm(tmp_path, hosts=5, docs=small_docs(tmp_path / "docs"))
    hosts = ["boost", "boost-any", "boost-units", "boost-2", "boost-any-2", "boost-units-2"]
    assert planned.names == [f"{host}.test" for host in hosts]
    assert [urlsplit(seed).hostname for seed in planned.seeds] == ["boost.test", "boost-2.test"]


def test_the_survey_follows_links_through_redirects_to_the_owner_and_no_further(tmp_path: Path):
    planned = site_farm.farm(tmp_path, hosts=1, docs=small_docs(tmp_path / "docs"))
    found, port = survey(planned), planned.port
    own = ["boost.test:{}/", "boost.test:{}/index.html", "boost-any.test:{}/any/a.html"]
    own += ["boost-any.test:{}/boost/any/b.html", "boost-units.test:{}/units/c.html"]
    at_owner = {f"http://{url.format(port)}" for url in own}
    # c.html's base names its own host's root, where only the owner of the front page has an index.
    moved = ["boost.test:{}/any/a.html", "boost.test:{}/boost/any/b.html", "boost-any.test:{}/units/c.html"]
    moved += ["boost-units.test:{}/index.html"]
    assert found.pages == at_owner
    assert found.redirected == {f"http://{url.format(port)}" for url in moved}
    assert found.missing == {f"http://boost.test:{port}/none.html"}
    assert found.others == {f"http://boost.test:{port}/notes.txt"}


def test_a_planned_farm_of_three_hundred_hosts_listens_on_as_many_addresses(served: Farm, tmp_path: Path):
    many = site_farm.farm(tmp_path, hosts=300)
    assert len(many.names) >= 300
    assert conf(many).count("listen 127.2.") == len(many.names)


def test_missing_documents_are_said_with_what_to_run(tmp_path: Path):
    with pytest.raises(FarmMissing, match=r"expected the boost documentation .* run bench/corpus\.sh"):
        site_farm.farm(tmp_path, docs={"boost": ("/nowhere/at/all",)})
