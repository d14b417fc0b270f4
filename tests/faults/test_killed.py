"""A writer that is killed at every step it takes, one step at a time. `checker` says what must hold afterwards."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import holdall.store
from tests.faults.checker import complaints
from tests.faults.conftest import FIRED
from tests.faults.harness import KILLED, ROOT, Report, Writers, events_in, share
from tests.faults.hooks import STEPS, Fault, Mode
from tests.faults.writer import ALL, Task
from tests.requirements import requirement

pytestmark = [pytest.mark.faults, pytest.mark.in_full(one_in=2)]

READING = frozenset(
    {
        "close", "fdopen", "urandom", "fspath", "fstat", "getcwd", "geteuid", "getpid", "getxattr", "listdir", "lseek", "lstat",
        "pread", "read", "readlink",
        "scandir", "stat", "statvfs", "strerror", "environ", "getuid", "cpu_count", "dup",
        "chmod", "fchmod", "utime",  # who may read a file and when it was used, not what it is
        "makedirs",  # by way of mkdir
    }
)  # fmt: skip


@pytest.fixture
def steps(crew: Writers, scratch: Path) -> list[str]:
    """The steps of a writer to which nothing happens. The folders above its home count too, so it is as deep."""
    home = scratch / "0" / "home"
    report = crew.run(home)
    assert complaints(home, report.events) == []
    assert set(report.steps) >= {"write", "fsync", "rename", "link", "unlink", "mkdir", "open"}
    assert len(report.of("kept")) == 7
    return report.steps


@requirement("store:killed-writer", "store:no-acknowledged-loss", "store:leftovers-removed")
@pytest.mark.parametrize("mode", ["before", "partial", "after"])
def test_a_writer_killed_at_any_step_loses_nothing_that_it_was_told_and_shows_nothing_half(
    mode: Mode,
    steps: list[str],
    crew: Writers,
    scratch: Path,
    record_property: Callable[[str, object], None],
) -> None:
    able = [number for number, step in enumerate(steps, start=1) if mode != "partial" or step == "write"]
    # Just after one step is just before the next: by default a few of these are enough.
    numbers = share(able, 13 if mode == "after" else 5)
    found: list[str] = []
    fired = 0
    for number in numbers:
        home = scratch / str(number) / "home"
        report = crew.run(home, fault=Fault(number, mode))
        fired += killed_at(report, number, steps[number - 1])
        found += [
            f"killed {mode} step {number} ({steps[number - 1]}): {one}" for one in complaints(home, report.events)
        ]
        shutil.rmtree(home.parent)
    record_property(FIRED, f"{fired} of {len(numbers)}, of {len(steps)} steps")
    assert not found, "\n".join(found)
    assert fired == len(numbers) > 0


@pytest.mark.timeout(900)
@requirement("store:killed-writer", "store:no-acknowledged-loss")
def test_a_writer_killed_at_any_system_call_that_writes_loses_nothing_either(
    scratch: Path, record_property: Callable[[str, object], None]
) -> None:
    """Past Python: also inside SQLite, whose half-written file must cost nothing.

    How many pages SQLite writes depends on handles, which are random: the last few faults may find nobody to kill.
    """
    if shutil.which("strace") is None or not traced(scratch / "0" / "home", scratch):
        pytest.skip("strace is missing or may not trace (apt-get install strace; CAP_SYS_PTRACE in a container)")
    calls = [line.partition("(")[0] for line in (scratch / "trace").read_text().splitlines() if "(" in line]
    assert {"write", "pwrite64", "fsync", "ftruncate"} <= set(calls)
    places = share([(name, calls[: at + 1].count(name)) for at, name in enumerate(calls)], len(calls) // 6)
    fired = 0
    for name, number in places:
        home = scratch / "1" / "home"
        report = traced(home, scratch, kill=f"inject={name}:signal=KILL:when={number}")
        assert report is not None
        fired += report.status == KILLED
        assert report.status == KILLED or report.of("done")
        assert complaints(home, report.events) == [], f"killed at {name} number {number}"
        shutil.rmtree(home.parent)
    record_property(FIRED, f"{fired} of {len(places)}, of {len(calls)} system calls")
    # How often a call is made differs a little from run to run: one in twenty may not come, and one of a few.
    assert fired >= len(places) - max(1, len(places) // 20) > 0


IN_MEMORY = "memory_files.py"
NAMELESS = "members.py"  # what is unpacked is in files without a name, and never in the store
OF_MANY_HOSTS = "fleet"  # has a folder of copies only; its own faults are in tests/fleet
TAKEN_BACK = (
    "ftruncate"  # of a torn line in the log of events, which is passed over where this fails: it has its own tests
)


def test_every_function_that_changes_a_disk_and_that_the_store_calls_is_counted() -> None:
    """Otherwise a step would be one that nobody is ever killed at."""
    called: set[str] = set()
    folder = Path(next(iter(holdall.store.__path__)))
    for path in folder.rglob("*.py"):
        if path.name in (IN_MEMORY, NAMELESS) or path.parent.name == OF_MANY_HOSTS:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr=name)):
                    called.add(name)
                case (
                    ast.ImportFrom(module="os" | "shutil" | "tempfile")
                    | ast.Import(names=[ast.alias(name="shutil" | "tempfile")])
                ):
                    raise AssertionError(f"{path.name} takes steps that are not counted")
                case _:
                    pass
    assert called - READING - set(STEPS) == {TAKEN_BACK}
    assert called >= set(STEPS) - {"rmdir"}


WRITING = "write,pwrite64,fsync,fdatasync,ftruncate,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat"


def killed_at(report: Report, number: int, op: str) -> bool:
    """Whether this very fault killed this writer."""
    fired = report.fired
    return (
        report.status == KILLED
        and fired is not None
        and (fired.number("number"), fired.text("op")) == (number, op)
        and not report.of("done")
    )


def traced(home: Path, scratch: Path, *, kill: str = "") -> Report | None:
    """The writer in a process of its own under strace, or None where it could not be traced."""
    home.mkdir(parents=True, mode=0o700)
    strace = ["strace", "-qqq", "-o", str(scratch / "trace"), "-e", f"trace={WRITING}", *(["-e", kill] if kill else [])]
    done = subprocess.run(
        [*strace, sys.executable, "-m", "tests.faults.writer", Task(str(home), "", ALL).to_line()],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    if not kill and done.returncode != 0:
        return None
    # The last line may be cut: then the writer had not finished telling.
    return Report(done.returncode, events_in(done.stdout[: done.stdout.rfind(b"\n") + 1]))
