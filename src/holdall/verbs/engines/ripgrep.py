"""How ripgrep is called. It is given no path, no configuration and nothing of the environment."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

from holdall.verbs.engines.task import Command, Task

_KNOWN = 14  # the one whose answers were compared with RE2's; others print some things differently
_FED_AT_ONCE = 1 << 20

_ALWAYS = (
    "--no-config",
    "--text",  # a NUL does not end the search
    "--encoding=none",  # neither does a byte order mark turn UTF-16 into text: offsets are those of the stored bytes
    "--mmap",
    "--threads=1",
    "--no-filename",
    "--no-line-number",  # lines are counted by our own table, without a pass over the file
    "--no-heading",
    "--color=never",
)


@cache
def ripgrep_path() -> str | None:
    """The ripgrep that was installed with us, else one on the PATH of the version that is known; else None."""
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("rg")
    return found if found and _version(found) == _KNOWN else None


def _version(path: str) -> int:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = re.match(rb"ripgrep (\d+)\.", said)
    return int(number[1]) if number else 0


def command(task: Task) -> Command:
    path = ripgrep_path()
    if path is None:
        raise LookupError("choose() offers ripgrep only where there is one")
    # A growing file would be searched up to wherever it ends by then, so its part is fed through a pipe.
    name = "-" if task.growing else f"/dev/fd/{task.descriptor}"
    return Command(
        arguments=(path, *_ALWAYS, *_flags(task), "-e", _pattern(task).encode(), "--", name),
        environment={},
        descriptor=task.descriptor,
        good_codes=(0, 1),  # 1: nothing found
        feed=_part(task.descriptor, task.size) if task.growing else (),
    )


def _flags(task: Task) -> tuple[str, ...]:
    pattern = task.pattern
    captured = "\t".join(f"${{{number + 1}}}" for number in range(pattern.captures))
    match task.want, pattern.can_be_empty:
        case "places", False:
            return ("--only-matching", "--byte-offset")
        case "places", True:
            return ("--byte-offset", "--max-columns=1")  # the offset of the line is enough
        case "values", False:
            return ("--only-matching", f"--replace={captured}") if captured else ("--only-matching",)
        case "values", True:
            return (f"--replace={captured or '${1}'}",)
        case _:
            return ("--count",) if pattern.can_be_empty else ("--count-matches",)


def _pattern(task: Task) -> str:
    by_lines = task.want == "values" and task.pattern.can_be_empty
    return task.pattern.ripgrep_by_lines if by_lines else task.pattern.ripgrep


def _part(descriptor: int, size: int) -> Iterator[bytes]:
    at = 0
    while at < size and (piece := os.pread(descriptor, min(_FED_AT_ONCE, size - at), at)):
        yield piece
        at += len(piece)
