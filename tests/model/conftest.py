"""The files of the models, where they have been fetched; otherwise the tests that want one are skipped."""

from pathlib import Path

import pytest

from tests.model.fetch import file_of


def the_file(size: str) -> Path:
    path = file_of(size)
    if not path.is_file():
        pytest.skip(f"the model {size} is not here ({path.name}); `./dev test model` fetches the smallest")
    return path


@pytest.fixture(scope="session")
def small_model() -> Path:
    """SmolLM2-135M: it writes English, and invents what it says."""
    return the_file("135m")
