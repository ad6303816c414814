"""`crawl duplicates` in a process of its own, killed with SIGKILL at one moment after the other."""

import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from crawl_pipeline import duplicates
from crawl_pipeline.core import fingerprint
from crawl_pipeline.core.policy import load
from crawl_pipeline.core.tables import PAGES, ROUNDS
from crawl_pipeline.lake import Lake

ROUNDS_, PAGES_EACH = 12, 40
POLICY = """
[agent]
name = "KilledBot"
contact = "http://bot.test/"
[duplicates]
pages = 40
"""
CODE = """
import os, sys
from crawl_pipeline import duplicates
from crawl_pipeline.core.policy import load
from crawl_pipeline.lake import Lake
root = sys.argv[1]
print("ready", flush=True)
duplicates.find(Lake.open(root), load(open(root + "/policy.toml").read()), tell=lambda found: print("told", flush=True))
"""


def test_a_clustering_that_is_killed_again_and_again_ends_with_the_same_clusters(tmp_path: Path) -> None:
    """Killed after some clusterings were told of, and a moment more, so that it dies in the middle of one."""
    texts = made_up()
    killed, whole = prepared(tmp_path / "killed", texts), prepared(tmp_path / "whole", texts)
    for told, moment_s in [(0, 0.0), (1, 0.02), (2, 0.06), (1, 0.1)]:
        kill_after(killed, told, moment_s)
    rules = load(POLICY)
    duplicates.find(killed, rules)
    duplicates.find(whole, rules)

    assert clusters(killed) == clusters(whole)
    assert len({cluster for _, cluster in clusters(whole)}) < len(texts)
    assert killed.clustered.number == whole.clustered.number == ROUNDS_
    assert merges(killed) == merges(whole)


def made_up() -> list[str]:
    chance = np.random.default_rng(3)
    bases = [chance.integers(0, 5_000, 80) for _ in range(60)]
    return [_edited(bases[int(chance.integers(60))], chance) for _ in range(ROUNDS_ * PAGES_EACH)]


def _edited(base: np.ndarray, chance: np.random.Generator) -> str:
    words = base.copy()
    words[chance.integers(0, len(words), int(chance.integers(5)))] = chance.integers(0, 5_000)
    return " ".join("".join(chr(ord("a") + int(digit)) for digit in f"{word:04d}") for word in words)


def prepared(root: Path, texts: list[str]) -> Lake:
    lake, now = Lake.create(str(root), 1), datetime.now(UTC)
    (root / "policy.toml").write_text(POLICY)
    signed = fingerprint.signatures(pl.Series(texts)).with_row_index("url_hash")
    url = pl.format("http://h{}.test/", "url_hash")
    rows = signed.with_columns(url=url, host=url, bucket=0, month=pl.lit("2026-03"))
    lease = lake.claim([0], "a test", now, 600)
    for part in rows.iter_slices(PAGES_EACH):
        lake.write(lease, "pages", PAGES.frame(part).drop("round"))
        lake.commit(lease, ROUNDS.frame([{"bucket": 0, "page_count": part.height}]).drop("round"))
        lease = lake.renew(lease, now, 600)
    lake.release(lease)
    return lake


def kill_after(lake: Lake, told: int, moment_s: float) -> None:
    process = subprocess.Popen([sys.executable, "-c", CODE, lake.root], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(told + 1):
        process.stdout.readline()
    time.sleep(moment_s)
    process.kill()
    process.communicate()


def clusters(lake: Lake) -> list[tuple[str, int]]:
    return sorted(lake.scan("clusters").select("url", "cluster_id").collect().iter_rows())


def merges(lake: Lake) -> list[tuple[object, ...]]:
    """What became one with what, in an order of our own: a scan of several files has none."""
    return sorted(lake.scan("merges").drop("merged_at").collect().iter_rows())
