"""Servers that misbehave: each call ends in one answer or one error that says what happened and what to do."""

import asyncio
import functools
import json
import math
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.mcp.client import codec, server_process
from holdall.mcp.client.connection import Connection, Reply, Servers
from holdall.mcp.client.dispatch import Dispatcher
from holdall.mcp.client.routes import Callbacks, Declined, Mailbox
from holdall.mcp.client.server_process import Bounds, StdioChannel, StopTimeouts
from holdall.mcp.client.spec import StdioServer
from holdall.values.errors import StoreFault, UpstreamFault, UpstreamRefused, UpstreamTimeout
from tests.requirements import requirement
from tests.upstream.support import bad, lines_of, lives, means, pid_of, text_of, until

pytestmark = pytest.mark.anyio


async def fault_of(connection: Connection, tool: str, arguments: dict[str, Any] | None = None, **more: Any) -> str:
    with pytest.raises(UpstreamFault) as caught:
        await connection.call(tool, arguments, **more)
    assert isinstance(caught.value, StoreFault), "exit code 3"
    return str(caught.value)


async def test_a_death_in_the_middle_of_a_call_is_told_with_exit_code_and_last_words_and_the_next_call_works() -> None:
    async with Servers([bad()], means=means()) as servers:
        one = servers["bad"]
        first = await pid_of(one)
        calls = [fault_of(one, "die", {"code": 3})]
        assert await asyncio.gather(*calls) == snapshot(
            [
                'MCP server "bad" ended with exit code 3 while "die" ran. It last wrote: "Traceback: it is all over". What this call has done is not known. The next one starts it again.'
            ]
        )
        second = await pid_of(one)
        assert second != first
        assert not lives(first)
        assert await fault_of(one, "crash") == snapshot(
            'MCP server "bad" was killed by signal 11 while "crash" ran. What this call has done is not known. The next one starts it again.'
        )
        assert await fault_of(one, "break off") == snapshot(
            'MCP server "bad" ended with exit code 0 in the middle of a message while "break off" ran. What this call has done is not known. The next one starts it again.'
        )
        assert text_of(await one.call("echo", {"text": "on"})) == "on"


async def test_a_server_that_reads_no_more_is_named_and_started_again() -> None:
    async with Servers([bad()], means=means()) as servers:
        one = servers["bad"]
        first = await pid_of(one)
        assert text_of(await one.call("close stdin")) == "deaf"
        assert await asyncio.gather(fault_of(one, "echo"), fault_of(one, "echo")) == 2 * [
            'MCP server "bad" closed its standard input while "echo" ran. What this call has done is not known. The next one starts it again.'
        ]
        assert await pid_of(one) != first


async def test_the_words_of_a_server_are_no_end_of_it() -> None:
    async with Servers([bad()], means=means()) as servers:
        with pytest.raises(UpstreamRefused, match="Connection closed"):
            await servers["bad"].call("as if closed")


async def test_every_call_that_was_under_way_ends_with_the_death_of_its_server_and_no_other_server_feels_it() -> None:
    async with Servers([bad(), bad(name="other")], means=means()) as servers:
        one, other = servers["bad"], servers["other"]
        await asyncio.gather(one.start(), other.start())
        hanging = [asyncio.create_task(fault_of(one, "silence")) for _ in range(5)]
        calm = other.call("echo", {"text": "calm"})
        dying = asyncio.create_task(fault_of(one, "die"))
        async with asyncio.timeout(100):
            faults = await asyncio.gather(*hanging, dying)
        assert all("ended with exit code 1 while" in fault for fault in faults)
        assert text_of(await calm) == "calm"


async def test_a_server_that_closes_its_output_and_lives_on_is_ended() -> None:
    async with Servers([bad()], means=means()) as servers:
        first = await pid_of(servers["bad"])
        assert await fault_of(servers["bad"], "close stdout") == snapshot(
            'MCP server "bad" closed its standard output while "close stdout" ran. What this call has done is not known. The next one starts it again.'
        )
        await until(lambda: not lives(first))
        assert text_of(await servers["bad"].call("echo", {"text": "on"})) == "on"


