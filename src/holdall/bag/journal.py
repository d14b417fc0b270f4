"""The session's log as the bag uses it: every event is written, folded, and passed to the watchers."""

import asyncio
import contextlib
import importlib
import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

from holdall.policy.folds import OF_READERS, WAYS, Counters, Coverage, Ledger
from holdall.store.ids import new_tag
from holdall.store.protocol import Log, LogLines, OutputStore, SessionInfo
from holdall.text.escape import one_line
from holdall.values.errors import HoldallError, NeverStored, StoreFault
from holdall.values.events import Event, EventKind
from holdall.values.handles import MEMBER
from holdall.values.outputs import Facts

if TYPE_CHECKING:
    from holdall.background import Portal

# An event that the disk refuses is still folded, and written with the next one: no call fails because of the log. What
# can wait (that an output was shown whole, a turn, a call) is written with the next event that cannot, or within a
# second: a killed process loses at most that, and nothing about an output that is kept.


Watcher = Callable[[Event], None]
Idle = Callable[[], bool]
_MAX_WAITING = 256
_MOST_MEMBERS = 1000  # that are remembered
_LOOK_BYTES = 64 * 1024
# What was shown whole is all in the transcript, and after a turn or a call the model is asked: these wait for that.
_DEFERRABLE = ("inline", "turn", "called", "over")
_OF_NO_CONTENT = ("inline", "kept", "unkept", "begun", "over", "running", "ended", "turn", "removed")
_LONGEST_CALL = 600.0  # seconds; not every event says how long its call took
_WORDS = re.compile(r"\w+").findall
_FLUSH_SECONDS = 1.0  # seconds after which waiting events are written
_ENCODE = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode
_TEXT = json.encoder.encode_basestring_ascii
# When, tool, call id, seconds, chars, and what else its event says, all of it text: an output that was shown whole.
_Whole = tuple[float, str, str, float, int, Mapping[str, str]]

# How long ago the call ended that events are about: those of a turn are written when all of its calls have ended.
_AGO: ContextVar[float] = ContextVar("ago", default=0.0)


@contextlib.contextmanager
def ended_before(seconds: float) -> Generator[None]:
    """Events in this block are about a call that ended so long ago."""
    token = _AGO.set(seconds)
    try:
        yield
    finally:
        _AGO.reset(token)


def since(started: float) -> float:
    """What the call took that began then, by `time.perf_counter`."""
    return max(0.0, time.perf_counter() - started - _AGO.get())


