"""Standard input that a signal can end: what has come is given out, what has not is no longer waited for."""

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import AsyncGenerator

from holdall.cli import streams
from holdall.values.errors import WrongUse

_LAST_BYTES = 1024 * 1024  # as much as a pipe holds: what was written before the signal is taken after it
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Raised by a read once we were asked to end."""


class StandardInput:
    """Straight from its descriptor; read by one thread, ended by another. Raises WrongUse where it is closed."""

    def __init__(self, what: str) -> None:
        if streams.is_closed(streams.STDIN):
            raise WrongUse(f"{what} reads standard input, and that is closed: pipe something into it.")
        self._wakes, self._waker = os.pipe()
        self._stopped = False
        self._left = _LAST_BYTES
        self._taken: list[signal.Signals] = []
        self.ended_by = 0  # the signal

    def fileno(self) -> int:
        return streams.STDIN

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
            # Once stopped nothing is waited for: only what stands in the pipe already is taken.
            ready, _, _ = select.select([streams.STDIN, self._wakes], [], [], 0 if self._stopped else None)
            if self._stopped and (streams.STDIN not in ready or self._left <= 0):
                return b""
            if streams.STDIN not in ready:
                continue
            with contextlib.suppress(BlockingIOError):
                part = os.read(streams.STDIN, size)
                self._left -= len(part) if self._stopped else 0
                return part

    def stop(self, number: int) -> None:
        """From another thread, any number of times."""
        self._stopped, self.ended_by = True, self.ended_by or number
        os.write(self._waker, b".")

    @contextlib.asynccontextmanager
    async def ending_with_signals(self) -> AsyncGenerator[None]:
        """Until the block ends, or `release`, whoever asks us to end ends only this input.

        What is ignored stays ignored.
        """
        loop = asyncio.get_running_loop()
        self._taken = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        for number in self._taken:
            loop.add_signal_handler(number, self.stop, number)
        try:
            await asyncio.sleep(
                0
            )  # a Ctrl-C from before this is for all of us, and comes here, where nothing waits yet
            yield
        finally:
            self.release()
            os.close(self._wakes)
            os.close(self._waker)

    def release(self) -> None:
        """The input is over: signals are no longer about it."""
        for number in self._taken:
            asyncio.get_running_loop().remove_signal_handler(number)
        self._taken = []
