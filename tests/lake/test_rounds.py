"""What a round writes, when it is seen, and that writing it twice is writing it once."""

import threading

import polars as pl
import pytest
from lake_rows import NOON, done, hosts, links, statuses, urls

from crawl_pipeline.core.tables import CONTENTS, FETCHES, ORDERS, ROUNDS
from crawl_pipeline.lake import Lake


def fetches(bucket: int, keys: list[int]) -> pl.DataFrame:
    return FETCHES.frame([{"bucket": bucket, "request_id": key, "host": "h.test"} for key in keys]).drop("round")


@pytest.mark.parametrize("table", ["fetches", "links", "hosts"])
def test_rows_are_seen_once_their_round_is_committed(lake: Lake, table: str) -> None:
    lease = lake.claim([0, 1], "w", NOON, 60)
    rows = {"fetches": fetches(0, [1]), "links": links(0, 7, [1]), "hosts": hosts(0, ["a.test"])}[table]
    lake.write(lease, table, rows)
    before = lake.scan(table).collect().height
    lake.commit(lease, done(lease))

    assert (before, lake.scan(table).collect().height) == (0, 1)


@pytest.mark.parametrize("table", ["fetches", "links", "hosts"])
def test_writing_a_round_twice_replaces_it(lake: Lake, table: str) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    first = {"fetches": fetches(0, [1, 2]), "links": links(0, 7, [1, 2]), "hosts": hosts(0, ["a", "b"])}[table]
    lake.write(lease, table, first)
    lake.write(lease, table, first)
    lake.write(lease, table, first.head(1))
    lake.commit(lease, done(lease))
    lake.commit(lease, done(lease))

    assert lake.dataset(table).count_rows() == 1
    assert lake.scan(table).collect().height == 1
    assert lake.scan("rounds").collect().height == 1


def test_an_empty_frame_clears_what_the_round_wrote(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "fetches", fetches(0, [1]))
    lake.write(lease, "fetches", FETCHES.empty().drop("round"))

    assert lake.dataset("fetches").count_rows() == 0


def test_an_empty_frame_where_nothing_was_written_makes_no_version(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "fetches", FETCHES.empty().drop("round"))

    assert lake.versions()["fetches"] == 0


def test_a_bucket_left_out_of_the_commit_stays_unseen(lake: Lake) -> None:
    lease = lake.claim([0, 1], "w", NOON, 60)
    lake.write(lease, "frontier", pl.concat([urls(0, {1: "new"}), urls(1, {2: "new"})]))
    lake.write(lease, "links", pl.concat([links(0, 7, [1]), links(1, 7, [2])]))
    lake.commit(lease, done(lease, [1]))

    assert statuses(lake) == {2: "new"}
    assert lake.scan("links").collect()["url_hash"].to_list() == [2]


def test_the_commit_fills_in_round_epoch_and_worker(lake: Lake) -> None:
    lake.release(lake.claim([4], "before", NOON, 60))
    lease = lake.claim([4], "w", NOON, 60)
    lake.commit(lease, done(lease))

    row = lake.scan("rounds").select("bucket", "round", "epoch", "worker").collect().row(0)
    assert row == (4, lease.round, 2, "w")


def test_a_scan_takes_links_by_target_and_after_a_round(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "links", pl.concat([links(0, 7, [1]), links(0, 6, [2])]))
    lake.commit(lease, done(lease))
    second = lake.renew(lease, NOON, 60)
    lake.write(second, "links", links(0, 7, [3]))
    lake.commit(second, done(second))

    assert lake.scan("links", buckets=[7]).collect()["url_hash"].sort().to_list() == [1, 3]
    assert lake.scan("links", buckets=[7], since=lease.round).collect()["url_hash"].to_list() == [3]
    assert lake.scan("links", where=pl.col("url_hash") > 2).collect()["url_hash"].to_list() == [3]


def test_a_scan_at_versions_does_not_see_what_came_after(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "frontier", urls(0, {1: "new"}))
    lake.commit(lease, done(lease))
    then = lake.versions()
    lease = lake.renew(lease, NOON, 60)
    lake.write(lease, "frontier", urls(0, {1: "fetched", 2: "new"}))
    lake.commit(lease, done(lease))
    lake.fold(lease, "frontier", least=1)

    assert statuses(lake, at=then) == {1: "new"}
    assert statuses(lake) == {1: "fetched", 2: "new"}


def test_workers_that_write_links_at_the_same_time_do_not_collide_nor_rewrite_files(lake: Lake) -> None:
    leases = [lake.claim([bucket], f"w{bucket}", NOON, 60) for bucket in range(6)]
    first = leases[0]
    lake.write(first, "links", links(0, 7, [0]))
    kept = lake.files("links")
    start = threading.Barrier(5)

    def work(bucket: int) -> None:
        own = Lake.open(lake.root)
        start.wait()
        for _ in range(3):
            own.write(leases[bucket], "links", links(bucket, 7, range(50)))
        own.commit(leases[bucket], done(leases[bucket]))

    threads = [threading.Thread(target=work, args=(bucket,)) for bucket in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert lake.scan("links").collect().height == 250
    assert set(kept) < set(lake.files("links"))


def test_tables_written_side_by_side_are_all_there(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    frames = {
        "fetches": fetches(0, [1]),
        "links": links(0, 7, [1]),
        "hosts": hosts(0, ["a"]),
        "frontier": urls(0, {1: "x"}),
    }
    lake.write_all(lease, frames)
    lake.commit(lease, done(lease))

    assert [lake.scan(name).collect().height for name in frames] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (urls(3, {1: "new"}), "bucket to be one of"),
        (urls(0, {1: "new"}).with_columns(round=pl.lit(99, pl.Int64)), "round to be one of"),
        (urls(0, {1: "new"}).with_columns(layer=pl.lit("base")), "layer to be one of"),
        (urls(0, {1: "new"}).drop("status"), "expected the columns"),
        (pl.concat([urls(0, {1: "new"}), urls(0, {1: "new"})]), "expected one row per"),
    ],
)
def test_rows_that_do_not_belong_to_the_round_are_refused(lake: Lake, frame: pl.DataFrame, complaint: str) -> None:
    lease = lake.claim([0], "w", NOON, 60)

    with pytest.raises(ValueError, match=complaint):
        lake.write(lease, "frontier", frame)
    assert lake.versions()["frontier"] == 0


