"""Background calls as the agent's driver sees them: wait, stop, abort, and events as they happen.

Every wait is for a signal: the end of a call, a write, an event. Nothing polls.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdall.background import Job
from holdall.bag.core import Core, in_thread
from holdall.bag.fetch import Fetch, asked_for
from holdall.bag.journal import since
from holdall.bag.messages import Messages
from holdall.bag.records import is_alive
from holdall.bag.run import Dispatch, Dispatched
from holdall.bag.take import note_down, update_within_limits, view_of
from holdall.formats.registry import checked_kind
from holdall.store.ids import new_fence_tag
from holdall.store.owners import process_mark
from holdall.store.protocol import OutputWriter
from holdall.text.ranges import check_numbers
from holdall.values.answers import Answer
from holdall.values.errors import HoldallError, NeverStored, UsageError
from holdall.values.events import Event
from holdall.values.outputs import Facts, Origin
from holdall.values.spans import Span
from holdall.verbs.read import Bounds
from holdall.wire.answers import MOST_TOLD, Frame, StillRunning, Waited, error_line, tag_for
from holdall.wire.clamp import MAX_BYTES, MAX_LINES
from holdall.wire.tool import Ask

if TYPE_CHECKING:
    from holdall.verbs.grep import PatternWatch

_MOST_SECONDS = 60.0  # that storing an output may take
_MOST_WATCHED = 16  # outputs of other processes at once: the system has few watches


class Background:
    """`bag.jobs`: the calls that run in the background, and outputs that are written while you hold them."""

    def __init__(self, core: Core, fetch: Fetch, dispatch: Dispatch) -> None:
        self._core = core
        self._fetch = fetch
        self._dispatch = dispatch
        self.table = dispatch.jobs  # every call that has not ended, raced or in the background
        self.calls = dispatch.background
        self.is_stopping = False
        self._waiting: set[Callable[[], object]] = set()  # models that wait
        self._streams: dict[asyncio.Queue[Event | None], asyncio.AbstractEventLoop] = {}
        self._opened = core.journal.now()
        self._told: set[str] = set()  # calls of other processes whose end was told by a wait, or is no news
        self._leaving: asyncio.Task[None] | None = None
        self._core.journal.watchers[self._notify] = lambda: not self._streams

    async def wait(
        self,
        handle: str = "",
        *,
        all: bool = False,
        pattern: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - a wait that is over its time is an answer, not an error
    ) -> Waited:
        """Until a call in the background has ended: any, this one, or all of them; or until its output holds `pattern`.

        At most `timeout` seconds, and never more than `wait_max_seconds`. With what has ended since the last wait, but
        for what a model has read to its end since then: their facts. What a model should get of one, `fetch.shown` has.
        """
        check_numbers(timeout=timeout)
        return await self._core.at_home(self._wait(handle, all, pattern, timeout))

    async def _wait(self, handle: str, all: bool, pattern: str, timeout: float | None) -> Waited:  # noqa: ASYNC109
        most = self._core.settings.wait_max_seconds
        seconds = most if timeout is None else max(0.0, min(timeout, most))
        if pattern and not handle:
            raise UsageError("a pattern is waited for in one output: give its handle.")
        if handle and (await self._one(handle)) is None:
            waited = await self._wait_for_others(handle, pattern, seconds)
            self._told.update(facts.handle for facts in waited.ended)
            return waited
        chosen = [await self._one(handle)] if handle else list(self.calls.values())
        if not handle:
            await asyncio.to_thread(self._note_read)
        running = [one for one in chosen if one is not None and not one.job.has_ended]
        elsewhere = [] if handle else await self._elsewhere()
        watched = [facts.handle for facts in elsewhere if facts.state == "running"]
        matched = ""
        if pattern and handle:
            handle = chosen[0].handle if chosen[0] is not None else handle
            matched = await self._until_written(handle, running, pattern, seconds)
        elif (running or watched) and (
            all or handle or not (self._unreported(chosen) or len(watched) < len(elsewhere))
        ):
            await self._until_ended([one.job for one in running], watched, seconds=seconds, wait_for_all=all)
            elsewhere = await self._elsewhere() if watched else elsewhere
        # Whoever names a call gets it also where an earlier wait has told of its end.
        ended = [one for one in chosen if one is not None and one.job.has_ended and (bool(handle) or not one.told)]
        for one in ended:
            one.told = True
            self._core.untold.discard(one.handle)
        over = [facts for facts in elsewhere if facts.state != "running"]
        self._told.update(facts.handle for facts in over)
        facts = (*(one.facts for one in ended if one.facts is not None), *over)
        still = (*self.still_running(), *(self._running_elsewhere(one) for one in elsewhere if one not in over))
        return Waited(facts, still, matched, timed_out=bool(still) and not facts and not matched)

    def _note_read(self) -> None:
        """What a model has read to its end since it ended is no news for it."""
        for one in tuple(self.calls.values()):
            if one.job.has_ended and not one.told and one.facts is not None and one.facts.measure.bytes:
                one.told = self._core.journal.coverage(one.handle).is_told(one.facts.measure.bytes)

    def patience(self, tool: str) -> float | None:
        """Seconds before a call of this tool goes to the background; None if it never does."""
        return self._dispatch.patience(tool)

    def still_running(self) -> tuple[StillRunning, ...]:
        """What goes on in the background now, and what is queued, oldest first."""
        return tuple(self._running(one) for one in tuple(self.calls.values()) if not one.job.has_ended)

    async def events(self) -> AsyncIterator[Event]:
        """Everything that happens from now on, each event once, until the session is closed."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._streams[queue] = asyncio.get_running_loop()
        try:
            if self._core.is_closed or self._core.is_left:
                return
            while (event := await queue.get()) is not None:  # those of before the end come before it
                yield event
        finally:
            self._streams.pop(queue, None)

    async def until_more_ended(self, known: Collection[str]) -> set[str]:
        """Handles of calls that have ended, without those that are known; empty after `wait_max_seconds`.

        Nobody has been told of them: a wait still does.
        """
        return await self._core.at_home(self._until_more_ended(known))

    async def _until_more_ended(self, known: Collection[str]) -> set[str]:
        def news() -> set[str]:
            return {handle for handle, one in self.calls.items() if one.job.has_ended and handle not in known}

        running = [one.job for one in self.calls.values() if not one.job.has_ended]
        if running and not news():
            seconds = self._core.settings.wait_max_seconds
            await self._until_ended(running, [], seconds=seconds, wait_for_all=False)
        return news()

    async def wait_for_model(self, handle: str, **options: Any) -> Waited:
        """The same for a model that asked to wait: a stop ends it, for its final turn is next."""
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        wake = functools.partial(loop.call_soon_threadsafe, stopped.set)
        self._waiting.add(wake)
        if self.is_stopping:
            stopped.set()
        tasks = asyncio.ensure_future(self.wait(handle, **options)), asyncio.ensure_future(stopped.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return tasks[0].result() if tasks[0].done() else Waited(running=self.still_running(), timed_out=True)
        finally:
            self._waiting.discard(wake)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Holdall's tools are no longer offered, waits of a model end; running calls may finish. The driver must start
        no new ones."""
        self.is_stopping = True
        for wake in tuple(self._waiting):
            wake()

    async def abort(self, handle: str = "", *, why: str = "") -> None:
        """Cancel what runs, at once; what it has written is kept. Returns when all of it has ended. Who waits for one
        in `run` or a turn gets it as an error, and goes on.

        With a handle, that call alone, and the session goes on; one that has ended stays as it is. The reason `why` is
        recorded with each; given for all, it is also with those that had written nothing.
        """
        if handle:
            await self._core.at_home(self._abort_one(handle, why))
            return
        self.is_stopping = True
        self._dispatch.cut_off = why
        await self._core.at_home(self._abort(self.table.unfinished))

    def keep_all(self) -> None:
        """From now on results are kept also where they are small: perhaps nobody is left to read them."""
        self._dispatch.keeps_all = True

    async def begin(
        self,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        terminal: bool = False,
        process: int = 0,
        kind: str = "",
    ) -> OutputWriter:
        """A running output: its handle exists now, and what is written to it can be read by anybody.

        `process` is the process that gets SIGTERM to end it; `kind` says what text is to be read as.
        """
        core = self._core
        if not core.may_store(tool):
            raise NeverStored(tool, by_dialect=not core.dialect.stores)
        origin = replace(
            Origin.given(tool, "", arguments, call_id), terminal=terminal, process=process,
            process_mark=process_mark(process), read_as=checked_kind(kind),
        )  # fmt: skip
        writer = await asyncio.to_thread(core.begin, origin)
        core.kept[writer.handle] = core.store.resolve(core.session, writer.handle)
        return writer

    def messages(self, tool: str = "") -> Messages:
        """For what a call of `tool` says on its way, as progress and log lines: give it to `run(messages=…)`.

        What its `add` gets, in any thread, can be read under the handle of the running call, until that has output.
        """
        redaction = self._core.redaction_of(tool)
        limits = self._core.limits_for(tool)
        most = replace(limits, bytes=limits.bytes or MAX_BYTES, lines=limits.lines or MAX_LINES)
        return Messages(most, redaction.masked if redaction is not None else None)

    async def update(self, partial: object, *, tool: str = "") -> object:
        """A partial update of a running tool, within the limits; the same object where it is. The whole comes later."""
        redaction = self._core.redaction_of(tool)
        if redaction is not None:
            partial = await in_thread(redaction.masked, {"value": partial})
        return await asyncio.to_thread(update_within_limits, self._core, partial, tool)

    async def close(self) -> None:
        """End the session: see `Holdall.close`."""
        if not self._core.is_closed and not self._core.is_left and not self._core.is_forked:
            await self._core.at_home(self.finish(ends=True))

    async def detach(self) -> None:
        """Leave the session without ending it: see `Holdall.detach`."""
        if not self._core.is_closed and not self._core.is_left and not self._core.is_forked:
            self._core.is_left = True
            await self._core.at_home(self._detach())

    async def finish(self, *, ends: bool) -> None:
        """`close` on the loop of the calls; where the session does not end, its outputs stay."""
        core = self._core
        while core.ending is not None and not core.ending.done():  # another task is at it
            await asyncio.shield(asyncio.wrap_future(core.ending))
        if core.is_closed:
            return
        core.ending = concurrent.futures.Future()
        try:
            self.is_stopping = True
            await self.wind_up()
            await core.release(ends=ends)
        finally:
            core.ending.set_result(None)
        self._end_streams()

    async def wind_up(self, why: str = "") -> None:
        """On the loop of the calls: they have their grace, then they are cancelled, and `why` is recorded."""
        await self.table.wait(self.table.unfinished, seconds=self._core.settings.grace_seconds, wait_for_all=True)
        if self.table.unfinished:
            self._dispatch.cut_off = why
            await self._abort(self.table.unfinished)
        await self.table.settled()

    async def ended(self, handles: Sequence[str]) -> None:
        """Until the outputs of these calls, which have ended, are whole. What ended is still news for a wait."""
        jobs = [one.job for handle in handles if (one := self.calls.get(handle)) is not None and not one.job.has_ended]
        if jobs:
            await self._core.at_home(self.table.wait(jobs, seconds=_MOST_SECONDS, wait_for_all=True))

    def let_go(self) -> None:
        """`detach` at once, in any thread, where no call runs."""
        self._core.is_left = True
        self._core.let_go(ends=False)
        self._end_streams()

    async def _detach(self) -> None:
        if self.table.is_idle:
            await self._core.release(ends=False)
            self._end_streams()
        else:
            await asyncio.to_thread(self._core.release_hold)
            self._leaving = asyncio.get_running_loop().create_task(self._release_after_calls())

    async def _release_after_calls(self) -> None:
        cancelled: asyncio.CancelledError | None = None
        while not self.table.is_idle:
            try:
                await self.table.wait(self.table.unfinished, seconds=None, wait_for_all=True)
                await self.table.settled()
            except asyncio.CancelledError as problem:  # the loop ends, and the calls with it: what they wrote is kept
                cancelled = problem
        await self._core.release(ends=False)
        self._end_streams()
        if cancelled is not None:
            raise cancelled

    async def _abort_one(self, handle: str, why: str) -> None:
        one = await self._one(handle)
        if one is not None:
            one.cut_off = one.cut_off or why
            await self._abort([] if one.job.has_ended else [one.job])
        elif (facts := await self._fetch.recorded(handle)).state == "running":
            raise UsageError(f"output {facts.handle} is no call of this process: only who started it can end it.")

    async def _abort(self, jobs: Sequence[Job]) -> None:
        self.table.cancel(jobs)
        await self.table.wait(jobs, seconds=None, wait_for_all=True)

    async def told(
        self, waited: Waited, ask: Ask, tokens_left: int | None, started: float
    ) -> tuple[Answer, Callable[[], None]]:
        """What a model reads that asked to wait: what has ended with its output, or with the notice of a large one.
        And what writes the events of that.
        """
        core = self._core
        # The first is of no output, and no retrieval; so no word that may be one of an output's is in it.
        asked = asked_for(ask.options)
        named = {"handle": ask.handle[:100]} if ask.handle else {}
        events: list[dict[str, Any]] = [
            {"asked": {**named, **{name: asked[name] for name in asked if name != "pattern"}}}
        ]

        def note() -> None:
            events[0]["seconds"] = since(started)
            for data in events:
                core.journal.record("retrieved", verb="wait", name="wait_for_tool_output", **data)

        named = {*(one.handle for one in (*waited.ended, *waited.running)), waited.matched}
        waited = replace(waited, named={handle: core.shown_handle(handle) for handle in named})
        text = core.without_mark(core.dialect.wait(waited))
        if not core.dialect.wait_shows_outputs or waited.matched:
            return Answer(text, handle=ask.handle), note
        most_bytes, most_tokens = core.settings.answer_max_bytes, core.settings.answer_max_tokens
        most_tokens = most_tokens if tokens_left is None else min(most_tokens, tokens_left)
        shown: dict[str, str] = {}
        for facts in waited.ended[:MOST_TOLD]:
            left = Bounds(most_bytes - len(text.encode("utf-8", "replace")), most_tokens - core.count(text))
            output, spans = await self._output(facts, left)
            if output:
                shown[facts.handle] = output
                text = core.without_mark(core.dialect.wait(replace(waited, outputs=shown)), [*shown.values()])
            if output or not facts.measure.bytes:  # of a call that wrote nothing, how it ended is all there is
                of_it = {"tokens": core.count(output), "shown": [span.as_list() for span in spans]}
                events.append({"asked": asked, "handle": facts.handle, "tool": facts.origin.tool, **of_it})
        return Answer(text, handle=ask.handle), note

    # Inside

    async def _output(self, facts: Facts, left: Bounds) -> tuple[str, tuple[Span, ...]]:
        """All of it inside its fence where there is room for that, else its notice; and the bytes of it that this
        shows. Nothing where there is no room for a notice either, or the output is gone."""
        core, size = self._core, facts.measure.bytes
        left = replace(left, tokenizer=core.tokenizer)
        try:
            if size and facts.measure.utf8 and size <= (left.most_bytes or 0):
                text = (await core.on(facts.handle, lambda reader: reader.read(0, size))).decode("utf-8")
                frame = Frame(core.handle_of(facts), tag_for(text, new_fence_tag), core.dialect.go_on)
                if left.fits((fenced := frame.fenced(text)).encode()):
                    return fenced, (Span(0, size),)
            view = None
            if size:
                told, spans = core.written(view := await view_of(core, facts.handle))
            else:
                told, spans = self._error(facts), ()
        except HoldallError:  # expired or damaged: whoever reads it is told so
            return "", ()
        if not left.fits(told.encode("utf-8", "replace")):
            return "", ()
        if view is not None:
            await asyncio.to_thread(note_down, core, facts, told, view)
        return told, spans

    def _error(self, facts: Facts) -> str:
        """Of a call that gave nothing it is all there is."""
        core, line = self._core, error_line(facts.error)
        return (
            Frame(core.handle_of(facts), tag_for(line, new_fence_tag), core.dialect.go_on).fenced(line) if line else ""
        )

    async def _one(self, handle: str) -> Dispatched | None:
        """None for an output that no call of ours writes."""
        return self.calls.get((await self._fetch.recorded(handle)).handle)

    def _unreported(self, chosen: list[Dispatched | None] | list[Dispatched]) -> list[Dispatched]:
        return [one for one in chosen if one is not None and one.job.has_ended and not one.told]

    def _running(self, one: Dispatched) -> StillRunning:
        return StillRunning(one.origin.tool, one.handle, self.table.age(one.job), one.job.state == "queued")

    def _running_elsewhere(self, facts: Facts) -> StillRunning:
        return StillRunning(facts.origin.tool, facts.handle, max(0.0, self._core.journal.now() - facts.created))

    async def _elsewhere(self) -> list[Facts]:
        """The calls that other processes of the session have in the background, and those of which no wait has told
        that they ended.
        """
        found: list[Facts] = []
        for handle in await asyncio.to_thread(self._core.journal.background_elsewhere):
            if handle in self._told:
                continue
            with contextlib.suppress(HoldallError):  # removed, or unreadable
                facts = await self._fetch.recorded(handle)
                if facts.state == "running" or (facts.state != "expired" and (facts.ended or 0.0) >= self._opened):
                    found.append(facts)
                    continue
            self._told.add(handle)
        return found

    async def _until_ended(
        self, jobs: Sequence[Job], elsewhere: Sequence[str], *, seconds: float, wait_for_all: bool
    ) -> None:
        """Until one of these has ended, ours or another process's, or all of them have."""
        waits: list[Coroutine[Any, Any, object]] = [
            self._wait_for_others(one, "", seconds) for one in elsewhere[:_MOST_WATCHED]
        ]
        if jobs:
            waits.append(self.table.wait(jobs, seconds=seconds, wait_for_all=wait_for_all))
        tasks = [asyncio.ensure_future(one) for one in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.ALL_COMPLETED if wait_for_all else asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait_for_others(self, handle: str, pattern: str, seconds: float) -> Waited:
        """The same for an output that another process writes: the system tells when there is something new."""
        pattern_watch = _watch_for(pattern) if pattern else None
        watch = await self._fetch.watch(handle)

        async def look() -> Waited:
            facts = await self._fetch.recorded(handle)
            if pattern_watch is not None and await self._core.on(handle, pattern_watch.found):
                return Waited(matched=facts.handle)
            if facts.state != "running":
                return Waited((facts,))
            return Waited(running=(self._running_elsewhere(facts),), timed_out=True)

        try:
            found = await look()  # whatever the time: it may have ended long ago
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while found.timed_out:
                        await watch.changed()
                        if pattern_watch is not None:
                            await asyncio.sleep(pattern_watch.rest)
                        found = await look()
            return found
        finally:
            watch.close()

    async def _until_written(self, handle: str, running: list[Dispatched], pattern: str, seconds: float) -> str:
        """The handle once its output holds the pattern; empty if it ended, or the time did, without it."""
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        pattern_watch = _watch_for(pattern)

        def heard() -> None:
            loop.call_soon_threadsafe(written.set)

        if not seconds:  # then one look is all
            return handle if await self._core.on(handle, pattern_watch.found) else ""
        for one in running:
            one.sink.listeners = (*one.sink.listeners, heard)
        try:
            async with asyncio.timeout(seconds):
                while True:
                    written.clear()
                    ended = all(one.job.has_ended for one in running)
                    if await self._core.on(handle, pattern_watch.found):
                        return handle
                    if ended:
                        return ""
                    told = asyncio.ensure_future(written.wait())
                    await asyncio.wait([told, *(one.job.ended for one in running)], return_when=asyncio.FIRST_COMPLETED)
                    told.cancel()
                    await asyncio.wait([one.job.ended for one in running], timeout=pattern_watch.rest)
        except TimeoutError:
            return ""
        finally:
            for one in running:
                one.sink.listeners = tuple(other for other in one.sink.listeners if other is not heard)

    def _end_streams(self) -> None:
        self._notify(None)

    def _notify(self, event: Event | None) -> None:
        for queue, loop in tuple(self._streams.items()):
            with contextlib.suppress(RuntimeError):  # its loop is closed: nobody listens any more
                loop.call_soon_threadsafe(queue.put_nowait, event)


def _watch_for(pattern: str) -> "PatternWatch":
    from holdall.verbs.grep import PatternWatch  # noqa: PLC0415 - few waits have a pattern

    return PatternWatch(pattern)


def runs_here(facts: Facts) -> bool:
    """Whether the process that the record names is the one that has its number on this machine, in this container."""
    return is_alive(facts.origin.process, facts.origin.process_mark)
