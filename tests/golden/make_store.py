"""How the store and the bundles in `data/` were made, by version 0.1.0: the first one that kept outputs.

This documents them. They are never made anew: a store of format 1 is read for ever, and one that a later version wrote
would not prove that. So it only runs where the store is not there.

    .venv/bin/python -m tests.golden.make_store
"""

import asyncio
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from holdall import Holdall, Reply, Request, ScriptedModel, Settings
from tests.golden import samples
from tests.golden.commands import Commands, commands, real
from tests.golden.golden import DATA
from tests.golden.reading import BEGAN, BUNDLES, DAY, STORE, read_all, unpacked

FOREVER = Settings(retention="keep")
QUESTION, QUOTE = "Which disk failed?", "disk /dev/sd7 failed: I/O error at sector 884422"
MODEL = "golden-model"

# An output that its writer never ended: the process is gone in the middle of it.
INTERRUPTED = """
import asyncio, os, sys
from holdall import Holdall, Settings

async def main():
    bag = Holdall.open(home=sys.argv[1], session="outputs", settings=Settings(retention="keep"), clock=lambda: 1700000500.0)
    writer = await bag.begin(tool="crawl", arguments={"site": "example.com"}, call_id="never-ended")
    writer.write(b"page 1 of 900\\npage 2 of 900\\n")
    os._exit(0)

asyncio.run(main())
"""
TOOLS = '''
"""Tools of the golden agents."""

from tests.golden import samples


def fetch_log() -> str:
    """The log of the day."""
    return samples.log()


def town(name: str) -> str:
    """Something small about a town."""
    return f"{name} has 12 shops."
'''


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def answering(request: Request) -> str | Reply:
    """It finds the disk in the part of the log that holds it."""
    found = any(QUOTE in message.text for message in request.messages)
    said = {
        "found": found,
        "quotes": [QUOTE] if found else [],
        "answer": "Disk sd7 failed." if found else "",
        "confidence": 0.9,
    }
    return json.dumps(said)


async def keep_outputs(home: str) -> None:
    clock = Clock(BEGAN)
    model = ScriptedModel(answering, name=MODEL, keeps_schema=True, window=200_000)
    async with Holdall.open(home=home, session="outputs", settings=FOREVER, clock=clock, model=model) as bag:
        await bag.take("short enough to be shown", tool="echo", call_id="inline-1")
        taken = await bag.take(
            samples.log(), tool="fetch_log", arguments={"day": "2026-03-04", "deep": [1, {"a": None}]}, call_id="log-1"
        )
        log: Any = taken
        for name in ("json-one-line", "ndjson", "csv", "crlf-log", "surrogates"):
            await bag.take(samples.TEXTS[name](), tool=name, server="shop", call_id=f"call-{name}")
        await bag.keep(samples.binary(9_000), tool="binary", call_id="call-binary")
        for name in ("png", "no-utf8", "nothing"):
            await bag.keep(samples.BYTES[name](), tool=name, call_id=f"call-{name}")
        await bag.keep(samples.ndjson(), tool="same again", call_id="same-1")
        await bag.keep(samples.ndjson(), tool="same again", arguments={"page": 2}, call_id="same-2")
        await bag.keep({"a": [1, 2.5, None], "ü": "😀"}, tool="value")
        image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
        blocks = {"content": [{"type": "text", "text": samples.markdown()}, image], "isError": True}
        await bag.take(blocks, tool="manual", server="docs", call_id="blocks-1")

        await bag.keep(RuntimeError("no such host\n" + "detail " * 300), tool="broken", call_id="broken-1")
        handle = log.artifact.handle
        await bag.call("context_grep", {"handle": handle, "pattern": "ERROR", "limit": 5})
        await bag.call("context_read", {"handle": "call-ndjson", "lines": "10:20"})
        await bag.call("context_tail", {"handle": "call-csv", "lines": 3})
        await bag.call(
            "context_query", {"handle": "call-json-one-line", "sql": "select count(*) from t", "at": "$.orders"}
        )
        await bag.call("context_read", {"handle": "zzzz"})
        await bag.slice(handle, anchor="sd7", window=80)
        found = await bag.extract(handle, QUESTION)
        assert found.snippets[0].verified, found
    async with Holdall.open(home=home, session="below", settings=FOREVER, clock=clock, parent=bag.session.id) as child:
        await child.take(samples.html(), tool="fetch_page", call_id="page-1")


