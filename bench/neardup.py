"""How well near-duplicates are told, and how fast fingerprints are made.

1. debian: the full rule on several versions of the same documentation, stripped of its templates as a crawl strips it,
   against all pairs with an exact Jaccard index of at least 0.8.
2. synthetic: made-up revisions and pages that only share a template; the share of pairs that the rule accepts.
3. speed: each signature beside datasketch, rensa and the plain SimHash.
4. orders: whether clusters are the same in whatever order pages come; growth: what a round costs at a million pages.

Precision and recall speak of pairs of texts. Candidates come from the bands, as in a crawl.
"""

import argparse
import os
import time

import numpy as np
import polars as pl

from bench import cluster_growth, debian_versions, neardup_speed, similar_texts
from bench.figures import report
from crawl_pipeline.core import fingerprint, stripping, templates
from crawl_pipeline.core.policy import Text
from crawl_pipeline.core.urls import url_hash
from crawl_pipeline.testing import revisions

TARGETS = [
    ("precision", ">=", 0.975), ("recall", ">=", 0.96), ("stamps_accepted", ">=", 0.9),
    ("small_edits_accepted", ">=", 0.9), ("templates_accepted", "<=", 0.005), ("minhash_times_datasketch", ">=", 10.0),
    ("simhash_times_64pass", ">=", 10.0),
    *cluster_growth.TARGETS,
]  # fmt: skip
ROUND = 500
"""Pages that are taken at a time."""
ORDERED = 20_000
"""Pages that are put into ten orders."""

Figures = dict[str, float | None]


def main() -> None:
    """Measure the parts that are asked for, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="debian,synthetic,speed,orders,growth")
    parser.add_argument("--pairs", type=int, default=450, help="made-up pairs of each kind and length")
    parser.add_argument("--documents", type=int, default=2_000, help="for the speed of signatures")
    parser.add_argument("--pages", type=int, default=1_000_000, help="signatures up to which the corpus grows")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load_before, parts = os.getloadavg()[0], options.parts.split(",")
    figures: Figures = {}
    if "debian" in parts:
        figures |= debian()
    if "synthetic" in parts:
        figures |= synthetic(options.pairs)
    if "speed" in parts:
        figures |= neardup_speed.measured(options.documents, options.turns)
    if "orders" in parts:
        figures |= cluster_growth.orders(ORDERED)
    if "growth" in parts:
        figures |= cluster_growth.growth(options.pages, options.pages // 100)
    report(
        "neardup", figures, [target for target in TARGETS if target[0] in figures],
        {"pairs": options.pairs, "documents": options.documents, "pages": options.pages,
         "load_before": round(load_before, 1)}, as_json=options.json,
    )  # fmt: skip


def debian() -> Figures:
    """Judge the pages of all versions."""
    if not debian_versions.unpacked():
        print(
            "neardup: without apt-get and Debian's packages there is no corpus; precision and recall are not measured"
        )
        return {"precision": None, "recall": None}
    texts = [text for version in debian_versions.versions() for text in _main_texts(version)]
    sets = similar_texts.shingle_sets(texts)
    truth = similar_texts.pairs(sets)
    signatures, cost_us = _fingerprinted(texts)
    a, b = _candidates(signatures.filter(pl.col("text").is_in(list(sets))))
    return {
        **_accuracy(a, b, truth, ""), **_accuracy(a, b, truth, "_precise", bits=fingerprint.BITS_PRECISE),
        "pages": len(sets), "true_pairs": len(truth), "candidate_pairs": a.height, "us_per_330_words": cost_us,
    }  # fmt: skip


def _fingerprinted(texts: list[str]) -> tuple[pl.DataFrame, float]:
    """Signatures of all texts, and the CPU time of 330 words."""
    began = time.process_time()
    batches = [fingerprint.signatures(pl.Series(texts[at : at + ROUND])) for at in range(0, len(texts), ROUND)]
    took_us = (time.process_time() - began) * 1e6
    signatures = pl.concat(batches).with_row_index("text")
    return signatures, took_us * neardup_speed.WORDS / int(signatures["token_count"].sum())


def _accuracy(
    a: pl.DataFrame, b: pl.DataFrame, truth: set[tuple[int, int]], end: str, bits: int = fingerprint.BITS
) -> Figures:
    near = fingerprint.near(a, b, bits=bits)
    accepted = set(zip(a.filter(near)["text"], b.filter(near)["text"], strict=True))
    right = len(accepted & truth)
    return {f"precision{end}": right / len(accepted), f"recall{end}": right / len(truth)}


def _main_texts(version: debian_versions.Version) -> list[str]:
    """Strip a host's pages by the templates that are known once all have been seen."""
    rules, known = Text(), templates.Counts()
    blocks = [templates.hashes(page.text) for page in version.pages]
    distinct, hashes = [templates.distinct(of_page) for of_page in blocks], [url_hash(path) for path in version.paths]
    for at in range(0, len(blocks), ROUND):
        batch = slice(at, at + ROUND)
        known = templates.add(known, distinct[batch], hashes[batch], rules.template_pages, rules.template_share)
    texts, regions = [page.text for page in version.pages], [page.regions for page in version.pages]
    stripped: list[str] = stripping.strip(texts, blocks, regions, [known.template()] * len(texts))["main"].to_list()
    return stripped


def _candidates(signatures: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All pairs of texts that share a band, or are equal: their signatures side by side."""
    keys = signatures.select("text", key=fingerprint.bands(signatures["minhash"])).explode("key").drop_nulls()
    equal = signatures.select("text", key="main_hash")
    pairs = pl.concat([of.join(of, on="key", suffix="_other").drop("key") for of in (keys, equal)])
    pairs = pairs.filter(pl.col("text") < pl.col("text_other")).unique(maintain_order=True)
    first, second = (
        pairs.select(text=name).join(signatures, on="text", how="left", maintain_order="left")
        for name in ("text", "text_other")
    )
    return first, second


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
