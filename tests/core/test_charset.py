"""The encoding of a page is found in the order of the HTML standard."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import charset


@given(st.binary(max_size=200), st.none() | st.text(max_size=40))
def test_every_page_has_an_encoding_and_a_text(body: bytes, content_type: str | None) -> None:
    assert isinstance(charset.decode(body, charset.sniff(body, content_type)), str)


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"\xef\xbb\xbf<p>", "text/html; charset=gbk", "utf-8"),
        (b"<meta charset=gbk>", "text/html; charset='windows-1250'", "windows-1250"),
        (b"<meta charset=utf-16>", None, "utf-8"),
        (b"<a title='<meta charset=gbk>'><meta/charset=koi8-r>", None, "koi8-r"),
        (b"<!--> <meta charset=gbk>", None, "gbk"),
        (b"<meta content='charset=gbk'><p>", None, "utf-8"),
        (b"<?xml version='1.0' encoding='gbk'?><meta charset=koi8-r>", "application/xhtml+xml", "gbk"),
        (b"<?xml version='1.0' encoding='gbk'?><meta charset=koi8-r>", "text/html", "koi8-r"),
        ("<?xml version='1.0'?>".encode("utf-16-le"), None, "utf-16le"),
        (b"<p>caf\xe9", None, "windows-1252"),
        (b"x" * 2000 + b"\xe9<meta charset=iso-8859-2>", None, "iso-8859-2"),
    ],
)
def test_marks_headers_metas_and_bytes_tell_the_encoding(body: bytes, content_type: str | None, expected: str) -> None:
    assert charset.sniff(body, content_type) == expected


def test_markup_made_to_backtrack_is_read_in_no_time() -> None:
    assert charset.prescan(b'<a ="x"' * 9_000) is None
    assert charset.prescan(b"<meta '" * 9_000) is None
    assert charset.prescan(b"<a " * 20_000 + b"<!" * 9_000) is None
    assert charset.prescan(b"<meta " + b" " * 60_000 + b">") is None


def test_an_unknown_encoding_is_our_own_fault() -> None:
    with pytest.raises(ValueError, match="take one from `sniff`"):
        charset.decode(b"", "rot13")
