"""Slices: the URLs of a large host lie in parts of the base, and no reader sees a difference."""

from datetime import timedelta
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lake_rows import NOON, done

from crawl_pipeline.core.tables import FRONTIER
from crawl_pipeline.lake import Lake, Lease
from crawl_pipeline.lake.folding import Shape
from tests.effort import times

SMALL = Shape(slice_rows=100, rows=150)


def urls_of(host: str, paths: list[str], first: int = 0, due_in: timedelta = timedelta()) -> pl.DataFrame:
    return FRONTIER.frame(
        [{"bucket": 0, "url_hash": first + number, "url": f"http://{host}{path}", "host": host, "status": "waiting",
          "due_at": NOON + due_in}
         for number, path in enumerate(paths)]
    ).drop("round", "layer")  # fmt: skip


def commit(lake: Lake, lease: Lease, *frames: pl.DataFrame) -> Lease:
    lake.write(lease, "frontier", pl.concat(frames))
    lake.commit(lease, done(lease))
    return lake.renew(lease, NOON, 60)


def test_a_large_host_is_cut_into_ranges_of_its_urls_and_others_stay_whole(lake: Lake) -> None:
    paths = [f"/wiki/{number:05d}" for number in range(350)]  # one first segment: its hash would cut nothing
    small = [f"/{number}" for number in range(60)]
    lease = commit(lake, lake.claim([0], "w", NOON, 60), urls_of("big.test", paths), urls_of("small.test", small, 900))
    lake.fold(lease, "frontier", least=1, shape=SMALL)

    parts = lake.scan("frontier").group_by("part", "host").agg(pl.len(), first="url", last="url").collect()
    sizes = {(row["host"], row["part"]): row["len"] for row in parts.iter_rows(named=True)}
    assert sizes == {("small.test", 0): 60, **{("big.test", part): pytest.approx(88, abs=2) for part in (1, 2, 3, 4)}}
    ends = [(min(urls), max(urls)) for urls in parts.filter(pl.col("part") > 0).sort("part")["first"]]
    assert all(one[1] < other[0] for one, other in pairwise(ends))
    assert lake.slices("frontier", [0])["host"].to_list() == ["big.test"] * 4


def test_reading_some_parts_gives_their_rows_and_all_of_the_tail(lake: Lake) -> None:
    paths = [f"/{number:03d}" for number in range(300)]
    lease = commit(lake, lake.claim([0], "w", NOON, 60), urls_of("big.test", paths))
    lake.fold(lease, "frontier", least=1, shape=SMALL)
    commit(lake, lease, urls_of("big.test", paths[:5]).with_columns(status=pl.lit("fetched")))

    read = lake.scan("frontier", parts=[2]).collect()

    assert read.filter(layer="tail").height == 5
    assert read.filter(layer="base")["part"].unique().to_list() == [2]
    assert lake.scan("frontier").select(pl.len()).collect().item() == 300
    assert lake.scan("frontier").filter(status="fetched").select(pl.len()).collect().item() == 5


hosts = st.lists(st.tuples(st.sampled_from(["a.test", "b.test", "c.test"]), st.integers(0, 400), st.integers(0, 6)),
                 max_size=40)  # fmt: skip


@settings(max_examples=times(6, 30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(hosts, min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 60))
def test_no_reader_sees_how_a_fold_has_cut_the_rows(
    tmp_path_factory: pytest.TempPathFactory, rounds: list[list[tuple[str, int, int]]], slice_rows: int, rows: int
) -> None:
    lake = Lake.create(str(tmp_path_factory.mktemp("lakes") / "lake"), 1)
    lease, newest = lake.claim([0], "w", NOON, 60), dict[int, tuple[str, int]]()
    for number, changes in enumerate(rounds):
        last = {url: (host, days) for host, url, days in changes}
        frames = [urls_of(host, [f"/{url}"], url, timedelta(days=days)) for url, (host, days) in last.items()]
        lease = commit(lake, lease, FRONTIER.empty().drop("round", "layer"), *frames)
        newest |= last
        if number % 2 == 0:
            lake.fold(lease, "frontier", least=1, shape=Shape(slice_rows, rows))

    seen = lake.scan("frontier").select("url_hash", "host", "due_at").collect()
    assert {hash_: (host, (at - NOON).days) for hash_, host, at in seen.iter_rows()} == newest
    assert seen.height == len(newest)
