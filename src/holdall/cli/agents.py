"""`run` and `show --tree`: an agent from its file to its report, how far it is, and what it did."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NamedTuple, cast

import typer

from holdall.cli import progress
from holdall.cli import show as screen
from holdall.cli.options import (
    FAULT,
    FOUND_NOTHING,
    Known,
    Options,
    command,
    lasting,
    print_error,
    session_named,
    sessions_at,
    visited,
)
from holdall.cli.streams import StdoutError, stdout_error
from holdall.cli.trust import Trust, agreement
from holdall.text.escape import for_people, foreign, named, one_line
from holdall.text.numbers import grouped, money, number, plural, size, whole
from holdall.values.errors import NothingFound, StoreFault, UsageError

if TYPE_CHECKING:
    import asyncio

    from rich.console import RenderableType

    from holdall.agent.agent_session import AgentSession
    from holdall.agent.files import AgentFile
    from holdall.agent.toolbox import Report
    from holdall.bag import Holdall
    from holdall.config import Configuration
    from holdall.values.events import Event
    from holdall.values.settings import Settings

app = typer.Typer(rich_markup_mode=None)

# `show --tree`: what an agent did in a session, from the session's log. Sub-agents' own trees are inside of it.


_MAX_WIDTH = 200  # if the width is unknown
_MAX_DEPTH = 8
_MAX_LOOKED_AT = 100  # sessions, until one is found in which something ran

Node = Mapping[str, Any]


async def show_tree(options: Options, wanted: str | None) -> int:
    from holdall.config import SESSION_VARIABLE

    wanted = wanted or options.session or os.environ.get(SESSION_VARIABLE)
    found = options.configuration()
    known = {one.id: one for one in sessions_at(found)}
    chosen, tree = None, dict[str, Any]()
    for chosen in [session_named(found, wanted)] if wanted else _newest(found):
        if (tree := await _tree(options, chosen, known, {chosen.id})).get("children"):
            break
    if chosen is None or not tree.get("children"):
        name = f' in session "{one_line(chosen.name, 100)}"' if chosen is not None and wanted else ""
        told = f"no agent has run{name} yet: holdall run AGENT.md"
        if options.as_json:
            raise NothingFound(told)
        screen.about(told)
        return FOUND_NOTHING
    if options.as_json:
        screen.as_json(tree | {"session": chosen.id, "session_name": chosen.name})
        return 0
    width = shutil.get_terminal_size((_MAX_WIDTH, 0)).columns if screen.is_terminal(sys.stdout) else _MAX_WIDTH
    for line in drawn_tree(tree):
        print(line if len(line) <= width else line[: width - 1] + "…")
    return 0


def _newest(found: Configuration) -> list[Known]:
    """Sessions that something may have run in, newest first."""
    from holdall.bag.core import open_existing_store

    with open_existing_store(found.home, found.settings) as store:
        sessions = store.sessions() if store is not None else ()
        return [Known(one.name, one.id, one.parent) for one in sessions if not one.parent][:_MAX_LOOKED_AT]


async def _tree(
    options: Options, chosen: Known, known: Mapping[str, Known], drawn: set[str], depth: int = 0
) -> dict[str, Any]:
    """From the log, which a killed run leaves complete; where that is gone, the newest snapshot.

    Each session that this one has started is drawn once: a log from elsewhere may name any, as often as it likes.
    """
    import asyncio

    found = options.configuration()
    async with visited(found, chosen.folder) as bag:
        tree = await asyncio.to_thread(lambda: bag.records.tree().to_json(with_outputs=True))
        if not tree.get("reported") and not await asyncio.to_thread(bag.store.is_leased, bag.session.id):
            tree["interrupted"] = True
        saved = None if tree.get("children") else await asyncio.to_thread(bag.store.tree, bag.session)
    if saved is not None:
        tree = cast("dict[str, Any]", json.loads(saved))
    for agent in _agents(tree):
        child = known.get(str(agent.get("session")))
        if child is not None and child.parent == chosen.id and child.id not in drawn and depth < _MAX_DEPTH:
            drawn.add(child.id)
            agent["children"] = (await _tree(options, child, known, drawn, depth + 1)).get("children", [])
    return tree


def _agents(node: Node) -> Iterator[dict[str, Any]]:
    for one in node.get("children", ()):
        if one.get("op") == "agent":
            yield one
        else:
            yield from _agents(one)


def drawn_tree(tree: Node) -> Iterator[str]:
    """One line per operation, without line breaks or escapes from outside."""
    yield _root(tree)
    yield from _below(tree, "")
    if left_out := whole(tree.get("left_out")):
        yield f"… and {plural(left_out, 'more operation')}: they are in the figures above, and have no line here."


def _below(node: Node, indent: str) -> Iterator[str]:
    children = cast("Sequence[Node]", node.get("children", ()))
    for at, child in enumerate(children):
        is_last = at == len(children) - 1
        yield f"{indent}{'└─ ' if is_last else '├─ '}{_told(child)}"
        yield from _below(child, indent + ("   " if is_last else "│  "))


def _root(tree: Node) -> str:
    totals = _node(tree.get("totals"))
    turns = sum(1 for one in tree.get("children", ()) if one["op"] == "turn")
    name, reported = f"session {one_line(str(tree.get('name', '')), 100)}", _node(tree.get("reported"))
    if not turns and not totals.get("model_calls") and not reported:  # no agent of ours
        return " · ".join((name, _tool_calls(totals), _seconds(tree)))
    runs, goes_on = whole(tree.get("runs")), not reported and not tree.get("interrupted")
    is_cut = whole(tree.get("unreported")) > goes_on  # it was killed: no more is known of how long it took
    parts = [
        name,
        plural(turns, "turn"),
        plural(whole(totals.get("model_calls")), "model call"),
        _tool_calls(totals),
        f"{grouped(whole(totals.get('input_tokens')) + whole(totals.get('output_tokens')))} tokens",
        *_cost(totals),
        _seconds({"seconds": tree.get("run_seconds", tree.get("seconds")), "at_least": is_cut})
        + (f" in {plural(runs, 'run')}" if runs > 1 else ""),
    ]
    if "recovered" in tree:
        parts.append("was made shorter for its model")
    if not turns and not reported:
        pass  # questions that a person asked: nobody was to report
    elif not reported:
        parts.append("interrupted, no report" if tree.get("interrupted") else "no report yet")
    else:
        status = "no report of the model's" if reported.get("synthetic") else f"reported {reported.get('status')}"
        why = str(reported.get("why") or "")
        parts.append(one_line(f"{status}: {why}" if why else status, 120))
    return " · ".join(parts)


def _tool_calls(totals: Node) -> str:
    """Of the session and its agents. Those that were refused did not run, but each was made and has a line."""
    made, failed = whole(totals.get("tool_calls")) + whole(totals.get("refused")), whole(totals.get("failed"))
    return plural(made, "tool call") + (f", {grouped(failed)} failed or cut short" if failed else "")


def _told(node: Node) -> str:
    match node["op"]:
        case "turn":
            why = f"the last one: {node['why']}" if node.get("why") else ""
            parts = [f"turn {_name(node)}", _seconds(node), f"{_number(node, 'tokens')} tokens in it", why]
        case "model":
            calls = plural(whole(node.get("calls")), "call") if node.get("calls") else ""
            parts = [
                f"model {_name(node)}",
                _seconds(node),
                _tokens(node),
                *_cost(node),
                calls,
                _why(node),
            ]
        case "tool":
            failed = "failed" if node.get("is_error") else ""
            state = foreign(str(node["state"])) if node.get("state") else ""
            outcome, handle = named(node.get("outcome", "")), named(node.get("handle", ""))
            if state and outcome == "running":
                outcome = f"in the background, {state}"
            else:
                failed = state or failed  # it ended so in the foreground
                if outcome in ("begun", "interrupted"):
                    outcome = "no answer" if state else "running"
            what = f"{outcome} {handle}".strip()
            parts = [
                f"tool {_name(node)}",
                _seconds(node),
                failed,
                what,
                next((f"{_number(node, one)} {one}" for one in ("chars", "bytes", "tokens") if node.get(one)), ""),
            ]
        case "agent":
            turns = plural(whole(node["turns"]), "turn") if "turns" in node else "did not end"
            parts = [f"agent {_name(node)}", _seconds(node), turns, _tokens(node), *_cost(node)]
        case "extraction":
            from holdall.policy.folds import APART

            proved = f"{_number(node, 'verified')} verified" if "verified" in node else ""
            about, how = named(node.get("handle", "")), named(node.get("strategy", ""))
            if node.get("reason") == "fallback":
                why = str(node.get("why", "")).removeprefix("WARNING: ").partition(". What follows")[0]
                how += f", since {foreign(why, 200) or 'another way failed'}"
            parts = [f"question about {about}", "by a person" if node.get(APART) else "", _seconds(node), how, proved]
        case other:
            parts = [named(other), named(node.get("name", ""))]
    return one_line(" · ".join(part for part in parts if part), 1000)


def _node(value: object) -> Node:
    """A bundle can bring any JSON here."""
    return cast("Node", value) if isinstance(value, Mapping) else {}


def _name(node: Node) -> str:
    return named(node.get("name", ""), 300)


def _seconds(node: Node) -> str:
    seconds = number(node.get("seconds"))
    told = f"{seconds:.1f} s" if seconds >= 0.1 or not seconds else f"{seconds * 1000:.0f} ms"
    if not node.get("at_least"):
        return told
    return f"at least {told}" if seconds else "for an unknown time"


def _tokens(node: Node) -> str:
    return f"{_number(node, 'input_tokens')} → {_number(node, 'output_tokens')} tokens"


def _number(node: Node, name: str) -> str:
    return grouped(whole(node.get(name)))


def _cost(node: Node) -> list[str]:
    """Of one operation, or of the totals."""
    from holdall.policy.folds import unpriced_calls

    op = str(node.get("op", ""))
    unknown = unpriced_calls(op, node) if op else whole(node.get("unpriced_calls"))
    cost = node.get("cost")
    if op == "model" and unknown:
        return [money(None)]
    return [money(number(cost), unknown)] if cost or unknown else []


def _why(node: Node) -> str:
    return f"failed: {node['why']}" if node.get("why") else ""


# How far an agent is, drawn on standard error where a person looks: its turn, its cost, what runs, what it says.


_MAX_TOOLS = 6
_PER_SECOND = 8


class Board:
    """All of it is asked of the session when the board is drawn."""

    def __init__(self, session: AgentSession) -> None:

        self._session = session
        self._started_at = time.monotonic()

    def lines(self) -> list[str]:
        session, spent = self._session, self._session.usage
        for child in tuple(session.children.values()):  # those that have ended are in the sum
            spent += child.usage
        parts = [
            one_line(session.agent.name, 60),
            f"turn {session.turn} of {session.agent.max_turns}",
            f"{grouped(spent.tokens)} tokens",
            *([money(spent.cost, spent.unpriced_calls)] if spent.tokens else []),
            f"{time.monotonic() - self._started_at:.0f} s",
        ]
        if session.final:
            parts.insert(2, f"the last one: {one_line(session.final, 60)}")
        told = [" · ".join(parts)]
        if session.status:
            told.append(f"  {one_line(session.status, 200)}")
        if running := running_in(session):
            names = [f"{one_line(name, 40)} {seconds:.1f} s" for name, seconds in running[:_MAX_TOOLS]]
            more = [f"{len(running) - _MAX_TOOLS} more"] if len(running) > _MAX_TOOLS else []
            told.append(f"  running: {' · '.join([*names, *more])}")
        return told

    def drawn(self) -> RenderableType:
        from rich.text import Text

        return Text("\n".join(self.lines()), no_wrap=True, overflow="ellipsis")


def running_in(session: AgentSession, inside: str = "") -> list[tuple[str, float]]:
    """The tools that run now, with their seconds, oldest first; those of the agents that were started from here too."""
    jobs = session.bag.jobs.table
    found = [(inside + job.name, jobs.age(job)) for job in jobs.unfinished]
    for child in tuple(session.children.values()):
        found += running_in(child, f"{inside}{child.agent.name}: ")
    return found


@contextlib.contextmanager
def drawn_progress(session: AgentSession) -> Generator[None]:
    """The board while the block runs; where standard error is not a terminal, in one line now and then."""
    board = Board(session)
    if progress.before_the_first() is None or not screen.is_terminal(sys.stderr):
        with progress.reported(lambda _: " · ".join(line.strip() for line in board.lines())):
            yield
        return
    from rich.console import Console
    from rich.live import Live

    live = Live(
        console=Console(stderr=True), get_renderable=board.drawn, transient=True, refresh_per_second=_PER_SECOND,
    )  # fmt: skip
    with live:
        yield


# How a run looks: its events as lines, its report on standard output, what it took on standard error.
#
# While an agent runs, standard output is ours alone: what a tool prints by itself goes to standard error.


_STDOUT, _STDERR = 1, 2
_MAX_OUTPUTS = 8


@contextlib.contextmanager
def reserved() -> Generator[BinaryIO]:
    """Reserve standard output: a print in a tool must not end up in the report."""
    sys.stdout.flush()
    with os.fdopen(os.dup(_STDOUT), "wb") as ours:
        os.dup2(_STDERR, _STDOUT)
        try:
            yield ours
        finally:
            sys.stdout.flush()
            os.dup2(ours.fileno(), _STDOUT)


class Lines:
    """One JSON object a line, each at once, from any thread. `gone` is called once nobody reads any more."""

    def __init__(self, out: BinaryIO, gone: Callable[[], object] = lambda: None) -> None:
        self.is_read = True
        self.refused: StdoutError | None = None  # why it is not, where somebody would have read it
        self.gone = gone
        self._out = out
        self._lock = threading.Lock()

    def heard(self, event: Event) -> None:
        self.write(event.to_json())

    def write(self, value: Any) -> None:
        escaped = not screen.is_utf8(sys.stdout)
        line = json.dumps(value, ensure_ascii=escaped, default=str).encode("utf-8", "replace") + b"\n"
        with self._lock:
            if not self.is_read:
                return
            try:
                self._out.write(line)
                self._out.flush()
            except OSError as problem:
                self.is_read = False
                self.refused = None if isinstance(problem, BrokenPipeError) else stdout_error(problem)
                _drop(self._out)
                self.gone()


def report_text(report: Report, out: BinaryIO) -> None:
    is_terminal = os.isatty(out.fileno()) and os.environ.get("TERM") != "dumb"
    text = for_people(report.text) if is_terminal else report.text
    try:
        out.write(screen.encoded(text.rstrip("\n")) + b"\n")
        out.flush()
    except OSError as problem:
        _drop(out)
        if isinstance(problem, BrokenPipeError):
            raise
        raise stdout_error(problem) from problem


def _drop(out: BinaryIO) -> None:
    """Discard what is left in the buffer."""
    with contextlib.suppress(OSError), open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), out.fileno())


def about(report: Report, bag: Holdall, seconds: float, home: str) -> None:
    """On standard error: what is wrong with it, what it took, how much of what was kept its model has seen.

    `home` is the flag that a command for the same data folder needs.
    """
    if report.synthetic:
        screen.about(f"The agent did not report: {one_line(report.why, 300)}. What it has done is kept.")
    elif report.status != "success":
        said = "it failed" if report.status == "failure" else "this is only a part of what was asked"
        screen.about(f"The agent says that {said}.")
    screen.about(took(report, bag, seconds))
    if seen := _seen(report, bag):
        screen.about(seen)
    if running := bag.jobs.still_running():
        told = ", ".join(f"{one_line(one.tool, 40)} {one.handle}" for one in running[:_MAX_OUTPUTS])
        grace = f"{bag.settings.grace_seconds:g} s"
        screen.about(f"still running: {told}. What has not ended in {grace} is cancelled; what it wrote is kept.")
    name = shlex.quote(one_line(bag.session.name, 300))
    screen.about(f"more: holdall show --tree {name}{home}" + (f" · holdall ls -s {name}{home}" if seen else ""))


def took(report: Report, bag: Holdall, seconds: float) -> str:
    """`session finder-3fa9c1 · 5 turns · 7 model calls · 9 tool calls · 12,345 tokens · $0.0031 · 4.1 s`"""
    totals = bag.records.tree().totals()
    parts = [
        f"session {one_line(bag.session.name, 100)}",
        plural(report.turns, "turn"),
        plural(totals["model_calls"], "model call"),
        _tool_calls(totals),
        f"{grouped(totals['input_tokens'] + totals['output_tokens'])} tokens",
        money(totals["cost"], totals["unpriced_calls"]),
        f"{seconds:.1f} s",
    ]
    return " · ".join(parts)


def _seen(report: Report, bag: Holdall) -> str:
    """`seen: 0.4 % of k3f9 (fetch_logs, 10.5 MB), 100 % scanned · …`; empty if nothing was kept."""
    told: list[str] = []
    ended = [
        facts for facts in map(bag.core.kept.get, report.coverage) if facts is not None and facts.state != "running"
    ]
    for facts in ended[:_MAX_OUTPUTS]:
        what = f"{one_line(facts.origin.tool, 40) or 'an output'}, {size(facts.measure.bytes)}"
        used = report.used.get(facts.handle, {})
        more = "".join(f", {screen.percent(used[way])} {way}" for way in ("scanned", "searched") if used.get(way))
        told.append(f"{screen.percent(report.coverage[facts.handle])} of {facts.handle} ({what}){more}")
    if (others := len(ended) - len(told)) > 0:
        told.append(plural(others, "more output"))
    return f"seen: {' · '.join(told)}" if told else ""


# `run`: an agent from its file to its report.
#
# The report goes to standard output and nothing else does; Ctrl-C once asks for a report, twice ends it.


BAD_REPORT_EXIT_CODE = 1
_SIGNAL_EXIT_CODES = 128
_STDIN = "-"
_STOPPING = "stopping: the agent may report in one more turn. Ctrl-C again ends it at once."


class RunOptions(NamedTuple):
    file: str
    prompt: str | None
    model: str | None
    background: bool | None
    max_turns: int | None
    resume: str | None
    trust: bool = False

    def flags(self) -> list[str]:
        """Its options that are settings."""
        given = {"model": self.model, "max_turns": self.max_turns}
        told = [f"{name}={value}" for name, value in given.items() if value is not None]
        return told if self.background is None else [*told, f"async_enabled={str(self.background).lower()}"]

    def again(self, options: Options, session: str) -> str:
        """The command that goes on in this session."""
        from holdall.config import without_password

        words = ["holdall", "run", self.file, "--resume", session]
        for option, value in (("--home", without_password(options.home or "")), ("--model", self.model)):
            words += [option, value] if value else []
        words += ["--trust"] if self.trust else []
        return shlex.join(words)


@command(
    app,
    session=Annotated[
        str | None, typer.Option("--session", "-s", help="Name of the session (default: a new one, named after it).")
    ],
    as_json=Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON; the last line is the report.")
    ],
)
async def run(
    options: Options,
    agent: Annotated[str, typer.Argument(metavar="AGENT.md", help="The agent's file.")],
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="What it should do; - or a pipe for standard input.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="provider:name, openai:NAME@URL or gguf:PATH.")
    ] = None,
    background: Annotated[
        bool | None, typer.Option("--async/--no-async", help="Whether slow tools may go on in the background.")
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", metavar="N", min=1, help="In the last one it must report.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="SESSION", help="Go on where that session stopped.")
    ] = None,
    trust: Trust = False,
) -> int:
    """Run an agent, a Markdown file with YAML front matter, until it reports.

    The report goes to standard output, everything about it to standard error. Tool outputs that are too large are kept
    whole and the agent's model gets handles; slow tools go on in the background; nothing is lost when it is killed.

    Before anything that the file names is imported, started or sent to, you are asked, once, in a terminal; a changed
    file asks again. Without a terminal --trust is needed. Files in your own configuration folder are not asked about.

    What the command line says holds for every agent of the run, and goes before their files, the environment and the
    configuration file. Ctrl-C once: it is told to report now. Twice: it ends at once.

    Exit codes: 0 it reported, 1 it reported a failure or could not be made to report, 2 wrong use, 3 a fault of its
    model, its MCP servers or the store; then --resume goes on.

    \b
    Example:  holdall run finder.md "Which disk failed?"
              holdall run finder.md --resume finder-3fa9c1
    """
    from holdall.agent.agent_session import AgentSession
    from holdall.agent.build import build_agent
    from holdall.agent.files import load_agent
    from holdall.agent.loop import run_session
    from holdall.agent.toolbox import AgentQuota

    ask = RunOptions(agent, prompt, model, background, max_turns, resume, trust)
    if resume is not None and options.session is not None:
        raise UsageError("--resume names the session that goes on: leave --session out.")
    file = load_agent(ask.file)
    found = _configuration(options, file, ask.flags())
    prompt = _prompt(ask)
    name = _session(ask, file, found)
    noted = set[str]()
    is_there = any(one.name == name for one in sessions_at(found))

    def settings_of(one: AgentFile) -> Settings:
        own = _configuration(options, one, ask.flags())
        settings, notes = own.settings, list(own.notes)
        users = options.configuration().settings.retention
        if is_there and one.path == file.path and settings.retention != users:
            # It would be that of all that is in there, and a file removes nothing of what the user has kept.
            settings = replace(settings, retention=users)
            notes.append(f"the front matter: retention holds for a new session only; {one_line(name, 100)} is there.")
        for note in notes:
            if note not in noted:
                screen.about(note)
                noted.add(note)
        return settings

    with reserved() as out, _logged():
        building = build_agent(
            file, home=found.home, warn=screen.about,
            agree=agreement(options, trust=trust, command=f'holdall run {shlex.quote(ask.file)} "…"'),
            settings_of=settings_of, dialect_of=lasting,
        )  # fmt: skip
        async with building as built_agent, built_agent.open_bag(name, "", built_agent.model) as bag:
            _check_conversation(bag, ask, prompt)
            family = AgentQuota(found.settings.max_agents, found.settings.max_agent_depth)
            running = AgentSession(built_agent, bag, drive=run_session, family=family)
            return await _Run(running, out, options).until_reported(prompt, ask)


class _Run:
    """One run, and the person in front of it."""

    def __init__(self, session: AgentSession, out: BinaryIO, options: Options) -> None:
        self._session = session
        self._bag = session.bag
        self._out = out
        self._options = options
        self._as_json = options.as_json
        self._lines = Lines(out)
        self._ended_by = 0  # the signal that ended it
        self._stopping: asyncio.Task[None] | None = None

    async def until_reported(self, prompt: str, ask: RunOptions) -> int:
        began, again = time.monotonic(), ask.again(self._options, self._bag.session.name)
        if self._as_json:
            self._bag.journal.watchers[self._lines.heard] = lambda: False
        else:
            screen.about(f"session {one_line(self._bag.session.name, 100)}")
        try:
            with contextlib.nullcontext() if self._as_json else drawn_progress(self._session):
                report = await self._driven(prompt, resume=ask.resume is not None)
        except StoreFault as problem:
            print_error(problem, as_json=self._as_json)
            self._print_resume_command(again)
            return FAULT
        self._check_read()
        if report is None:
            self._print_resume_command(again)
            return _SIGNAL_EXIT_CODES + self._ended_by
        if self._as_json:
            del self._bag.journal.watchers[self._lines.heard]  # nothing comes after the report
            self._lines.write(report.to_json() | {"session_name": self._bag.session.name})
            self._check_read()
        else:
            report_text(report, self._out)
            home = replace(self._options, session=None).flags()
            about(report, self._bag, time.monotonic() - began, home)
            if report.synthetic:
                screen.about(f"go on with: {again}")
        return BAD_REPORT_EXIT_CODE if report.synthetic or report.status == "failure" else 0

    def _check_read(self) -> None:
        if not self._lines.is_read:
            raise self._lines.refused or BrokenPipeError

    async def _driven(self, prompt: str, *, resume: bool) -> Report | None:
        """None if a person ended it."""
        import asyncio

        from holdall.agent.loop import run_session

        loop = asyncio.get_running_loop()
        work = loop.create_task(run_session(self._session, prompt, resume=resume))

        def end(number: int) -> None:
            self._ended_by = self._ended_by or number
            work.cancel()

        def interrupted() -> None:
            if self._stopping is None:
                self._stopping = loop.create_task(self._session.stop())
                screen.about(_STOPPING)
            else:
                end(signal.SIGINT)

        self._lines.gone = lambda: loop.call_soon_threadsafe(end, signal.SIGPIPE)
        loop.add_signal_handler(signal.SIGINT, interrupted)
        loop.add_signal_handler(signal.SIGTERM, end, signal.SIGTERM)
        try:
            return await work
        except asyncio.CancelledError:
            await _abort(self._session)
            if not self._ended_by:
                raise
            return None
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            loop.remove_signal_handler(signal.SIGTERM)

    def _print_resume_command(self, again: str) -> None:
        if not self._as_json:
            removed = len(self._bag.core.kept) if self._bag.session.retention.session else 0
            gone = f"{plural(removed, 'output')} of it, kept for the session only, will be gone"
            kept = f"Its conversation is kept; {gone}." if removed else "Nothing is lost."
            screen.about(f"{kept} Go on with: {again}")
        else:
            Lines(sys.stderr.buffer).write({"session_name": self._bag.session.name, "resume": again})


async def _abort(session: AgentSession) -> None:
    """What runs, of this agent and of those that it started, at once."""
    import asyncio

    await asyncio.gather(session.bag.jobs.abort(), *(_abort(child) for child in list(session.children.values())))


def _configuration(options: Options, file: AgentFile, flags: Sequence[str]) -> Configuration:
    found = options.configuration(flags=flags, front_matter=file.settings, places=file.sources)
    if "by_reference" in found.sources:
        return found
    # Here the one who calls tools is also the one who has the handles: passing them on is on unless somebody said no.
    return replace(found, settings=replace(found.settings, by_reference=True))


def _prompt(ask: RunOptions) -> str:
    """As it was given, or from standard input. What goes on needs none."""
    piped = ask.prompt == _STDIN or (ask.prompt is None and ask.resume is None and not sys.stdin.isatty())
    prompt = _read_stdin() if piped else ask.prompt or ""
    if not prompt.strip() and (ask.resume is None or ask.prompt is not None):
        raise UsageError(
            'the prompt is missing: write it after the file, as in `holdall run agent.md "…"`, or pipe it in.'
        )
    return prompt.rstrip("\n")


def _read_stdin() -> str:
    """All of it. Nothing else runs yet, so Ctrl-C may end us here and now; the loop would hold it back."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.stdin.isatty():
        screen.about("What should the agent do? Ctrl-D ends it.")
    try:
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    finally:
        signal.signal(signal.SIGINT, before)


