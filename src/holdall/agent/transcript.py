"""The messages of an agent on disk: one JSON object a line, appended as they come, so that a killed run can continue.

Where messages were replaced (notices, a compaction), the log starts over after a line that says so; the replaced
messages are in kept outputs that the new ones name.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from holdall.values.chat import Assistant, Message, System, ToolCall, ToolResult, User

_AGAIN = {"again": True}
_ENCODE = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str).encode


class Transcript(list[Message]):
    """A list of messages that knows which of them are saved."""

    def __init__(self, messages: Sequence[Message] = (), *, append: Callable[[bytes], None]) -> None:
        super().__init__(messages)
        self._append = append
        self.saved = len(messages)  # how many of them

    def save(self) -> None:
        """Write what is new. It survives the process."""
        if new := self[self.saved :]:
            self._append(b"".join(map(_line, new)))
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
        try:
            flat: object = json.loads(line) if line else None
        except (ValueError, RecursionError):
            continue
        if flat == _AGAIN:
            yield None
        elif isinstance(flat, Mapping) and (message := _message(cast("Mapping[str, Any]", flat))) is not None:
            yield message


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


def _message(flat: Mapping[str, Any]) -> Message | None:
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
            case _:
                return None
    except (KeyError, TypeError):
        return None
