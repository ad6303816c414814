"""Undo the content codings of a whole body, within a limit.

One call takes the body as it was sent, which the wire limit has bounded, and gives the content. No step ever
holds more than the limit and a small rest, so a bomb costs its limit and no more. A cut stream is said to be
cut, though the message around it was complete (RFC 1952 2.2). Nothing is guessed: only what Content-Encoding
names is undone.

Kept apart from the wire on purpose: what was sent and what it means are two facts.
"""

import zlib
from collections.abc import Callable, Sequence

import brotli
import zstandard

ACCEPTED = "gzip, deflate, br, zstd"
MOST_CODINGS = 3
MOST_MEMBERS = 256  # each one costs a copy of the rest of its piece, so their number is bounded too
_PIECE = 65_536

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = frozenset(bytes((byte, 0x2A, 0x4D, 0x18)) for byte in range(0x50, 0x60))  # RFC 8878 3.1.2
_ZSTD_WINDOW = 8 << 20  # RFC 9659 3: a content coding needs no larger one
# Labels seen on bodies that were never coded; they say nothing about the bytes.
_MEANINGLESS = frozenset(("", "identity", "none", "utf-8", "utf8", "iso-8859-1", "binary", "8bit", "7bit"))


class CodingError(Exception):
    """The content cannot be had; `failure` is "decode_error", "truncated" or "too_large"."""

    def __init__(self, failure: str, reason: str) -> None:
        super().__init__(f"{failure}: {reason}")
        self.failure = failure
        self.reason = reason


def decode(body: bytes, encodings: Sequence[str], limit: int) -> bytes:
    """Give the content of a body whose Content-Encoding fields are these, at most `limit` bytes of it."""
    for coding in reversed(codings(encodings)):
        body = _UNDO[coding](body, limit) if body else body
    if len(body) > limit:
        raise CodingError("too_large", f"over {limit} bytes of content")
    return body


def codings(encodings: Sequence[str]) -> list[str]:
    """List the codings to undo, in the order they were applied (RFC 9110 8.4)."""
    names = [name.strip().lower() for field in encodings for name in field.split(",")]
    named = [name for name in names if name not in _MEANINGLESS]
    unknown = [name for name in named if name not in _UNDO]
    if unknown:
        raise CodingError("decode_error", f"content coding {unknown[0][:40]!r} is not understood")
    if len(named) > MOST_CODINGS:
        raise CodingError("decode_error", f"more than {MOST_CODINGS} content codings")
    return named


def _gunzip(body: bytes, limit: int) -> bytes:
    """Undo gzip: all members; what follows them and is no member is junk and ignored (RFC 1952 2.2).

    A body that is no gzip at all was labelled wrongly, and is its own content.
    """
    if not body.startswith(_GZIP):
        return body
    members: list[bytes] = []
    size = at = 0
    while body.startswith(_GZIP, at):
        text, at = _inflate(body, at, limit - size, zlib.MAX_WBITS | 16)
        size += len(text)
        members.append(text)
        _bound(len(members))
    return b"".join(members)


def _undeflate(body: bytes, limit: int) -> bytes:
    """Undo deflate: zlib's format, or the bare stream that some senders take it for (RFC 9110 8.4.1.2)."""
    zlib_header = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return _inflate(body, 0, limit, zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS)[0]


def _inflate(body: bytes, at: int, limit: int, bits: int) -> tuple[bytes, int]:
    """Inflate the stream that begins at `at`; give its text and where it ends.

    In pieces: zlib copies what follows a stream, so that many short members before much junk would cost their product.
    """
    stream, texts, room = zlib.decompressobj(bits), list[bytes](), limit + 1
    while not stream.eof and at < len(body):
        piece = body[at : at + _PIECE]
        try:
            texts.append(stream.decompress(piece, room))
        except zlib.error as trouble:
            raise CodingError("decode_error", str(trouble)) from None
        at += len(piece)
        room -= len(texts[-1])
        if not room:
            raise CodingError("too_large", f"over {limit} bytes of content")
    if not stream.eof:
        raise CodingError("truncated", "the coded content is cut")
    return b"".join(texts), at - len(stream.unused_data)


def _unbrotli(body: bytes, limit: int) -> bytes:
    stream = brotli.Decompressor()
    texts: list[bytes] = []
    size = 0
    while not stream.is_finished():
        try:
            text = stream.process(body, output_buffer_limit=limit + 1 - size)
        except brotli.error as trouble:
            raise CodingError("decode_error", str(trouble)) from None
        body = b""
        texts.append(text)
        size += len(text)
        if size > limit:
            raise CodingError("too_large", f"over {limit} bytes of content")
        if not text and not stream.is_finished():
            raise CodingError("truncated", "the coded content is cut")
    return b"".join(texts)


def _unzstd(body: bytes, limit: int) -> bytes:
    """Undo Zstandard, any number of frames (RFC 8878 3).

    Twice: the library's bounded reader does not tell a cut stream from a whole one, its other one has no
    bound. The second pass is safe because the first has shown how much comes out.
    """
    if not _is_zstd(body):
        return body
    opener = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    try:
        text = opener.stream_reader(body, read_across_frames=True).read(limit + 1)
        if len(text) > limit:
            raise CodingError("too_large", f"over {limit} bytes of content")
        _see_frames_whole(opener, body)
    except zstandard.ZstdError as trouble:
        raise CodingError("decode_error", str(trouble)) from None
    return text


def _see_frames_whole(opener: zstandard.ZstdDecompressor, body: bytes) -> None:
    frames = at = 0
    while _is_zstd(body[at : at + 4]):
        frames += 1
        _bound(frames)
        frame = opener.decompressobj()
        while not frame.eof and at < len(body):
            piece = body[at : at + _PIECE]
            frame.decompress(piece)
            at += len(piece)
        if not frame.eof:
            raise CodingError("truncated", "the coded content is cut")
        at -= len(frame.unused_data)


def _bound(members: int) -> None:
    if members > MOST_MEMBERS:
        raise CodingError("decode_error", f"more than {MOST_MEMBERS} streams in one body")


def _is_zstd(body: bytes) -> bool:
    return body[:4] == _ZSTD or body[:4] in _ZSTD_SKIPPABLE


_UNDO: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
