"""What a whole run of the tests came to: which requirements its tests proved, and what each suite cost.

The cost is seconds of processor, of the tests and of the processes that they started and saw end. How busy the machine
is does not change it much, so it can be compared with a budget. To find the tests costs too, in each process that runs
some: that is a row of its own, and not of the suite whose test comes first.

A requirement counts when a test that names it ran and passed. One whose tests were all skipped is listed: the outside
thing that they need is absent here. One whose tests did not run at all makes a whole run fail. Part of a run proves
nothing about the rest, so nothing is judged there.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Generator
from typing import Any

import pytest

from tests.golden.commands import FORKED
from tests.requirements import load
from tests.upstream.launch import seconds_of_forks

# Seconds of processor and a fifth more: of a whole run with several workers on two cores, less what its suites were then
# found to do without, each measured by itself. Of docs, 22 are for mypy without its cache; of house, 75 for pyright; of
# web, 75 for the browser. Together they are more than WHOLE: what is next to be mended is the largest.
BUDGETS = {
    "adapters": 12, "agent": 25, "bag": 122, "bench": 22, "cli": 143, "clients": 30, "collecting": 65, "config": 5, "docs": 45,
    "extract": 20, "faults": 60, "fleet": 94, "gateway": 160, "golden": 32, "guard": 7, "house": 130, "llm": 9, "model": 36,
    "policy": 7, "search": 13, "store": 90, "text": 44, "trust": 18, "truth": 12, "upstream": 45, "values": 5, "verbs": 108,
    "web": 142, "wire": 30,
}  # fmt: skip
WHOLE = 1200  # what two cores have in the 10 minutes that a whole run may take
_DEAREST = 40  # the tests to look at when a suite is over its budget
_IDS, _CPU, _COLLECTING = "requirements", "processor", "collecting"


class Meter:
    """A plugin. It lives where the tests run, and adds to each report what has been spent since the one before."""

    def __init__(self) -> None:
        self._before = _spent()
        self.collecting = 0.0

    def pytest_collection_finish(self) -> None:
        self._before, began = _spent(), self._before
        self.collecting = self._before - began

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (told := getattr(session.config, "workeroutput", None)) is not None:
            told[_COLLECTING] = self.collecting

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _spent()
        report.user_properties = [*report.user_properties, (_CPU, now - self._before)]
        self._before = now
        return report


def _spent() -> float:
    return sum(os.times()[:4]) + FORKED.seconds + seconds_of_forks()


class Summary:
    """A plugin. It lives where the reports arrive: in the only process, or in the one that the workers report to."""

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self.passed: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.processor: defaultdict[str, float] = defaultdict(float)
        self.costs: defaultdict[str, float] = defaultdict(float)  # of each test, all its cases

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        folder = report.nodeid.removeprefix("tests/").partition("/")[0]
        suite = folder if not folder.startswith("test_") else "others"
        self.seconds[suite] += report.duration
        spent = sum(float(str(value)) for name, value in report.user_properties if name == _CPU)
        self.processor[suite] += spent
        self.costs[report.nodeid.partition("[")[0]] += spent
        ids = [str(value) for name, value in report.user_properties if name == _IDS]
        if report.when == "call" and report.passed:
            self.passed.update(ids)
        elif report.skipped:
            self.skipped.update(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended: of xdist."""
        self.processor[_COLLECTING] += getattr(node, "workeroutput", {}).get(_COLLECTING, 0.0)

    def unproved(self) -> list[str]:
        """Requirements without a gap that no test which ran has proved, though nothing that is absent prevented it."""
        wanted = [entry.id for entry in load().values() if entry.gap is None]
        return [one for one in wanted if one not in self.passed and one not in self.skipped]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.whole and session.exitstatus == pytest.ExitCode.OK and self.unproved():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.whole:
            return
        tell = terminalreporter.write_line
        terminalreporter.section("suites")
        for suite, spent in sorted(self.processor.items()):
            budget = BUDGETS.get(suite)
            over = "  over its budget" if budget is not None and spent > budget else ""
            tell(f"{suite:10} {spent:7.1f} s of processor of {budget or '-':>4}, in {self.seconds[suite]:7.1f} s{over}")
        spent = sum(self.processor.values())
        over = "  over 10 minutes of two cores" if spent > WHOLE else ""
        tell(f"{'together':10} {spent:7.1f} s of processor of {WHOLE:4}{over}")
        for test, cost in sorted(self.costs.items(), key=lambda one: -one[1])[:_DEAREST]:
            tell(f"{cost:7.1f} s of processor: {test}")
        only_skipped = [one for one in self.skipped if one not in self.passed]
        tell(f"requirements: {len(self.passed)} proved by tests that ran, {len(only_skipped)} not run here")
        for one in only_skipped:
            tell(f"  not run here: {one}")
        for one in self.unproved():
            tell(f"  not proved: {one}", red=True)


def note_requirements(item: pytest.Item) -> None:
    """The ids that a test names, as properties of its reports: these reach the process that sums up."""
    for mark in item.iter_markers("requirement"):
        item.user_properties.extend((_IDS, one) for one in mark.args)


def is_whole(config: pytest.Config) -> bool:
    chosen = config.getoption("keyword") or config.getoption("markexpr") or config.getoption("deselect")
    return not chosen and config.args == config.getini("testpaths") and not config.getoption("collectonly")
