"""The real program in a process of its own, as a user runs it.

A run is a fork of a process that has imported the program already: the import is most of what a short command costs.
`started_as` is one with streams and signals of its own, for terminals and a shell's pipes. What Python reads when it starts
(`PYTHONPATH`, the language), and what the process itself has (its id, its memory, its umask, streams that are closed)
needs the installed command, PROGRAM.
"""

import functools
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.commands import Commands, commands, started
from tests.upstream.launch import sdk_server

ENDS = ExitStack()
"""Closed at the end of the tests."""


@functools.cache
def _forking() -> Commands:
    return ENDS.enter_context(commands())


PROGRAM = os.path.join(os.path.dirname(sys.executable), "holdall")


def started_as(*arguments: str) -> list[str]:
    """The words to start the program with."""
    return [*sdk_server(PROGRAM), *arguments]


def in_a_shell(*arguments: str) -> str:
    """The same as a part of a script."""
    return shlex.join(started_as(*arguments))


def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """What another process does sets no event here."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to it"
        time.sleep(0.01)


@dataclass(frozen=True)
class Ran:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Program:
    """`holdall` with a home of its own."""

    home: Path

    def __call__(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | None = None,
    ) -> Ran:
        surroundings = self.environment(env)
        plain = not any(name.startswith(("PYTHON", "LANG", "LC_")) for name in env or {})
        run = _forking().run if plain else started
        ran = run(arguments, surroundings, cwd or Path.cwd(), stdin or b"")
        return Ran(ran.code, ran.out, ran.err.decode("utf-8"))

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        base = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "HOLDALL_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "HOLDALL_REAL_MODELS": "off",
            "HOLDALL_PROGRESS": "off",  # or a busy machine would say how far it is
        }
        changed: dict[str, str | None] = {**base, **(more or {})}
        return {key: value for key, value in changed.items() if value is not None}

    def put(self, data: bytes, *arguments: str) -> str:
        """Keep `data`; its handle."""
        ran = self("put", "--json", *arguments, stdin=data)
        assert ran.code == 0, ran.err
        return str(ran.json["handle"])
