"""How well near-duplicates are told, and how fast fingerprints are made.

1. synthetic: made-up revisions and pages that only share a template; the share of pairs that the rule accepts.
2. speed: each signature beside datasketch, rensa and the plain SimHash.
"""

import argparse
import os

import numpy as np
import polars as pl

from bench import neardup_speed
from bench.figures import report
from crawl_pipeline.core import fingerprint
from crawl_pipeline.testing import revisions

TARGETS = [
    ("stamps_accepted", ">=", 0.9),
    ("small_edits_accepted", ">=", 0.9), ("templates_accepted", "<=", 0.005), ("minhash_times_datasketch", ">=", 10.0),
    ("simhash_times_64pass", ">=", 10.0),
]  # fmt: skip
Figures = dict[str, float | None]


def main() -> None:
    """Measure the parts that are asked for, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="synthetic,speed")
    parser.add_argument("--pairs", type=int, default=450, help="made-up pairs of each kind and length")
    parser.add_argument("--documents", type=int, default=2_000, help="for the speed of signatures")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load_before, parts = os.getloadavg()[0], options.parts.split(",")
    figures: Figures = {}
    if "synthetic" in parts:
        figures |= synthetic(options.pairs)
    if "speed" in parts:
        figures |= neardup_speed.measured(options.documents, options.turns)
    report(
        "neardup", figures, [target for target in TARGETS if target[0] in figures],
        {"pairs": options.pairs, "documents": options.documents, "load_before": round(load_before, 1)},
        as_json=options.json,
    )  # fmt: skip


def synthetic(count: int) -> Figures:
    """Accepted shares: the lowest of what should be, at 100 words or more, and the highest of what should not."""
    rng, shares = np.random.default_rng(revisions.SEED), dict[str, float]()
    for length in revisions.LENGTHS:
        for kind, (_, draw) in revisions.kinds(length).items():
            pairs = [draw(rng) for _ in range(count)]
            a, b = (fingerprint.signatures(pl.Series([" ".join(pair[side]) for pair in pairs])) for side in (0, 1))
            shares[f"{length}_{kind}"] = float(np.mean(fingerprint.near(a, b).to_numpy()))
    lengths = [length for length in revisions.LENGTHS if length != "short"]
    return {
        "stamps_accepted": min(shares[f"{length}_stamp"] for length in lengths),
        "small_edits_accepted": min(shares[f"{length}_edits_{percent}"] for length in lengths for percent in (1, 2)),
        "templates_accepted": max(share for name, share in shares.items() if "template" in name),
        **shares,
    }


if __name__ == "__main__":
    main()