def _session(ask: RunOptions, file: AgentFile, found: Configuration) -> str:
    if ask.resume is not None:
        return session_named(found, ask.resume).name
    import secrets

    named = found.sources["session"] != "default"
    return found.session if named else f"{file.name}-{secrets.token_hex(3)}"


def _check_conversation(bag: Holdall, ask: RunOptions, prompt: str) -> None:
    """A session holds one conversation: it is begun once, and then continues."""
    from holdall.agent.transcript import messages_in
    from holdall.values.chat import Assistant

    before, name = messages_in(bag.records.transcript_lines()), one_line(bag.session.name, 100)
    for bad in bag.care.bad_lines():
        screen.about(bad)
    if ask.resume is None and before:
        raise UsageError(
            f'an agent has run in session "{name}": go on with --resume {shlex.quote(name)}, or choose another name.'
        )
    if ask.resume is not None and not before:
        raise UsageError(f'no agent has run in session "{name}", so there is nothing to resume.')
    last = next((one for one in reversed(before) if isinstance(one, Assistant)), None)
    was_killed = before[-1:] == [last]  # in its calls: none has a result
    if last and not was_killed and not prompt and any(call.name == "final_report" for call in last.calls):
        raise UsageError(f'the agent of session "{name}" has reported. Say what it should do now, after the file.')


class _Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        screen.about(one_line(record.getMessage(), 500))


@contextlib.contextmanager
def _logged() -> Generator[None]:
    """What Holdall warns of is shown as it comes, safe to look at."""
    logger, handler = logging.getLogger("holdall"), _Handler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
