"""The policy as text: TOML in, with errors that a person can act on; TOML out, with every default commented."""

import json
import tomllib
from datetime import date, time
from typing import Any

from pydantic import ValidationError

from crawl_pipeline.core.policy.keys import PolicyError, Section
from crawl_pipeline.core.policy.whole import HostRule, Policy


def load(text: str) -> Policy:
    """Read a policy from TOML. Unknown keys, wrong types and senseless values raise PolicyError."""
    try:
        return Policy.model_validate(read_toml(text))
    except ValidationError as error:
        raise PolicyError("the policy cannot be used:\n" + "\n".join(map(in_words, error.errors()))) from error


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML; whatever is none raises PolicyError: also what Python's reader gives up on in its own words."""
    try:
        return tomllib.loads(text)
    except ValueError as error:  # TOMLDecodeError, and a number of more digits than Python reads
        twice = "; TOML allows nothing twice: fill keys in where they stand" if "twice" in str(error) else ""
        raise PolicyError(f"the policy is not TOML: {error}{twice}") from error
    except RecursionError as error:
        raise PolicyError("the policy is not TOML: expected a value, found lists too deep to be read") from error


def render(policy: Policy | None = None) -> str:
    """Write a policy as TOML, each key with its meaning; without one, the defaults with the agent left to fill in."""
    blocks = []
    for name, section in sections().items():
        values = getattr(policy, name) if policy else None
        if name == "host":
            blocks += [_render_host(host, rule) for host, rule in sorted((values or {}).items())]
        else:
            blocks.append("\n".join([f"# {section.__doc__}", f"[{name}]", *_render_keys(section, values)]))
    return "\n\n".join(blocks) + "\n"


def sections() -> dict[str, type[Section]]:
    """Every section by name; `host` stands for the sections [host."name"]."""
    kinds = {name: field.annotation for name, field in Policy.model_fields.items()}
    return {
        name: kind if isinstance(kind, type) and issubclass(kind, Section) else HostRule for name, kind in kinds.items()
    }


def in_words(error: Any) -> str:
    """One of pydantic's errors as a person reads it."""
    where = ".".join(str(part) for part in error["loc"]) or "policy"
    if error["type"] == "extra_forbidden":
        section = sections().get(str(error["loc"][0])) if len(error["loc"]) > 1 else None
        known = (section or Policy).model_fields
        return f"  {where}: there is no such key; known here: {', '.join(known)}"
    if error["type"] == "string_pattern_mismatch" and error["input"] == "":
        return f"  {where}: expected text, found none: fill it in{_says(error['loc'])}"
    if error["type"] == "string_pattern_mismatch":
        return f"  {where}: expected other text, found {error['input']!r}{_says(error['loc'])}"
    found = "" if error["type"] == "missing" else f"; found {error['input']!r}"
    says = _says(error["loc"])
    return f"  {where}: {error['msg']}{found if len(found) < 200 else ''}{says}"


def _says(place: tuple[Any, ...]) -> str:
    """What the key at this place of the policy means, in brackets."""
    section = sections().get(str(place[0])) if place else None
    name = next((part for part in reversed(place) if isinstance(part, str)), "")  # after it, a place in a list
    field = section.model_fields.get(name) if section else None
    return f" ({field.description})" if field else ""


_SECTIONS_BELOW = (dict[str, dict[str, Any]],)
"""Types of keys that a person gives as sections; TOML refuses those where the key stands too, though it is empty."""


def _render_keys(section: type[Section], values: Section | None) -> list[str]:
    lines = []
    for name, field in section.model_fields.items():
        value = getattr(values, name) if values else field.get_default()
        text = '""  # fill in' if values is None and field.is_required() else as_toml(value)
        lines.append(f"# {field.description}")
        if (values and value) or field.annotation not in _SECTIONS_BELOW:
            lines.append(f"{name} = {text}")
        else:
            lines.append(f"# {name}: given as sections of their own, below this one")
    return lines


def _render_host(name: str, rule: HostRule) -> str:
    given = rule.model_dump(exclude_none=True)
    return "\n".join([f"[host.{as_toml(name)}]", *(f"{key} = {as_toml(value)}" for key, value in given.items())])


def as_toml(value: object) -> str:
    """A value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's escapes are JSON's
    if isinstance(value, list):
        return "[" + ", ".join(as_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{as_toml(name)} = {as_toml(item)}" for name, item in sorted(value.items())) + "}"
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
    return repr(value)
