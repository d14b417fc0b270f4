"""The gateway against the server itself: the same calls by the official client, in turn, straight and through it.

The server is a real process behind the protocol's own library on both ways. Calls that are lost or crossed are counted.
"""

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lab import MB, Lab, holdall_command
from bench.result import Gate, Measured, Row
from bench.rounds import Timed, compare, timed

if TYPE_CHECKING:
    from mcp import Client

_CALL = "about 1 ms of the gateway: 11 turns of the loop and 3 tasks for a call; pipes in the loop made no difference."
_SERVER = [sys.executable, str(Path(__file__).with_name("gateway_server.py"))]
_CALLS = 50  # of a turn: one alone is shorter than what the machine does beside it
_UPSTREAMS, _AT_ONCE = 5, 200
_REPEATED = 5
_START_SECONDS = 300
_TOKEN = "of-the-benchmark-only"


async def gateway(lab: Lab) -> Measured:
    full = lab.sizes.rounds > 1
    with lab.scratch() as home:
        async with _client(_SERVER) as direct, _client(_through(home, _SERVER)) as through:
            rows = await _small(lab, direct, through)
            rows += await _large(lab, direct, through, 30 * MB if full else 2 * MB)
            rows.append(await _structured(direct, through, 150_000 if full else 15_000))
        rows += await _started_up(home, 3 if full else 1)
    return Measured([*rows, *await _at_once(lab, _UPSTREAMS if full else 2)])


async def _small(lab: Lab, direct: "Client", through: "Client") -> list[Row]:
    """What one small call takes, and what is added to the direct one."""

    async def calls(client: "Client") -> None:
        for number in range(_CALLS):
            if await _text(client, "echo", {"text": str(number)}) != str(number):
                raise AssertionError("another call's answer")

    contestants = {"direct": timed(lambda: calls(direct)), "through": timed(lambda: calls(through))}
    found = await compare(contestants, rounds=lab.sizes.rounds, patience=lab.patience)
    direct_one, through_one = found.median("direct") / _CALLS, found.median("through") / _CALLS
    added = Row("gateway", "the same, added to the direct one", through_one - direct_one, "ms", others=found.others)
    return [
        Row("gateway", "a small call", through_one, "ms", direct_one, Gate(1.4, left=_CALL), others=found.others),
        added,
    ]


async def _started_up(home: Path, rounds: int) -> list[Row]:
    """What the gateway takes until it has listed its tools, and what it holds while nobody asks."""
    taken: list[float] = []
    held: list[int] = []
    floors: list[float] = []
    for _ in range(rounds):
        async with _client(_through(home, _SERVER)) as client:
            await client.list_tools()
            pid = _parent(int(await _text(client, "pid", {})))
            taken.append(_processor_time(pid))
            held.append(_memory(pid, "VmRSS"))
        floors.append(await asyncio.to_thread(_import_of_the_library))
    return [
        Row("gateway", "from its start to its tools, against `import mcp`", min(taken), "ms", min(floors), Gate(0.5)),
        Row("gateway", "memory while nobody asks", min(held), "bytes", gate=Gate(45 * MB, "figure")),
    ]


def _import_of_the_library() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import mcp"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def over_http(lab: Lab) -> Measured:
    """What the gateway adds to a small call between a client and a server over HTTP, against what it adds on stdio.

    It is the processor time of all processes: a call waits for nothing else, and others add little to it.
    """

    with lab.scratch() as home:
        async with (
            _client(_SERVER) as direct, _client(_through(home, _SERVER)) as through,
            _started([*_SERVER, "--http"], "") as (server_pid, port),
            _gateway_at(home, f"http://127.0.0.1:{port}/mcp") as (gateway_pid, url),
            _client_at(f"http://127.0.0.1:{port}/mcp") as direct_http, _client_at(url) as through_http,
        ):  # fmt: skip
            direct_pid, through_pid = int(await _text(direct, "pid", {})), int(await _text(through, "pid", {}))
            contestants = {
                "direct": _worked(direct, direct_pid),
                "through": _worked(through, through_pid, _parent(through_pid)),
                "direct http": _worked(direct_http, server_pid),
                "through http": _worked(through_http, server_pid, gateway_pid),
            }
            found = await compare(contestants, rounds=2 * lab.sizes.rounds, patience=lab.patience)
    one = {name: found.median(name) / _CALLS for name in contestants}
    added, floor = one["through http"] - one["direct http"], one["through"] - one["direct"]
    rows = [
        Row("http", "a small call over HTTP", one["through http"], "ms", one["direct http"], others=found.others),
        Row("http", "added to it, against stdio", added, "ms", floor, Gate(1.5), others=found.others),
    ]
    return Measured(rows)


