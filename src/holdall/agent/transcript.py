"""The messages of an agent on disk: one JSON object a line, appended as they come, so that a killed run can continue.

Where messages were replaced (notices, a compaction), the log starts over after a line that says so; the replaced
messages are in kept outputs that the new ones name. Before each reply is a line with what its request had beside the
messages: it is for people, and no later request is made of it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from holdall.values.chat import Assistant, Message, System, ToolCall, ToolResult, User
from holdall.values.record import record

_AGAIN = {"again": True}
_ENCODE = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode


class Transcript(list[Message]):
    """A list of messages that knows which of them are saved."""

    def __init__(self, messages: Sequence[Message] = (), *, append: Callable[[bytes], None]) -> None:
        super().__init__(messages)
        self._append = append
        self._tools: Sequence[str] | None = None  # the names in the last request
        self.saved = len(messages)  # how many of them

    def save(self) -> None:
        """Write what is new. It survives the process."""
        if new := self[self.saved :]:
            self._append(b"".join(map(_line, new)))
            self.saved = len(self)

    def save_with_request(self, notice: str, tools: Sequence[str]) -> None:
        """`save`, and what the request has beside the messages: the notice at its end, the tools if they changed."""
        flat: dict[str, Any] = {"role": "request", "notice": notice}
        if tools != self._tools:
            flat["tools"] = self._tools = list(tools)
        self._append(b"".join([*map(_line, self[self.saved :]), _dumped(flat)]))
        self.saved = len(self)

    def replaced(self) -> None:
        """Saved messages have changed: write all of them again."""
        self._append(_dumped(_AGAIN) + b"".join(map(_line, self)))
        self.saved = len(self)


def messages_in(lines: Iterable[bytes]) -> list[Message]:
    """The saved messages. Lines that are not ours are skipped."""
    found: list[Message] = []
    for message in each_message(lines):
        if message is None:
            found.clear()
        else:
            found.append(message)
    return found


def each_message(lines: Iterable[bytes]) -> Iterator[Message | None]:
    """One at a time; None where all that came before was replaced by what follows."""
    for line in lines:
        entry = entry_in(line)
        if isinstance(entry, Replaced):
            yield None
        elif entry is not None and not isinstance(entry, Beside):
            yield entry


@record
class Beside:
    """What a request had beside its messages. `tools` is None where they are those of the request before it."""

    notice: str
    tools: tuple[str, ...] | None = None


@record
class Replaced:
    """All that came before was replaced by what follows."""


def entry_in(line: bytes) -> Message | Beside | Replaced | None:
    """What one line of a transcript says; None if it is not ours."""
    try:
        flat: object = json.loads(line) if line else None
    except (ValueError, RecursionError):
        return None
    if flat == _AGAIN:
        return Replaced()
    return _entry(cast("Mapping[str, Any]", flat)) if isinstance(flat, Mapping) else None


def _line(message: Message) -> bytes:
    match message:
        case System(text):
            return _dumped({"role": "system", "text": text})
        case User(text):
            return _dumped({"role": "user", "text": text})
        case Assistant(text, calls):
            made = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
            return _dumped({"role": "assistant", "text": text, "calls": made})
        case ToolResult(call_id, name, is_error=is_error):
            text = message.text_to_save
            return _dumped({"role": "tool", "call_id": call_id, "name": name, "text": text, "is_error": is_error})


def _dumped(flat: Mapping[str, Any]) -> bytes:
    return _ENCODE(flat).encode("ascii") + b"\n"


def _entry(flat: Mapping[str, Any]) -> Message | Beside | None:
    try:
        match flat["role"]:
            case "system":
                return System(str(flat["text"]))
            case "user":
                return User(str(flat["text"]))
            case "assistant":
                calls = [ToolCall(str(one["id"]), str(one["name"]), one["arguments"]) for one in flat["calls"]]
                return Assistant(str(flat["text"]), tuple(calls))
            case "tool":
                return ToolResult(str(flat["call_id"]), str(flat["name"]), str(flat["text"]), bool(flat["is_error"]))
            case "request":
                tools = flat.get("tools")
                names = tuple(map(str, cast("list[object]", tools))) if isinstance(tools, list) else None
                return Beside(str(flat["notice"]), names)
            case _:
                return None
    except (KeyError, TypeError):
        return None
