"""An agent's file as text: read from disk, and taken apart into its front matter and its body.

A file names code to import and commands to start, so one that anybody can write to is refused. Nothing here knows what
the front matter means.
"""

import difflib
import os
import stat
from dataclasses import dataclass, field
from typing import Any

from holdall.text.escape import one_line
from holdall.values.errors import WrongUse

_LARGEST_FILE = 1024 * 1024
_LARGEST_FRONT_MATTER = 64 * 1024
_FENCE = "---"

Path = tuple[str, ...]


class NotYaml(ValueError):
    """`line` and `column` count from 1, within the text that was given."""

    def __init__(self, what: str, line: int, column: int) -> None:
        self.what = what
        self.line = line
        self.column = column
        super().__init__(what)


@dataclass(frozen=True, slots=True)
class Document:
    """`lines` has the line of every key, under the keys that lead to it; lists have no lines of their own."""

    value: Any
    lines: dict[Path, int] = field(default_factory=dict[Path, int])


def read(path: str) -> str:
    """All of it, as UTF-8 without a mark at its beginning, with plain line ends."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise WrongUse(f"there is no agent's file {one_line(path)}.{similar(path)}") from None
    except (OSError, ValueError) as problem:  # a ValueError for a NUL in the path
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise WrongUse(f"the agent's file {one_line(path)} cannot be read: {why}.") from problem
    try:
        _refuse_what_others_can_change(path, os.fstat(descriptor))
        data = os.read(descriptor, _LARGEST_FILE + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST_FILE:
        raise WrongUse(f"the agent's file {one_line(path)} is larger than {_LARGEST_FILE:,} bytes.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise WrongUse(f"the agent's file {one_line(path)} is not UTF-8 (byte {problem.start}).") from problem


def _refuse_what_others_can_change(path: str, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise WrongUse(f"the agent's file {one_line(path)} is not a regular file.")
    if about.st_mode & 0o002 or about.st_uid not in (os.geteuid(), 0):
        raise WrongUse(
            f"anybody can write to the agent's file {one_line(path)}, or it belongs to somebody else, and it names "
            f"code to run; so it is not read. Close it with: chmod o-w {one_line(path)}"
        )


def similar(path: str) -> str:
    """A file beside it whose name is nearly that, in words; empty where there is none."""
    folder, name = os.path.split(path)
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.7)
    return f" Did you mean {one_line(os.path.join(folder, near[0]))}?" if near else ""


def split(text: str, path: str) -> tuple[str | None, str]:
    """The front matter, None where there is none, and the body.

    Front matter stands between two lines `---`, the first of which is the first of the file. Later ones are the body's.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return None, _body(text)
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            front = "\n".join(lines[1:number])
            if len(front) > _LARGEST_FRONT_MATTER:
                rule = f"it may have {_LARGEST_FRONT_MATTER:,} characters"
                raise WrongUse(f"{one_line(path)}: the front matter has {len(front):,} characters; {rule}.")
            return front, _body("\n".join(lines[number + 1 :]))
    raise WrongUse(
        f"{one_line(path)}: the front matter begins on line 1 and does not end; a second line {_FENCE} ends it. A file "
        f"without front matter does not begin with {_FENCE}."
    )


def _body(text: str) -> str:
    return text.strip("\n").rstrip()
