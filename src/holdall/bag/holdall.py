"""The one object: one way in (take, run), one way back (the verbs, as methods and as tools), one system notice.

    async with Holdall.open(session="s1") as bag:
        taken = await bag.take(result, tool="fetch", call_id="c1")
        messages.append(tool_message(taken.content))

Everything above uses this class: no adapter, command or page touches a store, a verb or a file.
"""

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, cast

from holdall.bag.care import Care, remove_outputs
from holdall.bag.core import Core, Parts, check_model, opened
from holdall.bag.fetch import Awaited, Fetch
from holdall.bag.messages import Messages
from holdall.bag.records import Records
from holdall.bag.run import Dispatch, PassedOutput, passed_outputs, read_call
from holdall.bag.take import (
    content_as_text,
    is_small_text,
    keep,
    keep_as_well,
    prepare,
    settle,
    take_small,
    view_of,
    work_of,
)
from holdall.bag.tools import ToolCalls
from holdall.bag.turn import Turn
from holdall.bag.waits import Background
from holdall.formats.registry import checked_kind
from holdall.policy.decide import Decision, decide, room_of_turn
from holdall.policy.route import Ceiling
from holdall.store.opening import default_home, open_store
from holdall.store.protocol import OutputReader, OutputStore, Progress, Removal
from holdall.text.numbers import with_article
from holdall.text.ranges import check_numbers
from holdall.text.tokens import Tokenizer
from holdall.values.errors import NothingFound, UsageError
from holdall.values.extraction import Extraction, Mode
from holdall.values.handles import is_uuid
from holdall.values.outputs import Ended, Facts, Inline, Origin, Running, Taken
from holdall.values.settings import Settings
from holdall.verbs.preview import whole_text
from holdall.wire.dialect import Dialect
from holdall.wire.results import CallsBefore, is_of_model, plain_content, results_in, take_apart
from holdall.wire.system_notice import system_notice
from holdall.wire.tool import ToolSpec

if TYPE_CHECKING:
    from holdall.bag.ask import Questions
    from holdall.extract.model_calls import Watch
    from holdall.extract.question import Plan
    from holdall.llm.protocol import Model

Message = TypeVar("Message")
Result = TypeVar("Result")
Given = ParamSpec("Given")


def _part(name: str, method: Callable[Concatenate[Any, Given], Result]) -> Callable[Concatenate[Any, Given], Result]:
    """A method of one of the parts as a method of the bag, with its signature and its docstring."""

    @functools.wraps(method)
    def delegated(self: "Holdall", *args: Given.args, **kwargs: Given.kwargs) -> Result:
        self.core.check_in_use()
        return method(getattr(self, name), *args, **kwargs)

    if not inspect.iscoroutinefunction(method):
        return delegated

    @functools.wraps(method)
    async def awaited(self: "Holdall", *args: Given.args, **kwargs: Given.kwargs) -> Any:
        return await cast("Any", delegated(self, *args, **kwargs))

    # help() says then that it is awaited.
    return cast("Callable[Concatenate[Any, Given], Result]", awaited)


class Preview:
    """`bag.preview`: what a model would get and what a call would cost, before anything is shown or asked."""

    def __init__(self, core: Core, questions: "Callable[[], Questions]") -> None:
        self._core = core
        self._questions = questions

    async def passed_by_reference(self, arguments: object, *, tool: str = "") -> tuple[PassedOutput, ...]:
        """For the approval of a call: handle, size and hash of what its references would bring in."""
        return await passed_outputs(self._core, arguments, tool)

    def decide(self, text: str, *, tokens_left: int | None = None) -> Decision:
        """Whether `text` fits as it is, by the session's limits."""
        check_numbers(tokens_left=tokens_left)
        return decide(text, limits=self._core.limits, tokenizer=self._core.tokenizer, tokens_left=tokens_left)

    async def notice(self, handle: str) -> str:
        """What a model sees in place of this output."""
        return self._core.issue(self._core.written(await view_of(self._core, handle))[0])

    async def fits(self, handle: str) -> bool:
        """Whether the kept output would have been shown as it is."""
        core = self._core

        def is_whole(reader: OutputReader) -> bool:
            return whole_text(reader, core.limits_for(reader.facts.origin.tool), core.tokenizer) is not None

        return await core.on(handle, is_whole)

    async def forecast(
        self, handle: str, question: str, *, mode: Mode = "auto", model: "Model | str | None" = None
    ) -> "Plan":
        """The strategy and the cost of a question, without calling a model."""
        return await self._questions().forecast(handle, question, mode=mode, model=model)


