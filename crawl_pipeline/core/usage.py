"""Read what a site prefers as to the use of a page: Content-Usage in its answer and in robots.txt.

draft-ietf-aipref-attach says where preferences stand, draft-ietf-aipref-vocab what they mean: a dictionary of
structured fields (RFC 9651), each label `y` or `n`, such as `train-ai=n`. The labels have changed from revision to
revision (of late they are train-ai, ai-use and search), so every label is kept as it was said, and one of them,
train-ai, is known by name. Text in, preferences out; never says what is done about them. Invariant: what cannot be
read is no preference, never an error, and reading takes time linear in the text.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crawl_pipeline.core.path_rules import Pattern, pattern_of

Preferences = Mapping[str, bool]
"""Whether a use is allowed, by its label; a use without a label is one of which nothing is known."""

TRAINING = "train-ai"
# A longer statement is none: what is recorded of a page stays small, whoever wrote it.
MOST_CHARACTERS = 1_000

# RFC 9651 3.2, 3.1.1, 3.1.2, 3.3: a dictionary, its members, their parameters and values.
_KEY = r"[a-z*][a-z0-9_.*-]*+"
_VALUE = (
    r"(?:-?(?:[0-9]{1,12}\.[0-9]{1,3}|[0-9]{1,15})(?![0-9.])"  # a number
    r"|@-?[0-9]{1,15}(?![0-9.])"  # a date
    r'|"(?:[ !#-\[\]-~]|\\["\\])*+"'  # a string
    r'|%"(?:[ !#$&-~]|%[0-9a-f]{2})*+"'  # a string in Unicode
    r"|[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*+"  # a token
    r"|:[A-Za-z0-9+/=]*+:"  # bytes
    r"|\?[01])"  # a truth value
)
_PARAMETERS = rf"(?:; *+{_KEY}(?:={_VALUE})?+)*+"
_LIST = rf"\( *+(?:{_VALUE}{_PARAMETERS}(?: ++|(?=\))))*+\)"
_MEMBER = rf"({_KEY})(?:=({_VALUE}|{_LIST}))?+{_PARAMETERS}"
_MEMBERS = re.compile(_MEMBER)
_DICTIONARY = re.compile(rf"{_MEMBER}(?:[ \t]*+,[ \t]*+{_MEMBER})*+")
_SAYS = {"y": True, "n": False}


def stated(text: str) -> Preferences:
    """Read one statement; of a label that stands twice the last value counts, one that is neither y nor n says nothing.

    One error anywhere, and nothing is said (aipref-vocab, Processing Algorithm).
    """
    text = text.strip(" \t")
    if len(text) > MOST_CHARACTERS or not _DICTIONARY.fullmatch(text):
        return {}
    last = {member[1]: member[2] for member in _MEMBERS.finditer(text)}
    return {label: _SAYS[value] for label, value in last.items() if value in _SAYS}


def in_header(values: Iterable[str]) -> Preferences:
    """Read the Content-Usage fields of an answer: several are one, in parts (RFC 9110 5.3)."""
    return stated(", ".join(values))


@dataclass(frozen=True, slots=True)
class UsageRule:
    """One Content-Usage line of robots.txt: the paths it speaks of, and what is preferred there."""

    pattern: Pattern
    preferences: Preferences


def rule_of(value: bytes) -> list[UsageRule]:
    """Read the value of a line: a path that begins with a slash, white space, a statement; without a path, all paths.

    A line that states nothing is passed over, so that it hides no other.
    """
    path, statement = value, b""
    if not value.startswith(b"/"):
        path, statement = b"/", value
    elif found := re.search(rb"[ \t]", value):
        path, statement = value[: found.start()], value[found.end() :]
    preferences, pattern = stated(statement.decode("latin-1")), pattern_of(path)
    return [UsageRule(pattern, preferences)] if preferences and pattern else []


def by_rules(rules: Iterable[UsageRule], path: str) -> Preferences:
    """What these rules, the most specific first, say of a path: the longest that matches, together with its equals.

    Lines for one path that contradict each other count separately (aipref-attach 3.1), so that n outweighs y.
    """
    longest: int | None = None
    found: list[Preferences] = []
    for rule in rules:
        if longest is not None and rule.pattern.octets < longest:
            break
        if rule.pattern.matches(path):
            longest = rule.pattern.octets
            found.append(rule.preferences)
    return together(*found)


def together(*statements: Preferences) -> Preferences:
    """What several statements come to: n if any says so, else y if any does (aipref-vocab, Combining Preferences)."""
    labels = {label for statement in statements for label in statement}
    return {label: all(statement.get(label, True) for statement in statements) for label in labels}


def written(preferences: Preferences) -> str | None:
    """Preferences as they are recorded: labels in order, as the draft writes them; None if there are none."""
    return ", ".join(f"{label}={'y' if preferences[label] else 'n'}" for label in sorted(preferences)) or None


def forbids_training(recorded: str | None) -> bool:
    """Tell whether preferences as they were recorded ask not to train AI on the page."""
    return recorded is not None and stated(recorded).get(TRAINING) is False
