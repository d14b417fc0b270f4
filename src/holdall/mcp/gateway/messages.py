"""JSON-RPC messages as plain dictionaries, and what a message of one era of the protocol needs in the other. Pure."""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

from holdall.mcp.client import protocol
from holdall.values.outputs import RawResult
from holdall.values.patterns import lazy_pattern

# JSON-RPC messages as plain dictionaries: from a line, to a line, and the error that is an answer.
#
# Unknown fields stay. What is written is always valid UTF-8: half of a surrogate pair, which no client can read, is
# replaced. Nothing here knows a method.


PARSE_ERROR, INVALID_REQUEST = protocol.PARSE_ERROR, protocol.INVALID_REQUEST
METHOD_NOT_FOUND = protocol.METHOD_NOT_FOUND
INVALID_PARAMS, INTERNAL_ERROR, RESOURCE_NOT_FOUND = protocol.INVALID_PARAMS, protocol.INTERNAL_ERROR, -32002
_LONE = lazy_pattern("[\ud800-\udfff]")
_LONG_INTEGER, _MOST_DIGITS = b"0" * 100, 100_000  # of all that are so long
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")

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
    """One message, or a batch. Raises Refusal if it is neither. The line is emptied: one copy is enough."""
    try:
        integers = _bounded_integers() if _LONG_INTEGER in line.translate(_AS_ZEROS) else None
        text = line.decode("utf-8")
        line.clear()
        value = json.loads(text, parse_int=integers)
    except (ValueError, RecursionError) as problem:
        raise Refusal(PARSE_ERROR, f"Parse error: {str(problem)[:200]}") from problem
    if isinstance(value, dict):
        return cast("Message", value)
    if isinstance(value, list) and value:
        return cast("list[Any]", value)
    raise Refusal(INVALID_REQUEST, "Invalid request: a message is an object")


def _bounded_integers() -> Callable[[str], int]:
    """Reads integers. Those of many digits take far longer to read and to write than their bytes: as long as all others
    wait. There may be some of them in a message.
    """
    left = _MOST_DIGITS

    def read(digits: str) -> int:
        nonlocal left
        if len(digits) >= len(_LONG_INTEGER):
            left -= len(digits)
            if left < 0:
                raise ValueError(f"its long integers have more than {_MOST_DIGITS:,} digits")
        return int(digits)

    return read


def encode(message: Message | list[Message]) -> bytes:
    result = message.get("result") if isinstance(message, dict) else None
    if isinstance(result, RawResult) and result.raw and not _has_half(result):  # as it came, to the byte
        head = dumped({name: value for name, value in cast("Message", message).items() if name != "result"})
        return head[:-1].encode() + b',"result":' + result.raw + b"}\n"
    return _as_bytes(dumped(message)) + b"\n"


def written(result: Mapping[str, Any]) -> RawResult:
    """The same with its bytes: what is large is written once, where nobody waits for it."""
    return RawResult(result, _as_bytes(dumped(result)))


def _as_bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE.sub("\ufffd", text).encode()


def _has_half(result: RawResult) -> bool:
    """Whether an escape in it is half of a surrogate pair, which no client could read."""
    if b"\\ud" not in result.raw and b"\\uD" not in result.raw:
        return False
    try:
        dumped(dict(result)).encode()
    except UnicodeEncodeError:
        return True
    return False


def dumped(value: object) -> str:
    """As JSON that every client can read. Some servers write NaN, which is none: it becomes a text."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _finite(value: Any) -> Any:
    """Not by calling itself: what a server nests may be deeper than our stack."""
    whole: list[Any] = [value]
    waiting: list[tuple[Any, Any]] = [(whole, 0)]
    while waiting:
        inside, at = waiting.pop()
        one = inside[at]
        if isinstance(one, dict | list):
            copy: Any = cast("Any", one).copy()
            inside[at] = copy
            names: list[Any] = list(copy) if isinstance(one, dict) else list(range(len(copy)))
            waiting += [(copy, name) for name in names]
        elif isinstance(one, float) and not math.isfinite(one):
            inside[at] = json.dumps(one)
    return whole[0]


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


def is_request(message: Message) -> bool:
    """Whether its sender waits for an answer; also to one that names no method, which is told so."""
    answers = message.keys() & {"result", "error"}
    return is_id(message.get("id")) and "method" in message and (isinstance(message["method"], str) or not answers)


def table(value: object) -> dict[str, Any]:
    """A dictionary from outside, or an empty one where it is none."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """A list from outside, or an empty one where it is none."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def meta_of(params: dict[str, Any]) -> dict[str, Any]:
    return table(params.get("_meta"))


