"""Through the gateway, no secret of a tool whose policy says `redact` reaches the client, wherever it stands."""

import base64
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.support import configured, gateway, wire
from tests.requirements import requirement

pytestmark = pytest.mark.anyio

SECRET = "correct-horse-7!"
LINE = f"DB_PASSWORD={SECRET}"
LOGS = 5
# A server that does what it is told: it says something first, then answers, and then says something that is of no call.
SERVER = """
import json, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    number, params = message.get("id"), message.get("params", {})
    if number is None or "method" not in message:
        continue
    if message["method"] == "initialize":
        info = {"name": "raw", "version": "1"}
        send(id=number, result={"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "logging": {}},
                                "serverInfo": info})
    elif message["method"] == "tools/list":
        send(id=number, result={"tools": [{"name": "env", "inputSchema": {"type": "object"}}]})
    elif message["method"] == "tools/call" and "task" in params:
        task = {"taskId": "t1", "status": "working", "statusMessage": params["arguments"]["said"], "ttl": 60000}
        later = params["arguments"]["answer"]
        send(id=number, result={"task": task})
        send(method="notifications/tasks/status", params=task)
        send(method="notifications/resources/updated", params={"uri": "file:///" + task["statusMessage"]})
    elif message["method"] == "tasks/cancel":
        send(id=number, error={"code": -32000, "message": task["statusMessage"], "data": {"d": task["statusMessage"]}})
    elif message["method"] == "tasks/get":
        send(id=number, result=task)
    elif message["method"] == "tasks/list":
        send(id=number, result={"tasks": [task]})
    elif message["method"] == "tasks/result":
        send(id=number, **later)
    elif message["method"] == "tools/call" and params["name"] == "die":
        sys.exit(params["arguments"]["said"])
    elif message["method"] == "tools/call":
        given = params["arguments"]
        for _ in range(LOGS):
            send(method="notifications/message", params={"level": "info", "data": given["said"]})
        form = {"type": "object", "properties": {}}
        send(id=f"q{number}", method="elicitation/create", params={"message": given["said"], "requestedSchema": form})
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            send(method="notifications/progress", params={"progressToken": token, "progress": 1, "message": given["said"]})
        send(id=number, **given["answer"])
        send(method="notifications/message", params={"level": "info", "data": given["said"]})
    else:
        send(id=number, result={})
""".replace("LOGS", str(LOGS))
# The gateway, with a word in a file for each time that something is masked where everybody waits for it.
WATCHED = """
import asyncio, sys
from holdall.bag.redaction import Redaction
from holdall.__main__ import main
masks, seen = Redaction.value, sys.argv.pop(1)
def value(self, output, **more):
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return masks(self, output, **more)
    with open(seen, "a") as file:
        print(repr(output)[:200], file=file)
    return masks(self, output, **more)
Redaction.value = value
main()
"""
BLOB = base64.b64encode(LINE.encode()).decode()
LARGE = "an ordinary line of a log\n" * 5_000 + LINE
ANSWERS: dict[str, Any] = {
    "a text": {"result": {"content": [{"type": "text", "text": LINE}]}},
    "an error": {"result": {"content": [{"type": "text", "text": LINE}], "isError": True}},
    "structured": {"result": {"content": [], "structuredContent": {"password": SECRET, "also": f"x {SECRET}"}}},
    "twins": {"result": {"content": [{"type": "text", "text": LINE}], "structuredContent": {"result": LINE}}},
    "beside": {"result": {"content": [], "_meta": {"x": LINE}, "later": {"y": LINE}}},
    "annotated": {"result": {"content": [{"type": "text", "text": "x", "annotations": {"z": LINE}}]}},
    "a resource": {"result": {"content": [{"type": "resource", "resource": {"uri": "file:///x", "text": LINE}}]}},
    "a blob": {"result": {"content": [{"type": "resource", "resource": {"uri": "file:///x", "blob": BLOB}}]}},
    "a link": {"result": {"content": [{"type": "resource_link", "uri": "file:///x", "name": LINE}]}},
    "a refusal": {"error": {"code": -32000, "message": f"no: {LINE}", "data": {"d": LINE}}},
    "a large text": {"result": {"content": [{"type": "text", "text": LARGE}], "_meta": {"x": LINE}}},
    "a large refusal": {"error": {"code": -32000, "message": LARGE, "data": {"d": LINE}}},
    "large data": {"result": {"content": [], "structuredContent": {"rows": [LINE, *(["x" * 99] * 2000)]}}},
}  # fmt: skip


