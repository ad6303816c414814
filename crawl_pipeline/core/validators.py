"""Which validators of an answer may be sent back when its page is visited again.

Decides from the two fields alone; what is not fit to be sent is not kept, so a stored validator can be sent as it
stands. Never raises for a value. Invariant: what comes out is one line of a header field, within MOST characters.
"""

import re
from datetime import datetime

from crawl_pipeline.core.retry_after import http_date

MOST = 1_000
"""Characters of an entity tag: it is kept per page and sent with every request, and nothing says how long it may be."""

# RFC 9110 8.8.3 asks for quotes; many a server leaves them out and compares what it gets with what it gave. It allows
# bytes beyond ASCII, which not every program on the way passes on: a page asked for without condition is the safe side.
_ETAG = re.compile(rf"[\x21-\x7e](?:[\x20-\x7e]{{0,{MOST - 2}}}[\x21-\x7e])?")


def sendable(etag: str | None, last_modified: str | None, now: datetime) -> tuple[str | None, str | None]:
    """Give the entity tag and the date if they can be sent as If-None-Match and If-Modified-Since.

    A tag is printable ASCII (a control character could end the field); a date is one of RFC 9110 5.6.7.
    """
    tag = etag if etag and _ETAG.fullmatch(etag) else None
    date = last_modified if last_modified and http_date(last_modified, now) else None
    return tag, date
