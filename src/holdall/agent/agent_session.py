"""One run of an agent: its transcript, its tools of this turn, its notice, its report. The loop drives it.

Each method is one step of a turn; none of them knows a size limit, a strategy or the form of a notice.
"""

import asyncio
import itertools
import json
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast

from holdall.agent.toolbox import Agent, AgentQuota, AgentTool, Report, Status
from holdall.agent.transcript import Transcript, messages_in
from holdall.bag import Holdall, Pending
from holdall.bag import Turn as BagTurn
from holdall.bag.holdall import use_plain_names
from holdall.bag.journal import ended_before
from holdall.bag.take import text_of_result, value_as_text
from holdall.guard.budget import MIN_ROOM, Budget, PrefixSum
from holdall.guard.recovery import (
    MAX_ROUNDS,
    Overflow,
    compact,
    replace_large_results,
    replace_largest_results,
    summary_by_model,
)
from holdall.llm.converse import Turn
from holdall.llm.protocol import Model, Request
from holdall.llm.wrappers import ModelWrapper, Retrying, with_tools
from holdall.policy.folds import OF_TOOL_CALLS
from holdall.policy.lifecycle import Response, may_run
from holdall.text.escape import foreign, one_line
from holdall.values.answers import Answer
from holdall.values.chat import Assistant, Message, Reply, System, ToolCall, ToolResult, Usage, User, size_of
from holdall.values.errors import ModelFault, UsageError
from holdall.values.events import Event
from holdall.values.outputs import Inline, Kept, Running, Unkept
from holdall.values.record import record
from holdall.wire.actions import broken_arguments, too_many_calls, unknown_tool
from holdall.wire.agent_texts import (
    CALL_INTERRUPTED,
    FINAL_REPORT,
    STATUS_NOTED,
    TASK_STATUS,
    batch_tool,
    child_report,
    final_turn,
    nested_too_deep,
    no_arguments_there,
    not_saved,
    repeats_itself,
    report_form,
    spawn_tool,
    synthetic_report,
    too_deep,
    too_many_agents,
)
from holdall.wire.arguments import coerced, schema_problem
from holdall.wire.findings import report_in
from holdall.wire.tool import ToolSpec

_TOLD_AFTER, _ENDED_AFTER = 3, 6  # times in a row


class RepeatDetector:
    """Counts turns with the same calls and results: the model is warned, then made to report."""

    def __init__(self) -> None:
        self._last: tuple[str, str] = ("", "")
        self._times = 0

    @property
    def is_enough(self) -> bool:
        return self._times >= _ENDED_AFTER

    def warning(self, calls: Sequence[ToolCall], returned: Sequence[ToolResult]) -> str:
        """For the next turn, if calls and results have not changed for some. No part of a result: those may be kept."""
        asked = json.dumps([[call.name, call.arguments] for call in calls], default=str, sort_keys=True)
        got = "\n".join(one.text for one in returned)
        self._times = self._times + 1 if (asked, got) == self._last else 1
        self._last = asked, got
        return repeats_itself(self._times) if self._times >= _TOLD_AFTER and returned else ""


