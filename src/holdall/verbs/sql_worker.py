"""The process that runs SQL, as the rest of Holdall sees it: started when first needed, used again, killed when late.

SQL may take any time and any memory, and only the end of its process stops it for sure. One query runs at a time;
others wait their turn. A process that was killed or died is replaced by the next query. This module knows nothing of
SQL: it carries a request and a descriptor over, and answers back.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdall.values.errors import WorkerFault
from holdall.verbs.sql_source import LastSource

_LENGTH_BYTES = 4
_GRACE = 2.0  # seconds between the end of the connection and the end of the process
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from holdall.verbs.sql_child import main; main()"

Answer = dict[str, Any]


class OutOfTime(Exception):
    """The answer did not come in time, or the turn did not."""


class SqlWorker:
    """Close it when the session ends; where that is forgotten, the process ends with this one."""

    def __init__(self) -> None:
        self.last_source = LastSource()
        self._turn = threading.Lock()
        self._running: list[_Process] = []  # one, or none
        self._closed = False
        self._finalizer = weakref.finalize(self, _end_all, self._running)

    @property
    def pid(self) -> int | None:
        """The process that runs; None where there is none yet, or none any more."""
        return self._running[0].pid if self._running else None

    def ask(self, request: dict[str, Any], descriptor: int, *, deadline: float) -> Answer:
        """The answer to a request. Where rows are left to count, its `total` is their number, or None if it came late.

        Raises OutOfTime after `deadline` (of time.monotonic), and WorkerFault where the process dies.
        """
        if not self._turn.acquire(timeout=max(0.0, deadline - time.monotonic())):
            raise OutOfTime
        try:
            return self._ask(json.dumps(request).encode(), descriptor, deadline)
        except BaseException:
            _end_all(self._running)  # it may still be at work on what nobody waits for
            raise
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the process, also in the middle of a query."""
        self._closed = True
        for process in self._running:
            process.hang_up()
        with self._turn:
            self._finalizer()
        self.last_source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, request: bytes, descriptor: int, deadline: float) -> Answer:
        process = self._send(request, descriptor, deadline)
        answer = process.receive(deadline)
        if "error" not in answer and answer["total"] is None:
            try:
                answer |= process.receive(deadline)
            except OutOfTime:
                _end_all(self._running)
        return answer

    def _send(self, request: bytes, descriptor: int, deadline: float) -> "_Process":
        """Hand the request over to a process that confirms it. One that died while it was idle is replaced."""
        for again in (True, False):
            if self._closed:
                raise WorkerFault("the session has ended; no further query is run.")
            if not self._running or not self._running[0].is_usable():
                _end_all(self._running)
                self._running.append(_Process())
            process = self._running[0]
            try:
                process.send(request, descriptor, deadline)
                process.receive(deadline)
                return process
            except WorkerFault:
                _end_all(self._running)
                if not again:
                    raise
        raise AssertionError("the loop returns or raises")


class _Process:
    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._connection = ours
        self._owner = os.getpid()
        try:
            # Isolated, without site: what the parent imports from is all that the child needs, and it starts faster.
            self._popen = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, *_import_paths()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is for the parent alone
            )
        except OSError as refused:
            ours.close()
            raise WorkerFault(f"the process that runs SQL cannot be started: {refused.strerror}.") from refused
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def is_usable(self) -> bool:
        """Alive, and ours: a fork of this process must not talk over the same connection."""
        return self._owner == os.getpid() and self._popen.poll() is None

    def send(self, request: bytes, descriptor: int, deadline: float) -> None:
        try:
            self._wait_until(deadline)
            socket.send_fds(self._connection, [b"?"], [descriptor])
            self._connection.sendall(len(request).to_bytes(_LENGTH_BYTES, "big") + request)
        except TimeoutError:
            raise OutOfTime from None
        except OSError:
            raise self._died() from None

    def receive(self, deadline: float) -> Answer:
        try:
            size = int.from_bytes(self._exactly(_LENGTH_BYTES, deadline), "big")
            return json.loads(self._exactly(size, deadline))
        except TimeoutError:
            raise OutOfTime from None
        except OSError:
            raise self._died() from None

    def hang_up(self) -> None:
        """Close the connection under whoever waits for it; the process ends when it notices."""
        with contextlib.suppress(OSError):  # it may have gone already
            self._connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """It keeps nothing that could be lost, so it is not asked."""
        self._connection.close()
        if self._owner == os.getpid():
            self._popen.kill()
            self._popen.wait()

    def _exactly(self, size: int, deadline: float) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._wait_until(deadline)
            piece = self._connection.recv(min(size - len(received), 1 << 20))
            if not piece:
                raise ConnectionResetError
            received += piece
        return bytes(received)

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)

    def _died(self) -> WorkerFault:
        try:
            code = self._popen.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            code = 0
        how = f" (signal {-code})" if code < 0 else ""
        return WorkerFault(
            f"the process that ran the query died{how}, perhaps for want of memory. Ask for less at a time; "
            "the next query gets a new process."
        )


def _end_all(processes: "list[_Process]") -> None:
    while processes:
        processes.pop().end()


def _import_paths() -> list[str]:
    """Where this process imports from, and where Holdall itself lies, however it was found."""
    own = str(Path(__file__).resolve().parents[2])
    return [*dict.fromkeys([*(os.path.abspath(path) for path in sys.path), own])]
