"""The process that runs SQL, as the rest of Holdall sees it: started when first needed, used again, killed when late;
and one request on its way, with what it reads instead where its source cannot be read.
"""

import contextlib
import copy
import json
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from holdall.formats.registry import format_of
from holdall.sql.results import is_mendable
from holdall.sql.source import Check, LastSources, Source, kind_so_far, lines_of, source_of
from holdall.store.deadline import Deadline
from holdall.store.protocol import OutputReader
from holdall.text.json.reader import begins_json
from holdall.values.errors import OutOfTime, WorkerFault
from holdall.values.patterns import lazy_pattern

# The process that runs SQL, as the rest of Holdall sees it: started when first needed, used again, killed when late.
#
# SQL may take any time and any memory, and only the end of its process stops it for sure. One query of a session runs
# at a time; in a pool those of some sessions, and no session keeps the others from their turn. A process that was
# killed or died is replaced by the next query. This module knows nothing of SQL: it carries a request and descriptors
# over, and answers back.


_LENGTH_BYTES = 4
_SEND_SECONDS = 30.0  # for a request to be read by an idle process
_COUNTING = 0.75  # of what is left of the time
_AT_ONCE = 4  # queries of a pool
_REMEMBERED = 1000  # sessions
_GRACE = 2.0  # seconds between the end of the connection and the end of the process
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from holdall.sql.child import main; main()"

Answer = dict[str, Any]
Each = Callable[[Answer], object]


