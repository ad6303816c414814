"""Erasure: what was ordered to be forgotten vanishes from every file of the lake, and a search of all bytes proves it.

`forget` hides at once. Here the order is carried out: rows are rewritten, old files and log entries deleted, and what
is left is searched. Decides in which order; what vanishes is in `core.erasure`, how in `lake.erasing`.

It needs every bucket, for a round that is under way has bodies in hand. Workers give theirs back when their time is up;
until then it waits, or raises LeaseHeld, and the order stays open. First waiting orders and links are taken in, pages
leave their clusters, and rows of rounds that never came to be are swept. Then each table is rewritten: contents before
the pages that name them, the frontier, which knows all URLs of a host, last. So an erasure that was killed is repeated
as if it had not begun. What is forgotten is kept away by the order alone, which every round reads; a link to it that is
found later is not even logged.

Invariant: an order counts as carried out only if the search after it found nothing, nowhere; that is recorded in
`erasures`, without what was erased.
"""

import gzip
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from typing import Any

import polars as pl
import pyarrow as pa

from crawl_pipeline import duplicates, ordering
from crawl_pipeline.core import erasure, urls
from crawl_pipeline.core.erasure import Marks, Search
from crawl_pipeline.core.orders import InForce
from crawl_pipeline.core.policy import Policy
from crawl_pipeline.core.tables import CONTENTS, ERASURES, FETCHES, HOSTS, MERGES, ORDERS, Table
from crawl_pipeline.lake import Lake, LeaseLost, Overtaken
from crawl_pipeline.lake.erasing import LOG, Deleted, Rewritten, listed, rows_in
from crawl_pipeline.standstill import LEASE_S, Standstill, now, renewed

FREE = (MERGES, ORDERS, ERASURES)
"""Tables that are written without holding a bucket, beside those that are derived from all."""
NOT_OF_PAGES = ("rounds", "leases", "module_tables", "erasures")
"""Tables that say nothing of single pages or hosts."""
TRIES = 3
POLICY = "policy.toml"
DAGSTER = "dagster/"
"""Where `crawl ui` has Dagster's records."""
GZIP = b"\x1f\x8b"
PART, OVERLAP = 16 << 20, 1 << 14
"""Bytes of a file that are searched at a time, and those that are searched again with the next."""

Clock = Callable[[], datetime]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Proof:
    """A search of the whole lake: files and bytes that were read, where something was found, and texts of other pages
    that name an erased URL."""

    files: int
    bytes: int
    found: tuple[str, ...]
    mentions: int
    by_people: tuple[str, ...] = ()
    """What is not rows of the crawl and names it: the policy file, which may, and files that are found to hold it."""

    @property
    def advice(self) -> list[str]:
        """What to do about what was found."""
        told = []
        of_dagster = [place for place in self.by_people if place.startswith(DAGSTER)]
        if any(place.partition(": ")[0] not in self.by_people for place in self.found):
            told.append("run it again: crawl erase; files that were being written are deleted after an hour")
        if of_dagster:
            told.append("delete the runs that name it from Dagster's records (`dagster run delete ID`), or that folder")
        if set(self.by_people) - {*of_dagster, POLICY}:
            told.append("delete or edit by hand what is no table: an erasure leaves other files as they are")
        if POLICY in self.by_people:
            told.append(f"{POLICY} names it, as your rules may: take it out there if you need it no more")
        return told

    @property
    def holds(self) -> bool:
        """Whether nothing was found."""
        return not self.found


@dataclass(frozen=True, slots=True)
class Erased:
    """What an erasure came to: the orders it was for, what it did to each table, and the proof."""

    orders: tuple[int, ...]
    number: int | None = None
    tables: Mapping[str, tuple[Rewritten, Deleted]] = field(default_factory=dict)
    proof: Proof | None = None

    def figures(self) -> dict[str, Any]:
        """The same as plain values."""
        done = self.tables.values()
        return {
            "orders": list(self.orders), "erasure": self.number, "rows": sum(one.gone for one, _ in done),
            "rows_changed": sum(one.changed for one, _ in done), "files": sum(one.files for _, one in done),
            "bytes": sum(one.bytes for _, one in done), "left": sum(one.left for _, one in done),
            "proved": self.proof is not None and self.proof.holds,
            "searched_files": self.proof.files if self.proof else 0,
            "searched_bytes": self.proof.bytes if self.proof else 0,
            "found": list(self.proof.found) if self.proof else [],
            "mentions": self.proof.mentions if self.proof else 0,
        }  # fmt: skip


