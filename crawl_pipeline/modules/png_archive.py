"""Keep PNG images: width and height in pixels, size, hash, and the file itself, once per content.

A shipped example of a module for another kind of content. It reads the signature and the first chunk, IHDR, by the
specification (W3C PNG, third edition, 5.2 and 11.2.1), checks every chunk's CRC, and decodes no pixel: what is broken
or no PNG is refused with the reason.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from crawl_pipeline.modules import Content, Declaration, Row, Unusable, column

SIGNATURE = b"\x89PNG\r\n\x1a\n"
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""Bit depths that each colour type allows (table 8 of the specification)."""
COLOURS = {0: "greyscale", 2: "truecolour", 3: "indexed", 4: "greyscale with alpha", 6: "truecolour with alpha"}

DECLARATION = Declaration(
    table="images",
    one_row_is="one PNG image as it was fetched",
    columns=(
        column("width_px", pl.Int64, "width", "px"),
        column("height_px", pl.Int64, "height", "px"),
        column("bit_depth", pl.Int32, "depth of a sample, or of a palette index", "bits"),
        column("colour", pl.String, "how a pixel is stored: greyscale, indexed, truecolour, with alpha or without"),
    ),
    content_types=("image/png",), images=True, endings=("png",), keeps_bodies=True,
)  # fmt: skip


@dataclass(frozen=True)
class PngArchive:
    """The module `png_archive`."""

    smallest_px: int = 1
    """Images with a side shorter than this are not kept: spacers and counters."""

    declares = DECLARATION

    def __post_init__(self) -> None:
        if not isinstance(self.smallest_px, int) or self.smallest_px < 1:
            raise ValueError(f"smallest_px: expected a whole number of pixels over 0, found {self.smallest_px!r}")

    def read(self, content: Content) -> Iterator[Row]:
        """One row, if it is a PNG that is large enough."""
        width, height, depth, colour = header(content.body)
        if min(width, height) >= self.smallest_px:
            yield {"width_px": width, "height_px": height, "bit_depth": depth, "colour": colour}


def header(body: bytes) -> tuple[int, int, int, str]:
    """Width, height, bit depth and colour of a PNG that is whole; Unusable says what is wrong with it."""
    if not body.startswith(SIGNATURE):
        raise Unusable(f"no PNG: it begins with {body[:8].hex(' ') or 'nothing'}")
    chunks = [(kind, data) for kind, data in _chunks(body)]
    kind, data = chunks[0] if chunks else (b"", b"")
    if kind != b"IHDR" or len(data) != 13:
        raise Unusable(f"its first chunk is no IHDR of 13 bytes but {kind!r} of {len(data)}")
    if not any(kind == b"IDAT" for kind, _ in chunks):
        raise Unusable("it has no IDAT: there is no image in it")
    width, height, depth, colour = struct.unpack(">IIBB", data[:10])
    if not 0 < width < 2**31 or not 0 < height < 2**31 or depth not in DEPTHS.get(colour, ()):
        raise Unusable(f"its IHDR says {width} × {height}, {depth} bits, colour type {colour}: no such PNG")
    return width, height, depth, COLOURS[colour]


def _chunks(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Each chunk's kind and data up to IEND, their CRCs checked."""
    at = len(SIGNATURE)
    while at + 12 <= len(body):
        length, kind = struct.unpack_from(">I4s", body, at)
        end = at + 12 + length
        if end > len(body):
            raise Unusable(f"chunk {kind!r} of {length} bytes is cut off")
        data = memoryview(body)[at + 4 : end - 4]
        if zlib.crc32(data) != struct.unpack_from(">I", body, end - 4)[0]:
            raise Unusable(f"chunk {kind!r} does not match its CRC")
        yield kind, b"" if kind == b"IDAT" else bytes(data[4:])
        if kind == b"IEND":
            return
        at = end
    raise Unusable("it ends before its IEND")
