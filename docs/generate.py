"""Write the pages of docs/ that are made from code: tables, policy, commands, api, scale, outcomes of architecture.

    python -m docs.generate            write them
    python -m docs.generate --check    say which are stale; exit 1 if one is

A fact has one home, in code; these pages only show it. Everything else in docs/ is written by hand and never touched
here. Invariant: what is written depends on the code alone, so that `--check` means what it says.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import click
import polars as pl
from pydantic_core import PydanticUndefined

from crawl_pipeline import reports
from crawl_pipeline.cli import main as crawl
from crawl_pipeline.core import policy as policies
from crawl_pipeline.core.outcome import ORDERED, OUTCOMES, Consequence
from crawl_pipeline.core.settings import SETTABLE
from crawl_pipeline.core.tables import TABLES, Table
from crawl_pipeline.modules import Declaration, copyright_monitor, png_archive
from crawl_pipeline.views import VIEWS, View
from docs import api_pages, scale
from docs.robots_matrix import MATRIX

ROOT = Path(__file__).parent
MADE = "<!-- Made by `python -m docs.generate`; edit the code, not this page. -->"
MATRIX_BEGIN, MATRIX_END = "<!-- RFC 9309: made by docs/generate.py -->", "<!-- end of RFC 9309 -->"
BEGIN, END = "<!-- outcomes: made by docs/generate.py -->", "<!-- end of outcomes -->"


def tables() -> str:
    """Every table with its columns."""
    head = f"""# Tables

{MADE}

A lake is a folder (or a prefix in an object store) with one Delta table per name below. `crawl sql` and
`crawl_pipeline.corpus` show each as a view that holds what exists: rows of committed rounds and, of state tables, the
newest row per key. Readers that open the Delta tables themselves also see rows of rounds that never committed.

A column means the same wherever it stands. Times are UTC with microseconds; 64-bit hashes are signed, as Delta has no
unsigned types. The same facts are declared in [core/tables.py](../crawl_pipeline/core/tables.py).
"""
    summary = _markdown(
        ("table", "kind", "one row is", "partitioned by"),
        ((f"[{t.name}](#{t.name})", t.kind, t.one_row_is, _names(t.partitioned_by)) for t in TABLES.values()),
    )
    shipped = [_of_module(of.DECLARATION) for of in (png_archive, copyright_monitor)]
    told = [*(_table(table) for table in TABLES.values()), *map(_view, VIEWS), *map(_model, reports.models())]
    return "\n".join([head, summary, *told, *shipped])


def _of_module(declaration: Declaration) -> str:
    """The table of a shipped module."""
    told = "Written by a [module](modules.md): a lake has it once a worker has used that."
    head, _, rest = _table(declaration.as_table).partition("One row is")
    return f"{head}{told} One row is{rest}"


def _view(view: View) -> str:
    facts = (
        f"Not a table but a view over them, in `crawl sql` and `crawl_pipeline.corpus`. One row is {view.one_row_is}."
    )
    columns = ((f"`{name}`", meaning) for name, meaning in view.columns.items())
    return f"## {view.name}\n\n{facts}\n\n" + _markdown(("column", "meaning"), columns)


def _model(model: reports.Report) -> str:
    facts = f"{model.sentence} A [model](../dbt_like_reports/README.md): a view in `crawl sql`, an asset in Dagster."
    columns = ((f"`{name}`", meaning) for name, meaning in model.columns.items())
    return f"## reports.{model.name}\n\n{facts}\n\n" + _markdown(("column", "meaning"), columns)


def _table(table: Table) -> str:
    rows = ((f"`{c.name}`", _type(c.dtype), c.unit, c.meaning) for c in table.columns)
    facts = f"One row is {table.one_row_is}. Kind: {table.kind}. Identified by {_names(table.key)}."
    return f"## {table.name}\n\n{facts}\n\n" + _markdown(("column", "type", "unit", "meaning"), rows)


def _type(dtype: pl.DataType) -> str:
    """A Polars type in a reader's words."""
    if isinstance(dtype, pl.List):
        return f"list of {_type(_instance(dtype.inner))}"
    if isinstance(dtype, pl.Struct):
        return "(" + ", ".join(f"{f.name} {_type(_instance(f.dtype))}" for f in dtype.fields) + ")"
    return "timestamp" if isinstance(dtype, pl.Datetime) else str(dtype).lower()


def _instance(dtype: object) -> pl.DataType:
    return dtype() if isinstance(dtype, type) and issubclass(dtype, pl.DataType) else dtype  # type: ignore[return-value]


def policy() -> str:
    """Every key of the policy with its default and meaning."""
    head = f"""# Policy

{MADE}

A policy is one TOML file; `crawl init` writes it with every key below, its default and its meaning. Unknown keys and
values without sense are refused. `agent.name` and `agent.contact` have no default: a crawl that will not say who it is
does not start. A change of the file counts from the next run on. Single keys can be set while workers run, with
`crawl set` and `crawl unset` (see [operations.md](operations.md#orders)): those of {{sections}}, and what
is different for one host. The policy in force is the file's with those laid over it; `crawl policy` shows it. Every
round and request keeps its digest (`policy_id`), and a worker keeps the whole text in `orders` before it asks by it, so
that a past round can be explained and tried under another policy.

What is different for one host stands in a section of its own:

```toml
[host."www.example.org"]
delay_s = 10.0
fetches_per_day = 500
```

Where a meaning begins with a unit, it is the key's unit. The same facts are declared in
[core/policy/](../crawl_pipeline/core/policy/).
"""
    named = ", ".join(f"`[{name}]`" for name in SETTABLE)
    return "\n".join(
        [head.replace("{sections}", named), *(_section(name, section) for name, section in policies.sections().items())]
    )


