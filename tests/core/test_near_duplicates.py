"""The full rule on made-up pages: revisions are found, pages that share a template are not taken for each other."""

import numpy as np
import polars as pl
import pytest

from crawl_pipeline.core import fingerprint
from crawl_pipeline.testing import revisions

PAIRS = 150


def _accepted(length: str, kind: str) -> float:
    rng = np.random.default_rng(revisions.SEED)
    _, draw = revisions.kinds(length)[kind]
    pairs = [draw(rng) for _ in range(PAIRS)]
    a, b = (fingerprint.signatures(pl.Series([" ".join(pair[side]) for pair in pairs])) for side in (0, 1))
    return float(np.mean(fingerprint.near(a, b).to_numpy()))


@pytest.mark.parametrize("length", ["middle", "long"])
@pytest.mark.parametrize("kind", ["stamp", "edits_1", "edits_2"])
def test_small_revisions_of_pages_of_a_hundred_words_are_found(length: str, kind: str) -> None:
    assert _accepted(length, kind) >= 0.9


@pytest.mark.parametrize("length", list(revisions.LENGTHS))
@pytest.mark.parametrize("percent", revisions.TEMPLATES)
def test_pages_of_one_template_with_bodies_of_their_own_are_different(length: str, percent: int) -> None:
    assert _accepted(length, f"template_{percent}") <= 0.005
