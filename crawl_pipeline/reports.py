"""The SQL of dbt_like_reports: models to read, tests whose rows break a sentence, alarms whose rows ask for an act.

A file's head says all that is told of it: its sentence, the tables of the lake it reads, what to do (of an alarm), and
what its columns mean. It names another model as ref('model'); unknown names and circles are refused when the files are
read, so that a person who writes one hears of it at once. Run, each model is a view of the schema `reports`.

Decides nothing about the crawl, and writes nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import duckdb
import polars as pl

from crawl_pipeline import corpus
from crawl_pipeline.core.tables import TABLES
from crawl_pipeline.table_views import Files, quoted

FOLDER = Path(__file__).parent.parent / "dbt_like_reports"
MODELS, TESTS, ALARMS = "models", "tests", "alarms"
SCHEMA = "reports"

_REF = re.compile(r"\bref\('(\w+)'\)")
_COLUMN = re.compile(r"--   (\w+): (.+)")


class ReportError(Exception):
    """There is no report of this name, or its file is not written as they are."""


@dataclass(frozen=True, slots=True)
class Report:
    """One file of SQL."""

    name: str
    sentence: str
    tables: tuple[str, ...]
    refs: tuple[str, ...]
    sql: str
    advice: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What a test or an alarm found: the sentence holds if no row offends."""

    name: str
    sentence: str
    tables: tuple[str, ...]
    offending: pl.DataFrame
    advice: str = ""

    @property
    def holds(self) -> bool:
        """Tell whether the sentence is true of the lake."""
        return self.offending.is_empty()


# Files.


def models(folder: Path = FOLDER) -> tuple[Report, ...]:
    """List the models by name; raise ReportError if one refers to what is none, or if they refer in a circle."""
    found = _read(folder, MODELS)
    in_order(found)
    return found


def tests(folder: Path = FOLDER) -> tuple[Report, ...]:  # noqa: PT028 - lists tests, is none
    """List the tests by name."""
    return _of_models(folder, TESTS)


def alarms(folder: Path = FOLDER) -> tuple[Report, ...]:
    """List the alarms by name: tests of thresholds, each of which says what to do."""
    found = _of_models(folder, ALARMS)
    for alarm in found:
        if not alarm.advice:
            raise ReportError(f"{folder / ALARMS / alarm.name}.sql must say what to do: `-- advice: <what to do>`")
    return found


def in_order(found: Sequence[Report]) -> list[Report]:
    """Models, each after those it refers to."""
    by_name = {model.name: model for model in found}
    for model in found:
        _check_refs(model, by_name)
    try:
        names = TopologicalSorter({model.name: model.refs for model in found}).static_order()
        return [by_name[name] for name in names]
    except CycleError as circle:
        raise ReportError(f"models refer to each other in a circle: {' → '.join(circle.args[1])}") from None


def _of_models(folder: Path, kind: str) -> tuple[Report, ...]:
    known = {model.name: model for model in _read(folder, MODELS)}
    found = _read(folder, kind)
    for report in found:
        _check_refs(report, known)
    return found


def _check_refs(report: Report, known: Mapping[str, Report]) -> None:
    for name in report.refs:
        if name not in known:
            raise ReportError(
                f"{report.name}.sql refers to {name!r}, which is no model; there are {', '.join(sorted(known))}"
            )


def _read(folder: Path, kind: str) -> tuple[Report, ...]:
    return tuple(_report(path) for path in sorted((folder / kind).glob("*.sql")))


def _report(path: Path) -> Report:
    text = path.read_text(encoding="utf-8")
    first, second, *_ = [*text.splitlines(), "", ""]
    sentence, names = first.removeprefix("-- "), second.removeprefix("-- tables: ")
    if sentence == first or names == second:
        raise ReportError(f"{path} must begin with `-- <sentence>` and `-- tables: a, b`, found {first!r}, {second!r}")
    tables = tuple(name.strip() for name in names.split(",")) if names != "none" else ()
    unknown = [name for name in tables if name not in TABLES]
    if unknown:
        raise ReportError(f"{path} names {unknown}; the lake has {', '.join(sorted(TABLES))}")
    head = [line for line in text.splitlines()[2:] if line.startswith("--")]
    advice = " ".join(line.removeprefix("-- advice: ") for line in head if line.startswith("-- advice: "))
    columns = {found[1]: found[2] for line in head if (found := _COLUMN.fullmatch(line))}
    refs = tuple(dict.fromkeys(_REF.findall(text)))
    return Report(path.stem, sentence, tables, refs, _REF.sub(rf"{SCHEMA}.\1", text), advice, columns)


