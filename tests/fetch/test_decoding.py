"""Content codings: what goes in comes out, and nothing costs more than its limit."""

import gzip
import random
import time
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_pipeline.fetch.decoding import CodingError, codings, decode

PAGE = b"<p>hello " * 500


def raw_deflate(body):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(body) + packer.flush()


def zstd_stream(body):
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(body) + packer.flush()


CODERS = {
    "gzip": [gzip.compress],
    "x-gzip": [gzip.compress],
    "deflate": [zlib.compress, raw_deflate],
    "br": [brotli.compress],
    "zstd": [zstandard.compress, zstd_stream],
}
EACH = [(name, coder) for name, coders in CODERS.items() for coder in coders]


def failure(body, encodings, limit=100_000):
    with pytest.raises(CodingError) as caught:
        decode(body, encodings, limit)
    return caught.value.failure


@pytest.mark.parametrize(("name", "coder"), EACH)
@given(body=st.binary(max_size=5_000))
def test_what_was_coded_comes_out(name, coder, body):
    assert decode(coder(body), [name], 5_000) == body


@pytest.mark.parametrize(("name", "coder"), EACH)
def test_a_cut_stream_does_not_pass_as_complete(name, coder):
    coded = coder(PAGE)

    assert {failure(coded[:n], [name]) for n in range(8, len(coded))} <= {"truncated", "decode_error"}


@pytest.mark.parametrize(("name", "coder"), EACH)
def test_content_of_just_the_limit_passes_and_one_byte_more_does_not(name, coder):
    assert decode(coder(PAGE), [name], len(PAGE)) == PAGE
    assert failure(coder(PAGE), [name], len(PAGE) - 1) == "too_large"


@pytest.mark.parametrize(("name", "coder"), EACH)
def test_a_bomb_costs_no_more_than_its_limit(name, coder):
    bomb = coder(bytes(50_000_000))
    tracemalloc.start()
    try:
        assert failure(bomb, [name], 100_000) == "too_large"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@given(st.lists(st.sampled_from(EACH), max_size=3), st.binary(max_size=500))
def test_nested_codings_are_undone_last_first(chosen, body):
    coded = body
    for _, coder in chosen:
        coded = coder(coded)

    assert decode(coded, [", ".join(name for name, _ in chosen)], 10_000) == body


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
def test_all_members_of_a_gzip_count(bodies):
    assert decode(b"".join(map(gzip.compress, bodies)), ["gzip"], 1_000) == b"".join(bodies)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5))
def test_all_frames_of_a_zstd_count(bodies):
    coded = b"\x50\x2a\x4d\x18\x03\0\0\0xyz".join(map(zstd_stream, bodies))

    assert decode(coded, ["zstd"], 1_000) == b"".join(bodies)


@pytest.mark.parametrize("junk", [b"junk", b"\0" * 100, b"\x1f"])
def test_junk_after_a_gzip_is_ignored(junk):
    assert decode(gzip.compress(PAGE) + junk, ["gzip"], 10_000) == PAGE


@pytest.mark.parametrize("name", ["gzip", "x-gzip", "zstd", "gzip, gzip"])
def test_a_plain_body_labelled_as_coded_is_kept(name):
    assert decode(b"plain text", [name], 100) == b"plain text"


@pytest.mark.parametrize("name", ["none", "identity", "UTF-8", "", "identity, , none"])
def test_meaningless_labels_are_ignored(name):
    assert decode(b"plain", [name], 100) == b"plain"


@pytest.mark.parametrize("name", ["GZIP", " X-Gzip ", "gzip,", "identity, gzip"])
def test_labels_are_read_as_lists_in_any_case(name):
    assert decode(gzip.compress(PAGE), [name], 10_000) == PAGE


def test_codings_in_several_fields_are_one_list():
    assert codings(["deflate", "gzip"]) == ["deflate", "gzip"]


@pytest.mark.parametrize("name", ["compress", "dcb", "gzip, gzip, gzip, gzip"])
def test_what_cannot_be_undone_is_a_decode_error(name):
    assert failure(b"body", [name]) == "decode_error"


def test_broken_content_is_a_decode_error():
    coded = bytearray(gzip.compress(PAGE))
    coded[-6] ^= 1  # the check sum

    assert failure(bytes(coded), ["gzip"]) == "decode_error"


def test_a_window_over_eight_megabytes_is_refused():
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    coded = packer.compress(PAGE) + packer.flush()

    assert failure(coded, ["zstd"]) == "decode_error"


def test_thousands_of_empty_members_are_refused():
    assert failure(gzip.compress(b"") * 5_000, ["gzip"]) == "decode_error"
    assert failure(zstd_stream(b"") * 5_000, ["zstd"]) == "decode_error"


@pytest.mark.parametrize(("name", "coder"), [("gzip", gzip.compress), ("zstd", zstd_stream)])
@given(texts=st.lists(st.integers(0, 70_000), min_size=1, max_size=4), junk=st.integers(0, 70_000))
@settings(max_examples=30)
def test_streams_longer_and_shorter_than_a_piece_are_all_read(name, coder, texts, junk):
    noise = random.Random(1).randbytes(70_000)
    bodies = [noise[:length] for length in texts]
    after = b"\0" * junk if name == "gzip" else b""

    assert decode(b"".join(map(coder, bodies)) + after, [name], 300_000) == b"".join(bodies)


def test_many_members_before_much_junk_do_not_cost_their_product():
    coded = gzip.compress(b"a") * 255 + bytes(20_000_000)
    began = time.process_time()

    assert decode(coded, ["gzip"], 1_000) == b"a" * 255
    assert time.process_time() - began < 0.25  # 0.01 in pieces; 1.2 if each member copied all that follows


def test_an_empty_body_needs_no_decoding():
    assert decode(b"", ["gzip"], 100) == b""
