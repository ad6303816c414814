"""Single keys of the policy that people set by an order, laid over the policy file.

The policy in force = the file's policy with every setting laid over it. Only what a running worker can obey at once may
be set: the sections SETTABLE, and what is different for one host. Pure: a policy and settings in, a policy out, checked
by the same model that checks the file.

Invariant: one key has one setting, the last one; so settings may be laid over in any order, or twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.policy import HostRule, Policy, PolicyError

SETTABLE = ("bands", "politeness", "robots", "scope", "budget", "retry", "recrawl", "traps")
"""Sections that planning, lanes and harvest read anew in every round; the others are read when a worker starts."""


LEAST: Mapping[str, float] = {"delay_s": 0.1, "crawl_delay_cap_s": 60.0, "retry_after_cap_s": 3_600.0}
"""What an order may not go below unless the file does: ten requests a second, and what hosts themselves ask for within
these. Whoever runs the crawl may be rougher, on a web of their own; whoever has a token may not."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key set by an order: `section.key`, or a key of one host's section."""

    key: str
    value: str
    host: str | None = None
    order: int = -1
    ordered_by: str = ""
    ordered_at: datetime | None = None

    @property
    def place(self) -> tuple[str, ...]:
        """Where the value stands in a policy."""
        return ("host", self.host, self.key) if self.host else tuple(self.key.split("."))

    @property
    def name(self) -> str:
        """The key as a person gives it to `crawl set` and `crawl unset`."""
        return f"{self.key} --host {self.host}" if self.host else self.key

    def __str__(self) -> str:
        return f"{self.key} = {self.value}" + (f" for {self.host}" if self.host else "")


def setting(key: str, value: str, host: str | None = None) -> Setting:
    """A setting as a person typed it; raise PolicyError if there is no such key, or if an order cannot set it.

    The value is TOML; what is not TOML is text, so that a word needs no quotes.
    """
    section, _, name = key.partition(".")
    known = policies.sections()
    if host is None and section not in SETTABLE:
        file_only = section in known and section != "host"
        raise PolicyError(_not_settable(key) if file_only else _unknown(key, [f"{of}.KEY" for of in SETTABLE]))
    fields = known[section].model_fields if host is None else HostRule.model_fields
    if (name if host is None else key) not in fields:
        raise PolicyError(_unknown(key, fields, f"in [{section}]" if host is None else "for a host"))
    return Setting(key, _toml(value), host)


def overlay(policy: Policy, settings: Iterable[Setting]) -> Policy:
    """The policy in force; raise PolicyError, naming the order, if a setting does not fit."""
    told = list(settings)
    if not told:
        return policy
    values: dict[str, Any] = policy.model_dump()
    for one in told:
        *path, last = one.place
        at = values
        for step in path:
            at = at.setdefault(step, {})
        at[last] = policies.read_toml(f"value = {one.value}")["value"]
    try:
        made = Policy.model_validate(values)
    except ValidationError as error:
        raise PolicyError(
            "the policy as it is set cannot be used:\n"
            + "\n".join(_misfit(trouble, told) for trouble in error.errors())
        ) from error
    _keep_promises(policy, made)
    return made


def _keep_promises(file: Policy, made: Policy) -> None:
    """Refuse what hosts would be asked too often by."""
    for key, least in LEAST.items():
        asked = {f"politeness.{key}": (getattr(made.politeness, key), getattr(file.politeness, key))}
        if key == "delay_s":
            asked |= {f"{key} --host {host}": (made.delay_s(host), file.delay_s(host)) for host in made.host}
        for name, (found, by_file) in asked.items():
            if found < min(least, by_file):
                raise PolicyError(
                    f"{name}: expected {min(least, by_file):g} s or more, found {found:g}: an order may not ask hosts "
                    f"more often; if they are yours, say so in the policy file, or take it back: crawl unset {name}"
                )


def _misfit(trouble: Any, told: list[Setting]) -> str:
    place = tuple(map(str, trouble["loc"]))
    # What no single key is to blame for may be the doing of any of them.
    blamed = [one for one in told if place[: len(one.place)] == one.place] or told
    by_order = (
        f"  this was set by order {one.order} of {one.ordered_by} at {one.ordered_at:%F %T} UTC ({one}); "
        f"to take it back: crawl unset {one.name}"
        for one in blamed if one.order >= 0
    )  # fmt: skip
    return "\n".join([policies.in_words(trouble), *by_order])


def _toml(text: str) -> str:
    """The value as TOML: as it was typed, or as text if that is none. One value, on one line."""
    try:
        read = policies.read_toml(f"value = {text}")
    except PolicyError:
        return policies.as_toml(text)
    return policies.as_toml(read["value"]) if list(read) == ["value"] else policies.as_toml(text)


def _unknown(key: str, known: Iterable[str], where: str = "that an order may set") -> str:
    return f"{key}: there is no such key {where}; known here: {', '.join(known)}"


def _not_settable(key: str) -> str:
    return (
        f"{key}: expected a key that a running worker can obey at once, of {', '.join(SETTABLE)}, or one --host's; "
        "this one is read when a worker starts: edit the policy file"
    )
