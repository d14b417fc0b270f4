"""Processes to talk to in raw lines of JSON, and the official client in front of the gateway."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import mcp.client.session
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.upstream.launch import HOLDALL, forked, neutral_folder

HERE = Path(__file__).parent
PLAIN = str(HERE / "servers" / "plain_server.py")
GOOD, BAD = str(HERE.parent / "upstream" / "good_server.py"), str(HERE.parent / "upstream" / "bad_server.py")
WAITS = ["--set", "slow_after_seconds=600"]  # however busy the machine is
SOON = 150.0  # seconds: two starts of Python on a busy machine
mcp.client.session.DISCOVER_TIMEOUT_SECONDS = (
    SOON  # else a client on such a machine takes a slow start for an old server
)


def plain(*arguments: str) -> list[str]:
    return [sys.executable, PLAIN, *arguments]


def gateway(home: Path, *options: str, before: Sequence[str] = (), server: Sequence[str] = ()) -> list[str]:
    """The command line of a gateway; `before` are options of `holdall` itself. A call is slow only where a test says when."""
    command = ["--", *server] if server else ["--trust"]  # the file of a test
    own = [] if any("slow_after_seconds" in one for one in (*before, *options)) else WAITS
    return [HOLDALL, *before, *own, "gateway", "--home", str(home), *options, *command]


def configured(folder: Path, servers: Mapping[str, Sequence[str]], **more: Any) -> str:
    path = folder / "mcp.json"
    table = {name: {"command": words[0], "args": list(words[1:]), **more} for name, words in servers.items()}
    path.write_text(json.dumps({"mcpServers": table}))
    return str(path)


class Wire:
    """One process, spoken to by hand. What it sends by itself is in `heard`; requests of its own in `asked`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.heard: list[dict[str, Any]] = []
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.lines: list[bytes] = []
        self._waiting: dict[Any, asyncio.Future[dict[str, Any]]] = {}
        self._last = 0
        self._news = asyncio.Condition()
        self.reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message: Any = json.loads(line)
            self.lines.append(line)
            if isinstance(message, list) or "method" not in message:
                several = cast("list[dict[str, Any]]", message) if isinstance(message, list) else [message]
                for one in several:
                    if (future := self._waiting.pop(one.get("id"), None)) is not None:
                        future.set_result(one)
                        continue
                    self.heard.append(one)
            elif "id" in message:
                self.asked.put_nowait(message)
            else:
                self.heard.append(message)
            async with self._news:
                self._news.notify_all()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def say(self, message: dict[str, Any]) -> None:
        self.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")

    def begin(self, method: str, params: dict[str, Any] | None = None) -> "tuple[int, asyncio.Future[dict[str, Any]]]":
        self._last += 1
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._last] = future
        self.say({"id": self._last, "method": method} | ({} if params is None else {"params": params}))
        return self._last, future

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The whole answer, result or error."""
        async with asyncio.timeout(SOON):
            answer = await self.begin(method, params)[1]
        return {key: answer[key] for key in ("result", "error") if key in answer}

    async def result(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = await self.ask(method, params)
        assert "result" in answer, answer
        return answer["result"]

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.result("tools/call", {"name": tool, "arguments": arguments})

    async def greet(self, revision: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        info = {"name": "wire", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": capabilities, "clientInfo": info}
        found = await self.result("initialize", params)
        self.say({"method": "notifications/initialized"})
        return found

    async def hears(self, method: str) -> dict[str, Any]:
        """The first notification of this kind, once it is there."""
        async with asyncio.timeout(SOON), self._news:
            while True:
                for one in self.heard:
                    if one.get("method") == method:
                        return one
                await self._news.wait()

    async def ended(self) -> int:
        async with asyncio.timeout(SOON):
            return await self.process.wait()


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


def surroundings() -> dict[str, str]:
    """The environment of a process: no settings of ours, and modules compiled once and not with every start."""
    left_out = ("HOLDALL_", "PYTHONDONTWRITEBYTECODE")
    clean = {key: value for key, value in os.environ.items() if not key.startswith(left_out)}
    return {"PYTHONPYCACHEPREFIX": str(HERE.parents[1] / ".dev" / "pycache")} | clean


@asynccontextmanager
async def wire(words: Sequence[str], **environment: str) -> AsyncGenerator[Wire]:
    clean = surroundings() | environment
    process = await asyncio.create_subprocess_exec(
        *forked(words), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        limit=256 * 1024 * 1024, env=clean, cwd=neutral_folder(),
    )  # fmt: skip
    one = Wire(process)
    try:
        yield one
    finally:
        await end(process)
        one.reader.cancel()


async def end(process: asyncio.subprocess.Process) -> None:
    """Asked first, and killed where it does not listen."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(100):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@asynccontextmanager
async def official(words: Sequence[str], mode: str = "legacy", **options: Any) -> AsyncGenerator[Client]:
    """The official client in front of this command."""
    command, *arguments = forked(words)
    params = StdioServerParameters(command=command, args=arguments, cwd=neutral_folder())
    async with Client(stdio_client(params), mode=mode, cache=None, **options) as client:
        yield client
