"""Documents per CPU second of each signature, beside datasketch, rensa and the plain SimHash, over the same documents.

All start from the words of a document, in the form each likes best, and make 128 values of its shingles; a SimHash
starts from hashed features, ours and the plain one alike. Quality is the mean error of estimated Jaccard indices where
they are known exactly. CPU seconds, all threads; the best of some turns, in which each has its share.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from datasketch import MinHash
from xxhash import xxh32_intdigest

from crawl_pipeline.core import fingerprint, sketches, tokens
from crawl_pipeline.testing import revisions

ROOT = Path(__file__).parent.parent
PEERS = Path(os.environ.get("CRAWL_PEERS", ROOT / ".peers")) / "bin" / "python"
WORDS, BATCH = 330, 500

Figures = dict[str, float | None]
Documents = list[list[str]]


def measured(count: int, turns: int) -> Figures:
    """All figures."""
    rng = np.random.default_rng(revisions.SEED)
    halves = [revisions.edited(rng, revisions.words(rng, WORDS), 1 + pair % 30) for pair in range(count // 2)]
    documents = [document for pair in halves for document in pair]
    exact = [_jaccard(a, b) for a, b in halves]
    rates, values = _rates(documents, turns)
    rensa, estimates = _rensa(documents, turns)
    return {
        "minhash_times_datasketch": rates["minhash"] / rates["datasketch"],
        "minhash_times_datasketch_xxhash": rates["minhash"] / rates["datasketch_xxhash"],
        "minhash_times_rensa": rates["minhash"] / rensa if rensa else None,
        "simhash_times_64pass": rates["simhash"] / rates["64pass"],
        "simhash_times_64pass_lean": rates["simhash"] / rates["64pass_lean"],
        "minhash_error": _error(values["minhash"], exact), "datasketch_error": _error(values["datasketch"], exact),
        "rensa_error": float(np.mean(np.abs(np.array(estimates) - exact))) if estimates else None,
        "us_per_page": 1e6 / rates["page"],
        **{f"{name}_per_cpu_s": rate for name, rate in rates.items()}, "rensa_per_cpu_s": rensa,
    }  # fmt: skip


def _rates(documents: Documents, turns: int) -> tuple[dict[str, float], dict[str, Any]]:
    texts, lists = pl.Series([" ".join(document) for document in documents]), pl.Series(documents)
    features, counts = _features(lists)
    steps: dict[str, Callable[[], Any]] = {
        "page": lambda: _batches(texts, fingerprint.signatures),
        "minhash": lambda: np.concatenate(_batches(lists, lambda batch: sketches.minhash(*_features(batch)))),
        "simhash": lambda: sketches.simhash(features, counts),
        "64pass": lambda: _plain(features, counts),
        "64pass_lean": lambda: _plain_lean(features, counts),
        "datasketch": lambda: np.array([each.hashvalues for each in MinHash.bulk(_shingles(documents), num_perm=128)]),
        "datasketch_xxhash": lambda: MinHash.bulk(_shingles(documents), num_perm=128, hashfunc=xxh32_intdigest),
    }  # fmt: skip
    best, values = dict.fromkeys(steps, 0.0), dict[str, Any]()
    for _ in range(turns):
        for name, step in steps.items():
            began = time.process_time()
            values[name] = step()
            best[name] = max(best[name], len(documents) / (time.process_time() - began))
    if not (values["simhash"] == values["64pass"]).all():
        raise RuntimeError("expected the two SimHashes to agree, found a difference; one of them is wrong")
    return best, values


def _batches(column: pl.Series, step: Callable[[pl.Series], Any]) -> list[Any]:
    """As many pages at a time as a round brings, about."""
    return [step(column.slice(at, BATCH)) for at in range(0, len(column), BATCH)]


def _features(lists: pl.Series) -> tuple[tokens.Hashes, tokens.Counts]:
    words = tokens.numbered(lists)
    return sketches.shingles(words.hashes, words.counts)


def _shingles(documents: Documents) -> list[list[bytes]]:
    return [[" ".join(three).encode() for three in set(zip(d, d[1:], d[2:], strict=False))] for d in documents]


def _plain(features: tokens.Hashes, counts: tokens.Counts) -> tokens.Hashes:
    """SimHash by its definition: 64 passes, each adds 1 or -1 for a bit of every feature."""
    starts, found = np.cumsum(counts) - counts, np.zeros(len(counts), np.uint64)
    for bit in range(64):
        signs = np.where((features >> np.uint64(bit)) & np.uint64(1), 1, -1)
        found |= (np.add.reduceat(signs, starts) > 0).astype(np.uint64) << np.uint64(bit)
    return found


def _plain_lean(features: tokens.Hashes, counts: tokens.Counts) -> tokens.Hashes:
    """The same with counts of ones for signs, which only features without weights allow."""
    starts, found = np.cumsum(counts) - counts, np.zeros(len(counts), np.uint64)
    for bit in range(64):
        ones = np.add.reduceat((features >> np.uint64(bit)) & np.uint64(1), starts)
        found |= (2 * ones > counts.astype(np.uint64)).astype(np.uint64) << np.uint64(bit)
    return found


def _rensa(documents: Documents, turns: int) -> tuple[float | None, list[float]]:
    if not PEERS.exists():
        print("neardup: no rensa to compare with; `make peers` installs it")
        return None, []
    command = [str(PEERS), str(ROOT / "bench" / "rensa_minhash.py"), str(turns)]
    done = subprocess.run(command, input=json.dumps(documents), capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"neardup: rensa did not run: {done.stderr.strip()[-200:]}; `make peers` installs it")
        return None, []
    found = json.loads(done.stdout)
    return found["rate"], found["estimates"]


def _error(values: Any, exact: list[float]) -> float:
    return float(np.mean(np.abs(np.mean(values[::2] == values[1::2], axis=1) - exact)))


def _jaccard(a: list[str], b: list[str]) -> float:
    first, second = (set(zip(d, d[1:], d[2:], strict=False)) for d in (a, b))
    return len(first & second) / len(first | second)
