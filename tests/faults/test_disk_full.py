"""A disk without room, at every step that needs some, and for real on a disk of one megabyte."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.checker import complaints
from tests.faults.conftest import FIRED
from tests.faults.harness import Report, Writers, share
from tests.faults.hooks import NEEDS_SPACE, Fault, Mode
from tests.faults.namespaces import on_a_disk
from tests.requirements import requirement

pytestmark = [pytest.mark.faults, pytest.mark.in_full(one_in=2)]

DONE_WITHOUT = ["mkdir", "fsync", "open", "open", *["write"] * 4]
"""Steps that nobody has to hear of: the folder of names while a session is only looked for (it is made again when
one is made), the index, the mark of the last gc, and when every session had its name (else all of them are read)."""


@requirement("store:disk-full")
@pytest.mark.parametrize(("mode", "every"), [("full once", 7), ("short once", 3), ("full from here", 11)])
def test_a_full_disk_is_told_at_whichever_step_it_is_met_and_nothing_of_the_output_stays(
    mode: Mode, every: int, crew: Writers, scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    steps = crew.run(scratch / "0" / "home").steps
    able = {"write"} if mode == "short once" else NEEDS_SPACE
    numbers = share([number for number, step in enumerate(steps, start=1) if step in able], every)
    found: list[str] = []
    absorbed: list[str] = []
    fired = 0
    for number in numbers:
        home = scratch / str(number) / "home"
        report = crew.run(home, fault=Fault(number, mode))
        refusals = report.of("refused")
        fired += report.fired is not None
        absorbed += [] if refusals or _makes_room(report) else [steps[number - 1]]
        problems = complaints(home, report.events, refused=True)
        problems += [f"ended with {report.status}"] if report.status else []
        for refusal in refusals:
            if refusal.text("error") != "StoreFull" or "free for" not in refusal.text("message"):
                problems.append(f"{refusal.text('error')}: {refusal.text('message')}")
        found += [f"full at step {number} ({steps[number - 1]}): {one}" for one in problems]
        shutil.rmtree(home.parent)
    record_property(FIRED, f"{fired} of {len(numbers)}, of {len(steps)} steps")
    assert not found, "\n".join(found)
    assert fired == len(numbers) > 0
    assert not Counter(absorbed) - Counter(DONE_WITHOUT)


def _makes_room(report: Report) -> bool:
    """Whether the disk was full while an output expired, whose bytes then made room for its tombstone."""
    kinds = [event.kind for event in report.events]
    acts = [event.text("act") for event in report.events[: kinds.index("fired")] if event.kind == "acts"]
    return acts[-1].startswith("expire")


@requirement("store:disk-full")
def test_two_megabytes_on_a_disk_of_one_are_refused_whole_and_the_store_goes_on(tmp_path: Path) -> None:
    on_a_disk("tiny_disk", tmp_path / "disk", "size=1m")
