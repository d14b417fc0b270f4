"""Everything at once: a gateway before eight servers that crash, hang, flood and lie, a client that calls them at random,
agents that are killed and resumed, `gc`, `export` and the viewer beside them, on a disk that fills and frees.

After each epoch all of it is at rest, and must be as it was told: every call has ended once, every output that was
acknowledged opens with exactly its bytes, `verify` is clean, gateway and viewer have not grown.

python -m tests.faults.chaos SEED FOLDER DISK [QUOTA]   the scene; ends with its standard input. A line of JSON for what fired
"""

import asyncio
import contextlib
import hashlib
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bench.plot import over_time
from holdall.agent.transcript import messages_in
from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.values.chat import Assistant, ToolResult
from holdall.values.errors import HoldallError
from tests.faults import chaos_agent
from tests.faults.checker import contents, opened
from tests.faults.harness import ROOT
from tests.faults.kills import Fired
from tests.faults.namespaces import MOUNT, way_in
from tests.gateway.support import HOLDALL, Wire, configured, end, surroundings
from tests.upstream.support import BAD

SERVERS = 8
CALLERS = 12
SESSION = "chaos"
SAMPLES = "samples.json"
DISK = "size=256m"
QUOTA = 64_000_000  # in place of a disk that fills, where none can be mounted
PATIENCE = 300.0  # seconds: what has not ended by then never does
EXPIRES = 300.0  # seconds: what `gc --older-than 5m` may take
_CALLS = (4, 40)  # of a caller: in the first epoch, in each later one
_MARGIN = 60.0  # an output ends before its end is heard of, on a busy machine long before

CONTENT = {"echo": 12, "later": 5}
"""Tools that return what they are asked for, and the weights of all."""
LIES = {
    "garbage": 1, "twice": 1, "other ids": 2, "batch": 1, "bad json": 2, "no result": 1, "null": 1, "bad error": 1,
    "result is a list": 1, "huge error": 1, "not utf-8": 1, "half a character": 1, "unknown fields": 1, "many": 1,
    "deep": 1, "notes": 1, "stderr": 1, "no such tool": 1, "one line": 1,
}  # fmt: skip
FAILURES = {
    "die": 1, "crash": 1, "break off": 1, "close stdout": 1, "hang": 0.5, "silence": 1, "drip": 0.5, "flood": 0.5,
    "endless": 0.5,
}  # fmt: skip
OURS = {"context_read": 2, "context_grep": 2, "context_tail": 1, "wait_for_tool_output": 1}
_WEIGHTS = {**CONTENT, **LIES, **FAILURES, **OURS, "cancelled": 1}
_ARGUMENTS = {
    "notes": {"count": 50},
    "stderr": {"words": 5_000},
    "drip": {"pause": 0.2},
    "one line": {"bytes": 300_000},
}
_SAYS_WHY = re.compile(
    r'MCP server "s\d"|No space left|quota|disk|expired|removed|not kept|there is no|^no tool ', re.IGNORECASE
)
_HANDLE = re.compile(r"handle: (\w+)")


def rounds(folder: Path, dice: random.Random) -> Iterator[Fired]:
    """Without an end: what fired in one epoch after the other, each once all of it has been checked."""
    disk = folder / "disk"
    disk.mkdir()
    scene = [sys.executable, "-m", "tests.faults.chaos", str(dice.getrandbits(32)), str(folder), str(disk)]
    way = way_in()
    command = [*way, "sh", "-c", MOUNT, DISK, str(disk), *scene] if way else [*scene, str(QUOTA)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for line in process.stdout:
            yield Fired(*json.loads(line))
        yield Fired("scene", [f"it ended with {process.wait()}"])
    finally:
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)
        process.kill()
        process.wait()
        process.stdout.close()


