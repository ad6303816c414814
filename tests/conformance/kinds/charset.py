"""Charset: the encoding of a page, and its text."""

from crawl_pipeline.core import charset
from tests.conformance.cases import Json
from tests.conformance.kinds.adapter import Adapters, Input, octets


def _sniff(given: Input) -> dict[str, Json]:
    body = octets(given, "body")
    encoding = charset.sniff(body, given.get("content_type"))
    return {"encoding": encoding, "text": charset.decode(body, encoding)}


ADAPTERS: Adapters = {("charset", ""): _sniff}
