"""A search program, run: its output piece by piece, inside a time limit, and nothing of it left behind.

However the reading ends (to the end, by an error, because the caller has enough), the process is gone and
reaped, and every pipe is closed.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import suppress

from holdall.values.errors import BadPattern, WorkerFault
from holdall.verbs.engines.task import Command

_PIPE = 1 << 20
_GATHER = 0.002  # seconds: ripgrep writes 8 KiB at a time, and waking up for each costs more than reading them
_COMPLAINT = 4096  # bytes of standard error that are kept


def output_of(command: Command, *, seconds: float) -> Generator[bytes]:
    """Standard output as it comes. Close the generator (`contextlib.closing`) to stop the search."""
    started = time.monotonic()
    process = _start(command)
    try:
        reading = _Reading(process, iter(command.feed))
        yield from reading.pieces(started + seconds)
        code = process.wait(timeout=max(0.1, started + seconds - time.monotonic()))
        if code not in command.good_codes:
            raise _fault(code, reading.complaint)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise WorkerFault(
            f"the search was stopped after {seconds:g} seconds and gives no answer. "
            "Search for something narrower, or allow it more time."
        ) from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                with suppress(OSError):  # what was buffered for a dead process
                    stream.close()


def _start(command: Command) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command.arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pipesize=_PIPE,
            pass_fds=(command.descriptor,),
            env=command.environment,
            process_group=0,  # an interrupt on the terminal is ours to handle, once
        )
    except OSError as error:
        raise WorkerFault(f"the search program could not be started: {error.strerror or error}.") from error


class _Reading:
    """Writes the feed and reads both outputs, whichever is ready."""

    def __init__(self, process: subprocess.Popen[bytes], feed: Iterator[bytes]) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise LookupError("started with three pipes")
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._feed = feed
        self._pending = memoryview(b"")
        self.complaint = b""

    def pieces(self, deadline: float) -> Iterator[bytes]:
        os.set_blocking(self._stdin.fileno(), False)
        read = 0
        with selectors.DefaultSelector() as ready:
            ready.register(self._stdin, selectors.EVENT_WRITE)
            ready.register(self._stdout, selectors.EVENT_READ)
            ready.register(self._stderr, selectors.EVENT_READ)
            while ready.get_map():
                left = deadline - time.monotonic()
                for key, _ in ready.select(max(0.0, left)):
                    if key.fileobj is self._stdin:
                        self._write(ready)
                    elif key.fileobj is self._stderr:
                        self._hear(ready)
                    elif piece := os.read(key.fd, _PIPE):
                        read += len(piece)
                        yield piece
                        if read > _PIPE > 4 * len(piece):
                            time.sleep(_GATHER)
                    else:
                        ready.unregister(self._stdout)
                if left <= 0:
                    raise TimeoutError

    def _write(self, ready: selectors.BaseSelector) -> None:
        try:
            if not self._pending:
                self._pending = memoryview(next(self._feed))
            self._pending = self._pending[os.write(self._stdin.fileno(), self._pending) :]
        except (StopIteration, BrokenPipeError):  # all is fed, or nobody reads any more
            ready.unregister(self._stdin)
            self._stdin.close()

    def _hear(self, ready: selectors.BaseSelector) -> None:
        heard = os.read(self._stderr.fileno(), _COMPLAINT)
        if not heard:
            ready.unregister(self._stderr)
        self.complaint = (self.complaint + heard)[:_COMPLAINT]


def _fault(code: int, complaint: bytes) -> BadPattern | WorkerFault:
    said = " ".join(complaint.decode("utf-8", "replace").split())
    if code == 2 and "regex" in said:
        return BadPattern(f"the pattern cannot be run ({said[-200:]}). Write a smaller one.")
    if code < 0:
        return WorkerFault(f"the search program was killed by signal {-code}; perhaps it ran out of memory.")
    return WorkerFault(f"the search program failed with code {code}: {said[-300:] or 'it said nothing'}.")
