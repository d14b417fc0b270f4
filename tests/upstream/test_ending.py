"""The end: every process is gone afterwards, by its own id, soon, and whoever was cancelled on the way."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from holdall.mcp.client.connection import Connection, Servers
from holdall.mcp.client.keeper import ConnectionOptions
from holdall.mcp.client.spec import HttpServer
from holdall.values.errors import UpstreamFault, UsageError
from tests.upstream.support import BAD, SOON, bad, lines_of, lives, means, pid_of, text_of, until

pytestmark = pytest.mark.anyio

MANNERS = ("-", "ignores the end", "has a child", "never greets")


async def test_closing_ends_all_processes_also_those_that_do_not_want_to(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    servers = Servers([bad(manner, str(pids), name=manner) for manner in MANNERS], means=ConnectionOptions())
    starts = [asyncio.create_task(one.start()) for one in servers]
    await until(lambda: len(lines_of(pids)) == 5 and sum(start.done() for start in starts) == 3)
    async with asyncio.timeout(SOON):  # one of them would never end
        await servers.aclose()
    assert not [pid for pid in lines_of(pids) if lives(int(pid))]
    with pytest.raises(UpstreamFault, match="was closed before it was ready"):
        await starts[-1]


async def test_calls_under_way_end_in_an_error_when_their_connection_is_closed() -> None:
    one = Connection(bad(), means=means())
    await one.start()
    calls = [asyncio.create_task(one.call("silence")) for _ in range(3)]
    listing = asyncio.create_task(one.call("hang"))
    await asyncio.sleep(0)
    await one.aclose()
    for call in (*calls, listing):
        with pytest.raises(
            UpstreamFault,
            match=r'"bad" was closed while "(silence|hang)" ran\. What this call has done is not known\.$',
        ):
            await call
    await one.aclose()  # a second time is no error


@pytest.mark.parametrize("how", ["task", "scope"])
async def test_no_process_is_left_when_the_one_who_keeps_the_servers_is_cancelled(how: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    scope = anyio.CancelScope()

    async def keep() -> None:
        with scope:
            async with Servers([bad("ignores the end", str(pids)), bad(name="b")], means=means()) as servers:
                await asyncio.gather(*(one.start() for one in servers))
                await servers["bad"].call("hang")

    task = asyncio.create_task(keep())
    await until(lambda: len(lines_of(pids)) == 1)
    if how == "scope":
        scope.cancel()
        await task
    else:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not lives(int(lines_of(pids)[0]))


async def test_who_gives_up_waiting_for_a_start_does_not_end_it_for_the_others() -> None:
    one = Connection(bad(), means=means())
    try:
        first = asyncio.create_task(one.start())
        second = asyncio.create_task(one.call("echo", {"text": "on"}))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert text_of(await second) == "on"
    finally:
        await one.aclose()


SCRIPT = """
import asyncio, sys
from holdall.mcp.client.connection import Connection
from holdall.mcp.client.spec import StdioServer

async def main():
    one = Connection(StdioServer("bad", sys.executable, (sys.argv[1], "ignores the end", sys.argv[2])))
    await one.start()
    asyncio.get_running_loop().create_task(one.call("hang"))
    await asyncio.sleep(0)
    {end}

{run}
"""


@pytest.mark.parametrize(
    ("end", "run"),
    [
        ("raise ValueError('forgot to close')", "asyncio.run(main())"),
        ("raise SystemExit(4)", "asyncio.run(main())"),
        ("pass", "loop = asyncio.new_event_loop(); loop.run_until_complete(main())"),
    ],
)
def test_no_process_outlives_a_program_that_forgot_to_close(end: str, run: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = SCRIPT.format(end=end, run=run)
    subprocess.run([sys.executable, "-c", script, BAD, str(pids)], capture_output=True, check=False, timeout=60)
    (pid,) = lines_of(pids)
    deadline = time.monotonic() + SOON
    while lives(int(pid)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def test_a_server_that_was_restarted_by_hand_is_a_new_process_with_the_next_call() -> None:
    one = Connection(bad(), means=means())
    try:
        first = await pid_of(one)
        os.kill(first, signal.SIGKILL)
        await until(lambda: one.pid is None)
        assert await pid_of(one) != first
    finally:
        await one.aclose()


async def test_closing_what_was_never_used_does_nothing(web: HttpServer) -> None:
    async with Servers([bad(), web], means=means()) as servers:
        assert servers.names == ("bad", "web")
        assert ("bad" in servers, "c" in servers, len(servers)) == (True, False, 2)
        with pytest.raises(UsageError, match=r'no MCP server "bat".*Did you mean "bad"'):
            servers["bat"]


def test_two_servers_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match='two MCP servers are called "bad"'):
        Servers([bad(), bad()])