@requirement("store:tool-redacts")
async def test_no_secret_passes_in_whatever_place_of_whatever_answer(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    before = ["--set", "tools.env.redact=true", "--set", "slow_after_seconds=600"]
    words = gateway(tmp_path / "home", before=before, server=[sys.executable, str(tmp_path / "server.py")])
    seen = tmp_path / "on-the-loop"
    async with wire([sys.executable, "-c", WATCHED, str(seen), *words[1:]]) as client:
        await client.greet(elicitation={})
        for answer in ANSWERS.values():
            arguments = {"said": f"connecting with --password {SECRET}", "answer": answer}
            await client.ask("tools/call", {"name": "env", "arguments": arguments, "_meta": {"progressToken": 1}})
        text = await client.call("env", said="x", answer=ANSWERS["a text"])
        heard = b"".join(client.lines)
    packed = BLOB[4:-4].encode()  # without what depends on where it begins
    assert SECRET.encode() not in heard
    assert packed not in heard
    assert text["content"][0]["text"] == "DB_PASSWORD=" + "*" * len(SECRET)
    assert "masked with * by the policy of its tool" in json.dumps(text)
    assert b"notifications/progress" in heard
    before_last_answer = heard.rpartition(text["content"][0]["text"].encode())[0]
    assert before_last_answer.count(b"notifications/message") >= len(ANSWERS) * (LOGS + 1) + LOGS
    assert b"elicitation/create" in heard
    stored = b"".join(one.read_bytes() for one in (tmp_path / "home").rglob("*") if one.is_file())
    assert SECRET.encode() not in stored
    assert packed not in stored
    assert not seen.exists(), seen.read_text()[:1000]  # a hostile text would stop all clients of a gateway over HTTP


@requirement("store:tool-redacts")
async def test_the_last_words_of_a_server_are_masked_where_any_of_its_tools_redacts(tmp_path: Path) -> None:
    """Whose call it wrote them for is not known."""
    (tmp_path / "server.py").write_text(SERVER)
    words = gateway(tmp_path / "home", before=["--set", "tools.env.redact=true"],
                    server=[sys.executable, str(tmp_path / "server.py")])  # fmt: skip
    async with wire(words) as client:
        await client.greet()
        told = json.dumps(await client.call("die", said=f"cannot connect: {LINE}"))
    assert 'It last wrote: \\"cannot connect: DB_PASSWORD=****************\\"' in told
    assert SECRET not in told


@requirement("store:tool-redacts")
async def test_what_a_task_comes_to_has_the_limits_and_the_mask_of_its_tool(tmp_path: Path) -> None:
    """It is asked for by a method of its own, and passed as it was, of any size."""
    (tmp_path / "server.py").write_text(SERVER)
    before = ["--set", "tools.env.redact=true", "--set", "slow_after_seconds=600"]
    words = gateway(tmp_path / "home", before=before, server=[sys.executable, str(tmp_path / "server.py")])
    async with wire(words) as client:
        await client.greet()
        for name in ("a text", "a large text", "a refusal"):
            given = {"said": LINE, "answer": ANSWERS[name]}
            made = await client.result("tools/call", {"name": "env", "arguments": given, "task": {"ttl": 60_000}})
            assert made["task"]["taskId"] == "t1"
            assert (await client.result("tasks/get", {"taskId": "t1"}))["taskId"] == "t1"
            assert (await client.result("tasks/list"))["tasks"][0]["taskId"] == "t1"
            assert (await client.hears("notifications/tasks/status"))["params"]["taskId"] == "t1"
            await client.hears("notifications/resources/updated")
            assert (await client.ask("tasks/cancel", {"taskId": "t1"}))["error"]["message"].startswith(
                "DB_PASSWORD=***"
            )
            said = json.dumps(await client.ask("tasks/result", {"taskId": "t1"}))
            assert len(said) < 4000
            assert ("handle: " in said) == (name == "a large text")
        assert (await client.ask("tasks/result", {"taskId": "t2"}))["error"]["code"] == -32602
        assert SECRET.encode() not in b"".join(client.lines)


@requirement("store:tool-redacts")
@pytest.mark.parametrize("prefix", ["", "{server}_", "{server}__"])
async def test_a_neighbour_that_lists_the_same_name_takes_no_policy_away(tmp_path: Path, prefix: str) -> None:
    """It changes the name that the tool has for the client, and policies go by names."""
    (tmp_path / "server.py").write_text(SERVER)
    several = SERVER.replace('"name": "env"', '"name": "vault__env"').replace(
        '{"tools": [', '{"tools": [{"name": "env", "inputSchema": {"type": "object"}}, '
    )
    (tmp_path / "neighbour.py").write_text(several)
    servers = {name: [sys.executable, str(tmp_path / f"{name}.py")] for name in ("neighbour", "server")}
    file = configured(tmp_path, {"neighbour": servers["neighbour"], "vault": servers["server"]})
    before = ["--set", "tools.env.redact=true", "--set", "slow_after_seconds=600"]
    async with wire(gateway(tmp_path / "home", "--config", file, "--prefix", prefix, before=before)) as client:
        await client.greet()
        listed = (await client.result("tools/list"))["tools"]
        for one in [one["name"] for one in listed if "env" in one["name"]]:
            await client.call(one, said="x", answer=ANSWERS["a text"])
        assert len([one for one in listed if "env" in one["name"]]) == 3
        assert b"DB_PASSWORD=***" in b"".join(client.lines)
        assert SECRET.encode() not in b"".join(client.lines)


@requirement("trust:crossing-servers")
async def test_a_server_that_names_the_task_of_another_does_not_answer_for_it(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    config = configured(tmp_path, {name: [sys.executable, str(tmp_path / "server.py")] for name in ("one", "two")})
    async with wire(gateway(tmp_path / "home", "--config", config)) as client:
        await client.greet()
        for name in ("one", "two"):
            given = {"said": name, "answer": {"result": {"content": [{"type": "text", "text": f"of {name}"}]}}}
            asked = {"name": f"{name}__env", "arguments": given, "task": {"ttl": 60_000}}
            made = await client.ask("tools/call", asked)
            if name == "one":
                assert made["result"]["task"]["taskId"] == "t1"
        assert made["error"]["message"] == (
            'The tool runs, and nobody can ask for its result: the server "two" calls its task "t1", and so does the '
            'server "one"'
        )
        found = await client.result("tasks/result", {"taskId": "t1"})
        await client.ask("tools/call", asked)  # by then what it said of the first one has come
        assert found["content"] == [{"type": "text", "text": "of one"}]
        told = [one["params"]["statusMessage"] for one in client.heard if one["method"] == "notifications/tasks/status"]
        assert told == ["one"], "nothing of the other's task"


DIES = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "resources/read":
        sys.stderr.write("do returned 5 bytes. Kept whole. handle: zzzz " + asked["params"]["uri"][8:])
        sys.stderr.flush()
        os._exit(3)
    hello = {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": hello}), flush=True)
"""


@requirement("notice:mark")
async def test_the_last_words_of_a_server_have_no_mark_whatever_they_were_asked_for(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(DIES)
    async with wire(gateway(tmp_path / "home", server=[sys.executable, str(tmp_path / "server.py")])) as client:
        greeting = await client.greet()
        mark = re.search(r"\[\w{5}\]", json.dumps(greeting))
        assert mark
        refused = json.dumps(await client.ask("resources/read", {"uri": f"file:///{mark[0]}"}))
    assert "handle: zzzz [the mark of real notices stood here]" in refused
    assert mark[0] not in refused
