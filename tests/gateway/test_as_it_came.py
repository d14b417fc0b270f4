"""What a server sends passes to the byte: numbers that no float holds, names that occur twice, any depth."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.support import WAITS, Wire, gateway, text_of, wire
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
SERVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    number, params = message.get("id"), message.get("params", {})
    if number is None:
        continue
    result = "{}"
    if message["method"] == "initialize":
        info = {"name": "raw", "version": "1"}
        result = json.dumps({"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info})
    elif message["method"] == "tools/list":
        result = json.dumps({"tools": [{"name": "raw", "inputSchema": {"type": "object"}}]})
    elif message["method"] == "tools/call":
        result = params["arguments"]["result"]
    print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(number), result), flush=True)
"""
SMALL = [
    '{"content":[{"type":"text","text":"hi"}],"structuredContent":{"a":1e999,"b":1.10,"c":-0,"d":12345678901234567890.5}}',
    '{"content": [ {"type":"text","text":"\\ud800 \\u00e9 \\/"} ], "content": [{"text":"twice","type":"text"}]}',
    '{"content":[],"structuredContent":{"n":' + "7" * 4200 + "}}",
    '{"later":{"kept":"as is"},"content":[{"type":"text","text":"caf\u00e9"}],"isError":false}',
]


def raw(folder: Path) -> list[str]:
    path = folder / "server.py"
    path.write_text(SERVER)
    return [sys.executable, str(path)]


@pytest.fixture(scope="module")
async def shared(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Wire]:
    folder = tmp_path_factory.mktemp("raw")
    async with wire(gateway(folder, before=WAITS, server=raw(folder))) as one:
        await one.greet()
        yield one


async def line_of(client: Wire, result: str) -> str:
    await client.call("raw", result=result)
    return client.lines[-1].decode()


@requirement("gateway:any-server")
@pytest.mark.parametrize("result", SMALL)
async def test_a_small_result_is_the_servers_own_to_the_byte(client: Wire, result: str) -> None:
    assert (await line_of(client, result)).rstrip("\n").endswith(f',"result":{result}}}')


@pytest.mark.parametrize("depth", [600, 900, 5_000, 100_000])
async def test_structured_content_of_any_depth_costs_nobody_the_rest(client: Wire, depth: int) -> None:
    deep = "[" * depth + "]" * depth
    result = '{"content":[{"type":"text","text":"hi"}],"structuredContent":{"deep":' + deep + "}}"
    found: dict[str, Any] = json.loads((await line_of(client, result)).replace(deep, "1"))["result"]
    assert text_of(found).startswith("hi")
    if "handle" in found["structuredContent"]:
        link = next(block["uri"] for block in found["content"] if block["type"] == "resource_link")
        kept = (await client.result("resources/read", {"uri": link}))["contents"][0]["text"]
        assert kept == '{"deep":' + deep + "}"
    else:
        assert found["structuredContent"] == {"deep": 1}


async def test_numbers_of_kept_structured_content_are_those_that_came(client: Wire) -> None:
    rows = ",".join(f'{{"n":{number}.10}}' for number in range(9000))
    structured = '{"id":12345678901234567890.5,"rows":[' + rows + "]}"
    result = await client.call("raw", result=f'{{"content":[],"structuredContent":{structured}}}')
    link = next(block["uri"] for block in result["content"] if block["type"] == "resource_link")
    assert (await client.result("resources/read", {"uri": link}))["contents"][0]["text"] == structured


TEXT = "R" * 100_000
BESIDE = "B" * 1_200_000  # more than passes as it is
LARGE = [{"content": [{"type": "text", "text": TEXT}]}, {"structuredContent": {"a": TEXT}}, {"later": TEXT}]


@requirement("gateway:any-kind")
@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("kind", ["whatever", "task", 7])
async def test_no_kind_of_result_lets_a_large_one_pass(client: Wire, kind: object, large: dict[str, Any]) -> None:
    result = await client.call("raw", result=json.dumps({"resultType": kind, **large}))
    assert "\nhandle: " in text_of(result)
    assert len(json.dumps(result)) < 5_000


@requirement("gateway:any-kind")
async def test_a_question_passes_and_an_output_in_it_does_not(tmp_path: Path) -> None:
    """To a client of the newer era: one of the older is asked in another way."""
    about = "io.modelcontextprotocol/"
    meta = {f"{about}protocolVersion": "2026-07-28", f"{about}clientInfo": {"name": "c", "version": "1"}}
    question = {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}}
    async with wire(gateway(tmp_path, server=raw(tmp_path))) as client:
        for large in ({}, *LARGE[:2]):
            arguments = {"result": json.dumps(question | large)}
            result = await client.result("tools/call", {"name": "raw", "arguments": arguments, "_meta": meta})
            assert result["inputRequests"] == question["inputRequests"]
            assert ("\nhandle: " in text_of(result)) if large else ("content" not in result)
            assert len(json.dumps(result)) < 5_000


@pytest.mark.parametrize("kind", ["task", "whatever"])
async def test_a_small_result_of_another_kind_is_the_servers_own_to_the_byte(client: Wire, kind: str) -> None:
    result = f'{{"resultType":"{kind}", "task":{{"taskId":"a"}}}}'
    assert (await line_of(client, result)).rstrip("\n").endswith(f',"result":{result}}}')


@pytest.mark.in_full(one_in=3)
@requirement("gateway:any-kind")
@pytest.mark.parametrize(
    "beside", [{"later": BESIDE}, {"isError": BESIDE}, {"_meta": {"a": BESIDE}}, {"task": [BESIDE]}]
)
@pytest.mark.parametrize("text", ["hi", TEXT])
async def test_what_stands_beside_the_content_is_kept_where_it_is_large(
    client: Wire, beside: dict[str, Any], text: str
) -> None:
    whole = {"content": [{"type": "text", "text": text}], **beside}
    result = await client.call("raw", result=json.dumps(whole))
    assert len(json.dumps(result)) < 5_000
    link = next(block["uri"] for block in result["content"] if block["type"] == "resource_link")
    assert json.loads((await client.result("resources/read", {"uri": link}))["contents"][0]["text"]) == whole
