"""Several gateways of one client, a process each: one session, and one list of our tools."""

import asyncio
import hashlib
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from holdall.mcp.gateway import siblings
from holdall.mcp.gateway.siblings import running_client
from holdall.text.tokens import tokenizer_named
from holdall.values.errors import UsageError
from tests.gateway.support import BAD, HOLDALL, Wire, configured, gateway, plain, text_of, wire
from tests.gateway.test_keeping import handle_in
from tests.requirements import requirement
from tests.upstream.launch import forked, parent_of_forks
from tests.upstream.support import lines_of, until

pytestmark = pytest.mark.anyio
OURS = ["context_read", "context_grep", "context_tail", "context_query", "context_diff", "wait_for_tool_output"]
CHANGED = "notifications/tools/list_changed"
QUICK = ["--set", "slow_after_seconds=0.3"]
SHOWN = "L2  "


@asynccontextmanager
async def several(commands: Sequence[Sequence[str]]) -> AsyncGenerator[list[Wire]]:
    """They are all started by one process, as by a client, and greeted one after the other."""
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(wire(words)) for words in commands]
        for one in found:
            await one.greet()
        yield found


def named(home: Path, count: int, *options: str, before: Sequence[str] = ()) -> list[list[str]]:
    return [
        gateway(home, *options, f"--name=server {number}", before=before, server=plain()) for number in range(count)
    ]


def of_another_client(words: Sequence[str]) -> list[str]:
    """The same command, started by a process between us and it."""
    return ["sh", "-c", '"$@"; exit $?', "sh", *words]


async def ours_in(client: Wire) -> list[dict[str, Any]]:
    last = await client.result("tools/list", {"cursor": "2"})  # page of two
    return [tool for tool in last["tools"] if tool["name"] in OURS]


async def listing(clients: Sequence[Wire]) -> list[bool]:
    return [bool(await ours_in(one)) for one in clients]


async def kept(client: Wire, lines: int = 50_000) -> str:
    return handle_in(text_of(await client.call("big", lines=lines)))


async def found_by(client: Wire, handle: str) -> dict[str, Any]:
    return await client.call("context_grep", handle=handle, pattern="line", limit=2)


@requirement("gateway:one-session", "gateway:one-list", "gateway:server-name", "gateway:read-only-tools")
async def test_five_servers_of_a_client_have_one_list_of_our_tools_and_one_session(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(wire(words)) for words in named(tmp_path, 5)]
        greetings = await asyncio.gather(*(one.greet() for one in clients))
        assert sum("a notice with a handle" in one["instructions"] for one in greetings) == 1
        assert all(one["capabilities"]["tools"]["listChanged"] for one in greetings)
        lists = await asyncio.gather(*(ours_in(one) for one in clients))
        (ours,) = [one for one in lists if one]
        assert [tool["name"] for tool in ours] == OURS
        assert all(tool["annotations"] == {"readOnlyHint": True} for tool in ours)
        tokens = tokenizer_named("o200k").count(json.dumps(ours))
        assert tokens < 1_200, "with a list in each it was 5,097"
        results = await asyncio.gather(*(one.call("big", lines=50_000 + at) for at, one in enumerate(clients)))
        notices = [text_of(one) for one in results]
        for number, notice in enumerate(notices):
            assert notice.startswith(f"server {number}/big returned ")
        handles = [handle_in(notice) for notice in notices]
        assert len(set(handles)) == 5
        for one in clients:
            for handle in handles:
                assert SHOWN in text_of(await found_by(one, handle))
        listed = text_of(await clients[4].call("context_read"))
        assert all(handle in listed for handle in handles)
        link = (await clients[1].call("big", lines=60_000))["content"][1]["uri"]
        read = await clients[3].result("resources/read", {"uri": f"{link}?lines=2:3"})
        assert read["contents"][0]["text"] == "line\nline\n"


