"""The commands of `crawl`, one module for each group of them; what they share is in `common`."""
