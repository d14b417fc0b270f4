"""The one object: keep an output, and fetch any part of it again.

    async with Holdall.open(session="s1") as bag:
        kept = await bag.keep(result, tool="fetch", call_id="c1")
        passage = await bag.read(kept.handle, lines=(1, 50))

This is where threads meet the event loop, and the only way in for the edges: below it everything is synchronous,
above it nothing touches a store, a verb or a file. It decides nothing and words nothing.
"""

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from holdall.bag.care import Care
from holdall.policy.decide import Decision, decide
from holdall.policy.limits import limits_of
from holdall.policy.retention import parse as parse_retention
from holdall.store import upkeep
from holdall.store.cache import Readers
from holdall.store.directory import DirectoryStore
from holdall.store.home import default_home
from holdall.store.ids import new_tag, new_uuid
from holdall.store.keeping import Quota
from holdall.store.protocol import OutputReader, OutputWriter, Progress, SessionInfo
from holdall.store.pump import Pump
from holdall.store.sources import CHUNK, Source
from holdall.text.tokenizers import tokenizer_named
from holdall.text.tokens import Tokenizer
from holdall.values.answers import Found, Nodes, Passage, Table
from holdall.values.errors import StoreFault
from holdall.values.facts import Facts, Origin
from holdall.values.settings import Settings
from holdall.values.spans import Span
from holdall.verbs.bounds import UNBOUNDED, Bounds
from holdall.verbs.glimpse import glimpse, whole_fits
from holdall.verbs.grep import grep
from holdall.verbs.query import query_path, query_sql
from holdall.verbs.read import locate, passage, read
from holdall.verbs.slice import DEFAULT_WINDOW
from holdall.verbs.slice import slice as cut
from holdall.verbs.sql_worker import SqlWorker
from holdall.verbs.tail import DEFAULT_LINES, tail
from holdall.wire.notice import GLIMPSE, notice

Answer = TypeVar("Answer")

_FOLLOW_SECONDS = 0.1  # how often a followed output is looked at; its writer may be another process


