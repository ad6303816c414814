"""How bytes become an answer, and that the network's cuts do not matter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.fetch.wire import ResponseReader, WireError, mend, request_head

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def read(sent, *, limit=1_000, closes=True, without_body=False):
    """Feed the parts; give (status, headers, body, reusable) or the failure."""
    reader, body = ResponseReader(limit, without_body=without_body), b""
    try:
        for part in [sent] if isinstance(sent, bytes) else sent:
            reader.feed(part)
            body += reader.take()
        if closes:
            reader.eof()
    except WireError as trouble:
        return trouble.failure
    return reader.status, reader.headers, body, reader.reusable


def body_of(sent):
    return read(sent)[2]


def parts(sent, cuts):
    at = sorted({cut % (len(sent) + 1) for cut in cuts})
    return [sent[a:b] for a, b in zip([0, *at], [*at, len(sent)], strict=True)]


ANSWERS = (
    OK + b"Content-Length: 5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello",
    OK + b"Content-Length: 3\r\n\r\nabcdefgh",
    OK + b"Content-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ndef",
    OK + b"Content-Length: 50\r\n\r\nshort",
    OK + b"\r\nuntil close",
    OK + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    OK + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
    OK + b"Content-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    CHUNKED + b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: t\r\n\r\n",
    CHUNKED + b"5\r\nhello\r\n5\r\nwo",
    CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n",
    b"HTTP/1.1 200 OK\nX: a\n folded\nContent-Length: 2\n\nok",
    b"\r\n\r\nHTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nrest",
    b"<html>no status line</html>",
    OK + b"bad header name: x\r\nContent-Length: 2\r\n\r\nok",
    OK + b"X-Fill: " + b"a" * 1_000 + b"\r\n\r\n",
    b"HTTP/1.0 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
)


@pytest.mark.parametrize("sent", ANSWERS)
@given(cuts=st.lists(st.integers(0, 2_000), max_size=30))
def test_an_answer_reads_the_same_however_it_is_cut(sent, cuts):
    assert read(parts(sent, cuts)) == read(sent)


@pytest.mark.parametrize("sent", ANSWERS)
def test_an_answer_reads_the_same_byte_by_byte(sent):
    assert read([sent[n : n + 1] for n in range(len(sent))]) == read(sent)


@given(st.binary(max_size=300), st.lists(st.integers(0, 400), max_size=5))
def test_no_bytes_whatever_make_the_reader_fail_otherwise(junk, cuts):
    answer = read(parts(OK + junk, cuts))

    assert answer in ("protocol_error", "truncated") or answer[0] == 200


@given(
    st.binary(max_size=2_000),
    st.lists(st.integers(1, 500), max_size=9),
    st.lists(st.integers(0, 3_000), max_size=9),
)
def test_a_chunked_body_comes_out_whole_however_it_is_chunked_and_cut(body, sizes, cuts):
    sent, rest = CHUNKED, body
    for size in sizes:
        if rest:
            sent += b"%x\r\n%s\r\n" % (len(rest[:size]), rest[:size])
            rest = rest[size:]
    if rest:
        sent += b"%x\r\n%s\r\n" % (len(rest), rest)

    assert read(parts(sent + b"0\r\n\r\n", cuts)) == (200, (("transfer-encoding", "chunked"),), body, True)


def test_a_complete_answer_leaves_the_connection_usable():
    assert read(OK + b"Content-Length: 2\r\n\r\nok", closes=False) == (
        200,
        (("content-length", "2"),),
        b"ok",
        True,
    )


@pytest.mark.parametrize(
    "sent",
    [
        OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"Content-Length: 2\r\n\r\nok and more",
        OK + b"Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
        OK + b"Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        OK + b"\r\nok",
    ],
)
def test_a_closing_or_doubtful_answer_leaves_it_unusable(sent):
    status, _, body, reusable = read(sent)

    assert (status, body, reusable) == (200, b"ok", False)


def test_bytes_after_the_end_make_the_connection_unusable():
    assert read([OK + b"Content-Length: 2\r\n\r\nok", b"!"])[3] is False


def test_an_answer_to_head_has_no_body():
    answer = read(OK + b"Content-Length: 500\r\n\r\n", without_body=True, closes=False)

    assert answer == (200, (("content-length", "500"),), b"", True)


def test_names_are_lowered_and_values_are_raw_latin_1():
    assert read(OK + b"X-A:  caf\xe9 \t\r\nContent-Length: 0\r\n\r\n")[1][0] == ("x-a", "caf\xe9")


def test_a_folded_field_is_unfolded_with_one_space():
    assert read(OK + b"X-A: a\r\n \t b\r\nContent-Length: 0\r\n\r\n")[1][0] == ("x-a", "a b")


def test_a_list_of_equal_lengths_is_one_length():
    assert body_of(OK + b"Content-Length: 3, 3\r\n\r\nabc") == b"abc"


def test_a_status_beyond_599_is_given_as_it_is():
    assert read(b"HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n")[0] == 999


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/2 200\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"X: a\0b\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"",
    ],
)
def test_what_is_no_http_is_a_protocol_error(sent):
    assert read(sent) == "protocol_error"


def test_a_connection_closed_inside_the_head_is_a_cut_answer():
    assert read(OK + b"Content-Le") == "truncated"


def test_endless_interim_answers_count_towards_the_limit_of_the_head():
    assert read([b"HTTP/1.1 103 E\r\n\r\n"] * 100, limit=500) == "protocol_error"


def test_endless_trailers_are_cut_off():
    sent = CHUNKED + b"0\r\n"

    assert read([sent, *[b"X: " + b"a" * 50 + b"\r\n"] * 100], limit=500) == "protocol_error"


def test_different_lengths_are_not_mended():
    head = OK + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\n"

    assert mend(head) == head


def test_the_target_is_written_byte_for_byte():
    head = request_head("GET", "/a%2fb?c=[d]|e", "h.example", [("User-Agent", "x")])

    assert head == b"GET /a%2fb?c=[d]|e HTTP/1.1\r\nHost: h.example\r\nUser-Agent: x\r\n\r\n"


def test_a_line_end_in_a_field_is_our_own_fault():
    with pytest.raises(ValueError, match="line end"):
        request_head("GET", "/", "h.example", [("If-None-Match", "a\r\nX: y")])
