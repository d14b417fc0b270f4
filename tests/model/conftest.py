"""The files of the models, where they have been fetched; otherwise the tests that want one are skipped.

`./dev test` fetches the smallest where it can, and runs the contract and the shortest questions. `./dev test model` runs
all of them.
"""

import os
from pathlib import Path

import pytest

from tests.model.fetch import file_of

FULL = "HOLDALL_TEST_FULL" in os.environ
TOO_LONG = "the model reads and writes a lot here: ./dev test model"
in_full = pytest.mark.skipif(not FULL, reason=TOO_LONG)


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