def open_orders(lake: Lake) -> pl.DataFrame:
    """Orders to forget that are in force and not carried out, as far as a proof says."""
    done = lake.scan("erasures", where=(pl.col("left_count") == 0) & pl.col("order").is_not_null())
    told = lake.scan("orders", where=pl.col("kind") == "forget").join(done, on="order", how="anti").collect()
    in_force = ordering.in_force(lake) if told.height else None
    return told.filter([in_force is not None and _holds(row, in_force) for row in told.iter_rows(named=True)])


def erase(
    lake: Lake, policy: Policy, *, again: bool = False, wait_s: float = 0.0, clock: Clock = now,
    tell: Tell = lambda step: None,
) -> Erased:  # fmt: skip
    """Carry out all open orders to forget; with `again` those too that were.

    `policy` is what the policy file says; `tell` hears of each step before it is done. Raise LeaseHeld if some buckets
    are not free after `wait_s`, Overtaken if a clustering is at work all the time.
    """
    wanted = open_orders(lake)["order"].unique().sort().to_list()
    if not (wanted or (again and ordering.in_force(lake).forgets)):
        return Erased(())
    rules = ordering.policy_in_force(lake, policy)
    ordering.keep_policy(lake, rules, clock())
    with _held(lake, rules, wait_s, clock, tell) as still:
        wanted = open_orders(lake)["order"].unique().sort().to_list()  # another erasure may have been at work
        if not (wanted or again):
            return Erased(())
        still.catch_up()
        _leave_clusters(lake, policy, clock, tell)
        _settle(still)
        marks = marks_of(lake, ordering.in_force(lake))
        done = _rewritten(still, marks)
        still.catch_up(recount=True)
        files = _dropped(still, clock)
        proof = prove(lake, marks, tell=tell)
        left = [f"{name}: {one.left} files that somebody may be about to commit" for name, one in files.items()
                if one.left and any(found.startswith(f"{name}/") for found in proof.found)]  # fmt: skip
        proof = replace(proof, found=(*proof.found, *left))
        tables = {name: (done.get(name, Rewritten(0, 0)), one) for name, one in files.items()}
        made = Erased(tuple(wanted), None, tables, proof)
        return replace(made, number=_recorded(lake, made, still.lease.holder, clock()))


def proved(lake: Lake, *, tell: Tell = lambda step: None) -> Proof:
    """Search the lake for all that is forgotten, and change nothing.

    It is told from the orders, and so by URL, hash and host; what a page's text was nobody knows any more.
    """
    return prove(lake, marks_of(lake, ordering.in_force(lake)), tell=tell)


@contextmanager
def _held(lake: Lake, policy: Policy, wait_s: float, clock: Clock, tell: Tell) -> Iterator[Standstill]:
    """Hold every bucket, and renew the lease while a long step is under way."""
    still = Standstill.take(lake, policy, "erasure", LEASE_S, wait_s=wait_s, clock=clock, tell=tell)
    try:
        with renewed(lake, still.lease, clock):
            yield still
    finally:
        with suppress(LeaseLost):
            still.release()


def _holds(row: Mapping[str, Any], in_force: InForce) -> bool:
    if row["url"] is not None:
        return urls.url_hash(row["url"]) in in_force.urls
    return row["host"] in in_force.hosts if row["host"] is not None else row["site"] in in_force.sites


# What is erased.


def marks_of(lake: Lake, in_force: InForce) -> Marks:
    """All that is to vanish, from the orders and from what the tables still hold."""
    hosts = _hosts(lake, in_force)
    given = lake.scan("orders", where=(pl.col("kind") == "forget") & pl.col("url").is_not_null()).collect()
    named = frozenset(url for url in given["url"] if urls.url_hash(url) in in_force.urls)
    some = Marks(named, _hashes(lake, hosts, in_force), hosts, in_force.sites)
    going, staying = _contents(lake, some)
    digests = _only(_digests(lake, some, gone=True), _digests(lake, some, gone=False))
    bodies = _only(going["body_hash"].unique(), staying["body_hash"])
    contents = going.join(staying, on=erasure.KEY, how="anti")
    return replace(some, digests=digests, bodies=bodies, contents=contents)


