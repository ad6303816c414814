"""Dedup: no adapter yet; its cases are reported as not run."""

from tests.conformance.kinds.adapter import Adapters

ADAPTERS: Adapters = {}
