"""Run one case, given on standard input, and print its answer with the time it took and how far memory grew."""

import json
import resource
import sys
import time

from tests.conformance.cases import case
from tests.conformance.kinds import ADAPTERS

# Hard bounds: a case that goes far beyond its own is ended by the system.
MOST_BYTES = 8 << 30
SPARE_S = 30


def main() -> None:
    """Read, run, print."""
    given = case(json.load(sys.stdin))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    seconds = int(time.process_time() + given.limits.get("max_elapsed_s", 120) + SPARE_S)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    adapter = ADAPTERS[given.kind, given.op]
    before, start = _peak_mb(), time.perf_counter()
    got = adapter(given.input)
    elapsed = time.perf_counter() - start
    json.dump({"got": got, "elapsed_s": elapsed, "grown_mb": _peak_mb() - before}, sys.stdout)


def _peak_mb() -> float:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (1024 * 1024 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    main()
