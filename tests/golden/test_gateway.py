"""What a client of the gateway gets, byte for byte, in both eras of the protocol, over stdio and over HTTP."""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.golden.gateway import Stdio, call, http, request, stdio
from tests.golden.golden import compare
from tests.golden.normal import Normal
from tests.requirements import requirement

# A call goes to the background only where it is meant to, however busy the machine is.
INITIALIZED = '{"jsonrpc": "2.0", "method": "notifications/initialized"}'
# And a notice is as long as its rules make it: how many tokens a random handle and tag take differs from run to run,
# so that one which just fits into a budget would not fit the next time. The notices of `test_notices.py` have budgets.
ROOMY = ("--set", "notice_max_tokens=3000")
PATIENT = (*ROOMY, "--set", "slow_after_seconds=600")


def greeting(newer: bool) -> Iterator[str]:
    if newer:
        yield request(0, "server/discover", newer=True)
    else:
        info = {"name": "golden", "version": "1", "title": "Golden"}
        params: dict[str, Any] = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": info,
        }
        yield request(0, "initialize", params)


def requests_of(newer: bool, *, few: bool = False) -> Iterator[str]:  # noqa: PLR0915 - one line for each request
    """`few` leaves out what is the same in every pair of eras."""
    number = itertools.count(1)

    def ask(method: str, **params: object) -> str:
        return request(next(number), method, params or None, newer=newer)

    def use(tool: str, **arguments: object) -> str:
        return call(next(number), tool, newer, **arguments)

    yield ask("ping")
    yield ask("tools/list")
    yield ask("tools/list", cursor="2")
    yield ask("prompts/list")
    yield ask("prompts/get", name="greet")
    yield ask("resources/list")
    yield ask("resources/templates/list")
    yield ask("resources/read", uri="golden://one")
    yield ask("resources/read", uri="other://one")
    yield ask("completion/complete", ref={"type": "ref/prompt", "name": "greet"}, argument={"name": "a", "value": "b"})
    yield ask("no/such/method", a=1)
    # As they came
    yield use("echo", text="hi ü😀 \u2028 \x7f")
    yield use("text", sample="small")
    yield use("text", sample="nothing")
    yield use("rows", count=3)
    yield use("picture", bytes=60)
    yield use("link", size=1)
    yield use("odd")
    yield use("fail")
    yield use("refuse")
    yield use("no such tool")
    yield ask("tools/call", name="steps", arguments={}, _meta={"progressToken": "token-1"})
    # Too large
    yield use("text", sample="log")  # h1
    yield use("text", sample="log", error=True)  # h2
    if few:
        yield use("context_grep", handle="{h1}", pattern="sd7")
        yield use("context_read", handle="zzzz")
        return
    yield use("text", sample="json-one-line")  # h3
    yield use("rows", count=4_000)  # h4
    yield use("picture", bytes=1_200_000)  # h5
    yield use("link", size=40)  # h6
    yield use("many blocks")  # h7
    yield use("text", sample="surrogates")
    yield use("text", sample="fence")
    # Our own tools
    yield use("context_read")
    yield use("context_read", handle="{h1}", lines="1:3")
    yield use("context_read", handle="{h1}", bytes="100:160")
    yield use("context_read", handle="{h1}", lines="5000:")
    yield use("context_read", handle="zzzz")
    yield use("context_read", handle="{h1}", lines="3:x")
    yield use("context_read", handle="{h1}", strange=1)
    yield use("context_tail", handle="{h1}", lines=2)
    yield use("context_grep", handle="{h1}", pattern="ERROR")
    yield use("context_grep", handle="{h1}", pattern="nowhere to be found")
    yield use("context_grep", handle="{h1}", pattern="(?=look)around")
    yield use("context_grep", handle="{h1}", pattern="worker-(\\d)", group=True)
    yield use("context_grep", handle="{h1}", pattern="error", ignore_case=True, count=True)
    yield use("context_grep", handle="{h1}", pattern="sd7", context=1)
    yield use(
        "context_query",
        handle="{h3}",
        sql="select town, count(*) as n from t group by town order by n, town",
        at="$.orders",
    )
    yield use("context_query", handle="{h3}", path="$.orders[2].town")
    yield use("context_query", handle="{h3}", sql="drop table t")
    yield use("context_query", handle="{h3}", path="$.orders[")
    yield use("wait_for_tool_output")
    yield use("tool_output", handle="{h1}", extract="what failed?")
    yield ask("resources/list")


def odd_lines(newer: bool) -> Iterator[str]:
    """What is no request."""
    yield "this is not JSON"
    yield '{"jsonrpc": "2.0", "id": 9001}'
    yield '{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}'
    yield '{"jsonrpc": "2.0", "id": 9002, "method": "tools/call", "params": [1]}'
    yield request(9003, "tools/call", {"arguments": {}}, newer=newer)
    yield request(9004, "tools/call", {"name": "echo", "arguments": "text"}, newer=newer)


