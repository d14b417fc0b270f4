"""The programs that search: ripgrep, and RE2 where there is none. Both give the same answers.

Each runs in a process of its own, over the output's descriptor, and prints the same lines; so a search can be
stopped at any time, holds nobody else up, and its memory is not ours. `results` reads the lines. Nothing here
knows a path of the store, and nothing that is found is shown from here: it is read again, checked.
"""

from typing import Literal

from holdall.values.errors import WorkerFault, WrongUse
from holdall.verbs.engines import re2, ripgrep
from holdall.verbs.engines.ripgrep import ripgrep_path
from holdall.verbs.engines.task import Command, Task

__all__ = ["EngineName", "choose", "command_for", "ripgrep_path"]

EngineName = Literal["ripgrep", "re2"]


def choose(wanted: Literal["auto", "ripgrep", "re2"]) -> EngineName:
    """The engine to run, or an error that says what to install."""
    if wanted not in ("auto", "ripgrep", "re2"):
        raise WrongUse(f"there is no search engine {wanted!r:.40}; known are auto, ripgrep and re2.")
    if wanted != "re2" and ripgrep_path() is not None:
        return "ripgrep"
    if wanted != "ripgrep" and re2.installed():
        return "re2"
    missing = {"ripgrep": "ripgrep", "re2": "google-re2"}.get(wanted, "ripgrep or google-re2")
    raise WorkerFault(f"grep needs {missing}, and it is not there. Install it with: pip install {missing.split()[0]}")


def command_for(engine: EngineName, task: Task) -> Command:
    return ripgrep.command(task) if engine == "ripgrep" else re2.command(task)
