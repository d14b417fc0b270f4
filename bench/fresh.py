"""Processor time of whole processes, each a fresh one that finds its modules compiled, as after any installation."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

Cpu = Callable[[Sequence[str]], float]

TYPER = (sys.executable, "-c", "import typer")  # what a command line made with typer cannot start without
HOLDALL = (sys.executable, "-c", "from holdall import Holdall")


def environment(folder: Path) -> dict[str, str]:
    """Compiled modules are kept in `folder`; Holdall has no settings but its defaults."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HOLDALL_")}
    ours.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**ours, "PYTHONPYCACHEPREFIX": str(folder)}


@contextlib.contextmanager
def processes(folder: Path) -> Generator[Cpu]:
    """The first process of a kind compiles its modules into `folder`, and does not count."""
    around = environment(folder)

    def cpu(command: Sequence[str]) -> float:
        with open(os.devnull, "wb") as nothing:
            process = subprocess.Popen(command, env=around, stdout=nothing, stderr=nothing, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command[-1])
        return used.ru_utime + used.ru_stime

    yield cpu
