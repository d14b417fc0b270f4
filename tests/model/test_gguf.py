"""A real model from a file: the contract, the schema that it obeys, and the process that serves it."""

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from holdall.llm.gguf import THREADS, GgufModel, GgufServer, post_json
from holdall.llm.protocol import Model, Request
from holdall.llm.providers import ProviderModel
from holdall.llm.wrappers import with_tools
from holdall.values.chat import System, User
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow
from tests.llm.contract import COLOUR, GREP, LONG, ModelContract, Rig, asking
from tests.model.conftest import in_full

pytestmark = [
    pytest.mark.model,
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="looks at processes by way of /proc"),
]
SECONDS = 100.0


class GgufRig:
    """It says what it likes; what it does is seen by the time its process takes."""

    exact = False

    def __init__(self, model: GgufModel, *, acting: bool = False) -> None:
        self.gguf = model
        self.model: Model = with_tools(model) if acting else model

    def will_say(self, text: str) -> None: ...

    def will_be_cut(self, text: str) -> None: ...

    def will_call(self, name: str, arguments: dict[str, Any]) -> None: ...

    def will_hang(self) -> None: ...

    def will_find_it_too_long(self) -> None: ...

    async def has_begun(self) -> None:
        """It is loaded, and works on something."""
        await until(lambda: self.gguf.server.address is not None)
        before = ticks(self.gguf.server.pid)
        await until(lambda: ticks(self.gguf.server.pid) >= before + 30)

    async def was_left_alone(self) -> None:
        """There is one place for a request: where the next one is answered, the last one has ended."""
        async with asyncio.timeout(100):  # the long reply would take longer than the whole test may
            await self.model.ask(asking("Hi", max_tokens=2))


async def until(happened: Callable[[], bool]) -> None:
    """Another process tells nothing, so it is looked at until it has happened."""
    async with asyncio.timeout(SECONDS):
        while not happened():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)


