"""The writers that the tests of this folder share, and what they print at the end: how many faults fired."""

from collections.abc import Iterator

import pytest

from tests.faults.harness import Writers, writers

FIRED = "faults fired"


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writers]:
    with writers(tmp_path_factory.mktemp("crew")) as waiting:
        yield waiting


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports: list[pytest.TestReport] = terminalreporter.getreports("passed")
    for report in reports:
        for name, value in report.user_properties:
            if name == FIRED:
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {value}")
