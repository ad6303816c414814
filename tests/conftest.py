"""Hypothesis draws the same examples in every run, and a busy machine is no failure."""

from hypothesis import settings

from tests.effort import times

settings.register_profile("ours", deadline=None, derandomize=True, max_examples=times(30, 200))
settings.load_profile("ours")
