"""Asking the user about a file that names what would run or be sent, for every command that reads one."""

from __future__ import annotations

import functools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdall.cli import show as screen
from holdall.text.escape import for_people, one_line

if TYPE_CHECKING:
    from holdall.cli.options import Options
    from holdall.trust import Agreements, Claims

Trust = Annotated[
    bool, typer.Option("--trust", help="Run what the file names without asking, this time. Look at it first.")
]


def agreements() -> Agreements:
    from holdall.config import own_folder
    from holdall.trust import Agreements

    return Agreements(own_folder())


def agreement(options: Options, *, trust: bool, command: str = "", asks: bool = True) -> Callable[[Claims], bool]:
    """A function that raises NotTrusted unless the user agrees, now or before, to what a file claims.

    It returns whether the files are to stay as they are: those that the user's own file names may change.

    `command` is what to run in a terminal to be asked. The flag `--trust` is for one run and is not remembered; what a
    person answers in a terminal is, until the file or what it names changes.
    """
    from holdall.config import key_urls, own_folder
    from holdall.trust import check_agreed, check_keys, is_own

    def check(claims: Claims) -> bool:
        known = agreements()
        folders = (own_folder(),)
        # A link to an own file names what is beside the link: the folder that it is given in has to be own, too.
        beside = os.path.join(os.path.dirname(os.path.abspath(claims.path)), "any")
        if (is_own(claims.path, folders) and is_own(beside, folders)) or known.holds(claims, keys=True):
            return False
        found = options.configuration()
        check_keys(claims, key_urls(found.settings), file=found.file)
        # A client that was started in a terminal has one, too: only where we read from it is somebody asked.
        terminal = asks and screen.is_terminal(sys.stderr) and sys.stdin.isatty()
        ask = functools.partial(_asked, claims.path) if terminal else None
        check_agreed(claims, known, trust=trust, ask=ask, command=command)
        return True

    return check


def _asked(path: str, lines: Sequence[str]) -> bool:
    """A screen at a time: what has scrolled away was not read. Passwords too: what looks like one may be code."""
    try:
        columns, lines_shown = os.get_terminal_size(sys.stderr.fileno())
    except OSError:
        columns = lines_shown = 0
    if not columns or not lines_shown:  # some terminals do not say
        columns, lines_shown = shutil.get_terminal_size()
    said = [f"{one_line(path, 500)} names what will run as you, or be sent:", *lines]
    rows = [row for line in said for row in _rows(line, columns)]
    height = max(4, lines_shown - 2)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # the loop would hold Ctrl-C back
    try:
        while True:
            shown, rows = rows[:height], rows[height:]
            for row in shown:
                print(screen.paint(for_people(row), "dim", sys.stderr), file=sys.stderr)
            if not rows:
                break
            if _answer(f"{len(rows)} more rows: Enter shows them, anything else ends.") != "\n":
                return False
        asked = "Agree to exactly this, until a watched file changes? Other files are not watched. [y/N]"
        return _answer(asked).strip().lower() in ("y", "yes")
    finally:
        signal.signal(signal.SIGINT, before)


def _answer(question: str) -> str:
    sys.stderr.write(f"{question} ")
    sys.stderr.flush()
    return sys.stdin.readline()


def _rows(line: str, columns: int) -> Iterator[str]:
    """As wide as the terminal at most. A terminal's own next row has no margin, and could look like a line of ours."""
    row, width, most = "", 0, max(20, columns - 1)
    for sign in line:
        wide = 1 if sign.isascii() else 2  # at most
        if width + wide > most:
            yield row
            row, width = "  | ", 4
        row, width = row + sign, width + wide
    yield row
