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
    return expected in got if isinstance(expected, str) else set(expected) <= set(got)


def _fields_contain(expected: Json, got: Json) -> bool:
    return all(text.lower() in got.get(name, "").lower() for name, text in expected.items())


def _fields_exclude(expected: Json, got: Json) -> bool:
    return not any(text.lower() in got.get(name, "").lower() for name, text in expected.items())


def _excludes_text(expected: Json, got: Json) -> bool:
    return not any(text in item for text in expected for item in got)


def _same(expected: Json, got: Json) -> bool:
    return set(expected) == set(got)


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
    ("_longer_than", lambda expected, got: got > expected),
    ("_max", lambda expected, got: got <= expected),
    ("_min", lambda expected, got: got >= expected),
    ("_any", lambda expected, got: got in expected),
    ("_set", lambda expected, got: set(got) == set(expected)),
)
# An answer names the relation it found, a case the ones that will do.
_RELATIONS = {"==": ("==",), "<": ("<",), ">": (">",), "<=": ("<", "=="), ">=": (">", "==")}
# Keys of one kind that have a rule of their own.
_OWN: dict[tuple[str, str], Rule] = {
    ("recrawl", "between_s"): lambda expected, got: expected[0] <= got <= expected[1],
    ("recrawl", "due"): lambda expected, got: expected == got if isinstance(expected, str) else _same(expected, got),
    ("recrawl", "headers"): lambda expected, got: bool(expected == got),
    ("recrawl", "interval"): lambda expected, got: got in _RELATIONS[expected],
    ("recrawl", "order"): lambda expected, got: got in {f"a{each}b" for each in _RELATIONS[expected[1:-1]]},
}
# Keys that say how another key is compared.
_BESIDE = frozenset(("rel_tolerance", "tolerance", "after_s"))
# Order and repetition mean nothing in these.
_SETS = frozenset(
    {("links", "links"), ("links", "nofollow"), ("links", "frames"), ("links", "resources"), ("dedup", "ids")}
)


def differences(kind: str, expect: Mapping[str, Json], got: Mapping[str, Json]) -> dict[str, tuple[Any, Any]]:
    """Return the keys that do not agree, with what was expected and what was found."""
    return {
        key: (expected, got.get(_field(key)))
        for key, expected in expect.items()
        if key not in LIMITS and not _beside_the_point(key, got) and not _agrees(kind, key, expect, got)
    }


def _beside_the_point(key: str, got: Mapping[str, Json]) -> bool:
    return key in _BESIDE or (key.endswith("_if_ok") and got.get("outcome") != "ok")


def _field(key: str) -> str:
    if key.startswith("max_"):
        return key.removeprefix("max_")
    if key == "delay_max_s":
        return "delay_s"
    if key.endswith(("header_contains", "header_excludes")) or key == "no_request_header":
        return "request_header"
    return next((key.removesuffix(ending) for ending, _ in _ENDINGS if key.endswith(ending)), key)


def _agrees(kind: str, key: str, expect: Mapping[str, Json], got: Mapping[str, Json]) -> bool:
    expected, found = expect[key], got.get(key, got.get(_field(key)))
    if key.startswith("max_") or key == "delay_max_s" or expected == "skipped_or_after_s":
        return found is None or (found >= expect["after_s"] if key == "second" else found <= expected)
    if key in got and _field(key) != key:
        return bool(found == expected)
    if rule := _rule(kind, key, expect):
        return found is not None and rule(expected, found)
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(found.get(name) == value for name, value in expected.items())
    return bool(found == expected)


def _rule(kind: str, key: str, expect: Mapping[str, Json]) -> Rule | None:
    """How the key is compared, if not for equality."""
    if "tolerance" in expect:
        return lambda expected, got: bool(abs(got - expected) <= expect["tolerance"])
    if "rel_tolerance" in expect:
        return lambda expected, got: bool(abs(got - expected) <= expect["rel_tolerance"] * abs(expected))
    ending = next((rule for ending, rule in _ENDINGS if key.endswith(ending)), None)
    return _OWN.get((kind, key)) or ending or (_same if (kind, key) in _SETS else None)
