"""The viewer: how soon its first page is there, in a store with a thousand sessions and a hundred thousand outputs."""

import contextlib
import http.client
import json
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from unittest import mock

from bench.lab import Lab, holdall_command
from bench.result import Gate, Measured, Row
from bench.rounds import compare
from holdall.store.directory.store import DirectoryStore
from holdall.store.directory.summaries import NAME
from holdall.store.ids import new_uuid
from holdall.store.protocol import SessionInfo
from holdall.text.tokens import Estimate
from holdall.values.events import Event
from holdall.values.outputs import Origin

_GATE = Gate(20.0)
_BATCH = 50


async def viewer(lab: Lab) -> Measured:
    sessions, outputs = (1000, 100) if lab.sizes.rounds > 1 else (20, 5)
    case = f"first page, {sessions:,} sessions, {sessions * outputs:,} outputs"
    with lab.scratch() as folder:
        home, remembered = folder / "home", folder / "remembered"
        _fill(home, sessions, outputs)
        _fill(folder / "small", 1, 1)
        with running(home) as page:
            _counted(page)
        shutil.move(home / NAME, remembered)

        async def known() -> float:
            shutil.copy(remembered, home / NAME)
            with running(home) as page:
                return page("/")

        async def never() -> float:
            (home / NAME).unlink(missing_ok=True)
            with running(home) as page:
                return page("/")

        async def again() -> float:
            with running(home) as page:
                page("/sessions/rows")
                return statistics.median(page("/") for _ in range(10))

        async def small() -> float:
            with running(folder / "small") as page:
                return page("/")

        contestants = {"small": small, "known": known, "never": never, "again": again}
        found = await compare(contestants, rounds=lab.sizes.rounds, patience=lab.patience)
    floor = found.median("small")
    return Measured([
        Row("viewer", f"{case}, looked at before", found.median("known"), "ms", floor, _GATE, others=found.others),
        Row("viewer", f"{case}, for the first time", found.median("never"), "ms", floor, _GATE, others=found.others),
        Row("viewer", "the same page again", found.median("again"), "ms", floor, others=found.others),
    ])  # fmt: skip


def _fill(home: Path, sessions: int, outputs: int) -> None:
    """As the store writes it, but without waiting for the disk: what is measured is reading."""
    with mock.patch("os.fsync", new=_at_once):
        for first in range(0, sessions, _BATCH):  # a store keeps every session open that it was used for
            with contextlib.closing(DirectoryStore(str(home), tokenizer=Estimate())) as store:
                for number in range(first, min(first + _BATCH, sessions)):
                    _fill_session(store, store.open_session(f"agent run {number}"), outputs)
    past = time.time() - 3600
    for folder in home.glob("session-*"):
        os.utime(folder / "events.ndjson", (past, past))
        os.utime(folder, (past, past))


def _at_once(_descriptor: int) -> None:
    """In place of the wait. Not a mock, which would remember every call."""


def _fill_session(store: DirectoryStore, session: SessionInfo, outputs: int) -> None:
    """One output, then as many records of the same bytes as there are to be."""
    kept = [store.put(session, [b"the same few bytes\n"], Origin(tool="fetch"))]
    folder = store.survey(session)[0]
    loaded = folder.load(kept[0].handle)
    assert loaded is not None
    for at in range(1, outputs):
        kept.append(folder.publish(replace(kept[0], id=new_uuid(), origin=Origin(tool=f"tool_{at % 7}")), loaded[1]))
    events = [
        Event(one.created, "kept", one.handle, data={"tokens": 900, "content_tokens": 80, "replaced": True})
        for one in kept
    ]
    store.append_events(session, b"".join(json.dumps(event.to_json()).encode() + b"\n" for event in events))
    assert len(store.outputs(session)) == outputs  # and the index knows them, as it would by now


class Page:
    """Seconds until all of a page is there, on a connection of its own."""

    def __init__(self, port: int, token: str, pid: int) -> None:
        self.pid = pid
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


def _counted(page: Page) -> None:
    """Until the viewer has looked at every session."""
    page("/sessions/totals")
    while "yet to be counted" in page.text:
        page("/sessions/totals")


@contextlib.contextmanager
def running(home: Path) -> Generator[Page]:
    command = [*holdall_command(), "view", "--no-open", "--home", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        port = int(address.partition("/?")[0].rpartition(":")[2])
        yield Page(port, address.partition("token=")[2], process.pid)
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
