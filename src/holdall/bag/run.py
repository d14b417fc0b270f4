"""Calls of tools, in any form: dispatched as jobs, raced against the clock, and taken when they end. What they write on
the way is kept; arguments that name a kept output are replaced by it.
"""

import asyncio
import base64
import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import itertools
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from types import FunctionType
from typing import Any, cast

from holdall.background import CallTimeout, Job, Jobs, is_cancelled, on_loop
from holdall.bag import streams
from holdall.bag.core import Core, in_thread
from holdall.bag.messages import Messages
from holdall.bag.streams import value_size
from holdall.bag.take import (
    Prepared,
    asked_with,
    flattened,
    kept_fields,
    note_announced,
    prepare,
    running_notice,
    short_traceback,
    stored,
    text_and_notes,
    value_as_text,
)
from holdall.policy.decide import Limits
from holdall.policy.lifecycle import Step, after
from holdall.store.deadline import within
from holdall.store.owners import process_mark
from holdall.store.protocol import OutputReader, OutputWriter
from holdall.store.sources import CHUNK, Borders, Objects, Source, read_once, surrogate_notes
from holdall.text.escape import foreign
from holdall.text.numbers import with_article
from holdall.text.utf8 import Surrogates, decode
from holdall.values.answers import Passage
from holdall.values.errors import (
    TOOL_SAID_FAILED,
    BadCall,
    BadReference,
    HoldallError,
    MissingExtra,
    NeverStored,
    SessionClosed,
    StoreFault,
    ToolRaised,
    UsageError,
)
from holdall.values.outputs import FAILED, Ended, Facts, Origin, Running, State
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.verbs.read import locate, passage
from holdall.wire.answers import NOT_AN_OBJECT, json_arguments, not_offered, plain_refusal, with_handles
from holdall.wire.clamp import clamp_error, traceback_of
from holdall.wire.notes import CANCELLED_BY_CALLER, ONLY_ITS_BEGINNING, not_all_kept, unreadable
from holdall.wire.reference import PREFIX, Named, json_advice, references_in, replaced
from holdall.wire.results import is_known_block, plain_text, take_apart
from holdall.wire.tool import Ask

# What a call has produced so far: in memory while that is little, in the store once it is much or the call is slow.
#
# Memory stays flat however much a tool prints. A sink may be written to from any thread; where the store refuses, the
# beginning stays in memory, the fault is remembered, and the notice says what is missing. Where it refuses once it has
# more than memory held, what it took stays under the handle, and its error says how many bytes are gone.


_MOST_WAITING, _LARGE = 1000, 64 * 1024  # parts of a stream; bytes of one
Part = object  # text, bytes, a content block, or any value that can be told as JSON