class RecordedModel(ModelWrapper):
    """Every call is an event of the session, with its sizes, tokens and cost. What was said is in the transcript.

    A server may give each of its replies the ids of the one before: a call with an id of an earlier one gets another.
    """

    def __init__(self, model: Model, bag: Holdall, budget: Budget) -> None:
        """`budget` estimates the tokens of a request."""
        super().__init__(model)
        self._bag = bag
        self._budget = budget
        self._sizes = PrefixSum(lambda message: size_of((message,)))
        self._ids: set[str] = set()  # of all calls so far

    async def ask(self, request: Request) -> Reply:
        started = time.perf_counter()
        reply, why = Reply(), ""
        try:
            reply = await self.inner.ask(request)
        except ModelFault as fault:
            why = str(fault)
            raise
        finally:
            usage = reply.usage
            self._bag.journal.record(
                "asked", seconds=time.perf_counter() - started, purpose="turn", model=reply.model or self.name,
                messages=len(request.messages), request_bytes=self._size(request),
                reply_bytes=len(reply.text.encode("utf-8", "replace")), preview="",
                calls=len(reply.calls), estimated_tokens=self._estimated(request), input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens, cached_tokens=usage.cached_tokens, cost=usage.cost, why=why,
            )  # fmt: skip
        self._ids |= {call.id for one in request.messages if isinstance(one, Assistant) for call in one.calls}
        return replace(reply, calls=tuple(map(self._with_new_id, reply.calls))) if reply.calls else reply

    def _with_new_id(self, call: ToolCall) -> ToolCall:
        numbered = (f"{call.id or 'call'}-{number}" for number in itertools.count(2))
        id = call.id if call.id not in self._ids else next(one for one in numbered if one not in self._ids)
        self._ids.add(id)
        return call if id == call.id else replace(call, id=id)

    def _estimated(self, request: Request) -> int:
        *kept, last = request.messages
        return self._budget.used(kept, request.tools) + self._budget.price(last)

    def _size(self, request: Request) -> int:
        """The last message is not kept: the next request has a different one."""
        *kept, last = request.messages
        return self._sizes.of(kept) + size_of((last,))


MAX_NESTED = 3  # a batch in a batch in a batch


class Runtime(Protocol):
    """The tools that the runtime itself offers."""

    @property
    def bag(self) -> Holdall: ...

    def listed(self) -> Sequence[ToolSpec]: ...

    def external(self, name: str) -> AgentTool | None: ...

    def internal(self, call: ToolCall) -> "str | Spawn | None":
        """The answer of a runtime tool, an agent to start, or None if the name is neither."""
        ...


@record
class Spawn:
    """An agent to start: a call like any other, which may go to the background at once."""

    call: Callable[..., object]  # takes its arguments, and needs none of them
    name: str
    task: str
    background: bool


class _Started:
    """One call, and its result once the turn has closed."""

    def __init__(
        self,
        call: ToolCall,
        pending: Pending | None = None,
        text: str = "",
        *,
        is_error: bool = False,
        not_stored: bool = False,
    ) -> None:
        """`not_stored`: what it returns must not reach a disk."""
        self.call = call
        self._not_stored = not_stored
        self.members: list[_Started] = []
        self._pending = pending
        self._text = text
        self._is_error = is_error
        self._started_at = time.perf_counter()

    def response(self) -> Response:
        if self.members:
            kinds = [member.response() for member in self.members]
            return "running notice" if set(kinds) == {"running notice"} else "output"
        match self._pending.result if self._pending is not None else None:
            case Running():
                return "running notice"
            case Answer():
                return "retrieval"
            case Kept():
                return "size notice"
            case _:
                return "failure" if self._is_error else "output"

    def returned(self) -> ToolResult:
        if self.members:
            parts = [(one.call.name, one.returned()) for one in self.members]
            text = _batched(parts)
            saved = _batched([(name, replace(one, text=one.text_to_save)) for name, one in parts])
            return ToolResult(self.call.id, self.call.name, text, saved=None if saved == text else saved)
        if self._pending is None:
            return ToolResult(self.call.id, self.call.name, self._text, self._is_error)
        text = self._text or value_as_text(self._pending.content)
        saved = not_saved(self.call.name, len(text)) if self._not_stored else None
        return ToolResult(self.call.id, self.call.name, text, self._pending.is_error, saved)

    async def flatten(self, bag: Holdall) -> None:
        """A message of ours has only text: what else is in a result is kept, and the text says under which handle."""
        for member in self.members:
            await member.flatten(bag)
        if self._pending is not None:
            self._text = await text_of_result(bag.core, self._pending.result, self.call.name, self.call.id)

    def record(self, bag: Holdall) -> None:
        for member in self.members:
            member.record(bag)
        if self._pending is None:
            if self._is_error:  # a tool that there is not, arguments that do not fit, one call too many
                _record_refused(bag, self.call.id, self.call.name, self._text)
            return
        result = self._pending.result
        handle = result.handle if isinstance(result, Kept | Running | Answer) else ""
        outcome = {Inline: "inline", Kept: "kept", Running: "running", Unkept: "unkept", Answer: "answer"}[type(result)]
        with ended_before(self._pending.waited):
            bag.journal.record(
                "called", handle=handle, tool=self.call.name, call_id=self.call.id,
                seconds=self._pending.ended - self._started_at, outcome=outcome, is_error=result.is_error,
                chars=len(value_as_text(result.content)),
            )  # fmt: skip


