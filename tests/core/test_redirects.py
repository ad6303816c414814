"""Where a redirect leads, or why it leads nowhere."""

import pytest

from crawl_pipeline.core.redirects import Step, escaped, step, target

HERE = "http://h.example/dir/page?q=1"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_leads_to_its_location(status):
    assert step(status, ["next?x=1"], [HERE], 5) == Step(url="http://h.example/dir/next?x=1")


@pytest.mark.parametrize("status", [None, 200, 204, 300, 304, 305, 306, 399, 404, 999])
def test_other_answers_lead_nowhere_and_say_nothing(status):
    assert step(status, ["/next"], [HERE], 5) == Step()


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("/t#part", "http://h.example/t"),
        ("/a b", "http://h.example/a%20b"),
        ("/t\xc3\xa4", "http://h.example/t%C3%A4"),
        ("/t\xe4?q=\xe4", "http://h.example/t%E4?q=%E4"),
        ("\t/t", "http://h.example/t"),
        ("//other.example", "http://other.example/"),
        ("http://\xe2\x98\x83.example/", "http://xn--n3h.example/"),
        ("", "http://h.example/dir/page?q=1"),
    ],
)
def test_a_location_is_resolved_as_the_bytes_it_is(location, url):
    assert target([location], HERE).url == url


@pytest.mark.parametrize(
    "locations",
    [[], ["/a", "/b"], ["javascript:alert(1)"], ["https://:443/"], ["http://h.example:99999/"], ["mailto:a@b.example"]],
)
def test_a_location_that_cannot_be_asked_has_a_reason(locations):
    found = step(302, locations, [HERE], 5)

    assert found.url is None
    assert found.reason


def test_the_same_location_twice_is_one():
    assert target(["/a", "/a"], HERE).url == "http://h.example/a"


def test_a_page_may_send_the_asker_to_itself_once():
    assert step(302, [HERE], [HERE], 5).url == HERE
    assert step(302, [HERE], [HERE, HERE], 5).reason == "redirects in a loop"


def test_a_url_of_the_chain_is_a_loop():
    assert step(302, ["/a"], ["http://h.example/a", HERE], 5).reason == "redirects in a loop"


def test_a_chain_has_no_more_redirects_than_its_limit():
    chain = [f"http://h.example/{n}" for n in range(6)]

    assert step(302, ["/next"], chain[:5], 5).url == "http://h.example/next"
    assert step(302, ["/next"], chain, 5).reason == "more than 5 redirects"


def test_bytes_beyond_ascii_are_escaped_as_they_are():
    assert escaped("/\xe4%41") == "/%E4%41"
