"""The Dagster instance of a folder: its runs, events and schedules, set up as deploy/dagster.yaml says."""

from pathlib import Path

import dagster as dg

SHIPPED = Path(__file__).with_name("dagster.yaml")


def instance_at(home: Path) -> dg.DagsterInstance:
    """Open the instance; give the folder our dagster.yaml if it has none. With DAGSTER_HOME the UI shows the same."""
    home.mkdir(parents=True, exist_ok=True)
    own = home / "dagster.yaml"
    if not own.exists():
        own.write_text(SHIPPED.read_text(encoding="utf-8"), encoding="utf-8")
    return dg.DagsterInstance.from_config(str(home.resolve()))
