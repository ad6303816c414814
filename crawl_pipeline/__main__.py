"""`python -m crawl_pipeline` is the command `crawl`."""

from crawl_pipeline.cli import main

main()
