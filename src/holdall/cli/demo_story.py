"""The demo as it happens, told turn by turn: which agent calls what, and what its model reads of the answer."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from holdall.agent.session import AgentSession
from holdall.cli import show
from holdall.text.escape import one_line
from holdall.values.chat import Message, Returned, Said, ToolCall
from holdall.values.events import Event

_WIDTH = 116
_MOST_LINES = 14


class Story:
    """Told every event of a session; what was said and returned since the last turn is in its transcript."""

    def __init__(self, session: AgentSession, say: Callable[[str], None], indent: str = "") -> None:
        self.session = session
        self.children: list[Story] = []
        self._say = say
        self._indent = indent
        self._told = 0
        self._turn = 0
        session.bag.journal.watchers[self.heard] = lambda: True

    def heard(self, event: Event) -> None:
        match event.kind:
            case "turn":
                self._tell_new()
                self._turn = int(event.data["number"])
            case "spawned":
                known = {story.session.bag.session.name for story in self.children}
                for name, child in self.session.children.items():
                    if name not in known:
                        self.children.append(Story(child, self._say, self._indent + "    "))
            case "reported":
                self._tell_new()
            case _:
                pass

    def everybody(self) -> "list[Story]":
        """This one and all that were started from it."""
        return [self, *(story for child in self.children for story in child.everybody())]

    def _tell_new(self) -> None:
        """The turn that is over, all at once: agents run side by side, and their lines must not be mixed."""
        messages = self.session.transcript[self._told :]
        self._told += len(messages)
        if not self._turn:
            return
        answers = {message.call_id: message for message in messages if isinstance(message, Returned)}
        title = show.paint(f"{self.session.agent.name}, turn {self._turn}", "bold")
        lines = [title, *(f"  {line}" for message in messages for line in _lines(message, answers))]
        self._say("\n" + "\n".join(f"{self._indent}{line}" for line in lines))


def _lines(message: Message, answers: dict[str, Returned]) -> list[str]:
    if not isinstance(message, Said):
        return []
    told = [f"says: {_cut(message.text)}"] if message.text.strip() else []
    for call in message.calls:
        told += _call(call, answers.get(call.id))
    return told


def _call(call: ToolCall, answer: Returned | None) -> list[str]:
    arguments: object = call.arguments
    named = cast("Mapping[str, Any]", arguments if isinstance(arguments, Mapping) else {})
    if call.name == "task_status":
        return [f"says: {_cut(str(named.get('status', '')))}"]
    if call.name == "final_report":
        return ["→ final_report(…)"]
    given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in named.items())
    lines = (answer.text if answer is not None else "").split("\n")
    shown = [f"    {show.paint(_cut(line), 'dim')}" for line in lines[:_MOST_LINES]]
    more = [show.paint(f"    … {len(lines) - _MOST_LINES} more lines", "dim")] if len(lines) > _MOST_LINES else []
    return [f"→ {_cut(f'{call.name}({given})')}", *shown, *more]


def _cut(line: str) -> str:
    return one_line(line, _WIDTH)
