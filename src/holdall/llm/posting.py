"""One JSON request to a server on this machine and its answer, over HTTP/1.1. No more of HTTP than that takes.

A cancellation closes the connection, and that is how the server learns that nobody waits any more.
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

_MOST = 64 * 1024 * 1024  # bytes of an answer


class NoAnswer(Exception):
    """The connection was refused, or ended before the answer was whole, or what came is not HTTP with JSON."""


async def post_json(host: str, port: int, path: str, content: object, *, key: str) -> tuple[int, Any]:
    """The status and what came with it."""
    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError as refused:
        raise NoAnswer(refused.strerror or str(refused)) from refused
    try:
        with suppress(ConnectionError):  # a server may refuse before it has read all, and its answer is there then
            writer.write(head.encode("ascii"))
            writer.write(body)
            await writer.drain()
        return await _answer(reader)
    except (OSError, EOFError, ValueError, IndexError) as broken:
        raise NoAnswer(f"the connection ended without an answer ({type(broken).__name__})") from broken
    finally:
        writer.transport.abort()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, Any]:
    status = int((await reader.readline()).split()[1])
    length = None
    while (line := await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        if name.strip().lower() == "content-length":
            length = min(int(value), _MOST)
    body = await reader.read(_MOST) if length is None else await reader.readexactly(length)
    return status, json.loads(body)
