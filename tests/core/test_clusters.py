"""Clusters of texts do not depend on the order in which texts came, nor on what was there before."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import fingerprint
from crawl_pipeline.core.clusters import Clusters
from crawl_pipeline.core.sorted_runs import SortedRuns

NOTHING = pl.Series([], dtype=pl.Int64)


def word(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04d}")


def family(base: np.ndarray, edits: int, chance: np.random.Generator) -> str:
    """The text with some words replaced."""
    words = base.copy()
    words[chance.integers(0, len(words), edits)] = chance.integers(0, 5_000, edits)
    return " ".join(map(word, words))


def corpus(families: int, each: int, words: int = 150, seed: int = 7) -> pl.DataFrame:
    """Signatures of texts that are more or less like others."""
    chance = np.random.default_rng(seed)
    bases = [chance.integers(0, 5_000, words) for _ in range(families)]
    texts = [family(base, edits % 7, chance) for base in bases for edits in range(each)]
    return fingerprint.signatures(pl.Series(texts)).unique("main_hash", maintain_order=True)


TEXTS = corpus(12, 25)


def at_once(texts: pl.DataFrame, crowd: int = 1_000) -> Clusters:
    clusters = Clusters(crowd=crowd)
    clusters.apply(texts, NOTHING)
    return clusters


@pytest.mark.parametrize("crowd", [1_000, 12], ids=["no crowd", "crowded keys"])
def test_ten_orders_cut_anyhow_into_rounds_give_the_same_clusters(crowd):
    expected = at_once(TEXTS, crowd).of(TEXTS["main_hash"])
    assert 12 < expected["cluster_id"].n_unique() < TEXTS.height / 2
    for order in range(10):
        chance, clusters = np.random.default_rng(order), Clusters(crowd=crowd)
        left = TEXTS.sample(fraction=1, shuffle=True, seed=order)
        while left.height:
            cut = int(chance.integers(1, 60))
            clusters.apply(left.head(cut), NOTHING)
            left = left.slice(cut)
        assert clusters.of(TEXTS["main_hash"]).equals(expected)


@given(rounds=st.lists(st.lists(st.integers(0, 79)), max_size=6), crowd=st.sampled_from([1_000, 8]))
def test_whatever_came_and_went_clusters_are_those_of_the_texts_that_are_there(rounds, crowd):
    texts, clusters, there, told = TEXTS.head(80), Clusters(crowd=crowd), set[int](), dict[int, int]()
    for numbers in rounds:
        came, went = set(numbers) - there, set(numbers) & there
        applied = clusters.apply(texts[sorted(came)], texts["main_hash"][sorted(went)])
        there = there ^ set(numbers)
        told |= dict(applied.changed.select("main_hash", "cluster_id").iter_rows())
    present = texts[sorted(there)]
    found = clusters.of(present["main_hash"])
    assert found.equals(at_once(present, crowd).of(present["main_hash"]))
    assert {text: of for text, of in told.items() if of is not None} == dict(
        found.select("main_hash", "cluster_id").iter_rows()
    )


def test_a_member_is_nearly_the_same_as_its_representative_which_has_the_smaller_hash():
    clusters = at_once(TEXTS)
    found = clusters.of(TEXTS["main_hash"])
    members = found.filter(pl.col("main_hash") != pl.col("cluster_id"))
    of = members.join(TEXTS, on="main_hash", maintain_order="left")
    to = members.select(main_hash="cluster_id").join(TEXTS, on="main_hash", maintain_order="left")
    assert fingerprint.near(of, to).all()
    assert (members["cluster_id"] < members["main_hash"]).all()
    assert members["similarity"].is_between(0.7, 1).all()


def test_no_two_representatives_that_share_a_key_are_nearly_the_same():
    heads = TEXTS.filter(pl.col("main_hash").is_in(at_once(TEXTS).of(TEXTS["main_hash"])["cluster_id"].implode()))
    keys = heads.with_columns(key=fingerprint.bands(heads["minhash"])).explode("key").select("main_hash", "key")
    pairs = keys.join(keys, on="key").filter(pl.col("main_hash") != pl.col("main_hash_right")).unique()
    a = pairs.select("main_hash").join(heads, on="main_hash", maintain_order="left")
    b = pairs.select(main_hash="main_hash_right").join(heads, on="main_hash", maintain_order="left")
    assert not fingerprint.near(a, b).any()


def test_two_clusters_become_one_only_when_their_representatives_are_nearly_the_same():
    clusters, merged = Clusters(), 0
    for part in TEXTS.sample(fraction=1, shuffle=True, seed=3).iter_slices(20):
        found = clusters.apply(part, NOTHING).merged
        a = found.select(main_hash="cluster_before").join(TEXTS, on="main_hash", maintain_order="left")
        b = found.select(main_hash="cluster_id").join(TEXTS, on="main_hash", maintain_order="left")
        assert fingerprint.near(a, b).all()
        merged += found.height
    assert merged


def test_short_texts_are_clustered_alone_unless_they_are_equal():
    few = fingerprint.signatures(pl.Series(["not found", "not found here", "nothing was found at this address"]))
    clusters = at_once(few)
    assert clusters.of(few["main_hash"])["cluster_id"].to_list() == few["main_hash"].to_list()


def test_a_crowded_key_is_told_and_its_texts_are_compared_with_one_text():
    texts = corpus(1, 60)
    clusters = at_once(texts, crowd=10)
    told = list(clusters.crowded())
    assert told
    assert all(crowd.texts > 10 for crowd in told)
    assert {crowd.main_hash for crowd in told} <= set(texts["main_hash"])
    clusters.apply(texts.clear(), texts["main_hash"].tail(texts.height - 5))
    assert not list(clusters.crowded())


def test_what_is_asked_of_many_runs_is_what_a_dictionary_gives():
    chance = np.random.default_rng(1)
    runs, pairs = SortedRuns(Clusters().room, "test"), list[tuple[int, int]]()
    for size in [50, 3, 0, 1, 400, 7]:
        keys, places = chance.integers(0, 200, size), chance.integers(0, 9, size).astype(np.int32)
        runs.add(keys, places)
        pairs += list(zip(keys.tolist(), places.tolist(), strict=True))
    asked = np.arange(-5, 205)
    which, found = runs.find(asked)
    assert sorted(zip(asked[which].tolist(), found.tolist(), strict=True)) == sorted(pairs)
    assert runs.counts(asked).tolist() == [sum(key == one for key, _ in pairs) for one in asked.tolist()]
