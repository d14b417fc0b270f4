"""One run of an agent: its transcript, its tools of this turn, its notice, its report. The loop drives it.

Each method is one step of a turn; none of them knows a size limit, a strategy or the form of a notice.
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from holdall.agent.calls import Spawn, run_calls
from holdall.agent.metered import Metered
from holdall.agent.repeats import Repeats
from holdall.agent.toolbox import AgentTool
from holdall.agent.transcript import Transcript, messages_in
from holdall.agent.values import Agent, Family, Report, Status
from holdall.bag import Holdall
from holdall.guard.budget import LEAST_ROOM, Budget
from holdall.guard.recovery import MOST_ROUNDS, compact, put_notices, summary_by_model
from holdall.llm.converse import Turn
from holdall.llm.protocol import Request
from holdall.llm.wrappers import Retrying, with_tools
from holdall.policy.lifecycle import may_run
from holdall.values.chat import Reply, Returned, System, ToolCall, Usage, User
from holdall.wire.agent_texts import (
    FINAL_REPORT,
    STATUS_NOTED,
    TASK_STATUS,
    batch_tool,
    final_turn,
    report_form,
    spawn_tool,
    synthetic_report,
    too_deep,
    too_many_agents,
)
from holdall.wire.findings import report_in
from holdall.wire.tool import ToolSpec

_ONLY_REPORT = (FINAL_REPORT,)
Drive = Callable[["AgentSession", str], Awaitable[Report]]


class AgentSession:
    """Made by `agent.run`; safe to `stop` from another task."""

    def __init__(
        self, agent: Agent, bag: Holdall, *, drive: "Drive", family: Family | None = None, depth: int = 0
    ) -> None:
        """`drive` runs a session to its report: sessions start others with it."""
        self.agent = agent
        self._drive = drive
        self.bag = bag
        self.family = family or Family()
        self.depth = depth
        self.model = Metered(Retrying(with_tools(agent.model)), bag)
        self.budget = Budget(agent.model.window, min(agent.model.max_output, agent.model.window // 4), bag.count)
        self.nonce = secrets.token_hex(16)
        self.transcript = Transcript(append=bag.append_transcript)
        self.turn = 0
        self.final = ""  # why the next turn is the last
        self.report: Report | None = None
        self.status = ""
        self.rounds = 0  # of recovery
        self.resumed = False
        self.children: dict[str, AgentSession] = {}
        self.spent = Usage()  # of the children
        self.calls_of_children = 0
        self._offered_final = False
        self._repeats = Repeats()
        self._next_tree = 1
        self._stopped = asyncio.Event()
        self._lists: dict[tuple[str, ...], tuple[ToolSpec, ...]] = {}
        self._own: tuple[ToolSpec, ...] | None = None  # the bag's tools for which `_list` was made
        self._list: tuple[ToolSpec, ...] = ()

    # The beginning

    def begin(self, prompt: str, *, resume: bool = False) -> None:
        """What the model is told first; with `resume`, what was said before comes first."""
        before = messages_in(self.bag.transcript()) if resume else []
        self.resumed = bool(before)
        told = [part for part in (self.agent.prompt, self.bag.instructions(), report_form(self.nonce)) if part]
        system = System("\n\n".join(told))
        self.transcript[:] = [system, *before[1:]] if before else [system]
        if prompt or not before:
            self.transcript.append(User(prompt))
        if before:
            self.transcript.replaced()  # the nonce is a new one

    @property
    def turns_left(self) -> int:
        return max(1, self.agent.max_turns - self.turn)

    # A turn

    def request(self, turn: Turn) -> Request:
        self.turn += 1
        if turn.last and not self.final:
            self.final = f"{self.agent.max_turns} turns are over"
        tools = self.listed()
        used = self.budget.used(self.transcript, tools)
        self.bag.journal.record("turn", number=self.turn, final=bool(self.final), tokens=used, why=self.final)
        notice = self.bag.system_notice(
            turn=self.turn, max_turns=self.agent.max_turns, tokens_used=used, window=self.budget.window,
            kept=self.resumed or self.rounds > 0,
        )  # fmt: skip
        self._offered_final = bool(self.final)
        self.transcript.save()
        if self.turn >= self._next_tree:  # ever less often: each is a fold over the whole log
            self.save_tree()
            self._next_tree = self.turn * 16
        last = f"{notice}\n\n{final_turn(self.final)}" if self.final else notice
        return Request((*self.transcript, User(last)), tuple(tools), max_tokens=self.budget.reserve)

    async def run(self, calls: tuple[ToolCall, ...]) -> Sequence[Returned]:
        used = self.budget.used(self.transcript, self.listed())
        window = self.budget.window - self.budget.reserve
        returned, responses = await run_calls(self, calls, window=window, used=used)
        # Only running notices tell the model nothing: it is asked again when something has come of them.
        if not self.report and not may_run(responses, responses, ()):
            await self._something_new()
        came = sum(self.budget.price(one) for one in returned)
        if self.budget.left(self.transcript, self.listed()) - came < LEAST_ROOM:
            self.final = self.final or "the context window is full"
        told = self._repeats.told(calls, returned)
        if self._repeats.is_enough:
            self.final = self.final or "you repeat yourself"
        return told

    async def _something_new(self) -> None:
        """Until a call in the background has ended, or somebody wants the run to end."""
        stopped = asyncio.ensure_future(self._stopped.wait())
        try:
            while self.bag.still_running() and not self._stopped.is_set():
                waiting = asyncio.ensure_future(self.bag.wait())
                await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    waiting.cancel()
                elif waiting.result().ended:
                    return
        finally:
            stopped.cancel()

    def is_done(self, _reply: Reply, _returned: Sequence[Returned]) -> bool:
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
                tools.append(spawn_tool({name: one.description for name, one in self.agent.agents.items()}))
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
        number = self.family.started

        async def run_child() -> str:
            return await self._child(self.agent.agents[name], task, f"{self.bag.session.name}/{name}-{number}")

        return Spawn(run_child, name, background)

    async def _child(self, agent: Agent, task: str, session: str) -> str:
        async with agent.open_bag(session, self.bag.session.id, agent.model) as bag:
            child = AgentSession(agent, bag, drive=self._drive, family=self.family, depth=self.depth + 1)
            self.children[session] = child
            self.bag.journal.record("spawned", tool=agent.name, session=bag.session.id, task_bytes=len(task))
            try:
                return (await self._drive(child, task)).text
            finally:
                self.children.pop(session, None)
                usage, calls = child.usage, child.calls
                self.spent, self.calls_of_children = self.spent + usage, self.calls_of_children + calls
                self.bag.journal.record(
                    "joined", tool=agent.name, session=bag.session.id, input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens, cost=usage.cost, calls=calls, turns=child.turn,
                )  # fmt: skip

    # The end

    @property
    def usage(self) -> Usage:
        """Of this run and all that it started."""
        return self.model.usage + self.spent

    @property
    def calls(self) -> int:
        return self.model.calls + self.calls_of_children

    def ended(self, text: str, *, status: Status = "success", synthetic: bool = False, why: str = "") -> None:
        """The first report is the one; a second changes nothing."""
        if self.report is None:
            self.report = Report(text, status, synthetic, why)

    @property
    def holder(self) -> str:
        """Who holds the session, for whoever else wants it."""
        return f"the agent {self.agent.name}, process {os.getpid()} on {socket.gethostname()}"

    async def finished(self) -> Report:
        """The report with what it took, and how much of each output its model has seen."""
        report = self.report or Report("", "failure", synthetic=True)
        shares = await asyncio.to_thread(self.bag.seen)
        self.bag.journal.record(
            "reported", status=report.status, synthetic=report.synthetic, why=report.why, chars=len(report.text),
            turns=self.turn, seen=shares,
        )  # fmt: skip
        return replace(
            report, turns=self.turn, calls=self.calls, usage=self.usage, session=self.bag.session.id, coverage=shares
        )

    def save_tree(self) -> None:
        """The operation tree as it is now, for whoever looks."""
        self.bag.save_tree()

    def give_up(self, why: str, last: str = "") -> None:
        self.ended(synthetic_report(why, last[:2000]), status="failure", synthetic=True, why=why)

    def answered(self, text: str) -> bool:
        """Whether a reply without calls is a report: the text in the wrapper."""
        found = report_in(text, self.nonce)
        if found is not None:
            self.ended(found)
        return found is not None

    async def stop(self) -> None:
        """What runs may end; the next turn is the last, here and in what was started from here."""
        self.final = self.final or "it was stopped"
        self._stopped.set()
        await self.bag.stop()
        await asyncio.gather(*(child.stop() for child in list(self.children.values())))

    async def recover(self) -> bool:
        """After a provider found the request too long: make it shorter without losing any of it."""
        self.turn -= 1
        before = self.budget.used(self.transcript)
        while self.rounds < MOST_ROUNDS:
            self.rounds += 1
            done = await put_notices(self.bag, self.transcript, self.budget.window) > 0
            if not done:
                summarise = summary_by_model(self.bag) if self.bag.models.configured else None
                done = await compact(self.bag, self.transcript, summarise)
            self.budget.forget()
            after = self.budget.used(self.transcript)
            self.bag.journal.record("recovered", round=self.rounds, tokens_before=before, tokens_after=after)
            if done and after < before:
                self.transcript.replaced()
                return True
        return False


def _plain(tool: ToolSpec) -> ToolSpec:
    """Under the name that every provider takes."""
    return ToolSpec(tool.plain_name, tool.description, tool.schema)
