"""Filters of the seen set may vanish or be spoilt at any time: the crawl is the same."""

from collections.abc import Callable
from pathlib import Path

from crawls import Crawl, policy

from crawl_pipeline.testing import site
from tests.effort import long

SEEDS = ("http://a.test/", "http://b.test/")
ALWAYS, NEVER = ({"filter_from": count} for count in (0, 1_000_000_000))
COLUMNS = ("url", "status", "outcome", "depth", "band")


def crawled(root: Path, seen: dict[str, int], *spoils: Callable[[Path], object]) -> Crawl:
    """A whole crawl by workers of a round or two each; files are spoilt between them, each time in another way."""
    web = site("a.test", pages=16), site("b.test", pages=4)
    crawl = Crawl(root, *web, rules=policy(seen=seen, round={"seconds": 4.0})).seed(*SEEDS)
    for turn in range(20):
        worked = crawl.work(5)
        for file in (crawl.lake.caches / "seen").glob("*.bloom"):
            spoils[turn % len(spoils)](file)
        if worked.stopped.startswith("nothing to ask before"):
            break
    crawl.check()
    return crawl


@long
def test_a_crawl_whose_filters_are_spoilt_equals_one_without_filters(tmp_path: Path) -> None:
    plain = crawled(tmp_path / "plain", NEVER, lambda file: None)
    filtered = crawled(
        tmp_path / "filtered", ALWAYS, Path.unlink, lambda file: None,
        lambda file: file.write_bytes(file.read_bytes()[:-20]),
        lambda file: file.write_bytes(bytes(byte ^ 16 for byte in file.read_bytes())),
    )  # fmt: skip

    assert filtered.rows("frontier", *COLUMNS).sort("url").equals(plain.rows("frontier", *COLUMNS).sort("url"))
    assert sorted(filtered.asked("a.test")) == sorted(plain.asked("a.test"))
    assert filtered.stored("a.test") == plain.stored("a.test")
    assert filtered.rows("rounds")["seen_asked_count"].sum() > 0
    assert plain.rows("rounds")["seen_asked_count"].sum() == 0