def _worked(client: "Client", *pids: int) -> Timed:
    """The processor time of some calls, in this process and those."""

    async def run() -> float:
        before = time.process_time() + sum(map(_processor_time, pids))
        for number in range(_CALLS):
            if await _text(client, "echo", {"text": str(number)}) != str(number):
                raise AssertionError("another call's answer")
        return time.process_time() + sum(map(_processor_time, pids)) - before

    return run


async def _large(lab: Lab, direct: "Client", through: "Client", size: int) -> list[Row]:
    """A large result: how long until it is answered for, and how far the gateway's memory grows."""
    pid = _parent(int(await _text(through, "pid", {})))  # the server's, which the gateway has started

    async def straight() -> None:
        if len(await _text(direct, "large", {"bytes": size})) != size:
            raise AssertionError("it came in part")

    async def kept() -> None:
        notice = await _text(through, "large", {"bytes": size})
        if len(notice) > 10_000 or "handle" not in notice:
            raise AssertionError("it was not kept")

    await _text(through, "large", {"bytes": 200_000})  # what any large result needs is there now
    grown = await _grown(pid, kept)
    contestants = {"direct": timed(straight), "through": timed(kept)}
    found = await compare(contestants, rounds=lab.sizes.rounds, patience=lab.patience)
    name, floor = f"a result of {size / MB:.0f} MB", found.median("direct")
    return [
        Row("gateway", f"{name}, kept", found.median("through"), "s", floor, Gate(1.5), others=found.others),
        Row("gateway", f"{name}, memory, highest of {_REPEATED}", grown, "bytes", size, Gate(3.0)),
    ]


async def _structured(direct: "Client", through: "Client", count: int) -> Row:
    """The memory again, for data: structured content, and the same as a text beside it."""
    whole = await direct.call_tool("rows", {"count": count})
    size = len(getattr(whole.content[0], "text", "")) + len(json.dumps(whole.structured_content, separators=(",", ":")))

    async def kept() -> None:
        notice = await through.call_tool("rows", {"count": count})
        if "handle" not in (notice.structured_content or {}):
            raise AssertionError("it was not kept")

    grown = await _grown(_parent(int(await _text(through, "pid", {}))), kept)
    case = f"{size / MB:.0f} MB of structured content and its text, memory, highest of {_REPEATED}"
    return Row("gateway", case, grown, "bytes", size, Gate(3.0))


async def _grown(pid: int, work: Callable[[], Awaitable[None]]) -> int:
    """How far the memory of a process rises above what it is now, whatever is done several times."""
    before = _memory(pid, "VmRSS")
    highest = 0
    for _ in range(_REPEATED):
        _forget_highest(pid)
        await work()
        highest = max(highest, _memory(pid, "VmHWM") - before)
    return highest