def converse(gateway: Stdio, newer: bool, *, few: bool = False) -> None:
    for line in greeting(newer):
        gateway.say(line)
    if not newer:
        gateway.say(INITIALIZED, answers=0)
    for line in requests_of(newer, few=few):
        gateway.say(line)
    for line in odd_lines(newer):
        gateway.say(line)


def heard(gateway: Stdio, normal: Normal) -> str:
    """What the server behind it heard, in the order in which it came."""
    return "".join(normal(line) + "\n" for line in gateway.journal.read_text("utf-8").removesuffix("\n").split("\n"))


@requirement("gateway:any-client", "gateway:any-server", "gateway:oversized-notice", "cli:gateway-command")
@pytest.mark.parametrize(("client", "server"), [("older", "older"), ("newer", "older"), ("newer", "newer")])
def test_a_client_gets_these_bytes(client: str, server: str, tmp_path: Path) -> None:
    with stdio(tmp_path, server, PATIENT) as gateway:
        converse(gateway, newer=client == "newer", few=server == "newer")
        if client == "older":
            gateway.say(call(9100, "ask", False), reply={"action": "accept", "content": {"name": "Ann"}})
            gateway.say(json.dumps([json.loads(call(n, "echo", False, text=str(n))) for n in (9101, 9102)]))
    compare(f"gateway/{client}-client-{server}-server.txt", str(gateway.transcript))
    compare(f"gateway/{client}-client-{server}-server.heard.txt", heard(gateway, gateway.transcript.normal))


def test_a_client_gets_these_bytes_of_calls_that_take_long(tmp_path: Path) -> None:
    """Each call of the tool goes to the background: it waits for a pipe that only this test opens."""
    gates = [tmp_path / "gate1", tmp_path / "gate2"]
    for gate in gates:
        os.mkfifo(gate)
    with stdio(tmp_path, "older", (*ROOMY, "--set", "slow_after_seconds=0.2")) as gateway:
        gateway.say(next(greeting(False)))
        gateway.say(INITIALIZED, answers=0)
        gateway.say(call(1, "gate", False, name="1"))
        gateway.say(call(2, "gate", False, name="2", large=True))
        gateway.say(call(3, "context_read", False, handle="{h1}"))
        gateway.say(call(4, "context_read", False))
        gateway.say(call(5, "wait_for_tool_output", False, timeout=0))
        gates[0].open("wb").close()
        gateway.say(call(6, "wait_for_tool_output", False, handle="{h1}"))
        gates[1].open("wb").close()
        gateway.say(call(7, "wait_for_tool_output", False, handle="{h2}"))
        gateway.say(call(8, "wait_for_tool_output", False, handle="{h1}"))
        gateway.say(call(9, "context_read", False, handle="{h1}"))
        gateway.say(call(10, "context_grep", False, handle="{h2}", pattern="sd7"))
        gateway.say(call(11, "context_read", False))
        gateway.say(call(12, "wait_for_tool_output", False))
    compare("gateway/slow-calls.txt", str(gateway.transcript))


@requirement("cli:gateway-http")
def test_a_client_gets_these_bytes_over_http(tmp_path: Path) -> None:
    with http(tmp_path, "older", PATIENT) as gateway:
        gateway.post(request(0, "ping"), token="wrong")
        gateway.post(request(0, "ping"))
        gateway.post(next(greeting(False)))
        gateway.post(INITIALIZED)
        for number, line in enumerate(older_over_http(), 1):
            gateway.post(line.replace('"id": 0', f'"id": {number}', 1))
        gateway.post("not JSON")
        gateway.ask("GET", "/other")
        gateway.ask("PUT", "/mcp")
        gateway.ask("DELETE", "/mcp")
        gateway.post(request(90, "tools/list"))
        for line in newer_over_http():
            gateway.post(line, newer=True)
    compare("gateway/http.txt", str(gateway.transcript))


def older_over_http() -> Iterator[str]:
    yield request(0, "tools/list")
    yield call(0, "echo", False, text="hi ü")
    yield request(0, "tools/call", {"name": "steps", "arguments": {}, "_meta": {"progressToken": 1}})
    yield call(0, "text", False, sample="log")
    yield call(0, "context_grep", False, handle="{h1}", pattern="sd7")
    yield call(0, "refuse", False)
    yield json.dumps([json.loads(call(n, "echo", False, text=str(n))) for n in (50, 51)])


def newer_over_http() -> Iterator[str]:
    yield request(100, "server/discover", newer=True)
    yield request(101, "tools/list", newer=True)
    yield call(102, "echo", True, text="hi ü")
    yield request(103, "tools/call", {"name": "steps", "arguments": {}, "_meta": {"progressToken": 1}}, newer=True)
    yield call(104, "text", True, sample="json-one-line")
    yield call(105, "context_query", True, handle="{h2}", path="$.total")
    yield call(106, "refuse", True)
    yield request(107, "no/such/method", newer=True)
