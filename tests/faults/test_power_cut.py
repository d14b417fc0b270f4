"""A power cut after any step: what was acknowledged before it is still there. `power` builds the disks."""

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.faults.checker import complaints
from tests.faults.conftest import FIRED
from tests.faults.harness import KILLED, Event, Writers, share
from tests.faults.hooks import Fault
from tests.faults.power import Kind, cuts, write_to
from tests.requirements import requirement

pytestmark = pytest.mark.faults


@requirement("store:handle-after-fsync", "store:running-record-first")
@pytest.mark.parametrize("kind", ["lazy", "eager"])
def test_no_power_cut_loses_what_was_acknowledged(
    kind: Kind, crew: Writers, scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    report = crew.run(scratch / "new" / "home", record=True)
    steps = report.of("step")
    assert len(steps) > 100
    tried, found = cut(scratch, report.events, kind)
    record_property(FIRED, f"{tried} disks after {len(steps)} steps")
    assert not found, "\n".join(found)
    assert tried > 40


@requirement("store:handle-after-fsync")
def test_a_power_cut_does_not_lose_what_was_kept_after_a_writer_was_killed(
    crew: Writers, scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    """Whoever comes second builds on folders and names that the first may never have synced."""
    first, second = ("session", "terminal", "small"), ("session", "small", "terminal")
    steps = crew.run(scratch / "0" / "home", first).steps
    numbers = share(range(1, len(steps) + 1), 6)
    found: list[str] = []
    for number in numbers:
        base = scratch / f"{number}"
        base.mkdir()
        home = base / "home"
        killed = crew.run(home, first, fault=Fault(number, "before"), record=True)
        assert killed.status == KILLED
        report = crew.run(home, second, record=True)
        tried, problems = cut(base, [*killed.events, *report.events], "lazy", only_last=True)
        found += [f"after a kill before step {number} ({steps[number - 1]}): {one}" for one in problems]
        assert tried == 1
        shutil.rmtree(base)
    record_property(FIRED, f"{len(numbers)} of {len(steps)} kills, a cut after each")
    assert not found, "\n".join(found)


def cut(base: Path, events: Iterable[Event], kind: Kind, *, only_last: bool = False) -> tuple[int, list[str]]:
    """How many disks were tried, and everything that was wrong with them."""
    found: list[str] = []
    disks = list(cuts(base.stat().st_ino, events, kind))
    if only_last:
        del disks[:-1]
    for number, (picture, told) in enumerate(disks):
        disk = base / f"disk {number}"
        write_to(disk, picture)
        home = next(iter(sorted(disk.rglob("home"))), disk / "home")
        last = told[-1].kind if told else "nothing"
        found += [f"cut {number}, after {last} was told: {one}" for one in complaints(home, told, power_cut=True)]
        shutil.rmtree(disk)
    return len(disks), found
