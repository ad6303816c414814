"""Compare what an adapter gave with what a case expects; only the keys that stand in `expect` count.

The key says how: `locs` is compared as it is, `locs_set` as a set with `locs` of the answer, `encoding_any`
by membership, `max_fetches` as an upper bound of `fetches`, and so on. Invariant: a key without a rule is
compared for equality.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tests.conformance.cases import LIMITS, Json

Rule = Callable[[Json, Json], bool]


def _contains(expected: Json, got: Json) -> bool:
    return expected in got if isinstance(got, str) else set(expected) <= set(got)


def _fields_contain(expected: Json, got: Json) -> bool:
    return all(text.lower() in got.get(name, "").lower() for name, text in expected.items())


def _fields_exclude(expected: Json, got: Json) -> bool:
    return not any(text.lower() in got.get(name, "").lower() for name, text in expected.items())


def _excludes_text(expected: Json, got: Json) -> bool:
    return not any(text in item for text in expected for item in got)


# The first ending that fits; what is left of the key names the answer's field.
_ENDINGS: tuple[tuple[str, Rule], ...] = (
    ("no_request_header", lambda expected, got: set(expected).isdisjoint(got)),
    ("header_contains", _fields_contain),
    ("header_excludes", _fields_exclude),
    ("_not", lambda expected, got: set(expected).isdisjoint(got)),
    ("_exclude_substring", _excludes_text),
    ("_exclude", lambda expected, got: set(expected).isdisjoint(got)),
    ("_subset_of", lambda expected, got: set(got) <= set(expected)),
    ("_contains", _contains),
    ("_contain", _contains),
    ("_at_least", lambda expected, got: got >= expected),
    ("_any", lambda expected, got: got in expected),
    ("_set", lambda expected, got: set(got) == set(expected)),
)
# Order and repetition mean nothing in these.
_SETS = frozenset({("links", "links"), ("links", "nofollow"), ("links", "frames"), ("links", "resources")})


def differences(kind: str, expect: Mapping[str, Json], got: Mapping[str, Json]) -> dict[str, tuple[Any, Any]]:
    """Return the keys that do not agree, with what was expected and what was found."""
    return {
        key: (expected, got.get(_field(key)))
        for key, expected in expect.items()
        if key not in LIMITS and not _beside_the_point(key, got) and not _agrees(kind, key, expected, got)
    }


def _beside_the_point(key: str, got: Mapping[str, Json]) -> bool:
    return key.endswith("_if_ok") and got.get("outcome") != "ok"


def _field(key: str) -> str:
    if key.startswith("max_"):
        return key.removeprefix("max_")
    if key == "delay_max_s":
        return "delay_s"
    if key.endswith(("header_contains", "header_excludes")) or key == "no_request_header":
        return "request_header"
    return next((key.removesuffix(ending) for ending, _ in _ENDINGS if key.endswith(ending)), key)


def _agrees(kind: str, key: str, expected: Json, got: Mapping[str, Json]) -> bool:
    found = got.get(key, got.get(_field(key)))
    if key.startswith("max_") or key == "delay_max_s":
        return found is None or found <= expected
    if key in got and _field(key) != key:
        return bool(found == expected)
    for ending, rule in _ENDINGS:
        if key.endswith(ending):
            return found is not None and rule(expected, found)
    if (kind, key) in _SETS:
        return found is not None and set(found) == set(expected)
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(found.get(name) == value for name, value in expected.items())
    return bool(found == expected)
