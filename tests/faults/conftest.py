"""The writers that the tests of this folder share, and what they print at the end: how many faults fired."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.harness import Writers, writers

FIRED = "faults fired"
MEMORY = "/dev/shm"


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writers]:
    with writers(tmp_path_factory.mktemp("crew")) as waiting:
        yield waiting


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: these tests count syncs, and need not wait for a disk to do them."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="holdall-") as name:
        yield Path(name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports: list[pytest.TestReport] = terminalreporter.getreports("passed")
    for report in reports:
        for name, value in report.user_properties:
            if name == FIRED:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
