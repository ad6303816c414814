"""Run conformance cases (JSON lines) against this crawler: `python -m tests.conformance DIR [--kind K]`."""
