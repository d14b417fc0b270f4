"""Processes that are killed: each is forked from this one, does a few things to a store, and dies at a step of its
own, or at a moment of ours. The next one goes on with the same store.
"""

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from holdall.store.bundle.export import export_session
from holdall.store.bundle.stream import new_file
from holdall.values.outputs import Origin
from tests.faults.checker import complaints, found_now, opened
from tests.faults.harness import KILLED, Event, events_in
from tests.faults.hooks import Fault, Mode
from tests.faults.writer import BUNDLE, CONTENTS, EVERY, SECONDS_AT_MOST, Task, become, run

CHOICE = tuple(act for act in EVERY if act not in ("session", "second"))  # handles of one session never meet twice
_WAYS: tuple[Mode | None, ...] = ("before", "partial", "after", None, None)  # None: at a moment
_STEPS = 14  # of most acts
_SECONDS = 0.05  # of a process, before it has been seen how long they take


class Fired(NamedTuple):
    """One fault: its place, and what is wrong since."""

    place: str
    found: list[str]
    more: bool = False  # others of the same moment follow


def rounds(folder: Path, dice: random.Random, *, broken: str = "") -> Iterator[Fired]:
    """Without an end. What did not die is not told."""
    make_bundle(folder / BUNDLE)
    typical = _SECONDS
    while True:
        home, events = folder / "home", list[Event]()
        for _ in range(dice.randint(4, 12)):
            acts = ("session", *dice.choices(CHOICE, k=dice.randint(1, 4)))
            mode = dice.choice(_WAYS)
            fault = Fault(dice.randint(1, _STEPS * len(acts)), mode) if mode else None
            began = time.monotonic()
            status, told = forked(
                Task(str(home), str(folder / "report"), acts, fault, broken),
                None if fault else dice.uniform(0, 1.2 * typical),
            )
            typical += 0.05 * (min(1.0, time.monotonic() - began) - typical) if status == 0 else 0.0
            events += told
            if status == KILLED:
                yield Fired(_place(told, mode), found_now(home, events))
            elif status:
                yield Fired("ended", [f"ended with {status}: {told[-1:]}"])
        if found := complaints(home, events):
            yield Fired("in the end", found)
        shutil.rmtree(home, ignore_errors=True)
        for path in folder.glob("home.*"):
            path.unlink()


def forked(task: Task, seconds: float | None) -> tuple[int, list[Event]]:
    """Run it in a process of its own, killed after so many seconds: its status, and what it said."""
    report = Path(task.report)
    report.unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        become(task.report, SECONDS_AT_MOST, lambda: run(task))
    if seconds is not None:
        time.sleep(seconds)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    said = report.read_bytes() if report.exists() else b""
    return os.waitstatus_to_exitcode(status), list(events_in(said[: said.rfind(b"\n") + 1]))


def make_bundle(path: Path) -> None:
    """With what `checker.RESTORED` names."""
    with opened(path.parent / "made") as store:
        session = store.open_session("made")
        for label in ("small", "live"):
            store.put(session, [CONTENTS[label]], Origin())
        with new_file(str(path), force=True) as write:
            export_session(store, session, write)
    shutil.rmtree(path.parent / "made")


def _place(told: list[Event], mode: Mode | None) -> str:
    act = next((event.text("act") for event in reversed(told) if event.kind == "acts"), "start")
    step = next((event.text("op") for event in told if event.kind == "fired"), "")
    return f"{act}: {mode} {step}" if step else f"{act}: at a moment"
