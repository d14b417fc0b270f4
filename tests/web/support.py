"""The viewer for tests: in this process for what a response says, as a process of its own for all else."""

import contextlib
import http.client
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import anyio
from starlette.testclient import TestClient

from holdall.web.server import create_app
from tests.cli.program import PROGRAM
from tests.upstream.launch import forked

T = TypeVar("T")
TOKEN = "t" * 43
HOST, PORT = "127.0.0.1", 8765
BASE = f"http://{HOST}:{PORT}"
_SECONDS = 30.0


@contextlib.contextmanager
def client(home: Path, *, token: str | None = TOKEN) -> Generator[TestClient]:
    """Who has the token, unless that is None. Faults of the server are answers, as for a browser."""
    headers = {"authorization": f"Bearer {token}"} if token is not None else {}
    app = create_app(str(home), TOKEN, HOST, PORT)
    with TestClient(app, base_url=BASE, headers=headers, raise_server_exceptions=False, follow_redirects=False) as made:
        yield made


@dataclass
class Viewer:
    """`holdall view`, running."""

    process: subprocess.Popen[str]
    address: str
    said: "queue.Queue[str]" = field(default_factory=queue.Queue[str])

    @property
    def origin(self) -> str:
        return self.address.partition("?")[0].rstrip("/")

    @cached_property
    def base(self) -> str:
        """What the addresses of pages begin with: the token leads there."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", f"/?token={self.token}", headers={"Host": urlsplit(self.address).netloc})
            return self.origin + connection.getresponse().headers["location"].rstrip("/")

    @property
    def token(self) -> str:
        return self.address.partition("token=")[2]

    @property
    def port(self) -> int:
        return int(self.origin.rpartition(":")[2])

    def line(self) -> str:
        """The next one of its standard error."""
        return self.said.get(timeout=_SECONDS)

    def end(self, number: int = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(_SECONDS)


def done(work: Callable[[], Awaitable[T]]) -> T:
    """Async work from a test that is not: in a thread, since a browser's loop may run in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, work).result()


@contextlib.contextmanager
def viewer(home: Path, *arguments: str, fork: bool = True) -> Generator[Viewer]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDALL_")}
    words = [PROGRAM, "view", "--no-open", "--home", str(home), *arguments]
    process = subprocess.Popen(
        forked(words) if fork else words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stderr is not None
    errors = process.stderr
    made = Viewer(process, process.stdout.readline().strip())

    def listen() -> None:
        for line in errors:
            made.said.put(line.rstrip("\n"))

    hearing = threading.Thread(target=listen, daemon=True)
    hearing.start()
    try:
        assert made.address.startswith("http://"), made.line()
        yield made
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(_SECONDS)
        hearing.join(_SECONDS)
        process.stdout.close()
        errors.close()
