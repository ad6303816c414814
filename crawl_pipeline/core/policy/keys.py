"""What a section of the policy is made of: keys with a default, limits and a meaning, unit first.

Unknown keys and wrong types are refused everywhere, and a value never changes.
"""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

# No number needs to be larger: a longer time is over 30 years, and more of anything does not fit into memory.
MOST = 1_000_000_000
Count = Annotated[int, Field(ge=0, le=MOST)]
PositiveInt = Annotated[int, Field(gt=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST)]
HostName = Annotated[str, Field(pattern=r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$|^\[[0-9a-f:.]+\]$")]
Patterns = list[Annotated[str, Field(pattern=r"^[!-~]+$")]]
"""Of canonical URLs, which are ASCII without spaces: another pattern would match none and say nothing of it."""
Ending = Annotated[str, Field(pattern=r"^[a-z0-9_-]+$")]
MediaType = Annotated[str, Field(pattern=r"^[a-z0-9.+_-]+/[a-z0-9.+_-]+$")]


class PolicyError(ValueError):
    """The policy cannot be used; the message says which key, what was expected, what was found."""


class Section(BaseModel):
    """What all sections share: unknown keys and wrong types are refused, values never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def key(default: Any, says: str, **limits: Any) -> Any:
    """Declare one key: its default (... for none), and what it means, unit first."""
    return Field(default, description=says, **limits)
