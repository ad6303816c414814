"""Errors of the HTTP API in one form, RFC 9457 (problem details): what was expected, what was found, what to do.

Invariant: an error never shows a traceback, a token or what another caller sent.
"""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.responses import Response

SHOWN = 20
"""Mistakes of one request that are told."""
LONGEST = 200
"""Characters of what was sent that are repeated."""


class Mistake(BaseModel):
    """One thing that is wrong with a request."""

    where: str
    expected: str
    found: str


class Problem(BaseModel):
    """Why a request was not obeyed (RFC 9457)."""

    title: str
    status: int
    detail: str
    mistakes: list[Mistake] = []


def problem(
    status: int, detail: str, mistakes: Sequence[Mistake] = (), headers: Mapping[str, str] | None = None
) -> Response:
    """The answer for a request that is not obeyed."""
    told = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, mistakes=list(mistakes))
    return Response(to_json(told.model_dump()), status, headers, media_type="application/problem+json")


def of_mistakes(error: RequestValidationError) -> Response:
    """The answer for a request whose parts are not what they should be."""
    found = [Mistake(where=_where(one["loc"]), expected=one["msg"], found=_short(one.get("input")))
             for one in error.errors()[:SHOWN]]  # fmt: skip
    first = found[0] if found else Mistake(where="request", expected="another", found="")
    detail = f"{first.where}: {first.expected}; found {first.found}; see /api/v1/openapi.json for what is expected"
    return problem(422, detail, found)


def to_json(value: object) -> bytes:
    """Any value of ours as JSON that every reader takes: ASCII, without NaN."""
    return json.dumps(_plain(value), allow_nan=False).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def _where(place: Sequence[Any]) -> str:
    return ".".join(map(str, place)) or "request"


def _short(value: object) -> str:
    said = repr(value)
    return said if len(said) <= LONGEST else f"{said[:LONGEST]}..."
