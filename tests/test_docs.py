"""The documents say what the code says: names exist, commands parse, queries run, generated pages are fresh."""

import importlib.util
import re
import shlex
from collections import Counter
from pathlib import Path

import click
import pytest

from crawl_pipeline import corpus, reports
from crawl_pipeline.cli import main as crawl
from crawl_pipeline.core import admission, policy, tables
from crawl_pipeline.core.outcome import STATUSES
from crawl_pipeline.lake import Lake
from crawl_pipeline.modules import copyright_monitor, png_archive
from docs import generate

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "dbt_like_reports" / "README.md"])
BY_HAND = [page for page in PAGES if page.name not in {"tables.md", "policy.md", "commands.md", "api.md", "scale.md"}]
TEXT = {page: page.read_text(encoding="utf-8") for page in PAGES}
WRITTEN = "\n".join(TEXT[page] for page in BY_HAND)
ALL = "\n".join(TEXT.values())
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OTHERS = {"XDG_CACHE_HOME"}  # read by the demo's web, and not ours to explain
FOLDERS = ("crawl_pipeline/", "docs/", "tests/", "bench/", "dbt_like_reports/", "deploy/", "core/", "lake/", "fetch/")

per_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def blocks(language: str, pages: list[Path] = PAGES) -> list[tuple[str, str]]:
    """Fenced blocks of a language, each with the page it stands in."""
    fence = re.compile(rf"^ *```{language}\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
    return [(page.name, found) for page in pages for found in fence.findall(TEXT[page])]


def typed() -> list[tuple[str, list[str]]]:
    """Every command shown to be typed, without its settings of variables."""
    lines = [(page, line) for page, block in blocks("console") for line in block.splitlines()]
    assert all(line.startswith("$ ") for _, line in lines), "a console block shows only what is typed, after `$ `"
    words = [(page, shlex.split(line[2:])) for page, line in lines]
    return [(page, [w for i, w in enumerate(ws) if i or "=" not in w][_settings(ws) :]) for page, ws in words]


def _settings(words: list[str]) -> int:
    """How many settings stand before the command, the first of which `typed` has dropped."""
    count = next(i for i, word in enumerate(words) if "=" not in word)
    return max(0, count - 1)


def code(text: str) -> list[str]:
    """Inline code outside fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL))


def anchors(page: Path) -> set[str]:
    """The names by which headings of a page can be linked to."""
    heads = re.findall(r"^#+ (.+)$", TEXT[page], re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


# Generated pages.


def test_generated_pages_say_what_the_code_says():
    assert not generate.stale(), "run make docs"


def test_a_stale_page_is_named_and_can_be_written_again(tmp_path, capsys):
    for name in generate.PAGES:
        (tmp_path / name).write_text((ROOT / "docs" / name).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "policy.md").write_text("old")

    assert generate.main(["--check"], tmp_path) == 1
    assert "policy.md" in capsys.readouterr().err
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0


def test_an_architecture_page_without_its_marks_is_an_error_that_names_them():
    with pytest.raises(ValueError, match="outcomes"):
        generate.with_outcomes("# Architecture\n")


# Commands.


@pytest.mark.parametrize(("page", "words"), typed(), ids=lambda value: value if isinstance(value, str) else value[0])
def test_what_the_documents_tell_to_type_is_accepted(page, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seeds.txt").write_text("https://www.example.org/\n")
    program, rest = words[0].removeprefix(".venv/bin/"), words[1:]
    if program == "crawl":
        parse(rest)
    elif program == "make":
        assert set(rest) <= set(targets())
    else:
        assert program == "dagster", f"{page}: nobody checks {words}"


def parse(arguments: list[str]) -> None:
    """Parse a command line of crawl as click does, and run nothing."""
    with crawl.make_context("crawl", list(arguments)) as context:
        name, command, rest = crawl.resolve_command(context, [*context._protected_args, *context.args])
        assert command is not None
        with command.make_context(name, rest, parent=context):
            pass


@pytest.mark.parametrize("name", sorted(crawl.commands))
def test_every_command_is_shown_in_use_by_a_page_written_by_hand(name):
    assert re.search(rf"crawl (--lake \S+ )?{name}\b", WRITTEN) or f"make {name}" in WRITTEN


def test_every_option_of_every_command_is_documented():
    options = {
        option
        for command in (crawl, *crawl.commands.values())
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
    }
    assert not [option for option in options if option not in ALL]


def test_every_command_and_option_has_a_help():
    assert not [name for name, command in crawl.commands.items() if not command.help]
    assert not [p.name for c in crawl.commands.values() for p in c.params if isinstance(p, click.Option) and not p.help]


def targets() -> list[str]:
    """What can be made."""
    return re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE)


def test_every_make_target_is_documented_and_every_documented_target_exists():
    named = set(re.findall(r"(?:`|\$ )make ([a-z]+)", WRITTEN))
    assert named == set(targets())


def test_modules_to_be_run_exist():
    modules = set(re.findall(r"python -m ([a-z_.]+[a-z_])", ALL)) - {"bench.$$bench"}
    assert not [name for name in modules if importlib.util.find_spec(name) is None]


def test_every_figure_names_a_bench_that_make_bench_runs():
    measured = TEXT[ROOT / "README.md"].partition("## Measured")[2].partition("\n## ")[0]
    rows = [row for row in measured.splitlines() if row.startswith("| ")][2:]
    benches = re.search(r"^BENCHES := (.+)$", MAKEFILE, re.MULTILINE)
    assert benches is not None
    named = [re.findall(r"`python -m bench\.(\w+)`", row) for row in rows]
    assert rows
    assert all(len(names) == 1 for names in named)
    assert {name for names in named for name in names} <= set(benches[1].split())


def test_every_environment_variable_of_the_code_is_documented():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "crawl_pipeline").rglob("*.py"))
    variables = set(re.findall(r"(?:environ\.get\(|envvar=)\"([A-Z_]+)\"", sources)) - OTHERS
    operations = TEXT[ROOT / "docs" / "operations.md"]
    assert variables
    assert not [name for name in variables if f"`{name}`" not in operations]


# Names.


@per_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", TEXT[page]):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@per_page
def test_paths_in_code_exist(page):
    inside = [span for span in code(TEXT[page]) if span.startswith(FOLDERS) and " " not in span]
    for span in inside:
        if span.startswith("lake/") and not span.endswith(".py"):
            continue  # a folder of a lake
        bases = (ROOT, ROOT / "crawl_pipeline", page.parent)
        assert any(list(base.glob(span.rstrip("/"))) for base in bases), span


@per_page
def test_tests_and_reports_that_are_named_exist(page):
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"def (test_\w+)\(", sources)) | {path.stem for path in (ROOT / "tests").rglob("*.py")}
    assert not [name for name in re.findall(r"\b(test_\w+)", TEXT[page]) if name not in defined]
    named = {f"{report.name}.sql" for report in (*reports.tests(), *reports.models())} | {"bench.sql"}  # a module
    assert not [name for name in re.findall(r"\b(\w+\.sql)\b", TEXT[page]) if name not in named]


def test_every_table_test_and_model_is_named_by_a_page_written_by_hand():
    named = [f"{report.name}.sql" for report in (*reports.tests(), *reports.models())]
    assert not [name for name in (*tables.TABLES, *named) if f"`{name}`" not in WRITTEN]


def test_every_promise_in_the_readme_names_a_test():
    promises = TEXT[ROOT / "README.md"].partition("| promise |")[2].partition("\n\n")[0].splitlines()[2:]
    assert promises
    assert all(re.search(r"test_\w+|\w+\.sql", row) for row in promises)


def test_the_readme_tells_where_to_read_next_of_every_page():
    where = TEXT[ROOT / "README.md"].split("## Where to read next")[1]

    assert {page.name for page in (ROOT / "docs").glob("*.md")} == set(re.findall(r"\(docs/(\w+\.md)\)", where))


def test_every_dagster_name_in_the_architecture_exists():
    named = {"crawl_round", "crawl_round_job", "reports_job", "buckets_with_work", "every_quarter_hour"}
    folders = ("assets", "jobs", "sensors")
    sources = [*(path for name in folders for path in (ROOT / "crawl_pipeline" / name).glob("*.py"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*sources, ROOT / "crawl_pipeline/definitions.py"])
    assert all(f"`{name}`" in WRITTEN and name in text for name in named)


# Words.


WORDS = TEXT[ROOT / "docs" / "words.md"]
RULES = policy.load('[agent]\nname = "ExampleBot"\ncontact = "https://example.org/"\n')


def test_every_status_of_a_url_is_explained():
    assert not [status for status in STATUSES if f"| `{status}` |" not in WORDS]


def test_every_kind_of_link_and_of_table_is_explained():
    assert not [kind for kind in admission.KIND_ORDER if f"`{kind}`" not in WORDS]
    assert not [table.kind for table in tables.TABLES.values() if f"| {table.kind} |" not in WORDS]


def test_every_refusal_is_explained():
    budgets = [f"over budget.urls_per_{unit}" for unit in ("host", "site")]
    reasons = [reason for reason, _ in admission.rules(RULES)] + budgets + ["seen", "again in this batch"]
    assert not [reason for reason in reasons if f"`{reason}`" not in WORDS]


def test_every_reason_to_be_left_out_is_explained():
    source = (ROOT / "crawl_pipeline/core/selection.py").read_text(encoding="utf-8")
    reasons = set(re.findall(r'"((?:host|robots\.txt|round)(?:\'s)? [a-z ]+)"', source))
    assert len(reasons) >= 5
    assert not [reason for reason in reasons if f"`{reason}`" not in WORDS]


def test_every_family_of_column_names_is_explained():
    endings = Counter(name.rpartition("_")[2] for name in tables.COLUMNS if "_" in name)
    families = [f"_{ending}" for ending, members in endings.items() if members > 1]
    assert len(families) > 5
    assert not [family for family in families if f"`{family}`" not in WORDS]


# Code.


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Lake:
    """A lake without rows, with the tables of the shipped modules."""
    made = Lake.create(str(tmp_path_factory.mktemp("docs") / "lake"), 2)
    made.declare({of.DECLARATION.table: of.DECLARATION.as_table for of in (png_archive, copyright_monitor)})
    return made


def queries() -> list[str]:
    """Every query that a page shows, as a block or in a command."""
    return [sql for _, sql in blocks("sql", BY_HAND)] + [words[-1] for _, words in typed() if "sql" in words]


@pytest.mark.parametrize("sql", queries(), ids=lambda sql: " ".join(sql.split())[:60])
def test_queries_run_on_a_lake(lake, sql):
    with reports.connect(lake) as connection:
        assert corpus.read(connection, sql).columns


@pytest.mark.parametrize(("page", "source"), blocks("toml"))
def test_policy_blocks_are_accepted(page, source):
    policy.load(f'[agent]\nname = "ExampleBot"\ncontact = "https://example.org/"\n{source}')


def test_numbers_that_the_politeness_page_gives_are_the_defaults():
    page, rules = TEXT[ROOT / "docs" / "politeness.md"], RULES.politeness
    assert f"| delay | {rules.delay_s:g} s" in page
    assert f"factor {rules.download_factor:g}:" in page
    assert f"| {rules.download_gap_cap_s:g} s |" in page
    assert f"| {rules.crawl_delay_cap_s / 86_400:g} d |" in page
    assert f"| {rules.retry_after_cap_s / 86_400:g} d |" in page
    assert f"| back-off | {rules.backoff_first_s:g} s" in page
    assert f"| {rules.backoff_cap_s / 3600:g} h |" in page
    assert f"{RULES.budget.fetches_per_host_day:,} pages" in page


def test_the_user_agent_that_the_politeness_page_shows_is_how_it_is_built():
    shown = RULES.agent.model_copy(update={"name": "ExampleCrawler", "contact": "https://www.example.org/crawler"})
    assert f"User-Agent: {shown.header}" in TEXT[ROOT / "docs" / "politeness.md"]
