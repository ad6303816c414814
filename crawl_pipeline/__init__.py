"""A polite batch web crawl over Delta Lake, scheduled by Dagster."""

__version__ = "0.1.0"