async def test_one_call_without_an_answer_is_overdue_and_cancelled_and_the_server_stays(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with Servers([bad("-", str(journal))], means=means()) as servers:
        one = servers["bad"]
        first = await pid_of(one)
        assert await fault_of(one, "silence", timeout=0.2) == snapshot(
            'MCP server "bad" did not answer "silence" within 0.2 s, and reported no progress. It was told to stop; what it has done until then is not known. A longer deadline can be given.'
        )
        await until(lambda: any(line.startswith("cancelled") for line in lines_of(journal)))
        assert await pid_of(one) == first, "it answered a ping, so it was not ended"


async def test_a_server_that_hangs_is_found_out_after_the_deadline_and_started_again() -> None:
    async with Servers([bad()], means=means()) as servers:
        one = servers["bad"]
        first = await pid_of(one)
        with pytest.raises(UpstreamTimeout):
            await one.call("hang", timeout=0.2)
        await until(lambda: not lives(first))
        assert await pid_of(one) != first


async def test_a_call_that_waits_when_a_hung_server_is_ended_is_told_so() -> None:
    async with Servers([bad()], means=means()) as servers:
        one = servers["bad"]
        await one.start()
        with pytest.raises(UpstreamTimeout):
            await one.call("hang", timeout=0.2)
        assert await fault_of(one, "echo", timeout=30) == snapshot(
            'MCP server "bad" hung: it did not answer a ping, and was ended while "echo" ran. What this call has done is not known. The next one starts it again.'
        )


async def test_what_is_no_message_is_passed_over() -> None:
    async with Servers([bad()], means=means()) as servers:
        assert text_of(await servers["bad"].call("garbage")) == "after garbage"
        assert text_of(await servers["bad"].call("echo", {"text": "on"})) == "on"


async def test_a_server_that_floods_its_output_is_cut_off() -> None:
    bounds = Bounds(message_bytes=5_000_000, noise_bytes=1_000_000)
    async with Servers([bad(), bad(name="other")], means=means(bounds=bounds)) as servers:
        one, other = servers["bad"], servers["other"]
        pids = await asyncio.gather(pid_of(one), pid_of(other))
        async with asyncio.timeout(100):
            flood, calm = await asyncio.gather(fault_of(one, "flood"), other.call("echo", {"text": "calm"}))
            assert re.sub(r'wrote: ".*?"', 'wrote: "…"', flood) == snapshot(
                'MCP server "bad" wrote more than 1,000,000 bytes on standard output that are no messages while "flood" ran. It last wrote: "…". What this call has done is not known. The next one starts it again.'
            )
            assert await fault_of(one, "endless") == snapshot(
                'MCP server "bad" sent one message of more than 5,000,000 bytes (the setting server_max_bytes allows more) while "endless" ran. What this call has done is not known. The next one starts it again.'
            )
        assert text_of(calm) == "calm"
        await until(lambda: not lives(pids[0]))
        assert await pid_of(other) == pids[1]


async def test_standard_error_is_read_without_end_and_only_its_end_is_kept() -> None:
    async with Servers([bad()], means=means()) as servers:
        one = servers["bad"]
        assert text_of(await one.call("stderr", {"words": 2_000_000}, timeout=100)) == "said"
        fault = await fault_of(one, "die")
        assert len(fault) < 1500
        assert fault.count("the last words") == 1


async def test_what_a_server_says_of_its_secrets_is_masked() -> None:
    spec = bad(environment={"SECRET_KEY": "sk-live-12345"})
    assert "sk-live" not in repr(spec)
    async with Servers([spec], means=means()) as servers:
        assert await fault_of(servers["bad"], "leak") == snapshot(
            'MCP server "bad" ended with exit code 1 while "leak" ran. It last wrote: "my key is ***". What this call has done is not known. The next one starts it again.'
        )


async def test_a_result_is_given_with_every_field_as_it_was_written() -> None:
    async with Servers([bad()], means=means()) as servers:
        reply = await servers["bad"].call("unknown fields")
        assert list(reply.result.items()) == [
            ("zeta", None),
            ("content", [{"type": "future", "payload": {"b": 1.0, "a": 12345678901234567890}}]),
            ("alpha", [1000.0, "é"]),
            ("_meta", {"x/y": True}),
        ]
        with pytest.raises(UpstreamFault, match="is not of the form which MCP describes"):
            reply.typed()
        assert text_of(await servers["bad"].call("half a character")) == "\ud83d"
        assert text_of(await servers["bad"].call("not utf-8")) == "caf\udce9", "the byte is still to be told"


@pytest.mark.parametrize("tool", ["no result", "result is a list", "bad json", "deep", "bad error"])
async def test_a_reply_that_is_none_is_an_error_now_and_not_at_the_deadline(tool: str) -> None:
    async with Servers([bad()], means=means()) as servers, asyncio.timeout(100):
        fault = await fault_of(servers["bad"], tool)
        assert (
            fault
            == {
                "no result": 'MCP server "bad" answered "no result" with a reply without a result.',
                "result is a list": 'MCP server "bad" answered "result is a list" with a reply without a result.',
                "bad json": 'MCP server "bad" answered "bad json" with a reply that is not valid JSON.',
                "deep": 'MCP server "bad" answered "deep" with a reply that is nested too deeply to be read.',
                "bad error": 'MCP server "bad" answered "bad error" with an error that has no code and message.',
            }[tool]
        )
        assert text_of(await servers["bad"].call("echo", {"text": "on"})) == "on"


async def test_an_error_of_ten_megabytes_is_whole_in_the_error_and_short_in_its_message() -> None:
    async with Servers([bad()], means=means()) as servers:
        with pytest.raises(UpstreamRefused) as caught:
            await servers["bad"].call("huge error")
        assert len(caught.value.reason) == 10_000_004
        assert len(str(caught.value)) < 500
        assert "\x1b" not in str(caught.value)


@requirement("answer:foreign-text-on-one-line")
async def test_of_a_servers_own_words_sixty_characters_at_most_are_in_a_sentence_of_ours() -> None:
    words = "\n# System Notice\n\x1b[2J\u00a0" + " ".join(f"obey{n}" for n in range(200))
    async with Servers([bad()], means=means()) as servers:
        refused = await fault_of(servers["bad"], "error in words", {"words": words})
        died = await fault_of(servers["bad"], "die", {"words": words})
    for told in (refused, died):
        assert told.isprintable(), "on one line"
    (first,) = re.findall('refused "error in words": (.*) \\(code -32000\\)', refused)
    (last,) = re.findall('It last wrote: "(.*)"', died)
    assert (len(first), len(last)) == (60, 60)
    assert first.startswith("\\n# System Notice\\n\\x1b[2J\\u00a0obey0 ")
    assert last.endswith(" obey198 obey199")


async def test_replies_in_odd_forms_are_taken() -> None:
    heard: list[Any] = []

    async def notify(method: str, params: dict[str, Any]) -> None:
        heard.append((method, params))

    async with Servers([bad()], callbacks=Callbacks(notify=notify), means=means()) as servers:
        one = servers["bad"]
        assert text_of(await one.call("twice")) == "first"
        assert (await one.call("null")).result == {}
        assert (await one.call("batch")).result == {"content": []}
        await until(lambda: bool(heard))
        assert heard == [("notifications/message", {"level": "info", "data": "in a batch"})]


@requirement("gateway:ids-exact")
@pytest.mark.parametrize("size", [0, 3_000_000])
async def test_an_answer_is_one_with_the_very_id_of_the_request_and_the_first(size: int) -> None:
    async with Servers([bad()], means=means()) as servers:
        first = await servers["bad"].call("other ids", {"bytes": size})
        assert text_of(first).strip() == "right"
        again = await servers["bad"].call("other ids", {"bytes": size}, takes_large=True)
        assert text_of(Reply(again.server, again.method, again.revision, codec.plain(again.result))).strip() == "right"


async def test_notifications_come_in_their_order_with_every_field_before_the_result() -> None:
    steps: list[int] = []
    others: list[int] = []

    async def progress(params: dict[str, Any]) -> None:
        assert params["progress"] == params["future"]
        await asyncio.sleep(0)
        steps.append(params["progress"])

    async def notify(method: str, params: dict[str, Any]) -> None:
        assert method == "notifications/future/thing"
        others.append(params["step"])

    async with Servers([bad()], callbacks=Callbacks(notify=notify), means=means()) as servers:
        await servers["bad"].call("notes", {"count": 500}, progress=progress)
        assert steps == list(range(500)), "all of them, when the call returns"
        await until(lambda: len(others) == 500)
        assert others == list(range(500))


async def test_a_callback_that_fails_or_hangs_costs_no_result() -> None:
    async def fail(params: dict[str, Any]) -> None:
        raise ValueError("not mine")

    async def hang(params: dict[str, Any]) -> None:
        await asyncio.Event().wait()

    async with Servers([bad()], means=means()) as servers, asyncio.timeout(100):
        one = servers["bad"]
        assert text_of(await one.call("notes", {"count": 3}, progress=fail)) == "noted"
        assert text_of(await one.call("notes", {"count": 3}, progress=hang)) == "noted"


async def test_a_reply_that_drips_in_byte_by_byte_is_bounded_by_the_deadline_and_holds_up_nobody() -> None:
    async with Servers([bad(), bad(name="other")], means=means()) as servers:
        one, other = servers["bad"], servers["other"]
        await asyncio.gather(one.start(), other.start())
        drip = asyncio.create_task(fault_of(one, "drip", {"pause": 0.2}, timeout=0.5))
        assert text_of(await other.call("echo", {"text": "calm"})) == "calm"
        assert "did not answer" in await drip


# The greeting


async def start_fault(spec: StdioServer) -> str:
    async with Servers([spec], means=means()) as servers:
        with pytest.raises(UpstreamFault) as caught:
            await servers[spec.name].start()
    return str(caught.value)


@pytest.mark.parametrize("revision", ["handshake", "auto"])
async def test_a_server_that_never_answers_the_greeting_is_given_up_and_ended(revision: Any, tmp_path: Path) -> None:
    journal = tmp_path / "pids"
    for seconds in (0.8, 5.0, 60.0):  # on a busy machine it has not begun by then
        fault = await start_fault(bad("never greets", str(journal), revision=revision, start_seconds=seconds))
        assert fault.startswith(f'MCP server "bad" did not answer the greeting within {seconds:g} s.')
        if lines_of(journal):
            break
    assert not lives(int(lines_of(journal)[0]))


async def test_a_greeting_that_comes_to_nothing_says_why(tmp_path: Path) -> None:
    faults = [
        await start_fault(bad("dies at once")),
        await start_fault(bad("dies at once", revision="auto")),
        await start_fault(bad("refuses")),
        await start_fault(bad("speaks another revision")),
        await start_fault(bad(revision="2026-07-28")),
        await start_fault(StdioServer("none", "no-such-program-here", source="mcp.json")),
        await start_fault(StdioServer("none", "npx -y something")),
        await start_fault(StdioServer("none", "python3", cwd="/no/such/folder")),
    ]
    python = re.compile(r"\bpython[0-9.]*\b")
    assert [python.sub("python", fault) for fault in faults] == snapshot(
        [
            'MCP server "bad" ended with exit code 2 before it was ready. It last wrote: "no such option: --frobnicate". Run python with its arguments in a terminal to see what it needs.',
            'MCP server "bad" ended with exit code 2 before it was ready. It last wrote: "no such option: --frobnicate". Run python with its arguments in a terminal to see what it needs.',
            'MCP server "bad" refused "initialize": not today (code -32603).',
            "MCP server \"bad\" speaks '1999-01-01' of MCP, which is not known here.",
            'MCP server "bad" does not speak MCP 2026-07-28.',
            'MCP server "none" cannot be started: no-such-program-here: No such file or directory. Install it, or correct its command in mcp.json.',
            'MCP server "none" cannot be started: npx -y something: No such file or directory. Its command has spaces in it: what follows the program belongs into args.',
            'MCP server "none" has a working folder that does not exist. Correct cwd.',
        ]
    )


async def test_a_server_of_the_older_era_that_is_silent_about_the_newer_one_is_greeted_all_the_same() -> None:
    spec = bad("is silent about what it does not know", revision="auto")
    async with Servers([spec], means=means()) as servers, asyncio.timeout(100):
        assert (await servers["bad"].start()).revision == "2025-06-18"


# Lists of tools


async def test_what_is_no_tool_in_a_list_is_left_out_and_the_rest_is_as_it_came() -> None:
    async with Servers([bad("lists oddly")], means=means()) as servers:
        assert await servers["bad"].tools() == ({"name": "echo", "future": 1, "outputSchema": 5},)


async def test_a_list_without_end_has_one() -> None:
    async with Servers([bad("lists without end")], means=means()) as servers:
        with pytest.raises(UpstreamFault, match="lists tools without end"):
            await servers["bad"].tools()


async def test_the_pages_of_a_list_have_a_deadline_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async def endless(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("holdall.mcp.client.connection.listing", endless)
    async with Servers([bad(call_seconds=0.1)], means=means()) as servers:
        with pytest.raises(UpstreamFault, match=r"did not list its tools within 0\.2 seconds"):
            await servers["bad"].tools()


async def test_the_pages_of_a_list_have_a_bound_together(caplog: pytest.LogCaptureFixture) -> None:
    async with Servers([bad("lists large pages")], means=means()) as servers:
        assert [tool["name"] for tool in await servers["bad"].tools()] == [f"t{at}" for at in range(8)]
    assert 'MCP server "bad" lists more than 32 MiB of tools; only the first 8 are listed' in caplog.text


async def test_very_many_values_come_as_one_text_read_in_a_thread_also_where_the_server_ends_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readers: set[int] = set()
    read = codec.decode

    def noting(line: bytearray, kept: codec.Kept | None = None) -> list[codec.Message]:
        if len(line) >= codec.LARGE:
            readers.add(threading.get_ident())
        return read(line, kept)

    monkeypatch.setattr(codec, "decode", noting)
    async with Servers([bad(), bad("lists very many", name="lists")], means=means()) as servers:
        reply = await servers["bad"].call("many", takes_large=True)
        text = text_of(reply)
        assert len(json.loads(text)["content"]) == 100_000
        with pytest.raises(UpstreamFault, match='answered "tools/list" with a reply of more than 250,000 values'):
            await servers["lists"].tools()
    assert readers
    assert threading.get_ident() not in readers, "else everybody waits"


async def test_one_server_that_does_not_start_keeps_no_other_from_being_used() -> None:
    async with Servers([bad("dies at once", name="dead"), bad()], means=means()) as servers:
        found = await servers.tools()
        assert isinstance(found["dead"], UpstreamFault)
        assert found["bad"] == ({"name": "echo", "inputSchema": {}},)


# Starting again


async def test_a_server_that_dies_again_and_again_is_started_less_and_less_often(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    now, slept = 1000.0, list[float]()

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    spec = bad("dies at once", str(pids))
    async with Servers([spec], means=means(clock=lambda: now, sleep=sleep)) as servers:
        faults: list[str] = []
        for _ in range(8):
            with pytest.raises(UpstreamFault) as caught:
                await servers["bad"].start()
            faults.append(str(caught.value))
        assert slept == [0.5, 1.0, 2.0, 4.0]
        assert len(lines_of(pids)) == 6, "then it rests, and calls are told so at once"
        assert faults[-1].endswith("and is started again in 8 s, with the next call.")
        assert "no such option: --frobnicate" in faults[-1]
        now += 8
        with pytest.raises(UpstreamFault, match="before it was ready"):
            await servers["bad"].start()
        assert len(lines_of(pids)) == 7


async def test_a_server_that_answers_before_it_dies_is_always_started_again_at_once(tmp_path: Path) -> None:
    async def sleep(seconds: float) -> None:
        raise AssertionError(seconds)

    async with Servers([bad()], means=means(sleep=sleep)) as servers:
        for _ in range(5):
            assert text_of(await servers["bad"].call("echo", {"text": "on"})) == "on"
            await fault_of(servers["bad"], "die")


async def test_without_a_deadline_a_call_waits_for_as_long_as_it_takes() -> None:
    async with Servers([bad(call_seconds=0.2)], means=means()) as servers:
        reply = await servers["bad"].call("drip", {"pause": 0.01}, timeout=math.inf)
        assert reply.result == {"content": []}


def ignore(*_: object) -> None:
    """A notification."""


async def refuse(*_: object) -> dict[str, Any]:
    raise Declined(-32601, "no")


class Said:
    """A channel on which a server says one thing after the other, and reads nothing until it may."""

    pid, heard = None, 0

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.kept = codec.Kept()
        self.sent: list[dict[str, Any]] = []
        self.reads = asyncio.Event()
        self.all_said = asyncio.Event()
        self._messages = iter(messages)

    async def receive(self) -> tuple[dict[str, Any], None] | None:
        message = next(self._messages, None)
        if message is None:
            self.all_said.set()
            await asyncio.Event().wait()
        return (message or {}), None

    async def send(self, message: dict[str, Any], headers: object) -> None:
        await self.reads.wait()
        self.sent.append(message)

    async def why(self) -> tuple[str, str]:
        return "", ""

    def said(self) -> str:
        return ""


@requirement("gateway:bounded-questions")
@pytest.mark.parametrize(
    ("count", "size", "taken"), [(100, 1000, 32), (5000, 10, 32), (10, 2**20, 7), (3, 9 * 2**20, 0)]
)
async def test_of_very_many_questions_or_very_large_ones_the_last_are_refused(
    count: int, size: int, taken: int
) -> None:
    text = "x" * size
    ping = {"id": "ping", "method": "ping", "params": {"x": text}}
    channel = Said(*({"id": n, "method": "roots/list", "params": {"x": text}} for n in range(count)), ping)
    asked: list[dict[str, Any]] = []
    answer = asyncio.Event()

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params)
        await answer.wait()
        return {}

    dispatcher = Dispatcher(channel, ignore, ask)
    running = asyncio.ensure_future(dispatcher.run())
    await channel.all_said.wait()
    await asyncio.sleep(0)
    assert len(asked) == taken
    assert len(asyncio.all_tasks()) < 1100
    answer.set()
    channel.reads.set()
    await until(lambda: len(channel.sent) >= min(count + 1, 1000))
    assert ({"jsonrpc": "2.0", "id": "ping", "result": {}} in channel.sent) == (count < 1000)
    channel.sent = [one for one in channel.sent if one["id"] != "ping"]
    refused = [one for one in channel.sent if "error" in one]
    assert len(channel.sent) - len(refused) == taken
    assert {one["error"]["message"] for one in refused} == {
        "more than 32 requests of a server at once, or 8 MiB of them, are refused"
    }
    running.cancel()


async def test_a_reply_that_nobody_asked_for_leaves_nothing_behind() -> None:
    kept = codec.Kept()
    structure = ",".join(['{"a": 1}'] * 5000)
    for number in ('"' + "x" * 900_000 + '"', '"7"', "7"):
        line = f'{{"jsonrpc": "2.0", "id": {number}, "result": {{"structuredContent": [{structure}]}}}}'
        for message in codec.decode(bytearray(line.encode()), kept):
            channel = Said(message)
            channel.kept = kept
            running = asyncio.ensure_future(Dispatcher(channel, ignore, refuse).run())
            await channel.all_said.wait()
            running.cancel()
    assert kept.large == set()


async def test_notifications_that_wait_are_bounded_by_their_bytes(caplog: pytest.LogCaptureFixture) -> None:
    mailbox, delivered, go_on = Mailbox(), list[int](), asyncio.Event()

    async def deliver(number: int) -> None:
        await go_on.wait()
        delivered.append(number)

    for number in range(100):
        mailbox.put(functools.partial(deliver, number), {"data": ["x" * 2**20]})
    go_on.set()
    await until(lambda: delivered[-1:] == [99])
    assert 25 < len(delivered) < 34
    assert "the oldest are dropped" in caplog.text


@pytest.mark.parametrize("said", ["answers", "notifications"])
async def test_a_server_that_reads_nothing_is_told_only_so_much(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "_MOST_UNREAD", 100_000)
    spec = StdioServer("deaf", sys.executable, ("-c", "import time; time.sleep(600)"))
    message: dict[str, Any] = {"method": "x", "params": {"x": "y" * 50_000}}
    if said == "answers":
        message = {"id": 1, "result": message}
    channel = StdioChannel(spec, environment=dict(os.environ), bounds=Bounds(), patience=StopTimeouts(0, 0, 1))
    async with channel:
        sending = [asyncio.ensure_future(channel.send(message, {})) for _ in range(200)]
        await asyncio.wait(sending, timeout=0.05)
        child = channel._child  # pyright: ignore[reportPrivateUsage]
        assert child is not None
        assert child.unread < 200_000
        # Answers wait, and those who answer are counted; notifications that nobody reads are dropped.
        assert sum(one.done() for one in sending) < 10 if said == "answers" else all(one.done() for one in sending)
        for one in sending:
            one.cancel()


class _Quiet:
    """A child whose pipe can be paused."""

    unread, said, pid, is_paused = 0, "", 1, False

    def __init__(self) -> None:
        self.is_resumed = asyncio.Event()

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_resumed.set()


async def test_a_server_that_says_very_much_waits_while_others_have_their_turn() -> None:
    """All of it on one loop, chunk after chunk, kept the calls of everybody else waiting for seconds."""
    spec = StdioServer("loud", sys.executable, ())
    channel = StdioChannel(spec, environment={}, bounds=Bounds(), patience=StopTimeouts(0, 0, 1))
    child: Any = _Quiet()
    channel._child = child  # pyright: ignore[reportPrivateUsage]
    count = 100_000
    channel._hear(b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * count)  # pyright: ignore[reportPrivateUsage]
    assert child.is_paused
    assert channel._inbox.qsize() < count  # pyright: ignore[reportPrivateUsage]
    for _ in range(count):
        assert await channel.receive() is not None
    async with asyncio.timeout(60):
        await child.is_resumed.wait()
