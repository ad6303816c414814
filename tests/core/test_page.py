"""A page gives its text, its links and its wishes, and hostile markup is refused."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import directives, markup
from crawl_pipeline.core.page import Limits, Link, Malformed, Page, read
from crawl_pipeline.core.text import CONTENT, NAVIGATION
from crawl_pipeline.core.urls import canonical

URL = "https://h.example/d/p.html"


def _read(html: str, **more: object) -> Page:
    return read(html.encode(), URL, "text/html; charset=utf-8", agent="ExampleBot", **more)  # type: ignore[arg-type]


def test_text_is_what_a_reader_sees() -> None:
    page = _read(
        "<title> A \n title</title><h1>One</h1><script>no</script><p>two\n  three<style>no</style><p>&nbsp;<p>four"
    )
    assert page.title == "A title"
    assert page.text == "One\ntwo three\nfour"


def test_links_stand_once_without_fragments_and_in_order() -> None:
    page = _read(
        "<a href=b>1</a><a href=#top>2</a><a href='b#x'>3</a><a href=./b>4</a><a href=mailto:x@y>5</a><area href=/a>"
    )
    assert page.links == (Link("https://h.example/d/b"), Link("https://h.example/a"))


def test_a_link_is_nofollow_only_if_every_element_says_so() -> None:
    page = _read("<a href=/a rel=nofollow>1</a><a href=/b rel='x NOFOLLOW'>2</a><a href=/b>3</a>")
    assert [(link.url, link.nofollow) for link in page.links] == [
        ("https://h.example/a", True),
        ("https://h.example/b", False),
    ]


def test_every_kind_of_link_is_told_apart() -> None:
    page = _read(
        "<link rel=canonical href=/c><link rel=next href=/n><link rel=alternate hreflang=de href=/de>"
        "<link rel='alternate stylesheet' type=application/rss+xml href=/no><meta http-equiv=refresh content='0;/r'>"
        "<iframe src=/f></iframe>"
    )
    assert {(link.kind, link.url.removeprefix("https://h.example")) for link in page.links} == {
        ("canonical", "/c"),
        ("next", "/n"),
        ("alternate", "/de"),
        ("refresh", "/r"),
        ("frame", "/f"),
    }
    assert page.alternates == (("de", "https://h.example/de"),)


@pytest.mark.parametrize("case", [str.lower, str.upper, str.title])
def test_elements_are_found_however_their_tags_are_spelled(case: Callable[[str], str]) -> None:
    meta, title, style, nav, script, noscript = map(case, ("meta", "title", "style", "nav", "script", "noscript"))
    aside, header, footer, frame = map(case, ("aside", "header", "footer", "iframe"))
    image, source = map(case, ("image", "source"))
    html = (
        f"<{title}>T</{title}><{meta} http-equiv=refresh content='0;/r'><{style}>no</{style}><{nav}>menu</{nav}>"
        f"<{script}>no</{script}><p>text</p><{noscript}>no</{noscript}><{image} src=/i><{source} srcset='/s 1x'>"
        f"<{aside}>beside</{aside}><{header}>top</{header}><{footer}>foot</{footer}><{frame} src=/f></{frame}>"
    )
    page = read(html.encode(), "https://h.example/", images=True)
    assert (page.title, page.text) == ("T", "menu\ntext\nbeside\ntop\nfoot")
    assert page.regions == bytes([NAVIGATION, CONTENT, NAVIGATION, NAVIGATION, NAVIGATION])
    kinds = {(link.kind, link.url.removeprefix("https://h.example")) for link in page.links}
    assert kinds == {("refresh", "/r"), ("frame", "/f"), ("image", "/i"), ("image", "/s")}


def test_the_first_base_counts_even_if_it_is_of_no_use() -> None:
    assert _read("<base href=data:x><base href=/b/><a href=x>x</a>").links == (Link("https://h.example/d/x"),)
    assert _read("<base><base href=/b/><a href=x>x</a>").links == (Link("https://h.example/b/x"),)


def test_wishes_of_markup_and_header_add_up() -> None:
    page = _read(
        "<meta name=examplebot content=noindex>",
        x_robots_tag=("otherbot: none", "unavailable_after: Fri, 1 Jan 2027, nofollow"),
    )
    assert (page.noindex, page.nofollow) == (True, True)
    assert not _read("<meta name=otherbot content=noindex>").noindex


def test_more_links_than_the_limit_are_cut_and_it_is_told() -> None:
    page = _read("".join(f"<a href=/{n}>x</a>" for n in range(9)), limits=Limits(links=3))
    assert (len(page.links), page.links_cut) == (3, True)


def test_a_legacy_page_is_decoded_and_its_queries_keep_its_encoding() -> None:
    page = read("<p>жук <a href='?q=ж'>x</a>".encode("koi8-r"), URL, "text/html; charset=koi8-r")
    assert page.text.startswith("жук")
    assert page.links == (Link("https://h.example/d/p.html?q=%D6"),)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<div>" * 20_000, "nesting"),
        (b"<div>" * 20_000 + b"</div>" * 20_000, "nesting"),
        (b"<ul><li>" * 20_000, "nesting"),
        (b"<a " + b" ".join(b"a%d=1" % n for n in range(20_000)) + b">", "attributes"),
        (b"x" * 4_000_000, "size"),
    ],
)
def test_hostile_markup_is_refused_before_it_is_parsed(body: bytes, reason: str) -> None:
    with pytest.raises(Malformed) as refused:
        read(body, URL)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    "body",
    [
        b"<ul>" + b"<li>one<br>" * 9_000,
        b"<p>one<img src=x>" * 9_000,
        b"<div><p>one</p></div>" * 9_000,
        b"<script>" + b"if(a<b){}" * 9_000 + b"</script>",
        b"<!--" + b"<div>" * 9_000 + b"-->",
        b"<p>" + b"x" * 50_000,
        b"<a name=x>one" * 9_000,
    ],
)
def test_long_but_flat_markup_is_not_hostile(body: bytes) -> None:
    markup.check(body, markup.starts(body))


# Each would take minutes if a pattern backtracked over it.
@pytest.mark.parametrize("body", [b"<!--" * 700_000, b"<script" * 300_000, b"<a " + b" " * 2_000_000, b"<" * 2_000_000])
def test_a_check_cannot_be_made_to_backtrack(body: bytes) -> None:
    markup.check(body, markup.starts(body))


def test_wishes_cannot_be_made_to_backtrack() -> None:
    assert directives.refresh_target("1" * 1_000_000) is None
    assert directives.canonical_in_header(["<" * 60_000, "<a>;" + " " * 60_000]) is None


def test_many_canonical_links_in_a_body_are_looked_for_once() -> None:
    assert read(b"<body>" + b"<link rel=canonical href=x>" * 90_000, URL).canonical is None


HTML = st.lists(
    st.sampled_from(
        [
            "<a href=",
            "<p>",
            "</",
            ">",
            "'",
            '"',
            "../x",
            "?q=é",
            "#",
            " ",
            "<base href=",
            "<b>",
            "x",
            "<meta ",
            "\0",
            "&amp;",
        ]
    )
).map("".join)


@given(HTML | st.text(max_size=60))
def test_every_url_of_a_page_is_canonical_and_no_line_of_its_text_is_empty(html: str) -> None:
    page = read(html.encode("utf-8", "replace"), URL, None)
    assert all(canonical(link.url) == link.url for link in page.links)
    assert all(line and line == line.strip() for line in page.text.splitlines())


def test_an_empty_page_is_empty() -> None:
    page = read(b"", URL)
    assert (page.title, page.text, page.links, page.base) == ("", "", (), URL)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=/n", "/n"),
        ("5;URL = 'n x' ", "n x"),
        ("0,n", "n"),
        ("0 n", "n"),
        ("30", None),
        ("30; ", None),
        ("url=/n", None),
        ("0;url='/n", "/n"),
    ],
)
def test_a_refresh_leads_where_the_standard_says(content: str, target: str | None) -> None:
    assert directives.refresh_target(content) == target


def test_a_link_field_may_name_the_canonical_url() -> None:
    assert (
        directives.canonical_in_header(['</a>; rel="next", <https://h.example/c>; rel="x canonical"'])
        == "https://h.example/c"
    )
    assert directives.canonical_in_header(["</a>; rel=next", "nonsense"]) is None


def test_a_long_base_does_not_make_a_page_of_short_references_fill_memory():
    long = "b" * 60_000
    body = f"<base href='/{long}/'>" + "".join(f"<a href='{n}'>x</a>" for n in range(5_000))

    page = read(body.encode(), "http://a.test/", limits=Limits(link_characters=1_000_000))

    assert sum(len(link.url) for link in page.links) <= 1_000_000
    assert page.links_cut


def test_an_encoding_that_is_not_for_pages_is_read_as_its_stand_in():
    page = read(b"<p>caf\xe9</p>", "http://a.test/", "text/html; charset=x-user-defined")

    assert (page.charset, page.text) == ("windows-1252", "café")


@pytest.mark.parametrize("space", ["\t", "\u00a0", "\u3000", "\r\n", "\x1c", "\u2003 "])
def test_white_space_of_any_kind_is_folded(space: str) -> None:
    assert _read(f"<p>{space}one{space}two {space}three{space}<p>{space}<p>four").text == "one two three\nfour"


def test_a_page_with_every_octet_is_cut_into_the_same_lines() -> None:
    odd = bytes(range(1, 32))
    assert read(b"<p>one<div>two</div><P>three <!--" + odd + b"-->four", URL).text == "one\ntwo\nthree four"


def test_a_page_that_writes_the_marks_of_regions_itself_is_read() -> None:
    page = _read(f"<p>one<p>&#1;{'9' * 5000}<p>&#1;7<p>&#1;&sup2;<nav>two</nav><p>&#2;<p>three")

    assert page.text.split("\n")[0] == "one"
    assert page.text.split("\n")[-2:] == ["two", "three"]
    assert page.regions[-2:] == bytes([NAVIGATION, CONTENT])
    assert len(page.regions) == page.text.count("\n") + 1
