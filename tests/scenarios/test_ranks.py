"""A ranking of what a crawl knows: what it reads and writes, and what it changes in the rounds that follow."""

from pathlib import Path

import polars as pl
import pytest
from crawls import NOON, Crawl, policy

from crawl_pipeline import explaining, past, ranking, rebucketing
from crawl_pipeline.lake import Lake, Overtaken
from crawl_pipeline.testing.sites import Host, html, redirect, routes, site

FANS = [f"fan{n}.test" for n in range(3)]
POPULAR = "http://popular.test/"
RULES = policy(scope={"follow": "everywhere", "sitemaps": False}, round={"seconds": 5.0, "shortest_s": 5.0})


def web() -> list[Host]:
    """Hosts that all link to one page, one by a redirect, one with nofollow; the page links to no other host."""
    fans = [site(name, pages=3, links={"/": [POPULAR, "/1", "/2"]}) for name in FANS]
    moved = Host("moved.test", routes({"/": redirect(POPULAR)}))
    shy = Host("shy.test", routes({"/": html("shy", [], '<a rel="nofollow" href="http://lonely.test/">no</a>')}))
    hub = site("hub.test", pages=1, links={"/": [f"http://{name}/" for name in [*FANS, "moved.test", "shy.test"]]})
    return [hub, *fans, moved, shy, site("popular.test", pages=40), site("lonely.test", pages=2)]


def crawl_of(root: Path) -> Crawl:
    return Crawl(root, *web(), rules=RULES).seed("http://hub.test/")


def ranks(lake: Lake) -> dict[str, float]:
    rows = lake.scan("ranks").join(lake.scan("frontier").select("url_hash", "url"), on="url_hash").collect()
    return dict(rows.select("url", "page_rank").iter_rows())


def test_a_ranking_counts_links_over_all_buckets_and_without_news_none_is_made(tmp_path):
    crawl = crawl_of(tmp_path)
    assert ranking.rank(crawl.lake, RULES).number == 0
    crawl.work(seconds=40)

    cold = ranking.rank(crawl.lake, RULES)
    found = ranks(crawl.lake)
    nothing = ranking.rank(crawl.lake, RULES)
    warm = ranking.rank(crawl.lake, RULES, again=True)

    assert max(found, key=found.__getitem__) == POPULAR
    assert "http://lonely.test/" not in found, "nofollow hands on nothing"
    assert (cold.number, nothing.number, nothing.iterations) == (1, 1, 0)
    assert warm.number == 2
    assert warm.iterations < cold.iterations, "it begins where the last one ended"
    assert ranks(crawl.lake) == pytest.approx(found, rel=1e-3)
    of_host = crawl.rows("host_ranks").filter(host="popular.test").row(0, named=True)
    assert of_host["linking_site_count"] == of_host["linking_host_count"] == len(FANS) + 1
    assert of_host["bucket"] == crawl.url(POPULAR)["bucket"]
    graph = crawl.rows("host_graph", "source_host", "host")
    assert ("moved.test", "popular.test") in graph.rows()
    assert graph.filter(pl.col("source_host") == pl.col("host")).is_empty()


def test_of_two_rankings_the_later_is_refused_and_what_was_cut_short_is_made_good(tmp_path):
    crawl = crawl_of(tmp_path)
    crawl.work(seconds=15)
    before = crawl.lake.ranking()
    crawl.lake.commit_ranking(before, crawl.rows("ranks"), dict.fromkeys(range(crawl.lake.buckets), 10**6))

    with pytest.raises(Overtaken, match="another was at work"):
        crawl.lake.commit_ranking(before, crawl.rows("ranks"), {})
    found = ranking.rank(crawl.lake, RULES)

    assert found.number == 2, "of the first nobody had told what it says of hosts"
    assert crawl.rows("host_ranks").filter(host="popular.test").height == 1


def test_rounds_go_by_the_ranks_hand_on_cash_and_can_be_planned_again(tmp_path):
    crawl = crawl_of(tmp_path)
    crawl.work(seconds=8)
    assert crawl.rows("links")["cash"].drop_nulls().is_empty(), "there was no ranking"
    ranking.rank(crawl.lake, RULES)
    first = crawl.work(seconds=12)
    ranking.rank(crawl.lake, RULES)
    rebucketing.rebucket(crawl.lake, RULES, 4)
    second = crawl.work(seconds=10)

    assert set(first.rows["ranks_seen"]) == {1}
    assert set(second.rows["ranks_seen"]) == {2}, "its buckets are others, its ranks are not"
    frontier = crawl.rows("frontier", "url", "url_hash", "score", "band", "kind")
    given = crawl.rows("links").group_by("source_hash").agg(pl.col("cash").sum()).filter(pl.col("cash") > 0)
    of_source = given.join(frontier, left_on="source_hash", right_on="url_hash")
    assert of_source.height
    assert (of_source["cash"] <= 0.85 * of_source["score"] * RULES.rank.full_at + 1e-3).all()
    scores = dict(frontier.select("url", "score").iter_rows())
    assert scores["http://hub.test/"] == 1, "a seed keeps what people gave it"
    assert scores[POPULAR] > max(score for url, score in scores.items() if url.startswith("http://popular.test/1"))
    told = explaining.explain(crawl.lake, RULES, POPULAR, NOON).facts["importance"]
    assert "full importance, times 1 for its seed list" in told
    assert "in ranking 2 and" in told
    third = ranking.rank(crawl.lake, RULES)
    popular = crawl.rows("ranks").filter(pl.col("url_hash") == crawl.url(POPULAR)["url_hash"])
    assert (third.number, popular["bucket"][0]) == (3, crawl.url(POPULAR)["bucket"])

    number = int(second.rows.filter(pl.col("selected_count") > 0)["round"].max())
    then = past.of_round(crawl.lake, number)
    made = past.plan(crawl.lake, then, RULES)
    asked = crawl.rows("fetches").filter((pl.col("round") == number) & (pl.col("cause") == "page"))
    assert made.ranks_seen == 2
    assert set(asked["url_hash"]) <= {*made.fetch_list["url_hash"], *past.in_hand(crawl.lake, then)}
