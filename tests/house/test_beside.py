"""Holdall beside the frameworks that it is used with: one environment has room for both, at their current versions.

A bound of ours that shuts out a framework does not fail an installation. The resolver goes back to a version of the
framework from years ago, so what is compared is the version that it gets without Holdall.
"""

import sys
from functools import cache
from pathlib import Path

import pytest

from tests.house import release

ROOT = Path(__file__).parents[2]

pytestmark = [*release.IN_FULL]


@cache
def resolved(*requirements: str) -> dict[str, str]:
    """What a resolver would install for these, by name; nothing is installed."""
    command = ["pip", "compile", "--quiet", "--no-header", "--no-annotate", "--no-emit-index-url", "-"]
    command += ["--python-version", "3.11", "--python", sys.executable]
    try:
        said = release.uv(*command, stdin="\n".join(requirements))
    except release.NoRegistry as problem:
        pytest.skip(f"the package registry cannot be reached: {problem}")
    pinned = (line.partition(" ;")[0].partition("==") for line in said.splitlines())
    return {name: version for name, equals, version in pinned if equals}


@pytest.mark.parametrize("framework", ["crewai", "strands-agents", "langchain"])
def test_a_plain_holdall_leaves_a_framework_at_its_current_version(framework: str) -> None:
    alone = resolved(framework)
    both = resolved(framework, f"holdall @ {ROOT.as_uri()}")
    assert both[framework] == alone[framework]
    # Nor is anything else pushed back, but for what the two upper bounds of Holdall are about.
    older = {name: (version, both.get(name)) for name, version in alone.items() if both.get(name) != version}
    assert older.keys() <= {"typer"}, older


# CrewAI wants the SDKs of MCP and OpenAI below the versions that the extras `mcp` and `models` are written for.
@pytest.mark.parametrize("framework", ["strands-agents", "langchain"])
def test_all_extras_leave_a_framework_at_its_current_version(framework: str) -> None:
    both = resolved(framework, f"holdall[all] @ {ROOT.as_uri()}")
    assert both[framework] == resolved(framework)[framework]


def test_a_bound_that_shuts_out_a_framework_is_seen() -> None:
    both = resolved("crewai", "rich>=15")
    assert both["crewai"] != resolved("crewai")["crewai"]
