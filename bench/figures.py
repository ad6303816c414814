"""How every bench speaks: a table for people, and with --json one JSON object on the last line for programs.

A bench exits 0 when it measured, whether its targets were met or not.
"""

import json
import operator
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

OPERATORS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq, "<": operator.lt}

Target = tuple[str, str, float]
"""A figure's name, an operator of OPERATORS, and the value it is held to."""


def report(
    bench: str, figures: Mapping[str, float | None], targets: Sequence[Target], settings: Mapping[str, Any], *,
    as_json: bool,
) -> None:  # fmt: skip
    """Print the figures and whether the targets were met; figures that were not measured are None."""
    judged = [
        {"name": name, "value": figures.get(name), "op": op, "target": target,
         "met": (value := figures.get(name)) is not None and bool(OPERATORS[op](value, target))}
        for name, op, target in targets
    ]  # fmt: skip
    of = {row["name"]: row for row in judged}
    print(f"{bench}: " + ", ".join(f"{name} {value}" for name, value in settings.items()))
    for name, value in figures.items():
        shown = "not measured" if value is None else f"{value:,.3f}".rstrip("0").rstrip(".")
        row = of.get(name)
        verdict = f"  target {row['op']} {row['target']}: {'met' if row['met'] else 'NOT MET'}" if row else ""
        print(f"  {name:<28}{shown:>14}{verdict}")
    if as_json:
        measured = {name: value for name, value in figures.items() if value is not None}
        print(json.dumps({"bench": bench, "figures": measured, "targets": judged, "settings": dict(settings)}))


@dataclass(frozen=True, slots=True)
class Cost:
    """What a process with all its children took: CPU seconds (user and system), wall seconds, peak memory in MB.

    `waited_s`: how long its first thread was ready to run while others had the CPU, as Linux counts it.
    """

    cpu_s: float
    wall_s: float
    peak_mb: float
    code: int
    waited_s: float


def run(command: Sequence[str], *, look_s: float = 0.1, **options: Any) -> Cost:
    """Run a command and measure it with its children; memory is looked at every `look_s`, which slows it a little."""
    started = time.monotonic()
    process = subprocess.Popen(command, **options)
    watched, peak, waited_s, looked = psutil.Process(process.pid), 0, 0.0, started
    while True:
        waited_s = _waited_s(process.pid) or waited_s
        done, status, used = os.wait4(process.pid, os.WNOHANG)
        if done:
            process.returncode = os.waitstatus_to_exitcode(status)
            cpu_s = used.ru_utime + used.ru_stime
            return Cost(cpu_s, time.monotonic() - started, peak / 1e6, process.returncode, waited_s)
        if time.monotonic() >= looked:
            peak, looked = max(peak, _memory(watched)), time.monotonic() + look_s
        time.sleep(0.1)


def _waited_s(pid: int) -> float | None:
    """The second number of schedstat (Documentation/scheduler/sched-stats.rst): time on a run queue, in ns."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):  # not Linux, or it has ended
        return None


def _memory(process: psutil.Process) -> int:
    """Resident bytes of a process and its children, shared pages counted once each."""
    total = 0
    for one in [process, *_children(process)]:
        try:
            total += one.memory_full_info().uss
        except psutil.Error:  # it ended while we looked
            continue
    return total


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = process.children(recursive=True)
    except psutil.Error:
        return []
    return found
