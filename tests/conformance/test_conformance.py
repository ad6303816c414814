"""Our own cases pass, and the runner tells failures from decisions."""

import json
from pathlib import Path

import pytest

from tests.conformance.__main__ import main
from tests.conformance.cases import Case, load
from tests.conformance.compare import differences
from tests.conformance.run import run

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("case", list(load(CASES)), ids=lambda case: case.id)
def test_our_own_cases_pass(case: Case) -> None:
    result = run(case)
    assert result.status == "passed", f"{case.why}: {result.detail}"


def _folder(tmp_path: Path, **changes: object) -> Path:
    case = {
        "id": "x",
        "kind": "url",
        "input": {"op": "canonical", "url": "http://h.example"},
        "expect": {"canonical": "no"},
    }
    (tmp_path / "url.jsonl").write_text(json.dumps(case | changes) + "\n")
    return tmp_path


def test_a_required_failure_ends_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(_folder(tmp_path))]) == 1
    assert "failed required: x" in capsys.readouterr().out


def test_a_policy_failure_is_a_decision(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(_folder(tmp_path, policy=True))]) == 0
    assert "decided otherwise: x" in capsys.readouterr().out


def test_a_case_without_adapter_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(_folder(tmp_path, input={"op": "unheard-of"}))]) == 0
    assert "not run 1 (unheard-of)" in capsys.readouterr().out


def test_an_adapter_that_raises_fails_its_case_only(tmp_path: Path) -> None:
    assert main([str(_folder(tmp_path, input={"op": "canonical"}))]) == 1


def test_a_folder_without_cases_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="give another folder"):
        list(load(tmp_path))


@pytest.mark.parametrize(
    ("expect", "got", "agrees"),
    [
        ({"locs_set": ["a", "b"]}, {"locs": ["b", "a", "a"]}, True),
        ({"locs_contain": ["a"]}, {"locs": ["b"]}, False),
        ({"max_fetches": 3}, {"fetches": 4}, False),
        ({"encoding_any": ["x", "y"]}, {"encoding": "y"}, True),
        ({"locs_exclude_substring": ["root"]}, {"locs": ["/root:"]}, False),
        ({"delay_max_s": 5}, {"delay_s": None}, True),
        ({"lastmod": {"a": None}}, {"lastmod": {"a": None, "b": "x"}}, True),
    ],
)
def test_the_key_says_how_to_compare(expect: dict[str, object], got: dict[str, object], *, agrees: bool) -> None:
    assert (not differences("sitemap", expect, got)) == agrees
