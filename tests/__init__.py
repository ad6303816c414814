"""Tests; a package so that `python -m tests.conformance` finds its modules."""
