"""The verbs as methods: any part of a kept output, by line, byte, character, regex, SQL or path.

Bounded answers are for a model: they are events, and the ledger counts what they show. Unbounded answers are for
programs and people, and are not counted as seen by the model.
"""

import asyncio
import contextlib
import functools
import importlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, TypeVar, cast, overload

from holdall.bag.core import Core
from holdall.bag.take import earlier_of, kept_earlier, settle, shown_running
from holdall.store.deadline import within
from holdall.store.protocol import OutputReader, Watch
from holdall.store.reader import FileReader
from holdall.store.sources import CHUNK
from holdall.text.utf8 import with_surrogates
from holdall.values.answers import Difference, Fetched, Found, Nodes, Passage, Table, scanned_by, shown_by
from holdall.values.errors import AnchorNotFound, BadQuery, HoldallError, OutputDamaged, UnknownHandle, UsageError
from holdall.values.handles import MEMBER
from holdall.values.outputs import Facts, Taken
from holdall.values.settings import Settings
from holdall.values.spans import Range, Span
from holdall.verbs.read import Bounds, locate, passage
from holdall.wire.answers import with_messages_note
from holdall.wire.notes import with_running
from holdall.wire.tool import Ask
from holdall.wire.verbs import DEFAULT_LINES, DEFAULT_WINDOW, VERBS

RowsT_co = TypeVar("RowsT_co", covariant=True)
ValuesT_co = TypeVar("ValuesT_co", covariant=True)
_OF_MESSAGES = frozenset(("read", "tail", "slice", "grep"))  # verbs that look into what a call says on its way
_MOST_OPTIONS, _MAX_NAME, _MAX_ASKED = 20, 40, 500  # of what was asked, in its event


class Querying(Protocol[RowsT_co, ValuesT_co]):
    """What `query` gives by how it is called; on the bag of `holdall.blocking` without an await."""

    @overload
    def __call__(
        self, handle: str, sql: str, *, path: None = None, at: str | None = None, also: Sequence[str] = (),
        kind: str | None = None, limit: int | None = None, bounded: bool = True,
    ) -> RowsT_co: ...  # fmt: skip

    @overload
    def __call__(
        self, handle: str, sql: None = None, *, path: str, limit: int | None = None, skip: int = 0,
        bounded: bool = True,
    ) -> ValuesT_co: ...  # fmt: skip

    @overload
    def __call__(
        self, handle: str, sql: str | None = None, *, path: str | None = None, at: str | None = None,
        also: Sequence[str] = (), kind: str | None = None, limit: int | None = None, skip: int = 0,
        bounded: bool = True,
    ) -> RowsT_co | ValuesT_co: ...  # fmt: skip


Awaited: TypeAlias = Querying[Coroutine[Any, Any, Table], Coroutine[Any, Any, Nodes]]


