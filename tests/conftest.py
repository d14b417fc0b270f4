"""What every test gets: one event loop, and hypothesis with its files in `.dev/`."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

_HYPOTHESIS = Path(__file__).parents[1] / ".dev" / "hypothesis"
set_hypothesis_home_dir(_HYPOTHESIS)

# No deadline: two workers share two cores with whatever else runs, and a slow example is not a wrong one.
settings.register_profile("here", max_examples=60, deadline=None, database=DirectoryBasedExampleDatabase(_HYPOTHESIS))
# A build server sees the same examples each time: a red build is red for a reason that is in the commit.
settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True, database=None)
settings.register_profile("full", settings.get_profile("here"), max_examples=1000)

if os.environ.get("HOLDALL_TEST_FULL"):
    settings.load_profile("full")
else:
    settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio: the library promises no other loop."""
    return "asyncio"
