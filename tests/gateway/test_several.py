"""Several servers behind one gateway: told apart by name, and none of them the worse for another."""

import asyncio
import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from holdall.mcp.client.connection import Connection
from holdall.mcp.client.spec import StdioServer
from holdall.mcp.gateway.client_side import Client, ClientRequest
from holdall.mcp.gateway.listing import Catalogue, Names
from holdall.mcp.gateway.relay import Caller, Relay
from tests.gateway.support import BAD, SOON, configured, gateway, official, plain, text_of, wire
from tests.gateway.test_passing import NoHandler
from tests.requirements import requirement
from tests.upstream.support import lines_of, lives, until

pytestmark = pytest.mark.anyio
HANDSHAKE = {"revision": "handshake"}


def bad(*manner: str) -> list[str]:
    return [sys.executable, BAD, *(manner or ("-",))]


@requirement("cli:gateway-config")
async def test_names_have_the_server_before_them(tmp_path: Path) -> None:
    config = configured(tmp_path, {"a": plain("a"), "b b": plain("b")}, **HANDSHAKE)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        greeting = await client.greet()
        assert greeting["serverInfo"]["name"] == "holdall"
        said = greeting["instructions"]
        assert re.search(r"a:\n<(server-[0-9a-f]{8})>\nbe kind to a\n</\1>\nb.b:\n<\1>\nbe kind to b\n</\1>$", said), (
            said
        )
        listed = await client.result("tools/list")
        names = [tool["name"] for tool in listed["tools"]]
        assert {"a__echo", "b_b__echo", "a__pid", "context_read"} <= set(names)
        assert len(names) == len(set(names)) == 2 * 14 + 6
        assert text_of(await client.call("a__pid")) != text_of(await client.call("b_b__pid"))
        prompts = await client.result("prompts/list")
        assert [one["name"] for one in prompts["prompts"]] == ["a__greet", "b_b__greet"]
        prompt = await client.result("prompts/get", {"name": "b_b__greet"})
        assert "of b" in prompt["messages"][0]["content"]["text"]
        resources = await client.result("resources/list")
        assert [one["uri"] for one in resources["resources"]] == ["a://one", "b://one"]
        read = await client.result("resources/read", {"uri": "b://row/9"})  # never listed
        assert read["contents"][0]["text"] == "text of b://row/9"
        await client.result("resources/templates/list")
        assert (await client.result("resources/read", {"uri": "a://row/9"}))["contents"][0]["text"]
        reference = {"type": "ref/prompt", "name": "b_b__greet"}
        completed = await client.result("completion/complete", {"ref": reference, "argument": {}})
        assert completed["completion"]["values"] == ["{'type': 'ref/prompt', 'name': 'greet'} b"]
        assert (await client.ask("tools/call", {"name": "echo"}))["error"]["code"] == -32602
        assert (await client.result("later/method", {"a": 1}))["from"] == "a"
        assert await client.ask("logging/setLevel", {"level": "info"}) == {"result": {}}


async def test_a_resource_is_of_the_first_server_that_has_it(tmp_path: Path) -> None:
    """However long the template of a later one is, and whatever it lists."""
    nobody, both = NoHandler(), ("good", "evil")
    client = Client(lambda _message, _related: None, nobody)
    relay = Relay([StdioServer(name, "true") for name in both], client, Caller(), nobody.heard)
    catalogue = Catalogue(relay, Names(both), Names(both))
    good, evil = relay.servers

    def listed(server: Connection, method: str, field: str, *uris: str) -> None:
        catalogue._shown(server, method, [{"name": uri, field: uri} for uri in uris])  # pyright: ignore[reportPrivateUsage]

    listed(evil, "resources/list", "uri", "file:///a", "evil://a")
    listed(evil, "resources/templates/list", "uriTemplate", "{any}", "file:///home/{name}")
    listed(good, "resources/list", "uri", "file:///a")
    listed(good, "resources/templates/list", "uriTemplate", "file:///{+path}")
    asked = ["file:///a", "file:///home/notes", "evil://a", "db://x"]
    assert [catalogue.place_of(uri) for uri in asked] == ["good", "good", "evil", ""]


