"""`run`: an agent from its file to its report.

The report goes to standard output and nothing else does; Ctrl-C once asks for a report, twice ends it.
"""

import asyncio
import contextlib
import logging
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import BinaryIO, NamedTuple

from holdall.agent.building import built
from holdall.agent.files import AgentFile, load_agent
from holdall.agent.loop import run_session
from holdall.agent.session import AgentSession
from holdall.agent.toolbox import Family, Report
from holdall.agent.transcript import messages_in
from holdall.bag import Holdall
from holdall.cli import run_show as looks
from holdall.cli import show as screen
from holdall.cli.options import FAULT, common, complain, configuration
from holdall.cli.run_progress import drawn
from holdall.cli.sessions import session_named
from holdall.config import Configuration
from holdall.text.escape import one_line
from holdall.values.chat import Said
from holdall.values.errors import StoreFault, WrongUse
from holdall.values.settings import Settings

NO_GOOD_REPORT = 1
_BY_SIGNAL = 128
_STDIN = "-"
_STOPPING = "stopping: the agent may report in one more turn. Ctrl-C again ends it at once."


class RunAsk(NamedTuple):
    file: str
    prompt: str | None
    model: str | None
    background: bool | None
    max_turns: int | None
    resume: str | None

    def flags(self) -> list[str]:
        """Its options that are settings."""
        given = {"model": self.model, "max_turns": self.max_turns}
        told = [f"{name}={value}" for name, value in given.items() if value is not None]
        return told if self.background is None else [*told, f"async_enabled={str(self.background).lower()}"]

    def again(self, home: str | None, session: str) -> str:
        """The command that goes on in this session."""
        words = ["holdall", "run", self.file, "--resume", session]
        for option, value in (("--home", home or common.home), ("--model", self.model)):
            words += [option, value] if value else []
        return shlex.join(words)


async def run(ask: RunAsk, home: str | None, session: str | None, as_json: bool) -> int:
    if ask.resume is not None and session is not None:
        raise WrongUse("--resume names the session that goes on: leave --session out.")
    file = load_agent(ask.file)
    found = _configuration(file, ask.flags(), home, session)
    prompt = _prompt(ask)
    name = _session(ask, file, found)
    with looks.reserved() as out, _logged():
        building = built(
            file, home=found.home, warn=screen.about,
            settings_of=lambda one: _configuration(one, ask.flags(), home, session).settings,
        )  # fmt: skip
        async with building as agent, agent.open_bag(name, "", agent.model) as bag:
            _check_conversation(bag, ask, prompt)
            running = AgentSession(agent, bag, drive=run_session, family=_family(found.settings))
            return await _Run(running, out, as_json).until_reported(prompt, ask, home)


class _Run:
    """One run, and the person in front of it."""

    def __init__(self, session: AgentSession, out: BinaryIO, as_json: bool) -> None:
        self._session = session
        self._bag = session.bag
        self._out = out
        self._as_json = as_json
        self._lines = looks.Lines(out)
        self._ended_by = 0  # the signal that ended it
        self._stopping: asyncio.Task[None] | None = None

    async def until_reported(self, prompt: str, ask: RunAsk, home: str | None) -> int:
        began, again = time.monotonic(), ask.again(home, self._bag.session.name)
        if self._as_json:
            self._bag.journal.watchers[self._lines.heard] = lambda: False
        else:
            screen.about(f"session {one_line(self._bag.session.name, 100)}")
        try:
            with contextlib.nullcontext() if self._as_json else drawn(self._session):
                report = await self._driven(prompt, resume=ask.resume is not None)
        except StoreFault as problem:
            complain(problem, as_json=self._as_json)
            self._say_how_to_go_on(again)
            return FAULT
        self._check_read()
        if report is None:
            self._say_how_to_go_on(again)
            return _BY_SIGNAL + self._ended_by
        if self._as_json:
            del self._bag.journal.watchers[self._lines.heard]  # nothing comes after the report
            self._lines.write(report.to_json() | {"session_name": self._bag.session.name})
            self._check_read()
        else:
            looks.report_text(report, self._out)
            looks.about(report, self._bag, time.monotonic() - began)
        return NO_GOOD_REPORT if report.synthetic or report.status == "failure" else 0

    def _check_read(self) -> None:
        if not self._lines.is_read:
            raise self._lines.refused or BrokenPipeError

    async def _driven(self, prompt: str, *, resume: bool) -> Report | None:
        """None where a person ended it."""
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

    def _say_how_to_go_on(self, again: str) -> None:
        if not self._as_json:
            screen.about(f"Nothing is lost. Go on with: {again}")
        else:
            looks.Lines(sys.stderr.buffer).write({"session_name": self._bag.session.name, "resume": again})


async def _abort(session: AgentSession) -> None:
    """What runs, of this agent and of those that it started, at once."""
    await asyncio.gather(session.bag.abort(), *(_abort(child) for child in list(session.children.values())))


def _configuration(file: AgentFile, flags: Sequence[str], home: str | None, session: str | None) -> Configuration:
    found = configuration(home, session, flags=flags, front_matter=file.settings, places=file.sources)
    if "by_reference" in found.sources:
        return found
    # Here the one who calls tools is also the one who has the handles: passing them on is on unless somebody said no.
    return replace(found, settings=replace(found.settings, by_reference=True))


def _family(settings: Settings) -> Family:
    return Family(settings.max_agents, settings.max_agent_depth)


def _prompt(ask: RunAsk) -> str:
    """As it was given, or from standard input. What goes on needs none."""
    piped = ask.prompt == _STDIN or (ask.prompt is None and ask.resume is None and not sys.stdin.isatty())
    prompt = _read_stdin() if piped else ask.prompt or ""
    if not prompt.strip() and (ask.resume is None or ask.prompt is not None):
        raise WrongUse(
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


def _session(ask: RunAsk, file: AgentFile, found: Configuration) -> str:
    if ask.resume is not None:
        return session_named(found, ask.resume).name
    named = found.sources["session"] != "default"
    return found.session if named else f"{file.name}-{secrets.token_hex(3)}"


def _check_conversation(bag: Holdall, ask: RunAsk, prompt: str) -> None:
    """A session holds one conversation: it is begun once, and then goes on."""
    before, name = messages_in(bag.transcript()), one_line(bag.session.name, 100)
    if ask.resume is None and before:
        raise WrongUse(f'an agent has run in session "{name}": go on with --resume {name}, or choose another name.')
    if ask.resume is not None and not before:
        raise WrongUse(f'no agent has run in session "{name}", so there is nothing to resume.')
    last = next((one for one in reversed(before) if isinstance(one, Said)), None)
    if last is not None and not prompt and any(call.name == "final_report" for call in last.calls):
        raise WrongUse(f'the agent of session "{name}" has reported. Say what it should do now, after the file.')


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
