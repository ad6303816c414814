"""What an adapter is, and the inputs that several kinds share."""

import base64
from collections.abc import Callable, Mapping
from datetime import datetime

from tests.conformance.cases import Json

Input = Mapping[str, Json]
Adapter = Callable[[Input], dict[str, Json]]
Adapters = dict[tuple[str, str], Adapter]

AGENT = "ExampleBot"


def octets(given: Input, name: str) -> bytes:
    """Return a field as bytes: base64 under `name_b64`, or text."""
    if f"{name}_b64" in given:
        return base64.b64decode(given[f"{name}_b64"])
    return str(given.get(name, "")).encode()


def moment(text: str) -> datetime:
    """Read a time such as 2026-07-01T00:00:00Z."""
    return datetime.fromisoformat(text)
