"""Servers to connect to, and ways to wait for what they do."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdall.mcp.client.connection import Connection, Reply
from holdall.mcp.client.keeper import ConnectionOptions
from holdall.mcp.client.server_process import Bounds, StopTimeouts
from holdall.mcp.client.spec import HttpServer, Revision, StdioServer
from tests.upstream.launch import sdk_server

HERE = Path(__file__).parent
GOOD, BAD = str(HERE / "good_server.py"), str(HERE / "bad_server.py")
SOON = 100.0  # seconds: a start of Python with the SDK on a busy machine


def good(name: str = "good", *arguments: str, revision: Revision = "auto", **fields: Any) -> StdioServer:
    command, *words = sdk_server(GOOD)
    return StdioServer(name, command, (*words, *arguments), revision=revision, **fields)


def bad(manner: str = "", *arguments: str, name: str = "bad", **fields: Any) -> StdioServer:
    fields.setdefault("revision", "handshake")
    return StdioServer(name, sys.executable, (BAD, manner or "-", *arguments), **fields)


def means(**given: Any) -> ConnectionOptions:
    """Short patience, so that a test of an end takes no longer than it must."""
    given.setdefault("patience", StopTimeouts(0.5, 0.3, 2.0))
    given.setdefault("bounds", Bounds(ping_seconds=0.3))
    return ConnectionOptions(**given)


def text_of(reply: Reply) -> str:
    return str(reply.result["content"][0]["text"])


def lives(pid: int) -> bool:
    """Whether that process runs; a dead one that nobody has buried yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


async def until(holds: Callable[[], bool], seconds: float = SOON) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - what other processes do sets no event here
            await asyncio.sleep(0.01)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def pid_of(connection: Connection) -> int:
    return int(text_of(await connection.call("pid")))


@contextmanager
def http_server(
    folder: Path, *arguments: str, program: str = GOOD, forked: bool = True
) -> Generator[tuple[HttpServer, int]]:
    """The good server, or another such program, on a free port, and its process id where it is not `forked`."""
    port_file = folder / f"port-{time.monotonic_ns()}"
    process = subprocess.Popen(
        [*(sdk_server(program) if forked else (sys.executable, program)), "--http", str(port_file), *arguments]
    )
    try:
        deadline = time.monotonic() + SOON
        while not port_file.exists():
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        yield HttpServer("web", f"http://127.0.0.1:{port_file.read_text()}/mcp"), process.pid
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
