"""The three standard streams as every command may count on them, whatever the shell has done to them.

One that is closed is opened on nothing, before anything else opens a file: else the next file would be standard output.
Standard output that refuses is told as such, by one error; standard error that refuses has nobody to be told.
"""

import contextlib
import errno
import io
import os
import sys
from typing import Any, TextIO, cast

from holdall.values.errors import StoreFault

STDIN, STDOUT, STDERR = 0, 1, 2
_closed: set[int] = set()  # those that the shell gave us closed


class NotPrinted(StoreFault):
    """Standard output refused: a full disk, a terminal that is gone. That nobody reads any more is no error."""


def prepare() -> None:
    """At the very start of the program."""
    for number in (STDIN, STDOUT, STDERR):
        if not _is_open(number):
            _closed.add(number)
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - so it is where it was closed
        sys.stdin = open(STDIN, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
    sys.stdout = _text(_Output(STDOUT, "wb", closefd=False), sys.stdout)
    sys.stderr = _text(_Diagnostics(STDERR, "wb", closefd=False), sys.stderr)


def is_closed(number: int) -> bool:
    """Whether the shell gave us that stream closed; it reads and writes nothing now."""
    return number in _closed


def drop_output() -> None:
    """What is left for standard output has nowhere to go."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    with contextlib.suppress(OSError, StoreFault):
        sys.stdout.flush()


def not_printed(problem: OSError) -> NotPrinted:
    reason = os.strerror(problem.errno) if problem.errno else str(problem)
    return NotPrinted(f"standard output cannot be written: {reason}.")


class _Output(io.FileIO):
    """Its errors are told from all others: `print` is called everywhere."""

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:  # without a buffer above, nobody else goes on where a pipe took a part
                written: int | None = super().write(rest)
                if written is None:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                rest = rest[written:]
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise not_printed(problem) from problem
        return size


class _Diagnostics(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _text(raw: io.FileIO, before: TextIO | None) -> TextIO:
    """The same kind of stream as Python made of it, on `raw`."""
    if before is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="replace", newline="\n")
    old = cast("io.TextIOWrapper", before)
    # Unbuffered (PYTHONUNBUFFERED) is without a buffer: `write_through` alone only reaches the next one.
    below: Any = raw if old.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        below, encoding=old.encoding, errors=old.errors, newline="\n",
        line_buffering=old.line_buffering, write_through=old.write_through,
    )  # fmt: skip
