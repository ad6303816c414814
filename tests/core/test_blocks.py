"""What the policy blocks is never asked for, whether a column of links is judged or one URL."""

import pytest
from crawl_rows import link, links, policy
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import admission, blocks
from crawl_pipeline.core.policy import Block
from crawl_pipeline.core.tables import HOSTS

BLOCK = Block(hosts=["b.test", "www.c.test"], sites=["d.test"], urls=["*/private/*", "http://e.test/x"])


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://b.test/", blocks.HOSTS),
        ("http://www.b.test/", None),
        ("https://www.c.test:8443/x", blocks.HOSTS),
        ("http://c.test/", None),
        ("http://d.test/", blocks.SITES),
        ("http://deep.down.d.test/", blocks.SITES),
        ("http://notd.test/", None),
        ("http://a.test/private/x", blocks.URLS),
        ("http://e.test/x", blocks.URLS),
        ("http://e.test/x2", None),
    ],
)
def test_hosts_are_blocked_by_name_sites_with_all_their_hosts_urls_by_pattern(url, reason):
    assert blocks.of_url(url, BLOCK) == reason


hosts = st.sampled_from(["a.test", "b.test", "www.c.test", "c.test", "d.test", "x.d.test", "e.test"])
paths = st.sampled_from(["/", "/x", "/private/", "/private/x"])


@given(st.lists(st.tuples(hosts, paths), min_size=1, max_size=8), st.sampled_from(sorted(admission.KIND_ORDER)))
def test_a_column_of_links_is_judged_like_one_url_whatever_led_there(places, kind):
    rules = policy(block=BLOCK.model_dump(), scope={"follow": "everywhere"})
    rows = [link(f"http://{host}{path}", kind=kind) for host, path in places]

    found = admission.judge(links(*rows), HOSTS.empty(), rules)["refusal"].to_list()

    assert found == [blocks.of_url(row["url"], BLOCK) for row in rows]