class Sink:
    __slots__ = (
        "_begun", "_borders", "_closed", "_core", "_finished", "_is_warned", "_lock", "_lone", "_most", "_objects",
        "_only_blocks", "_origin", "_parts", "_size", "_taken", "_writer", "fault", "has_parts", "listeners", "stores",
    )  # fmt: skip

    def __init__(self, core: Core, origin: Origin, most: int, *, stores: bool = True) -> None:
        self._core = core
        self._origin = origin
        self._most = most
        self._parts: list[Part] = []
        self._size = self._taken = 0  # bytes, about: that were written, and that the store took
        self._only_blocks = True
        self._lock = threading.Lock()
        self._writer: OutputWriter | None = None
        self._begun: Facts | None = None  # as they were when it got its handle
        self._closed = self._finished = self._is_warned = False
        self.has_parts = False  # whether anything was ever written
        self.stores = stores  # whether any of it may reach the store
        self.fault: StoreFault | NeverStored | OSError | None = None
        self.listeners: tuple[Callable[[], None], ...] = ()  # called after each write, from the thread that wrote

    @property
    def handle(self) -> str:
        """Empty while nothing of it is in the store."""
        return self._begun.handle if self._begun is not None else ""

    @property
    def facts(self) -> Facts | None:
        """What is known of it since it has a handle."""
        return self._begun

    @property
    def is_empty(self) -> bool:
        return not self._parts and self._begun is None

    @property
    def total(self) -> int:
        """Bytes that were written, about: also those that could neither be held nor stored."""
        return self._size

    def write(self, part: Part) -> None:
        if not isinstance(part, str | bytes | bytearray):
            part = read_once(part)
        with self._lock:
            if self._finished or self._closed:  # a thread that the tool left behind; nobody could read it
                self._warn_of_loss()
                return
            self.has_parts = True
            if self._writer is not None:
                self._store(part)
            else:
                self._size += _size(part)
                if self.fault is None:
                    self._parts.append(part)
                    self._only_blocks = self._only_blocks and is_known_block(part)
                    if self._size > self._most and not self._only_blocks:
                        self._begin()
        self._tell()

    def _tell(self) -> None:
        for listener in self.listeners:
            listener()

    def write_all(self, parts: Sequence[Part]) -> None:
        """In their order, texts joined."""
        for is_text, some in itertools.groupby(parts, lambda part: isinstance(part, str)):
            if is_text:
                self.write("".join(cast("Iterable[str]", some)))
            else:
                for part in some:
                    self.write(part)

    def close(self) -> None:
        """Its call has ended, and what it wrote is taken: nothing that comes later is."""
        with self._lock:
            self._closed = True

    def begin(self) -> str:
        """Give it a handle now; empty if the store refuses, and `fault` says why."""
        with self._lock:
            if self._begun is None and self.fault is None and self.stores:
                self._begin()
        return self.handle

    def finish(
        self,
        state: State,
        *,
        last: Part = None,
        error: str = "",
        exit_code: int | None = None,
        notes: Sequence[str] = (),
        traceback: str = "",
    ) -> Facts | None:
        """End what is in the store, after one last part; None if nothing is there. Calling it twice is harmless.

        Where the store took only a part of it, it says why, and ends as interrupted unless its call ended badly.
        """
        with self._lock:
            if self._writer is None or self._finished:
                return None
            if last is not None:
                self._store(last)
            self._finished = True
            if self.fault is not None:
                lost = not_all_kept(self.fault, self._size - self._taken)
                state, error = (state, f"{error}; {lost}") if state in FAILED and error else ("interrupted", lost)
            try:
                notes = (*notes, *surrogate_notes(self._lone), *self._objects.notes)
                facts = self._writer.finish(
                    state, error=error, exit_code=exit_code, notes=notes, surrogates=self._lone.packed(),
                    traceback=traceback,
                )  # fmt: skip
            except (StoreFault, OSError) as problem:
                fault, self.fault = self.fault, problem
                with contextlib.suppress(StoreFault, OSError):
                    self._writer.close()  # nobody takes it for one that still runs
                return self._without_its_end(fault)
            self._writer = None  # it holds its folder open, and a session remembers its calls
            return facts

    def _without_its_end(self, fault: Exception | None) -> Facts | None:
        """A full disk has no room for what is known at the end: what was written stands there all the same."""
        with contextlib.suppress(HoldallError, OSError):
            facts = self._core.store.resolve(self._core.session, self.handle)
            if facts.state not in ("running", "queued"):
                lost = not_all_kept(fault, self._size - facts.measure.bytes) if fault is not None else ""
                return replace(facts, error=lost or facts.error)
        return None

    def named(self, origin: Origin) -> Origin:
        """With the kind of what was written, where that has to be said."""
        kind = "" if origin.read_as else streams.read_as(self._parts)
        return replace(origin, read_as=kind) if kind else origin

    @property
    def ends_with_value(self) -> bool:
        """Whether what was written last, while it is all in memory, is a value: that is a line of its own."""
        return bool(self._parts) and not isinstance(self._parts[-1], str | bytes | bytearray | memoryview)

    def joined(self) -> object:
        """What was written, while it is all in memory: a list of blocks, a text, or bytes where they are none."""
        parts = self._parts
        if parts and self._only_blocks:
            return parts
        if all(isinstance(part, str) for part in parts):
            return "".join(cast("list[str]", parts))
        return streams.text_or_bytes(b"".join(Source(iter(parts))))

    def streamed(self) -> object:
        """The same, but as it came where texts stand beside other things: what has to be changed of these is told."""
        is_mixed = not self._only_blocks and any(isinstance(part, str) for part in self._parts)
        is_mixed = is_mixed and not all(isinstance(part, str) for part in self._parts)
        return iter(self._parts) if is_mixed else self.joined()

    # Inside; the lock is held

    def _warn_of_loss(self) -> None:
        if not self._is_warned:
            self._is_warned = True
            _LOG.warning("%s wrote to its output after its call had ended: that is lost", self._origin.tool or "a tool")

    def _begin(self) -> None:
        if not self.stores:
            self.fault = NeverStored(self._origin.tool, by_dialect=not self._core.dialect.stores)
            return
        try:
            self._writer = self._core.begin(self.named(self._origin), self._tell)
        except (StoreFault, OSError) as problem:
            self.fault = problem
            return
        # Only now: most calls return a small text, and write nothing.
        self._lone, self._objects, self._borders = Surrogates(), Objects(), Borders()
        self._size = 0  # exactly, from now on
        for part in self._parts:
            self._store(part)
        if self.fault is None:
            self._begun = self._writer.facts
            self._parts.clear()
        else:
            self._withdraw(self._writer)
            self._writer = None

    def _withdraw(self, writer: OutputWriter) -> None:
        """Memory holds more than the store took, and nobody was told of its handle."""
        with contextlib.suppress(HoldallError, OSError):
            self._core.store.expire(self._core.session, [writer.finish("interrupted")], ONLY_ITS_BEGINNING)
            return
        with contextlib.suppress(HoldallError, OSError):
            writer.close()

    def _store(self, part: Part) -> None:
        if self._writer is None:
            return
        try:
            parts = _pieces(part) if isinstance(part, str) else iter((part,))
            for chunk in Source(parts, self._lone, self._objects, self._borders):
                self._size += len(chunk)
                self._pass_on(self._writer, chunk)
        except (StoreFault, OSError) as problem:
            self.fault = self.fault or problem

    def _pass_on(self, writer: OutputWriter, chunk: bytes) -> None:
        if self.fault is None:  # else it is only counted
            try:
                writer.write(chunk)
                self._taken += len(chunk)
            except (StoreFault, OSError) as problem:
                self.fault = problem


def _pieces(text: str) -> Iterator[str]:
    """So that what is encoded at once is not all of it."""
    return (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))


def _size(part: Part) -> int:
    if isinstance(part, str):
        return len(part.encode("utf-8", "replace"))
    return len(part) if isinstance(part, bytes | bytearray) else value_size(part)


