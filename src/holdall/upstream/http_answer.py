"""The answer of an HTTP server to one call, on its way to the SDK: what is large in it goes to the call by its bytes.

The SDK would hold a result of 30 MB six times over. Here its message is taken out of the body or the stream, and a
result of nothing stands in its place, which the call replaces by the real one. All else passes as it came. A server
may close the stream before it has answered, to be asked for the rest later: the call hears of that.
"""

import json
from collections.abc import AsyncIterator
from typing import Any, cast

from holdall.upstream import large
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
        yield self._smaller(whole) if len(whole) >= large.LARGE else bytes(whole)

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
            yield bytes(begun) if len(begun) < large.LARGE else self._lines(begun)
            begun = bytearray(part[end or len(part) :])
        if begun:
            yield bytes(begun)
        # Whoever has the answer reads no further: it ends here only where there was none.
        callbacks = self._call.callbacks
        if numbered and callbacks is not None and callbacks.paused is not None:
            callbacks.paused()

    def _lines(self, lines: bytearray) -> bytes:
        """The same lines, where the first one is large without what is large in it. The others came in one piece."""
        end = lines.find(b"\n") + 1
        if end < large.LARGE or not lines.startswith(_DATA):
            return bytes(lines)
        rest = bytes(lines[end:])
        del lines[end:], lines[: len(_DATA)]  # in place: it may be large
        return _DATA + self._smaller(lines).removesuffix(b"\n") + b"\n" + rest

    def _smaller(self, body: bytearray) -> bytes:
        # A message in several lines comes in parts that are none.
        if not (body[:_AROUND].lstrip().startswith(b"{") and body[-_AROUND:].rstrip().endswith(b"}")):
            return bytes(body)
        try:
            value = large.taken_out(body)
        except (ValueError, RecursionError):
            error = {"code": types.INTERNAL_ERROR, "message": "a reply that is not valid JSON"}
            return _written({"jsonrpc": "2.0", "id": self._call.number, "error": error})
        if not isinstance(value, dict):
            return bytes(body) if value is None else _written(large.plain(value))
        message = cast("dict[str, Any]", value)
        result = message.get("result")
        if message.get("id") != self._call.number or not isinstance(result, dict):
            return _written(large.plain(message))
        self._call.large = cast("dict[str, Any]", result)
        return _written({**message, "result": {}})


def _written(message: object) -> bytes:
    return json.dumps(message).encode()
