"""What a person sees: a line per round while a crawl runs, and its funnel at the end."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from crawl_pipeline.auditing import Audit
from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.printable import printable
from crawl_pipeline.erasing import Erased, Proof
from crawl_pipeline.freshness import Freshness
from crawl_pipeline.maintenance import Maintained
from crawl_pipeline.order_log import Entry
from crawl_pipeline.rounds import Done
from crawl_pipeline.whatif import BOTH, Compared

WELL = {"fetched", "not_modified", "redirected"}


MOST_NAMED = 3
"""Outcomes that a round's line names."""

MEANINGS = {
    "again in this batch": "links to a URL that another link of the batch leads to",
    "seen": "links to URLs known already",
    "file type": "endings of budget.skip_extensions",
    "no host name": "a name that cannot be looked up: a part of it is empty, or over 63 letters",
    "outside scope.follow": "not of a seed's site, or host",
    "nofollow": "the link or its page asks not to follow",
}
"""What a refusal means where its name alone does not say it; the others name the policy's key."""


class RoundLines:
    """Prints one line per round, with sums since it was made."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._pages = 0

    def __call__(self, done: Done) -> None:
        """Print the line of a round that was just committed."""
        rows = done.rows
        outcomes = tally(rows, "outcomes")
        self._pages += int(rows["page_count"].sum())
        seconds = max(*rows["fetch_s"], 1.0)
        most = sorted(outcomes.items(), key=lambda outcome: -outcome[1])
        rest = sum(count for _, count in most[MOST_NAMED:])
        mix = ", ".join(f"{count} {_coloured(name)}" for name, count in most[:MOST_NAMED])
        mix += f", {rest} others" if rest else ""
        self._console.print(
            f"[dim]round[/] {done.round:<5d} [dim]selected[/] {rows['selected_count'].sum():<5d}"
            f"[dim]known[/] {rows['known_count'].sum():<6d} [dim]pages[/] {self._pages:<6d}"
            f"[dim]{rows['page_count'].sum() / seconds:5.1f}/s[/]  {mix or '[dim]nothing to ask[/]'}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip


def tally(rows: pl.DataFrame, column: str) -> dict[str, int]:
    """Sum a column of tallies over rows of `rounds`."""
    items = rows.select(pl.col(column).explode()).unnest(column).drop_nulls()
    return dict(items.group_by("name").agg(pl.col("count").sum()).iter_rows())


def funnel(console: Console, figures: dict[str, Any]) -> None:
    """Print where all links and selected URLs went, and how the promise to hosts was kept."""
    rounds, politeness, outcomes = figures["rounds"], figures["politeness"], figures["outcomes"]
    total, selected = sum(outcomes.values()), rounds["selected"] or 0
    table = _table("What became of the URLs that were selected")
    for name, count in outcomes.items():
        table.add_row(_coloured(name), f"{count:,}", OUTCOMES[name].says)
    same = "=" if total == selected else "≠"
    table.add_row("[b]sum of outcomes[/]", f"[b]{total:,}[/]", f"{same} {selected:,} selected")
    console.print(table)
    refused = _table("What became of the links that were read")
    refused.add_row("admitted", f"{rounds['admitted'] or 0:,}", "became known URLs")
    for name, count in figures["refused"].items():
        refused.add_row(name, f"{count:,}", MEANINGS.get(name, "beyond this limit of the policy"))
    console.print(refused)
    waiting = figures["statuses"].get("waiting", 0)
    if waiting:
        console.print(f"[b]Waiting[/]: {waiting:,} URLs{_dues(figures['frontier'])}; `crawl explain URL` says why")
    if politeness["pairs"]:
        console.print(
            f"[b]Politeness[/]: {politeness['pairs']:,} waits between requests to a host, "
            f"{politeness['too_soon']} too short; wait ÷ promise: least {politeness['least']:.3f}, "
            f"median {politeness['usual']:.3f}"
        )


def _dues(frontier: Mapping[str, Any]) -> str:
    """What is due already, though something holds it back, and when the next falls due."""
    now, later = frontier["due_now"], frontier["next_due_at"]
    return (f"; {now:,} known URLs are due" if now else "") + (
        f"; the next falls due at {in_words(later)}" if later else ""
    )


def standing(console: Console, figures: dict[str, Any]) -> None:
    """Print how a crawl stands."""
    rounds, frontier, hosts = figures["rounds"], figures["frontier"], figures["hosts"]
    table = _table(f"{figures['lake']}: {figures['buckets']} buckets")
    seconds = (rounds["last_at"] - rounds["first_at"]).total_seconds() if rounds["rounds"] else 0
    pace = f", {rounds['pages'] / seconds:.1f}/s from the first round to the last" if seconds else ""
    due = f"{frontier['due_now']:,}, longest overdue {frontier['longest_overdue_s']:,} s"
    if frontier["due_not_yet"]:
        due += f"; {frontier['due_not_yet']:,} of them at hosts that rest or are paused"
    last = f"{rounds['rounds']:,}, the last at {in_words(rounds['last_at'])}"
    then = f"; next {in_words(frontier['next_due_at'])}" if frontier["next_due_at"] else ", now or later"
    rows = {
        "rounds": last if rounds["rounds"] else "none yet",
        "pages": f"{rounds['pages'] or 0:,}{pace}",
        "requests": ", ".join(f"{count:,} {cause}" for cause, count in figures["causes"].items()) or "0",
        "known URLs": f"{frontier['known']:,}: "
                      + (", ".join(f"{count:,} {name}" for name, count in figures["statuses"].items()) or "none"),
        "due": due if frontier["due_now"] else f"nothing{then}",
        "not asked for": "; ".join(f"{one['urls']:,} {one['reason']}" for one in figures["stalls"]) or "nothing",
        "hosts": f"{hosts['hosts']:,}, {hosts['asked']:,} asked, {hosts['backing_off']:,} backing off, "
                 f"{hosts['paused']:,} paused",
        "leases": ", ".join(f"b{row['bucket']:03d} by {row['worker']}" for row in figures["leases"]) or "all free",
    }  # fmt: skip
    for name, text in rows.items():
        table.add_row(name, "", text)
    console.print(table)


EXAMPLES, HOSTS = 3, 10
"""How many rows of a broken promise, and how many hosts, an audit shows."""


def orders(console: Console, found: Sequence[Entry]) -> None:
    """Print orders, newest first: who gave each, when, about what, and who has still to obey."""
    table = _headed("", "order", "given at", "by", "what", "obeyed", right=())
    for entry in found:
        more = f" and {entry.count - len(entry.names):,} more" if entry.count > len(entry.names) else ""
        names = ", ".join(entry.names[:NAMED]) + (
            f", {len(entry.names) - NAMED} more" if len(entry.names) > NAMED else ""
        )
        what = f"{', '.join(entry.kinds)} {names}{more}"
        waiting = entry.waits_for or ()
        waits = ", ".join(f"b{bucket:03d}" for bucket in waiting[:NAMED])
        waits += f" and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
        obeyed = f"[yellow]not yet by {waits}[/]" if waits else "[green]yes[/]"
        obeyed += f", erased {in_words(entry.erased_at)}" if entry.erased_at else ""
        said = map(escape, map(printable, (in_words(entry.ordered_at), entry.ordered_by, what)))
        table.add_row(str(entry.order), *said, obeyed)
    console.print(table if found else "nothing was ordered yet that fits")


NAMED = 3
"""Names, and buckets, that a line about an order shows."""


def audited(console: Console, found: Audit) -> None:
    """Print each promise with what was judged, examples of what breaks it, and how long hosts rested."""
    table = _headed(f"{found.requests:,} requests", "", "promise", right=("judged", "broken"))
    for finding in found.findings:
        broken = f"[red]{finding.violations:,}[/]" if finding.violations else "[green]0[/]"
        table.add_row(finding.promise.id, finding.promise.says, f"{finding.judged:,}", broken)
    console.print(table)
    for result in (result for finding in found.findings for result in finding.results if not result.holds):
        console.print(f"\n[red]{result.offending.height:,} rows break[/]: {result.sentence}")
        for row in result.offending.head(EXAMPLES).iter_rows(named=True):
            console.print(f"  {escape(in_words(row))}")
    if found.unjudged:
        console.print(f"[yellow]{found.unjudged:,} requests were made under a policy whose text is not kept[/]")
    console.print("\n[b]Rest ÷ what was owed[/]: 1 is exact, less is a broken promise")
    if found.margins.is_empty():
        console.print("no host has been asked twice yet")
        return
    table = _headed("", "host", right=("rests", "least", "p05", "median", "median s owed"))
    for host, rests, *margins, owed in found.margins.head(1 + HOSTS).iter_rows():
        table.add_row(escape(in_words(host)), f"{rests:,}", *(f"{margin:.5f}" for margin in margins), in_words(owed))
    console.print(table)
    if found.margins.height > 1 + HOSTS:
        console.print(
            f"[dim]{HOSTS} of {found.margins.height - 1:,} hosts, those that rested least beyond what was owed[/]"
        )


def maintained(console: Console, done: Maintained) -> None:
    """Print each table before and after, and what was passed over."""
    title = f"{len(done.buckets)} buckets" + (", nothing to do" if done.idle else "")
    table = _headed(title, "", right=("live files", "live kB", "swept", "folded", "deleted"))
    for kept in done.tables:
        table.add_row(
            kept.table, _change(kept.before.files, kept.after.files),
            _change(*(-(-of.bytes // 1000) for of in (kept.before, kept.after))),
            f"{kept.swept:,}", f"{kept.folded:,}", f"{kept.deleted:,}",
        )  # fmt: skip
    console.print(table)
    console.print("[dim]swept: rows that nobody sees; folded: buckets; deleted: old files[/]")
    if done.orphans or done.linked_again:
        console.print(f"{done.orphans:,} pages became orphans, {done.linked_again:,} are linked to again")
    if done.doubles:
        console.print(f"{done.doubles:,} contents that workers had stored at the same time were dropped")
    if done.erased.orders:
        erased(console, done.erased)
    for name, one in done.retained.tables.items():
        console.print(f"kept long enough: {one.gone:,} rows of {name} deleted" + (
            f", {one.changed:,} pages lost their body" if one.changed else ""))  # fmt: skip
    if done.waits_for:
        console.print(escape(f"nothing was erased, nor deleted by its age: {done.waits_for}"))
    for bucket in done.passed_over:
        console.print(
            f"passed over b{bucket.bucket:03d}: {bucket.worker} has it until {in_words(bucket.deadline_at)}, "
            "or until a worker takes it over"
        )


def erased(console: Console, done: Erased) -> None:
    """Print what an erasure did, and whether it is proved."""
    if not done.tables:
        console.print("nothing to erase: no order to forget is open")
        return
    figures = done.figures()
    console.print(
        f"erasure {done.number}, for the orders {', '.join(map(str, done.orders)) or 'of before'}: "
        f"{figures['rows']:,} rows deleted, {figures['rows_changed']:,} of others changed, {figures['files']:,} files "
        f"({figures['bytes'] / 1e6:,.1f} MB) deleted"
    )
    if done.proof is not None:
        proved(console, done.proof)


def proved(console: Console, proof: Proof) -> None:
    """Print what a search of all bytes found."""
    searched = f"{proof.files:,} files, {proof.bytes / 1e6:,.1f} MB"
    if proof.holds:
        console.print(f"[green]proved[/]: {searched} searched, nothing forgotten is in them")
    else:
        console.print(f"[red]not proved[/]: {searched} searched; something forgotten is in")
        for place in proof.found[:20]:
            console.print(escape(f"  {place}"))
    for advice in proof.advice:
        console.print(escape(advice))
    if proof.mentions:
        console.print(f"{proof.mentions:,} bodies, texts and titles of other pages name it: they are left as they are")


def duplicates(console: Console, figures: dict[str, int | float], largest: pl.DataFrame) -> None:
    """Print how many pages are copies of others, and the largest clusters."""
    bare = f"; of {figures['without_text']:,} more no text is kept (noindex)" if figures["without_text"] else ""
    if largest.is_empty():
        console.print(f"[b]none of {figures['pages']:,} pages is a copy of another{bare}[/]")
        return
    told = (f"{figures['copies']:,} of {figures['pages']:,} pages are copies of "
            f"{figures['clusters_of_several']:,} others{bare}")  # fmt: skip
    table = Table(box=None, padding=(0, 2), title=told, title_style="bold", title_justify="left")
    for name in ("canonical page", "pages", "hosts", "least similarity"):
        table.add_column(name, justify="left" if name == "canonical page" else "right")
    for canonical, pages, hosts, similarity in largest.iter_rows():
        table.add_row(escape(canonical), f"{pages:,}", f"{hosts:,}", f"{similarity:.2f}")
    console.print(table)


def ranks(console: Console, pages: pl.DataFrame, hosts: pl.DataFrame) -> None:
    """Print the pages of the highest rank, and the hosts that most other sites link to."""
    table = Table(box=None, padding=(0, 2), title="rank 1: no link counts for it", title_justify="left")
    for name in ("rank", "page", "status"):
        table.add_column(name, justify="right" if name == "rank" else "left")
    for url, status, rank in pages.iter_rows():
        table.add_row(f"{rank:,.1f}", escape(printable(url)), status)
    console.print(table)
    table = Table(box=None, padding=(0, 2))
    for name in ("host", "linking sites", "linking hosts", "known URLs", "sum of ranks"):
        table.add_column(name, justify="left" if name == "host" else "right")
    for host, sites, of_hosts, known, total in hosts.iter_rows():
        table.add_row(escape(printable(host)), f"{sites:,}", f"{of_hosts:,}", f"{known:,}", f"{total:,.1f}")
    console.print(table)


def fresh(console: Console, found: Freshness) -> None:
    """Print expected freshness beside the bound, what hosts' politeness costs, and the calibration."""
    if found.expected is None or found.best is None:
        console.print("no page has been fetched yet")
        return
    console.print(f"{found.pages:,} pages are expected to be {found.expected:.1%} fresh now, importance considered")
    console.print(f"their dates come to {found.planned:.1%} in the long run; the best plan for "
                  f"{found.visits_per_day:,.0f} visits a day would reach {found.best:.1%}: this is {found.share:.1%} "
                  f"of it; one more visit buys {found.price:.3g} weighted days")  # fmt: skip
    for title, rows in (("hosts whose politeness costs most", found.hosts.head(10)),
                        ("changes expected and found, by tenths", found.calibration)):  # fmt: skip
        table = Table(*rows.columns, box=None, padding=(0, 2), title=title, title_style="bold", title_justify="left")
        for row in rows.iter_rows():
            table.add_row(*(f"{value:,.3g}" if isinstance(value, float) else escape(f"{value}") for value in row))
        console.print(table)
    if found.brier is not None:
        console.print(f"Brier score {found.brier:.3f}: 0 is certain and right, 0.25 as good as a coin")


