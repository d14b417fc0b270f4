"""How far an agent is, drawn on standard error where a person looks: its turn, its cost, what runs, what it says."""

import contextlib
import sys
import time
from collections.abc import Generator
from typing import TYPE_CHECKING

from holdall.agent.session import AgentSession
from holdall.cli.extract_show import money
from holdall.cli.show import is_terminal
from holdall.text.escape import one_line
from holdall.text.numbers import grouped
from holdall.values.chat import Usage
from holdall.values.events import Event

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_TOOLS = 6
_PER_SECOND = 8


class Board:
    """`heard` is told every event of the session; what runs is asked of it when the board is drawn."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._began = time.monotonic()
        self._spent = Usage()

    def heard(self, event: Event) -> None:
        if event.kind in ("asked", "joined"):
            data = event.data
            self._spent += Usage(int(data["input_tokens"]), int(data["output_tokens"]), cost=data["cost"])

    def lines(self) -> list[str]:
        session, spent = self._session, self._spent
        for child in tuple(session.children.values()):  # those that have ended are told by an event
            spent += child.usage
        parts = [
            one_line(session.agent.name, 60),
            f"turn {session.turn} of {session.agent.max_turns}",
            f"{grouped(spent.tokens)} tokens",
            *([] if spent.cost is None else [money(spent.cost)]),
            f"{time.monotonic() - self._began:.0f} s",
        ]
        if session.final:
            parts.insert(2, f"the last one: {one_line(session.final, 60)}")
        told = [" · ".join(parts)]
        if session.status:
            told.append(f"  {one_line(session.status, 200)}")
        if running := running_in(session):
            names = [f"{one_line(name, 40)} {seconds:.1f} s" for name, seconds in running[:_MOST_TOOLS]]
            more = [f"{len(running) - _MOST_TOOLS} more"] if len(running) > _MOST_TOOLS else []
            told.append(f"  running: {' · '.join([*names, *more])}")
        return told

    def drawn(self) -> "RenderableType":
        from rich.text import Text

        return Text("\n".join(self.lines()), no_wrap=True, overflow="ellipsis")


def running_in(session: AgentSession, inside: str = "") -> list[tuple[str, float]]:
    """The tools that run now, with their seconds, oldest first; those of the agents that were started from here too."""
    jobs = session.bag.jobs
    found = [(inside + job.name, jobs.age(job)) for job in jobs.unfinished]
    for child in tuple(session.children.values()):
        found += running_in(child, f"{inside}{child.agent.name}: ")
    return found


@contextlib.contextmanager
def drawn(session: AgentSession) -> Generator[None]:
    """The board while the block runs; nothing where standard error is no terminal."""
    if not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.live import Live

    board = Board(session)
    session.bag.journal.watchers[board.heard] = lambda: True
    live = Live(
        console=Console(stderr=True), get_renderable=board.drawn, transient=True, refresh_per_second=_PER_SECOND,
    )  # fmt: skip
    with live:
        yield
