"""Processes that fight for the same buckets: each adds one to a bucket's counter whenever it holds it.

`python -m tests.live.fights --seconds 180` lets them fight for so long, kills one now and then, and judges the lake: if
a bucket ever had two holders, one of their counts is missing or there twice.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from crawl_pipeline.core.tables import HOSTS, ROUNDS
from crawl_pipeline.lake import Lake, Lease, LeaseHeld, LeaseLost

BUCKETS, LEASE_S = 4, 0.8


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the ledger says of a fight: counts, takeovers, and what is wrong with it."""

    counts: int
    holders: int
    takeovers: int
    wrong: tuple[str, ...]


def fight(root: str, name: str, seconds: float) -> None:
    """Take buckets and count in them until the time is over; sleep past the lease, vanish without a word, come late."""
    lake, chance, ends = Lake.open(root), random.Random(name), time.monotonic() + seconds
    while time.monotonic() < ends:
        buckets = chance.sample(range(BUCKETS), chance.randint(1, BUCKETS))
        with suppress(LeaseHeld, LeaseLost):
            lease = lake.claim(buckets, name, datetime.now(UTC), LEASE_S, skip_held=chance.random() < 0.5)
            lease = _count(lake, lease, chance)
            if chance.random() < 0.7:
                lake.release(lease)
        time.sleep(chance.uniform(0, 0.05))


def _count(lake: Lake, lease: Lease, chance: random.Random) -> Lease:
    for _ in range(chance.randint(1, 3)):
        counts = dict(lake.scan("hosts", buckets=lease.buckets).select("bucket", "known_count").collect().iter_rows())
        time.sleep(1.5 * LEASE_S if chance.random() < 0.1 else 0)
        rows = [{"bucket": bucket, "known_count": counts.get(bucket, 0) + 1} for bucket in lease.buckets]
        hosts = [row | {"host": f"b{row['bucket']}.test"} for row in rows]
        lake.write(lease, "hosts", HOSTS.frame(hosts).drop("round", "layer"))
        lake.commit(lease, ROUNDS.frame(rows).drop("round"))
        lease = lake.renew(lease, datetime.now(UTC), LEASE_S)
        lake.fold(lease, "hosts", least=1)
    return lease


def let_fight(root: str, seconds: float, *, kills: int, fighters: int = 2) -> Verdict:
    """Let processes fight for so long, and kill some of them on the way; judge what they left."""
    Lake.create(root, BUCKETS)
    ends, chance = time.monotonic() + seconds, random.Random(7)
    names = iter(range(10**6))
    fighting = [_start(root, next(names), ends) for _ in range(fighters)]
    moments = sorted(chance.uniform(0, seconds) for _ in range(kills))
    for moment in moments:
        time.sleep(max(0.0, ends - seconds + moment - time.monotonic()))
        one = chance.randrange(fighters)
        fighting[one].kill()
        fighting[one].wait()
        fighting[one] = _start(root, next(names), ends)
    codes = [fighter.wait() for fighter in fighting]
    return judge(Lake.open(root), codes)


def _start(root: str, number: int, ends: float) -> subprocess.Popen[bytes]:
    left = str(max(0.1, ends - time.monotonic()))
    return subprocess.Popen([sys.executable, "-m", "tests.live.fights", "--root", root, "--name", f"w{number}",
                             "--seconds", left])  # fmt: skip


def judge(lake: Lake, codes: list[int]) -> Verdict:
    """Every bucket's counts must be 1, 2, 3 ... in the order of its rounds, and each epoch have one holder."""
    ledger = lake.scan("rounds").sort("bucket", "round").collect()
    wrong = [f"a fighter ended with {code}" for code in codes if code]
    for (bucket,), rows in ledger.group_by("bucket", maintain_order=True):
        if rows["known_count"].to_list() != list(range(1, rows.height + 1)):
            wrong.append(f"bucket {bucket} counted {rows['known_count'].to_list()}")
        if not rows["epoch"].is_sorted():
            wrong.append(f"bucket {bucket}: a former holder committed late")
    several = ledger.group_by("bucket", "epoch").agg(pl.col("worker").n_unique()).filter(pl.col("worker") > 1)
    wrong += [f"bucket {bucket}, epoch {epoch} had {n} holders" for bucket, epoch, n in several.iter_rows()]
    stored = dict(lake.scan("hosts").select("bucket", "known_count").collect().iter_rows())
    if stored != dict(ledger.group_by("bucket").agg(pl.col("known_count").max()).iter_rows()):
        wrong.append(f"the state is {stored}")
    epochs = ledger.group_by("bucket", "epoch").len().height
    return Verdict(ledger.height, ledger["worker"].n_unique(), epochs - ledger["bucket"].n_unique(), tuple(wrong))


def main() -> None:
    """Fight (with a root and a name), or let two processes fight and judge them."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--root")
    options.add_argument("--name")
    options.add_argument("--seconds", type=float, default=180)
    options.add_argument("--kills", type=int, default=10)
    given = options.parse_args()
    if given.name:
        fight(given.root, given.name, given.seconds)
        return
    with tempfile.TemporaryDirectory(prefix="fights-") as folder:
        verdict = let_fight(f"{folder}/lake", given.seconds, kills=given.kills)
    print(verdict)
    sys.exit(1 if verdict.wrong else 0)


if __name__ == "__main__":
    main()