def _section(name: str, section: type[policies.Section]) -> str:
    title = '[host."NAME"]' if name == "host" else f"[{name}]"
    rows = ((f"`{k}`", _default(f.get_default()), f.description or "") for k, f in section.model_fields.items())
    return f"## {title}\n\n{section.__doc__}\n\n" + _markdown(("key", "default", "meaning"), rows)


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "none: must be given"
    return "the general value" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def commands() -> str:
    """Every command with its arguments and options."""
    head = f"""# Commands

{MADE}

`crawl` is installed in `.venv/bin`. Expected trouble is one message and exit code 1; wrong usage is exit code 2. With
`--json` a command prints one JSON value. Options of `crawl` itself stand before the command:
`crawl --lake LAKE status`.
"""
    parts = [_command("crawl", crawl)]
    parts += [_command(f"crawl {name}", command) for name, command in sorted(crawl.commands.items())]
    return "\n".join([head, *parts])


def _command(name: str, command: click.Command) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    usage = " ".join([name, *(p.make_metavar(click.Context(command)) for p in arguments)])
    options = [(f"`{', '.join([*p.opts, *p.secondary_opts])}`", p.help or "", _option_default(p))
               for p in command.params if isinstance(p, click.Option)]  # fmt: skip
    said = "\n\n".join(" ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n"))
    table = "\n\n" + _markdown(("option", "meaning", "default"), options) if options else "\n"
    return f"## {name}\n\n{said}\n\nUsage: `{usage}`{table}"


def _option_default(option: click.Option) -> str:
    shown = str(option.default) if option.show_default else ""
    variable = option.envvar if isinstance(option.envvar, str) else ""
    return " or ".join([part for part in (f"`${variable}`" if variable else "", f"`{shown}`" if shown else "") if part])


def outcomes() -> str:
    """The outcome table."""
    rows = ((f"`{name}`", meaning.says, meaning.status, _again(meaning), "yes" if meaning.host_trouble else "")
            for name, meaning in OUTCOMES.items())  # fmt: skip
    return _markdown(("outcome", "means", "status of the URL", "asked again", "slows the host"), rows)


def ordered() -> str:
    """What orders make of known URLs."""
    rows = ((f"`{name}`", meaning.says, meaning.status or "as it was", "at once" if meaning.due else "never")
            for name, meaning in ORDERED.items())  # fmt: skip
    return _markdown(("order", "means", "status of the URL", "asked again"), rows)


AGAIN = {
    "recrawl": "when its interval is over",
    "retry": "after a wait that doubles, until `retry.attempts`",
    "gone": "after `recrawl.gone_s` or `recrawl.never_s`",
    "robots": "when the robots.txt answer expires",
    "next round": "in a next round",
    "never": "never",
}


def _again(meaning: Consequence) -> str:
    return AGAIN[meaning.again]


def with_outcomes(page: str) -> str:
    """The page with the outcome table, and the one of orders, between its marks."""
    said = "What a person orders changes known URLs too. Failed fetches in a row are then counted anew."
    return with_block(page, BEGIN, END, f"{outcomes()}\n{said}\n\n{ordered()}")


def with_matrix(page: str) -> str:
    """The page with what RFC 9309 asks, and the test that proves each, between its marks."""
    rows = ((where, rule, f"`{test}`") for where, rule, test in MATRIX)
    return with_block(page, MATRIX_BEGIN, MATRIX_END, _markdown(("RFC 9309", "what we do", "test"), rows))


def with_block(page: str, begin: str, end: str, content: str) -> str:
    """The page with this content between two marks."""
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"expected the lines {begin!r} and {end!r} in the page, found {bool(found)}, {bool(closed)}")
    return f"{before}{begin}\n\n{content}\n{end}{after}"


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "-"


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        head,
        ["---"] * len(head),
        *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


PAGES: dict[str, Callable[[str], str]] = {
    "tables.md": lambda page: tables(),
    "policy.md": lambda page: policy(),
    "commands.md": lambda page: commands(),
    "api.md": lambda page: api_pages.page(MADE),
    "scale.md": lambda page: scale.page(),
    "architecture.md": with_outcomes,
    "politeness.md": with_matrix,
}


def stale(folder: Path = ROOT) -> dict[str, str]:
    """What should stand in each page that does not say what the code says."""
    found = {name: path.read_text(encoding="utf-8") if (path := folder / name).exists() else "" for name in PAGES}
    wanted = {name: make(found[name]) for name, make in PAGES.items()}
    return {name: text for name, text in wanted.items() if text != found[name]}


def main(arguments: Sequence[str] | None = None, folder: Path = ROOT) -> int:
    """Write the stale pages, or name them."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is stale")
    check = parser.parse_args(arguments).check
    pages = stale(folder)
    for name, text in pages.items():
        if check:
            print(f"docs/{name} does not say what the code says: run make docs", file=sys.stderr)
        else:
            (folder / name).write_text(text, encoding="utf-8")
            print(f"wrote docs/{name}")
    return 1 if check and pages else 0


if __name__ == "__main__":
    sys.exit(main())