def _hosts(lake: Lake, in_force: InForce) -> frozenset[str]:
    """The hosts that are forgotten, those of forgotten sites that any table knows among them."""
    found = set(in_force.hosts)
    if in_force.sites:
        for table in _with(lake, "host"):
            hosts = lake.stored(table).select("host").unique().collect(engine="streaming")["host"].drop_nulls()
            found |= {host for host in hosts if urls.site(host) in in_force.sites and host not in in_force.spared}
        found |= in_force.sites - in_force.spared
    return frozenset(found)


def _hashes(lake: Lake, hosts: frozenset[str], in_force: InForce) -> pl.Series:
    found = [pl.Series("url_hash", sorted(in_force.urls), dtype=pl.Int64)]
    if hosts:
        found += [
            lake.stored(table).filter(pl.col("host").is_in(sorted(hosts))).select("url_hash").unique()
            .collect(engine="streaming")["url_hash"].drop_nulls()
            for table in _with(lake, "host", "url_hash")
        ]  # fmt: skip
    return pl.concat(found).unique().sort()


def _digests(lake: Lake, marks: Marks, *, gone: bool) -> pl.Series:
    """Digests of texts of the pages that go, or of those that stay."""
    found = [pl.Series(dtype=pl.Int64)]
    for table in lake.tables.values():
        of_page = erasure.of_page(table, marks)
        for name in erasure.digests_of(table):
            rows = lake.stored(table).filter(of_page if gone else ~of_page).select(pl.col(name).alias("digest"))
            found.append(rows.unique().collect(engine="streaming")["digest"].drop_nulls())
    return pl.concat(found).unique()


