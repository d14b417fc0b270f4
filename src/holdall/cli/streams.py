"""The three standard streams as every command may count on them, whatever the shell has done to them."""

import contextlib
import errno
import io
import os
import select
import signal
import sys
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, TextIO, cast

from holdall.values.errors import StoreFault, UsageError

if TYPE_CHECKING:
    import asyncio

# One that is closed is opened on nothing, before anything else opens a file: else the next file would be standard
# output. An error on standard output is reported once; errors on standard error are ignored.


STDIN, STDOUT, STDERR = 0, 1, 2
_closed: set[int] = set()  # those that the shell gave us closed


class StdoutError(StoreFault):
    """Standard output refused: a full disk, a terminal that is gone. That nobody reads any more is not an error."""


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
    """Discard what is left for standard output."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
    with contextlib.suppress(OSError, StoreFault):
        sys.stdout.flush()


def check_stdout() -> None:
    """Raises StdoutError if the shell gave us standard output closed: for commands that do nothing but print."""
    if is_closed(STDOUT):
        raise stdout_error(OSError(errno.EBADF, os.strerror(errno.EBADF)))


def stdout_error(problem: OSError) -> StdoutError:
    reason = os.strerror(problem.errno) if problem.errno else str(problem)
    return StdoutError(f"standard output cannot be written: {reason}.")


class _Output(io.FileIO):
    """Errors of standard output get their own class, because `print` is called everywhere."""

    def write(self, data: Any, /) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        try:
            while rest:  # without a buffer above, nobody else continues where a pipe took a part
                written: int | None = super().write(rest)
                if written is None:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                rest = rest[written:]
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise stdout_error(problem) from problem
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
    """The same kind of stream as Python made of it, on `raw`; what it cannot encode is written as escapes."""
    if before is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", newline="\n")
    old = cast("io.TextIOWrapper", before)
    # Unbuffered (PYTHONUNBUFFERED) is without a buffer: `write_through` alone only reaches the next one.
    below: Any = raw if old.write_through else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        below, encoding=old.encoding, errors="backslashreplace", newline="\n",
        line_buffering=old.line_buffering, write_through=old.write_through,
    )  # fmt: skip


# Standard input that a signal can end: what has come is given out, what has not is no longer waited for.


_LAST_BYTES = 1024 * 1024  # as much as a pipe holds: what was written before the signal is taken after it
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Raised by a read once we were asked to end."""


class StandardInput:
    """Straight from its descriptor; read by one thread, ended by another. Raises UsageError if it is closed."""

    def __init__(self, what: str) -> None:
        if is_closed(STDIN):
            raise UsageError(f"{what} reads standard input, and that is closed: pipe something into it.")
        self._wakes, self._waker = os.pipe()
        self._stopped = False
        self._is_at_end = False
        self._left = _LAST_BYTES
        self._taken: list[signal.Signals] = []
        self._loop: asyncio.AbstractEventLoop
        self.ended_by = 0  # the signal

    def fileno(self) -> int:
        return STDIN

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end, so that a slow pipe does not make many small pieces."""
        parts: list[bytes] = []
        while size > 0 and (part := self._some(size)):
            parts.append(part)
            size -= len(part)
        return self._given(b"".join(parts))

    def read_some(self, size: int) -> bytes:
        """What there is, as soon as there is something."""
        return self._given(self._some(size))

    def _given(self, data: bytes) -> bytes:
        if self._stopped and not data:
            raise Interrupted("it was not at its end")
        return data

    def _some(self, size: int) -> bytes:
        while True:
            # Once stopped nothing is waited for: only what is in the pipe already is taken.
            ready, _, _ = select.select([STDIN, self._wakes], [], [], 0 if self._stopped else None)
            if self._stopped and (STDIN not in ready or self._left <= 0):
                return b""
            if STDIN not in ready:
                continue
            with contextlib.suppress(BlockingIOError):
                part = os.read(STDIN, size)
                self._left -= len(part) if self._stopped else 0
                self._is_at_end = not part
                return part

    def check_end(self) -> None:
        """Raises Interrupted if all was read and we were asked to end before this. From the thread that reads.

        A Ctrl-C ends the writer as well, and the end of what it wrote may be seen before the signal.
        """
        import asyncio

        if self._is_at_end:
            # The loop takes what has come for it first, and a signal is among that as soon as it is sent.
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), self._loop).result()
            if self._stopped:
                raise Interrupted("its writer may have been interrupted as well")

    def stop(self, number: int) -> None:
        """From another thread, any number of times."""
        self._stopped, self.ended_by = True, self.ended_by or number
        os.write(self._waker, b".")

    @contextlib.asynccontextmanager
    async def interrupted_by_signals(self) -> AsyncGenerator[None]:
        """Until the block ends, or `release`, whoever asks us to end ends only this input.

        What is ignored stays ignored.
        """
        import asyncio  # not for every command, only for those that read standard input

        loop = self._loop = asyncio.get_running_loop()
        self._taken = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in self._taken:
            loop.add_signal_handler(number, self.stop, number)
        try:
            # A Ctrl-C from before this is for all of us, and comes here, where nothing waits yet.
            await asyncio.sleep(0)
            yield
        finally:
            self.release()
            os.close(self._wakes)
            os.close(self._waker)

    def release(self) -> None:
        """The input is over: signals are no longer about it."""
        for number in self._taken:
            self._loop.remove_signal_handler(number)
        self._taken = []
