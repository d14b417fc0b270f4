"""Strands Agents: agents with the plugin, without and with a loop; streams, interrupts, calls from code."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from strands import Agent, ToolContext, tool
from strands.hooks import MessageAddedEvent
from strands.middleware import ExecuteToolStage, InvokeModelStage
from strands.models import Model
from strands.plugins import Plugin
from strands.session import FileSessionManager
from strands.types.tools import AgentTool
from strands.vended_plugins.context_offloader import ContextOffloader

from holdall import Settings, ToolPolicy
from holdall.adapters import Conversations
from holdall.adapters.strands import _Guarded, plugin
from tests.adapters.contract import (
    DELETED,
    NEEDLE,
    QUESTION,
    Call,
    Contract,
    Got,
    Limit,
    Ran,
    Request,
    Script,
    big,
    calls_then_answers,
    example,
    fetch,
    finds_the_needle,
    handle_in,
    kept,
    small,
)
from tests.requirements import requirement

pytestmark = pytest.mark.adapters

SPANS = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def spans() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(provider)


class Scripted(Model):
    """The model of the contract; it notes down each request."""

    def __init__(self, script: Script, requests: list[Request]) -> None:
        self.script, self.requests = script, requests

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **_: Any
    ) -> AsyncIterator[Any]:
        self.requests.append(seen(messages, tool_specs or [], system_prompt or ""))
        says = self.script(self.requests)
        yield {"messageStart": {"role": "assistant"}}
        for one in [says] if isinstance(says, str) else says:
            start = {} if isinstance(one, str) else {"toolUse": {"name": one.tool, "toolUseId": one.id}}
            yield {"contentBlockStart": {"start": start}}
            text = {"text": one} if isinstance(one, str) else {"toolUse": {"input": json.dumps(dict(one.arguments))}}
            yield {"contentBlockDelta": {"delta": text}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(says, str) else "tool_use"}}


def seen(messages: Any, specs: Any, system: str) -> Request:
    blocks = [block for message in messages for block in message["content"]]
    results = {one["toolResult"]["toolUseId"]: got(one["toolResult"]) for one in blocks if "toolResult" in one}
    text = "\n".join([*(one.get("text", "") for one in blocks), *(one.text for one in results.values())])
    return Request(results, tuple(spec["name"] for spec in specs), system, text)


def got(result: Any) -> Got:
    texts = [one.get("text") or json.dumps(one["json"]) for one in result["content"] if "text" in one or "json" in one]
    images = [one["image"]["source"]["bytes"] for one in result["content"] if "image" in one]
    return Got("\n".join(texts), result["status"] == "error", tuple(images))


class Nothing(Plugin):
    """For the benchmark: what the framework itself takes for hooks that do nothing, and for tools that are not listed."""

    name = "nothing"

    def init_agent(self, agent: Agent) -> None:
        for spec in Conversations().specs():
            made = tool(name=spec.plain_name, description=spec.description, inputSchema=dict(spec.schema))(small)
            agent.tool_registry.register_tool(made)
        agent.add_middleware(ExecuteToolStage.Input, lambda context: context)
        agent.add_middleware(InvokeModelStage.Input, self._request)
        agent.add_hook(lambda _: None, MessageAddedEvent)

    def _request(self, context: Any) -> Any:
        return context.replace(tool_specs=[one for one in context.tool_specs if one["name"] == "small"])


class Strands:
    limits: Mapping[Limit, str] = {}
    is_lean = False

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async

    def adapter(self, home: Path, **options: Any) -> Any:
        named = {"session": "c1"} if self.is_lean else {}  # then there is no session manager, which names it
        return plugin(home=str(home), **named, **options)

    def close(self, adapter: Any) -> None:
        adapter.close()

    def nothing(self) -> Any:
        return Nothing()

    def run(self, adapter: Any, script: Script, tools: Sequence[Any], *, conversation: str = "c1") -> Ran:
        requests: list[Request] = []
        if self.is_lean:
            agent = Agent(
                Scripted(script, requests), tools=[tool(one) for one in tools], plugins=[adapter] if adapter else [],
                callback_handler=None,
            )  # fmt: skip
            return Ran(str(asyncio.run(agent.invoke_async("go"))).removesuffix("\n"), requests)
        events: list[str] = []
        SPANS.clear()
        with tempfile.TemporaryDirectory() as folder:
            agent = Agent(
                Scripted(script, requests), tools=[one if isinstance(one, AgentTool) else tool(one) for one in tools],
                plugins=[adapter] if adapter else [], callback_handler=lambda **event: events.append(str(event)),
                session_manager=FileSessionManager(conversation, storage_dir=folder),
            )  # fmt: skip
            result = asyncio.run(agent.invoke_async("go")) if self.is_async else agent("go")
            saved = "\n".join(file.read_text() for file in Path(folder).rglob("*.json")) + str(agent.messages)
        traces = "\n".join(span.to_json() for span in SPANS.get_finished_spans()) + str(result.metrics)
        return Ran(str(result).removesuffix("\n"), requests, saved, "\n".join(events), traces)

    def image_tool(self, name: str, image: bytes) -> Any:
        @tool(name=name)
        def photo() -> Any:
            """An image."""
            block = {"image": {"format": "png", "source": {"bytes": image}}}
            return {"status": "success", "content": [{"text": "a picture:"}, block]}

        return photo

    def passed_on(self, adapter: Any) -> tuple[object, object]:
        made: Any = {"toolUseId": "call-1", "status": "success", "content": [{"text": small()}]}

        class Small(AgentTool):
            tool_name, tool_type, tool_spec = "small", "test", {"name": "small"}

            async def stream(self, tool_use: Any, invocation_state: Any, **_: Any) -> Any:
                yield made

        async def called() -> list[object]:
            agent = Agent(Scripted(calls_then_answers(), []), plugins=[adapter])
            guarded = _Guarded(adapter, agent, Small())
            return [one async for one in guarded.stream({"toolUseId": "call-1", "name": "small", "input": {}}, {})]

        [passed] = asyncio.run(called())
        return made, passed

    def interrupted(self, adapter: Any) -> tuple[str, str]:
        @tool(context=True)
        def delete(tool_context: ToolContext) -> str:
            """Delete everything."""
            return DELETED if tool_context.interrupt("sure", reason=QUESTION) == "yes" else "nothing is deleted"

        requests: list[Request] = []
        agent = Agent(Scripted(calls_then_answers(Call("delete")), requests), tools=[delete], plugins=[adapter])

        def invoke(given: Any) -> Any:
            return asyncio.run(agent.invoke_async(given)) if self.is_async else agent(given)

        first = invoke("go")
        [asked] = first.interrupts
        invoke([{"interruptResponse": {"interruptId": asked.id, "response": "yes"}}])
        return f"{first.stop_reason}: {asked.reason}", requests[-1].results["call-1"].text


class TestSync(Contract):
    framework = Strands(is_async=False)


class TestAsync(Contract):
    framework = Strands(is_async=True)


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Any]:
    made = plugin(home=str(tmp_path))
    yield made
    made.close()


def rows_later() -> Any:
    @tool(name="fetch")
    async def streaming() -> Any:
        """Fetch the rows."""
        yield "half of it"
        yield big()

    return streaming


@requirement("adapter:saved-state")
def test_what_a_tool_streams_passes_and_only_its_result_is_kept(adapter: Any) -> None:
    events: list[Any] = []
    agent = Agent(Scripted(finds_the_needle(fetch), []), tools=[rows_later()], plugins=[adapter])

    async def run() -> None:
        events.extend([event async for event in agent.stream_async("go")])

    asyncio.run(run())
    streamed = [event["tool_stream_event"]["data"] for event in events if "tool_stream_event" in event]
    assert streamed[0] == "half of it"
    assert NEEDLE in str(events[-1]["result"])


@requirement("adapter:beside")
def test_a_tool_that_is_called_like_one_of_ours_is_left_out_aloud(adapter: Any) -> None:
    def context_grep(handle: str = "", pattern: str = "") -> str:
        """Of a server."""
        raise AssertionError

    model, tools = Scripted(finds_the_needle(fetch), []), [tool(fetch), tool(context_grep)]
    with pytest.warns(UserWarning, match="Left out.*context_grep"):
        agent = Agent(model, tools=tools, plugins=[adapter], callback_handler=None)
    assert NEEDLE in str(agent("go"))


@requirement("adapter:conversations")
def test_agents_without_a_session_manager_are_apart(adapter: Any) -> None:
    agents = [
        Agent(Scripted(finds_the_needle(fetch), []), tools=[tool(fetch)], plugins=[adapter], callback_handler=None)
        for _ in range(2)
    ]
    assert all(NEEDLE in str(agent("go")) for agent in agents)
    assert len(adapter.conversations.pool.open_names) == 2


@requirement("adapter:same-object")
def test_a_call_from_code_returns_its_value_and_the_model_gets_a_notice(adapter: Any, tmp_path: Path) -> None:
    requests: list[Request] = []
    manager_folder = tmp_path / "strands"
    manager = FileSessionManager("c1", storage_dir=str(manager_folder))
    agent = Agent(
        Scripted(lambda _: "done", requests), tools=[tool(fetch)], plugins=[adapter], session_manager=manager,
        callback_handler=None,
    )  # fmt: skip
    assert agent.tool.fetch()["content"] == [{"text": big()}]
    for _ in range(2):
        agent("what did it return?")
    notices = [got.text for request in requests for got in request.results.values()]
    assert len(set(notices)) == 1
    assert kept(tmp_path, "conversation:c1", handle_in(notices[0])) == big().encode()
    assert len(str(agent.messages)) + sum(one.stat().st_size for one in manager_folder.rglob("*.json")) < 10_000


@requirement("way:policy-never-stored")
@pytest.mark.parametrize("from_code", [True, False])
@pytest.mark.parametrize("is_shown", [True, False])
def test_a_result_is_looked_at_under_the_name_of_its_tool(tmp_path: Path, is_shown: bool, from_code: bool) -> None:
    @tool
    def env() -> str:
        """The environment."""
        return "A LINE THAT IS NEVER STORED\n" * 3000

    own = dict.fromkeys(("max_inline_bytes", "max_inline_tokens", "max_inline_lines"), 10**6) if is_shown else {}
    made = plugin(home=str(tmp_path), settings=Settings(tools={"env": ToolPolicy(store="never", **own)}))
    requests: list[Request] = []
    script: Script = (lambda _: "done") if from_code else calls_then_answers(Call("env"))
    agent = Agent(Scripted(script, requests), tools=[env], plugins=[made], callback_handler=None)
    if from_code:
        agent.tool.env()
    agent("go")
    made.close()
    [got] = requests[-1].results.values()
    assert (got.text.count("NEVER STORED") == 3000) == is_shown
    assert not [one for one in tmp_path.rglob("*") if one.is_file() and b"NEVER STORED" in one.read_bytes()]


@requirement("adapter:saved-state")
def test_beside_the_offloader_it_warns(adapter: Any) -> None:
    agent = Agent(
        Scripted(calls_then_answers(Call("small")), []), tools=[tool(small)], plugins=[adapter, ContextOffloader()],
        callback_handler=None,
    )  # fmt: skip
    with pytest.warns(UserWarning, match="ContextOffloader"):
        agent("go")


@requirement("adapter:needle")
def test_the_page_of_the_framework_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))
    names = example("strands", model=Scripted(finds_the_needle(fetch), []), fetch=fetch)
    assert NEEDLE in str(names["result"])
