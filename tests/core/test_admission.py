"""Every link is admitted or refused for exactly one reason, and refusals do not depend on the order of links."""

import polars as pl
import pytest
from crawl_rows import NOON, host, hosts, link, links, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import admission, blocks, orders, urls
from crawl_pipeline.core.admission import Admission, admit
from crawl_pipeline.core.tables import FRONTIER

A = hosts(host("a.test"))
NOTHING = pl.Series("url_hash", [], dtype=pl.Int64)


def admitted(*rows, known=NOTHING, among=A, in_force=orders.NOTHING, **sections) -> Admission:
    return admit(links(*rows), known, among, policy(**sections), NOON, in_force)


def refusals(found: Admission) -> dict[str, int]:
    return dict(found.refused.group_by("name").agg(pl.col("count").sum()).iter_rows())


def paths(found: Admission) -> set[str]:
    return {url.removeprefix("http://a.test") for url in found.rows["url"]}


# Each reason on its own.

REFUSED = [
    (blocks.HOSTS, {}, "http://a.test/", {"block": {"hosts": ["a.test"]}}),
    (blocks.SITES, {"kind": "seed"}, "http://www.a.test/", {"block": {"sites": ["a.test"]}}),
    (blocks.URLS, {"kind": "canonical"}, "http://a.test/x/1", {"block": {"urls": ["*/x/*"]}}),
    ("no host name", {"kind": "seed"}, f"http://{'a' * 64}.test/", {}),
    ("no host name", {}, "http://www..a.test/", {}),
    ("no host name", {"kind": "redirect"}, "http://../", {}),
    ("nofollow", {"nofollow": True}, "http://a.test/", {}),
    ("over scope.depth", {"depth": 17}, "http://a.test/", {}),
    ("over scope.hops", {"hops": 6, "kind": "redirect"}, "http://a.test/", {}),
    ("over sitemap.depth", {"depth": 4, "kind": "sitemap"}, "http://a.test/map.xml", {}),
    ("excluded by scope.exclude", {}, "http://a.test/x?y=1", {"scope": {"exclude": ["*?y=*"]}}),
    ("not in scope.include", {}, "http://a.test/x", {"scope": {"include": ["*/docs/*"]}}),
    ("outside scope.follow", {}, "http://b.test/", {}),
    ("outside scope.follow", {}, "http://www.a.test/", {"scope": {"follow": "hosts"}}),
    ("over budget.url_length", {}, "http://a.test/" + "x" * 2_000, {}),
    ("over budget.path_depth", {}, "http://a.test" + "".join(f"/{n}" for n in range(13)), {}),
    ("over budget.query_parameters", {}, "http://a.test/?" + "&".join(f"p{n}=1" for n in range(11)), {}),
    ("over budget.repeated_segment", {}, "http://a.test/a/b/a/b/a/b/a", {}),
    ("over budget.repeats_in_a_row", {}, "http://a.test/x/a/a/a", {}),
    ("over budget.repeats_in_a_row", {}, "http://a.test/a/b/c/a/b/c/x", {}),
    ("over budget.repeats_in_a_row", {}, "http://a.test/z/a/b/a/b/a/b", {}),
    ("file type", {}, "http://a.test/x.PDF", {}),
    ("file type", {"kind": "listed"}, "http://a.test/x.tar.gz?v=1", {}),
    ("over budget.urls_per_host", {}, "http://a.test/", {"budget": {"urls_per_host": 1}, "known": 1}),
    ("over budget.urls_per_host", {}, "http://a.test/", {"host": {"a.test": {"urls": 1}}, "known": 1}),
    ("over budget.urls_per_site", {}, "http://a.test/", {"budget": {"urls_per_site": 1}, "known": 1}),
    ("forgotten by order", {"kind": "seed", "depth": 0}, "http://a.test/", {"forgotten": {"hosts": {"a.test"}}}),
    ("forgotten by order", {}, "http://www.a.test/x", {"forgotten": {"sites": {"a.test"}}}),
    ("forgotten by order", {}, "http://a.test/x", {"forgotten": {"urls": {urls.url_hash("http://a.test/x")}}}),
]


@pytest.mark.parametrize(("reason", "columns", "url", "rules"), REFUSED)
def test_a_link_is_refused_for_its_reason(reason, columns, url, rules):
    rules = dict(rules)
    among = hosts(host("a.test", known_count=rules.pop("known", 0)), host("www.a.test", seeded=False))

    forgotten = {name: frozenset(names) for name, names in rules.pop("forgotten", {}).items()}

    found = admitted(link(url, **columns), among=among, in_force=orders.InForce(**forgotten), **rules)

    assert refusals(found) == {reason: 1}
    assert found.rows.is_empty()