class Journal:
    """Safe to use from many threads."""

    def __init__(
        self,
        store: OutputStore,
        session: SessionInfo,
        *,
        clock: Callable[[], float],
        portal: "Portal | None" = None,
    ) -> None:
        """With a `portal` its loop writes what waits, and not the one that happens to run: that may end any moment."""
        self._store = store
        self._portal = portal
        self._session = session
        self._clock = clock
        self._by = new_tag()
        self._lock = threading.Lock()
        self._waiting: list[Event | _Whole] = []
        self._at = 0
        self._wrote_at = 0.0
        self._told: dict[str, float] = {}  # of what events tell since the last look at it: when the first began
        self._due_in: asyncio.AbstractEventLoop | Portal | None = None  # the loop that will write what waits
        self._members: dict[str, list[int]] = {}  # by handle: the bytes of its output that each is unpacked from
        self._elsewhere: list[str] = []  # handles of calls that other processes sent to the background
        self._ledger = Ledger()
        self._counters = Counters()
        self.reader = ""  # PERSON where a person reads what is shown, and no model
        self.watchers: dict[Watcher, Idle] = {}  # called with every event, unless they say that nobody listens

    def now(self) -> float:
        return self._clock()

    def note_member(self, facts: Facts) -> None:
        """Which bytes of its output a member is made from, for the events about it."""
        with self._lock:
            if facts.packed is not None:
                self._members[facts.handle] = facts.packed.as_list()
                while len(self._members) > _MOST_MEMBERS:
                    del self._members[next(iter(self._members))]

    def record(
        self,
        kind: EventKind,
        *,
        handle: str = "",
        tool: str = "",
        call_id: str = "",
        seconds: float = 0.0,
        **data: Any,
    ) -> Event:
        if MEMBER in handle:
            handle, data = self._of_output(handle, data)
        if self.reader and kind in OF_READERS:
            data["reader"] = self.reader
        event = Event(self._clock() - _AGO.get(), kind, handle, tool, call_id, round(seconds, 6), self._by, data)
        with self._lock:
            self._fold(event)
            self._waiting.append(event)
            is_urgent = kind not in _DEFERRABLE and (kind != "asked" or event.at - self._wrote_at >= _FLUSH_SECONDS)
            if is_urgent or len(self._waiting) >= _MAX_WAITING or not self._schedule_flush():
                self._write()
                self._wrote_at = event.at
            look_now = self._note_told(event) and not self._schedule_flush()
        if look_now:
            self.flush()
        for watcher in self.watchers:
            watcher(event)
        return event

    def _of_output(self, handle: str, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """An event about a member is one about its output: what it was unpacked from was scanned.

        The bytes of the member that were shown are none of the output's; they stand apart.
        """
        output, _, member = handle.partition(MEMBER)
        inside = {way: data[way] for way in WAYS if data.get(way)}
        data = {name: value for name, value in data.items() if name not in WAYS}
        packed = self._members.get(handle)
        return output, {**data, "member": member, "in_member": inside, "scanned": [packed] if packed else []}

    def shown_whole(self, tool: str, call_id: str, seconds: float, chars: int, asked: Mapping[str, str]) -> None:
        """`record("inline", …)` by the shortest way: it is the most frequent event by far."""
        for idle in self.watchers.values():
            if not idle():
                self.record("inline", tool=tool, call_id=call_id, seconds=seconds, chars=chars, **asked)
                return
        with self._lock:
            self._counters.inline += 1
            self._waiting.append((self._clock(), tool, call_id, round(seconds, 6), chars, asked))
            if len(self._waiting) >= _MAX_WAITING or not self._schedule_flush():
                self._write()

    def coverage(self, handle: str) -> Coverage:
        """What is known of one output now, from every process that works in this session."""
        with self._lock:
            self._catch_up()
            return self._ledger.of(handle)

    def coverages(self, handles: Iterable[str]) -> dict[str, Coverage]:
        """The same of many."""
        with self._lock:
            self._catch_up()
            return {handle: self._ledger.of(handle) for handle in handles}

    def coverage_so_far(self, handle: str) -> Coverage:
        """A copy of it, which stays as it is."""
        with self._lock:
            self._catch_up()
            return deepcopy(self._ledger.of(handle))

    def counters(self) -> Counters:
        """A copy of them, which stays as it is."""
        with self._lock:
            self._catch_up()
            return deepcopy(self._counters)

    def background_elsewhere(self) -> tuple[str, ...]:
        """Handles of the calls that other processes of the session have sent to the background, ended or not."""
        with self._lock:
            self._catch_up()
            return tuple(self._elsewhere)

    def events(self, newest_bytes: int | None = None) -> Iterator[Event]:
        """All of the log from the beginning, or only the newest of it; a piece of it is in memory at a time."""
        with self._lock:
            self._write()
        at = 0 if newest_bytes is None else _line_start(self._store, self._session, newest_bytes)
        return logged_events(self._store, self._session, at)

    def flush(self) -> None:
        """Write what waits. What was written of an output that was removed while it was asked about goes with it."""
        with self._lock:
            self._write()
            told, self._told = self._told, {}
        for reference, began in told.items():
            with contextlib.suppress(HoldallError, OSError):
                facts = self._store.resolve(self._session, reference)
                if facts.state == "expired" and (facts.ended or 0.0) >= began:
                    self._store.remove(self._session, [facts])

    def _note_told(self, event: Event) -> bool:
        """Whether it is about an output, and may tell what is in it."""
        if event.kind in _OF_NO_CONTENT or not event.handle:
            return False
        asked: object = event.data.get("asked")
        also = cast("Mapping[str, object]", asked).get("also", "") if isinstance(asked, dict) else ""
        for reference in (event.handle, *_WORDS(str(also))):  # what it was asked together with
            self._told.setdefault(reference, event.at - max(event.seconds, _LONGEST_CALL))
        return True

    def _schedule_flush(self) -> bool:
        """Soon, by the portal or the loop that runs in this thread; False if there is none."""
        if self._portal is not None:
            if self._due_in is None and self._portal.later(_FLUSH_SECONDS, self._due):
                self._due_in = self._portal
            return self._due_in is not None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._due_in is not loop:
            self._due_in = loop
            loop.call_later(_FLUSH_SECONDS, self._due)
        return True

    def _due(self) -> None:
        self._due_in = None
        self.flush()

    def _write(self) -> None:
        if not self._waiting:
            return
        try:
            self._store.append_events(self._session, b"".join([_line(one, self._by) for one in self._waiting]))
            self._waiting.clear()
        except (StoreFault, OSError) as problem:
            _LOG.warning("an event could not be written yet: %s", problem)

    def _catch_up(self) -> None:
        """Fold what others wrote. Our own events are folded already."""
        # In a JSON string the quotes would be escaped: a line that has this is one of ours, and need not be read.
        ours = f'"by":"{self._by}"'.encode("ascii")
        try:
            for found in self._store.log_lines(self._session, "events", self._at):
                data, self._at = believed(found, "events"), found.end
                for event in events_in(b"\n".join([line for line in data.split(b"\n") if ours not in line])):
                    if event.by != self._by:
                        self._fold(event)
                        if event.kind == "running":
                            self._elsewhere.append(event.handle)
        except (StoreFault, OSError) as problem:
            _LOG.warning("the log of the session cannot be read: %s", problem)

    def _fold(self, event: Event) -> None:
        self._counters.add(event)
        if event.handle:
            self._ledger.add(event)


def _line(event: "Event | _Whole", by: str) -> bytes:
    if isinstance(event, tuple):
        at, tool, call_id, seconds, chars, asked = event  # in a third of the time
        named = f'"tool":{_TEXT(tool)},' if tool else ""
        called = f'"call_id":{_TEXT(call_id)},' if call_id else ""
        took = f'"seconds":{seconds!r},' if seconds else ""
        more = "".join([f',"{name}":{_TEXT(text)}' for name, text in asked.items()]) if asked else ""
        return f'{{"at":{at!r},"event":"inline",{named}{called}{took}"by":"{by}","chars":{chars}{more}}}\n'.encode()
    return _ENCODE(event.to_json()).encode("ascii") + b"\n"


_MAX_BAD_LINES = 5  # told of one piece of a log


def believed(found: LogLines, log: Log) -> bytes:
    """The lines that prove themselves. Of the others the process's log tells, each time: none goes without a word."""
    for bad in found.bad[:_MAX_BAD_LINES]:
        _LOG.warning("%s", bad.told(log))
    if (more := len(found.bad) - _MAX_BAD_LINES) > 0:
        _LOG.warning("so it is with %d more lines of it; `holdall verify` tells of them", more)
    return found.lines


def logged_events(store: OutputStore, session: SessionInfo, at: int = 0) -> Iterator[Event]:
    """The events of a session in their order, however many they are."""
    for found in store.log_lines(session, "events", at):
        yield from events_in(believed(found, "events"))


def _line_start(store: OutputStore, session: SessionInfo, newest_bytes: int) -> int:
    """Where the first line begins of the last `newest_bytes` of the log."""
    at = store.log_length(session, "events") - newest_bytes
    while at > 0 and (piece := store.read_log(session, "events", at - 1, at + _LOOK_BYTES)):
        if newline := piece.find(b"\n") + 1:
            return at - 1 + newline
        at += len(piece) - 1
    return max(0, at)


def events_in(data: bytes) -> list[Event]:
    """The events of whole lines; a line that is none is passed over."""
    found: list[Event] = []
    for flat in _objects_in([line for line in data.split(b"\n") if line]):
        try:
            event = Event.from_json(flat)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            continue
        if event is not None:
            found.append(event)
    return found


def _objects_in(lines: list[bytes]) -> Iterable[Any]:
    """What each line holds. All at once takes a third of the time, where every line is what it should be."""
    # What stands between them is known to nobody beforehand, so that no two lines together are read as something else.
    between = new_tag()
    try:
        together: list[Any] = json.loads(b"[" + f',"{between}",'.encode().join(lines) + b"]")
        if together[1::2] == [between] * (len(lines) - 1) and len(together) == 2 * len(lines) - 1:
            return together[::2]
    except (ValueError, RecursionError):
        pass
    return map(_object_in, lines)


def _object_in(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


# Watchers of events: logging, and OpenTelemetry if it is installed.


_LOG = logging.getLogger("holdall")


def watchers() -> dict[Watcher, Idle]:
    return {log_event: lambda: not _LOG.isEnabledFor(logging.INFO), _emit_opentelemetry: _no_opentelemetry}


def _no_opentelemetry() -> bool:
    """Used only if the program has imported OpenTelemetry, which would slow every start, and given it an SDK: many
    frameworks import the one and leave the other to their users.
    """
    trace, metrics = sys.modules.get("opentelemetry.trace"), sys.modules.get("opentelemetry.metrics")
    return (trace is None or type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider") and (
        metrics is None or type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
    )


def _emit_opentelemetry(event: Event) -> None:
    if not _no_opentelemetry():
        importlib.import_module("holdall.bag.telemetry").watch(event)


def log_event(event: Event) -> None:
    """One line, whatever a tool is named; never the content of an output."""
    is_wanted = event.data.get("fault") == NeverStored.__name__  # by the user, of a tool or of all
    level = logging.WARNING if event.kind == "unkept" and not is_wanted else logging.INFO
    if not _LOG.isEnabledFor(level):
        return
    skipped = ("shown", "scanned", "searched", "passed", "traceback", "asked", "arguments")
    told = {name: value for name, value in event.to_json().items() if name not in ("at", "event", "by", *skipped)}
    words = " ".join(f"{name}={value}" for name, value in told.items())
    _LOG.log(level, "%s %s", event.kind, one_line(words, 500))
