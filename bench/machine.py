"""The machine: what a reader of the figures has to know of it, and how busy others keep it while we measure.

No name of a host and no path leaves this module.
"""

import contextlib
import os
import platform
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

QUIET_CORES = 0.25  # that others may use without being noticed
_TICKS = os.sysconf("SC_CLK_TCK")


def facts() -> dict[str, str | int]:
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "cpu": _field("/proc/cpuinfo", "model name") or platform.machine(),
        "memory_bytes": _kibibytes("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def resident_bytes(pid: int | str = "self") -> int:
    return _kibibytes(f"/proc/{pid}/status", "VmRSS")


def highest_resident_bytes(pid: int | str = "self") -> int:
    return _kibibytes(f"/proc/{pid}/status", "VmHWM")


def used_seconds(pid: int | str = "self") -> float:
    """Of the processor, by the threads that a process has now: finer than the ticks of `stat`."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9


def forget_highest() -> None:
    """From here on the high-water mark tells of what comes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


class Watch:
    """From its making to `others()`: how many cores were busy with work that is neither ours nor the kernel's.

    Ours is this process and all that it started; the kernel's threads write back what both sides of a comparison wrote.
    None if there is no /proc to tell.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._busy = _busy_seconds()
        self._known = known_seconds()

    def others(self) -> float | None:
        now = _busy_seconds()
        elapsed = time.perf_counter() - self._started
        if now is None or self._busy is None or elapsed < 5 / _TICKS:
            return None
        return max(0.0, (now - self._busy) - (known_seconds() - self._known)) / elapsed


class Taken:
    """The most memory of their own that this process and its descendants have taken together since it was made."""

    def __init__(self) -> None:
        self._before = self._most = _own_bytes()

    def look(self) -> None:
        self._most = max(self._most, _own_bytes())

    @property
    def growth(self) -> int:
        return self._most - self._before


@contextlib.contextmanager
def memory_of_family(every: float = 0.02) -> Generator[Taken]:
    """Looks again and again while the block lasts: what is shorter than that may be missed."""
    taken, is_over = Taken(), threading.Event()

    def watch() -> None:
        while not is_over.wait(every):
            taken.look()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield taken
    finally:
        is_over.set()
        watching.join()
        taken.look()


def _own_bytes() -> int:
    """Not what is mapped from files."""
    return sum(_kibibytes(f"/proc/{pid}/status", "RssAnon") for pid in _family())


class Patience:
    """Waits for quiet moments, but only so long in one run: a busy machine is reported, not outwaited."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.cares = seconds > 0  # without any, every round is as good as another

    def wait(self, *, look: float = 0.3) -> None:
        while self.seconds > 0:
            watch = Watch()
            time.sleep(look)
            if (watch.others() or 0.0) <= QUIET_CORES:
                return
            self.seconds -= look


def _busy_seconds() -> float | None:
    """Of all cores since the start of the machine; time stolen by its host is busy too."""
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _waiting, interrupts, soft, stolen = map(int, first[1:9])
    return (user + nice + system + interrupts + soft + stolen) / _TICKS


def known_seconds() -> float:
    """What this process, its descendants and the kernel's own threads have used."""
    family = _family(os.getpid(), 2)  # the parent of the kernel's threads
    return sum(family.values())


def _family(*first: int) -> dict[int, float]:
    """These processes, or this one, and their descendants, with the seconds of the processor that each has used."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for pid, parent, seconds in _processes():
        parents[pid], used[pid] = parent, seconds
    ours = set(first or [os.getpid()])
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in ours} - ours
        ours |= more
        grown = bool(more)
    return {pid: seconds for pid, seconds in used.items() if pid in ours}


def _processes() -> Iterator[tuple[int, int, float]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it ended while we looked
        after_name = stat[stat.rindex(")") + 2 :].split()
        # utime, stime, and those of its children that have ended
        yield int(folder.name), int(after_name[1]), sum(map(int, after_name[11:15])) / _TICKS


def _field(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def _kibibytes(file: str, name: str) -> int:
    value = _field(file, name).split()
    return int(value[0]) * 1024 if value else 0