@pytest.mark.parametrize("path", ["/a/a/b/b", "/a/b/a/b/c", "/2026/07/01/2026/07/01", "/1/1/1/1", "/a/b/c/a/b/d"])
def test_a_path_that_repeats_itself_a_little_or_in_numbers_is_no_trap(path):
    assert refusals(admitted(link("http://a.test" + path), budget={"repeated_segment": 9})) == {}


def test_every_reason_a_url_can_be_refused_for_has_a_case():
    named = {reason for reason, _ in admission.rules(policy())}

    assert named <= {reason for reason, *_ in REFUSED}


ADMITTED = [
    ("http://a.test/", {}, {}),
    ("http://sub.a.test/", {}, {}),
    ("http://b.test/", {}, {"scope": {"follow": "everywhere"}}),
    ("http://b.test/", {"kind": "seed", "depth": 0}, {}),
    ("http://a.test/x", {"kind": "seed", "depth": 0}, {"scope": {"include": ["*/docs/*"]}}),
    ("http://a.test/", {"nofollow": True}, {"scope": {"nofollow": False}}),
    ("http://a.test/", {"nofollow": True, "kind": "canonical"}, {}),
    ("http://a.test/", {"depth": 16, "hops": 5}, {}),
    ("http://a.test/sitemap.xml.gz", {"kind": "sitemap"}, {}),
    ("http://a.test" + "".join(f"/{n}" for n in range(12)), {}, {}),
    ("http://a.test/?" + "&".join(f"p{n}=1" for n in range(10)), {}, {}),
    ("http://a.test/a/b/a/b/a", {}, {}),
    ("http://a.test/x.html", {}, {}),
    ("http://a.test/v1.pdf/x", {}, {}),
    ("http://a.test/x?file=y.pdf", {}, {}),
    ("http://a.test/", {}, {"budget": {"urls_per_host": 1}}),
]


@pytest.mark.parametrize(("url", "columns", "rules"), ADMITTED)
def test_a_link_that_no_rule_refuses_is_admitted(url, columns, rules):
    found = admitted(link(url, **columns), **rules)

    assert found.rows["url"].to_list() == [url]
    assert refusals(found) == {}


# What becomes of them.


def test_an_admitted_link_is_a_frontier_row_that_is_due_now():
    row = admitted(link("http://a.test/x", depth=2, tag="t", round=7, source_hash=5)).rows.row(0, named=True)

    assert (row["status"], row["due_at"], row["found_at"], row["attempts"]) == ("waiting", NOON, NOON, 0)
    assert (row["depth"], row["tag"], row["source_hash"], row["kind"]) == (2, "t", 5, "link")
    assert row["bucket"] == urls.bucket("a.test", 4)


def test_rows_have_the_declared_schema():
    assert admitted(link("http://a.test/")).rows.schema == FRONTIER.schema
    assert admitted().rows.schema == FRONTIER.schema


def test_a_known_url_is_seen():
    known = pl.Series("url_hash", [urls.url_hash("http://a.test/x")])

    found = admitted(link("http://a.test/x"), link("http://a.test/y"), known=known)

    assert paths(found) == {"/y"}
    assert refusals(found) == {"seen": 1}


def test_of_several_links_to_a_url_the_nearest_to_a_seed_counts():
    found = admitted(link("http://a.test/", depth=5), link("http://a.test/", depth=2), link("http://a.test/", depth=9))

    assert found.rows["depth"].to_list() == [2]
    assert refusals(found) == {"again in this batch": 2}


@pytest.mark.parametrize(
    "barred", [{"nofollow": True, "depth": 1}, {"hops": 9, "depth": 1, "kind": "redirect"}, {"depth": 99}]
)
def test_a_way_that_is_barred_does_not_bar_another(barred):
    found = admitted(link("http://a.test/", **barred), link("http://a.test/", depth=3))

    assert found.rows["depth"].to_list() == [3]


def test_a_budget_is_filled_to_the_last_url_by_those_nearest_to_a_seed():
    rows = [link(f"http://a.test/{n}", depth=n) for n in range(10)]

    found = admitted(*reversed(rows), among=hosts(host("a.test", known_count=5)), budget={"urls_per_host": 9})

    assert paths(found) == {"/0", "/1", "/2", "/3"}
    assert refusals(found) == {"over budget.urls_per_host": 6}


def test_a_host_under_its_budget_is_still_bound_by_its_sites():
    rows = [link(f"http://{name}.a.test/{n}") for name in ("x", "y") for n in range(3)]
    among = hosts(host("x.a.test", known_count=2), host("y.a.test"))

    found = admitted(*rows, among=among, budget={"urls_per_site": 6})

    assert found.rows.height == 4
    assert refusals(found) == {"over budget.urls_per_site": 2}


def test_a_deeper_url_has_a_lower_score_and_no_better_band():
    rows = admitted(*(link(f"http://a.test/{n}", depth=n) for n in range(17))).rows.sort("depth")

    assert rows["score"].is_sorted(descending=True)
    assert rows["band"].is_sorted()
    assert set(rows["band"]) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("band", [1, 2, 3, 5])