def _contents(lake: Lake, marks: Marks) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Names of contents that a page has which goes, and of those among them that another page has which stays."""
    going, staying = [], []
    for table in _with(lake, "content_round"):
        of_page = erasure.of_page(table, marks)
        kept = lake.stored(table).filter(pl.col("body_hash").is_not_null())
        going.append(erasure.keys_of(kept.filter(of_page)))
        staying.append(erasure.keys_of(kept.filter(~of_page)))
    gone = pl.concat(going).unique().collect(engine="streaming")
    same = pl.concat(staying).join(gone.select("body_hash").unique().lazy(), on="body_hash", how="semi")
    return gone, same.unique().collect(engine="streaming")


def _only(some: pl.Series, others: pl.Series) -> pl.Series:
    return some.filter(~some.is_in(others.implode())) if len(others) and len(some) else some


def _with(lake: Lake, *columns: str) -> list[Table]:
    return [table for table in lake.tables.values() if set(columns) <= set(table.column_names)]


# How.


def _leave_clusters(lake: Lake, policy: Policy, clock: Clock, tell: Tell) -> None:
    """Let pages leave their clusters, which may be named after their texts; then nothing of before is left there."""
    tell("clusters: let forgotten pages leave")
    for left in reversed(range(TRIES)):
        try:
            duplicates.find(lake, policy, clock=clock)
            break
        except Overtaken:
            if not left:
                raise
    lake.fold_clusters(least=1, most=0)


def _settle(still: Standstill) -> None:
    """Leave one row per host, the newest, and no row of a round that never came to be."""
    for table in still.lake.tables.values():
        if table.kind in ("log", "state") and "round" in table.column_names:
            still.tell(f"{table.name}: sweep")
            still.lake.sweep(still.lease, table)
    still.lake.fold(still.lease, HOSTS, share=0, rounds=0, least=1)
    still.renew()


def _rewritten(still: Standstill, marks: Marks) -> dict[str, Rewritten]:
    """Rewrite every table, those last that say what is to vanish elsewhere."""
    named = [name for name in still.lake.tables if name not in (*NOT_OF_PAGES, *erasure.LAST, CONTENTS.name)]
    shared = sorted(named, key=lambda name: "content_round" in still.lake.tables[name].column_names)
    done = {}
    for name in (CONTENTS.name, *shared, *erasure.LAST):
        still.tell(f"{name}: rewrite without what is forgotten")
        done[name] = still.lake.erase(name, marks)
        still.renew()
    return done


def _dropped(still: Standstill, clock: Clock) -> dict[str, Deleted]:
    """Delete old files and log entries of every table that was or may have been of the page, and all caches."""
    lake, files = still.lake, {}
    for name in lake.tables:
        if name in NOT_OF_PAGES:
            continue
        still.tell(f"{name}: delete old files and the log of them")
        table = lake.tables[name]
        at_rest = not still.lease.crashed and table not in FREE and table.kind != "derived"
        files[name] = lake.drop_files(name, clock(), at_rest=at_rest)
        still.renew()
    shutil.rmtree(lake.caches, ignore_errors=True)
    return files


def prove(lake: Lake, marks: Marks, *, tell: Tell = lambda step: None) -> Proof:
    """Search every file below the lake, each column of each table and every other byte."""
    search, store, tables = Search.of(marks), lake.store, lake.tables
    files, size, found, mentions, by_people = 0, 0, list[str](), 0, set[str]()
    # People's rules name hosts: the policy, orders (in their log's statistics too), and what is to be left alone.
    paused = lake.scan(HOSTS, where=pl.col("paused") & pl.col("host").is_in(sorted(marks.hosts))).collect()
    named = (ORDERS.name, *([HOSTS.name] if paused.height else []))
    ours = lake.stored(FETCHES).select(pl.col(erasure.OURS).unique()).collect()[erasure.OURS].drop_nulls()
    for file in listed(store):
        folder, _, rest = file.path.partition("/")
        if files % 1_000 == 0:
            tell(f"search: {files:,} files, {size / 1e6:,.0f} MB so far")
        files, size, of_log = files + 1, size + (file.size or 0), folder in tables
        try:
            if rest.endswith(".parquet") and not rest.startswith(LOG) and of_log:
                for rows in rows_in(store, file.path):
                    found += [f"{file.path}: {column}" for column in search.in_rows(rows, tables[folder])]
                    mentions += search.mentioned(rows)
                continue
            parts = (reduce(_without, ours if of_log else (), part) for part in _parts(store, file.path))
            seen = [what for part in parts for what in search.in_bytes(part, of_log=of_log)]
        except FileNotFoundError:
            continue  # it went between the two looks
        except (pa.ArrowInvalid, OSError, EOFError, zlib.error) as trouble:
            seen = [f"cannot be read, {type(trouble).__name__}"]
        seen = [what for what in seen if what != "host" or folder not in named]
        by_people |= {file.path} if seen and not of_log else set()
        found += [f"{file.path}: {what}" for what in seen if file.path != POLICY]
    return Proof(files, size, tuple(sorted(set(found))), mentions, tuple(sorted(by_people)))


def _without(content: bytes, said: str) -> bytes:
    """Leave out what the crawl says of itself: least and greatest values of it stand in logs."""
    return content.replace(f'"{said}"'.encode(), b"")


def _parts(store: Any, path: str) -> Iterator[bytes]:
    """The bytes of a file, some at a time, each with the end of those before; of what is compressed, what it says."""
    if path.endswith(".parquet"):
        for rows in rows_in(store, path):
            yield rows.write_ndjson().replace("\\", "").encode()
        return
    with store.open_input_file(path) as content:
        packed = content.read(2) == GZIP
        content.seek(0)
        stream, end = gzip.GzipFile(fileobj=content) if packed else content, b""
        while part := bytes(stream.read(PART)):
            yield (end + part).replace(b"\\", b"")
            end = part[-OVERLAP:]


def _recorded(lake: Lake, made: Erased, worker: str, at: datetime) -> int:
    assert made.proof is not None  # it is recorded with its proof
    versions = lake.versions()
    rows: list[dict[str, object]] = [
        {"order": order, "table_name": name, "erased_at": at, "worker": worker, "until_at": at,
         "gone_count": rewritten.gone, "changed_count": rewritten.changed, "file_count": deleted.files,
         "file_bytes": deleted.bytes, "version": versions[name], "searched_count": made.proof.files,
         "searched_bytes": made.proof.bytes, "left_count": len(made.proof.found),
         "mention_count": made.proof.mentions}
        for order in made.orders or (None,) for name, (rewritten, deleted) in made.tables.items()
    ]  # fmt: skip
    return lake.record(ERASURES, ERASURES.frame(rows))
