"""Runs the console blocks of a Markdown page and compares what they print with what the page says.

A block is fenced as ```console. Lines that start with `$ ` are commands; the lines after one are what it prints,
standard output and standard error together, as on a terminal. `…` alone on a line stands for any number of lines.

Handles and fence tags are random: the first new handle that a page shows in a command's output stands for the first
one that the command really made, and so on. Times stand for any time. Nothing else may differ.
"""

import itertools
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.upstream.launch import folder_with_holdall

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_HANDLE = re.compile(r"\b[bcdfghjkmnpqrstvwxyz][bcdfghjkmnpqrstvwxyz2-9]{3}\b")
_VARIABLE = [
    (re.compile(r"(</?)\d{3,}>"), r"\1TAG>"),
    (re.compile(r"(?m)^\[[bcdfghjkmnpqrstvwxyz][bcdfghjkmnpqrstvwxyz2-9]{4}\]$"), "[MARK]"),
    (re.compile(r"\b[\d,.]+ (?:ms|s)\b"), "TIME"),
    (re.compile(r" +\d+[smhd]\b"), " AGE"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
]


@dataclass
class Step:
    command: str
    expected: str


@dataclass
class Page:
    """One page, one home: its blocks run in order and share what they keep."""

    path: Path
    home: Path
    handles: dict[str, str] = field(default_factory=dict[str, str])  # as the page says: as it really is

    def steps(self) -> list[Step]:
        found: list[Step] = []
        for block in _BLOCK.findall(self.path.read_text("utf-8")):
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append(Step(line[2:], ""))
                elif line.startswith("> ") and not found[-1].expected:
                    found[-1].command += "\n" + line[2:]
                else:
                    found[-1].expected += line + "\n"
        return found

    def run(self, step: Step) -> str:
        command = step.command
        for said, real in self.handles.items():
            command = re.sub(rf"\b{said}\b", real, command)
        env = {
            "HOLDALL_PROGRESS": "off",  # of a busy machine
            "PATH": os.pathsep.join([folder_with_holdall(), os.path.dirname(sys.executable), "/usr/bin", "/bin"]),
            "HOME": str(self.home),
            "HOLDALL_HOME": str(self.home / "kept"),
            "LANG": "C.UTF-8",
            "HOLDALL_REAL_MODELS": "off",
        }
        ran = subprocess.run(
            ["bash", "-c", command],
            env=env,
            cwd=self.home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            check=False,
        )
        return ran.stdout.decode("utf-8")

    def learn(self, expected: str, printed: str) -> None:
        """Pair the handles that are new on both sides, in the order in which they appear."""
        known = set(self.handles) | set(self.handles.values())
        made = set(_made(self.home))
        said = [word for word in dict.fromkeys(_HANDLE.findall(expected)) if word not in known and _is_said(word)]
        real = [word for word in dict.fromkeys(_HANDLE.findall(printed)) if word in made and word not in known]
        self.handles.update(zip(said, real, strict=False))

    def as_said(self, printed: str) -> str:
        for said, real in self.handles.items():
            printed = re.sub(rf"\b{real}\b", said, printed)
        return printed


def _made(home: Path) -> list[str]:
    return [path.stem for path in home.glob("kept/session-*/*.record")]


def _is_said(word: str) -> bool:
    """A word of a page that can be a handle: pages write theirs with a digit in it."""
    return any(sign.isdigit() for sign in word)


def plain(text: str) -> str:
    for pattern, stand_in in _VARIABLE:
        text = pattern.sub(stand_in, text)
    return text.strip("\n")


def agrees(expected: str, printed: str) -> bool:
    """Whether the page's text is what was printed, `…` lines standing for any lines."""
    parts = [re.escape(plain(part)) for part in re.split(r"^…\n", expected, flags=re.MULTILINE)]
    return re.fullmatch(r"\n?.*?".join(parts), plain(printed), re.DOTALL) is not None


def update(path: Path, home: Path) -> None:
    """Run the page and write what its commands print into it, its handles renamed to the ones that pages use."""
    names = iter(["k3f9", "p8x2", "t5m4", "b7c4", "g6r3", "w9d5", "n4j8", "z2q7"])
    page = Page(path, home)
    steps = iter(page.steps())

    def rewrite(block: re.Match[str]) -> str:
        lines: list[str] = []
        before = block[1].splitlines()
        for at, line in enumerate(before):
            if line.startswith("$ "):
                lines.append(line)
                lines += itertools.takewhile(lambda more: more.startswith("> "), before[at + 1 :])
                step = next(steps)
                if step.expected == "…\n":
                    page.run(step)
                    lines.append("…")
                    continue
                printed = page.run(step)
                known = set(page.handles.values())
                for real in dict.fromkeys(_HANDLE.findall(printed)):
                    if real in _made(home) and real not in known:
                        page.handles[next(names)] = real
                lines += plain_lines(page.as_said(printed))
        return "```console\n" + "\n".join(lines) + "\n```"

    path.write_text(_BLOCK.sub(rewrite, path.read_text("utf-8")), "utf-8")


def plain_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip("\n").split("\n")] if text.strip() else []


if __name__ == "__main__":
    import tempfile

    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            update(Path(name), Path(folder))
