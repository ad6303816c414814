"""A host whose URLs lie in slices is crawled like any other: to the end, by one lane, at its pace."""

from pathlib import Path
from typing import Any

from crawls import Crawl, policy

from crawl_pipeline.lake import Lake
from crawl_pipeline.lake.folding import Shape
from crawl_pipeline.testing import site
from tests.effort import long


class FoldsSmall:
    """A lake that folds in every round, and cuts hosts of over twenty URLs."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self.most_slices = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lake, name)

    def fold(self, lease: Any, table: str) -> tuple[int, ...]:
        folded = self._lake.fold(lease, table, share=0, rounds=0, least=1, shape=Shape(slice_rows=20, rows=50))
        self.most_slices = max(self.most_slices, self._lake.slices("frontier", lease.buckets).height)
        return folded


@long
def test_a_large_host_in_slices_is_crawled_to_the_end_beside_small_ones_and_at_its_pace(tmp_path: Path) -> None:
    rules = policy(round={"seconds": 10.0, "shortest_s": 1.0})
    names = ["big.test", "c.test", "d.test"]
    crawl = Crawl(tmp_path, site("big.test", pages=130), site("c.test", pages=8), site("d.test", pages=8), rules=rules)
    crawl.seed(*(f"http://{name}/" for name in names))
    lake = FoldsSmall(crawl.lake)

    crawl.work(seconds=1_000, lake=lake)

    assert lake.most_slices >= 5
    assert [len(crawl.stored(name)) for name in names] == [130, 8, 8]
    assert len(crawl.asked("big.test")) == len(set(crawl.asked("big.test"))) == 130
    crawl.check()
