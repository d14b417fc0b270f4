"""The fixtures `fleet_servers`, `fleet_place`, `own_servers` and `tally`: see `tests.fleet.fixtures`, also for other folders.

At the end of a run it is told how many faults fired, by kind.
"""

from collections import Counter

import pytest

from tests.fleet.fixtures import FIRED, fleet_place, fleet_servers, own_servers, tally

__all__ = ["fleet_place", "fleet_servers", "own_servers", "tally"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports: list[pytest.TestReport] = [
        report for outcome in ("passed", "failed", "") for report in terminalreporter.getreports(outcome)
    ]
    fired: Counter[str] = Counter()
    for report in reports:
        for name, value in report.user_properties if report.when == "teardown" else ():
            if name == FIRED:
                kind, _, times = str(value).rpartition(": ")
                fired[kind] += int(times)
    if fired:
        terminalreporter.section("faults of the fleet")
        for kind, times in fired.most_common():
            terminalreporter.write_line(f"{times:6}  {kind}")
        lost = sum(report.failed for report in reports if "/fleet/" in report.nodeid)
        terminalreporter.write_line(f"{fired.total():6}  faults fired; {lost or 'no'} tests failed")