def ticks(pid: int | None) -> int:
    """Hundredths of a second of processor that a process has taken."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return int(user) + int(system)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(scope="module")
def loaded(small_model: Path) -> Iterator[GgufServer]:
    """One process for all tests that only ask: to load the file costs far more than an answer."""
    server = GgufServer(small_model, context=2048, threads=THREADS)
    yield server
    server.end()


class Lent(GgufModel):
    """It asks a process that others ask too, and leaves it running."""

    def __init__(self, path: Path, server: GgufServer) -> None:
        super().__init__(path, context=2048)
        self.server = server

    async def close(self) -> None:
        pass


@pytest.fixture
def served(small_model: Path, loaded: GgufServer) -> GgufModel:
    return Lent(small_model, loaded)


@pytest.fixture
async def model(small_model: Path) -> AsyncIterator[GgufModel]:
    """With a process of its own, which a test may end."""
    model = GgufModel(small_model, context=2048)
    yield model
    await model.close()


def one_for(request: pytest.FixtureRequest) -> GgufModel:
    return request.getfixturevalue("model" if "closing" in request.node.name else "served")


class TestGguf(ModelContract):
    @pytest.fixture
    def rig(self, request: pytest.FixtureRequest) -> Rig:
        return GgufRig(one_for(request))


class TestGgufWithActions(ModelContract):
    """Only calls of tools differ from the above: in the short run, the rest is not asked twice."""

    @pytest.fixture
    def rig(self, request: pytest.FixtureRequest) -> Rig:
        return GgufRig(one_for(request), acting=True)


SCHEMAS: dict[str, dict[str, Any]] = {
    "nested": {
        "type": "object",
        "properties": {
            "found": {"type": "boolean"},
            "anchors": {"type": "array", "items": {"type": "string", "maxLength": 30}, "maxItems": 3},
            "confidence": {"type": "number"},  # its bounds would not be kept: the engine knows none for fractions
        },
        "required": ["found", "anchors", "confidence"],
        "additionalProperties": False,
    },
    "choice": {"enum": ["red", "green", "blue"]},
    "either": {
        "anyOf": [
            {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False},
            {
                "type": "object",
                "properties": {"b": {"type": "integer"}},
                "required": ["b"],
                "additionalProperties": False,
            },
        ]
    },
}


@pytest.mark.parametrize("name", SCHEMAS)
async def test_a_schema_is_obeyed(served: GgufModel, name: str) -> None:
    reply = await served.ask(
        asking("The log says: ERROR disk 7 is gone. Which disk?", schema=SCHEMAS[name], max_tokens=200)
    )
    assert reply.stop == "end"
    jsonschema.validate(json.loads(reply.text), SCHEMAS[name])


@in_full
async def test_an_action_is_a_call_of_a_tool_that_there_is_or_an_answer(served: GgufModel) -> None:
    reply = await with_tools(served).ask(asking("Which disk failed? Search.", tools=(GREP,), max_tokens=100))
    assert [call.name for call in reply.calls] in ([], ["context.grep"])
    assert reply.calls or reply.text


async def test_the_same_question_gets_the_same_answer(served: GgufModel) -> None:
    asked = asking("Name three colours.", max_tokens=12)
    assert (await served.ask(asked)).text == (await served.ask(asked)).text


@in_full
async def test_a_second_question_about_the_same_text_does_not_read_it_again(served: GgufModel) -> None:
    document = "\n".join(f"2026-11-15 job {n} ok" for n in range(30))
    first = await served.ask(Request((System(document), User("Which jobs?")), max_tokens=2))
    second = await served.ask(Request((System(document), User("Any errors?")), max_tokens=2))
    assert first.usage.input_tokens > 250
    assert second.usage.cached_tokens > 0.9 * second.usage.input_tokens - 40


async def test_it_costs_nothing(served: GgufModel) -> None:
    assert (await served.ask(asking("Hi", max_tokens=2))).usage.cost == 0.0


async def test_closing_ends_the_process_and_whoever_still_waits_is_told(model: GgufModel) -> None:
    rig = GgufRig(model)
    task = asyncio.ensure_future(model.ask(asking("List words.", schema=LONG)))
    await rig.has_begun()
    pid = model.server.pid
    assert pid is not None
    await model.close()
    assert not is_alive(pid)
    with pytest.raises(ModelFault):
        await task
    with pytest.raises(ModelFault, match="was closed"):
        await model.ask(asking("Hi"))


async def test_a_process_that_died_is_started_again(model: GgufModel) -> None:
    rig = GgufRig(model)
    task = asyncio.ensure_future(model.ask(asking("List words.", schema=LONG)))
    await rig.has_begun()
    first = model.server.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    with pytest.raises(ModelBusy, match="started again"):
        await task
    assert (await model.ask(asking("Hi", max_tokens=2))).text
    assert model.server.pid != first


async def test_a_reply_that_takes_too_long_is_given_up(small_model: Path) -> None:
    model = GgufModel(small_model, context=2048, timeout_seconds=1.0)
    try:
        with pytest.raises(ModelBusy, match="did not answer within 1 s"):
            await model.ask(asking("List words.", schema=LONG))
    finally:
        await model.close()


async def test_nobody_else_on_the_machine_can_ask_it(served: GgufModel) -> None:
    await served.ask(asking("Hi", max_tokens=2))
    address = served.server.address
    assert address is not None
    assert address.host == "127.0.0.1"
    asked = {"messages": [{"role": "user", "content": "Hi"}]}
    status, _ = await post_json(address.host, address.port, "/v1/chat/completions", asked, key="guessed")
    assert status == 401


async def test_a_real_server_is_asked_as_one_of_a_provider(served: GgufModel, monkeypatch: pytest.MonkeyPatch) -> None:
    await served.ask(asking("Hi", max_tokens=2))
    address = served.server.address
    assert address is not None
    monkeypatch.setenv("HOLDALL_MODEL_KEY", address.key)
    provider = ProviderModel(f"openai:any@http://{address.host}:{address.port}/v1", window=2048)
    try:
        held = await provider.ask(asking("Name a colour.", schema=COLOUR, max_tokens=60))
        cut = await provider.ask(asking("Tell me a long story.", max_tokens=5))
        with pytest.raises(ModelOverflow):
            await provider.ask(asking("word " * 5000))
    finally:
        await provider.close()
    # The library tells a server of this kind no lengths: what it is held to is the form, as far as its words go.
    assert re.match(r'\{\s*"colour"\s*:\s*"', held.text), held.text
    if held.stop != "length":
        jsonschema.validate(json.loads(held.text), COLOUR | {"properties": {"colour": {"type": "string"}}})
    # It draws its words, and may be done with the fifth; more it never writes, and what is cut has all of them.
    assert cut.usage.output_tokens == 5 if cut.stop == "length" else cut.usage.output_tokens <= 5


_PROGRAM = """
import asyncio, sys
from pathlib import Path
from holdall.llm.gguf import GgufModel
from holdall.llm.protocol import Request
from holdall.values.chat import User

model = GgufModel(Path(sys.argv[1]), context=1024)
reply = asyncio.run(model.ask(Request((User("Hi"),), max_tokens=2)))
print(model.server.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_the_process_ends_with_the_program_that_started_it_and_prints_nothing(small_model: Path, how: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(small_model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    pid = int(program.stdout.readline())
    assert is_alive(pid)
    if how == "is killed":
        program.kill()
    printed, complaints = program.communicate(timeout=SECONDS)
    assert (printed, complaints) == ("", "")
    wait_for_the_end_of(pid)


def wait_for_the_end_of(pid: int) -> None:
    """Its parent is gone, so somebody else reaps it: as long as it is no zombie either, it still runs."""
    descriptor = os.pidfd_open(pid) if is_alive(pid) else None
    if descriptor is None:
        return
    try:
        assert select.select([descriptor], [], [], SECONDS)[0], "it outlived its program"
    finally:
        os.close(descriptor)
