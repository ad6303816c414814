"""Making and opening a lake, and the lakes that are refused."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import deltalake
import polars as pl
import pytest
from lake_rows import NOON

from crawl_pipeline.core.tables import HOSTS, LEASES, TABLES
from crawl_pipeline.lake import Lake, LakeBusy, LakeExists, LakeMismatch, LakeMissing, LakeUnwritable, leases
from crawl_pipeline.lake.delta import Backoff, DeltaTable


def test_a_lake_remembers_its_bucket_count(tmp_path: Path) -> None:
    Lake.create(str(tmp_path), 32)

    lake = Lake.open(str(tmp_path))
    assert lake.buckets == 32
    assert lake.leases()["released"].to_list() == [True] * 32


@pytest.mark.parametrize("buckets", [0, 3, 48, 2048, -2])
def test_a_bucket_count_that_is_no_power_of_two_is_refused(tmp_path: Path, buckets: int) -> None:
    with pytest.raises(ValueError, match="power of two"):
        Lake.create(str(tmp_path), buckets)


def test_opening_nothing_says_that_there_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(LakeMissing, match="crawl init"):
        Lake.open(str(tmp_path / "none"))


def test_making_a_lake_where_one_is_is_refused(lake: Lake) -> None:
    with pytest.raises(LakeExists, match="found one"):
        Lake.create(lake.root, 16)


def test_making_a_lake_can_be_repeated_after_it_was_killed_half_way(lake: Lake) -> None:
    for name in ("leases", "frontier", "rounds"):
        shutil.rmtree(Path(lake.root) / name)
    with pytest.raises(LakeMissing):
        Lake.open(lake.root)

    assert Lake.create(lake.root, 16).buckets == 16


def test_a_missing_table_is_named(lake: Lake) -> None:
    shutil.rmtree(Path(lake.root) / "pages")

    with pytest.raises(LakeMismatch, match=r"'pages'.*found none"):
        Lake.open(lake.root)


def test_another_schema_is_refused_with_the_difference(lake: Lake) -> None:
    shutil.rmtree(Path(lake.root) / "hosts")
    other = HOSTS.empty().drop("site").with_columns(colour=pl.lit("", pl.String))
    deltalake.write_deltalake(f"{lake.root}/hosts", other, partition_by=["bucket", "layer"])

    with pytest.raises(LakeMismatch, match=r"unknown .*colour.*absent .*site"):
        Lake.open(lake.root)


def test_another_partitioning_is_refused(lake: Lake) -> None:
    shutil.rmtree(Path(lake.root) / "hosts")
    deltalake.write_deltalake(f"{lake.root}/hosts", HOSTS.empty(), partition_by=["bucket"])

    with pytest.raises(LakeMismatch, match=r"partitioned by \['bucket'\]"):
        Lake.open(lake.root)


@pytest.mark.parametrize("options", [{"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, {"aws_s3_allow_unsafe_rename": "true"}])
def test_settings_that_make_commits_unsafe_are_refused(lake: Lake, options: dict[str, str]) -> None:
    with pytest.raises(LakeMismatch, match="conditional writes"):
        Lake.open(lake.root, options)
    with pytest.raises(LakeMismatch, match="conditional writes"):
        Lake.create("s3://bucket/lake", 16, options)


def test_statistics_are_kept_of_keys_and_never_of_texts_or_bodies(lake: Lake) -> None:
    settings = deltalake.DeltaTable(f"{lake.root}/pages").metadata().configuration

    assert settings["delta.dataSkippingStatsColumns"] == "round,url_hash,host,fetched_at"
    assert settings["delta.checkpointInterval"] == "20"
    assert settings["delta.enableExpiredLogCleanup"] == "false"


def test_every_table_can_be_scanned_while_it_is_empty(lake: Lake) -> None:
    for table in TABLES.values():
        assert lake.scan(table, buckets=[0]).collect().schema == table.schema


def test_a_commit_that_never_stands_waits_longer_each_time_and_then_gives_up(lake: Lake) -> None:
    waits: list[float] = []
    hosts = DeltaTable(lake.root, HOSTS, {}, Backoff(faults=3, first_s=1, cap_s=9, sleep=waits.append))

    def fail(_: object) -> None:
        raise OSError("the store does not answer")

    with pytest.raises(LakeBusy, match=r"within 3 attempts.*does not answer"):
        hosts.commit(fail)
    assert all(0 <= wait <= bound for wait, bound in zip(waits, (1, 2), strict=True))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("Unable to copy data to file: No space left on device (os error 28)", "no space left.*make room"),
        ("Unable to open file x#1: Read-only file system (os error 30)", "read-only file system.*mount it"),
        ('Os { code: 13, kind: PermissionDenied, message: "Permission denied" }', "permission denied.*let this user"),
    ],
)
def test_a_store_that_takes_nothing_is_told_at_once_with_what_to_do(lake: Lake, fault: str, said: str) -> None:
    tried: list[object] = []

    def fail(opened: object) -> None:
        tried.append(opened)
        raise OSError(fault)

    with pytest.raises(LakeUnwritable, match=said):
        DeltaTable(lake.root, HOSTS, {}, Backoff()).commit(fail)
    assert len(tried) == 1


def test_a_lake_in_a_folder_with_a_space_in_its_name_works(tmp_path: Path) -> None:
    lake = Lake.create(str(tmp_path / "a b"), 2)

    assert lake.claim([0], "w", NOON, 60).buckets == (0,)
    assert lake.leases()["worker"].to_list() == ["w", None]


def test_a_lake_has_the_bucket_count_that_was_stamped_first_whoever_comes_first_to_its_leases(tmp_path: Path) -> None:
    root = str(tmp_path / "lake")
    killed = Lake.create(root, 4)
    shutil.rmtree(tmp_path / "lake" / "leases")

    made = Lake.create(root, 8)

    assert made.buckets == killed.buckets == 4
    assert made.leases()["bucket"].to_list() == [0, 1, 2, 3]


def test_of_several_who_make_one_table_at_the_same_moment_one_puts_its_rows_in(tmp_path: Path) -> None:
    for turn in range(6):
        ready = Barrier(4)

        def make(buckets: int, root: str = str(tmp_path / str(turn)), ready: Barrier = ready) -> int:
            table = DeltaTable(root, LEASES, {}, Backoff())
            ready.wait()
            return buckets if table.create(leases.first_rows(buckets)) else 0

        with ThreadPoolExecutor(4) as pool:
            made = list(pool.map(make, [2, 4, 8, 16]))

        rows = DeltaTable(str(tmp_path / str(turn)), LEASES, {}, Backoff()).read(
            lambda opened: opened.to_pyarrow_table()
        )
        assert [buckets for buckets in made if buckets] == [rows.num_rows]


def test_of_several_who_make_one_lake_at_once_one_does_and_all_others_are_told(tmp_path: Path) -> None:
    def make(buckets: int) -> int:
        try:
            return Lake.create(str(tmp_path / "lake"), buckets).buckets
        except LakeExists:
            return 0

    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(make, [2, 4, 8, 16]))

    opened = Lake.open(str(tmp_path / "lake"))
    assert [buckets for buckets in made if buckets] == [opened.buckets]
    assert opened.leases().height == opened.buckets