class Writer:
    """What a tool that asks for a `writer` gets: text or bytes written to it can be read at once."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def write(self, part: str | bytes) -> None:
        self._sink.write(part)


# What a tool returned, with what it had written on the way in front of it: one result of the form that it returned.


def after_written(written: object, returned: object, *, ends_a_line: bool = False) -> object:
    """`written` is a text, bytes, or a list of blocks. With `ends_a_line` its last part was a value."""
    if returned is None or (isinstance(returned, str | bytes) and not returned):
        return written
    parts = take_apart(returned)
    if parts is not None and parts.blocks is not None:
        return replace(parts, blocks=(*_blocks(written), *parts.blocks)).with_blocks({}).whole
    if isinstance(written, list):
        return [
            *_blocks(cast("object", written)),
            *_blocks(returned if isinstance(returned, bytes) else value_as_text(returned)),
        ]
    if ends_a_line and isinstance(written, str) and not _begins_a_line(returned):
        written += "\n"
    if isinstance(written, str) and not isinstance(returned, bytes):
        return parts.with_text(written + (parts.text or "")) if parts is not None else written + value_as_text(returned)
    return _bytes(written) + _bytes(returned)


def _begins_a_line(returned: object) -> bool:
    if isinstance(returned, bytes):
        return returned.startswith((b"\n", b"\r\n"))
    return isinstance(returned, str) and returned.startswith(("\n", "\r\n"))


def _blocks(value: object) -> list[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    if isinstance(value, bytes):
        packed = base64.b64encode(value).decode("ascii")
        resource = {"uri": "holdall:written", "mimeType": "application/octet-stream", "blob": packed}
        return [{"type": "resource", "resource": resource}]
    return [{"type": "text", "text": str(value)}]


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else value_as_text(value).encode("utf-8", "replace")


# Whether arguments fit the schema of somebody else's tool. Needs the extra `references`.


_SCHEMA_SECONDS = 10.0


async def schema_complaint(schema: Mapping[str, Any], arguments: object, seconds: float) -> str:
    """What is wrong, in one sentence; empty if nothing is. Never skipped: where it cannot be checked, it raises."""
    if importlib.util.find_spec("jsonschema") is None:
        raise MissingExtra("jsonschema", "references", "checking arguments that are passed by reference")
    checks = importlib.import_module("holdall.bag.jsonschemas").complaint
    found: str = await asyncio.to_thread(checks, schema, arguments, seconds=seconds)
    return found


# References among the arguments of other tools, replaced at dispatch: the model passes a handle, the tool gets data.
#
# Off unless the settings or the tool's policy turn it on. What is passed is in the ledger; an approval step can see
# handle, size, hash and server first. What goes from one server to another is logged too: who approves the call sees a
# handle only.


_LOG = logging.getLogger("holdall")
_MOST_REFERENCES = 100  # of one call


@record
class PassedOutput:
    """What a reference brings in, for the approval of a call. The content, `value`, is not told with it."""

    where: str
    handle: str
    tool: str  # that made the output
    bytes: int
    span: Span
    sha256: str  # of these bytes; of all of the output where they are that
    value: Any = field(default=None, repr=False)
    server: str = ""  # that made the output, and that of the call may be another one


def is_on(core: Core, tool: str) -> bool:
    own = core.policy_of(tool).by_reference
    return core.settings.by_reference if own is None else own


async def passed_outputs(core: Core, arguments: object, tool: str) -> tuple[PassedOutput, ...]:
    """What the references among `arguments` would bring in; nothing if the tool may have none."""
    if not is_on(core, tool):
        return ()
    return tuple(await _looked_up(core, arguments))


async def resolve(core: Core, arguments: Any, tool: str, schema: Mapping[str, Any] | None, server: str = "") -> Any:
    """The arguments as the tool should get them. Raises BadReference, in words for a model."""
    if not is_on(core, tool):
        return arguments
    found = await _looked_up(core, arguments)
    values = iter(found)  # in their order: two keys may be written alike as a place, as "a.b" and b in a
    new = replaced(arguments, lambda _text, _where: next(values).value)
    seconds = min(_SCHEMA_SECONDS, core.settings.query_seconds)
    if found and schema is not None and (problem := await schema_complaint(schema, new, seconds)):
        advice = "".join(json_advice(one, found[0].value) for one in references_in(arguments)[:1])
        raise BadReference(
            f"with what its references name, the arguments do not fit the schema of {foreign(tool)}: {problem}{advice}"
        )
    for one in found:
        crosses = bool(server) and server != one.server
        crossing: dict[str, Any] = {"server": server, "from_server": one.server} if crosses else {}
        core.journal.record(
            "passed", handle=one.handle, tool=tool, where=one.where, bytes=one.bytes, passed=[one.span.as_list()],
            **crossing,
        )  # fmt: skip
        if crosses:
            made_by = f"the server {foreign(one.server)}" if one.server else "this machine"
            _LOG.warning(
                "%s bytes of %s, an output of %s, go to the server %s, in the argument %s of %s",
                f"{one.bytes:,}", one.handle, made_by, foreign(server), foreign(one.where),
                foreign(tool),
            )  # fmt: skip
    return new


async def _looked_up(core: Core, arguments: object) -> list[PassedOutput]:
    """In their order. The limits are for all of them together: a short list can name the same output many times."""
    references = references_in(arguments)
    if len(references) > _MOST_REFERENCES:
        raise BadReference(f"there are {len(references):,} references; one call may have {_MOST_REFERENCES}.")
    found: list[PassedOutput] = []
    left = core.settings.reference_max_bytes
    with within(core.settings.query_seconds):
        for named in references:
            try:
                found.append(await _look(core, named, left))
            except BadReference:
                raise
            except HoldallError as error:
                told = with_handles(error, core.shown_handle)
                raise BadReference(core.issue(f"{named.place}: {plain_refusal(told, Ask('read'))}")) from error
            left -= found[-1].bytes
    return found


async def _look(core: Core, named: Named, most: int) -> PassedOutput:
    def work(reader: OutputReader) -> PassedOutput:
        facts = reader.facts
        _check_whole(named, facts)
        value, span = _value(reader, named, most)
        is_all = span == Span(0, facts.measure.bytes) and facts.measure.sha256
        digest = facts.measure.sha256 if is_all else hashlib.sha256(reader.read(span.start, span.end)).hexdigest()
        origin, size = facts.origin, span.end - span.start
        return PassedOutput(named.where, facts.handle, origin.tool, size, span, digest, value, origin.server)

    return await core.on(named.handle, work)


def _check_whole(named: Named, facts: Facts) -> None:
    """A tool that gets a value is told nothing about it: a part must not pass for the whole. Lines that are named are
    that part and no more.
    """
    if facts.is_whole or named.lines is not None:
        return
    is_open = facts.state in ("running", "queued")
    raise BadReference(
        f"{named.place}: {named.shown} "
        + ("is still being written; wait for its end, or" if is_open else f"is not whole ({facts.state});")
        + f" name lines of what there is, as in {PREFIX}{named.shown}#L1-L20."
    )


def _value(reader: OutputReader, named: Named, most: int) -> tuple[Any, Span]:
    if named.pointer is not None:
        return _at_pointer(reader, named, named.pointer, most)
    found = _range(reader, named)
    # All of an empty output is an empty text.
    if named.lines and (found.past_end or named.lines[1] > reader.totals.lines):
        raise BadReference(f"{named.place} names lines that are not there: {named.shown} has "
                           f"{reader.totals.lines:,}.")  # fmt: skip
    span = found.bytes
    _check_size(named, span.end - span.start, most)
    text, exact = decode(reader.read(span.start, span.end))
    if not exact:
        raise BadReference(f"{named.place} names {named.shown}, which is not text.")
    return text, span


def _range(reader: OutputReader, named: Named) -> Passage:
    target = locate(reader, lines=named.lines, bytes=None if named.lines else ":")
    return passage(reader, target.span, b"", past_end=target.past_end)


def _at_pointer(reader: OutputReader, named: Named, pointer: str, most: int) -> tuple[Any, Span]:
    from holdall.verbs.query import query_path  # noqa: PLC0415 - few calls name a part of an output

    nodes = query_path(reader, path=pointer, limit=1, skip=0, max_bytes=None) if pointer else None
    if nodes is None:  # the whole document
        _check_size(named, reader.totals.bytes, most)
        text, span = decode(reader.read(0, reader.totals.bytes))[0], Span(0, reader.totals.bytes)
        if reader.facts.measure.kind == "ndjson":  # an array of records, for a pointer too
            return [_parsed(named, line) for line in text.split("\n") if line.strip()], span
        return _parsed(named, text), span
    if not nodes.nodes:
        raise BadReference(f"{named.place}: there is nothing at {foreign(pointer)} in {named.shown}.")
    node = nodes.nodes[0]
    _check_size(named, node.bytes.end - node.bytes.start, most)
    return _parsed(named, decode(reader.read(node.bytes.start, node.bytes.end))[0]), node.bytes


def _parsed(named: Named, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadReference(f"{named.place} names {named.shown}, which is not JSON there.") from problem


def _check_size(named: Named, size: int, most: int) -> None:
    if size > most:
        raise BadReference(
            f"{named.place} names {size:,} bytes of {named.shown}; at most {most:,} may be passed by "
            f"reference (reference_max_bytes, for all of a call). Name lines or a JSON pointer inside of it."
        )


# A command as a tool: its output is kept as it comes, and its end is its exit code.
#
# Both streams go through one pipe, so that they stay in the order in which they were written. It runs in its own
# process group, so that ending it ends everything it started.


_PIECE = 1024 * 1024
_PATIENCE = 1.5  # seconds between asking a command to end and ending it


class CommandFailed(Exception):
    """It has ended with an exit code that is not 0, or by a signal."""

    def __init__(self, code: int) -> None:
        self.code = code
        super().__init__(ending(code))


@record
class Command:
    """`await bag.run(Command(["make", "-j2"]), tool="make")`"""

    arguments: Sequence[str]
    cwd: str | None = None
    env: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.arguments, str | bytes):  # a text is a sequence too, of letters
            raise UsageError('a command is a list of words, as ["sh", "-c", "…"]: no shell reads it.')
        if not self.arguments:
            raise UsageError('a command begins with its program, as ["sh", "-c", "…"]: this one has no words.')


class _CommandRun:
    """One run of a command, which may have others before, after and beside it."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def pour(self, sink: Sink) -> None:
        """Run it to its end, in the calling thread. Raises CommandFailed, or OSError where it cannot be started."""
        given = self._command
        with subprocess.Popen(
            list(given.arguments), cwd=given.cwd, env=None if given.env is None else dict(given.env), bufsize=0,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        ) as process:  # fmt: skip
            self._process = process
            if self._stopped.is_set():
                self._signal(signal.SIGTERM)
            pipe = process.stdout
            while pipe is not None and (chunk := os.read(pipe.fileno(), _PIECE)):
                sink.write(chunk)
            code = process.wait()
        if code:
            raise CommandFailed(code)

    def stop(self) -> None:
        """Ask it to end, and end it where it does not."""
        self._stopped.set()
        self._signal(signal.SIGTERM)
        timer = threading.Timer(_PATIENCE, self._signal, (signal.SIGKILL,))
        timer.daemon = True
        timer.start()

    def _signal(self, number: int) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)


def ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


# How a tool is called: a coroutine function, a plain function in a thread, a generator, a command, an awaitable.
#
# What it produces on its way goes into its sink; what it returns is its outcome, and what it raises goes on to anyone
# who dispatched it.


_WRITER = "writer"  # a parameter of this name gets one


class Streamed:
    """The outcome of a call whose output is what it has written."""


STREAMED = Streamed()


async def called(call: object, arguments: object, sink: Sink) -> object:
    """Call it, and pour what it gives bit by bit into the sink. A cancellation reaches it.

    A tool that ends its program has failed: in a task, that would end the loop and every other call with it.
    """
    try:
        if (
            not isinstance(call, FunctionType)
            or not call.__code__.co_flags & inspect.CO_COROUTINE
            or _wants_writer(call)
        ):
            return await _called(call, arguments, sink)
        # The common case by the shortest way.
        given = dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else {}
        value = await cast("Awaitable[object]", call(**given))
        return value if type(value) is str else await _streamed(value, sink)
    except SystemExit as problem:
        raise ToolRaised(problem) from problem


async def _called(call: object, arguments: object, sink: Sink) -> object:
    if isinstance(call, Command):
        return await _in_thread_until_stopped(_CommandRun(call), sink)
    if inspect.isawaitable(call):
        return await _streamed(await cast("Awaitable[object]", call), sink)
    if not callable(call):
        if streams.is_stream(call):  # what a generator function gave
            return await _streamed(call, sink)
        raise TypeError(f"{with_article(type(call).__name__)} cannot be called")
    function: Callable[..., object] = call
    keywords = dict(cast("Mapping[str, Any]", arguments)) if isinstance(arguments, Mapping) else {}
    if _wants_writer(function) and _WRITER not in keywords:
        keywords[_WRITER] = Writer(sink)
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await _streamed(await cast("Awaitable[object]", function(**keywords)), sink)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        return await _streamed(function(**keywords), sink)
    given = {"function": function, "arguments": keywords, "sink": sink}
    found = await in_thread(_called_and_read, given, is_tool=True)
    return await _streamed(await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found, sink)