class KeptNames:
    """Names of version 0.1 for what is in the parts now. They keep working; new code uses the parts."""

    find = _part("fetch", Fetch.find)
    follow = _part("fetch", Fetch.follow)
    original_text = _part("fetch", Fetch.original_text)
    shown = _part("fetch", Fetch.shown)
    stream = _part("fetch", Fetch.stream)
    abort = _part("jobs", Background.abort)
    begin = _part("jobs", Background.begin)
    events = _part("jobs", Background.events)
    still_running = _part("jobs", Background.still_running)
    stop = _part("jobs", Background.stop)
    update = _part("jobs", Background.update)
    append_transcript = _part("records", Records.append_transcript)
    counters = _part("records", Records.counters)
    coverage = _part("records", Records.coverage)
    history = _part("records", Records.history)
    lease = _part("records", Records.lease)
    noticed = _part("records", Records.noticed)
    save_tree = _part("records", Records.save_tree)
    seen = _part("records", Records.seen)
    transcript = _part("records", Records.transcript)
    tree = _part("records", Records.tree)
    bad_lines = _part("care", Care.bad_lines)
    unreadable = _part("care", Care.unreadable)
    decide = _part("preview", Preview.decide)
    fits = _part("preview", Preview.fits)
    forecast = _part("preview", Preview.forecast)
    notice = _part("preview", Preview.notice)
    passed_by_reference = _part("preview", Preview.passed_by_reference)