def test_pages_start_at_the_band_of_their_seed_list_and_go_down_from_there(band):
    in_force = orders.InForce(tags={"t": orders.Tag(band=band)})
    found = admitted(*(link(f"http://a.test/{n}", depth=n, tag="t") for n in range(9)), in_force=in_force)
    other = admitted(*(link(f"http://a.test/{n}", depth=n, tag="u") for n in range(9)), in_force=in_force)

    bands, others = found.rows.sort("depth")["band"], other.rows.sort("depth")["band"]

    assert bands[0] == band
    assert bands.to_list() == [min(5, of_other + band - 1) for of_other in others]


@given(st.floats(1e-9, 1.0))
def test_every_score_has_a_band(score):
    bands = pl.DataFrame({"score": [score]}).select(admission.band(pl.col("score"), policy())).item()

    assert 1 <= bands <= 5
    assert bands == 5 or 2**-bands <= score * (1 + 1e-5)


# Laws.

urls_ = st.one_of(
    st.integers(0, 8).map(lambda n: f"http://a.test/{n}"),
    st.integers(0, 3).map(lambda n: f"http://b.test/{n}.pdf"),
    st.integers(0, 5).map(lambda n: f"http://c.a.test/?{'&'.join(f'p{i}=1' for i in range(2 * n + 2))}"),
    st.integers(1, 6).map(lambda n: f"http://a.test/{'x/' * n}"),
)
some_links = st.lists(
    st.builds(
        lambda url, kind, nofollow, depth, hops: link(url, kind=kind, nofollow=nofollow, depth=depth, hops=hops),
        urls_, st.sampled_from(sorted(admission.KIND_ORDER)), st.booleans(), st.integers(0, 20), st.integers(0, 8),
    ),
    max_size=30,
)  # fmt: skip
some_known = st.lists(urls_, max_size=10).map(
    lambda found: pl.Series("url_hash", map(urls.url_hash, found), dtype=pl.Int64)
)
TIGHT = policy(budget={"urls_per_host": 4, "urls_per_site": 6})
AMONG = hosts(host("a.test", known_count=1), host("c.a.test", seeded=False), host("b.test"))


@given(some_links, some_known)
def test_every_link_is_admitted_or_refused_for_one_reason(rows, known):
    found = admit(links(*rows), known, AMONG, TIGHT, NOON)

    assert found.rows.height + found.refused["count"].sum() == len(rows)
    assert (found.refused["count"] > 0).all()
    assert found.rows["url_hash"].is_unique().all()
    assert not found.rows["url_hash"].is_in(known.implode()).any()


@given(some_links, some_known)
def test_tallies_add_up_in_every_bucket(rows, known):
    found = admit(links(*rows), known, AMONG, TIGHT, NOON)

    given_ = pl.Series([row["target_bucket"] for row in rows], dtype=pl.Int16)
    for bucket in given_.unique():
        refused = found.refused.filter(pl.col("bucket") == bucket)["count"].sum()
        assert refused + found.rows.filter(pl.col("bucket") == bucket).height == (given_ == bucket).sum()


@given(some_links)
def test_admitting_again_what_was_admitted_admits_nothing(rows):
    once = admit(links(*rows), NOTHING, AMONG, TIGHT, NOON)
    gained = pl.col("host").replace_strict(dict(once.rows.group_by("host").len().iter_rows()), default=0)

    again = admit(links(*rows), once.rows["url_hash"], AMONG.with_columns(pl.col("known_count") + gained), TIGHT, NOON)

    assert again.rows.is_empty()


@given(some_links)
def test_budgets_are_never_passed(rows):
    found = admit(links(*rows), NOTHING, AMONG, TIGHT, NOON)
    counts = dict(found.rows.group_by("host").len().iter_rows())

    assert counts.get("a.test", 0) <= 3
    assert counts.get("c.a.test", 0) <= 4
    assert counts.get("a.test", 0) + counts.get("c.a.test", 0) <= 5


def test_what_a_host_has_no_room_for_takes_no_room_from_its_site():
    rows = [link(f"http://x.a.test/{n}", depth=0) for n in range(9)] + [link("http://y.a.test/", depth=9)]

    found = admitted(*rows, budget={"urls_per_host": 2, "urls_per_site": 3})

    assert found.rows.height == 3


@given(some_links, st.randoms(use_true_random=False))
def test_without_budgets_the_order_of_links_does_not_matter(rows, chance):
    shuffled = list(rows)
    chance.shuffle(shuffled)

    one, other = (admit(links(*some), NOTHING, AMONG, policy(), NOON) for some in (rows, shuffled))

    assert set(one.rows["url"]) == set(other.rows["url"])
    assert refusals(one) == refusals(other)
