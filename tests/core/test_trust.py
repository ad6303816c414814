"""What a host and its site may be taken grows with evidence, and with nothing else; no budget is ever passed."""

from datetime import timedelta
from itertools import accumulate

import polars as pl
import pytest
from crawl_rows import NOON, due, host, hosts, link, links, policy
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_pipeline.core import selection, trust, urls
from crawl_pipeline.core.admission import admit
from tests.effort import times

TIGHT = policy(scope={"follow": "everywhere"}, budget={
    "urls_per_host": 40, "urls_per_site": 60, "fetches_per_host_day": 12, "fetches_per_site_day": 20,
    "trust_first": 5, "trust_first_share": 0.0, "trust_growth": 2.0})  # fmt: skip


def numbers(count: int, salt: str = "") -> list[int]:
    return sorted(urls.hash64(f"{salt}{number}") for number in range(count))


def of(name: str, linking: int = 0, texts: int = 0, **columns):
    """A host that no seed names, with so much evidence."""
    known = {"seeded": False, "linking_sites": numbers(linking, "site"), "texts": numbers(texts)[: trust.MOST],
             "fetched_count": texts, "parked_count": 0}  # fmt: skip
    return host(name, **known | columns)


def limits(*rows, rules=TIGHT) -> dict[str, dict]:
    return {row["host"]: row for row in trust.limits(hosts(*rows), rules).iter_rows(named=True)}


# What is allowed.


def test_a_host_of_a_seeded_site_has_its_whole_budgets_at_once():
    found = limits(host("a.test"), of("www.a.test"), of("b.test"))

    assert [found[name]["host_allowance"] for name in ("a.test", "www.a.test", "b.test")] == [40, 40, 5]
    assert [found[name]["site_allowance_day"] for name in ("a.test", "www.a.test", "b.test")] == [20, 20, 5]


@pytest.mark.parametrize(
    ("linking", "texts", "allowance"), [(0, 0, 5), (3, 0, 10), (15, 0, 20), (0, 4, 13), (3, 4, 18), (32, 32, 40)]
)
def test_an_allowance_grows_with_linking_sites_and_with_texts_up_to_the_whole(linking, texts, allowance):
    assert limits(of("a.test", linking, texts))["a.test"]["host_allowance"] == allowance


def test_a_number_of_its_own_in_the_policy_is_a_word_for_the_host_and_not_for_its_site():
    rules = policy(**TIGHT.model_dump(exclude={"host", "agent"}) | {"host": {"a.test": {"urls": 30}}})

    row = limits(of("a.test"), rules=rules)["a.test"]

    assert (row["host_allowance"], row["host_full"], row["site_allowance"]) == (30, 30, 5)
    assert row["host_allowance_day"] == 5


def test_a_share_of_one_means_that_everybody_is_trusted():
    rules = policy(budget={"trust_first_share": 1.0})

    row = limits(of("a.test"), rules=rules)["a.test"]

    assert (row["host_allowance"], row["site_allowance"]) == (100_000, 1_000_000)


