"""Run cases against the adapters and say how each ended.

A case with a bound on time or memory runs in a process of its own that is killed at the bound; the others run
here, because starting a process for each would take minutes. Invariant: an adapter never ends the run,
whatever it raises.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from typing import Literal

from tests.conformance.cases import Case, Json
from tests.conformance.compare import differences
from tests.conformance.kinds import ADAPTERS

# Interpreter start and imports do not count as time of the case, but must end some time.
START_S = 60.0


@dataclass(frozen=True, slots=True)
class Result:
    """How a case ended; `detail` says why it failed."""

    case: Case
    status: Literal["passed", "failed", "not run"]
    detail: str = ""


def run(case: Case) -> Result:
    """Run one case."""
    if (case.kind, case.op) not in ADAPTERS:
        return Result(case, "not run", "no adapter")
    try:
        got = _apart(case) if case.limits else ADAPTERS[case.kind, case.op](case.input)
    except Exception as error:
        return Result(case, "failed", f"raised {type(error).__name__}: {error}")
    if got is None:
        return Result(case, "failed", f"over its bounds {case.limits}")
    wrong = differences(case.kind, case.expect, got)
    told = "; ".join(f"{key}: expected {want!r}, found {found!r}" for key, (want, found) in wrong.items())
    return Result(case, "failed" if wrong else "passed", told[:600])


def _apart(case: Case) -> dict[str, Json] | None:
    """Run the adapter in a process of its own; None if it went over a bound."""
    limits = case.limits
    try:
        done = subprocess.run(
            [sys.executable, "-m", "tests.conformance.apart"],
            input=json.dumps(asdict(case)),
            capture_output=True,
            text=True,
            timeout=START_S + limits.get("max_elapsed_s", 120.0),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    answer = json.loads(done.stdout)
    over = answer["elapsed_s"] > limits.get("max_elapsed_s", answer["elapsed_s"])
    over = over or answer["grown_mb"] > limits.get("max_memory_mb", answer["grown_mb"])
    return None if over else answer["got"]
