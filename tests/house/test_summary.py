"""The summary of a whole run: a requirement counts only where a test that names it ran and passed."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.requirements import load
from tests.summary import Meter, Summary

IDS = [entry.id for entry in load().values() if entry.gap is None]


def report(ids: list[str], *, when: str = "call", outcome: str = "passed") -> pytest.TestReport:
    properties: list[tuple[str, object]] = [("requirements", one) for one in ids]
    properties.append(("processor", 0.25))
    shown: Any = SimpleNamespace(
        nodeid="tests/bag/test_x.py::test_y", duration=0.5, when=when, user_properties=properties,
        passed=outcome == "passed", skipped=outcome == "skipped",
    )  # fmt: skip
    return cast("pytest.TestReport", shown)


def ended(summary: Summary) -> int:
    session: Any = SimpleNamespace(exitstatus=pytest.ExitCode.OK)
    summary.pytest_sessionfinish(session)
    return int(session.exitstatus)


def test_a_whole_run_in_which_all_are_proved_passes() -> None:
    summary = Summary(whole=True)
    summary.pytest_runtest_logreport(report(IDS))
    assert ended(summary) == 0
    assert (summary.seconds, summary.processor) == ({"bag": 0.5}, {"bag": 0.25})


@pytest.mark.parametrize(
    ("when", "outcome"), [("call", "failed"), ("setup", "passed")], ids=["its test failed", "its test never ran"]
)
def test_a_requirement_that_no_test_proved_fails_a_whole_run(when: str, outcome: str) -> None:
    summary = Summary(whole=True)
    summary.pytest_runtest_logreport(report(IDS[1:]))
    summary.pytest_runtest_logreport(report(IDS[:1], when=when, outcome=outcome))
    assert summary.unproved() == IDS[:1]
    assert ended(summary) == 1


def test_where_its_tests_were_skipped_for_something_absent_it_is_only_listed() -> None:
    summary = Summary(whole=True)
    summary.pytest_runtest_logreport(report(IDS[1:]))
    summary.pytest_runtest_logreport(report(IDS[:1], when="setup", outcome="skipped"))
    assert ended(summary) == 0


def test_part_of_a_run_judges_nothing() -> None:
    assert ended(Summary(whole=False)) == 0


def test_what_a_test_and_its_processes_cost_is_in_its_report() -> None:
    meter = Meter()
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True, timeout=60)
    wrapper = meter.pytest_runtest_makereport()
    next(wrapper)
    with pytest.raises(StopIteration) as ended_with:
        wrapper.send(report([]))
    (spent, *more) = [value for name, value in ended_with.value.value.user_properties if name == "processor"][1:]
    assert not more
    assert float(spent) >= 0.15  # the system counts in hundredths


def test_what_it_takes_to_find_the_tests_is_of_no_suite() -> None:
    meter, summary, told = Meter(), Summary(whole=True), SimpleNamespace(workeroutput=dict[str, float]())
    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.2: pass"], check=True, timeout=60)
    meter.pytest_collection_finish()
    assert meter.collecting >= 0.15
    meter.pytest_sessionfinish(cast("Any", SimpleNamespace(config=told)))
    for _ in range(2):
        summary.pytest_testnodedown(told)
    assert summary.processor == {"collecting": 2 * meter.collecting}
