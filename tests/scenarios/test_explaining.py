"""`crawl explain` says of a known URL what becomes of it, also where nothing but a round is waited for."""

from crawls import DAY, Crawl, policy

from crawl_pipeline import explaining
from crawl_pipeline.testing import site


def test_a_known_url_that_is_due_and_whose_host_can_be_asked_waits_for_the_next_round_of_its_bucket(tmp_path):
    rules = policy(recrawl={"first_s": DAY, "shortest_s": DAY, "longest_s": DAY})
    crawl = Crawl(tmp_path, site("a.test", pages=2), rules=rules).seed("http://a.test/")
    crawl.work(seconds=60)
    page = crawl.url("http://a.test/")

    because = explaining.explain(crawl.lake, rules, page["url"], page["due_at"]).because

    assert because == f"it waits after fetched in band {page['band']} for the next round of bucket {page['bucket']}"
