"""Conformance cases as values: read from files of JSON lines, one case a line."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Any
LIMITS = ("max_elapsed_s", "max_memory_mb")


@dataclass(frozen=True, slots=True)
class Case:
    """One expectation: what goes in, what must come out, and whether good crawlers differ about it."""

    id: str
    kind: str
    input: Mapping[str, Json]
    expect: Mapping[str, Json]
    policy: bool
    why: str

    @property
    def op(self) -> str:
        """The operation; kinds with only one leave it out."""
        return str(self.input.get("op", ""))

    @property
    def limits(self) -> dict[str, float]:
        """Bounds on time and memory, wherever they stand."""
        return {k: float(where[k]) for k in LIMITS for where in (self.input, self.expect) if k in where}


def load(folder: Path, kind: str | None = None) -> Iterator[Case]:
    """Read every case of a folder, or those of one kind."""
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(f"expected files of cases (*.jsonl) in {folder}, found none; give another folder")
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.strip() and (kind is None or json.loads(line)["kind"] == kind):
                yield case(json.loads(line))


def case(fields: Mapping[str, Json]) -> Case:
    """Read one case."""
    return Case(
        id=fields["id"],
        kind=fields["kind"],
        input=fields["input"],
        expect=fields["expect"],
        policy=bool(fields.get("policy")),
        why=fields.get("why", ""),
    )
