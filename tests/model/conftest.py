"""The files of the models, where they have been fetched; otherwise the tests that want one are skipped.

`./dev test` fetches the smallest where it can, and runs the contract and the shortest questions. `./dev test model` runs
all of them.
"""

import os
from pathlib import Path

import pytest

from tests.model.fetch import file_of

FULL = "HOLDALL_TEST_FULL" in os.environ
in_full = pytest.mark.in_full


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Where the model reads and writes a lot, a test is part of the whole suite only. None is skipped for its length."""
    if FULL:
        return
    ours = [item for item in items if item.path.parent == Path(__file__).parent]
    left = [item for item in ours if item.get_closest_marker("in_full") or _asks_twice(item.nodeid)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]


def _asks_twice(name: str) -> bool:
    """Models that act differ from others in calls of tools only."""
    return "::TestGgufWithActions::" in name and "a_tool" not in name


def the_file(size: str) -> Path:
    path = file_of(size)
    if not path.is_file():
        pytest.skip(
            f"the model {size} is not here ({path.name}); `./dev test` fetches the smallest where there is a network"
        )
    return path


@pytest.fixture(scope="session")
def small_model() -> Path:
    """SmolLM2-135M: it writes English, and invents what it says."""
    return the_file("135m")
