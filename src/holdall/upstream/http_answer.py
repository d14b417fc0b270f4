"""The answer of an HTTP server to one call, on its way to the SDK: what is large in it goes to the call by its bytes.

The SDK would hold a result of 30 MB six times over. Here its message is taken out of the body or the stream, and a
result of nothing stands in its place, which the call replaces by the real one. All else passes as it came. A server
may close the stream before it has answered, to be asked for the rest later: the call hears of that.
"""

import json
from collections.abc import AsyncIterator
from typing import Any, cast

from holdall.upstream import codec, large
from holdall.upstream.routes import Call
from holdall.upstream.sdk import httpx2, types

_BODY, _STREAM = "application/json", "text/event-stream"
_DATA = b"data:"
_AROUND = 20  # spaces, at most


def watched(response: httpx2.Response, call: Call) -> httpx2.Response:
    """The same response, read through here."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in (_BODY, _STREAM):
        return response
    # What is read here is decoded, and may be of another length.
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_BYTES]
    return httpx2.Response(
        response.status_code, headers=headers, stream=_Answer(response, call, is_stream=kind == _STREAM),
        request=response.request, extensions=response.extensions, history=response.history,
    )  # fmt: skip


_OF_THE_BYTES = ("content-encoding", "content-length", "transfer-encoding")


class _Answer(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, call: Call, *, is_stream: bool) -> None:
        self._response = response
        self._call = call
        self._is_stream = is_stream

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._events() if self._is_stream else self._body()

    async def aclose(self) -> None:
        await self._response.aclose()

    async def _body(self) -> AsyncIterator[bytes]:
        whole = bytearray()
        async for part in self._response.aiter_bytes():
            whole += part
        yield self._smaller(whole)

    async def _events(self) -> AsyncIterator[bytes]:
        numbered = False  # else it cannot be gone on with
        begun = bytearray()  # of a line whose end is still to come
        async for part in self._response.aiter_bytes():
            numbered = numbered or b"id:" in part
            end = part.rfind(b"\n") + 1
            if not end and b"\r" not in part[:-1]:  # JSON has none: it would be the end of a line, too
                begun += part
                continue
            begun += part[: end or len(part)]
            yield self._lines(begun)
            begun = bytearray(part[end or len(part) :])
        if begun:
            yield bytes(begun)
        # Whoever has the answer reads no further: it ends here only where there was none.
        callbacks = self._call.callbacks
        if numbered and callbacks is not None and callbacks.paused is not None:
            callbacks.paused()

    def _lines(self, lines: bytearray) -> bytes:
        """The same lines, where the first one is large without what is large in it. The others came in one piece."""
        if len(lines) < large.MUCH_STRUCTURE:
            return self._as_came(lines) if self._call.takes_large and b'"result"' in lines else bytes(lines)
        end = lines.find(b"\n") + 1
        if end < large.MUCH_STRUCTURE or not lines.startswith(_DATA):
            return bytes(lines)
        rest = bytes(lines[end:])
        del lines[end:], lines[: len(_DATA)]  # in place: it may be large
        return _DATA + self._smaller(lines).removesuffix(b"\n") + b"\n" + rest

    def _as_came(self, lines: bytearray) -> bytes:
        """The same lines without the result of this call, which it gets with its bytes."""
        told = bytes(lines).split(b"\n")
        return b"\n".join(
            [_DATA + self._reply(line[len(_DATA) :]) if line.startswith(_DATA) else line for line in told]
        )

    def _reply(self, body: bytes) -> bytes:
        found = codec.reply_in(body.strip()) if self._call.takes_large and len(body) < large.LARGE else None
        if found is None or found[0] != self._call.number:
            return body
        self._call.large = found[1]
        return _written({"jsonrpc": "2.0", "id": found[0], "result": {}})

    def _smaller(self, body: bytearray) -> bytes:
        # A message in several lines comes in parts that are none.
        if len(body) < large.MUCH_STRUCTURE or not _is_object(body):
            return self._reply(bytes(body))
        try:
            value = large.taken_out(body)
        except (ValueError, RecursionError):
            error = {"code": types.INTERNAL_ERROR, "message": "a reply that is not valid JSON"}
            return _written({"jsonrpc": "2.0", "id": self._call.number, "error": error})
        if value is None:
            return self._reply(bytes(body))
        message = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        result = message.get("result")
        if message.get("id") != self._call.number or not isinstance(result, dict):
            return _written(large.plain(value))
        self._call.large = cast("dict[str, Any]", result)
        return _written({**message, "result": {}})


def _is_object(body: bytearray) -> bool:
    return body[:_AROUND].lstrip().startswith(b"{") and body[-_AROUND:].rstrip().endswith(b"}")


def _written(message: object) -> bytes:
    return json.dumps(message).encode()
