"""The suite catches writers that are wrong on purpose; the same ways find nothing wrong with the right one."""

import shutil
from pathlib import Path

import pytest

from tests.faults.broken import WRITERS
from tests.faults.checker import complaints
from tests.faults.harness import KILLED, Writers
from tests.faults.hooks import Fault
from tests.faults.test_power_cut import cut
from tests.requirements import requirement

pytestmark = [pytest.mark.faults, pytest.mark.in_full(one_in=2)]

ACTS = ("session", "small", "json", "expire json")

BY_KILLS = {"record before data", "record in place", "bytes before tombstone"}
BY_POWER_CUTS = {"record before data", "data not synced", "folder not synced", "home not synced"}


@requirement("store:killed-writer")
@pytest.mark.parametrize("name", ["", *sorted(BY_KILLS)])
def test_a_writer_that_takes_its_steps_in_the_wrong_order_is_caught_by_a_kill(
    name: str, crew: Writers, scratch: Path
) -> None:
    steps = crew.run(scratch / "0" / "home", ACTS, broken=name).steps
    found: list[str] = []
    for number, step in enumerate(steps, start=1):
        home = scratch / str(number) / "home"
        report = crew.run(home, ACTS, fault=Fault(number, "partial" if step == "write" else "before"), broken=name)
        assert report.status == KILLED
        found += complaints(home, report.events)
        shutil.rmtree(home.parent)
        if found and name:
            break
    assert bool(found) == bool(name), found


@requirement("store:handle-after-fsync")
@pytest.mark.parametrize("name", ["", *sorted(BY_POWER_CUTS)])
def test_a_writer_that_leaves_out_a_sync_is_caught_by_a_power_cut(name: str, crew: Writers, scratch: Path) -> None:
    report = crew.run(scratch / "new" / "home", ACTS, broken=name, record=True)
    assert report.status == 0
    _, found = cut(scratch, report.events, "lazy")
    assert bool(found) == bool(name), found


def test_every_broken_writer_is_one_that_must_be_caught() -> None:
    assert {"", *BY_KILLS, *BY_POWER_CUTS} == WRITERS.keys()