def compared(console: Console, found: Sequence[Compared]) -> None:
    """Print what two policies would select, per bucket, and what told them apart, with examples."""
    for one in found:
        name = f"round {one.then.round}" if one.then.round else "the next round"
        table = _table(f"{name}, planned {in_words(one.then.now)}: old {one.old_policy}, new {one.new_policy}")
        for bucket, selected, count in one.counts().iter_rows():
            table.add_row(f"b{bucket:03d} selected {selected}", f"{count:,}", "")
        console.print(table)
        if not one.urls.height:
            console.print("nothing is selected by either")
        elif set(one.urls["selected"]) == {BOTH}:
            console.print("both select the same URLs")
        for by in ("reason", "host"):
            for selected, value, count, examples in one.sums(by).head(SHOWN).iter_rows():
                text = f"{count:,} {selected}, {by} {value}: {', '.join(examples)}"
                console.print(escape(printable(text)))


def _headed(title: str, *left: str, right: Sequence[str]) -> Table:
    """An empty table with a head, whose numbers are not broken however narrow the screen is."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title=title, title_justify="left", title_style="bold")
    for name in left:
        table.add_column(name)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def explained(console: Console, url: str, because: str, facts: Mapping[str, Any]) -> None:
    """Print why a URL stands as it does, and each fact below, long ones in lines of the screen's width."""
    console.print(f"[b]{escape(url)}[/]\n{escape(printable(because))}")
    for name, fact in facts.items():
        for row in fact if isinstance(fact, list) else [fact]:
            text = in_words(_telling(row) if name == "host" else row)
            if len(name) + 2 + len(text) > console.width:
                text = "".join(
                    f"\n{HANGING}{line}" for line in _filled(PARTS.split(text), console.width - len(HANGING))
                )
            else:
                text = f"  {text}"
            console.print(f"[dim]{name}[/]{escape(text)}")


