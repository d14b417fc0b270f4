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


@contextlib.contextmanager
def processes(folder: Path) -> Generator[Cpu]:
    """Compiled modules are kept in `folder`, so the first process of a kind compiles and does not count."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder)

    def cpu(command: Sequence[str]) -> float:
        with open(os.devnull, "wb") as nothing:
            process = subprocess.Popen(command, env=environment, stdout=nothing, cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command[-1])
        return used.ru_utime + used.ru_stime

    yield cpu
