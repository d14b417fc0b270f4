"""One line of a server's output as the messages that it holds, and one message as a line.

`json` rather than the SDK's parser: on a reply of 30 MB it takes as long and a fifth of the memory, and it reads the
half of an emoji that a server has cut through. Large texts in a reply are not even read by that. What is a reply but
cannot be read becomes an error of that reply, so that its caller hears of it now and not at its deadline.
"""

import json
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from holdall.upstream import large
from holdall.upstream.sdk import types
from holdall.values.outputs import AsCame

GARBLED: object = object()
"""The `data` of an error that this module made: no server can send it."""

_HEAD = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([0-9]{1,15})\s*,\s*"(?:result|error)"')
_RESULT = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([0-9]{1,15})\s*,\s*"result"\s*:\s*')
_MOST_AS_CAME = 256
_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else Decimal(digits))
_DIGITS = 4000  # which Python reads as a number
_Message = types.JSONRPCMessage


@dataclass(slots=True)
class Kept:
    """What the SDK does not carry of a reply: whether something in it is large, and the bytes that it came in."""

    large: set[str] = field(default_factory=set[str])
    as_came: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def take(self, number: int, result: dict[str, Any]) -> dict[str, Any]:
        raw = self.as_came.pop(str(number), b"")
        return AsCame(result, raw) if raw else result

    def put(self, number: object, raw: bytes) -> None:
        while len(self.as_came) >= _MOST_AS_CAME:  # replies that nobody waits for any more
            del self.as_came[next(iter(self.as_came))]
        self.as_came[str(number)] = raw


def decode(line: bytearray, kept: Kept | None = None) -> list[_Message]:
    """No message where it is noise. The line is emptied on the way: two copies of 30 MB are enough.

    The results that `kept` names as large, by their ids, may hold a LargeText where JSON has a text, and a LargeJson
    for their structured content.
    """
    head = bytes(line[:200])
    try:
        if kept is None:
            value = _read(line)
        elif len(line) < large.MUCH_STRUCTURE:
            value = _read_reply(line, kept)
        else:
            value = _read_large(line, kept)
    except RecursionError:
        return _unreadable(head, "a reply that is nested too deeply to be read")
    except ValueError:
        return _unreadable(head, "a reply that is not valid JSON")
    # A list is a batch, which one revision of the protocol knows.
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [message for item in items if (message := _message(item)) is not None]


def reply_in(line: bytes | bytearray) -> tuple[int, AsCame] | None:
    """The id of the only reply in a line and its result, with the bytes of that; None where it is anything else."""
    match = _RESULT.match(line)
    if match is None or b"\n" in line or b"\r" in line:  # where it goes it has to be one line
        return None
    try:
        text = line[match.end() :].decode()
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or text[end:].strip() != "}":
        return None
    return int(match[1]), AsCame(cast("dict[str, Any]", value), text[:end].encode())


def encode(message: _Message) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def _read(line: bytearray) -> object:
    text = line.decode("utf-8", "surrogateescape")
    line.clear()
    return _DECODER.decode(text)


def _read_reply(line: bytearray, kept: Kept) -> object:
    found = reply_in(line.strip(b"\r\n"))
    if found is not None:
        line.clear()
        kept.put(found[0], found[1].raw)
        return {"jsonrpc": "2.0", "id": found[0], "result": found[1]}
    whole = bytes(line)
    try:
        return _read(line)
    except RecursionError:  # structured content may be as deep as it likes: it need not be read
        value = large.taken_out(bytearray(whole), much=1)
        if value is None:
            raise
        return _with_large(value, kept)


def _read_large(line: bytearray, kept: Kept) -> object:
    value = large.taken_out(line)
    if value is not None:
        return _with_large(value, kept)
    return _read_reply(line, kept) if len(line) < large.LARGE else _read(line)


def _with_large(value: object, kept: Kept) -> object:
    if not isinstance(value, dict) or "result" not in value:
        return large.plain(value)
    kept.large.add(str(cast("dict[str, Any]", value).get("id")))
    return cast("object", value)


def _unreadable(head: bytes, why: str) -> list[_Message]:
    match = _HEAD.match(head)
    return [_garbled(int(match[1]), why)] if match else []


def _message(value: object) -> _Message | None:
    if not isinstance(value, dict):
        return None
    table = cast("dict[str, Any]", value)
    number, method, params = table.get("id"), table.get("method"), table.get("params")
    known = isinstance(number, int | str) and not isinstance(number, bool)
    if isinstance(method, str):
        given: dict[str, Any] = {"params": params} if isinstance(params, dict) else {}
        if known:
            return types.JSONRPCRequest(jsonrpc="2.0", id=cast("int | str", number), method=method, **given)
        return types.JSONRPCNotification(jsonrpc="2.0", method=method, **given)
    return _reply(cast("int | str", number), table) if known else None


def _reply(number: int | str, table: dict[str, Any]) -> _Message:
    if "error" in table:
        error = table["error"]
        try:
            return types.JSONRPCError(jsonrpc="2.0", id=number, error=types.ErrorData.model_validate(error))
        except ValueError:
            return _garbled(number, "an error that has no code and message")
    result = table.get("result")
    if isinstance(result, dict):
        return types.JSONRPCResponse(jsonrpc="2.0", id=number, result=cast("dict[str, Any]", result))
    if "result" in table and result is None:  # as some write a result without content
        return types.JSONRPCResponse(jsonrpc="2.0", id=number, result={})
    return _garbled(number, "a reply without a result")


def _garbled(number: int | str, what: str) -> _Message:
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=what, data=GARBLED)
    return types.JSONRPCError(jsonrpc="2.0", id=number, error=error)