@dataclass(slots=True)
class Shown:
    """A handle that somebody was shown, and what is known of its output."""

    session: str
    handle: str
    at: float
    content: bytes | None  # None: it is not known which bytes a server of this kind sends
    whole: bool  # kept, not only running


class Caller:
    """One of those that call the servers through the gateway, in an order that its seed decides."""

    def __init__(self, scene: "Scene", seed: str) -> None:
        self._scene = scene
        self._dice = random.Random(seed)
        self._seed = seed

    async def calls(self, count: int) -> None:
        for number in range(count):
            tool = self._dice.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            server = f"s{self._dice.randrange(SERVERS)}"
            times = self._dice.choice((1, 10, 1_000, 4_000, 20_000))
            line = f"{self._seed} {number} " + "x" * self._dice.randrange(40) + "\n"
            if tool in OURS:
                await self._ours(tool)
            elif tool == "cancelled":
                await self._cancelled(f"{server}__later", {"text": line, "times": times, "seconds": 5.0})
            elif tool in CONTENT:
                given = {"text": line, "times": times, "seconds": self._dice.choice((0.1, 0.4, 1.5, 4.0))}
                await self._foreign(tool, server, given, (line * times).encode())
            else:
                await self._foreign(tool, server, _ARGUMENTS.get(tool, {}), None)

    async def _answer(self, place: str, params: dict[str, Any], what: str) -> dict[str, Any] | None:
        _, future = self._scene.client.begin("tools/call", params)
        try:
            async with asyncio.timeout(PATIENCE):
                return await future
        except TimeoutError:
            self._scene.fired(f"{place}: never", f"{what} has not ended after {PATIENCE:g} s")
            return None

    async def _foreign(self, tool: str, server: str, arguments: dict[str, Any], content: bytes | None) -> None:
        params = {"name": f"{server}__{tool}", "arguments": arguments}
        answer = await self._answer(tool, params, f"{tool} of {server}")
        if answer is None:
            return
        if "error" in answer:
            self._judge_error(tool, "refused", str(answer["error"].get("message", "")))
            return
        text = _text(answer["result"])
        found = _HANDLE.search(text)
        if found is None and answer["result"].get("isError"):
            self._judge_error(tool, "error", text)
        elif found is not None and "\nhandle: " in text:
            self._scene.shown(found[1], content, whole=True)
            self._scene.fired(f"{tool}: kept")
        elif found is not None and (" still running" in text or " is queued" in text):
            self._scene.shown(found[1], content, whole=False)
            self._scene.fired(f"{tool}: running")
        elif found is not None:
            self._scene.shown(found[1], None, whole=False)
            self._scene.fired(f"{tool}: in part")
        elif "not kept" in text:
            self._scene.fired(f"{tool}: not kept")
        elif content is None or text.encode() == content:
            self._scene.fired(f"{tool}: whole")
        else:
            self._scene.fired(f"{tool}: wrong", f"{len(text)} characters in place of {len(content)}: {text[:300]!r}")

    def _judge_error(self, tool: str, way: str, message: str) -> None:
        problems = [] if _SAYS_WHY.search(message) else [f"it does not say what happened: {message[:500]!r}"]
        self._scene.fired(f"{tool}: {way}", *problems)

    async def _ours(self, tool: str) -> None:
        known = [one for one in self._scene.known if one.session == SESSION]
        if not known:
            return
        one = self._dice.choice(known[-50:])
        arguments = {"handle": one.handle} | ({"pattern": "call|x", "count": True} if tool == "context_grep" else {})
        answer = await self._answer(tool, {"name": tool, "arguments": arguments}, f"{tool} of {one.handle}")
        if answer is None:
            return
        if "error" in answer:
            self._judge_error(tool, "refused", str(answer["error"].get("message", "")))
        elif answer["result"].get("isError"):
            self._judge_error(tool, "error", _text(answer["result"]))
        else:
            self._scene.fired(f"{tool}: answered")

    async def _cancelled(self, name: str, arguments: dict[str, Any]) -> None:
        """No answer is owed for it, and a late one is allowed once."""
        client = self._scene.client
        number, future = client.begin("tools/call", {"name": name, "arguments": arguments})
        await asyncio.sleep(self._dice.uniform(0, 0.3))
        client.say({"method": "notifications/cancelled", "params": {"requestId": number}})
        self._scene.forgiven.append(future)
        self._scene.fired("cancelled: sent")


