"""How RE2 is called: our own small program over google-re2, run by this same Python."""

import os
import sys
from importlib.util import find_spec

from holdall.verbs.engines.task import Command, Task

_PROGRAM = os.path.join(os.path.dirname(__file__), "re2_program.py")


def installed() -> bool:
    return find_spec("re2") is not None


def command(task: Task) -> Command:
    pattern = task.pattern
    return Command(
        # -P and -S: the program finds what this process finds, and nothing else.
        arguments=(
            *(sys.executable, "-P", "-S", _PROGRAM, task.want, "lines" if pattern.can_be_empty else "matches"),
            *(str(number) for number in (pattern.captures, task.descriptor, task.size)),
        ),
        # Some Pythons do not start without what their environment says of them.
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        descriptor=task.descriptor,
        good_codes=(0,),  # 1 is how Python ends where nobody expected it to
        feed=(pattern.re2,),
    )
