"""How many runs the sensor and the schedule ask for at a time, and how long each may take."""

import os

import dagster as dg


class RunsResource(dg.ConfigurableResource["RunsResource"]):
    """Starting a run costs seconds, so a run has minutes: it repeats rounds until its time is over."""

    most: int = 2
    seconds: float = 300.0


def runs_from_environment() -> RunsResource:
    """CRAWL_RUNS and CRAWL_RUN_SECONDS."""
    asked = {"most": os.environ.get("CRAWL_RUNS"), "seconds": os.environ.get("CRAWL_RUN_SECONDS")}
    return RunsResource.model_validate({name: float(value) for name, value in asked.items() if value})
