"""The viewer: how soon its first page is there, in a store with a thousand sessions and a hundred thousand outputs."""

import contextlib
import http.client
import json
import os
import statistics
import subprocess
import time
from collections.abc import Generator
from pathlib import Path
from unittest import mock

from bench.lab import Lab, holdall_command
from bench.result import Gate, Measured, Row
from holdall.store.directory import DirectoryStore
from holdall.store.summaries import NAME
from holdall.text.tokens import Estimate
from holdall.values.events import Event
from holdall.values.facts import Origin

_GATE = Gate(0.1, "figure")


async def viewer(lab: Lab) -> Measured:
    sessions, outputs = (1000, 100) if lab.sizes.rounds > 1 else (20, 5)
    case = f"first page, {sessions:,} sessions, {sessions * outputs:,} outputs"
    with lab.scratch() as folder:
        home = folder / "home"
        _fill(home, sessions, outputs)
        never, known = [], []
        for _ in range(lab.sizes.rounds + 2):
            (home / NAME).unlink(missing_ok=True)
            with _running(home) as page:
                never.append(page("/"))
                _counted(page)
            with _running(home) as page:
                known.append(page("/"))
                again = statistics.median(page("/") for _ in range(10))
    return Measured([
        Row("viewer", f"{case}, looked at before", statistics.median(known), "ms", gate=_GATE),
        Row("viewer", f"{case}, for the first time", statistics.median(never), "ms", gate=_GATE),
        Row("viewer", "the same page again", again, "ms"),
    ])  # fmt: skip


def _fill(home: Path, sessions: int, outputs: int) -> None:
    """Through the store, but without waiting for the disk: what is measured is reading."""
    with mock.patch("os.fsync"):
        store = DirectoryStore(str(home), tokenizer=Estimate())
        for number in range(sessions):
            session = store.open_session(f"agent run {number}")
            kept = [
                store.put(session, [b"the same few bytes\n"], Origin(tool=f"tool_{at % 7}")) for at in range(outputs)
            ]
            events = [
                Event(facts.created, "kept", facts.handle, data={"tokens": 900, "content_tokens": 80, "replaced": True})
                for facts in kept
            ]
            lines = b"".join(json.dumps(event.to_json()).encode() + b"\n" for event in events)
            store.append_events(session, lines)
            if number % 50 == 49:  # each session that was used stays open in a store
                store.close()
                store = DirectoryStore(str(home), tokenizer=Estimate())
        store.close()
    past = time.time() - 3600
    for folder in home.glob("session-*"):
        os.utime(folder / "events.ndjson", (past, past))
        os.utime(folder, (past, past))


class _Page:
    """Seconds until all of a page is there, on a connection of its own."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token
        self.text = ""

    def __call__(self, path: str) -> float:
        began = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
        answer = connection.getresponse()
        self.text = answer.read().decode()
        took = time.perf_counter() - began
        connection.close()
        if answer.status != 200:
            raise AssertionError(f"{path} was answered with {answer.status}")
        return took


def _counted(page: _Page) -> None:
    """Until the viewer has looked at every session."""
    page("/sessions/totals")
    while "yet to be counted" in page.text:
        page("/sessions/totals")


@contextlib.contextmanager
def _running(home: Path) -> Generator[_Page]:
    command = [*holdall_command(), "view", "--no-open", "--home", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield _Page(int(address.partition("/?")[0].rpartition(":")[2]), address.partition("token=")[2])
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