class Scene:
    def __init__(self, seed: int, folder: Path, disk: Path, quota: str) -> None:
        self._seed = seed
        self._folder = folder
        self._disk = disk
        self._home = disk / "home"
        self._quota = quota
        self.events: list[tuple[str, list[str]]] = []
        self.samples: list[list[float]] = []
        self._agents = 0
        self._pages = ["/"]
        self.known: list[Shown] = []
        self.forgiven: list[asyncio.Future[dict[str, Any]]] = []
        self.client: Wire

    def fired(self, place: str, *problems: str) -> None:
        self.events.append((place, list(problems)))

    def shown(self, handle: str, content: bytes | None, *, whole: bool) -> None:
        self.known.append(Shown(SESSION, handle, time.time(), content, whole))

    async def run(self) -> None:
        ended = asyncio.ensure_future(_end_of_input())
        async with self._gateway() as gateway, self._viewer() as (viewer, page):
            epoch = 0
            while not ended.done():
                work = asyncio.ensure_future(self._epoch(epoch, gateway, viewer, page))
                await asyncio.wait((work, ended), return_when=asyncio.FIRST_COMPLETED)
                if not work.done():
                    work.cancel()
                    await asyncio.gather(work, return_exceptions=True)
                    return
                work.result()
                events, self.events = self.events, []
                for number, (place, found) in enumerate(events, 1):
                    print(json.dumps([place, found, number < len(events)]))
                sys.stdout.flush()
                epoch += 1

    async def _epoch(self, epoch: int, gateway: int, viewer: int, page: "Page") -> None:
        calm = asyncio.Event()
        beside = [
            asyncio.ensure_future(one)
            for one in (
                self._hog(random.Random(f"{self._seed} {epoch} disk"), calm),
                self._helpers(random.Random(f"{self._seed} {epoch} helpers"), calm),
                self._visitor(random.Random(f"{self._seed} {epoch} viewer"), calm, page),
                self._killed(random.Random(f"{self._seed} {epoch} agents"), calm),
                self._sampler(gateway, viewer, calm),
            )
        ]
        try:
            callers = [Caller(self, f"{self._seed} {epoch} {number}") for number in range(CALLERS)]
            await asyncio.gather(*(one.calls(_CALLS[bool(epoch)]) for one in callers))
            calm.set()
            await asyncio.gather(*beside)
        finally:
            for one in beside:
                one.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            (self._disk / "ballast").unlink(missing_ok=True)
        await self._settled()
        self._answered_once()
        await asyncio.to_thread(self._check)
        self.check_growth()
        if self.samples:
            (self._folder / SAMPLES).write_text(json.dumps(self.samples))

    # What goes on

    @contextlib.asynccontextmanager
    async def _gateway(self) -> AsyncGenerator[int]:
        servers = {f"s{number}": [sys.executable, BAD, "-"] for number in range(SERVERS)}
        config = configured(self._folder, servers, revision="handshake", call_timeout_seconds=2.0)
        settings = ["slow_after_seconds=1.0", "server_max_bytes=8388608", *([self._quota] if self._quota else [])]
        options = [word for one in settings for word in ("--set", one)]
        with (self._folder / "gateway.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                HOLDALL, *options, "gateway", "--home", str(self._home), "--session", SESSION, "--config", config,
                "--trust", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log,
                limit=256 * 1024 * 1024, env=surroundings(),
                cwd=self._folder,  # not the checkout: all of its code would be hashed for each server, at each start
            )  # fmt: skip
        self.client = Wire(process)
        try:
            await self.client.greet()
            yield process.pid
        finally:
            await end(process)
            self.client.reader.cancel()

    @contextlib.asynccontextmanager
    async def _viewer(self) -> AsyncGenerator[tuple[int, "Page"]]:
        with (self._folder / "viewer.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                HOLDALL, "view", "--no-open", "--home", str(self._home), stdout=asyncio.subprocess.PIPE, stderr=log,
                env=surroundings(),
            )  # fmt: skip
        try:
            assert process.stdout is not None
            address = (await process.stdout.readline()).decode().strip()
            yield process.pid, Page(int(address.partition("/?")[0].rpartition(":")[2]), address.partition("token=")[2])
        finally:
            await end(process)

    async def _hog(self, dice: random.Random, calm: asyncio.Event) -> None:
        """Takes nearly all of the disk for a while, and gives it back."""
        ballast = self._disk / "ballast"
        while not self._quota and not await _within(calm, dice.uniform(1.0, 6.0)):
            free = os.statvfs(self._disk)
            size = free.f_bavail * free.f_frsize - dice.choice((0, 4_096, 100_000, 1_000_000))
            with contextlib.suppress(OSError):
                await asyncio.to_thread(_fill, ballast, max(1, size))
                self.fired("disk: full")
            await _within(calm, dice.uniform(0.2, 3.0))
            ballast.unlink(missing_ok=True)

    async def _helpers(self, dice: random.Random, calm: asyncio.Event) -> None:
        out = self._folder / "bundle.holdall"
        while not await _within(calm, dice.uniform(0.5, 3.0)):
            agent = f"agent-{dice.randrange(max(1, self._agents))}"
            words = dice.choice((
                ["gc"], ["gc", "--older-than", "5m"], ["verify", "--session", agent], ["ls", "--sessions"],
                ["export", agent, "-o", str(out), "--force"], ["export", SESSION, "-o", str(out), "--force"],
            ))  # fmt: skip
            process = await asyncio.create_subprocess_exec(
                HOLDALL, "--home", str(self._home), *words, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=surroundings(),
            )  # fmt: skip
            said = b""
            try:
                async with asyncio.timeout(PATIENCE):
                    _, said = await process.communicate()
            except TimeoutError:
                self.fired(f"{words[0]}: never", f"{words} has not ended after {PATIENCE:g} s")
            finally:
                await end(process)
            is_right = process.returncode in (0, 1) or bool(_SAYS_WHY.search(said.decode("utf-8", "replace")))
            self.fired(f"{words[0]}: {process.returncode}", *([] if is_right else [_last(said)]))

    async def _visitor(self, dice: random.Random, calm: asyncio.Event, page: "Page") -> None:
        while not await _within(calm, dice.uniform(0.0, 0.4)):
            path, content = self._page(dice)
            try:
                status, body = await asyncio.to_thread(page.get, path)
            except OSError as problem:
                self.fired("viewer: no answer", f"{path}: {type(problem).__name__}: {problem}")
                continue
            if status == 200 and content is not None and body != content:
                self.fired("viewer: wrong", f"{path} has {len(body)} bytes of {len(content)}")
            elif status >= 500:
                self.fired(f"viewer: {status}", f"{path}: {body[:300]!r}")
            else:
                self.fired(f"viewer: {status}")
            if "/raw" not in path:
                found = {link.replace("&amp;", "&") for link in re.findall(r'href="(/[^"#]*)"', body.decode())}
                fresh = sorted(one for one in found if "/static/" not in one)
                self._pages = ["/", "/sessions/rows", "/sessions/totals", "/calls", *fresh[:40]]

    def _page(self, dice: random.Random) -> tuple[str, bytes | None]:
        """One of those that the last one led to; now and then the bytes of an output, and what they must be."""
        if dice.random() < 0.3:
            with opened(self._home) as store:
                sessions = {one.name: one.id for one in store.sessions()}
            known = [one for one in self.known if one.content is not None and one.whole and one.session in sessions]
            if known:
                one = dice.choice(known[-20:])
                return f"/s/{sessions[one.session]}/o/{one.handle}/raw", one.content
        return dice.choice(self._pages), None

    async def _killed(self, dice: random.Random, calm: asyncio.Event) -> None:
        """One agent after the other, killed and resumed until it has reported. The last one goes to its end."""
        while not calm.is_set():
            number, seed = self._agents, dice.getrandbits(32)
            self._agents += 1
            report = self._folder / f"agent-{number}"
            words = [str(self._home), f"agent-{number}", str(seed), str(report)]
            ways = [dice.uniform(0.3, 2.5) for _ in range(dice.randrange(3))]
            while True:
                status, said = await self._agent(words, ways.pop() if ways else None, calm)
                self.fired(f"agent: {status}", *([] if status in (0, -9, chaos_agent.REFUSED) else [_last(said)]))
                if status == 0:
                    break
                if status == chaos_agent.REFUSED:
                    await asyncio.sleep(0.5)  # until the disk is free again
            self._acknowledged(f"agent-{number}", seed, report)

    async def _agent(self, words: Sequence[str], seconds: float | None, calm: asyncio.Event) -> tuple[int, bytes]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.chaos_agent", *words, cwd=ROOT, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE, env=surroundings(),
        )  # fmt: skip
        telling = asyncio.ensure_future(process.communicate())
        try:
            if seconds is not None and not calm.is_set():
                await asyncio.wait((telling,), timeout=seconds)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)  # `send_signal` would take its exit code away, if it has ended
            async with asyncio.timeout(PATIENCE):
                _, said = await telling
        except TimeoutError:
            self.fired("agent: never", f"{words[1]} has not ended after {PATIENCE:g} s")
            said = b""
        finally:
            await end(process)
        assert process.returncode is not None
        return process.returncode, said

    def _acknowledged(self, session: str, seed: int, report: Path) -> None:
        told = {tuple(json.loads(line)) for line in report.read_bytes().splitlines()}
        for by, handle in sorted(told):
            line, times, _ = chaos_agent.fetched(seed, int(by.removeprefix("c")))
            self.known.append(Shown(session, handle, time.time(), (line * times).encode(), whole=False))
        report.unlink()

    async def _sampler(self, gateway: int, viewer: int, calm: asyncio.Event) -> None:
        while not await _within(calm, 1.0):
            self.samples.append([time.time(), *_resources(gateway), *_resources(viewer)])

    # What must hold

    async def _settled(self) -> None:
        """Until nothing runs in the session of the gateway any more."""
        deadline = time.monotonic() + PATIENCE
        while True:
            with opened(self._home) as store:
                session = store.find_session(SESSION)
                running = [one.handle for one in store.outputs(session) if one.state == "running"] if session else []
            if not running:
                return
            if time.monotonic() > deadline:
                self.fired("background: never", f"{', '.join(running)} still running after {PATIENCE:g} s")
                return
            await asyncio.sleep(0.3)

    def _answered_once(self) -> None:
        client = self.client
        surplus = [one for one in client.heard if "method" not in one]
        self.fired("client", *(f"an answer that nobody waits for: {str(one)[:300]}" for one in surplus))
        client.heard.clear()
        client.lines.clear()
        self.forgiven = [one for one in self.forgiven if not one.done()]

    def _check(self) -> None:
        with opened(self._home) as store:
            self.known = [one for one in self.known if self._opens(store, one)]
            problems = [f"{one.handle}: {one.problem}" for one in upkeep.verify(store) if one.problem]
            # A disk that was full in the middle of a line of a log: it is named, and no other is lost.
            self.fired("verify", *(one for one in problems if "was not written to its end" not in one))
            for number in range(self._agents):
                self.fired("agent: conversation", *_unanswered(store, f"agent-{number}"))

    def _opens(self, store: DirectoryStore, one: Shown) -> bool:
        """Whether it is to be looked at again."""
        try:
            session = store.find_session(one.session)
            if session is None:
                self.fired("output", f"{one.session} is lost with {one.handle}")
                return False
            facts = store.resolve(session, one.handle)
            if facts.state == "expired":
                early = time.time() - one.at < EXPIRES - _MARGIN
                self.fired("output: expired", *([f"{one.handle} has expired early"] if early else []))
                return False
            data = contents(store, facts)
        except HoldallError as problem:
            self.fired("output", f"{one.session} {one.handle}: {type(problem).__name__}: {problem}")
            return True
        right = True
        if facts.state == "ready" or one.whole:
            right = facts.state == "ready" and one.content in (None, data)
        right &= facts.state != "ready" or hashlib.sha256(data).hexdigest() == facts.measure.sha256
        length = "unknown" if one.content is None else len(one.content)
        wrong = f"{one.session} {one.handle} is {facts.state} with {len(data)} bytes, {length} were kept"
        self.fired(f"output: {facts.state}", *([] if right else [wrong]))
        return True

    def check_growth(self) -> None:
        if len(self.samples) < 240:
            return
        for at, (name, room) in enumerate((
            ("gateway memory", 16e6), ("gateway descriptors", 8), ("viewer memory", 16e6), ("viewer descriptors", 8),
        ), 1):  # fmt: skip
            before, after = quarters([one[at] for one in self.samples])
            grown = [f"{name} went from {before:,.0f} to {after:,.0f}"] if after > 1.15 * before + room else []
            self.fired(f"growth: {name}", *grown)


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """The means of the second quarter and of the last one: the first has what is made once."""
    quarter = len(values) // 4
    return sum(values[quarter : 2 * quarter]) / quarter, sum(values[-quarter:]) / quarter


