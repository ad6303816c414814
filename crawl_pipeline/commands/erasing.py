"""The command that carries out orders to forget: erase."""

import sys
from pathlib import Path

import click

from crawl_pipeline.commands.common import as_json, command, out, policy_file, policy_of, print_json
from crawl_pipeline.commands.progress import progress
from crawl_pipeline.lake import Lake


@command()
@click.option("--prove", is_flag=True, help="Only search all bytes for what is forgotten; change nothing.")
@click.option("--again", is_flag=True, help="Carry out orders too that were carried out before.")
@click.option("--wait", "wait_s", default=900.0, show_default=True,
              help="Seconds to wait for workers to give back their buckets.")  # fmt: skip
@policy_file
@as_json
def erase(
    lake: str, wait_s: float, policy_path: Path | None, *, prove: bool, again: bool, as_json: bool
) -> None:  # fmt: skip
    """Erase what was ordered to be forgotten from every file, and prove it. Takes every bucket; can be repeated.

    Exits with 1 if something forgotten is left.
    """
    from crawl_pipeline import display, erasing

    opened = Lake.open(lake)
    if prove:
        with progress("searching", quiet=as_json) as step:
            proof = erasing.proved(opened, tell=step)
        print_json(
            {"files": proof.files, "bytes": proof.bytes, "found": proof.found, "mentions": proof.mentions}
        ) if as_json else display.proved(out, proof)
        sys.exit(0 if proof.holds else 1)
    with progress("erasing", quiet=as_json) as step:
        done = erasing.erase(opened, policy_of(lake, policy_path), again=again, wait_s=wait_s, tell=step)
    print_json(done.figures()) if as_json else display.erased(out, done)
    sys.exit(0 if done.proof is None or done.proof.holds else 1)
