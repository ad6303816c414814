"""What people start in Dagster: a module per job, with its assets and checks, and what asks for it by itself.

A module has a function `load` that gives all this as dg.Definitions for a lake of so many buckets; who adds a job adds
a module and names it in PARTS. Nothing here starts by itself: schedules and sensors are stopped until a person
starts them.
"""

from crawl_pipeline.jobs import archive, duplicates, freshness, maintenance, people, ranks, recrawl, reports, rounds

PARTS = (rounds, recrawl, duplicates, ranks, freshness, reports, maintenance, people, archive)
