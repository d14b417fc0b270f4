"""`./dev demo --fleet`: an agent on host A is killed, and host B opens its handles and finishes its work.

Real servers and real hosts: PostgreSQL and Ceph, and three network namespaces (where those cannot be made, three
processes). Nothing is mocked but the model. Every figure is measured while it runs.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from holdall import Holdall, Settings
from holdall.agent.loop import run_agent
from holdall.agent.toolbox import Agent, AgentTool, Toolbox
from holdall.llm.protocol import Model, Request
from holdall.llm.scripted import ScriptedModel
from holdall.store.fleet.store import FleetStore
from holdall.values.chat import Reply, ToolCall, ToolResult
from holdall.values.errors import SessionLocked
from holdall.wire.tool import ToolSpec
from tests.fleet import servers
from tests.fleet.hosts import NoNamespaces, hosts
from tests.fleet.servers import Address

ROOT = Path(__file__).parents[2]
SESSION, PRINCIPAL = "the night shift", "team"
NEEDLE = "disk sdb1 is failing"
QUESTION = "Why did the orders of last night fail?"
ANY: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


async def server_log() -> str:
    """Ten megabytes, one line of which matters."""
    lines = [
        f"2026-11-02T03:{n // 60 % 60:02}:{n % 60:02}Z INFO worker-{n % 7} GET /orders/{n} 200\n"
        for n in range(180_000)
    ]
    lines[123_456] = f"2026-11-02T03:17:36Z ERROR storage {NEEDLE}\n"
    return "".join(lines)


async def orders() -> str:
    return json.dumps(
        [{"id": n, "state": "failed" if n % 40 == 7 else "paid", "euros": n % 900} for n in range(60_000)]
    )


def agent(store: FleetStore, model: Model) -> Agent:
    def open_bag(session: str, parent: str, model: Model) -> Holdall:
        settings = Settings(slow_after_seconds=60.0)
        return Holdall.open(session=session, parent=parent, settings=settings, model=model, store=store)

    tools = [
        AgentTool(ToolSpec(call.__name__, str(call.__doc__ or "Every order of the night."), ANY), call)
        for call in (server_log, orders)
    ]
    return Agent("night shift", "You find out what went wrong.", model, open_bag, Toolbox(tools))


def opened(home: str, objects: str, cache: str) -> FleetStore:
    return FleetStore(home, objects=objects, principal=PRINCIPAL, cache_dir=cache, cache_bytes=1 << 30)


def handles(store: FleetStore) -> dict[str, str]:
    session = store.find_session(SESSION)
    return {} if session is None else {facts.handle: facts.origin.tool for facts in store.outputs(session)}


# On the hosts. Each says a line of JSON for what it has done.


def say(kind: str, **fields: object) -> None:
    print(json.dumps([kind, fields]), flush=True)


async def host_a(store: FleetStore) -> None:
    """Calls both tools, searches the log, and is killed while its model thinks."""

    async def answer(_: Request) -> Reply:
        turn = len(model.requests)
        if turn == 1:
            return Reply(calls=(ToolCall("c1", "server_log", {}), ToolCall("c2", "orders", {})))
        found = handles(store)
        if turn == 2:
            log = next(handle for handle, tool in found.items() if tool == "server_log")
            return Reply(calls=(ToolCall("c3", "context_grep", {"handle": log, "pattern": "ERROR"}),))
        say("thinking", handles=found)
        await asyncio.sleep(600)
        return Reply("never")

    model = ScriptedModel(answer, window=64_000)
    one = agent(store, model)
    async with one.open_bag(SESSION, "", model) as bag:
        await run_agent(one, bag, QUESTION)


async def host_b(store: FleetStore) -> None:
    """Opens every handle, then goes on with the conversation as soon as the lease of A is over."""
    session = store.find_session(SESSION)
    assert session is not None
    for handle, tool in handles(store).items():
        before = time.monotonic()
        reader = store.open_named(session, handle)
        data = reader.read(0, reader.totals.bytes)
        reader.close()
        expected = (await (server_log() if tool == "server_log" else orders())).encode()
        same = data == expected and hashlib.sha256(data).hexdigest() == reader.facts.measure.sha256
        say("opened", handle=handle, tool=tool, bytes=len(data), same=same, seconds=time.monotonic() - before)

    def answer(request: Request) -> Reply:
        log = next(handle for handle, tool in handles(store).items() if tool == "server_log")
        if len(model.requests) == 1:
            return Reply(calls=(ToolCall("d1", "context_grep", {"handle": log, "pattern": "storage"}),))
        last = [message for message in request.messages if isinstance(message, ToolResult)][-1]
        told = "the disk sdb1" if NEEDLE in last.text else "unknown"
        return Reply(calls=(ToolCall("d2", "final_report", {"report": f"The cause: {told}."}),))

    model = ScriptedModel(answer, window=64_000)
    one, before = agent(store, model), time.monotonic()
    async with one.open_bag(SESSION, "", model) as bag:
        while True:
            try:
                report = await run_agent(one, bag, "", resume=True)
            except SessionLocked:
                await asyncio.sleep(0.5)  # A may still be alive, for all that anybody knows
            else:
                break
    earlier = len(model.requests[0].messages)
    say("resumed", report=report.text, messages=earlier, seconds=time.monotonic() - before)


# The story.


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] in (["a"], ["b"]):
        store = opened(os.environ["HOLDALL_HOME"], os.environ["HOLDALL_OBJECTS"], arguments[1])
        asyncio.run(host_a(store) if arguments[0] == "a" else host_b(store))
        store.close()
        return 0
    try:
        servers.install()
        with places() as (address, inside, where):
            return tell(address, inside, where)
    except servers.ServersMissing as problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 2


@contextlib.contextmanager
def places() -> Generator[tuple[Address, dict[str, list[str]], str]]:
    """The servers, and what to put before a command to run it on host a or b."""
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(hosts("a", "b", "servers"))
        except NoNamespaces as why:
            running = stack.enter_context(servers.started(durable=True))
            yield running.address, {"a": [], "b": []}, f"two processes on one host ({why})"
            return
        there = made["servers"]
        at = (there.addresses["database"], there.addresses["bucket"])
        running = stack.enter_context(servers.started(at=at, durable=True, inside=there.inside))
        yield running.address, {name: made[name].inside for name in "ab"}, "three hosts, each a network namespace"


def tell(address: Address, inside: dict[str, list[str]], where: str) -> int:
    home, objects = address.make_database("demo"), address.objects("demo")
    environment = {**os.environ, **address.environment(), "HOLDALL_HOME": home, "HOLDALL_OBJECTS": objects}
    with tempfile.TemporaryDirectory(prefix="holdall-demo-") as folder:

        def on_host(name: str) -> "subprocess.Popen[str]":
            command = [*inside[name], sys.executable, "-m", "tests.fleet.demo", name, f"{folder}/{name}"]
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)

        print(f"PostgreSQL and an S3 server run; {where}.")
        began = time.monotonic()
        with on_host("a") as a:
            assert a.stdout is not None
            kind, said = json.loads(a.stdout.readline())
            assert kind == "thinking", kind
            print(
                f"Host A: an agent was asked “{QUESTION}”, called two tools and searched, {time.monotonic() - began:.1f} s."
            )
            print(f"  kept: {', '.join(f'{handle} ({tool})' for handle, tool in said['handles'].items())}")
            a.kill()
            a.wait()
        killed = time.monotonic()
        print("Host A is killed (kill -9) while its model thinks.")
        total, same, report = 0, 0, ""
        with on_host("b") as b:
            assert b.stdout is not None
            for line in b.stdout:
                kind, told = json.loads(line)
                if kind == "opened":
                    total, same = total + told["bytes"], same + told["same"]
                    how = "every byte as it was" if told["same"] else "NOT the bytes that were kept"
                    print(
                        f"Host B: {told['handle']} ({told['tool']}), {told['bytes']:,} bytes in {told['seconds']:.2f} s, {how}."
                    )
                else:
                    report = told["report"]
                    print(
                        f"Host B: waited for the lease of A and went on after {told['messages']} messages, {told['seconds']:.1f} s."
                    )
                    print(f"  report: {report}")
        ended = time.monotonic() - killed
    if b.returncode != 0 or same != len(said["handles"]) or "sdb1" not in report:
        print("demo: host B could not go on with what A had kept.", file=sys.stderr)
        return 1
    print(
        f"Host A was killed; {ended:.0f} s later host B had opened its {same} handles ({total:,} bytes, all compared) "
        "and resumed its session to the report."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
