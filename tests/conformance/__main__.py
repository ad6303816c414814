"""Print how many required and policy cases of a folder pass, per kind; exit 1 if a required one fails."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.cases import load
from tests.conformance.run import Result, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder with *.jsonl files of cases")
    parser.add_argument("--kind", help="only cases of this kind")
    parser.add_argument("--verbose", action="store_true", help="say why a case failed")
    given = parser.parse_args(arguments)
    results = [run(case) for case in load(given.folder, given.kind)]
    for kind in dict.fromkeys(result.case.kind for result in results):
        _print_kind(kind, [result for result in results if result.case.kind == kind], verbose=given.verbose)
    failed = [result for result in results if result.status == "failed" and not result.case.policy]
    print(f"{'all':10} required failed: {len(failed)}")
    return 1 if failed else 0


def _print_kind(kind: str, results: list[Result], *, verbose: bool) -> None:
    required = [result for result in results if not result.case.policy]
    policy = [result for result in results if result.case.policy]
    print(f"{kind:10} required {_share(required)}   policy {_share(policy)}   not run {_not_run(results)}")
    for name, of in (("failed required", required), ("decided otherwise", policy)):
        for result in of:
            if result.status == "failed":
                print(f"  {name}: {result.case.id}" + (f" ({result.case.why}) {result.detail}" if verbose else ""))


def _share(results: list[Result]) -> str:
    tried = [result for result in results if result.status != "not run"]
    return f"{sum(result.status == 'passed' for result in tried)}/{len(tried)}"


def _not_run(results: list[Result]) -> str:
    missing = [result.case for result in results if result.status == "not run"]
    ops = ", ".join(dict.fromkeys(case.op or case.kind for case in missing))
    return f"{len(missing)} ({ops})" if missing else "0"


if __name__ == "__main__":
    sys.exit(main())