def _batched(parts: Sequence[tuple[str, ToolResult]]) -> str:
    return json.dumps([{"tool": name, **_told(one)} for name, one in parts], ensure_ascii=False)


def _told(returned: ToolResult) -> dict[str, Any]:
    return {"result": returned.text} | ({"is_error": True} if returned.is_error else {})


def _record_refused(bag: Holdall, call_id: str, name: str, why: str) -> None:
    if name in _INTERNAL:  # a report that is not one is no call of a tool
        return
    bag.journal.record(
        "called", tool=foreign(name), call_id=call_id, outcome="refused", is_error=True, chars=len(why),
        why=one_line(why),
    )  # fmt: skip


async def run_calls(
    runtime: Runtime, calls: Sequence[ToolCall], *, window: int, used: int
) -> tuple[list[ToolResult], dict[str, Response]]:
    """The result of each call, in order, with its kind. All are started at once through the bag, which decides what the
    model gets of each; members of a batch are calls like any other.
    """
    async with runtime.bag.turn(window=window, tokens_used=used) as turn:
        numbers = itertools.count()
        started = [_start(runtime, turn, call, 0, numbers) for call in calls]
    for one in started:
        await one.flatten(runtime.bag)
        one.record(runtime.bag)
    # By their numbers: a model may give two calls the same id.
    return [one.returned() for one in started], {str(at): one.response() for at, one in enumerate(started)}


def _start(runtime: Runtime, turn: BagTurn, call: ToolCall, depth: int, numbers: Iterator[int]) -> _Started:
    """`numbers` counts the calls of a message, members of batches among them."""
    name = call.name.replace(".", "_")
    tool = next((one for one in runtime.listed() if one.plain_name == name), None)
    if tool is None or (call.name != tool.name and not runtime.bag.owns(call.name)):
        known = [one.plain_name for one in runtime.listed()]
        return _Started(call, text=unknown_tool(call.name, known), is_error=True)
    given: object = call.arguments
    if not isinstance(given, Mapping):
        return _Started(call, text=broken_arguments(call.name, cut_off=False), is_error=True)
    most = runtime.bag.settings.max_calls_per_turn
    if call.name != "batch" and next(numbers) >= most:
        return _Started(call, text=too_many_calls(most), is_error=True)
    if runtime.bag.owns(call.name):
        return _Started(call, turn.call(call.name, cast("object", given)))
    arguments = coerced(tool.schema, cast("Mapping[str, Any]", given))
    if call.name == "batch":
        return _batch(runtime, turn, tool, ToolCall(call.id, call.name, arguments), depth, numbers)
    external = runtime.external(call.name)
    if external is None and (problem := schema_problem(tool.schema, arguments)):
        return _Started(call, text=problem, is_error=True)
    if external is not None:
        pending = turn.run(
            external.call, tool=call.name, arguments=dict(arguments), call_id=call.id, server=external.server,
            schema=external.spec.schema,
        )  # fmt: skip
        return _Started(call, pending, not_stored=runtime.bag.core.policy_of(call.name).store == "never")
    answer = runtime.internal(ToolCall(call.id, call.name, arguments))
    if isinstance(answer, Spawn):
        pending = turn.run(
            answer.call, tool=answer.name, arguments={"task": answer.task}, call_id=call.id,
            background=answer.background,
        )  # fmt: skip
        return _Started(call, pending, not_stored=runtime.bag.core.policy_of(answer.name).store == "never")
    return _Started(call, text=answer or "", is_error=answer is None)