async def _at_once(lab: Lab, servers_at_once: int) -> list[Row]:
    """Many calls over several servers: each gets an answer, and its own."""
    names = [f"s{number}" for number in range(servers_at_once)]
    with lab.scratch() as home:
        servers = {name: {"command": _SERVER[0], "args": [*_SERVER[1:], name]} for name in names}
        config = home / "mcp.json"
        config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        async with _client(_through(home, config=config)) as through:
            await _until_all_serve(through, names)
            asked = [(names[number % servers_at_once], f"call {number}") for number in range(_AT_ONCE)]
            calls = (_text(through, f"{name}__who", {"text": text}) for name, text in asked)
            found = await asyncio.gather(*calls, return_exceptions=True)
    lost = sum(isinstance(answer, BaseException) for answer in found)
    right = [f"{name} {text}" for name, text in asked]
    crossed = sum(isinstance(ours, str) and ours != wanted for ours, wanted in zip(found, right, strict=True))
    case = f"{_AT_ONCE} calls at once over {servers_at_once} servers, answered each by its own"
    answered = _AT_ONCE - lost - crossed
    gate = Gate(1.0, side="least")
    more = {"lost": float(lost), "crossed": float(crossed)}
    return [Row("gateway", case, answered, "calls", _AT_ONCE, gate, more=more)]


async def _until_all_serve(through: "Client", names: Sequence[str]) -> None:
    """The gateway serves before its slowest server does: on a busy machine one may take seconds to start."""
    wanted = {f"{name}__who" for name in names}
    async with asyncio.timeout(_START_SECONDS):
        while not wanted <= {tool.name for tool in (await through.list_tools()).tools}:  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.1)


# Processes


@contextlib.asynccontextmanager
async def _client(words: Sequence[str]) -> "AsyncGenerator[Client]":
    # Here, and not above: it brings OpenTelemetry, and where that is at hand every event is told to it.
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    # As it is for anyone who has no settings of their own.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDALL_")}
    params = StdioServerParameters(command=words[0], args=list(words[1:]), env=environment)
    # Not `sys.stderr`, which may be no file of the system: a test puts another in its place.
    errors = sys.__stderr__ or sys.stderr
    async with Client(stdio_client(params, errlog=errors), mode="legacy", cache=None) as client:
        yield client


@contextlib.asynccontextmanager
async def _client_at(url: str) -> "AsyncGenerator[Client]":
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {_TOKEN}"}, timeout=_START_SECONDS) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy", cache=None) as client,
    ):
        yield client


@contextlib.asynccontextmanager
async def _gateway_at(home: Path, server: str) -> AsyncGenerator[tuple[int, str]]:
    config = home / "web.json"
    config.write_text(json.dumps({"mcpServers": {"bench": {"type": "http", "url": server}}}), encoding="utf-8")
    words = [*_through(home, config=config), "--http", "127.0.0.1:0"]
    async with _started(words, "listening on ") as found:
        yield found


@contextlib.asynccontextmanager
async def _started(words: Sequence[str], before: str) -> AsyncGenerator[tuple[int, str]]:
    """A program that says where it listens, in its first line behind `before`: its process, and that."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDALL_")}
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**environment, "HOLDALL_GATEWAY_TOKEN": _TOKEN},
    )  # fmt: skip
    try:
        async with asyncio.timeout(_START_SECONDS):
            line = await process.stdout.readline() if process.stdout is not None else b""
        yield process.pid, (line.decode().rpartition(before)[2] if before else line.decode()).strip()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


def _through(home: Path, server: Sequence[str] = (), *, config: Path | None = None) -> list[str]:
    stood_before = ["--", *server] if config is None else ["--config", str(config), "--trust"]
    return [*holdall_command(), "gateway", "--home", str(home / "home"), *stood_before]


async def _text(client: "Client", tool: str, arguments: Mapping[str, object]) -> str:
    result = await client.call_tool(tool, dict(arguments))
    if result.is_error:
        raise AssertionError(f"{tool} failed: {result.content}")
    return str(getattr(result.content[0], "text", ""))


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def _processor_time(pid: int) -> float:
    """Of all its threads, in seconds."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text(encoding="ascii").split()[0]) for file in files) / 1e9


def _forget_highest(pid: int) -> None:
    """From here on its high-water mark tells of what comes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _memory(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
