"""The main job, shown on this machine: an agent from a question to its report.

Its tools return ten megabytes of log, a JSON export on one line, and a crawl that takes its time; another agent does
the sums. Nothing is mocked but the model, and `--model` brings a real one. Every figure is measured while it runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from holdall.cli import progress, show
from holdall.cli.options import FAULT, Options, command
from holdall.text.escape import for_people, one_line
from holdall.text.numbers import grouped, money, plural, roughly, size
from holdall.values.record import record

if TYPE_CHECKING:
    from holdall.agent.agent_session import AgentSession
    from holdall.agent.toolbox import Agent, Report
    from holdall.bag import Holdall
    from holdall.cli.demo_shop import Tools, Truth
    from holdall.llm.protocol import Model
    from holdall.values.answers import Passage
    from holdall.values.chat import Message, ToolCall, ToolResult
    from holdall.values.events import Event
    from holdall.values.outputs import Facts

app = typer.Typer(rich_markup_mode=None)

# What the demo measures: what a context would have held, and that every byte can be read back in bounded answers.


@record(frozen=False)
class Output:
    """One kept output. `in_context` are the tokens that stood for it: its notice, and what was fetched of it."""

    agent: str
    tool: str
    handle: str
    bytes: int
    lines: int
    tokens: int
    in_context: int
    seen: float  # the share that the model was shown
    pages: int = 0
    sha256: str = ""
    reachable: bool = False


@record(frozen=False)
class Context:
    """The largest request of one agent, as it was and as it would have been with every output in it."""

    agent: str
    window: int
    tokens: int
    outputs: list[Output] = field(default_factory=list[Output])

    @property
    def without(self) -> int:
        return self.tokens + sum(one.tokens - one.in_context for one in self.outputs)

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent, "window": self.window, "tokens": self.tokens, "tokens_without": self.without,
            "outputs": [asdict(one) for one in self.outputs],
        }  # fmt: skip


async def context_of(agent: str, bag: Holdall, window: int) -> Context:
    """From the log of its session."""
    events = bag.records.history()
    found = Context(agent, window, max((event.data["tokens"] for event in events if event.kind == "turn"), default=0))
    for facts in await bag.outputs():
        found.outputs.append(await _output(agent, bag, facts, events))
    return found


async def _output(agent: str, bag: Holdall, facts: Facts, events: Sequence[Event]) -> Output:
    measure = facts.measure
    own = [event.data for event in events if event.handle == facts.handle]
    stood = sum(int(data.get("content_tokens", 0)) for data in own)
    fetched = sum(int(data.get("tokens", 0)) for data in own if "verb" in data)
    seen = (await bag.records.coverage(facts.handle)).share(measure.bytes)
    return Output(
        agent, facts.origin.tool, facts.handle, measure.bytes, measure.lines, measure.tokens, stood + fetched, seen
    )


async def read_back(bag: Holdall, output: Output, tick: Callable[[int], None]) -> None:
    """Page by page, as a model would: each answer within its bounds, until there is no next one.

    It leaves no trace: what is read here was shown to no model.
    """
    import hashlib

    from holdall.wire.tool import Ask

    digest, at = hashlib.sha256(), 0
    while True:
        page = cast(
            "Passage", await bag.fetch.carry_out(Ask("read", output.handle, {"bytes": f"{at}:"}), bag.core.bounds())
        )
        digest.update(page.data)
        tick(len(page.data))
        output.pages += 1
        at = page.bytes.end
        if not page.next:
            break
    output.sha256 = digest.hexdigest()
    output.reachable = at == output.bytes


# The demo as it happens, told turn by turn: which agent calls what, and what its model reads of the answer.


_WIDTH = 116
_MAX_LINES = 14


class Story:
    """Told every event of a session; what was said and returned since the last turn is in its transcript."""

    def __init__(self, session: AgentSession, say: Callable[[str], None], indent: str = "") -> None:
        self.session = session
        self.children: list[Story] = []
        self._print = say
        self._indent = indent
        self._told = 0
        self._turn = 0
        session.bag.journal.watchers[self.heard] = lambda: True

    def heard(self, event: Event) -> None:
        match event.kind:
            case "turn":
                self._print_new()
                self._turn = int(event.data["number"])
            case "spawned":
                known = {story.session.bag.session.name for story in self.children}
                for name, child in self.session.children.items():
                    if name not in known:
                        self.children.append(Story(child, self._print, self._indent + "    "))
            case "reported":
                self._print_new()
            case _:
                pass

    def everybody(self) -> list[Story]:
        """This one and all that were started from it."""
        return [self, *(story for child in self.children for story in child.everybody())]

    def _print_new(self) -> None:
        """The turn that is over, all at once: agents run side by side, and their lines must not be mixed."""
        from holdall.values.chat import ToolResult

        messages = self.session.transcript[self._told :]
        self._told += len(messages)
        if not self._turn:
            return
        answers = {message.call_id: message for message in messages if isinstance(message, ToolResult)}
        title = show.paint(f"{self.session.agent.name}, turn {self._turn}", "bold")
        lines = [title, *(f"  {line}" for message in messages for line in _lines(message, answers))]
        self._print("\n" + "\n".join(f"{self._indent}{line}" for line in lines))


def _lines(message: Message, answers: dict[str, ToolResult]) -> list[str]:
    from holdall.values.chat import Assistant

    if not isinstance(message, Assistant):
        return []
    told = [f"says: {_cut(message.text)}"] if message.text.strip() else []
    for call in message.calls:
        told += _call(call, answers.get(call.id))
    return told


def _call(call: ToolCall, answer: ToolResult | None) -> list[str]:
    arguments: object = call.arguments
    named = cast("Mapping[str, Any]", arguments if isinstance(arguments, Mapping) else {})
    if call.name == "task_status":
        return [f"says: {_cut(str(named.get('status', '')))}"]
    if call.name == "final_report":
        return ["→ final_report(…)"]
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items())
    lines = (answer.text if answer is not None else "").split("\n")
    shown = [f"    {show.paint(_cut(line), 'dim')}" for line in lines[:_MAX_LINES]]
    more = [show.paint(f"    … {len(lines) - _MAX_LINES} more lines", "dim")] if len(lines) > _MAX_LINES else []
    return [f"→ {_cut(f'{call.name}({given})')}", *shown, *more]


def _cut(line: str) -> str:
    return one_line(line, _WIDTH)


QUESTION = (
    "Customers say that their orders were refused today. Which error is it, the most frequent one? How many orders did "
    "it hit, what were they worth in all, and what does our runbook say to do?"
)
_FINDER = (
    "You are on call for the payments of a shop. Find out with your tools, never guess. The log says which errors "
    "there are; the runbook, which you have to crawl, says what to do; for anything about orders and money ask the "
    "accountant, and tell it which error code you mean. Report the error's code, the number of orders, their worth in "
    "euros with two decimals, and the exact command of the runbook."
)
_ACCOUNTANT = (
    "You answer questions about the orders of a shop. Export them, then ask the export by SQL: it is a JSON object "
    'whose key `orders` is the table (at="$.orders"). Amounts are in cents; report euros with two decimals.'
)
_BAD_REPORT_EXIT_CODE = 1


@command(app)
async def demo(
    options: Options,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Let a real model do it (default: a scripted one).")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep its session, to look at with holdall view.")] = False,
) -> int:
    """Watch an agent from a question to its report, on tools that return too much and take too long.

    It searches a log of ten megabytes, has another agent query a JSON export on one line, and crawls a slow site on
    this machine meanwhile. Shows what the context would have held without Holdall, and reads every byte back. Nothing
    is configured, and without --keep, --home or HOLDALL_HOME nothing stays. Exit code 3 where a byte is not there.

    \b
    Example:  holdall demo
              holdall demo --keep && holdall view
              holdall demo --model gguf:qwen.gguf
    """
    import secrets
    import tempfile

    began = time.monotonic()
    named = keep or options.home or os.environ.get("HOLDALL_HOME")
    with tempfile.TemporaryDirectory(prefix="holdall-demo-") as folder:
        kept_in = options.configuration().home if named else os.path.join(folder, "home")
        name = options.session or f"demo-{secrets.token_hex(3)}"
        tour = Tour(_Screen(quiet=options.as_json), Path(folder), kept_in, name, model)
        async with tour.shop() as agent:
            async with agent.open_bag(name, "", agent.model) as bag:
                report = await tour.run(agent, bag)
                await tour.measure()
            seconds = time.monotonic() - began
            tour.sum_up(report, seconds)
        if options.as_json:
            show.as_json(tour.to_json(report, seconds))
        elif named:
            at = f" --home {one_line(kept_in, 300)}" if options.home else ""
            show.about(f"kept in session {one_line(name, 100)}. Look at it: holdall view{at}")
        else:
            show.about("nothing of it stays; with --keep its session does, for: holdall view")
    if not tour.all_reachable:
        return FAULT
    return _BAD_REPORT_EXIT_CODE if report.synthetic or report.status == "failure" else 0


@record(frozen=False)
class _Screen:
    quiet: bool

    def __call__(self, text: str = "") -> None:
        if not self.quiet:
            print(text, flush=True)


@record(frozen=False)
class Tour:
    say: Callable[[str], None]
    folder: Path
    home: str
    name: str
    model: str | None
    stories: list[Story] = field(default_factory=list[Story])
    contexts: list[Context] = field(default_factory=list[Context])
    _tools: Tools | None = None
    _truth: Truth | None = None

    @contextlib.asynccontextmanager
    async def shop(self) -> AsyncGenerator[Agent]:
        """The agent, with its tools and the site that one of them crawls."""
        from holdall.cli import demo_shop

        shop = demo_shop.made(self.folder)
        models = [self._model(demo_shop.finder), self._model(demo_shop.accountant)]
        async with demo_shop.served(shop.pages) as site:
            tools = demo_shop.Tools(shop, site)
            self._tools, self._truth = tools, shop.truth
            accountant = self._agent("accountant", _ACCOUNTANT, models[1], [tools.export_orders])
            try:
                yield self._agent("finder", _FINDER, models[0], [tools.fetch_log, tools.crawl_runbook], accountant)
            finally:
                for model in models:
                    await model.close()

    async def run(self, agent: Agent, bag: Holdall) -> Report:
        from holdall.agent.agent_session import AgentSession
        from holdall.agent.loop import run_session

        self.say(f"{show.paint('The question', 'bold')}\n  {QUESTION}")
        session = AgentSession(agent, bag, drive=run_session)
        story = Story(session, self.say)
        report = await run_session(session, QUESTION)
        self.stories = story.everybody()
        text = "\n".join(f"  {line}" for line in for_people(report.text).split("\n"))
        self.say(f"\n{show.paint('The report', 'bold')}\n{text}")
        return report

    async def measure(self) -> None:
        """What each context held, then every byte of every output read back."""
        for story in self.stories:
            agent = story.session.agent
            async with agent.open_bag(story.session.bag.session.name, "", agent.model) as bag:
                self.contexts.append(await context_of(agent.name, bag, agent.model.window))
        total = sum(one.bytes for one in self._outputs)
        with progress.bytes_done("reading every byte back", total) as tick:
            done = 0

            def told(more: int) -> None:
                nonlocal done
                done += more
                tick(done)

            for story, context in zip(self.stories, self.contexts, strict=True):
                agent = story.session.agent
                async with agent.open_bag(story.session.bag.session.name, "", agent.model) as bag:
                    for output in context.outputs:
                        await read_back(bag, output, told)

    def sum_up(self, report: Report, seconds: float) -> None:
        self.say(f"\n{show.paint('What the tools returned, and what stood for it in a context', 'bold')}")
        for one in self._outputs:
            what = f"{size(one.bytes)}, {plural(one.lines, 'line')}"
            self.say(
                f"  {one.tool:<15} {what:<24} {'~' + roughly(one.tokens):>6} tokens → {grouped(one.in_context):>5}"
                f"   {show.percent(one.seen)} of it seen"
            )
        self.say(f"\n{show.paint('The context', 'bold')}")
        for context in self.contexts:
            times = context.without / context.window
            much = f", {times:.0f} times its window" if times >= 2 else ""
            self.say(
                f"  {context.agent:<12} without Holdall ~{roughly(context.without)} tokens{much} · with it "
                f"{grouped(context.tokens)}"
            )
        self._print_reachable()
        self._print_cost(report, seconds)

    def _print_reachable(self) -> None:
        pages, total = sum(one.pages for one in self._outputs), sum(one.bytes for one in self._outputs)
        there = sum(one.bytes for one in self._outputs if self._is_same(one))
        verdict = "as the tools returned it" if self.all_reachable else "NOT as the tools returned it"
        self.say(
            f"\n{show.paint('Reachable', 'bold')}\n  {show.percent(there / total if total else 1.0)}: {grouped(there)} "
            f"of {grouped(total)} bytes read back in {plural(pages, 'bounded answer')}, {verdict} (sha256)"
        )

    def _print_cost(self, report: Report, seconds: float) -> None:
        from holdall.cli import demo_shop

        right = self._truth.found_in(report.text) if self._truth is not None else {}
        wrong = [name for name, is_right in right.items() if not is_right]
        verdict = "right" if not wrong else f"not all right: {', '.join(wrong)}"
        price = f" (at ${demo_shop.PRICE.input:g} and ${demo_shop.PRICE.output:g} for a million tokens)"
        self.say(
            f"\n{show.paint('It took', 'bold')}\n  {plural(report.turns, 'turn')}, "
            f"{plural(report.calls, 'model call')}, {grouped(report.usage.tokens)} tokens, {money(report.usage.cost)}"
            f"{'' if self.model else price}, {seconds:.1f} s; the report is {verdict}"
        )

    @property
    def all_reachable(self) -> bool:
        return all(self._is_same(one) for one in self._outputs)

    def to_json(self, report: Report, seconds: float) -> dict[str, Any]:
        return {
            **report.to_json(),
            "question": QUESTION,
            "right": self._truth.found_in(report.text) if self._truth is not None else {},
            "contexts": [context.to_json() for context in self.contexts],
            "all_reachable": self.all_reachable,
            "seconds": round(seconds, 3),
        }

    @property
    def _outputs(self) -> list[Output]:
        return [one for context in self.contexts for one in context.outputs]

    def _is_same(self, one: Output) -> bool:
        """Whether all of it was read back and is what the tool gave; a report has no other witness than its record."""
        returned = self._tools.returned.get(one.tool) if self._tools is not None else None
        return one.reachable and (returned is None or one.sha256 in returned)

    def _model(self, scripted: Callable[[], Model]) -> Model:
        from holdall.llm.model_names import model_named

        return scripted() if self.model is None else model_named(self.model)

    def _agent(
        self, name: str, prompt: str, model: Model, functions: Sequence[Callable[..., Any]], *agents: Agent
    ) -> Agent:
        from holdall.agent.toolbox import Agent, AgentTool, Toolbox
        from holdall.bag import Holdall
        from holdall.values.settings import Settings, ToolPolicy
        from holdall.wire.tool import ToolSpec

        empty: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
        tools = [AgentTool(ToolSpec(one.__name__, one.__doc__ or "", empty), one) for one in functions]
        # The crawl takes three seconds: you need not wait for five. The other two tools only read a file, and never go
        # to the background, however busy this machine is.
        settings = Settings(
            slow_after_seconds=1.0,
            by_reference=True,
            tools={name: ToolPolicy(never_async=True) for name in ("fetch_log", "export_orders")},
        )

        def open_bag(session: str, parent: str, model: Model) -> Holdall:
            return Holdall.open(home=self.home, session=session, parent=parent, settings=settings, model=model)

        return Agent(
            name=name, prompt=prompt, model=model, open_bag=open_bag, agents={one.name: one for one in agents},
            tools=Toolbox(tools),
            description="knows everything about the orders" if name == "accountant" else "",
        )  # fmt: skip
