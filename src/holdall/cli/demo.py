"""The main job, shown on this machine: a real output of ten megabytes is kept, searched, queried and read back.

The output is what Python's own disassembler prints for modules of the standard library: a real tool, no network, no
key. Every figure is measured while it runs; what is read back is compared by its sha256.
"""

import asyncio
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable
from typing import TypeVar

from holdall.bag import Holdall
from holdall.cli import show
from holdall.cli.options import FAULT, open_bag
from holdall.text.numbers import grouped, size
from holdall.values.answers import Table
from holdall.values.facts import Facts

_ENOUGH = 10 * 1024 * 1024
_MODULES = ("typing", "argparse", "inspect", "subprocess", "tarfile", "zipfile", "datetime", "ast", "enum", "logging",
            "socket", "threading", "pickle", "decimal", "_pydecimal", "_pydatetime", "turtle", "doctest", "difflib",
            "mailbox", "optparse", "pdb", "plistlib", "shutil", "smtplib", "ssl", "statistics", "tokenize", "uuid",
            "calendar", "configparser", "copy", "csv", "dataclasses", "functools", "gettext", "imaplib", "ipaddress",
            "locale", "pathlib", "platform", "random", "selectors", "tempfile", "textwrap", "traceback",
            "unittest.mock", "xml.dom.minidom", "http.client", "http.server", "urllib.request", "email.message",
            "asyncio.base_events", "asyncio.tasks", "asyncio.streams", "concurrent.futures.process")  # fmt: skip

Answer = TypeVar("Answer")


async def demo(home: str | None, session: str | None, as_json: bool) -> int:
    tour = Tour(quiet=as_json)
    if home is None and "HOLDALL_HOME" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="holdall-demo-") as folder:
            same = await tour.walk(open_bag(os.path.join(folder, "home"), session))
    else:
        same = await tour.walk(open_bag(home, session))
    if as_json:
        show.as_json(tour.figures)
    return 0 if same else FAULT


class Tour:
    """Prints as it goes, or only gathers its figures."""

    def __init__(self, *, quiet: bool) -> None:
        self.figures: dict[str, object] = {}
        self._quiet = quiet

    async def walk(self, bag: Holdall) -> bool:
        async with bag:
            self._say("Running `python -m dis` over modules of the standard library, a real tool that prints much …\n")
            output = await self._timed("disassembled", _disassembly())
            self._say(f"      {size(len(output))}")
            kept = await self._timed("kept", bag.keep(output, tool="python -m dis", call_id="demo"))
            self.figures |= {"bytes": kept.measure.bytes, "lines": kept.measure.lines, "tokens": kept.measure.tokens}
            self._say(f"\nA model would see this in place of {size(kept.measure.bytes)}:\n")
            self._say(_indented(await bag.notice(kept.handle)))
            self._say("\nand fetch exactly what it needs:\n")
            await self._fetch(bag, kept)
            back = await self._timed("reading back, block by block", _read_back(bag, kept.handle))
            same = back == kept.measure.sha256 == hashlib.sha256(output).hexdigest()
            self.figures |= {"identical": same, "sha256": back}
            verdict = "identical" if same else "NOT identical"
            self._say(f"      {grouped(kept.measure.bytes)} bytes, {verdict}: sha256 {back}")
            return same

    async def _fetch(self, bag: Holdall, kept: Facts) -> None:
        handle = kept.handle
        counted = bag.grep(handle, "RETURN_GENERATOR", count=True)
        found = await self._timed(f"grep {handle} 'RETURN_GENERATOR' --count", counted)
        self._say(f"      {found.total:,}")
        pattern = r"LOAD_GLOBAL .*\((?:NULL \+ )?(\w+)"
        grouping = bag.grep(handle, pattern, group=True, limit=3)
        groups = await self._timed(f"grep {handle} '{pattern}' --group -m 3", grouping)
        for group in groups.groups:
            self._say(f"      {group.count:>6,}  {group.value}")
        sql = "select count(*) from t where text like '%CALL%'"
        table = await self._timed(f'query {handle} "{sql}"', bag.query(handle, sql))
        calls = table.rows[0][0] if isinstance(table, Table) else 0
        self._say(f"      {calls:,}")
        middle = kept.measure.lines // 2
        reading = bag.read(handle, lines=(middle, middle + 2))
        passage = await self._timed(f"read {handle} --lines {middle}:{middle + 2}", reading)
        self._say(_indented(passage.text.rstrip("\n"), 6))
        self.figures |= {"grep_count": found.total, "group_first": groups.groups[0].value, "sql_count": calls}

    async def _timed(self, what: str, work: Awaitable[Answer]) -> Answer:
        started = time.perf_counter()
        answer = await work
        spent = (time.perf_counter() - started) * 1000
        self.figures[what.split(maxsplit=1)[0] + "_ms"] = round(spent, 1)
        self._say(f"  {show.paint(what, 'bold')}  {show.paint(f'{spent:,.0f} ms', 'dim')}")
        return answer

    def _say(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)


async def _disassembly() -> bytes:
    """Run the real command module after module, until there is enough."""
    parts: list[bytes] = []
    for module in _MODULES:
        program = f"import dis, inspect, {module} as m; dis.dis(compile(inspect.getsource(m), m.__file__, 'exec'))"
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "ignore", "-c", program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        printed, _ = await process.communicate()
        parts.append(printed)
        if sum(map(len, parts)) >= _ENOUGH:
            break
    return b"".join(parts)


async def _read_back(bag: Holdall, handle: str) -> str:
    digest = hashlib.sha256()
    async for chunk in bag.stream(handle):
        digest.update(chunk)
    return digest.hexdigest()


def _indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))
