"""JSON-RPC messages as plain dictionaries: from a line, to a line, and the error that is an answer.

Unknown fields stay. What is written is always valid UTF-8: half of a surrogate pair, which no client can read, is
replaced. Nothing here knows a method.
"""

import json
import re
from typing import Any, cast

from holdall.values.outputs import AsCame

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32700, -32600, -32601, -32602, -32603
RESOURCE_NOT_FOUND = -32002
_LONE = re.compile("[\ud800-\udfff]")

Message = dict[str, Any]
RequestId = int | str


class Refusal(Exception):
    """The answer to a request is this error of the protocol."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)

    @property
    def error(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data})


def decode(line: bytearray) -> Message | list[Any]:
    """One message, or a batch. Raises Refusal where it is neither. The line is emptied: one copy is enough."""
    try:
        text = line.decode("utf-8")
        line.clear()
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise Refusal(PARSE_ERROR, f"Parse error: {str(problem)[:200]}") from problem
    if isinstance(value, dict):
        return cast("Message", value)
    if isinstance(value, list) and value:
        return cast("list[Any]", value)
    raise Refusal(INVALID_REQUEST, "Invalid request: a message is an object")


def encode(message: Message | list[Message]) -> bytes:
    result = message.get("result") if isinstance(message, dict) else None
    if isinstance(result, AsCame) and result.raw:  # as it came, to the byte
        head = _dumped({name: value for name, value in cast("Message", message).items() if name != "result"})
        return head[:-1].encode() + b',"result":' + result.raw + b"}\n"
    text = _dumped(message)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _LONE.sub("\ufffd", text).encode() + b"\n"


def _dumped(message: Message | list[Message]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)


def request(number: RequestId, method: str, params: dict[str, Any] | None) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method} | ({} if params is None else {"params": params})


def notification(method: str, params: dict[str, Any] | None) -> Message:
    return {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})


def result(number: RequestId, value: dict[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": number, "result": value}


def error(number: RequestId | None, refusal: Refusal) -> Message:
    return {"jsonrpc": "2.0", "id": number, "error": refusal.error}


def is_id(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def table(value: object) -> dict[str, Any]:
    """A dictionary from outside, or an empty one where it is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """A list from outside, or an empty one where it is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def meta_of(params: dict[str, Any]) -> dict[str, Any]:
    return table(params.get("_meta"))