def _batch(
    runtime: Runtime, turn: BagTurn, tool: ToolSpec, call: ToolCall, depth: int, numbers: Iterator[int]
) -> _Started:
    arguments = cast("Mapping[str, Any]", call.arguments)
    if depth >= MAX_NESTED:
        return _Started(call, text=nested_too_deep(MAX_NESTED), is_error=True)
    members = arguments.get("calls")
    if not isinstance(members, list) or not members:
        return _Started(call, text=schema_problem(tool.schema, arguments), is_error=True)
    if len(cast("list[object]", members)) > (most := runtime.bag.settings.max_calls_per_turn):
        return _Started(call, text=too_many_calls(most), is_error=True)
    started = _Started(call)
    for at, member in enumerate(cast("list[object]", members)):
        asked = cast("Mapping[str, Any]", member) if isinstance(member, Mapping) else {"arguments": member}
        name, given = str(asked.get("tool", "")), asked.get("arguments", {})
        one = ToolCall(f"{call.id}.{at}", name, given)
        # A tool whose arguments all have defaults would run without those that were meant for it.
        others = [] if "arguments" in asked else [key for key in asked if key not in ("tool", "id")]
        if others:
            started.members.append(_Started(one, text=no_arguments_there(str(others[0])), is_error=True))
        else:
            started.members.append(_start(runtime, turn, one, depth + 1, numbers))
    return started


_ONLY_REPORT = (FINAL_REPORT,)
_STOPPED = "it was stopped"
_INTERNAL = ("batch", FINAL_REPORT.name, TASK_STATUS.name)
Drive = Callable[["AgentSession", str], Awaitable[Report]]


