"""HTTP/1.1 as bytes: how a request is written and how an answer is read. No I/O.

The reader collects the bytes of a head until its blank line, gives the head whole to llhttp, and then feeds
llhttp the body as it comes; llhttp alone decides where the message ends. So an answer reads the same however
the network cut it. Two things that the standard allows and llhttp refuses are mended before a second try:
folded lines, and a length that is said twice or beside a chunked coding. Everything else that llhttp refuses
is a protocol error.

The reader never decodes content, never follows anything, and never reads past its own answer: once bytes
stand after the end, or the framing was doubtful, the connection is not to be used again.
"""

import re
from collections.abc import Iterable

import httptools

Headers = tuple[tuple[str, str], ...]

_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
_FOLD = re.compile(rb"[ \t]*\r?\n[ \t]+")
_HTTP = b"HTTP/"


class WireError(Exception):
    """Remote trouble on its way to the row of its request; `failure` is one of the wire's failure codes."""

    def __init__(self, failure: str, reason: str) -> None:
        super().__init__(f"{failure}: {reason}")
        self.failure = failure
        self.reason = reason


def request_head(method: str, target: str, authority: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Write a request without a body: the target byte for byte, Host first (RFC 9112 3.2)."""
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Host: {authority}",
        *(f"{name}: {value}" for name, value in headers),
    ]
    head = "\r\n".join(lines).encode("latin-1")
    if head.count(b"\n") != len(lines) - 1 or head.count(b"\r") != len(lines) - 1:
        raise ValueError(f"expected no line end inside a request line or field, found one in {lines!r}; remove it")
    return head + b"\r\n\r\n"


class ResponseReader:
    """Reads one answer. Feed it what came, tell it of the end, take the pieces of the body.

    `status` is 0 until the head is there; then `status` and `headers` stand. `done` says that the answer is
    complete, `reusable` that the connection may carry another request after it.
    """

    __slots__ = (
        "_complete",
        "_ended_head",
        "_fields",
        "_head",
        "_head_bytes",
        "_head_limit",
        "_idle_bytes",
        "_keep_alive",
        "_mended",
        "_parser",
        "_pieces",
        "_surplus",
        "_until_close",
        "_without_body",
        "done",
        "headers",
        "received",
        "status",
    )

    def __init__(self, head_limit: int, *, without_body: bool = False) -> None:
        self.status = 0
        self.headers: Headers = ()
        self.done = False
        self.received = 0
        self._head = b""
        self._head_bytes = 0
        self._head_limit = head_limit
        self._without_body = without_body
        self._parser: httptools.HttpResponseParser | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._complete = self._ended_head = self._keep_alive = self._mended = False
        self._surplus = self._until_close = False
        self._idle_bytes = 0

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self.done and self._keep_alive and not (self._mended or self._surplus)

    def feed(self, data: bytes | bytearray) -> None:
        """Read what came from the peer."""
        self.received += len(data)
        if self.done:
            self._surplus = self._surplus or bool(data)
        elif self.status:
            self._feed_body(data)
        else:
            self._feed_head(data)

    def eof(self) -> None:
        """The peer will send no more: the answer is complete, or this says what is missing (RFC 9112 8)."""
        if self.done:
            return
        if not self.received:
            raise WireError("protocol_error", "closed without an answer")
        if not self.status:
            raise WireError("truncated", "closed inside the head")
        if not self._until_close:
            raise WireError("truncated", "closed inside the body")
        self._keep_alive = False
        self._end()

    def take(self) -> bytes:
        """Hand over the body bytes read since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    # The head

    def _feed_head(self, data: bytes | bytearray) -> None:
        head, seen = self._head + data, len(self._head)
        while not self.status:
            head, seen = self._without_blank(head, seen)
            found = _BLANK_LINE.search(head, max(0, seen - 3))
            size, seen = found.end() if found else len(head), 0
            if self._head_bytes + size > self._head_limit:
                raise WireError("protocol_error", f"the head is over {self._head_limit} bytes")
            if not found:
                self._head = head
                return
            self._read_head(head[:size])
            self._head_bytes += size
            head = head[size:]
        self._head = b""
        if self._complete or self._without_body:
            self._surplus = bool(head)
            self._end()
        elif head:
            self._feed_body(head)

    def _without_blank(self, head: bytes, seen: int) -> tuple[bytes, int]:
        """Skip line ends before a status line, and refuse what cannot become one (RFC 9112 2.2, 4)."""
        bare = head.lstrip(b"\r\n")
        skipped = len(head) - len(bare)
        self._head_bytes += skipped
        if not _HTTP.startswith(bare[:5]):
            raise WireError("protocol_error", f"no status line but {bare[:40]!r}")
        return bare, max(0, seen - skipped)

    def _read_head(self, head: bytes) -> None:
        """Parse one whole head; an interim answer (1xx) is forgotten (RFC 9110 15.2)."""
        try:
            status = self._parse(head)
        except httptools.HttpParserError as refusal:
            mended = mend(head)
            if mended == head:
                raise WireError("protocol_error", str(refusal)) from None
            self._mended = True
            status = self._parse_mended(mended)
        if status == 101:
            raise WireError("protocol_error", "switches to a protocol that was not asked for")
        if status < 200:
            self._complete = False
            return
        self.headers = tuple((n.lower().decode("latin-1"), v.strip(b" \t").decode("latin-1")) for n, v in self._fields)
        self.status = status
        self._look_at_framing()

    def _parse_mended(self, head: bytes) -> int:
        try:
            return self._parse(head)
        except httptools.HttpParserError as refusal:
            raise WireError("protocol_error", str(refusal)) from None

    def _parse(self, head: bytes) -> int:
        self._fields, self._complete, self._ended_head = [], False, False
        self._parser = parser = httptools.HttpResponseParser(self)
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
        try:
            parser.feed_data(head)
        except httptools.HttpParserUpgrade:
            return 101
        status = parser.get_status_code()
        if not self._ended_head:
            raise WireError("protocol_error", "the head has no clear end")
        if status < 100:
            raise WireError("protocol_error", f"status {status} does not exist")
        return status

    def _look_at_framing(self) -> None:
        """Understand chunked only; without it and without a length the body ends with the connection."""
        names = {name for name, _ in self.headers}
        if "transfer-encoding" in names:
            codings = ", ".join(value for name, value in self.headers if name == "transfer-encoding")
            if codings.lower() != "chunked":
                raise WireError("protocol_error", f"transfer coding {codings[:40]!r} is not understood")
        elif "content-length" not in names:
            self._until_close = True

    # The body

    def _feed_body(self, data: bytes | bytearray) -> None:
        assert self._parser is not None
        self._idle_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as refusal:
            if not self._complete:
                raise WireError("protocol_error", str(refusal)) from None
            self._surplus = True
        if self._complete:
            self._end()
        elif self._idle_bytes > self._head_limit:
            raise WireError("protocol_error", f"chunk extensions or trailers are over {self._head_limit} bytes")

    def _end(self) -> None:
        self.done = True
        self._parser = None  # it holds us, we hold it: let go without waiting for the collector

    # What llhttp calls

    def on_message_begin(self) -> None:
        self._surplus = self._surplus or self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:
            self._fields.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser is not None and not self._complete:
            self._ended_head = True
            self._keep_alive = self._parser.should_keep_alive()

    def on_body(self, piece: bytes) -> None:
        if not self._complete:
            self._idle_bytes = 0
            self._pieces.append(piece)

    def on_message_complete(self) -> None:
        self._complete = True


def mend(head: bytes) -> bytes:
    """Unfold folded lines and leave one length, or none beside a transfer coding (RFC 9112 5.2, 6.3).

    Lengths that differ are left as they are: nobody can say which one is meant.
    """
    first, end, fields = head.partition(b"\n")
    lines = _FOLD.sub(b" ", fields).split(b"\n")
    lengths = [line for line in lines if _named(line, b"content-length")]
    said = {part.strip() for line in lengths for part in line.partition(b":")[2].split(b",")}
    coded = any(_named(line, b"transfer-encoding") for line in lines)
    repeated = len(lengths) > 1 or b"," in b"".join(lengths)
    if coded or (repeated and len(said) == 1):
        lines = [line for line in lines if line not in lengths]
        lines[:0] = [] if coded else [b"Content-Length: " + said.pop() + b"\r"]
    return first + end + b"\n".join(lines)


def _named(line: bytes, name: bytes) -> bool:
    return line.partition(b":")[0].lower() == name