# Runs.


def define(connection: duckdb.DuckDBPyConnection, wanted: Iterable[Report], folder: Path = FOLDER) -> None:
    """Make a view of each model that these reports refer to, directly or not, unless it is there."""
    known = in_order(_read(folder, MODELS))
    needed = _closure([name for report in wanted for name in report.refs], {model.name: model for model in known})
    connection.execute(f"create schema if not exists {SCHEMA}")
    for model in known:
        if model.name in needed:
            _define(connection, model)


def connect(lake: Files, folder: Path = FOLDER) -> duckdb.DuckDBPyConnection:
    """Open a snapshot of a lake, or of a moment of one, in which each model is a view too; the caller closes it."""
    connection = corpus.connect(lake)
    try:
        connection.execute(f"create schema if not exists {SCHEMA}")
        for model in in_order(_read(folder, MODELS)):
            _define(connection, model)
    except BaseException:
        connection.close()
        raise
    return connection


def run_model(lake: Files, name: str, folder: Path = FOLDER) -> pl.DataFrame:
    """Give the rows of one model."""
    report = _named(models, name, folder)
    with corpus.connect(lake) as connection:
        define(connection, [report], folder)
        return corpus.read(connection, report.sql)


def run_models(lake: Files, folder: Path = FOLDER) -> dict[str, pl.DataFrame]:
    """Give the rows of every model, of one snapshot."""
    with connect(lake, folder) as connection:
        return {model.name: corpus.read(connection, f"from {SCHEMA}.{model.name}") for model in models(folder)}


def run_test(lake: Files, name: str, folder: Path = FOLDER) -> Result:
    """Ask for the rows that break one sentence."""
    return _run(lake, [_named(tests, name, folder)], folder)[0]


def run_tests(lake: Files, folder: Path = FOLDER) -> tuple[Result, ...]:
    """Run every test over one snapshot."""
    return _run(lake, tests(folder), folder)


def run_alarms(lake: Files, folder: Path = FOLDER) -> tuple[Result, ...]:
    """Ask every alarm over one snapshot."""
    return _run(lake, alarms(folder), folder)


def ask(connection: duckdb.DuckDBPyConnection, report: Report) -> Result:
    """Ask one test or alarm of an open snapshot, in which the models it refers to are defined."""
    return Result(report.name, report.sentence, report.tables, corpus.read(connection, report.sql), report.advice)


def _run(lake: Files, asked: Sequence[Report], folder: Path) -> tuple[Result, ...]:
    with corpus.connect(lake, described=False) as connection:
        if any(report.refs for report in asked):
            define(connection, asked, folder)
        return tuple(ask(connection, report) for report in asked)


def _define(connection: duckdb.DuckDBPyConnection, model: Report) -> None:
    try:
        connection.execute(f"create view if not exists {SCHEMA}.{model.name} as {model.sql}")
    except duckdb.Error as error:
        raise ReportError(f"{model.name}.sql cannot be run: {error}") from error
    connection.execute(f"comment on view {SCHEMA}.{model.name} is {quoted(model.sentence)}")
    for column, meaning in model.columns.items():
        connection.execute(f'comment on column {SCHEMA}.{model.name}."{column}" is {quoted(meaning)}')


def _closure(names: Iterable[str], known: Mapping[str, Report]) -> set[str]:
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(known[name].refs)
    return found


def _named(kind: Callable[[Path], tuple[Report, ...]], name: str, folder: Path) -> Report:
    found = {report.name: report for report in kind(folder)}
    if name not in found:
        raise ReportError(f"no {kind.__name__} file {name}.sql in {folder}; there are {', '.join(found) or 'none'}")
    return found[name]