class Holdall(KeptNames):
    """One session of one store. Made by `open`; safe to use from many tasks at once.

    What is needed less often is in its parts: `fetch` (exact bytes), `preview` (what a model would get), `jobs` (the
    background), `records` (ledger, counters, transcript), `care` (maintenance of the store), and `core` for what is
    built on the bag.
    """

    def __init__(self, parts: Parts) -> None:
        self.core = core = Core(parts)
        self.store, self.session, self.settings = core.store, core.session, core.settings
        self.dialect, self.tokenizer = core.dialect, core.tokenizer
        self.journal, self.models = core.journal, core.models
        self.fetch = Fetch(core)
        self.records = Records(core)
        self._dispatch = Dispatch(core)
        self.jobs = Background(core, self.fetch, self._dispatch)
        self._tools = ToolCalls(core, self.fetch, lambda: self._questions, self.jobs)
        self.preview = Preview(core, lambda: self._questions)
        self.care = Care(parts.store, parts.session)

    @classmethod
    def open(
        cls,
        *,
        session: str | None = None,
        home: str | None = None,
        settings: Settings | None = None,
        dialect: Dialect | None = None,
        store: OutputStore | None = None,
        model: "Model | str | None" = None,
        tokenizer: Tokenizer | None = None,
        clock: Callable[[], float] = time.time,
        parent: str = "",
    ) -> Self:
        """A session by name, made if there is none; without a name, a new one. Use it as `async with`.

        `dialect` is one of your own; those that ship are named in the settings. Without a `store` outputs are kept in
        the folder `home`. `model` answers questions about outputs: one of your own, or its name (`provider:name`,
        `gguf:PATH`); the setting `extraction_model` comes first. A new session can be a part
        of `parent`, a name or id: `holdall stats --session PARENT` counts both, `rm` removes and `export` packs both.
        `clock` gives the time of events, outputs and their retention; a `store` has its own for all but the events, so
        a test that moves time gives the same one to both: `MemoryStore(clock=…)`.
        """
        check_model(model)
        parts = opened(
            session=session, home=home, settings=settings, dialect=dialect, store=store, tokenizer=tokenizer,
            clock=clock, parent=parent,
        )  # fmt: skip
        return cls(replace(parts, model=model))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # In

    async def take(
        self,
        output: object,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        server: str = "",
        tokens_left: int | None = None,
        put: Callable[[Any], object] | None = None,
    ) -> Taken:
        """What the model should get of `output`: the same object where it fits, else a notice with its handle.

        Text, bytes, JSON values, content blocks and results of MCP and the model APIs, exceptions, files and iterators.
        Where `output` was taken out of an object, `put` makes one like it around what comes in its place. A call that
        comes again with the same output, by its `call_id`, has the same handle and the same notice.
        """
        check_numbers(tokens_left=tokens_left)
        origin = self._origin(tool, server, arguments, call_id)
        quick = take_small(self.core, output, origin) if tokens_left is None else None
        if isinstance(quick, Inline):
            return quick
        prepared = await prepare(self.core, output, origin, quick)
        taken = await settle(self.core, prepared, room=tokens_left, notice_room=tokens_left)
        if put is None or taken.content is output:
            return taken
        return replace(taken, content=put(taken.content), as_text=taken.text)

    async def run(
        self,
        call: object,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        server: str = "",
        tokens_left: int | None = None,
        schema: Mapping[str, Any] | None = None,
        background: bool = False,
        waits: Callable[[], bool] | None = None,
        messages: Messages | None = None,
    ) -> Taken:
        """Call it with `arguments` as keywords and take what it gives, or what it raises.

        Arguments may be the JSON text that a model wrote. A `call` that is None is a tool that does not exist: for
        this, and for JSON that cannot be read, the model gets an error that says so.

        A plain function runs in a thread, a `Command` as a process. A call that takes longer than `slow_after_seconds`
        continues in the background: the result is `Running`. A parameter named `writer` gets one, and what is written
        to it can be read while the call runs. References among the arguments are replaced where that is on, and checked
        against `schema`, the tool's own. With `background` it is not raced: it continues there unless it has ended at
        once, and is `Running` only then. While `waits` returns True (it waits for a person), it does not go to the
        background. What is added to `messages` (progress, log lines) can be read under its handle until it has output.
        """
        check_numbers(tokens_left=tokens_left)
        started = time.perf_counter()
        call, arguments = read_call(call, tool, arguments)
        origin, loop = self._origin(tool, server, arguments, call_id), self.core.loop_of_calls()
        work = self._dispatch.call(
            call, origin, schema, background=background, waits=waits, loop=loop, messages=messages
        )
        ended = await (work if self.core.shared.portal is None else self.core.at_home(work))
        if isinstance(ended, Running):
            return ended
        if isinstance(ended, Ended):
            is_plain = tokens_left is None and not self._dispatch.keeps_all
            quick = take_small(self.core, ended.value, origin, started) if is_plain else None
            if isinstance(quick, Inline):
                return quick
            ended = await prepare(self.core, ended.value, origin)
        ended = replace(ended, started=started)
        taken = await settle(self.core, ended, room=tokens_left, notice_room=tokens_left)
        # Of a result of blocks that fits, only what is no text is kept.
        is_shown = isinstance(taken, Inline) or (taken.content is ended.output and ended.parts is not None)
        if self._dispatch.keeps_all and is_shown:
            await keep_as_well(self.core, ended)
        return taken

    async def race(
        self,
        call: object,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        server: str = "",
        background: bool = False,
        waits: Callable[[], bool] | None = None,
        elapsed_seconds: float = 0.0,
    ) -> Ended | Running:
        """Run a call against the clock. `Ended` has what it returned, as it is; what it raised is raised, as it was:
        after `tool_timeout_seconds` a TimeoutError.

            ended = await bag.race(handler(request), tool="fetch", call_id="c1")
            taken = ended if isinstance(ended, Running) else await bag.take(ended.value, tool="fetch", call_id="c1")

        For what is around the tools of a framework: its interrupts, approvals and errors pass. `call` is awaited, or
        called without arguments (a plain function in a thread); `arguments` are only noted. A call that is too slow
        continues in the background under a handle, as with `run`; `background` and `waits` are as there. For a task
        that runs already, `elapsed_seconds` says how long.
        """
        self.core.check_open()
        origin, loop = self._origin(tool, server, arguments, call_id), self.core.loop_of_calls()
        return await self.core.at_home(
            self._dispatch.race(
                call, origin, background=background, waits=waits, loop=loop, elapsed=elapsed_seconds,
            )
        )  # fmt: skip

    def turn(self, *, tokens_left: int | None = None, window: int | None = None, tokens_used: int = 0) -> Turn:
        """Calls that run side by side and share the room: `tokens_left`, or half of what is left of `window`."""
        check_numbers(tokens_left=tokens_left, window=window, tokens_used=tokens_used)
        room = room_of_turn(window, tokens_used) if tokens_left is None and window is not None else tokens_left
        self.core.check_in_use()
        return Turn(self.core, self._dispatch, self._tools, room)

    async def guard(self, messages: Sequence[Message]) -> list[Message]:
        """Check a transcript before it is saved: tool results that do not fit are taken, all other messages stay the
        same.
        """
        if isinstance(messages, str | Mapping):
            raise UsageError("guard takes a list of messages, not one message.")
        if not isinstance(cast("object", messages), Iterable):
            kind = type(messages).__name__
            raise UsageError(f"guard takes a list of messages, not {with_article(kind)}: write guard([message, …]).")
        messages = list(messages)  # which may be read only once
        guarded = list(messages)
        calls = CallsBefore()
        answered = max((at for at, one in enumerate(messages) if is_of_model(one)), default=-1)
        for at, message in enumerate(messages):
            calls.tell(message)
            for result in results_in(message):
                text = plain_content(result.content)
                name, arguments = calls.answered(result.call_id)
                tool = result.tool or name or self.core.unknown_tool
                if is_small_text(self.core, text, tool):
                    continue
                if self._is_given(content_as_text(result.content) if text is None else text, tool):
                    continue
                # As a result, not as a list that happens to look like one.
                whole = {"type": "tool_result", "content": result.content, "is_error": result.is_error}
                of_blocks = take_apart(whole) is not None  # else it is a value
                output = whole if of_blocks else result.content
                origin = self._origin(tool, "", arguments, result.call_id)
                # It was taken before, perhaps by an earlier run: what bears the mark there are notices.
                prepared = replace(await prepare(self.core, output, origin), seen=True, read=at < answered)
                taken = await settle(self.core, prepared)
                if taken.content is not output:  # kept, or masked
                    content = taken.content["content"] if of_blocks else taken.content
                    guarded[at] = cast("Message", result.replaced(guarded[at], content))
        return guarded

    def _is_given(self, text: str, tool: str) -> bool:
        """Whether it came from here: what stands in place of an output, or the answer of one of our tools."""
        is_answer = self.owns(tool) and len(text) <= 2 * self.core.settings.answer_max_bytes
        return is_answer or hash(text) in self.core.given

    async def keep(
        self,
        output: object,
        *,
        tool: str = "",
        arguments: Any = None,
        call_id: str = "",
        server: str = "",
        kind: str = "",
        progress: Progress | None = None,
    ) -> Facts:
        """Store every byte of `output`, whatever its form and size; on return it is durable and has a handle. It shows
        nothing to anybody, so the counters of the session do not count it.

        `kind` says what text is to be read as (csv, log, json …), whatever it looks like. Raises UsageError for others.
        """
        origin = self._origin(tool, server, arguments, call_id)
        if kind:
            origin = replace(origin, read_as=checked_kind(kind))
        waits = isinstance(output, str | bytes)
        async with self.core.call_alone(origin) if waits else contextlib.nullcontext():
            return await keep(self.core, output, origin, progress=progress)

    async def forget(self, handle: str) -> Removal:
        """Remove an output for good; a tombstone stays. Who still has the same bytes is in `still_held`.

        The transcript of an agent is not changed: it goes with its session (`care.remove_session`).
        """
        with self.core.known_here():
            removed = await asyncio.to_thread(remove_outputs, self.store, self.session, [handle], self.journal)
        for facts in removed.removed:
            self.core.drop(facts.handle)
        return removed

    # What the model is told

    def tools(self, *, final_turn: bool = False) -> tuple[ToolSpec, ...]:
        """The dialect's tools: once something is kept, or always; in the final turn never."""
        listed = bool(self.core.kept) or self.settings.tools_listed == "always"
        if not listed or final_turn or self.jobs.is_stopping:
            return ()
        return self._tools.listed()

    def owns(self, name: str) -> bool:
        """Whether a tool's name is one of ours, listed now or not."""
        return self.dialect.tool(name) is not None

    def instructions(self) -> str:
        """The few lines for a system prompt that tell a model how to use handles."""
        allowed = self.settings.by_reference or any(one.by_reference for one in self.settings.tools.values())
        references = self.dialect.about_references if allowed else ""
        return self.dialect.instructions + references + self.dialect.about_mark.replace("MARK", self.core.signature)

    def system_notice(
        self,
        *,
        turn: int,
        max_turns: int | None = None,
        tokens_used: int | None = None,
        window: int | None = None,
        kept: bool = False,
        final_turn: bool = False,
        only_news: bool = False,
    ) -> str:
        """The ephemeral text for the end of a request; it is not kept in the transcript.

        `kept` lists what can be fetched: for a model that no longer has the notices, after a compaction or a resume.
        The notice of the final turn, which `max_turns` tells too, names no tools: none can be called. With `only_news`
        it is empty where no call and no output is to be told.
        """
        check_numbers(turn=turn, max_turns=max_turns, tokens_used=tokens_used, window=window)
        final = final_turn or self.jobs.is_stopping or (max_turns is not None and turn >= max_turns)
        work = work_of(self.core, self.jobs.still_running(), self.jobs.calls, listed=kept)
        if only_news and work.is_empty:
            return ""
        return system_notice(
            work,
            words=self.dialect.status_words, turn=turn, max_turns=max_turns, tokens_used=tokens_used, window=window,
            marked=self.core.marked, final=final,
        )  # fmt: skip

    # Out: the verbs as methods, and as the dialect's tools

    read = _part("fetch", Fetch.read)
    tail = _part("fetch", Fetch.tail)
    slice = _part("fetch", Fetch.slice)
    grep = _part("fetch", Fetch.grep)
    query = cast("Awaited", _part("fetch", Fetch.query))
    diff = _part("fetch", Fetch.diff)
    call = _part("_tools", ToolCalls.call)

    async def extract(
        self,
        handle: str,
        question: str,
        *,
        mode: Mode = "auto",
        model: "Model | str | None" = None,
        ceiling: Ceiling | None = None,
        watch: "Watch | None" = None,
    ) -> Extraction:
        """Ask a model about an output. Each quote is searched in the stored bytes and marked if it is not there.

        Raises TooCostly before the first call if the ceiling (by default that of the settings) would be exceeded.
        `watch` gets the progress.
        """
        return await self._questions.extract(handle, question, mode=mode, model=model, ceiling=ceiling, watch=watch)

    @functools.cached_property
    def _questions(self) -> "Questions":
        from holdall.bag.ask import Questions  # noqa: PLC0415 - most sessions ask no model

        return Questions(self.core, self.fetch)

    # What is there

    show = _part("fetch", Fetch.show)
    outputs = _part("fetch", Fetch.outputs)
    # What goes on in the background, and the end

    wait = _part("jobs", Background.wait)

    async def close(self) -> None:
        """End the session: calls in the background have their grace, then they are cancelled; what there is is kept.

        Outputs that are kept for the session only are removed, unless another bag has it open: then they go with that.
        A second time does nothing, nor does it after `detach`.
        """
        await self.jobs.close()

    async def detach(self) -> None:
        """Leave the session without ending it. The bag cannot be used any more; open the session again by its name.

        What differs from `close`: outputs that are kept for the session only stay, and calls in the background
        continue, without a limit but their own. What is open is closed when the last of them has ended.
        """
        await self.jobs.detach()

    def _origin(self, tool: str, server: str, arguments: Any, call_id: str) -> Origin:
        self.core.check_in_use()
        return Origin.given(tool, server, arguments, call_id)


def use_plain_names(bag: Holdall) -> None:
    """For whoever lists tools without dots, which most providers forbid: every text names them in the same way."""
    bag.core.dialect = bag.dialect = bag.dialect.plain or bag.dialect


# A session opened read-only, for the viewer.
#
# The bag is an ordinary one, so every verb works. What would change the session is refused by its store.


def open_read_only(session: str, *, home: str | None = None, settings: Settings | None = None) -> Holdall:
    """The session with this id (a UUID). Raises NothingFound if there is none. Close it."""
    if not is_uuid(session):
        raise NothingFound("there is no such session.")
    settings = settings or Settings()
    store = open_store(home or settings.store_dir or default_home(), read_only=True, settings=settings)
    try:
        return Holdall.open(session=f"session-{session}", settings=replace(settings, retention=None), store=store)
    except BaseException:
        store.close()
        raise