def test_by_default_a_host_whose_every_tenth_page_is_new_never_stalls():
    """Known URLs may come to all that is allowed; of these a tenth show new texts; so more must be allowed then."""
    rules, known = policy(), 500
    while known < 100_000:
        row = limits(of("a.test", 0, known // 10, fetched_count=known), rules=rules)["a.test"]
        assert row["host_allowance"] > known * 0.88  # texts are an estimate, and count in steps of an eighth
        better = limits(of("a.test", 0, known // 5, fetched_count=known), rules=rules)["a.test"]
        assert min(better["host_allowance"], better["site_allowance"]) > known
        known *= 2


evidence = st.tuples(st.integers(0, 32), st.integers(0, 400), st.integers(0, 500))


@given(evidence, evidence, st.booleans(), st.integers(1, 200), st.floats(0, 1), st.floats(0, 50))
def test_an_allowance_lies_within_first_and_whole_and_never_shrinks_with_evidence(
    one, more, seeded, first, share, grow
):
    rules = policy(budget=TIGHT.budget.model_dump() | {
        "urls_per_host": 1_000, "trust_first": first, "trust_first_share": share, "trust_growth": grow})  # fmt: skip
    both = [a + b for a, b in zip(one, more, strict=True)]
    rows = [limits(of("a.test", min(32, linking), texts, fetched_count=asked, seeded=seeded), rules=rules)["a.test"]
            for linking, texts, asked in (one, both)]  # fmt: skip

    for per in ("host", "site"):
        for kind in ("", "_day"):
            less, grown = (row[f"{per}_allowance{kind}"] for row in rows)
            whole = rows[0][f"{per}_full{kind}"]
            assert min(first, whole) <= less <= grown <= whole


# Evidence.


@given(st.lists(st.lists(st.integers(0, 60), max_size=40), max_size=6), st.randoms(use_true_random=False))
def test_evidence_of_texts_does_not_depend_on_the_order_they_are_shown_in(rounds, chance):
    shown = [(f"{n % 2}.a.test", urls.hash64(str(n))) for texts in rounds for n in texts]
    once = trust.told(hosts(of("0.a.test"), of("1.a.test")), chance.sample(shown, len(shown)))
    rows = hosts(of("0.a.test"), of("1.a.test"))
    for texts in rounds:
        rows = trust.told(rows, [(f"{n % 2}.a.test", urls.hash64(str(n))) for n in texts])

    assert rows["texts"].to_list() == [kept or [] for kept in once["texts"].to_list()]
    assert (rows["texts"].list.len() <= trust.MOST).all()


@pytest.mark.parametrize("count", [1, 31, 32, 100, 3_000])
def test_texts_are_counted_about_right_from_few_hashes(count):
    """Of 32 smallest hashes the standard error is a fifth; steps of an eighth round down."""
    rows = trust.told(hosts(of("a.test", fetched_count=count)), [("a.test", number) for number in numbers(count)])
    rules = policy(budget={"trust_first": 1, "trust_first_share": 0.0, "trust_growth": 1.0})

    seen = trust.limits(rows, rules)["host_allowance"].item() - 1

    assert count * 0.5 <= seen <= count


def test_no_more_texts_are_believed_than_pages_were_asked_for():
    forged = of("a.test", texts=32, fetched_count=3) | {"texts": list(range(-(2**63), -(2**63) + 32))}

    assert limits(forged)["a.test"]["host_allowance"] == 5 + 2 * 3


def test_the_same_pages_on_many_hosts_are_no_more_texts_of_their_site():
    farm = [of(f"{n}.a.test", texts=3) for n in range(20)]

    assert limits(*farm)["7.a.test"]["site_allowance"] == 5 + 2 * 3


def test_other_sites_that_link_are_kept_up_to_a_bound_and_counted_once():
    sites = [{"host": "a.test", "site": "a.test", "source_site": number} for number in numbers(50) * 2]
    rows = hosts(of("a.test"), host("b.test"))

    for part in (sites[:20], sites[10:60], sites):
        rows = trust.linked(rows, pl.DataFrame(part))

    assert rows["linking_sites"].list.len().fill_null(0).to_list() == [trust.MOST, 0]


# Admission.

batches = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 70), st.integers(1, 9)), max_size=50), max_size=5
)


@settings(max_examples=times(15, 100))
@given(batches, st.lists(st.integers(0, 12), min_size=5, max_size=5))
def test_no_order_or_batching_of_links_passes_a_budget_and_what_is_let_in_is_within_trust(given_, grown):
    """Batch by batch, with evidence that grows between; what is parked is let in by the same numbers."""
    rows, known, parked = hosts(*(of(f"{n}.a.test") for n in range(3))), pl.Series([], dtype=pl.Int64), None
    for batch, texts in zip(given_, accumulate(grown), strict=False):
        rows = rows.with_columns(texts=pl.lit(numbers(texts), pl.List(pl.Int64)), fetched_count=pl.lit(texts, pl.Int64))
        rows, parked = let_in(rows, parked)
        some = links(*(link(f"http://{h}.a.test/{n}", depth=depth) for h, n, depth in batch))
        found = admit(some, known, rows, TIGHT, NOON).rows
        known = pl.concat([known, found["url_hash"]])
        parked = pl.concat([frame for frame in (parked, found.filter(status="parked")) if frame is not None])
        rows = counted(rows, found)
        check(rows)