class AgentSession:
    """Made by `agent.run`; safe to `stop` from another task."""

    def __init__(
        self, agent: Agent, bag: Holdall, *, drive: "Drive", family: AgentQuota | None = None, depth: int = 0
    ) -> None:
        """`drive` runs a session to its report: sessions start others with it."""
        self.agent = agent
        self._drive = drive
        self.bag = bag
        use_plain_names(bag)
        self.family = family or AgentQuota()
        self.depth = depth
        self.budget = Budget(agent.model.window, min(agent.model.max_output, agent.model.window // 4), bag.core.count)
        self.model = RecordedModel(Retrying(with_tools(agent.model)), bag, self.budget)
        self.nonce = secrets.token_hex(16)
        self.transcript = Transcript(append=bag.records.append_transcript)
        self._ran: set[str] = set()  # calls of this turn
        self.turn = 0
        self._earlier_turns = 0  # of the runs that this one continues
        self.final = ""  # why the next turn is the last
        self.report: Report | None = None
        self.status = ""
        self.rounds = 0  # of recovery, since the model last took a request
        self._recovered = False
        self.resumed = False
        self.children: dict[str, AgentSession] = {}
        self.usage = Usage()  # of this run and of everything it started
        self.calls = 0  # of models, likewise
        bag.journal.watchers[self._heard] = lambda: True
        self._offered_final = False
        self._all_running = False  # every call of the last turn: then the next one waits for news
        self._repeats = RepeatDetector()
        self._warning = ""  # for the next turn
        self._ended: set[str] = set()  # calls of the background of whose end the loop knows
        self._next_tree = 1
        self._stopped = asyncio.Event()
        self._lists: dict[tuple[str, ...], tuple[ToolSpec, ...]] = {}
        self._own: tuple[ToolSpec, ...] | None = None  # the bag's tools for which `_list` was made
        self._list: tuple[ToolSpec, ...] = ()

    # The beginning

    async def begin(self, prompt: str, *, resume: bool = False) -> None:
        """The first messages; with `resume`, after the earlier conversation. Without it, raises UsageError for one: a
        session holds one conversation."""
        before = messages_in(self.bag.records.transcript_lines())
        if before and not resume:
            name = one_line(self.bag.session.name, 100)
            raise UsageError(f'an agent has run in session "{name}": go on with resume=True, or open another session.')
        self.resumed = bool(before)
        told = [part for part in (self.agent.prompt, self.bag.instructions(), report_form(self.nonce)) if part]
        system = System("\n\n".join(told))
        # The role of the system is ours alone: a transcript may have come with a bundle.
        said = [one for one in before[1:] if not isinstance(one, System)]
        interrupted = _interrupted(before)
        self.transcript[:] = [system, *said, *interrupted]
        for one in interrupted:
            self.bag.journal.record(
                "called", tool=foreign(one.name), call_id=one.call_id, outcome="interrupted", state="interrupted",
                is_error=True,
            )  # fmt: skip
        if prompt or not before:
            self.transcript.append(User(prompt))
        if before:
            below = f"{self.bag.session.name}/"
            sessions = await asyncio.to_thread(self.bag.store.sessions)
            self.family.earlier = sum(one.name.startswith(below) for one in sessions)
            self._earlier_turns = (await self.bag.records.counters()).turns
            await self.guard()
            self.transcript.replaced()  # the nonce is a new one

    async def guard(self) -> None:
        """Before they are saved, results of tools that do not fit become notices: those of an earlier conversation, or
        of a call that went past the bag. Answers of our own tools are bounded, and members of a batch were decided.
        """
        first = self.transcript.saved
        if first and isinstance(self.transcript[first - 1], Assistant):  # saved before its calls ran
            first -= 1
        new = self.transcript[first:]
        outputs = [isinstance(one, ToolResult) and self._is_output(one.name) for one in new]
        if not any(outputs):
            return
        # With what the model said in between: it has read what is before its own words.
        given = [(at, one) for at, one in enumerate(new) if outputs[at] or isinstance(one, Assistant)]
        for (at, _), message in zip(given, await self.bag.guard([one for _, one in given]), strict=True):
            self.transcript[first + at] = message

    def _is_output(self, tool: str) -> bool:
        return not self.bag.owns(tool) and tool not in _INTERNAL

    @property
    def all_turns(self) -> int:
        """Of the session: every turn counts, also those of a run that this one continues."""
        return self._earlier_turns + self.turn

    @property
    def turns_left(self) -> int:
        return max(1, self.agent.max_turns - self.turn)

    # A turn

    async def request(self, turn: Turn) -> Request:
        if self._all_running:
            await self.guard()
            self.transcript.save()  # before the wait, which may be long: a crash loses nothing of the turn
            await self._wait_for_news()
            self._all_running = False
        await self.guard()
        self.turn += 1
        if self.bag.jobs.is_stopping:
            self.final = self.final or _STOPPED
        if turn.last and not self.final:
            self.final = f"{self.agent.max_turns} turns are over"
        tools = self.listed()
        used = self.budget.used(self.transcript, tools)
        number = self.all_turns
        self.bag.journal.record("turn", number=number, final=bool(self.final), tokens=used, why=self.final)
        most = self._earlier_turns + self.agent.max_turns
        notice = self.bag.system_notice(
            turn=number, max_turns=most, tokens_used=used, window=self.budget.window,
            kept=self.resumed or self._recovered, final_turn=bool(self.final),
        )  # fmt: skip
        self._offered_final = bool(self.final)
        last = "\n\n".join([notice, *filter(None, (self._warning, self.final and final_turn(self.final)))])
        self.transcript.save_with_request(last, [tool.name for tool in tools])
        if self.turn >= self._next_tree:  # ever less often: each is a fold over the whole log
            self.save_tree()
            self._next_tree = self.turn * 16
        return Request((*self.transcript, User(last)), tuple(tools), max_tokens=self.budget.reserve)

    async def run(self, calls: tuple[ToolCall, ...]) -> Sequence[ToolResult]:
        self.rounds = 0
        self.transcript.save()  # who resumes a killed run must know of calls that had begun,
        self.bag.journal.flush()  # and what it has cost so far
        self._ran.update(one.id for one in calls)
        used = self.budget.used(self.transcript, self.listed())
        window = self.budget.window - self.budget.reserve
        returned, responses = await run_calls(self, calls, window=window, used=used)
        # Running notices alone give the model nothing to work with: it is asked again when a call has ended.
        self._all_running = not self.report and not may_run(responses, responses, ())
        came = sum(self.budget.price(one) for one in returned)
        if self.budget.left(self.transcript, self.listed()) - came < MIN_ROOM:
            self.final = self.final or "the context window has no room for another turn with tools"
        self._warning = self._repeats.warning(calls, returned)
        if self._repeats.is_enough:
            self.final = self.final or "you repeat yourself"
        return returned

    async def _wait_for_news(self) -> None:
        """Wait until a background call has ended or the run is to stop."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while self.bag.jobs.still_running() and not self._stopped.is_set():
                waiting = asyncio.ensure_future(self.bag.jobs.until_more_ended(self._ended))
                await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                elif waiting.result():
                    self._ended |= waiting.result()
                    return
        finally:
            stopped.cancel()

    def is_done(self, _reply: Reply, returned: Sequence[ToolResult]) -> bool:
        for one in returned:
            if one.call_id not in self._ran:  # refused before it came here
                _record_refused(self.bag, one.call_id, one.name, one.text)
        if any(one.is_error for one in returned):  # also one that was refused before it came here is news
            self._all_running = False
        self._ran.clear()
        return self.report is not None or self._offered_final

    # Tools

    def listed(self) -> Sequence[ToolSpec]:
        """The tools of this turn; in the final one, none of ours. The same objects as long as nothing has changed."""
        if self.final:
            return _ONLY_REPORT
        own = self.bag.tools()
        if own is self._own:
            return self._list
        self._own = own
        key = tuple(tool.name for tool in own)
        if key not in self._lists:
            tools = [*self.agent.tools.specs, *(_plain(tool) for tool in own)]
            if self.agent.agents and self.depth < self.family.max_depth:
                about = {name: one.description for name, one in self.agent.agents.items()}
                tools.append(spawn_tool(about, background=bool(self.bag.dialect.tools)))
            self._lists[key] = (*tools, batch_tool([*tools, TASK_STATUS]), TASK_STATUS, FINAL_REPORT)
        self._list = self._lists[key]
        return self._list

    def external(self, name: str) -> AgentTool | None:
        return self.agent.tools.get(name)

    def internal(self, call: ToolCall) -> str | Spawn | None:
        given: dict[str, Any] = dict(call.arguments)
        match call.name:
            case "final_report":
                self.ended(str(given["report"]), status=cast("Status", given.get("status", "success")))
                return STATUS_NOTED
            case "task_status":
                self.status = str(given["status"])
                return STATUS_NOTED
            case "spawn_agent":
                return self._spawn(str(given["agent"]), str(given["task"]), background=bool(given.get("async", False)))
            case _:
                return None

    def _spawn(self, name: str, task: str, *, background: bool) -> str | Spawn:
        if self.depth >= self.family.max_depth:
            return too_deep(self.family.max_depth)
        if self.family.started >= self.family.max_agents:
            return too_many_agents(self.family.max_agents)
        self.family.started += 1
        number = self.family.earlier + self.family.started

        async def run_child(**_: object) -> str:
            return await self._child(self.agent.agents[name], task, f"{self.bag.session.name}/{name}-{number}")

        return Spawn(run_child, name, task, background)

    async def _child(self, agent: Agent, task: str, session: str) -> str:
        async with agent.open_bag(session, self.bag.session.id, agent.model) as bag:
            child = AgentSession(agent, bag, drive=self._drive, family=self.family, depth=self.depth + 1)
            self.children[session] = child
            self.bag.journal.record("spawned", tool=agent.name, session=bag.session.id, task_bytes=len(task))
            try:
                found = await self._drive(child, task)
                return found.text if found.synthetic else child_report(found.text, found.status)
            finally:
                self.children.pop(session, None)
                usage, totals = child.usage, child.bag.records.tree().totals()
                self.bag.journal.record(
                    "joined", tool=agent.name, session=bag.session.id, input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens, cached_tokens=usage.cached_tokens, cost=usage.cost,
                    unpriced_calls=usage.unpriced_calls, calls=child.calls, turns=child.turn,
                    **{name: totals[name] for name in OF_TOOL_CALLS},
                )  # fmt: skip

    # The end

    def _heard(self, event: Event) -> None:
        """Counts the calls of models: those of its turns, of questions about outputs, of the agents that it started."""
        if event.kind not in ("asked", "joined"):
            return
        data = event.data
        self.calls += data["calls"] if event.kind == "joined" else 1
        self.usage += Usage(
            data["input_tokens"], data["output_tokens"], data.get("cached_tokens", 0), data["cost"],
            data.get("unpriced_calls", 0),
        )  # fmt: skip

    def ended(self, text: str, *, status: Status = "success", synthetic: bool = False, why: str = "") -> None:
        """The first report counts; later ones are ignored."""
        if self.report is None:
            self.report = Report(text, status, synthetic, why)

    @property
    def holder(self) -> str:
        """Names the holder of the session in the error that others get."""
        return f"the agent {self.agent.name}, process {os.getpid()} on {socket.gethostname()}"

    async def finished(self) -> Report:
        """The report with its cost, and how much of each output was shown to the model, scanned and searched for it."""
        report = self.report or Report("", "failure", synthetic=True)
        journal = self.bag.journal  # it gets a new dict: other threads may be going over the old one
        journal.watchers = {one: idle for one, idle in [*journal.watchers.items()] if one != self._heard}
        shares, used = await asyncio.to_thread(lambda: (self.bag.records.seen(), self.bag.records.used()))
        self.bag.journal.record(
            "reported", status=report.status, synthetic=report.synthetic, why=report.why, chars=len(report.text),
            turns=self.all_turns, seen=shares, coverage=used,
        )  # fmt: skip
        return replace(
            report, turns=self.all_turns, calls=self.calls, usage=self.usage, session=self.bag.session.id,
            coverage=shares, used=used,
        )  # fmt: skip

    def save_tree(self) -> None:
        """Save a snapshot of the operation tree for viewers."""
        self.bag.records.save_tree()

    def give_up(self, why: str, last: str = "") -> None:
        self.ended(synthetic_report(why, last[:2000]), status="failure", synthetic=True, why=why)

    def answered(self, text: str) -> bool:
        """Whether a reply without calls is a report: the text in the wrapper."""
        found = report_in(text, self.nonce)
        if found is not None:
            self.ended(found)
        return found is not None

    async def stop(self) -> None:
        """Running calls may finish; the next turn is the last one, here and in sub-agents."""
        self.final = self.final or _STOPPED
        self._stopped.set()
        await self.bag.jobs.stop()
        await asyncio.gather(*(child.stop() for child in list(self.children.values())))

    async def recover(self, said: Overflow) -> bool:
        """Shorten a request that the provider found too long, without losing anything. False if it cannot be."""
        self.turn -= 1
        if said.tokens_allowed:
            self.budget.window = min(self.budget.window, said.tokens_allowed)
        before = self.budget.used(self.transcript)
        while self.rounds < MAX_ROUNDS:
            if not await self._shortened(before, said):
                return False
            self.rounds += 1
            self._recovered = True
            self.budget.forget()
            after = self.budget.used(self.transcript)
            self.bag.journal.record("recovered", round=self.rounds, tokens_before=before, tokens_after=after)
            if after < before:
                self.transcript.replaced()
                return True
        return False

    async def _shortened(self, used: int, said: Overflow) -> bool:
        """Large results become notices, else the older half one output, else the largest of the other results."""
        if await replace_large_results(self.bag, self.transcript, self.budget.window):
            return True
        summarise = summary_by_model(self.bag) if self.bag.models.configured else None
        if await compact(self.bag, self.transcript, summarise):
            return True
        asked, allowed = said.tokens_asked or 0, said.tokens_allowed or 0
        excess = asked - allowed if asked > allowed > 0 else used // 2
        return await replace_largest_results(self.bag, self.transcript, excess) > 0


def _interrupted(messages: Sequence[Message]) -> list[ToolResult]:
    """A result for each call that has none, because the run ended while it ran: it is not repeated."""
    at = max((at for at, one in enumerate(messages) if isinstance(one, Assistant)), default=-1)
    if at < 0:
        return []
    answered = {one.call_id for one in messages[at:] if isinstance(one, ToolResult)}
    calls = cast("Assistant", messages[at]).calls
    return [ToolResult(one.id, one.name, CALL_INTERRUPTED, is_error=True) for one in calls if one.id not in answered]


def _plain(tool: ToolSpec) -> ToolSpec:
    """With a name that every provider accepts."""
    return replace(tool, name=tool.plain_name)