async def test_what_is_remembered_of_lists_has_a_bound(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A server may list pages without an end, and templates that each request would be compared with."""
    nobody = NoHandler()
    client = Client(lambda _message, _related: None, nobody)
    relay = Relay([StdioServer(name, "true") for name in ("one", "two")], client, Caller(), nobody.heard)
    catalogue = Catalogue(relay, Names(("one", "two")), Names(("one", "two")))
    one, two = relay.servers

    def listed(server: Connection, method: str, entries: list[dict[str, Any]]) -> None:
        catalogue._shown(server, method, entries)  # pyright: ignore[reportPrivateUsage]

    for page in range(30):
        listed(one, "tools/list", [{"name": f"t{page}", "inputSchema": {}, "description": "x" * 1_000_000}])
    listed(two, "tools/list", [{"name": "t", "inputSchema": {}}])
    known = [page for page in range(30) if catalogue.tool(f"one__t{page}")]
    assert known == [*range(22, 30)]
    assert catalogue.tool("two__t")["name"] == "t"
    templates = [{"name": "n", "uriTemplate": f"a:{number}{'x' * 900}/{{id}}"} for number in range(9_000)]
    listed(two, "resources/templates/list", [*templates, {"name": "n", "uriTemplate": f"b:{'y' * 1000}{{id}}"}])
    began = time.process_time()
    asked = [f"a:{number}{'x' * 900}/7" for number in range(0, 18_000, 18)]
    assert [catalogue.place_of(uri) for uri in asked] == ["two"] * 500 + [""] * 500
    assert time.process_time() - began < 1
    assert catalogue.place_of(f"b:{'y' * 1001}") == ""
    alone = Relay([StdioServer("one", "true")], client, Caller(), nobody.heard)
    catalogue = Catalogue(alone, Names(("one",)), Names(("one",)))
    listed(alone.servers["one"], "resources/list", [{"name": "n", "uri": "a:b"}])
    assert catalogue.place_of("z:z") == "one", "and nothing has to be remembered"
    many: list[dict[str, Any]] = [{"name": f"t{number}", "inputSchema": {}} for number in range(10_003)]

    async def forward(*_: object) -> dict[str, Any]:
        return {"tools": many}

    alone.forward = forward  # type: ignore[method-assign]
    page = await catalogue.page(ClientRequest(1, "tools/list", {}))
    assert page["tools"] == many[:10_000]
    assert 'MCP server "one": only the first 10000 entries of tools/list are listed' in caplog.text


async def test_a_prefix_can_be_chosen_and_ours_cannot_be_taken(tmp_path: Path) -> None:
    config = configured(tmp_path, {"one": plain("one"), "two": plain("two")}, **HANDSHAKE)
    async with wire(gateway(tmp_path, "--config", config, "--prefix", "{server}.")) as client:
        await client.greet()
        assert text_of(await client.call("two.echo", text="x")) == "x"
    async with wire(gateway(tmp_path, "--config", config, "--prefix", "")) as client:
        await client.greet()
        names = [tool["name"] for tool in (await client.result("tools/list"))["tools"]]
        assert "echo" in names
        assert "two__echo" in names


async def test_ten_thousand_tools_some_of_them_with_our_names(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, server=plain("many"))) as client:
        await client.greet()
        tools = (await client.result("tools/list"))["tools"]
        assert len(tools) == 10_000 + 6
        names = [tool["name"] for tool in tools]
        assert names[2].endswith("__context_read")
        assert names[3].endswith("__wait_for_tool_output")
        assert names.count("context_read") == 1
        assert tools[0] == {"name": "echo", "description": "listed 1 \u202e", "inputSchema": {}}
        assert text_of(await client.call(names[2])) == "the server's own context_read"
        assert "Nothing is kept" in text_of(await client.call("context_read"))
        await client.result("tools/list")
        assert client.process.stderr is not None
        async with asyncio.timeout(SOON):
            line = (await client.process.stderr.readline()).decode()
        assert "has changed its description" in line  # what was agreed to is not what is there now
        assert "\u202e" not in line


@requirement("gateway:any-server")
async def test_a_server_that_misbehaves_is_told_about_and_harms_no_other(tmp_path: Path) -> None:
    servers = {
        "good": plain("good"), "dead": ["/no/such/program"], "mute": bad("never greets"), "dies": bad("dies at once"),
        "bad": bad(), "endless": bad("lists without end"),
    }  # fmt: skip
    config = configured(tmp_path, servers, **HANDSHAKE, start_timeout_seconds=15)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        assert text_of(await client.call("good__echo", text="1")) == "1"
        for name in ("crash", "die", "break off", "close stdout", "garbage", "bad json", "no result", "bad error",
                     "result is a list", "deep"):  # fmt: skip
            answer = await client.ask("tools/call", {"name": f"bad__{name}", "arguments": {}})
            assert text_of(await client.call("good__echo", text=name)) == name
            if name != "garbage":
                assert answer["result"]["isError"] is True, answer
                assert 'MCP server "bad"' in text_of(answer["result"]), answer
        for name in ("dead", "mute", "dies"):
            answer = await client.ask("tools/call", {"name": f"{name}__x", "arguments": {}})
            assert answer["result"]["isError"] is True, answer
            assert f'MCP server "{name}"' in text_of(answer["result"]), answer
        assert text_of(await client.call("bad__echo", text="again")) == "again"
        names = [tool["name"] for tool in (await client.result("tools/list"))["tools"]]
        assert "good__echo" in names
        assert "bad__echo" in names


@requirement("gateway:any-server")
async def test_a_list_that_grows_without_end_is_cut(tmp_path: Path) -> None:
    config = configured(tmp_path, {"good": plain("good"), "more": bad("lists more and more")}, **HANDSHAKE)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        names = [tool["name"] for tool in (await client.result("tools/list"))["tools"]]
        assert len([name for name in names if name.startswith("more__")]) == 10_000
        assert "good__echo" in names


async def test_a_tool_that_is_nested_very_deep_costs_no_other_tool(tmp_path: Path) -> None:
    config = configured(tmp_path, {"good": plain("good"), "deep": bad("lists deep")}, **HANDSHAKE)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        names = [tool["name"] for tool in (await client.result("tools/list"))["tools"]]
        assert {"good__echo", "deep__echo", "context_read"} <= set(names)
        assert "deep__deep" not in names


async def test_a_flood_of_one_server_leaves_the_others_alone(tmp_path: Path) -> None:
    config = configured(tmp_path, {"good": plain("good"), "bad": bad()}, **HANDSHAKE)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        _, flood = client.begin("tools/call", {"name": "bad__flood", "arguments": {}})
        for number in range(20):
            assert text_of(await client.call("good__echo", text=str(number))) == str(number)
        answer = (await flood)["result"]
        assert answer["isError"] is True
        assert "no messages" in text_of(answer)


async def test_two_hundred_calls_over_five_servers_are_neither_lost_nor_crossed(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(5)]
    config = configured(tmp_path, {name: plain(name) for name in names}, **HANDSHAKE)
    async with wire(gateway(tmp_path, "--config", config)) as client:
        await client.greet()
        asked = [(names[number % 5], f"call {number}") for number in range(200)]
        found = await asyncio.gather(*(client.call(f"{server}__echo", text=text) for server, text in asked))
        assert [text_of(one) for one in found] == [text for _, text in asked]


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("how", ["the end of its input", "SIGTERM", "SIGINT"])
async def test_it_ends_and_leaves_nothing_behind(tmp_path: Path, how: str) -> None:
    journal, count = tmp_path / "journal", tmp_path / "count"
    servers = {"good": plain("good", str(journal)), "stubborn": bad("ignores the end", str(count))}
    config = configured(tmp_path, servers, **HANDSHAKE)
    words = gateway(tmp_path, "--config", config, "--session", "end", before=["--set", "slow_after_seconds=0.3"])
    async with wire(words) as client:
        await client.greet()
        pids = [int(text_of(await client.call(f"{name}__pid"))) for name in ("good", "stubborn")]
        running = await client.call("good__sleep", seconds=600, name="background")
        handle = text_of(running).split("handle: ")[1].split()[0]
        _, open_call = client.begin("tools/call", {"name": "stubborn__hang", "arguments": {}})
        await until(lambda: bool(lines_of(journal)))
        if how == "the end of its input":
            assert client.process.stdin is not None
            client.process.stdin.close()
        else:
            client.process.send_signal(getattr(signal, how))
        assert await client.ended() == 0  # soon: what runs would take ten minutes, and what hangs for ever
        assert not any(lives(pid) for pid in pids)
        answer = await asyncio.wait_for(open_call, 100)
        assert "error" in answer or "result" in answer
    async with wire([words[0], "show", handle, "--home", str(tmp_path), "--session", "end", "--json"]) as show:
        assert show.process.stdout is not None
        show.reader.cancel()
        out, _ = await show.process.communicate()
        assert json.loads(out)["state"] in ("cancelled", "interrupted")


@requirement("gateway:call-id", "dialect:refs-call-id")
async def test_a_reference_names_the_call_as_its_client_does_and_the_server_once(tmp_path: Path) -> None:
    path = configured(tmp_path, {"files": plain(), "other": plain()})
    async with wire(gateway(tmp_path, "--config", path), HOLDALL_DIALECT="refs") as client:
        await client.greet()
        await client.result("tools/list")
        call: dict[str, Any] = {"name": "files__items", "arguments": {"count": 3000, "at": 5}}
        for meta, expected in (({"claudecode/toolUseId": "toolu_1"}, "toolu_1"), ({}, "4")):
            told = text_of(await client.result("tools/call", {**call, "_meta": meta}))
            assert f"Tool: files/items (toolCallId: {expected})\n" in told
            hint = json.loads(told.partition("ContextRef: ")[2].partition("\n")[0])["hint"]
            assert (hint["tool"], hint["server"], hint["toolCallId"]) == ("items", "files", expected)


async def test_what_no_client_could_read_of_one_server_costs_nobody_else(tmp_path: Path) -> None:
    config = configured(tmp_path, {"good": plain("good"), "odd": bad("lists oddly")}, **HANDSHAKE)
    async with official(gateway(tmp_path, "--config", config)) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert {"good__echo", "odd__echo", "context_read"} <= set(names)
