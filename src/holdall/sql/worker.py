"""The process that runs SQL, as the rest of Holdall sees it: started when first needed, used again, killed when late;
and one request on its way, with what it reads instead where its source cannot be read.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from holdall.formats.registry import format_of
from holdall.sql.results import is_mendable
from holdall.sql.source import LastSource, kind_so_far, lines_of, source_of
from holdall.store.deadline import Deadline
from holdall.store.protocol import OutputReader
from holdall.text.json.reader import begins_json
from holdall.values.errors import OutOfTime, WorkerFault

# The process that runs SQL, as the rest of Holdall sees it: started when first needed, used again, killed when late.
#
# SQL may take any time and any memory, and only the end of its process stops it for sure. One query runs at a time;
# others wait their turn. A process that was killed or died is replaced by the next query. This module knows nothing of
# SQL: it carries a request and a descriptor over, and answers back.


_LENGTH_BYTES = 4
_SEND_SECONDS = 30.0  # for a request to be read by an idle process
_COUNTING = 0.75  # of what is left of the time
_GRACE = 2.0  # seconds between the end of the connection and the end of the process
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from holdall.sql.child import main; main()"

Answer = dict[str, Any]


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
        """The process that runs; None if there is none yet, or none any more."""
        return self._running[0].pid if self._running else None

    def ask(self, request: dict[str, Any], descriptor: int, *, deadline: Deadline) -> Answer:
        """The answer to a request. Where rows are left to count, its `total` is their number, or None if it came late.

        Raises OutOfTime after `deadline`, and WorkerFault where the process dies.
        """
        while not self._turn.acquire(timeout=deadline.wait_seconds()):
            pass
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

    def _ask(self, request: bytes, descriptor: int, deadline: Deadline) -> Answer:
        process = self._send(request, descriptor, deadline)
        answer = process.receive(deadline)
        if "error" not in answer and answer["total"] is None:
            # Rows that are here are not lost for a count: what is left of the time may be needed to show them.
            counting = Deadline(_COUNTING * (deadline.ends - deadline.clock()), outer=deadline)
            try:
                answer |= process.receive(counting)
            except OutOfTime:
                if deadline.is_cancelled:
                    raise
                _end_all(self._running)
        return answer

    def _send(self, request: bytes, descriptor: int, deadline: Deadline) -> "_Process":
        """Hand the request over to a process that confirms it. One that died while it was idle is replaced."""
        for again in (True, False):
            if self._closed:
                raise WorkerFault("the session has ended; no more queries are run.")
            if not self._running or not self._running[0].is_usable():
                _end_all(self._running)
                self._running.append(_Process())
            process = self._running[0]
            try:
                process.send(request, descriptor, deadline)
                process.receive(deadline)
                return process
            except OutOfTime:
                raise
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

    def send(self, request: bytes, descriptor: int, deadline: Deadline) -> None:
        """Only to a process that is idle, which reads it at once."""
        try:
            deadline.check()
            self._connection.settimeout(_SEND_SECONDS)
            socket.send_fds(self._connection, [b"?"], [descriptor])
            self._connection.sendall(len(request).to_bytes(_LENGTH_BYTES, "big") + request)
        except TimeoutError:
            raise OutOfTime(deadline.seconds) from None
        except OSError:
            raise self._died() from None

    def receive(self, deadline: Deadline) -> Answer:
        try:
            size = int.from_bytes(self._exactly(_LENGTH_BYTES, deadline), "big")
            return json.loads(self._exactly(size, deadline))
        except OSError:
            raise self._died() from None

    def hang_up(self) -> None:
        """Close the connection; the process ends when it notices."""
        with contextlib.suppress(OSError):  # it may have gone already
            self._connection.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """It has no state to lose, so it is killed."""
        self._connection.close()
        if self._owner == os.getpid():
            self._popen.kill()
            self._popen.wait()

    def _exactly(self, size: int, deadline: Deadline) -> bytes:
        received = bytearray()
        while len(received) < size:
            self._connection.settimeout(deadline.wait_seconds())
            try:
                piece = self._connection.recv(min(size - len(received), 1 << 20))
            except TimeoutError:
                continue
            if not piece:
                raise ConnectionResetError
            received += piece
        return bytes(received)

    def _died(self) -> WorkerFault:
        try:
            code = self._popen.wait(timeout=_GRACE)
        except subprocess.TimeoutExpired:
            code = 0
        how = f" (signal {-code})" if code < 0 else ""
        return WorkerFault(
            f"the process that ran the query died{how}, perhaps out of memory. Ask for less at a time; "
            "the next query gets a new process."
        )


def _end_all(processes: "list[_Process]") -> None:
    while processes:
        processes.pop().end()


def _import_paths() -> list[str]:
    """Where this process imports from, and where Holdall itself lies, however it was found."""
    own = str(Path(__file__).resolve().parents[2])
    return [*dict.fromkeys([*(os.path.abspath(path) for path in sys.path), own])]


# One request for SQL on its way: which source it reads, and what it reads instead where that cannot be read.


_MENDED = (
    "In t halves of surrogate pairs (\\ud83d alone) stand as U+FFFD and raw control characters as spaces: the JSON has "
    "such, and strict readers refuse them. A path gives texts as they are."
)

_NOT_WHOLE = (
    "It begins like JSON and is not JSON to its end, so t has its lines, as line_no, text. A path, such as $[*], reads "
    "the values that are there."
)
_BEGINNING = 64 * 1024


class SqlRequest:
    """`answer` gives what the process says, and the notes on how the output was read."""

    def __init__(self, reader: OutputReader, request: dict[str, Any], worker: SqlWorker, deadline: Deadline) -> None:
        self.worker = worker
        self._reader = reader
        self._request = request
        self._deadline = deadline

    def answer(self, at: str | None) -> tuple[Answer, list[str]]:
        answer, notes = self._from(at)
        if answer.get("error") == "source" and is_mendable(answer["message"]):
            mended, found = self._from(at, mend=True)
            if mended.get("error") != "source":
                answer, notes = mended, [*found, _MENDED]
        if at is not None:
            return answer, notes
        kind = kind_so_far(self._reader)
        if kind == "text" and self._begins_as_json():
            answer["message"] = f"{answer.get('message', '').rstrip('.')}. {_NOT_WHOLE}"
            return answer, [*notes, _NOT_WHOLE]
        if not format_of(kind).table:
            return answer, notes
        if answer.get("missing") in ("line_no", "text"):
            why = "The SQL names the lines of the output, so t has those, as line_no, text."
        elif answer.get("error") == "source" and kind != "json":
            # Some line is not like the others. Lines can always be read, and nothing of them is left out.
            hint = " json_valid(text) tells the lines that are JSON, text->>'$.name' reads them." * (kind == "ndjson")
            why = f"Not all of it is {kind}, so t has its lines, as line_no, text.{hint} ({answer['message']})"
        else:
            return answer, notes
        answer, notes = self._from(at, lines=True)
        answer["message"] = f"{answer.get('message', '').rstrip('.')}. {why}"
        return answer, [*notes, why]

    def _from(self, at: str | None, *, lines: bool = False, mend: bool = False) -> tuple[Answer, list[str]]:
        facts = self._reader.facts
        key = (facts.id, facts.measure.sha256, facts.state, self._reader.totals, at, lines, mend)
        source = self.worker.last_source.take(key, self._reader)
        if source is None:
            source = (
                lines_of(self._reader, self._deadline.check)
                if lines
                else source_of(self._reader, at, self._deadline.check, mend=mend)
            )
        try:
            request = {**self._request, "shape": source.shape}
            return self.worker.ask(request, source.descriptor, deadline=self._deadline), source.notes
        finally:
            self.worker.last_source.keep(key, source)

    def _begins_as_json(self) -> bool:
        start = self._reader.read(0, _BEGINNING).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
        return start[:1] in ("{", "[") and begins_json(start)