def _called_and_read(function: Callable[..., object], arguments: Mapping[str, Any], sink: Sink) -> object:
    """An iterator that it returns is read in the same thread: rows of SQLite may be read in no other."""
    value = function(**arguments)
    if not streams.is_stream(value) or streams.asynchronous(value) is not None:
        return value
    _stream_now(streams.parts_of(value), sink)
    return STREAMED


def read_call(call: object, tool: str, arguments: Any) -> tuple[object, Any]:
    """The call, and its arguments as an object where they are the JSON that a model wrote. What a model got wrong
    becomes a call that fails with a sentence for the model: a tool that does not exist (None), broken arguments.
    """
    if call is None:
        return partial(_refuse, not_offered(tool)), arguments
    written: object = arguments
    if written is None or isinstance(written, Mapping) or not callable(call) or isinstance(call, Command):
        return call, arguments
    if not isinstance(written, str | bytes):
        return partial(_refuse, NOT_AN_OBJECT), arguments
    problem, given = json_arguments(written)
    return (partial(_refuse, problem), arguments) if problem else (call, given)


async def _refuse(why: str, **_: object) -> object:
    raise BadCall(why)


async def returned(call: object) -> object:
    """What it returns, as it is: nothing is poured anywhere. A plain function runs in a thread."""
    try:
        return await _returned(call)
    except SystemExit as problem:
        raise ToolRaised(problem) from problem


async def _returned(call: object) -> object:
    if isinstance(call, Command):
        raise UsageError("the output of a command is what it writes, not what it returns: use `run`.")
    if inspect.isawaitable(call):
        return await cast("Awaitable[object]", call)
    if not callable(call):
        raise TypeError(f"{with_article(type(call).__name__)} cannot be called")
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__):
        return await cast("Awaitable[object]", call())
    found = await in_thread(call, {}, is_tool=True)
    return await cast("Awaitable[object]", found) if inspect.isawaitable(found) else found


def _wants_writer(function: Callable[..., object]) -> bool:
    code = getattr(function, "__code__", None)
    if code is not None:  # the common case, without building a signature
        return _WRITER in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    try:
        return _WRITER in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


async def _streamed(value: object, sink: Sink) -> object:
    """A stream goes into the sink; any other value is the outcome, after what was written before it."""
    if value is None and not sink.is_empty:
        return STREAMED
    if not streams.is_stream(value):
        return value
    later = streams.asynchronous(value)
    if later is not None:
        await _stream_later(later, sink)
    else:
        parts = streams.parts_of(value)
        await in_thread(_stream_now, {"parts": parts, "sink": sink}, is_tool=True)
    return STREAMED


async def _stream_later(parts: AsyncIterable[object], sink: Sink) -> None:
    """What comes while a thread writes to the disk goes there together with the next: a thread for each part costs more
    than the part. Whenever the tool waits for something, all that it has given is on its way.
    """
    waiting: list[object] = []
    writing: asyncio.Task[None] | None = None

    async def write() -> None:
        while waiting:
            some = waiting.copy()
            waiting.clear()
            await asyncio.to_thread(sink.write_all, some)

    try:
        async for part in parts:
            if not sink.handle:
                sink.write(part)
                continue
            if writing is not None and writing.done():
                writing = writing.result()  # raises what it raised
            waiting.append(part)
            writing = writing or asyncio.create_task(write())
            if len(waiting) >= _MOST_WAITING or (isinstance(part, bytes | str) and len(part) >= _LARGE):
                await writing
    finally:
        if writing is not None:
            await asyncio.shield(writing)


def _stream_now(parts: Iterable[object], sink: Sink) -> None:
    source: Iterator[object] = iter(parts)
    for part in source:
        sink.write(part)


async def _in_thread_until_stopped(command: _CommandRun, sink: Sink) -> object:
    running = asyncio.ensure_future(in_thread(command.pour, {"sink": sink}, is_tool=True))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        command.stop()
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await running  # what it still writes while it ends is part of its output
        raise
    return STREAMED


# The call wins: its size decides, as ever. The clock wins: it gets a handle and continues in the background; what it
# has written so far can be read under that handle, and at its end the same handle holds the whole.


_MAX_HELD = 1024 * 1024  # of what a call writes, where the limits do not bound its bytes
_MAX_UNSTORED = 64 * 1024 * 1024
_LOGGED_AFTER = 1.0  # seconds; to log each call would be a second line for most


@record(frozen=False, eq=False)
class Dispatched:
    """One call on its way."""

    origin: Origin
    sink: Sink
    job: Job
    handle: str = ""
    facts: Facts | None = None  # of a call in the background that has ended
    error: str = ""  # that what it gave is an error, where it was no exception
    last: str | bytes | None = None  # what it gave, where that is more than its text
    notes: tuple[str, ...] = ()  # on what it gave beside that
    cut_off: str = ""  # why it was cancelled, where that was said
    told: bool = False  # whether its end was told by a wait
    background: bool = False  # it is not raced: it goes to the background at once
    waits: Callable[[], bool] | None = None  # whether it waits for a person now: then the clock begins again
    messages: Messages | None = None  # what it says on its way