async def keep_for_a_week(home: str) -> None:
    """One output that expired on its eighth day, and one that is younger."""
    week = Settings(retention="7 days")
    async with Holdall.open(home=home, session="brief", settings=week, clock=lambda: BEGAN) as bag:
        await bag.take(samples.xml(), tool="old", call_id="old-1")
    async with Holdall.open(home=home, session="brief", settings=week, clock=lambda: BEGAN + 8 * DAY) as bag:
        await bag.take(samples.diff(), tool="young", call_id="young-1")
        await bag.care.sweep()


def run_agents(home: Path, folder: Path) -> None:
    """An agent that has another one count the errors, both with scripts for models."""
    (folder / "golden_tools.py").write_text(TOOLS)
    calls: dict[str, list[Any]] = {
        "finder": [
            {
                "calls": [
                    {"id": "log", "name": "fetch_log", "arguments": {}},
                    {"id": "oslo", "name": "town", "arguments": {"name": "Oslo"}},
                ]
            },
            {"calls": [{"id": "find", "name": "context_grep", "arguments": {"handle": "log", "pattern": "sd7"}}]},
            {
                "calls": [
                    {
                        "id": "spawn",
                        "name": "spawn_agent",
                        "arguments": {"agent": "counter", "task": "How many errors?"},
                    }
                ]
            },
            {
                "calls": [
                    {"id": "report", "name": "final_report", "arguments": {"report": "Disk sd7 failed; 7 errors."}}
                ]
            },
        ],
        "counter": [
            {"calls": [{"id": "log", "name": "fetch_log", "arguments": {}}]},
            {
                "calls": [
                    {
                        "id": "count",
                        "name": "context_grep",
                        "arguments": {"handle": "log", "pattern": "ERROR", "count": True},
                    }
                ]
            },
            {"calls": [{"id": "report", "name": "final_report", "arguments": {"report": "7 errors."}}]},
        ],
    }
    for name, replies in calls.items():
        (folder / f"{name}.json").write_text(json.dumps({"replies": replies, "price": {"input": 1, "output": 4}}))
        below = "agents: [counter.md]\n" if name == "finder" else ""
        front = (
            f"model: scripted:{name}.json\ntools: [golden_tools:fetch_log, golden_tools:town]\nretention: keep\n{below}"
        )
        (folder / f"{name}.md").write_text(f"---\n{front}---\nYou find things.\n")
    env = {"PYTHONPATH": os.getcwd()}
    ran = real("run", str(folder / "finder.md"), "Which disk failed?", "--session", "agent", home=home, env=env)
    assert ran.code == 0, ran.err.decode()


def packed(home: Path) -> bytes:
    raw = io.BytesIO()

    def nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(home, arcname="home", filter=nobody)
    return lzma.compress(raw.getvalue(), preset=9)


def make(folder: Path, holdall: Commands) -> None:
    """What the program itself keeps has the time of that day; the rest, made after it, that of a clock of its own."""
    home = folder / "home"
    forever = {"HOLDALL_RETENTION": "keep"}
    words = ["sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"]
    ran = real("exec", "--session", "outputs", "--call-id", "exec-1", "--", *words, home=home, env=forever)
    assert ran.code == 3, ran.err
    run_agents(home, folder)
    asyncio.run(keep_outputs(str(home)))
    asyncio.run(keep_for_a_week(str(home)))
    # The last: whoever opens the session next finds that it was interrupted.
    subprocess.run([sys.executable, "-c", INTERRUPTED, str(home)], check=True)
    STORE.write_bytes(packed(home))
    copy = unpacked(folder / "copy")
    exported: dict[str, Any] = {}
    for name, file in BUNDLES.items():
        ran = holdall("export", name, "-o", str(file), "--json", home=copy)
        assert ran.code == 0, ran.err
        file.chmod(0o644)
        exported[name] = ran.json
        del exported[name]["file"]
    again = unpacked(folder / "again")
    read = read_all(again, holdall) | {"exported": exported}
    (DATA / "store-1.json").write_text(json.dumps(read, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    if STORE.exists():
        sys.exit("They are there already, and are never made anew.")
    with tempfile.TemporaryDirectory(prefix="holdall-golden-") as made, commands() as running:
        make(Path(made), running)