def let_in(rows: pl.DataFrame, parked: pl.DataFrame | None) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    if parked is None:
        return rows, None
    out = trust.released(parked, trust.limits(rows, TIGHT))
    counts = dict(parked.filter(pl.col("url_hash").is_in(out.implode())).group_by("host").len().iter_rows())
    fewer = pl.col("host").replace_strict(counts, default=0, return_dtype=pl.Int64)
    rows = rows.with_columns(pl.col("parked_count") - fewer)
    after = trust.limits(rows, TIGHT)
    stuck = after.filter((pl.col("host_parked") > 0) & (trust.room("host") > 0) & (trust.room("site") > 0))
    assert stuck.is_empty()
    return rows, parked.filter(~pl.col("url_hash").is_in(out.implode()))


def counted(rows: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    new = [of(name) for name in found["host"].unique() if name not in set(rows["host"])]
    rows = pl.concat([rows, hosts(*new)]) if new else rows
    for column, of_these in (("known_count", found), ("parked_count", found.filter(status="parked"))):
        gained = dict(of_these.group_by("host").len().iter_rows())
        more = pl.col("host").replace_strict(gained, default=0, return_dtype=pl.Int64)
        rows = rows.with_columns(pl.col(column).fill_null(0) + more)
    return rows


def check(rows: pl.DataFrame) -> None:
    for row in trust.limits(rows, TIGHT).iter_rows(named=True):
        for per in ("host", "site"):
            assert row[f"{per}_known"] <= row[f"{per}_full"]
            assert 0 <= row[f"{per}_parked"] <= row[f"{per}_known"]
            assert row[f"{per}_known"] - row[f"{per}_parked"] <= row[f"{per}_allowance"]


def test_the_nearest_parked_urls_are_let_in_first_and_then_the_oldest():
    parked = pl.DataFrame({
        "url_hash": [1, 2, 3, 4], "host": ["a.test"] * 4, "depth": [3, 2, 2, 2],
        "found_at": [NOON, NOON, NOON - timedelta(seconds=1), NOON],
    })  # fmt: skip

    out = trust.released(parked, trust.limits(hosts(of("a.test", known_count=6, parked_count=4)), TIGHT))

    assert out.to_list() == [3, 2, 4]


# Days.


@settings(max_examples=times(15, 100))
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 40_000)), min_size=1, max_size=12), st.booleans())
def test_the_hosts_of_a_site_are_never_listed_beyond_what_its_day_allows(rounds, seeded):
    """Rounds with evidence that grows and hours that pass; all that is listed is asked."""
    rows, now = hosts(*(of(f"{n}.a.test", seeded=seeded, next_allowed_at=NOON) for n in range(4))), NOON
    listed = pl.concat([due(f"{n}.a.test", 30) for n in range(4)])
    asked: dict[object, int] = {}
    for (_, seconds), texts in zip(rounds, accumulate(texts for texts, _ in rounds), strict=True):
        now += timedelta(seconds=seconds)
        rows = rows.with_columns(texts=pl.lit(numbers(texts), pl.List(pl.Int64)), fetched_count=pl.lit(texts, pl.Int64))
        counts = dict(selection.select(listed, rows, TIGHT, now, seed=seconds).fetch_list.group_by("host").len()
                      .iter_rows())  # fmt: skip
        rows = rows.with_columns(
            day_count=pl.when(pl.col("day") == now.date()).then("day_count").otherwise(0)
            + pl.col("host").replace_strict(counts, default=0, return_dtype=pl.Int64),
            day=pl.lit(now.date()),
        )
        asked[now.date()] = asked.get(now.date(), 0) + sum(counts.values())
        allowed = trust.limits(rows, TIGHT)
        assert asked[now.date()] <= allowed["site_allowance_day"][0] <= 20
        assert (rows["day_count"] <= 12).all()
