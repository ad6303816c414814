"""Read a Retry-After field: how long a host asks to be left alone.

Decides only how many seconds the value means at `now`; what is done with them is for the politeness rules.
Never raises for a value, however malformed: then there is no wish. Invariant: the answer is None or from 0 to
CAP_S.
"""

import re
from datetime import UTC, datetime
from math import ceil

# A host that asks for more than a week means "not today"; an error page with a year in it must not lose the
# host.
CAP_S = 604_800

_MONTHS = {"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6}
_MONTHS |= {"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12}
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
# The three forms of RFC 9110 5.6.7: IMF-fixdate, RFC 850, asctime. The name of the day is not checked.
_DATES = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} (?:GMT|UTC)",
        rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} (?:GMT|UTC)",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
)
_SECONDS = re.compile(r"[0-9]+")


def retry_after_s(value: str, now: datetime) -> int | None:
    """Return the seconds to wait from `now` (with time zone), capped; None if the value says nothing."""
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        # More than nine digits are over the cap anyway, and int() of very long ones is refused by Python.
        digits = value.lstrip("0") or "0"
        return min(int(digits), CAP_S) if len(digits) < 10 else CAP_S
    at = http_date(value, now)
    return None if at is None else min(max(0, ceil((at - now).total_seconds())), CAP_S)  # never before the date


def http_date(value: str, now: datetime) -> datetime | None:
    """Read a date of RFC 9110 5.6.7 in any of its three forms; `now` settles a two-digit year's century."""
    found = next((m for form in _DATES if (m := form.fullmatch(value.strip(" \t")))), None)
    month = found and _MONTHS.get(found["month"].lower())
    if not found or not month:
        return None
    year = int(found["year"])
    if len(found["year"]) == 2:
        # More than 50 years ahead means the most recent past year with these digits (RFC 9110 5.6.7).
        year += now.year // 100 * 100
        year -= 100 if year > now.year + 50 else 0
    second = min(int(found["second"]), 59)  # a leap second is written as 60
    try:
        return datetime(
            year,
            month,
            int(found["day"]),
            int(found["hour"]),
            int(found["minute"]),
            second,
            tzinfo=UTC,
        )
    except ValueError:
        return None