# The two eras of the protocol: what a message of one needs in the other. Pure.
#
# Up to 2025-11-25 a connection begins with a handshake, and a server may ask its client. From 2026-07-28 on each
# request says for itself who asks, results say of what kind they are, and a question to the client is a result of its
# own.


HANDSHAKES, MODERN, LATEST_HANDSHAKE = protocol.HANDSHAKES, protocol.MODERN, protocol.HANDSHAKES[-1]
UNSUPPORTED_VERSION, LOG_LEVEL = protocol.UNSUPPORTED_VERSION, protocol.LOG_LEVEL_KEY
_VERSION, _INFO = protocol.VERSION_KEY, protocol.CLIENT_KEY
_CAPABILITIES, _SERVER = protocol.CAPABILITIES_KEY, protocol.SERVER_KEY
_ENVELOPE = frozenset((_VERSION, _INFO, _CAPABILITIES))
_CACHEABLE = frozenset(
    ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read")
)
_LINKS_SINCE = "2025-06-18"
REMOVED = frozenset(("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
"""What the newer era does not know any more, beside the handshake."""


def asks_modern(method: str, params: Mapping[str, Any]) -> str:
    """The revision that a request of the newer era names; empty for one of the older. Raises Refusal."""
    meta = meta_of(dict(params))
    if method == "initialize" or _VERSION not in meta:
        return ""
    wanted = meta[_VERSION]
    if not isinstance(wanted, str):
        raise Refusal(INVALID_PARAMS, "the protocol version must be a text")
    if wanted not in MODERN:
        raise Refusal(
            UNSUPPORTED_VERSION, f"Unsupported protocol version: {wanted[:40]}",
            {"supported": list(MODERN), "requested": wanted},
        )  # fmt: skip
    return wanted


def envelope_of(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Who asks, and what it can do, as a request of the newer era says it."""
    meta = meta_of(dict(params))
    info, capabilities = meta.get(_INFO), meta.get(_CAPABILITIES)
    return (dict(info) if isinstance(info, Mapping) else {}), (  # type: ignore[arg-type] - JSON has texts for keys
        dict(capabilities) if isinstance(capabilities, Mapping) else {}  # type: ignore[arg-type]
    )


def towards_server(params: Mapping[str, Any], *, modern: bool) -> dict[str, Any]:
    """What a client sent, as its server can take it. The token of progress is replaced on the way by another."""
    given = dict(params)
    meta = meta_of(given)
    left_out = {"progressToken"} if modern else {"progressToken", *_ENVELOPE}
    if meta.keys() & left_out:
        meta = {name: value for name, value in meta.items() if name not in left_out}
        given["_meta"] = meta
        if not meta:
            del given["_meta"]
    return given


def towards_client(
    method: str, result: dict[str, Any], *, modern: bool, server_modern: bool, server: Mapping[str, Any]
) -> dict[str, Any]:
    """What a server answered, as its client can take it; the same object where both are of one era."""
    if modern == server_modern:
        return result
    if not modern:
        # A client of the older era would not have got these from the server itself.
        shown = {name: value for name, value in result.items() if name not in ("ttlMs", "cacheScope")}
        if shown.get("resultType") == "complete":
            del shown["resultType"]
        return shown
    return completed(method, result, server)


def completed(method: str, result: dict[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    """A result with what the newer era wants in every one."""
    defaults: dict[str, Any] = {"resultType": "complete"}
    if method in _CACHEABLE:
        defaults |= {"ttlMs": 0, "cacheScope": "private"}
    meta = meta_of(result)
    if server and _SERVER not in meta:
        return {**defaults, **result, "_meta": {**meta, _SERVER: dict(server)}}
    return {**defaults, **result}


def without_usual(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result without what the newer era has in every one: that it is complete, and which server gave it.

    Nor what FastMCP says for its own client: that the structured content is {"result": …}, which can be seen there.
    """
    found = dict(result)
    if found.get("resultType") == "complete":
        del found["resultType"]
    meta = meta_of(found)
    others = {name: value for name, value in meta.items() if name != _SERVER}
    if meta and others in ({}, {"fastmcp": {"wrap_result": True}}):
        del found["_meta"]
    return found


def is_question(result: Mapping[str, Any]) -> bool:
    return result.get("resultType") == "input_required"


def supports_links(revision: str) -> bool:
    return revision in MODERN or (revision in HANDSHAKES and revision >= _LINKS_SINCE)
