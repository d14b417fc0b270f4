"""A client that sends fixed lines to the gateway and writes down what it gets, byte for byte.

    > a line that was sent
    < a line that came

`{h1}` in a line stands for the first handle that the client was told, `{h2}` for the second, and so on.
"""

import contextlib
import http.client as http_client
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.golden.commands import ENVIRONMENT, HERE, PROGRAM, ROOT
from tests.golden.normal import Normal

SOON = 90.0  # seconds: two starts of Python on a busy machine
SERVER = str(HERE / "mcp_server.py")
REVISION = "2026-07-28"
TOKEN = "a-token-of-at-least-16"
UNTOLD = frozenset({"date", "server", "content-length"})  # headers of the library that serves, not of ours
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": REVISION,
    "io.modelcontextprotocol/clientInfo": {"name": "golden", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
"""What every request of the newer era says of its client."""


def request(number: int, method: str, params: dict[str, Any] | None = None, *, newer: bool = False) -> str:
    params = {**(params or {}), "_meta": {**META, **(params or {}).get("_meta", {})}} if newer else params
    message = {"jsonrpc": "2.0", "id": number, "method": method} | ({} if params is None else {"params": params})
    return json.dumps(message, ensure_ascii=False)


def call(number: int, tool: str, newer: bool, **arguments: Any) -> str:
    return request(number, "tools/call", {"name": tool, "arguments": arguments}, newer=newer)


@dataclass
class Transcript:
    normal: Normal
    lines: list[str] = field(default_factory=list[str])
    handles: list[str] = field(default_factory=list[str])

    def sent(self, line: str) -> None:
        self.lines.append("> " + self.normal(line))

    def came(self, line: str) -> None:
        self.lines.append("< " + self.normal(line, durations="unning" in line))
        text = line.removeprefix("data: ")
        for handle in handles_in(json.loads(text) if text.startswith(("{", "[")) else {}):
            if handle not in self.handles:
                self.handles.append(handle)

    def filled(self, line: str) -> str:
        for number, handle in enumerate(self.handles, 1):
            line = line.replace(f"{{h{number}}}", handle)
        return line

    def __str__(self) -> str:
        return "".join(line + "\n" for line in self.lines)


def handles_in(value: Any) -> Generator[str]:
    """The handles that a message tells, in order."""
    if isinstance(value, dict):
        for one in value.values():  # pyright: ignore[reportUnknownVariableType]
            yield from handles_in(one)
    elif isinstance(value, list):
        for one in value:  # pyright: ignore[reportUnknownVariableType]
            yield from handles_in(one)
    elif isinstance(value, str):
        for line in value.split("\n"):
            if line.startswith("handle: "):
                yield line.split()[1]


@dataclass
class Stdio:
    """One gateway on pipes."""

    process: "subprocess.Popen[bytes]"
    transcript: Transcript
    journal: Path
    _rest: bytes = b""

    def line(self) -> bytes:
        assert self.process.stdout is not None
        deadline = time.monotonic() + SOON
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                assert waiting.select(deadline - time.monotonic()), f"no answer in time: {self.transcript.lines[-1]}"
                piece = os.read(self.process.stdout.fileno(), 1 << 20)
                assert piece, f"the gateway has ended: {self.transcript.lines[-1]}"
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        self.transcript.sent(line)

    def say(self, template: str, *, reply: Any = None, answers: int = 1) -> None:
        """Send it; wait for as many answers as it gets. A question that comes meanwhile gets `reply`."""
        self.write(self.transcript.filled(template))
        while answers:
            line = self.line().decode("utf-8")
            self.transcript.came(line)
            message: Any = json.loads(line)
            if isinstance(message, dict) and "method" in message and "id" in message:
                self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": reply}))
            elif not (isinstance(message, dict) and "method" in message):
                answers -= 1


def surroundings(home: Path) -> dict[str, str]:
    return ENVIRONMENT | {"HOME": str(home.parent), "HOLDALL_HOME": str(home), "PYTHONPATH": str(ROOT)}


def server(folder: Path, era: str) -> list[str]:
    return [sys.executable, SERVER, era, str(folder / "journal"), str(folder / "gate")]


def places(folder: Path) -> dict[str, str]:
    return {str(folder): "<folder>", sys.executable: "<python>", str(ROOT): "<repository>"}


@contextlib.contextmanager
def stdio(folder: Path, era: str, options: Sequence[str] = ()) -> Generator[Stdio]:
    words = [PROGRAM, *options, "gateway", "--home", str(folder / "home"), "--", *server(folder, era)]
    errors = (folder / "stderr").open("wb")
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=surroundings(folder / "home"),
        cwd=folder,
    )
    running = Stdio(process, Transcript(Normal(places(folder))), folder / "journal")
    try:
        yield running
        assert process.stdin is not None
        process.stdin.close()
        process.wait(SOON)
        running.transcript.lines.append(f"exit code {process.returncode}")
        said = (folder / "stderr").read_text()
        running.transcript.lines += ["stderr " + running.transcript.normal(line) for line in said.splitlines()]
    finally:
        errors.close()
        end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Http:
    """One gateway over HTTP, and a client of it that is in one session at a time."""

    port: int
    transcript: Transcript
    session: str = ""

    def post(self, template: str, *, newer: bool = False, token: str = TOKEN) -> None:
        line = self.transcript.filled(template)
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if newer:
            message: Any = json.loads(line)
            headers |= {"Mcp-Protocol-Version": REVISION, "Mcp-Method": message["method"]}
            headers |= {"Mcp-Name": message["params"]["name"]} if "name" in message["params"] else {}
        elif self.session:
            headers |= {"Mcp-Session-Id": self.session, "Mcp-Protocol-Version": "2025-11-25"}
        self.ask("POST", "/mcp", headers, line, token=token)

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: str = "", token: str = TOKEN
    ) -> None:
        sent = {"Authorization": f"Bearer {token}", **(headers or {"Mcp-Session-Id": self.session})}
        self.transcript.sent(f"{method} {path}")
        for name, value in sent.items():
            self.transcript.sent(f"{name}: {value}")
        if body:
            self.transcript.sent(body)
        connection = http_client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        try:
            connection.request(method, path, body.encode() or None, sent)
            answer = connection.getresponse()
            self.session = answer.headers.get("Mcp-Session-Id", self.session)
            self.transcript.lines.append(f"< {answer.status}")
            for name, value in sorted((name.lower(), value) for name, value in answer.headers.items()):
                if name not in UNTOLD:
                    self.transcript.came(f"{name}: {value}")
            for line in answer.read().decode("utf-8").split("\n"):
                self.transcript.came(line)
        finally:
            connection.close()


# On a busy machine an answer may take so long that it begins as a stream; these are not about that.
_START = (
    "import sys; from holdall.mcp.gateway import http_app; http_app._DEFER_SECONDS = 600.0; "
    f"sys.argv[0] = {PROGRAM!r}; from holdall.__main__ import main; main()"
)
_UNHURRIED = (sys.executable, "-c", _START)


@contextlib.contextmanager
def http(folder: Path, era: str, options: Sequence[str] = ()) -> Generator[Http]:
    words = [
        *_UNHURRIED,
        *options,
        "gateway",
        "--home",
        str(folder / "home"),
        "--http",
        "127.0.0.1:0",
        "--",
        *server(folder, era),
    ]
    environment = surroundings(folder / "home") | {"HOLDALL_GATEWAY_TOKEN": TOKEN}
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, cwd=folder)
    assert process.stderr is not None
    try:
        said = process.stderr.readline().decode()
        port = int(said.split("127.0.0.1:")[1].split("/")[0])
        running = Http(port, Transcript(Normal({**places(folder), f":{port}": ":<port>"})))
        running.transcript.lines.append("stderr " + running.transcript.normal(said.strip()))
        yield running
    finally:
        end(process)
        process.stderr.close()