class Fetch:
    """`bag.fetch`: a kept output in part or whole, for models, programs and people; the verbs are on the bag, too."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def read(
        self,
        handle: str,
        *,
        lines: Range | None = None,
        bytes: Range | None = None,
        chars: Range | None = None,
        bounded: bool = True,
    ) -> Passage:
        """A range: `lines` from 1, both ends included; `bytes` and `chars` from 0, the end not; none, from its start.

        Written as text or as a pair: `"10:20"`, `"10:"`, `"-5:"` (the last five), `(10, 20)`, `(10, None)`.

        `bounded`, here and in the others: the answer is for a model. It is no longer than the settings allow, `next`
        says how to continue, and it counts as shown to the model (`records.coverage`). With `bounded=False` it is for
        the program: whole, and not counted. `fetch.stream` gives bytes that are too many for memory.
        """
        return cast("Passage", await self._verb("read", handle, bounded, lines=lines, bytes=bytes, chars=chars))

    async def tail(self, handle: str, lines: int = DEFAULT_LINES, *, bounded: bool = True) -> Passage:
        """The last lines."""
        return cast("Passage", await self._verb("tail", handle, bounded, lines=lines))

    async def slice(
        self,
        handle: str,
        *,
        start: int | None = None,
        length: int | None = None,
        anchor: str | None = None,
        window: int = DEFAULT_WINDOW,
        match_index: int = 0,
        bounded: bool = True,
    ) -> Passage:
        """Characters from `start` on, or a `window` of them around the text `anchor`."""
        options = {"start": start, "length": length, "anchor": anchor, "window": window, "match_index": match_index}
        return cast("Passage", await self._verb("slice", handle, bounded, **options))

    async def grep(
        self,
        handle: str,
        pattern: str,
        *,
        ignore_case: bool = False,
        literal: bool = False,
        context: int = 0,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
        count: bool = False,
        group: bool = False,
        last: bool = False,
        start: int = 0,
        bounded: bool = True,
    ) -> Found:
        """Lines that match, with their numbers and bytes, each once; with `last` from the end; with `count` how many,
        with `group` how often each captured value. `start` is the byte to go on from; with `group`, the value.

        At most `limit` of them (100; all with `bounded=False`, see `read`); `total` counts every match.
        """
        options = {
            "pattern": pattern, "ignore_case": ignore_case, "literal": literal, "context": context, "before": before,
            "after": after, "limit": limit, "count": count, "group": group, "last": last, "start": start,
        }  # fmt: skip
        return cast("Found", await self._verb("grep", handle, bounded, **options))

    async def query(
        self,
        handle: str,
        sql: str | None = None,
        *,
        path: str | None = None,
        at: str | None = None,
        also: Sequence[str] = (),
        kind: str | None = None,
        limit: int | None = None,
        skip: int = 0,
        bounded: bool = True,
    ) -> Table | Nodes:
        """SQL over the table `t`, or the values that a JSONPath or JSON Pointer names.

        `also` names further outputs, each a table under its handle; `kind` (csv, lines, …) says how SQL reads `t`.
        At most `limit` rows or values (`query_max_rows`; all with `bounded=False`, see `read`); `total` counts all of
        them, `next` is the OFFSET or the `skip` to continue with.
        """
        options = {"sql": sql, "path": path, "at": at, "also": also, "kind": kind, "limit": limit, "skip": skip}
        return cast("Table | Nodes", await self._verb("query", handle, bounded, **options))

    async def diff(
        self,
        handle: str,
        other: str = "",
        *,
        by: str | None = None,
        key: str | None = None,
        limit: int | None = None,
        skip: int = 0,
        bounded: bool = True,
    ) -> Difference:
        """How `other` differs from `handle`; without it, `handle` from the last before it of the same call."""
        options = {"other": other, "by": by, "key": key, "limit": limit, "skip": skip}
        return cast("Difference", await self._verb("diff", handle, bounded, **options))

    async def carry_out(self, ask: Ask, bounds: Bounds, facts: Facts | None = None) -> Fetched:
        """Carry out one verb within these bounds. It writes no event: the caller that shows the answer does; but that
        there is no such anchor is known of all that was gone over for it.

        `facts` are those of `ask.handle` where the caller has just looked them up. Of a call that has no output, what
        it has said on its way is read and searched.
        """
        if ask.verb == "diff" and not ask.options.get("other"):
            ask, facts = await self._with_earlier(ask), None
        work, seconds = self._work(ask, bounds), seconds_of(self._core.settings, ask.verb)

        def verb(reader: OutputReader) -> Fetched:
            empty = not reader.totals.bytes and reader.facts.state != "ready"
            said = self._core.messages_of(reader.facts) if empty and ask.verb in _OF_MESSAGES else b""
            if not said:
                try:
                    return _with_fault(work(reader), reader.facts)
                except (AnchorNotFound, BadQuery) as problem:
                    if reader.facts.state == "running":  # what is not there, or is no JSON yet, may come
                        problem.args = (with_running(str(problem), reader.totals.bytes),)
                    raise
            with contextlib.closing(FileReader.of_bytes(said, reader.facts)) as messages:
                return with_messages_note(cast("Passage | Found", work(messages)))

        try:
            with within(seconds):
                return await self._core.on(ask.handle, verb, facts)
        except AnchorNotFound as nothing:
            if nothing.scanned and bounds.most_bytes is not None:  # a person's are not
                scanned = [[0, nothing.scanned]]
                self._core.journal.record("scanned", handle=nothing.handle, verb=ask.verb, scanned=scanned)
            raise
        except BadQuery:
            await asyncio.to_thread(self._check_there, ask.handle)
            raise

    def _check_there(self, reference: str) -> None:
        """Of an output that was removed meanwhile, DuckDB says something else. Raises OutputExpired."""
        store = self._core.store
        store.open(store.resolve(self._core.session, reference.partition(MEMBER)[0])).close()

    # What is there

    async def show(self, handle: str) -> Facts:
        """What is known of an output, or of a member of it: its tool, measures, state. While its call runs, what there
        is so far is measured.
        """
        return await self._so_far(await self.recorded(handle))

    async def recorded(self, handle: str) -> Facts:
        """The same as its record has it: there the measures of a running call are none."""
        try:
            return await asyncio.to_thread(self._core.resolve, handle)
        except UnknownHandle:
            if MEMBER not in handle:
                raise
        return await self._core.on(handle, lambda reader: reader.facts)

    async def outputs(self) -> Sequence[Facts]:
        """Everything that the session has kept, tombstones too, oldest first."""
        return [await self._so_far(facts) for facts in await asyncio.to_thread(self._core.outputs)]

    async def find(
        self, handle: str, *, lines: Range | None = None, bytes: Range | None = None, chars: Range | None = None
    ) -> Passage:
        """Where a range lies, without its bytes: `stream` then gives them, however many they are."""

        def verb(reader: OutputReader) -> Passage:
            target = locate(reader, lines=lines, bytes=bytes, chars=chars)
            return passage(reader, target.span, b"", past_end=target.past_end)

        with within(seconds_of(self._core.settings, "read")):
            return await self._core.on(handle, verb)

    async def stream(self, handle: str, span: Span | None = None) -> AsyncIterator[bytes]:
        """The exact bytes, checked, in chunks; all of them where no span is given."""
        at = span.start if span else 0
        while True:
            end = at + CHUNK if span is None else min(at + CHUNK, span.end)
            chunk = await self._core.on(handle, lambda reader, at=at, end=end: reader.read(at, end))
            if not chunk:
                return
            yield chunk
            at += len(chunk)

    async def shown(self, handle: str, *, ending: bool = True) -> Taken:
        """A kept output as the model would get it: whole where it fits, else its notice; while its call runs, the
        notice of that. With `ending` what is whole ends with how its call failed, as `[exit code 1]`. This is an event.
        """
        facts = await self._core.on(handle, lambda reader: reader.facts)
        if facts.state == "running":
            return shown_running(self._core, facts)
        return await settle(self._core, await kept_earlier(self._core, facts, ending=ending))

    async def original_text(self, handle: str) -> str:
        """The whole text as the tool returned it, also the lone surrogates that UTF-8 cannot hold."""

        def whole(reader: OutputReader) -> str:
            data = reader.read(0, reader.totals.bytes)
            try:
                return with_surrogates(data, reader.facts.measure.surrogates)
            except UnicodeDecodeError as problem:
                raise UsageError(f"output {reader.facts.handle} is no text; `stream` gives its bytes.") from problem
            except ValueError as problem:
                raise OutputDamaged(reader.facts.handle, str(problem)) from problem

        return await self._core.on(handle, whole)

    async def follow(self, handle: str, lines: int = DEFAULT_LINES) -> AsyncIterator[bytes]:
        """The end of an output, then what is written to it, until it has ended."""
        if MEMBER in handle and (await self.recorded(handle)).packed is not None:
            yield (await self.tail(handle, lines, bounded=False)).data
            return
        watch = await self.watch(handle)
        try:
            last = await self.tail(handle, lines, bounded=False)
            at = 0
            if not last.of_messages:
                yield last.data
                at = last.bytes.end
            while True:
                running = (await self.recorded(handle)).state == "running"
                async for chunk in self.stream(handle, Span(at, 1 << 62)):
                    at += len(chunk)
                    yield chunk
                if not running:
                    return
                await watch.changed()
        finally:
            watch.close()

    async def watch(self, handle: str) -> Watch:
        """Wakes when the output is written to or has ended, by any process. Close it."""
        core = self._core
        core.check_open()
        return await asyncio.to_thread(lambda: core.store.watch(core.resolve(handle)))

    # Inside

    async def _so_far(self, facts: Facts) -> Facts:
        """With what there is of one that is being written, and whether its call waits for a slot: no record says it."""

        def look(reader: OutputReader) -> Facts:
            totals, now = reader.totals, reader.facts
            so_far = replace(now.measure, bytes=totals.bytes, chars=totals.chars, lines=totals.lines)
            state = "queued" if self._core.is_queued(now.handle) else now.state
            return replace(now, measure=so_far, state=state) if now.state == "running" else now

        if facts.state == "running":
            with contextlib.suppress(HoldallError, OSError):  # its record is all that can be read
                return await self._core.on(facts.handle, look)
        return facts

    async def _verb(self, verb: str, handle: str, bounded: bool, **options: Any) -> Fetched:
        bounds = self._core.bounds() if bounded else replace(self._core.bounds(bounded=False), whole=True)
        found = await self.carry_out(Ask(verb, handle, options), bounds)
        if bounded:
            self.count(verb, options, found, tokens=self._core.count(_text_in(found)))
        return found

    def count(
        self,
        verb: str,
        options: Mapping[str, Any],
        found: Fetched,
        shown: Sequence[Span] | None = None,
        tokens: int | None = None,
    ) -> None:
        """The ledger is told of an answer, unless a person reads it; of the bytes in it, or those that are `shown`."""
        if self._core.journal.reader:
            return
        first, *rest = seen_by(found, options)
        first |= {} if shown is None else {"shown": [one.as_list() for one in shown]}
        first |= {} if tokens is None else {"tokens": tokens}
        for data in (first, *rest):
            self._core.journal.record("retrieved", verb=verb, **data)
        self.record_also(found, verb)

    def count_bytes(self, verb: str, options: Mapping[str, Any], handle: str, span: Span) -> None:
        """The same of bytes that were streamed."""
        if not self._core.journal.reader and span.start < span.end:
            shown = [span.as_list()]
            self._core.journal.record("retrieved", verb=verb, asked=asked_for(options), handle=handle, shown=shown)

    def record_also(self, found: Fetched, verb: str) -> None:
        """The ledger counts each further output that a query has scanned."""
        for handle, total in found.also if isinstance(found, Table) else ():
            self._core.journal.record("scanned", handle=handle, verb=verb, scanned=[[0, total]])

    async def _with_earlier(self, ask: Ask) -> Ask:
        """A diff of one output: from the last before it of the same tool and arguments, to it."""
        facts = await self._core.on(ask.handle, lambda reader: reader.facts)
        if not (earlier := earlier_of(self._core, facts, ("ready", "failed"))):  # tests that fail are compared most
            same = [one.handle for one in self._core.kept.values() if one.origin.tool == facts.origin.tool]
            before = same[: same.index(facts.handle)] if facts.handle in same else []
            raise UsageError(
                f"output {facts.handle} is the first of its tool and arguments: name another one"
                + (f", such as {before[-1]}, of the same tool." if before else ".")
            )
        return replace(ask, handle=earlier, options={**ask.options, "other": facts.handle})

    def _work(self, ask: Ask, bounds: Bounds) -> Callable[[OutputReader], Fetched]:
        verb = VERBS.get(ask.verb)
        if verb is None:
            raise UsageError(f"{ask.verb} is not a verb that fetches.")
        core = self._core
        within = replace(
            bounds, settings=core.settings, worker=lambda: core.shared.sql.of(core.session.id), open=core.lease
        )
        return functools.partial(_function(verb.work), bounds=within, **ask.options)


def asked_for(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a verb was asked, for its event: short, and without the output, which the event names."""
    return {
        str(name)[:_MAX_NAME]: value if isinstance(value, bool | int | float) else str(value)[:_MAX_ASKED]
        for name, value in itertools.islice(given.items(), _MOST_OPTIONS)
        if name not in ("handle", "refId", "id") and value is not None and value is not False
    }


