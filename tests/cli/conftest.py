"""A home for each test, and the program that uses it."""

from pathlib import Path

import pytest

from tests.cli.program import Program


@pytest.fixture
def holdall(tmp_path: Path) -> Program:
    return Program(tmp_path / "home")