def _telling(row: object) -> object:
    """Of a host's many counters those that are not nought; `--json` has all."""
    return {key: part for key, part in row.items() if part not in (0, False)} if isinstance(row, dict) else row


def _filled(parts: Sequence[str], width: int) -> list[str]:
    """Parts in lines of this width, never broken; a part that is longer has its own line."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines


PARTS = re.compile(r"(?<=[,;]) ")
"""Where a fact that is longer than a line may be broken."""

HANGING = "    "
"""What stands before the lines of a fact that is longer than one."""


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"


def _part(value: object) -> str:
    """A part of a fact; of hashes only how many there are, since nobody reads them."""
    match value:
        case [int(), *_]:
            return str(len(value))
        case _:
            return in_words(value)


def in_words(value: object) -> str:
    """A fact in one line: absent parts left out, times to the second, of bytes how many."""
    match value:
        case dict() if value:
            text = ", ".join(f"{key} {_part(part)}" for key, part in value.items() if part is not None)
        case list() if value:
            text = "; ".join(map(in_words, value))
        case None | dict() | list():
            text = "-"
        case datetime():
            text = f"{value:%F %T} UTC"
        case float():
            text = f"{value:.6g}"
        case bytes():
            text = f"{len(value)} bytes"
        case _:
            text = printable(str(value))
    return text


SHOWN = 200
"""Rows that a person is shown at the most."""


def rows(console: Console, found: pl.DataFrame) -> None:
    """Print rows as a table, or one below the other where their columns do not fit the width."""
    cells = [[in_words(value) for value in row] for row in flat(found.head(SHOWN)).iter_rows()]
    if _needed(found.columns, cells, len) <= console.width or (
        found.width <= MOST_FOLDED and _needed(found.columns, cells, _longest_word) <= console.width
    ):
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for name, dtype in found.schema.items():
            table.add_column(escape(name), justify="right" if dtype.is_numeric() else "left", overflow="fold")
        for row in cells:
            table.add_row(*map(escape, row))
        console.print(table, soft_wrap=False)
    else:
        for row in cells:
            console.print(
                "\n".join(
                    f"[b]{escape(name)}[/]  {escape(cell)}" for name, cell in zip(found.columns, row, strict=True)
                )
            )
            console.print()
    more = f", {SHOWN} shown" if found.height > SHOWN else ""
    console.print(f"[dim]{found.height:,} {'row' if found.height == 1 else 'rows'}{more}[/]")


MOST_FOLDED = 5
"""Columns that are folded within a table, between words, rather than shown one below the other."""


def _needed(names: Sequence[str], cells: Sequence[Sequence[str]], width: Callable[[str], int]) -> int:
    """How wide a table is whose cells need so much each."""
    return sum(2 + max(map(width, column)) for column in zip(names, *cells, strict=True)) if names else 0


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def flat(found: pl.DataFrame) -> pl.DataFrame:
    """Columns that have no short text form, given one: blobs by their size, nested values as JSON."""
    binary = [name for name, dtype in found.schema.items() if dtype == pl.Binary]
    nested = [name for name, dtype in found.schema.items() if dtype.is_nested()]
    return found.with_columns(
        *(pl.concat_str(pl.col(name).bin.size(), pl.lit(" bytes")).alias(name) for name in binary),
        *(pl.Series(name, [json.dumps(row, default=str) for row in found[name].to_list()]) for name in nested),
    )


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False, box=None, padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column(style="dim")
    return table


def _coloured(name: str) -> str:
    colour = "green" if name in WELL else "yellow" if OUTCOMES[name].status in ("waiting", "refused") else "red"
    return f"[{colour}]{name.replace('_', ' ')}[/]"
