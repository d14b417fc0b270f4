"""One line of a server's output as the messages that it holds, and one message as a line.

`json` rather than the SDK's parser: on a reply of 30 MB it takes as long and a fifth of the memory, and it reads the
half of an emoji that a server has cut through. Large texts in a reply are not even read by that. What is a reply but
cannot be read becomes an error of that reply, so that its caller hears of it now and not at its deadline.
"""

import json
import re
from typing import Any, cast

from holdall.upstream import large
from holdall.upstream.sdk import types

GARBLED: object = object()
"""The `data` of an error that this module made: no server can send it."""

_HEAD = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([0-9]{1,15})\s*,\s*"(?:result|error)"')
_Message = types.JSONRPCMessage


def decode(line: bytearray, large_in: set[str] | None = None) -> list[_Message]:
    """No message where it is noise. The line is emptied on the way: two copies of 30 MB are enough.

    The results in `large_in`, by their ids, may hold a LargeText where JSON has a text, and a LargeJson for their
    structured content.
    """
    head = bytes(line[:200])
    try:
        if large_in is None or len(line) < large.LARGE:
            value = _read(line)
        else:
            value = _read_large(line, large_in)
    except (ValueError, RecursionError):
        return _unreadable(head)
    # A list is a batch, which one revision of the protocol knows.
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    return [message for item in items if (message := _message(item)) is not None]


def encode(message: _Message) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def _read(line: bytearray) -> object:
    text = line.decode("utf-8", "surrogateescape")
    line.clear()
    return json.loads(text)


def _read_large(line: bytearray, large_in: set[str]) -> object:
    value = large.taken_out(line)
    if value is None:
        return _read(line)
    if not isinstance(value, dict) or "result" not in value:
        return large.plain(value)
    large_in.add(str(cast("dict[str, Any]", value).get("id")))
    return cast("object", value)


def _unreadable(head: bytes) -> list[_Message]:
    match = _HEAD.match(head)
    return [_garbled(int(match[1]), "a reply that is not valid JSON")] if match else []


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