@pytest.mark.parametrize("table", ["rounds", "leases", "orders"])
def test_tables_that_rounds_do_not_own_cannot_be_written(lake: Lake, table: str) -> None:
    lease = lake.claim([0], "w", NOON, 60)

    with pytest.raises(ValueError, match="expected a log or state table"):
        lake.write(lease, table, ROUNDS.empty())


def test_orders_are_numbered_in_the_order_given(lake: Lake) -> None:
    order = ORDERS.frame([{"kind": "seed", "url": "http://h.test/"}])
    numbers = [lake.give(order) for _ in range(3)]

    assert numbers == sorted(set(numbers))
    assert lake.scan("orders").collect()["order"].sort().to_list() == numbers


def test_orders_given_at_the_same_time_get_different_numbers(lake: Lake) -> None:
    numbers: list[int] = []

    def give(person: str) -> None:
        numbers.append(Lake.open(lake.root).give(ORDERS.frame([{"kind": "seed", "ordered_by": person}])))

    threads = [threading.Thread(target=give, args=(person,)) for person in ("ann", "bob", "cid", "dot")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(numbers) == lake.scan("orders").collect()["order"].sort().to_list()
    assert len(set(numbers)) == 4


def many_rounds(lake: Lake, count: int) -> pl.DataFrame:
    """Commit rounds that write fetches of two buckets and links; give the links."""
    lease = lake.claim([0, 1], "w", NOON, 60)
    for key in range(count):
        lake.write(lease, "fetches", pl.concat([fetches(0, [key]), fetches(1, [100 + key])]))
        lake.write(lease, "links", links(0, 7, [key]))
        lake.commit(lease, done(lease))
        lease = lake.renew(lease, NOON, 60)
    return lake.scan("links").sort("url_hash").collect()


def test_tidying_a_log_keeps_its_rows_and_leaves_fewer_files(lake: Lake) -> None:
    many_rounds(lake, 6)
    seen = lake.scan("fetches").sort("request_id").collect()

    assert not lake.tidy("fetches", files=6)
    assert lake.tidy("fetches", buckets=[0], files=5)
    assert lake.tidy("rounds", files=5)
    assert (len(lake.files("fetches")), len(lake.files("rounds"))) == (2 + 6, 4)
    assert lake.scan("fetches").sort("request_id").collect().equals(seen)


def test_tidying_twice_at_the_same_time_doubles_nothing(lake: Lake) -> None:
    seen = many_rounds(lake, 6)
    start = threading.Barrier(4)

    def tidy() -> None:
        own = Lake.open(lake.root)
        start.wait()
        own.tidy("links", files=3)

    threads = [threading.Thread(target=tidy) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert lake.dataset("links").count_rows() == 6
    assert lake.scan("links").sort("url_hash").collect().equals(seen)


def test_a_round_can_still_be_replaced_after_its_files_were_tidied(lake: Lake) -> None:
    first = lake.claim([2], "slow", NOON, 60)
    lake.write(first, "links", links(2, 7, [50, 51]))
    many_rounds(lake, 6)
    assert lake.tidy("links", files=3)
    lake.write(first, "links", links(2, 7, [52]))
    lake.commit(first, done(first))

    assert lake.scan("links").collect()["url_hash"].sort().to_list() == [0, 1, 2, 3, 4, 5, 52]


def content(name: str) -> dict[str, object]:
    return {"bucket": 0, "month": "2026-03", "body_hash": name.encode() * 16, "charset": "utf-8",
            "body": name.encode() + b"\xff\0", "text": name}  # fmt: skip


def test_a_content_keeps_its_bytes_its_month_and_its_place_beside_its_like(lake: Lake) -> None:
    lease = lake.claim([0], "w", NOON, 60)
    lake.write(lease, "contents", CONTENTS.frame([content(name) for name in "cab"]).drop("round"))
    lake.commit(lease, done(lease))

    found = lake.scan("contents").select("month", "body").collect()
    assert found.rows() == [("2026-03", b"c\xff\0"), ("2026-03", b"a\xff\0"), ("2026-03", b"b\xff\0")]


def test_contents_of_many_rounds_are_joined_in_the_order_of_rounds_and_stay_as_they_were(lake: Lake) -> None:
    names = ["zy", "xw", "vu", "ts", "rq"]
    for pair in names:
        lease = lake.claim([0], "w", NOON, 60)
        lake.write(lease, "contents", CONTENTS.frame([content(name) for name in pair]).drop("round"))
        lake.commit(lease, done(lease))
        lake.release(lease)
    assert lake.size("contents").files == 5

    assert lake.tidy("contents", files=2)

    assert lake.size("contents").files < 5
    found = lake.scan("contents").sort("round", maintain_order=True).collect()
    assert found["text"].to_list() == list("".join(names))
    assert found["body"].to_list() == [name.encode() + b"\xff\0" for name in "".join(names)]
