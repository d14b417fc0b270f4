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
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from holdall.bag import Holdall
from holdall.cli import show
from holdall.cli.options import FAULT, open_bag
from holdall.text.numbers import size
from holdall.values.answers import Table
from holdall.values.facts import Facts

_ENOUGH = 10 * 1024 * 1024
_MODULES = ("typing", "argparse", "inspect", "subprocess", "tarfile", "zipfile", "datetime", "ast", "enum", "logging",
            "socket", "threading", "pickle", "decimal", "_pydecimal", "_pydatetime", "turtle", "doctest", "difflib",
            "mailbox", "optparse", "pdb", "plistlib", "shutil", "smtplib", "ssl", "statistics", "tokenize", "uuid",
            "calendar", "configparser", "copy", "csv", "dataclasses", "functools", "gettext", "imaplib", "ipaddress",
            "locale", "pathlib", "platform", "random", "selectors", "tempfile", "textwrap", "traceback",
            "unittest.mock", "xml.dom.minidom", "http.client", "http.server", "urllib.request", "email.message",
            "asyncio.base_events", "asyncio.tasks", "asyncio.streams", "concurrent.futures.process", "multiprocessing.managers")  # fmt: skip

Answer = TypeVar("Answer")


async def demo(home: str | None, session: str | None, as_json: bool) -> int:
    del as_json
    if home is None and "HOLDALL_HOME" not in os.environ:
        with tempfile.TemporaryDirectory(prefix="holdall-demo-") as folder:
            return await _tour(open_bag(os.path.join(folder, "home"), session))
    return await _tour(open_bag(home, session))


async def _tour(bag: Holdall) -> int:
    async with bag:
        print(f"Keeping what `python -m dis` prints for {len(_MODULES)} modules of the standard library …\n")
        source = _Disassembly()
        kept = await _timed("kept", bag.keep(source.parts(), tool="python -m dis", call_id="demo-1"))
        print(f"\nA model would see this in place of {size(kept.measure.bytes)}:\n")
        print(_indented(await bag.notice(kept.handle)))
        print("\nand fetch exactly what it needs:\n")
        await _fetch(bag, kept)
        digest = hashlib.sha256()
        started = time.perf_counter()
        async for chunk in bag.stream(kept.handle):
            digest.update(chunk)
        same = digest.hexdigest() == source.digest.hexdigest() == kept.measure.sha256
        print(f"\n  read back {kept.measure.bytes:,} bytes in {_ms(started)}, block by block: "
              f"{'identical' if same else 'NOT identical'}, sha256 {kept.measure.sha256[:16]}…")  # fmt: skip
        return 0 if same else FAULT


async def _fetch(bag: Holdall, kept: Facts) -> None:
    handle = kept.handle
    found = await _timed(f"grep {handle} 'RETURN_GENERATOR' --count", bag.grep(handle, "RETURN_GENERATOR", count=True))
    print(f"      {found.total:,} matches")
    grouped = await _timed(
        f"grep {handle} 'LOAD_GLOBAL .*\\((?:NULL \\+ )?(\\w+)' --group",
        bag.grep(handle, r"LOAD_GLOBAL .*\((?:NULL \+ )?(\w+)", group=True, limit=3),
    )
    for group in grouped.groups:
        print(f"      {group.count:>6,}  {group.value}")
    sql = "select count(*) as n from t where text like '%CALL%'"
    table = await _timed(f'query {handle} "{sql}"', bag.query(handle, sql))
    print(f"      {table.rows[0][0]:,}" if isinstance(table, Table) else "")
    middle = kept.measure.lines // 2
    passage = await _timed(f"read {handle} --lines {middle}:{middle + 2}", bag.read(handle, lines=(middle, middle + 2)))
    print(_indented(passage.text.rstrip("\n"), 6))


class _Disassembly:
    """Runs the real command module after module, until there is enough."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    async def parts(self) -> AsyncIterator[bytes]:
        size_so_far = 0
        for module in _MODULES:
            program = f"import dis, inspect, {module} as m; dis.dis(compile(inspect.getsource(m), m.__file__, 'exec'))"
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "ignore", "-c", program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            part, _ = await process.communicate()
            self.digest.update(part)
            size_so_far += len(part)
            yield part
            if size_so_far >= _ENOUGH:
                return


async def _timed(what: str, work: Awaitable[Answer]) -> Answer:
    started = time.perf_counter()
    answer = await work
    print(f"  {show.paint(what, 'bold')}  {show.paint(_ms(started), 'dim')}")
    return answer


def _ms(started: float) -> str:
    return f"{(time.perf_counter() - started) * 1000:,.0f} ms"


def _indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.split("\n"))