def _text_in(found: Fetched) -> str:
    """All that is in it of an output. What a program writes around that for its model, nobody else knows."""
    match found:
        case Passage():
            return found.text
        case Found():
            groups = [f"{group.value} {group.count}" for group in found.groups]
            return "\n".join(
                [*(line for one in found.matches for line in (*one.before, one.text, *one.after)), *groups]
            )
        case Table():
            return "\n".join("\t".join(map(str, row)) for row in (found.columns, *found.rows))
        case Nodes():
            return "\n".join(node.text for node in found.nodes)
        case Difference():
            return "\n".join(side.text for one in found.changes for side in (one.before, one.after) if side)


def seen_by(found: Fetched, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For the ledger: what of which output is in an answer, and was gone over for it. A second one is `part` of it.

    A diff is of two outputs, and each of its events names one of them: what was asked names both.
    """
    asked = asked_for(given)
    if isinstance(found, Difference):
        asked = {"handle": found.other, **asked, "other": found.handle}
        pairs = [(one, found.shown_of(one), found.scanned_of(one)) for one in (found.handle, found.other)]
    else:
        pairs = [(found.handle, shown_by(found), scanned_by(found))]
    spans = [
        {
            "handle": handle, "asked": asked, "shown": [one.as_list() for one in shown],
            "scanned": [one.as_list() for one in scanned],
        }
        for handle, shown, scanned in pairs
    ]  # fmt: skip
    return [spans[0], *({**one, "part": True} for one in spans[1:])]


@functools.cache
def seconds_of(settings: Settings, verb: str) -> float:
    """How long one call of it may take, whatever it does."""
    return settings.query_seconds if verb == "query" else settings.grep_seconds


def _with_fault(found: Fetched, facts: Facts) -> Fetched:
    """What is wrong with a member, once in every answer about it: that one ends early, some say already."""
    if facts.packed is None or not facts.error or any(facts.error in note for note in found.notes):
        return found
    return replace(found, notes=(*found.notes, facts.error))


def _function(work: str) -> Callable[..., Fetched]:
    """Imported when it is first needed: the engines are large."""
    module, _, name = work.partition(":")
    return getattr(importlib.import_module(f"holdall.verbs.{module}"), name)
