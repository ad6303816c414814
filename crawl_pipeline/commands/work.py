"""The commands that crawl: run, the demo, and Dagster's UI."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from crawl_pipeline.commands.common import as_json, command, is_a_time, out, policy_file, policy_of, print_json
from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.printable import printable
from crawl_pipeline.lake import Lake
from crawl_pipeline.rounds import Worked


@command()
@click.option("--minutes", callback=is_a_time, default=5.0, show_default=True,
              help="Time budget; ends sooner when nothing falls due.")  # fmt: skip
@click.option("--buckets", "chosen", help="Buckets to work on, such as 0-3,7 (default: all that are free).")
@policy_file
@as_json
def run(lake: str, minutes: float, chosen: str | None, policy_path: Path | None, *, as_json: bool) -> None:
    """Lease buckets and run crawl rounds. Ctrl-C ends in order: commits, and gives the lease back."""
    from crawl_pipeline import display, worker

    opened, policy = Lake.open(lake), policy_of(lake, policy_path)
    buckets = _numbers(chosen, opened.buckets) if chosen else None
    tell = (lambda done: None) if as_json else display.RoundLines(out)
    worked = worker.run(opened, policy, buckets=buckets, seconds=minutes * 60, tell=tell)
    if as_json:
        print_json({"worker": worked.worker, "buckets": worked.buckets, "rounds": len(worked.rounds),
                     "stopped": worked.stopped, "outcomes": display.tally(worked.rows, "outcomes"),
                     "refused": display.tally(worked.rows, "refused")})  # fmt: skip
    else:
        out.print(f"stopped: {worked.stopped}")
        for line in _told(opened, worked):
            out.print(printable(line), markup=False)


@command()
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), default=Path("demo-lake"),
              show_default=True, help="Where lake, policy and access log go; replaces an earlier demo.")  # fmt: skip
@click.option("--minutes", callback=is_a_time, default=3.0, show_default=True, help="Time budget of the crawl.")
def demo(lake: str, folder: Path, minutes: float) -> None:
    """Crawl a web of real pages on loopback through Dagster, and report."""
    from crawl_pipeline import demo as demo_web

    demo_web.run(folder, minutes, out)


@command()
@click.option("--port", default=3000, show_default=True, type=click.IntRange(1, 65535),
              help="Where Dagster's UI listens on this machine.")  # fmt: skip
def ui(lake: str, port: int) -> None:
    """Open Dagster's UI on the lake (for the demo's lake, with the demo's web beside it)."""
    from crawl_pipeline import demo as demo_web

    Lake.open(lake)
    policy_of(lake, None)
    sys.exit(demo_web.open_ui(lake, port, out))


def _told(lake: Lake, worked: Worked) -> Iterator[str]:
    """Why a run came to nothing, by one URL: who begins has forgotten a seed, or a key of the policy."""
    from crawl_pipeline import corpus, display

    if not worked.rounds:
        return
    outcomes = display.tally(worked.rows, "outcomes").keys() - {"carried"}
    if outcomes and not outcomes & display.WELL:
        asked = ", ".join(f"'{outcome}'" for outcome in outcomes)
        sql = f"select url, outcome, reason from frontier where outcome in ({asked}) order by round desc, url limit 1"
        for url, outcome, reason in corpus.query(lake, sql).iter_rows():
            yield f"nothing was fetched; of {url}: {OUTCOMES[outcome].says}" + (f" ({reason})" if reason else "")
    elif not outcomes and not worked.rounds[-1].rows["known_count"].sum():
        yield "no URL is known in these buckets yet: crawl seed URL"


def _numbers(text: str, buckets: int) -> list[int]:
    """Read bucket numbers such as 0-3,7."""
    try:
        spans = [part.partition("-") for part in text.split(",")]
        chosen = {n for low, dash, high in spans for n in range(int(low), int(high if dash else low) + 1)}
    except ValueError:
        chosen = set()
    if not chosen or not chosen <= set(range(buckets)):
        raise click.BadParameter(f"expected buckets such as 0-3,7 within 0-{buckets - 1}, found {text!r}")
    return sorted(chosen)
