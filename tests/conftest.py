"""Hypothesis draws the same examples in every run, and a busy machine is no failure."""

from hypothesis import settings

settings.register_profile("ours", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ours")
