"""Start-up: the processor time of showing help against that of importing typer, which the commands are made with."""

import os
import subprocess
import sys
from pathlib import Path

from bench.lab import Lab, holdall_command
from bench.result import Gate, Measured, Row
from bench.rounds import Timed, compare


async def startup(lab: Lab) -> Measured:
    with lab.scratch() as folder:
        # Compiled modules are kept and found, as they are after any installation.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(folder)

        def cpu(command: list[str]) -> float:
            with open(os.devnull, "wb") as nothing:
                process = subprocess.Popen(command, env=environment, stdout=nothing, cwd=Path(folder))
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command[-1])
            return used.ru_utime + used.ru_stime

        def showing(*arguments: str) -> Timed:
            async def show() -> float:
                return cpu([*holdall_command(), *arguments, "--help"])

            return show

        async def floor() -> float:
            return cpu([sys.executable, "-c", "import typer"])

        contestants = {"holdall --help": showing(), "holdall run --help": showing("run"), "floor": floor}
        rounds = lab.sizes.rounds + 4
        found = await compare(contestants, rounds=rounds, patience=lab.patience)
    least = found.median("floor")
    rows = [
        Row("startup", f"`{name}`, processor time", found.median(name), "ms", least, Gate(1.5), others=found.others)
        for name in contestants
        if name != "floor"
    ]
    return Measured(rows)
