"""Where the policy is: a path for Dagster, a frozen policy for the code. Decides nothing; core.policy checks it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from crawl_pipeline.resources.lake import LakeResource

if TYPE_CHECKING:
    from crawl_pipeline.core.policy import Policy


class PolicyResource(dg.ConfigurableResource["PolicyResource"]):
    """The policy file of a crawl."""

    path: str

    def load(self) -> "Policy":
        """Read the policy anew: a change counts from the next run on. Raise PolicyError if it cannot be used."""
        from crawl_pipeline.core import policy  # noqa: PLC0415 (keeps the code server small)

        try:
            text = Path(self.path).read_text(encoding="utf-8")
        except OSError as error:
            raise policy.PolicyError(
                f"expected a policy at {self.path}, found {error.strerror or error}: "
                "write one with `crawl init`, or set CRAWL_POLICY"
            ) from error
        return policy.load(text)


def policy_from_environment(lake: LakeResource) -> PolicyResource:
    """The policy that CRAWL_POLICY names; by default policy.toml in the folder of a lake on disk."""
    beside = "policy.toml" if "://" in lake.root else str(Path(lake.root) / "policy.toml")
    return PolicyResource(path=os.environ.get("CRAWL_POLICY", beside))
