"""What the shipped modules make of an answer: images with their size, phrases with their place."""

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.modules import Content, Unusable
from crawl_pipeline.modules.copyright_monitor import CopyrightMonitor
from crawl_pipeline.modules.png_archive import PngArchive
from crawl_pipeline.testing.pictures import chunk, png


def image(body: bytes) -> Content:
    return Content("http://a.test/x.png", "image/png", body, b"16 bytes")


def page(text: str) -> Content:
    return Content("http://a.test/", "text/html", b"", b"", text, "A title", "en")


@given(st.integers(1, 40), st.integers(1, 40))
def test_width_and_height_of_an_image_are_told(width, height):
    (row,) = PngArchive().read(image(png(width, height)))

    assert (row["width_px"], row["height_px"]) == (width, height)
    assert (row["bit_depth"], row["colour"]) == (8, "greyscale")


def test_images_smaller_than_wanted_are_left():
    assert not list(PngArchive(smallest_px=10).read(image(png(9, 30))))
    assert list(PngArchive(smallest_px=10).read(image(png(10, 30))))


HEADER = struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no PNG"),
        (b"<html>not found</html>", "no PNG"),
        (png(3, 3)[:-20], "cut off|before its IEND"),
        (png(3, 3)[:8], "before its IEND"),
        (png(3, 3).replace(b"IDAT", b"IDOT"), "does not match its CRC"),
        (png(3, 3)[:17] + b"\x01" + png(3, 3)[18:], "'IHDR' does not match its CRC"),
        (png(3, 3)[:8] + chunk(b"tEXt", b"x" * 13) + png(3, 3)[8:], "first chunk is no IHDR"),
        (png(3, 3)[:8] + chunk(b"IHDR", HEADER) + chunk(b"IEND", b""), "no IDAT"),
        (png(0, 3), "0 × 3"),
        (png(3, 3, depth=3), "3 bits"),
        (png(3, 3)[:8] + struct.pack(">I4s", 2**31, b"IHDR") + png(3, 3)[16:], "cut off"),
    ],
)
def test_what_is_no_whole_png_is_refused_with_the_reason(body, reason):
    with pytest.raises(Unusable, match=reason):
        list(PngArchive().read(image(body)))


@given(st.binary(max_size=200))
def test_whatever_follows_the_signature_is_read_or_refused(rest):
    with suppress(Unusable):
        assert list(PngArchive().read(image(png(1, 1)[:8] + rest)))


def test_a_crc_is_that_of_kind_and_data():
    made = chunk(b"IEND", b"")

    assert struct.unpack(">I", made[-4:])[0] == zlib.crc32(b"IEND")


def test_a_phrase_is_told_with_its_place_and_what_stands_around_it():
    text = "x" * 100 + " all RIGHTS\nreserved by Example Press, " + "y" * 100

    (row,) = CopyrightMonitor(phrases=["All rights reserved"]).read(page(text))

    assert (row["phrase"], row["position"], row["title"]) == ("All rights reserved", 101, "A title")
    assert row["excerpt"].startswith("x" * 79 + " all RIGHTS reserved by Example Press")


def test_every_place_of_every_phrase_is_told_up_to_the_most():
    found = CopyrightMonitor(phrases=["ab", "b"], most=2).read(page("ab ab ab"))

    assert [(row["phrase"], row["position"]) for row in found] == [("ab", 0), ("ab", 3), ("b", 1), ("b", 4)]


def test_signs_of_a_phrase_stand_for_themselves():
    assert not list(CopyrightMonitor(phrases=["(c) 2020."]).read(page("c 2020!")))
    assert len(list(CopyrightMonitor(phrases=["(c) 2020."]).read(page("(C)  2020.")))) == 1


def test_a_page_without_text_holds_no_phrase():
    assert not list(CopyrightMonitor(phrases=["x"]).read(Content("http://a.test/", "text/html", b"x", b"")))