class Turns:
    """A process, or room for one, for each query that runs. Next is the session whose last turn is longest ago, however
    often another asks.
    """

    def __init__(self) -> None:
        self.rooms: tuple[list[_Process], ...] = tuple([] for _ in range(_AT_ONCE))  # each has one process, or none
        self._free = [*self.rooms]
        self.waiting: list[tuple[str, object]] = []
        self._busy: set[str] = set()
        self._before: OrderedDict[str, None] = OrderedDict()  # who has had a turn, the last one last
        self._changed = threading.Condition()

    def take(self, whose: str, deadline: Deadline) -> "list[_Process]":
        """Raises OutOfTime where the turn of this session does not come in time."""
        me = whose, object()
        with self._changed:
            self.waiting.append(me)
            try:
                while self._next() is not me:
                    self._changed.wait(deadline.wait_seconds())
                return self._taken(whose)
            finally:
                self.waiting.remove(me)
                self._changed.notify_all()

    def take_now(self, whose: str) -> "list[_Process] | None":
        with self._changed:
            is_free = self._free and not self.waiting and whose not in self._busy
            return self._taken(whose) if is_free else None

    def _taken(self, whose: str) -> "list[_Process]":
        self._busy.add(whose)
        self._before[whose] = None
        self._before.move_to_end(whose)
        if len(self._before) > _REMEMBERED:
            self._before.popitem(last=False)
        return self._free.pop()

    def give(self, whose: str, room: "list[_Process]") -> None:
        with self._changed:
            self._busy.discard(whose)
            self._free.append(room)  # which is used first: mostly one process is enough
            self._changed.notify_all()

    def over(self) -> None:
        """Until nothing runs."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._free) == len(self.rooms))

    def _next(self) -> tuple[str, object] | None:
        ready = [one for one in self.waiting if one[0] not in self._busy] if self._free else []
        turns = {whose: number for number, whose in enumerate(self._before)} if len(ready) > 1 else {}
        return min(ready, key=lambda one: turns.get(one[0], -1), default=None)


class SqlWorker:
    """Close it when the session ends, or the pool; where that is forgotten, its processes end with this one."""

    def __init__(self) -> None:
        self.last_sources = LastSources()
        self._whose = ""
        self.turns = Turns()
        self._closed = threading.Event()
        self._finalizer = weakref.finalize(self, _end_each, self.turns.rooms)

    def of(self, session: str) -> "SqlWorker":
        """The same, for queries of this session."""
        own = copy.copy(self)
        own._whose = session
        return own

    @property
    def pid(self) -> int | None:
        """A process that runs; None if there is none yet, or none any more."""
        return next((one.pid for room in self.turns.rooms for one in room), None)

    def start(self) -> None:
        """Begin to start the process where there is none: meanwhile what it reads is prepared."""
        room = self.turns.take_now(self._whose)
        if room is not None:
            try:
                self._ensure_process(room)
            finally:
                self.turns.give(self._whose, room)

    def ask(
        self, request: dict[str, Any], descriptors: Sequence[int], *, deadline: Deadline, each: Each | None = None
    ) -> Answer:
        """The answer to a request. Where rows are left to count, its `total` is their number, or None if it came late.

        `each` gets the answer with its first rows, then further `rows` as they come, for a request without `max_rows`.

        Raises OutOfTime after `deadline`, and WorkerFault where the process dies or its turn never came.
        """
        try:
            room = self.turns.take(self._whose, deadline)
        except OutOfTime as late:
            if deadline.is_cancelled:
                raise
            raise WorkerFault(
                f"other queries ran for {late.seconds:g} s, all that this one had: it did not begin. Try again."
            ) from None
        try:
            return self._ask(room, json.dumps(request).encode(), descriptors, deadline, each)
        except BaseException:
            _end_all(room)  # it may still be at work on what nobody waits for
            raise
        finally:
            self.turns.give(self._whose, room)

    def close(self) -> None:
        """End the processes, also in the middle of a query."""
        self._closed.set()
        for room in self.turns.rooms:
            for process in tuple(room):
                process.hang_up()
        self.turns.over()
        self._finalizer()
        self.last_sources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self, room: "list[_Process]", request: bytes, descriptors: Sequence[int], deadline: Deadline, each: Each | None
    ) -> Answer:
        process = self._send(room, request, descriptors, deadline)
        answer = process.receive(deadline)
        if each is not None and "error" not in answer:
            return self._passed_on(process, answer, each, deadline)
        if "error" not in answer and answer["total"] is None:
            # Rows that are here are not lost for a count: what is left of the time may be needed to show them.
            counting = Deadline(_COUNTING * (deadline.ends - deadline.clock()), outer=deadline)
            try:
                answer |= process.receive(counting)
            except OutOfTime:
                if deadline.is_cancelled:
                    raise
                _end_all(room)
        return answer

    def _passed_on(self, process: "_Process", answer: Answer, each: Each, deadline: Deadline) -> Answer:
        """To who wants the rows as they come: the answer is without them."""
        part, total = answer, answer["total"]
        while True:
            each(part)
            deadline.renew()  # what was passed on is there, and who reads it may take any time
            if total is not None:
                return answer | {"rows": [], "total": total, "more": False}
            part = process.receive(deadline)
            if "error" in part:
                return part | {"late": True}
            total = part.get("total")
            part = answer | {"rows": part.get("rows", [])}

    def _ensure_process(self, room: "list[_Process]") -> "_Process":
        if self._closed.is_set():
            raise WorkerFault("the session has ended; no more queries are run.")
        if not room or not room[0].is_usable():
            _end_all(room)
            room.append(_Process())
        return room[0]

    def _send(
        self, room: "list[_Process]", request: bytes, descriptors: Sequence[int], deadline: Deadline
    ) -> "_Process":
        """Hand the request over to a process that confirms it. One that died while it was idle is replaced."""
        for again in (True, False):
            process = self._ensure_process(room)
            try:
                process.send(request, descriptors, deadline)
                process.receive(deadline)
                return process
            except OutOfTime:
                raise
            except WorkerFault:
                _end_all(room)
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

    def send(self, request: bytes, descriptors: Sequence[int], deadline: Deadline) -> None:
        """Only to a process that is idle, which reads it at once."""
        try:
            deadline.check()
            self._connection.settimeout(_SEND_SECONDS)
            socket.send_fds(self._connection, [b"?"], list(descriptors))
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


def _end_each(rooms: "Sequence[list[_Process]]") -> None:
    for room in rooms:
        _end_all(room)


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
_LINES = lazy_pattern(r"(?i)\b(?:line_no|text)\b")


class Part:
    """One output of a request: its reader, and how it is read: as what it is, mended, rewritten, or as lines."""

    def __init__(
        self, reader: OutputReader, names: Sequence[str], at: str | None = None, forced: str | None = None
    ) -> None:
        self.reader = reader
        self.names = list(names)
        self.at = at
        self.forced = forced  # the kind that it is read as
        self.reading: Literal["", "mended", "rewritten", "lines"] = ""
        self.why = ""  # it is read otherwise than as what it is
        self.is_mendable = True

    @property
    def kind(self) -> str:
        return self.forced or kind_so_far(self.reader)

    @property
    def key(self) -> tuple[object, ...]:
        facts = self.reader.facts
        output = (facts.handle, facts.id, facts.measure.sha256, facts.state, self.reader.totals)
        return (*output, self.at, self.forced, self.reading)

    def source(self, check: Check) -> Source:
        if self.reading == "lines":
            return lines_of(self.reader, check)
        how = {"mend": self.reading == "mended", "rewrite": self.reading == "rewritten"}
        return source_of(self.reader, self.at, check, forced=self.forced, **how)

    def begins_as_json(self) -> bool:
        start = self.reader.read(0, _BEGINNING).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
        return start[:1] in ("{", "[") and begins_json(start)


class SqlRequest:
    """`answer` gives what the process says, and the notes on how the outputs were read. The first part is t."""

    def __init__(
        self, parts: Sequence[Part], request: dict[str, Any], worker: SqlWorker, deadline: Deadline,
        each: Each | None = None,
    ) -> None:  # fmt: skip
        self.each = each
        self.worker = worker
        self._parts = parts
        self._request = request
        self._deadline = deadline

    def answer(self) -> tuple[Answer, list[str]]:
        answer, notes = self._ask()
        while (part := self._to_read_otherwise(answer)) is not None:
            before = answer, notes
            answer, notes = self._ask()
            if part.reading == "mended" and answer.get("error") == "source" and answer["table"] == part.names[0]:
                part.reading, part.is_mendable, part.why = "", False, ""
                answer, notes = before
        for part in self._parts:
            if not part.reading and part.at is None and part.kind == "text" and part.begins_as_json():
                part.why = _NOT_WHOLE
            if answer.get("error") == "source" and answer["table"] == part.names[0]:
                answer["has_lines"] = part.at is None and part.kind == "json"
            if part.why and part.reading != "mended":
                answer["message"] = f"{answer.get('message', '').rstrip('.')}. {part.why}"
        return answer, notes + [part.why for part in self._parts if part.why]

    def _to_read_otherwise(self, answer: Answer) -> Part | None:
        """The part to read in another way, so that there may be an answer; None if this one stays."""
        for part in self._parts:
            if answer.get("late"):  # rows are passed on already
                return None
            is_refused = answer.get("error") == "source" and answer["table"] == part.names[0]
            if part.reading != "lines" and is_refused and part.is_mendable and is_mendable(answer["message"]):
                part.reading, part.why = "mended", _MENDED
                return part
            kind = part.kind
            if part.reading == "lines" or part.at is not None or not format_of(kind).has_lines:
                continue
            names_lines = kind == "json" and _LINES.search(self._request["sql"]) is not None
            if answer.get("missing") in ("line_no", "text") or (is_refused and names_lines):
                # Who names line_no knows it already.
                why = "" if "line_no" in self._request["sql"] else "t is read as lines: line_no, text."
            elif is_refused and not part.reading and kind in ("csv", "tsv"):
                part.reading = "rewritten"  # row by row, as the notice has it
                return part
            elif is_refused and kind != "json":
                # Some line is not like the others. Lines can always be read, and nothing of them is left out.
                hint = " json_valid(text) tells the lines that are JSON, text->>'$.name' reads them."
                hint *= kind == "ndjson"
                why = f"Not all of it is {kind}, so t has its lines, as line_no, text.{hint} ({answer['message']})"
            else:
                continue
            part.reading, part.why = "lines", why
            return part
        return None

    def _ask(self) -> tuple[Answer, list[str]]:
        sources: dict[tuple[object, ...], Source] = {}
        notes: list[str] = []
        try:
            if self._parts[0].kind in ("csv", "tsv", "table"):  # it takes time to tell its columns
                self.worker.start()
            for part in self._parts:
                known = self.worker.last_sources.take(part.key, part.reader)
                sources[part.key] = source = known or part.source(self._deadline.check)
                part.why = part.why or source.why
                notes += [note for note in source.notes if note not in notes]
            shapes = [
                source.shape | {"tables": part.names}
                for part, source in zip(self._parts, sources.values(), strict=True)
            ]
            request = {**self._request, "shapes": shapes}
            descriptors = [source.descriptor for source in sources.values()]
            return self.worker.ask(request, descriptors, deadline=self._deadline, each=self.each), notes
        finally:
            self.worker.last_sources.keep(sources)
