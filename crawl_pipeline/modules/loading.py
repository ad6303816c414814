"""Find the modules that a policy names, make them with their settings, and refuse what cannot be meant.

Three answers. A name that nobody registered, settings that a module does not take, a table that cannot be: PolicyError,
before the crawl starts. A module that is there and fails to load (a package it needs is missing, its constructor
breaks): it is absent, the crawl goes on and says so. Else it is ready. Nothing is called here but constructors.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from crawl_pipeline.core.policy import Policy, PolicyError
from crawl_pipeline.core.tables import Table
from crawl_pipeline.modules.declaring import Declaration, Module, Phase, ReadModule, RoundModule

GROUP = "crawl_pipeline.modules"
SHIPPED = {
    "png_archive": "crawl_pipeline.modules.png_archive:PngArchive",
    "copyright_monitor": "crawl_pipeline.modules.copyright_monitor:CopyrightMonitor",
}
"""Ours, by name: they need no installation."""


@dataclass(frozen=True, slots=True)
class Spec:
    """How a process makes a module: its name in the policy, where it is, its settings as JSON."""

    name: str
    target: str
    settings: str = "{}"


@dataclass(frozen=True, slots=True)
class Ready:
    """A module that can be called."""

    spec: Spec
    module: Module

    @property
    def name(self) -> str:
        """Its name in the policy."""
        return self.spec.name

    @property
    def declares(self) -> Declaration:
        """What it wants and what it writes."""
        return self.module.declares

    @property
    def table(self) -> Table:
        """The table it writes."""
        return self.declares.as_table

    @property
    def phase(self) -> Phase:
        """When it is called."""
        return "read" if isinstance(self.module, ReadModule) else "round"


@dataclass(frozen=True, slots=True)
class Absent:
    """A module that the policy names and that does not load here."""

    name: str
    reason: str


@dataclass(frozen=True)
class Modules:
    """All modules of a worker."""

    ready: tuple[Ready, ...] = ()
    absent: tuple[Absent, ...] = ()
    strikes: int = 3
    """Hangs and crashes in a row after which a worker calls a module no more."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """The table of each, by the name of the module."""

    def of_phase(self, phase: Phase) -> tuple[Ready, ...]:
        """Those that are called in this phase."""
        return tuple(one for one in self.ready if one.phase == phase)

    def wants(self, media_type: str) -> bool:
        """Whether answers of this media type are read for one of them."""
        return any(one.declares.wants(media_type) for one in self.of_phase("read"))

    @cached_property
    def keepers(self) -> frozenset[str]:
        """Those that keep the bodies of what they tell of."""
        return frozenset(one.name for one in self.of_phase("read") if one.declares.keeps_bodies)

    @cached_property
    def images(self) -> bool:
        """Whether pictures in pages are followed for one of them."""
        return any(one.declares.images for one in self.ready)

    @cached_property
    def endings(self) -> frozenset[str]:
        """Endings of files that are followed for one of them."""
        return frozenset(ending.lower().lstrip(".") for one in self.ready for ending in one.declares.endings)


NONE = Modules()


def registered() -> dict[str, str]:
    """Where the modules are that can be named without a dotted name: ours, and those of installed packages."""
    found = dict(SHIPPED)
    for point in entry_points(group=GROUP):
        if found.setdefault(point.name, point.value) != point.value:
            raise PolicyError(
                f"modules: expected one module named {point.name}, found {found[point.name]} and {point.value}: "
                "uninstall one of the packages, or name it as package.module:Name"
            )
    return found


def load(policy: Policy) -> Modules:
    """The modules of a policy; PolicyError if what it says of them cannot be meant."""
    ready, absent = list[Ready](), list[Absent]()
    for spec in specs(policy):
        try:
            ready.append(Ready(spec, make(spec)))
        except PolicyError:
            raise
        except (Exception, SystemExit) as fault:
            absent.append(Absent(spec.name, f"does not load: {type(fault).__name__}: {fault}"))
    tables = {one.name: one.table for one in ready}
    _each_once([table.name for table in tables.values()], "modules that write different tables")
    return Modules(tuple(ready), tuple(absent), policy.modules.strikes, tables)


def specs(policy: Policy) -> list[Spec]:
    """Where each module of a policy is; PolicyError if a name is nobody's."""
    named, known = policy.modules.use, registered() if policy.modules.use else {}
    _each_once(named, "each module once in modules.use")
    for name in policy.modules.settings:
        if name not in named:
            raise PolicyError(f"modules.settings.{name}: expected a module that modules.use names, found {named}")
    return [Spec(name, _target(name, known), _as_json(name, policy.modules.settings.get(name, {}))) for name in named]


def _target(name: str, known: Mapping[str, str]) -> str:
    target = known.get(name, name)
    module, colon, attribute = target.partition(":")
    if not (colon and module and attribute):
        raise PolicyError(
            f"modules.use: expected package.module:Name, or one of {', '.join(sorted(known))}, found {name!r}: correct "
            "the name, or install the package that has it"
        )
    return target


def _as_json(name: str, settings: Mapping[str, Any]) -> str:
    try:
        return json.dumps(settings, sort_keys=True)
    except TypeError as error:
        raise PolicyError(f"modules.settings.{name}: expected text, numbers, lists and tables: {error}") from error


def _each_once(names: list[str], expected: str) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PolicyError(f"modules: expected {expected}, found {', '.join(twice)} more than once")


@lru_cache(maxsize=64)
def make(spec: Spec) -> Module:
    """Import a module and make it; PolicyError if there is none, or if it does not take its settings."""
    place, _, attribute = spec.target.partition(":")
    if not _is_there(place):
        raise PolicyError(
            f"modules.use: expected a Python module {place} for {spec.name!r}, found none: "
            "install it, or name its folder in PYTHONPATH"
        )
    kind = getattr(import_module(place), attribute, None)
    if not callable(kind):
        raise PolicyError(f"modules.use: expected a class {attribute} in {place} for {spec.name!r}, found {kind!r}")
    try:
        made = kind(**json.loads(spec.settings))
    except (TypeError, ValueError) as error:
        raise PolicyError(f"modules.settings.{spec.name}: {error}") from error
    _check(spec.name, made)
    return made  # type: ignore[no-any-return]  # checked above


def _is_there(place: str) -> bool:
    """Whether there is such a module; a package around it that breaks while it is imported is there, and broken."""
    try:
        return find_spec(place) is not None
    except ModuleNotFoundError as missing:
        if missing.name and (place == missing.name or place.startswith(f"{missing.name}.")):
            return False
        raise


def _check(name: str, made: object) -> None:
    phases = isinstance(made, ReadModule), isinstance(made, RoundModule)
    if sum(phases) != 1 or not isinstance(made.declares, Declaration):  # type: ignore[attr-defined]
        raise PolicyError(
            f"modules.use: expected {name!r} to have `declares` and one of the methods `read` and `round`, found "
            f"{type(made).__name__}: see docs/modules.md"
        )
    try:
        table = made.declares.as_table  # type: ignore[attr-defined]
    except (ValueError, TypeError) as error:
        raise PolicyError(f"modules.use: {name}: {error}") from error
    assert table.name