class Dispatch:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.jobs = Jobs(core.settings.max_background_calls, clock=time.monotonic, at_end=self._ended)
        self.background: dict[str, Dispatched] = {}  # by handle, oldest first
        self.keeps_all = False  # nobody may be left who reads a result: small ones are kept, too
        self.cut_off = ""  # why all calls were cancelled, where that is to be recorded
        self._numbers = itertools.count()  # of those that are logged while they last
        core.is_queued = self._is_queued

    def dispatch(  # noqa: PLR0913 - what is known of a call
        self,
        call: object,
        origin: Origin,
        schema: Mapping[str, Any] | None = None,
        *,
        background: bool = False,
        waits: Callable[[], bool] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        messages: Messages | None = None,
        bare: bool = False,
        elapsed: float = 0.0,
    ) -> Dispatched:
        """Start it, as soon as there is a slot. Whoever does not race it in the same breath watches its job.

        It runs on `loop`, where that is another one than this. A `bare` call gets no arguments, and what it returns is
        not poured into its sink unless it is in the background by then.
        """
        terminal = isinstance(call, Command)
        origin = replace(origin, terminal=True) if terminal else origin
        stores = self._core.may_store(origin.tool)
        # What may not be stored can only be shown from memory: with it as a whole, its end too.
        most = (self._core.limits_for(origin.tool).bytes or _MAX_HELD) if stores else _MAX_UNSTORED
        sink = Sink(self._core, origin, most, stores=stores)

        async def resolved() -> object:
            arguments = await resolve(self._core, origin.arguments, origin.tool, schema, origin.server)
            return await called(call, arguments, sink)

        async def unpoured() -> object:
            value = await returned(call)
            return value if one.job.owner is None else await _streamed(value, sink)

        work: Callable[[], Coroutine[Any, Any, object]] = (
            unpoured
            if bare
            else resolved
            if is_on(self._core, origin.tool)
            else partial(called, call, origin.arguments, sink)
        )
        if isinstance(call, asyncio.Future):  # a task: it runs where it was made
            loop = cast("asyncio.Future[object]", call).get_loop()
        if loop is not None:
            at, inner = loop, work

            def work() -> Coroutine[Any, Any, object]:
                return on_loop(at, inner())

        runs = isinstance(call, asyncio.Future)
        timeout = self._core.settings.tool_timeout_seconds
        job = self.jobs.start(origin.tool or "call", work, timeout=timeout, runs=runs, elapsed=elapsed)
        one = Dispatched(origin, sink, job, background=background, waits=waits, messages=messages)
        return one

    async def call(
        self,
        call: object,
        origin: Origin,
        schema: Mapping[str, Any] | None,
        *,
        background: bool,
        waits: Callable[[], bool] | None,
        loop: asyncio.AbstractEventLoop | None,
        messages: Messages | None = None,
    ) -> Prepared | Running | Ended:
        """`dispatch` and `raced` in one: on the loop that its job lives on."""
        return await self.raced(
            self.dispatch(call, origin, schema, background=background, waits=waits, loop=loop, messages=messages)
        )

    async def race(
        self,
        call: object,
        origin: Origin,
        *,
        background: bool,
        waits: Callable[[], bool] | None,
        loop: asyncio.AbstractEventLoop | None,
        elapsed: float,
    ) -> Ended | Running:
        """What it returned, as it is. Raises what it raised."""
        one = self.dispatch(call, origin, background=background, waits=waits, loop=loop, bare=True, elapsed=elapsed)
        running = await self._goes_on(one)
        if running is not None:
            return running
        outcome = one.job.outcome
        if one.job.state == "ready" or not isinstance(outcome, BaseException):
            return Ended(outcome)
        raise outcome.__cause__ or outcome if isinstance(outcome, ToolRaised) else self._as_told(outcome)

    def _as_told(self, outcome: BaseException) -> BaseException:
        """What is raised of a call that was cancelled. Who waits for one while somebody else ends the session has not
        been cancelled, and is not told so."""
        is_told = isinstance(outcome, asyncio.CancelledError) and self._is_ending and not is_cancelled()
        return SessionClosed() if is_told else outcome

    @property
    def _is_ending(self) -> bool:
        return self._core.is_closed or self._core.ending is not None

    async def raced(self, one: Dispatched) -> Prepared | Running | Ended:
        """What it gave, measured; or the notice that it continues. A plain text, or a result of one, as it is."""
        running = await self._goes_on(one)
        if running is not None:
            return running
        if one.sink.is_empty and (type(one.job.outcome) is str or plain_text(one.job.outcome) is not None):
            one.sink.close()
            return Ended(one.job.outcome)
        prepared = await self._prepared(one)
        one.sink.close()
        if isinstance(one.job.outcome, BaseException):
            _let_go(one.job.outcome)
        return prepared

    async def _goes_on(self, one: Dispatched) -> Running | None:
        """The notice that it continues; None if it has ended."""
        patience = self._patience(one)
        try:
            waited = False
            while not (ended := await self._raced_and_logged(one, patience)):
                # A call that is gone would be asking the person; and one that was answered just now needs its time.
                waited, before = one.waits is not None and one.waits(), waited
                if not (waited or before):
                    break
        except asyncio.CancelledError:
            if not one.sink.is_empty or one.messages is not None:
                self._keep_cancelled(one, CANCELLED_BY_CALLER)  # at once: a cancelled caller does not wait for a thread
            raise
        if ended:
            return None
        # From here on its end is stored by `_ended`, however soon it comes.
        one.job.owner = one
        one.handle = await asyncio.to_thread(one.sink.begin)
        if not one.handle:  # the store refuses: without a handle nobody could ever fetch it, so it is waited for
            await self.jobs.race(one.job, None)
            return None
        self.background[one.handle] = one
        self._core.untold.add(one.handle)
        facts = one.sink.facts or await asyncio.to_thread(self._core.store.resolve, self._core.session, one.handle)
        self._core.kept[one.handle] = facts
        if one.messages is not None and not one.job.has_ended:
            self._core.messages[one.handle] = one.messages
            one.messages.store_with(self._core.store, self._core.session, facts)
        self._core.journal.record(
            "running", handle=one.handle, tool=one.origin.tool, call_id=one.origin.call_id,
            seconds=self.jobs.age(one.job), **asked_with(self._core, one.origin),
        )  # fmt: skip
        running = running_notice(self._core, facts)
        await asyncio.to_thread(note_announced, self._core, facts, running.content)
        return running

    async def _raced_and_logged(self, one: Dispatched, patience: float | None) -> bool:
        """Whether it has ended before the clock. Of one that lasts the log says that it was called, while it is waited
        for: its process may be killed before it answers.
        """
        first = _LOGGED_AFTER if patience is None else min(patience, _LOGGED_AFTER)
        if await self.jobs.race(one.job, first) or first == patience:
            return one.job.has_ended
        number, tool, call_id = next(self._numbers), one.origin.tool, one.origin.call_id
        self._core.journal.record(
            "begun", tool=tool, call_id=call_id, seconds=self.jobs.age(one.job), number=number, process=os.getpid(),
            process_mark=process_mark(os.getpid()), **asked_with(self._core, one.origin),
        )  # fmt: skip
        try:
            return await self.jobs.race(one.job, None if patience is None else patience - first)
        finally:
            self._core.journal.record("over", tool=tool, call_id=call_id, number=number)

    # Inside

    def _is_queued(self, handle: str) -> bool:
        one = self.background.get(handle)
        return one is not None and one.job.state == "queued"

    def _patience(self, one: Dispatched) -> float | None:
        """Seconds before a call goes to the background; None if it never does."""
        if not one.sink.stores:
            return None  # of what may not be kept, nobody could fetch anything later
        if one.background:
            return 0.0
        return self.patience(one.origin.tool)

    def patience(self, tool: str) -> float | None:
        """Seconds before a call of this tool goes to the background; None if it never does."""
        core, policy = self._core, self._core.policy_of(tool)
        never = policy.never_async or policy.store == "never" or not core.settings.async_enabled
        return None if never or not core.dialect.races or not core.dialect.stores else core.settings.slow_after_seconds

    async def _prepared(self, one: Dispatched) -> Prepared:
        """Of a call that has ended before the clock."""
        outcome, sink = one.job.outcome, one.sink
        # Else nobody has cancelled it: the tool itself raised that, and it is an error like others.
        is_cut_off = one.job.ending == "aborted" and (outcome is None or isinstance(outcome, asyncio.CancelledError))
        if is_cut_off:
            outcome = asyncio.CancelledError()  # also of one that was left alone
            is_kept = bool(self.cut_off) or not sink.is_empty
            if is_cancelled() or self._is_ending:
                if is_kept:
                    await asyncio.to_thread(self._keep_cancelled, one, "")
                raise self._as_told(outcome)
            # Whoever waits for it goes on, and is told.
            if is_kept:
                await asyncio.to_thread(sink.begin)
        if sink.handle:
            await self._ended_text(one)
            state = "cancelled" if is_cut_off else after("running", "raised" if one.error else _step_of(outcome))
            facts = await asyncio.to_thread(self._finished, one, state)
            if facts is not None:
                if is_cut_off and one.messages is not None:
                    one.messages.keep_with(self._core.store, self._core.session, facts)
                has_failed = is_cut_off or one.origin.is_error or bool(one.error)
                return stored(self._core, facts, replace(one.origin, is_error=has_failed))
        if sink.fault is not None and not sink.is_empty:
            has_failed = isinstance(outcome, BaseException)
            origin = replace(one.origin, is_error=one.origin.is_error or has_failed)
            prepared = await prepare(self._core, sink.joined(), origin)
            ended = self._reason(one, outcome) if isinstance(outcome, BaseException) else ""
            return replace(prepared, fault=sink.fault, total=sink.total, ended=ended)
        if isinstance(outcome, Streamed):
            return await prepare(self._core, sink.streamed(), sink.named(one.origin))
        if isinstance(outcome, CommandFailed) or (isinstance(outcome, BaseException) and not sink.is_empty):
            # What it wrote before it failed is its output; how it failed is told after it.
            wrote = sink.joined()
            failed = f"[{_more_than_reason(outcome) or _reason(outcome)}]"
            said = after_written(wrote, f"\n{failed}" if wrote else failed)
            prepared = await prepare(self._core, said, replace(one.origin, is_error=True))
            keep_failed = partial(self._kept_failed, one) if not isinstance(wrote, list) else None
            return replace(prepared, ended=self._reason(one, outcome), keep_failed=keep_failed)
        if not sink.is_empty:
            output = after_written(sink.joined(), outcome, ends_a_line=sink.ends_with_value)
            return await prepare(self._core, output, one.origin)
        if is_cut_off:
            return await prepare(self._core, _reason(asyncio.CancelledError()), replace(one.origin, is_error=True))
        return await prepare(self._core, outcome, one.origin)

    def _reason(self, one: Dispatched, outcome: BaseException) -> str:
        redaction = self._core.redaction_of(one.origin.tool)
        return _reason(outcome) if redaction is None else redaction.text(_reason(outcome))

    def _kept_failed(self, one: Dispatched) -> Facts | None:
        """What a call had written that failed before it was slow, where that is too large to be shown."""
        return self._finished(one, after("running", _step_of(one.job.outcome))) if one.sink.begin() else None

    def _keep_cancelled(self, one: Dispatched, why: str) -> None:
        """What a call had written and said that was cancelled before it was slow, and why it was."""
        facts = self._finished(one, "cancelled", why) if one.sink.begin() else None
        if facts is None:
            return
        if one.messages is not None:
            one.messages.keep_with(self._core.store, self._core.session, facts)
        self._core.kept[facts.handle] = facts
        # It never went to the background: to a log this is a call like others whose output was kept.
        self._core.journal.record(
            "kept", handle=facts.handle, tool=one.origin.tool, call_id=one.origin.call_id, reason="cancelled",
            seconds=self.jobs.age(one.job), bytes=facts.measure.bytes, tokens=facts.measure.tokens, content_tokens=0,
            replaced=False, is_error=True, state=facts.state, why=facts.error, **asked_with(self._core, one.origin),
        )  # fmt: skip

    async def _ended(self, one: Dispatched, step: Step) -> None:
        """A call in the background has ended: its output is made whole under its handle, and everybody is told."""
        # The store may have refused a part of it in the moment in which it went to the background: its handle is there.
        one.handle = one.handle or await asyncio.to_thread(one.sink.begin)
        if not one.handle:
            return
        try:  # it returned a stream in the moment in which it went to the background
            one.job.outcome = await _streamed(one.job.outcome, one.sink)
        except Exception as problem:
            one.job.outcome, step = problem, "raised" if step == "finished" else step
        await self._ended_text(one)
        step = "raised" if one.error and step == "finished" else step
        facts = await asyncio.to_thread(self._finished, one, after("running", step))
        one.last = None
        if isinstance(one.job.outcome, BaseException):
            _let_go(one.job.outcome)
        one.job.forget()
        one.facts = facts or await asyncio.to_thread(self._core.store.resolve, self._core.session, one.handle)
        if facts is None and one.sink.fault is not None:  # not even its record could be written
            one.facts = replace(one.facts, error=not_all_kept(one.sink.fault))
            _LOG.warning("%s: %s", one.handle, one.facts.error)
        if one.sink.fault is not None:
            _let_go(one.sink.fault)
        self._core.kept[one.handle] = one.facts
        if one.messages is not None:
            await one.messages.finish(one.facts)
            self._core.messages.pop(one.handle, None)
        one.messages = one.waits = None  # they hold the request of a client, and the session is remembered for long
        measure = one.facts.measure
        self._core.journal.record(
            "ended", handle=one.handle, tool=one.origin.tool, call_id=one.origin.call_id, state=one.facts.state,
            seconds=self.jobs.age(one.job), bytes=measure.bytes, tokens=measure.tokens, why=one.facts.error,
        )  # fmt: skip

    async def _ended_text(self, one: Dispatched) -> None:
        """What it returned as the text that ends its output, with what is not text set aside, and whether it failed."""
        outcome = one.job.outcome
        if outcome is None or isinstance(outcome, Streamed | BaseException):
            return
        try:
            failed = (parts := take_apart(outcome)) is not None and parts.is_error
            if (redaction := self._core.redaction_of(one.origin.tool)) is not None:
                # As a whole, with its names, and with what precedes the place that gives a value away; before any of it
                # is kept by itself.
                masked = cast("tuple[object, int]", await in_thread(redaction.value, {"output": outcome}))
                outcome, one.notes = masked[0], (redaction.note(masked[1]),) if masked[1] else ()
                one.job.outcome = outcome
                one.error = TOOL_SAID_FAILED if failed else ""
                parts = take_apart(outcome)
            if isinstance(outcome, str):
                return
            if parts is not None:
                one.last = await flattened(self._core, parts, one.origin)
                one.notes = (*one.notes, *await kept_fields(self._core, parts, one.origin))
                one.error = TOOL_SAID_FAILED if failed else ""
        except Exception as problem:  # the tool's object may raise anything; its call must still end
            one.last = unreadable(one.job.outcome, problem)

    def _finished(self, one: Dispatched, state: State, why: str = "") -> Facts | None:
        outcome = one.job.outcome
        code = outcome.code if isinstance(outcome, CommandFailed) else 0 if one.origin.terminal else None
        error = _reason(outcome) if isinstance(outcome, BaseException) else one.error
        if state == "cancelled":
            error = one.cut_off or self.cut_off or why or error
        last, notes = one.last, one.notes
        if last is None and isinstance(outcome, BaseException) and (said := _more_than_reason(outcome)):
            last = f"\n{said}" if one.sink.has_parts else said
        if last is None and outcome is not None and not isinstance(outcome, Streamed | BaseException):
            last, more = (outcome, ()) if isinstance(outcome, bytes) else text_and_notes(outcome)
            notes = (*notes, *more)
        code = code if state in ("ready", "failed") else None
        trace = ""
        if isinstance(outcome, BaseException) and not isinstance(outcome, (asyncio.CancelledError, *_OWN_WORDS)):
            trace = short_traceback(outcome)
        return one.sink.finish(state, last=last, error=error, exit_code=code, notes=notes, traceback=trace)


