"""The real program in a process of its own, as a user runs it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = os.path.join(os.path.dirname(sys.executable), "holdall")


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

    def __call__(self, *arguments: str, stdin: bytes | None = None, env: Mapping[str, str | None] | None = None) -> Ran:
        ran = subprocess.run(
            [PROGRAM, *arguments],
            input=b"" if stdin is None else stdin,
            env=self.environment(env),
            capture_output=True,
            timeout=60,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr.decode("utf-8"))

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str]:
        base = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "HOLDALL_HOME": str(self.home),
            "LANG": "C.UTF-8",
            "HOLDALL_REAL_MODELS": "off",
        }
        changed: dict[str, str | None] = {**base, **(more or {})}
        return {key: value for key, value in changed.items() if value is not None}

    def put(self, data: bytes, *arguments: str) -> str:
        """Keep `data`; its handle."""
        ran = self("put", "--json", *arguments, stdin=data)
        assert ran.code == 0, ran.err
        return str(ran.json["handle"])
