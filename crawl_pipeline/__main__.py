"""`python -m crawl_pipeline` is the command `crawl`.

Light on purpose: processes that are started later import the main module again, and need nothing of the command line.
"""


def run() -> None:
    """Run the command line."""
    from crawl_pipeline.cli import main

    main()


if __name__ == "__main__":
    run()