class Holdall:
    """One session of one store. Made by `open`; safe to use from many tasks at once."""

    def __init__(self, store: DirectoryStore, session: SessionInfo, settings: Settings, tokenizer: Tokenizer) -> None:
        self.store = store
        self.session = session
        self.settings = settings
        self._tokenizer = tokenizer
        self._limits = limits_of(settings)
        self.care = Care(store, session)
        self._readers = Readers(store, session)
        self._sql = SqlWorker()
        self._closed = False

    @classmethod
    def open(
        cls,
        *,
        session: str | None = None,
        home: str | None = None,
        settings: Settings | None = None,
        tokenizer: Tokenizer | None = None,
        clock: Callable[[], float] = time.time,
        parent: str = "",
    ) -> Self:
        """A session by name, made where there is none; without a name, a new one. Use it as `async with`."""
        settings = settings or Settings()
        tokenizer = tokenizer or tokenizer_named(settings.tokenizer)
        retention = parse_retention(settings.retention)
        store = DirectoryStore(
            home or settings.store_dir or default_home(),
            tokenizer=tokenizer,
            retention=retention,
            quota=Quota(settings.quota_bytes, settings.session_quota_bytes),
            clock=clock,
        )
        info = store.open_session(session or new_uuid(), parent=parent)
        if upkeep.due(store):
            with contextlib.suppress(StoreFault):  # a store that cannot be tidied can still be read
                upkeep.sweep(store)
        return cls(store, info, settings, tokenizer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session: its retention rule is carried out, everything open is closed."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    # In

    async def keep(
        self,
        output: object,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        server: str = "",
        progress: Progress | None = None,
    ) -> Facts:
        """Store every byte of `output`, whatever its form; on return it is durable and has a handle."""
        origin = Origin(tool=tool, server=server, arguments=arguments, call_id=call_id)
        pump: Pump | None = None
        if isinstance(output, AsyncIterable):
            pump = Pump(cast("AsyncIterable[object]", output), asyncio.get_running_loop())
            output = iter(pump)
        source = Source(output)
        store = functools.partial(self.store.put, notes=lambda: source.notes, progress=progress)
        work = asyncio.ensure_future(asyncio.to_thread(store, self.session, source, origin))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # What has come is kept before the cancellation goes on: it may be all there will ever be.
            if pump is not None:
                pump.stop()
            await asyncio.wait([work])
            raise

    async def begin(
        self, *, tool: str = "", arguments: Any = None, call_id: str = "", terminal: bool = False
    ) -> OutputWriter:
        """A running output: its handle exists now, and what is written to it can be read by anybody."""
        origin = Origin(tool=tool, arguments=arguments, call_id=call_id, terminal=terminal)
        return await asyncio.to_thread(self.store.begin, self.session, origin)

    def decide(self, text: str, *, tokens_left: int | None = None) -> Decision:
        """Whether `text` fits as it is, by the session's limits."""
        return decide(text, limits=self._limits, tokenizer=self._tokenizer, tokens_left=tokens_left)

    # Out

    async def read(
        self, handle: str, *, lines: object = None, bytes: object = None, chars: object = None, bounded: bool = True
    ) -> Passage:
        verb = functools.partial(read, lines=lines, bytes=bytes, chars=chars, bounds=self._bounds(bounded))
        return await self._on(handle, verb)

    async def tail(self, handle: str, lines: int = DEFAULT_LINES, *, bounded: bool = True) -> Passage:
        return await self._on(handle, functools.partial(tail, lines=lines, bounds=self._bounds(bounded)))

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
        verb = functools.partial(
            cut, start=start, length=length, anchor=anchor, window=window, match_index=match_index,
            bounds=self._bounds(bounded),
        )  # fmt: skip
        return await self._on(handle, verb)

    async def grep(
        self,
        handle: str,
        pattern: str,
        *,
        ignore_case: bool = False,
        literal: bool = False,
        context: int = 0,
        limit: int = 100,
        count: bool = False,
        group: bool = False,
        start: int = 0,
        bounded: bool = True,
    ) -> Found:
        verb = functools.partial(
            grep, pattern=pattern, ignore_case=ignore_case, literal=literal, context=context, limit=limit,
            count=count, group=group, start=start, seconds=self.settings.grep_seconds,
        )  # fmt: skip
        return await self._on(handle, lambda reader: verb(reader, max_bytes=self._share(reader, bounded)))

    async def query(
        self,
        handle: str,
        sql: str | None = None,
        *,
        path: str | None = None,
        at: str | None = None,
        limit: int | None = None,
        skip: int = 0,
        bounded: bool = True,
    ) -> Table | Nodes:
        """SQL over the table `t`, or the values that a JSONPath or JSON Pointer names."""
        rows = limit or self.settings.query_max_rows
        if path is not None:
            by_path = functools.partial(query_path, path=path, limit=rows, skip=skip)
            return await self._on(handle, lambda reader: by_path(reader, max_bytes=self._share(reader, bounded)))
        by_sql = functools.partial(
            query_sql, sql=sql or "", at=at, max_rows=rows, seconds=self.settings.query_seconds,
            memory_bytes=self.settings.query_memory_bytes, worker=self._sql,
        )  # fmt: skip
        return await self._on(handle, lambda reader: by_sql(reader, max_bytes=self._share(reader, bounded)))

    async def show(self, handle: str) -> Facts:
        return await asyncio.to_thread(self.store.resolve, self.session, handle)

    async def outputs(self) -> Sequence[Facts]:
        """Everything that the session has kept, tombstones too, oldest first."""
        return await asyncio.to_thread(self.store.outputs, self.session)

    async def unreadable(self) -> Mapping[str, StoreFault]:
        """Handles of the session whose records cannot be read, and why: they are not among the outputs."""
        return (await asyncio.to_thread(self.store.survey, self.session))[2]

    async def find(self, handle: str, *, lines: object = None, bytes: object = None, chars: object = None) -> Passage:
        """Where a range lies, without its bytes: `stream` then gives them, however many they are."""

        def verb(reader: OutputReader) -> Passage:
            target = locate(reader, lines=lines, bytes=bytes, chars=chars)
            return passage(reader, target.span, b"", past_end=target.past_end)

        return await self._on(handle, verb)

    async def stream(self, handle: str, span: Span | None = None) -> AsyncIterator[bytes]:
        """The exact bytes, checked, in chunks; all of them where no span is given."""
        at = span.start if span else 0
        while True:
            end = at + CHUNK if span is None else min(at + CHUNK, span.end)
            chunk = await self._on(handle, lambda reader, at=at, end=end: reader.read(at, end))
            if not chunk:
                return
            yield chunk
            at += len(chunk)

    async def follow(self, handle: str, lines: int = DEFAULT_LINES) -> AsyncIterator[bytes]:
        """The end of an output, then what is written to it, until it has ended."""
        last = await self.tail(handle, lines, bounded=False)
        yield last.data
        at = last.bytes.end
        while True:
            running = (await self.show(handle)).state == "running"
            async for chunk in self.stream(handle, Span(at, 1 << 62)):
                at += len(chunk)
                yield chunk
            if not running:
                return
            await asyncio.sleep(_FOLLOW_SECONDS)

    async def notice(self, handle: str) -> str:
        """What a model sees in place of this output."""
        seen = await self._on(handle, lambda reader: glimpse(reader, GLIMPSE, new_tag))
        return notice(*seen, tokenizer=self._tokenizer)

    async def fits(self, handle: str) -> bool:
        """Whether the kept output would have been shown as it is."""
        most = self._limits.bytes or CHUNK
        return await self._on(handle, lambda reader: whole_fits(reader, most, self.decide))

    # Inside

    async def _on(self, handle: str, verb: Callable[[OutputReader], Answer]) -> Answer:
        def work() -> Answer:
            with self._readers.lease(handle) as reader:
                return verb(reader)

        return await asyncio.to_thread(work)

    def _bounds(self, bounded: bool) -> Bounds:
        if not bounded:
            return UNBOUNDED
        return Bounds(self.settings.answer_max_bytes, self.settings.answer_max_tokens, self._tokenizer)

    def _share(self, reader: OutputReader, bounded: bool) -> int | None:
        return self._bounds(bounded).share(reader.facts.measure)

    def _close(self) -> None:
        self._readers.close()
        self._sql.close()
        with contextlib.suppress(Exception):
            self.store.end_session(self.session)
        self.store.close()