@pytest.mark.in_full(one_in=3)
@requirement("gateway:one-list")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "the end of its input"])
async def test_when_the_one_that_lists_our_tools_is_gone_another_lists_them_and_says_so(
    tmp_path: Path, how: str
) -> None:
    async with several(named(tmp_path, 3)) as clients:
        assert (await listing(clients)) == [True, False, False]
        first, *others = clients
        handle = await kept(first)
        if how == "the end of its input":
            assert first.process.stdin is not None
            first.process.stdin.close()
        else:
            first.process.send_signal(getattr(signal, how))
        heard = [asyncio.ensure_future(one.hears(CHANGED)) for one in others]
        done, waiting = await asyncio.wait(heard, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        for task in waiting:
            task.cancel()
        assert sorted(await listing(others)) == [False, True]
        for one in others:
            assert SHOWN in text_of(await found_by(one, handle))
        await first.ended()
        # One that comes later leaves the turn where it is.
        async with several(named(tmp_path, 1)) as (later,):
            assert (await listing([later])) == [False]
            assert SHOWN in text_of(await found_by(later, handle))


@requirement("gateway:one-session")
async def test_a_call_that_runs_in_the_background_of_one_is_waited_for_and_read_through_another(
    tmp_path: Path,
) -> None:
    async with several(named(tmp_path, 2, before=QUICK)) as (one, other):
        first = handle_in(text_of(await one.call("sleep", seconds=1)))
        waited = text_of(await other.call("wait_for_tool_output", handle=first))
        assert "Ended:\n- sleep" in waited
        second = handle_in(text_of(await one.call("sleep", seconds=1.5)))
        third = handle_in(text_of(await other.call("sleep", seconds=600)))
        ended = text_of(await other.call("wait_for_tool_output"))
        assert ended.startswith("Ended:")
        assert second in ended.partition("Still running:")[0]
        assert third in ended.partition("Still running:")[2]
        assert "slept" in text_of(await other.call("context_read", handle=second))
        again = text_of(await other.call("wait_for_tool_output", timeout=0))
        assert second not in again, "its end was told"
        assert third in again
        there = text_of(await one.call("wait_for_tool_output", timeout=0))
        assert third in there.partition("Still running:")[2], "what runs elsewhere is told, too"


@requirement("gateway:one-session")
async def test_a_gateway_that_is_killed_in_a_call_harms_no_other_and_loses_nothing_that_was_told(
    tmp_path: Path,
) -> None:
    journal = tmp_path / "journal"
    words = [gateway(tmp_path / "home", before=QUICK, server=plain("a", str(journal))) for _ in range(2)]
    async with several(words) as (one, other):
        handle = await kept(one)
        running = handle_in(text_of(await one.call("sleep", seconds=600, name="x")))
        assert "sleeps x" in lines_of(journal)
        _, waited = other.begin("tools/call", {"name": "wait_for_tool_output", "arguments": {}})
        _, written = other.begin("tools/call", {"name": "big", "arguments": {"lines": 70_000}})
        one.process.kill()
        text = text_of((await waited)["result"])
        assert text.startswith("Ended:")
        assert running in text
        assert "interrupted" in text
        for each in (handle, handle_in(text_of((await written)["result"]))):
            assert SHOWN in text_of(await found_by(other, each))


@requirement("gateway:one-session")
async def test_each_handle_that_was_told_before_a_kill_is_whole_through_the_others(tmp_path: Path) -> None:
    told: dict[int, dict[str, int]] = {0: {}, 1: {}, 2: {}}

    async def keep_some(number: int, client: Wire) -> None:
        for lines in range(50_000, 50_008):  # the same in each: identical outputs share their bytes
            told[number][await kept(client, lines)] = lines

    async with several(named(tmp_path, 3)) as clients:
        killed, *others = [asyncio.ensure_future(keep_some(*one)) for one in enumerate(clients)]
        await until(lambda: len(told[0]) >= 2)
        clients[0].process.kill()
        await clients[0].ended()
        killed.cancel()
        await asyncio.gather(*others)
        for client in clients[1:]:
            for handle, lines in (told[0] | told[1] | told[2]).items():
                found = text_of(await client.call("context_grep", handle=handle, pattern="line", count=True))
                assert f"{lines:,}" in found
        assert len(told[1]) == len(told[2]) == 8


@requirement("gateway:one-session")
async def test_two_clients_have_two_sessions_and_a_list_each(tmp_path: Path) -> None:
    words = named(tmp_path, 1)[0]
    async with several([words, of_another_client(words), gateway(tmp_path, "--client=b", server=plain())]) as clients:
        assert (await listing(clients)) == [True, True, True]
        handles = [await kept(one) for one in clients]
        for one in clients:
            for handle, owner in zip(handles, clients, strict=True):
                answer = await found_by(one, handle)
                unknown = text_of(await found_by(one, "zzzz")).replace("zzzz", handle)
                assert (SHOWN in text_of(answer)) is (one is owner)
                assert (text_of(answer) == unknown) is (one is not owner)
        assert clients[1].process.stdin is not None
        clients[1].process.stdin.close()
        assert (await clients[1].ended()) == 0


@requirement("gateway:one-session")
async def test_a_session_that_is_named_is_the_one_and_each_client_in_it_has_a_list(tmp_path: Path) -> None:
    one, two, *_ = named(tmp_path, 2, "--session=x")
    async with several([one, two, of_another_client(two), *named(tmp_path, 1, "--session=y")]) as clients:
        assert (await listing(clients)) == [True, False, True, True]
        handle = await kept(clients[0])
        assert [SHOWN in text_of(await found_by(one, handle)) for one in clients] == [True, True, True, False]
        assert clients[2].process.stdin is not None
        clients[2].process.stdin.close()
        assert (await clients[2].ended()) == 0


@requirement("gateway:one-list")
async def test_servers_that_are_started_again_for_another_conversation_have_a_list_of_their_own(tmp_path: Path) -> None:
    async with several(named(tmp_path, 2)) as first, several(named(tmp_path, 2)) as second:
        clients = [*first, *second]
        assert (await listing(clients)) == [True, False, True, False]
        handle = await kept(clients[0])
        assert SHOWN in text_of(await found_by(clients[3], handle))
        clients[2].process.kill()
        await clients[3].hears(CHANGED)
        assert (await listing([*clients[:2], clients[3]])) == [True, False, True]
        async with several(named(tmp_path, 1)) as (again,):  # in the place of the one that was killed
            assert (await listing([again])) == [False]


@requirement("gateway:one-list")
async def test_tools_that_are_listed_when_needed_are_listed_by_the_first_that_keeps_something(tmp_path: Path) -> None:
    async with several(named(tmp_path, 2, "--tools=when-needed")) as (one, other):
        assert (await listing([one, other])) == [False, False]
        await kept(other)
        await other.hears(CHANGED)
        await kept(one)
        assert (await listing([one, other])) == [False, True]


@requirement("gateway:one-list")
async def test_a_server_that_lists_nothing_does_not_keep_our_tools_from_the_model(tmp_path: Path) -> None:
    bad = gateway(tmp_path, server=[sys.executable, BAD, "refuses to list"])
    async with several([bad, *named(tmp_path, 1)]) as (one, other):
        assert (await listing([other])) == [False]
        assert "error" in await one.ask("tools/list")
        await other.hears(CHANGED)
        assert (await listing([other])) == [True]
        assert "Nothing is kept" in text_of(await one.call("context_read"))


@requirement("gateway:one-session")
async def test_outputs_that_are_kept_for_the_session_go_with_the_last_of_its_gateways(tmp_path: Path) -> None:
    async with several(named(tmp_path, 2, "--session=s", before=["--set", "retention=session"])) as (one, other):
        handle = await kept(one)
        one.process.send_signal(signal.SIGTERM)
        assert (await one.ended()) == 0
        assert SHOWN in text_of(await found_by(other, handle))
        other.process.send_signal(signal.SIGTERM)
        assert (await other.ended()) == 0
    words = [HOLDALL, "show", handle, "--home", str(tmp_path), "--session", "s", "--json"]
    show = await asyncio.create_subprocess_exec(*forked(words), stdout=asyncio.subprocess.PIPE)
    out, _ = await show.communicate()
    assert json.loads(out)["state"] == "expired"


# What others could put into the store, and what the system may not tell


def own_name() -> str:
    """Of the client that the process which starts them is to these gateways."""
    started = siblings._start_of(parent_of_forks())  # pyright: ignore[reportPrivateUsage]
    return f"client-{parent_of_forks()}-{hashlib.sha256(started.encode()).hexdigest()[:12]}"


@requirement("gateway:one-session", "gateway:one-list")
async def test_forged_files_in_the_store_lead_nowhere_outside_of_it(tmp_path: Path) -> None:
    home, outside = tmp_path / "home", tmp_path / "outside"
    outside.mkdir()
    async with several(named(home, 1)) as (first,):
        handle = await kept(first)
    (session,) = home.glob("session-*")
    turn = ".claim-" + hashlib.sha256(f"tools {own_name()} 0".encode()).hexdigest()[:32]
    assert not (session / turn).exists()
    (session / turn).symlink_to(outside / "made by a link")
    async with several(named(home, 2)) as clients:
        assert (await listing(clients)) == [True, True], "better twice than never"
        assert SHOWN in text_of(await found_by(clients[1], handle))
    name = home / "names" / hashlib.sha256(own_name().encode()).hexdigest()
    assert json.loads(name.read_text())["session"] == session.name.removeprefix("session-")
    secret = outside / "session-00000000-0000-4000-8000-000000000000"
    secret.mkdir()
    (secret / "session.json").write_text((session / "session.json").read_text())
    for forged in ("../outside/session-00000000-0000-4000-8000-000000000000", "../outside", "x", 7):
        name.write_text(json.dumps({"session": forged, "name": own_name()}))
        async with several(named(home, 1)) as (one,):
            assert SHOWN in text_of(await found_by(one, handle))
    assert sorted(path.name for path in outside.rglob("*")) == [secret.name, "session.json"]


def test_a_running_client_is_its_process_and_when_that_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    name = running_client()
    assert name == running_client() != running_client("cursor")
    assert running_client("cursor").startswith(f"cursor-{os.getppid()}-")
    by_ps = siblings._start_by_ps(os.getpid())  # pyright: ignore[reportPrivateUsage]
    assert by_ps == siblings._start_by_ps(os.getpid())  # pyright: ignore[reportPrivateUsage]
    assert len(by_ps.split()) == 5, "Mon Nov 16 04:12:31 2026"
    monkeypatch.setattr(siblings, "_start_of", Mock(return_value="later"))
    assert running_client() != name
    monkeypatch.setattr(siblings, "_start_of", Mock(return_value=""))
    assert running_client("cursor") == ""
    monkeypatch.undo()
    monkeypatch.setattr(os, "getppid", lambda: 0)
    assert running_client() == ""
    for wrong in ("a b", "../x", "x" * 65, "-x", "é"):
        with pytest.raises(UsageError, match="--client"):
            running_client(wrong)
    assert siblings._start_of(1 << 30) == ""  # pyright: ignore[reportPrivateUsage] - no process has that number


async def test_where_the_system_does_not_tell_who_has_started_it_each_gateway_is_alone(tmp_path: Path) -> None:
    script = "import os; os.getppid = lambda: 0; from holdall.__main__ import main; main()"  # as outside of a container
    words = [sys.executable, "-c", script, "gateway", "--home", str(tmp_path), "--", *plain()]
    async with several([words, words]) as (one, other):
        assert (await listing([one, other])) == [True, True]
        handle = await kept(one)
        assert (await found_by(other, handle))["isError"] is True


@requirement("gateway:server-name")
async def test_a_name_is_for_a_command_and_an_id_for_a_gateway_between_pipes(tmp_path: Path) -> None:
    config = configured(tmp_path, {"a": plain()})
    for options, complaint in (
        (["--config", config, "--name=b"], b"a file names its servers itself"),
        (["--http", "127.0.0.1:0", "--client=b", "--config", config], b"over HTTP the token tells clients"),
        (["--client=a b", "--config", config], b"it takes up to 64 letters"),
        (["--name=\n", "--", "x"], b"1 to 100 visible characters"),
    ):
        process = await asyncio.create_subprocess_exec(
            *forked([HOLDALL, "gateway", "--home", str(tmp_path), *options]),
            stdin=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, said = await process.communicate()
        assert process.returncode == 2
        assert complaint in said