def plotted(samples: Path) -> str:
    """Memory over time, as SVG."""
    rows: list[list[float]] = json.loads(samples.read_text())
    rows = rows[:: max(1, len(rows) // 300)]
    series = {name: [(row[0] - rows[0][0], row[at]) for row in rows] for name, at in (("gateway", 1), ("viewer", 3))}
    return over_time("Memory of gateway and viewer in chaos", series)


class Page:
    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def _unanswered(store: DirectoryStore, name: str) -> list[str]:
    """Calls of an agent's conversation that have no answer, or two."""
    session = store.find_session(name)
    if session is None:
        return []
    messages = messages_in(store.transcript(session).lines.splitlines())
    asked = sorted(call.id for one in messages if isinstance(one, Assistant) for call in one.calls)
    answered = sorted(one.call_id for one in messages if isinstance(one, ToolResult))
    return [] if asked == answered else [f"{name} asked for {asked}, and {answered} were answered"]


def _resources(pid: int) -> tuple[float, float]:
    """Bytes of memory, and open descriptors."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None, status
    return int(found[1]) * 1024.0, float(len(os.listdir(f"/proc/{pid}/fd")))


def _fill(path: Path, size: int) -> None:
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


async def _within(calm: asyncio.Event, seconds: float) -> bool:
    """Whether the epoch ends within so many seconds; only waits."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await calm.wait()
    return calm.is_set()


async def _end_of_input() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


def _text(result: dict[str, Any]) -> str:
    content: Any = result.get("content")
    blocks = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
    return "\n".join(str(one["text"]) for one in blocks if "text" in one)


def _last(said: bytes) -> str:
    return said.decode("utf-8", "replace")[-1_500:]


if __name__ == "__main__":
    seed, folder, disk, *quota = sys.argv[1:]
    asyncio.run(Scene(int(seed), Path(folder), Path(disk), f"quota_bytes={quota[0]}" if quota else "").run())
