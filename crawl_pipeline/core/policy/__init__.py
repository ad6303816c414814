"""Every number and name a person may tune: its default, its unit and its reason, in one place.

A policy is text in, frozen values out: `load` reads TOML and refuses what it does not know, `render` writes the TOML
with every default commented. It never reads a file, the environment or a clock. The agent's name and contact page
have no default: a crawl that will not say who it is does not start.
"""

from crawl_pipeline.core.policy.asking import Agent, Block, Politeness, Retry, Robots
from crawl_pipeline.core.policy.choosing import Budget, Scope
from crawl_pipeline.core.policy.keys import PolicyError, Section
from crawl_pipeline.core.policy.reading import Retention, Text
from crawl_pipeline.core.policy.toml import as_toml, in_words, load, read_toml, render, sections
from crawl_pipeline.core.policy.whole import HostRule, Policy

__all__ = [
    "Agent",
    "Block",
    "Budget",
    "HostRule",
    "Policy",
    "PolicyError",
    "Politeness",
    "Retention",
    "Retry",
    "Robots",
    "Scope",
    "Section",
    "Text",
    "as_toml",
    "in_words",
    "load",
    "read_toml",
    "render",
    "sections",
]