_LONGEST_CHAIN = 100  # of errors that were raised from each other


def _let_go(error: BaseException) -> None:
    """Of an error that was told: its frames hold it, and all that it says, until the collector looks for cycles."""
    left, known = [error], set[int]()
    while left and len(known) < _LONGEST_CHAIN:
        one = left.pop()
        if id(one) not in known:
            known.add(id(one))
            one.__traceback__ = None
            left += [inner for inner in (one.__cause__, one.__context__) if inner is not None]


_LONGEST_REASON = 500
_OWN_WORDS = (CallTimeout, CommandFailed, HoldallError)


def _step_of(outcome: object) -> Step:
    if isinstance(outcome, CallTimeout):
        return "overdue"
    return "raised" if isinstance(outcome, BaseException) else "finished"


def _reason(outcome: BaseException) -> str:
    """Why a call did not end as it should, in one line."""
    if isinstance(outcome, asyncio.CancelledError):
        return "cancelled"
    if isinstance(outcome, _OWN_WORDS):
        return str(outcome)
    if more := _more_than_reason(outcome):
        return more.lstrip().partition("\n")[0][:_LONGEST_REASON]
    if isinstance(outcome, ToolRaised):
        return str(outcome)
    return traceback_of(outcome).strip().rpartition("\n")[2] or type(outcome).__name__


def _more_than_reason(outcome: BaseException) -> str:
    """All that an error says, where that is more than a line: then it is the call's output, too."""
    if isinstance(outcome, (asyncio.CancelledError, *_OWN_WORDS)):
        return ""
    said = str(outcome) if isinstance(outcome, ToolRaised) else clamp_error(outcome, Limits())
    notes: object = getattr(outcome, "__notes__", None)
    if isinstance(notes, list):
        said = "\n".join([said, *(one for one in cast("list[object]", notes) if isinstance(one, str))])
    return said if "\n" in said or len(said) > _LONGEST_REASON else ""
