"""Pydantic AI: agents with the capability, run without and with a loop."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    InstrumentationSettings,
    RunContext,
    Tool,
    ToolReturn,
)
from pydantic_ai.capabilities import AbstractCapability, Instrumentation
from pydantic_ai.exceptions import ModelRetry, SkipToolExecution
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from holdall import Settings, UsageError
from holdall.adapters import Conversations
from holdall.adapters.pydantic_ai import Holdall, _with_outputs
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


@pytest.fixture(autouse=True)
def loop() -> Iterator[None]:
    """What has no loop makes one in Pydantic AI, and leaves it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    loop.close()
    asyncio.set_event_loop(None)


def model_of(script: Script, requests: list[Request]) -> FunctionModel:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        requests.append(seen(messages, info))
        says = script(requests)
        if isinstance(says, str):
            return ModelResponse([TextPart(says)])
        return ModelResponse([ToolCallPart(one.tool, dict(one.arguments), one.id) for one in says])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for at, part in enumerate(respond(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {at: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    return FunctionModel(respond, stream_function=stream)


def seen(messages: list[ModelMessage], info: AgentInfo) -> Request:
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    results = {part.tool_call_id: got(part) for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)}
    text = "\n".join([*(one.text for one in results.values()), *(str(getattr(part, "content", "")) for part in parts)])
    return Request(results, tuple(tool.name for tool in info.function_tools), info.instructions or "", text)


def got(part: ToolReturnPart | RetryPromptPart) -> Got:
    if isinstance(part, RetryPromptPart):
        return Got(part.model_response(), is_error=True)
    files = [one.data for one in part.files if isinstance(one, BinaryContent)]
    return Got(part.model_response_str(), part.outcome != "success", tuple(files))


class Nothing(AbstractCapability[Any]):
    """For the benchmark: what the framework itself takes for hooks that do nothing, and for tools that are not listed."""

    def get_toolset(self) -> Any:
        specs = Conversations().specs()
        made = [Tool.from_schema(small, one.plain_name, one.description, dict(one.schema)) for one in specs]
        return FunctionToolset(made, id="nothing")

    async def prepare_tools(self, ctx: RunContext[Any], tool_defs: Any) -> Any:
        return [one for one in tool_defs if one.name == "small"]

    async def before_model_request(self, ctx: RunContext[Any], request_context: Any) -> Any:
        return request_context

    async def wrap_tool_execute(
        self, ctx: RunContext[Any], *, call: Any, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        return await handler(args)


class PydanticAI:
    limits: Mapping[Limit, str] = {}
    is_lean = False

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async

    def adapter(self, home: Path, **options: Any) -> Any:
        return Holdall(home=str(home), **options)

    def close(self, adapter: Any) -> None:
        adapter.close()

    def nothing(self) -> Any:
        return Nothing()

    def run(self, adapter: Any, script: Script, tools: Sequence[Any], *, conversation: str = "c1") -> Ran:
        requests: list[Request] = []
        if self.is_lean:
            agent = Agent(model_of(script, requests), tools=tools, capabilities=[adapter] if adapter else [])
            return Ran(asyncio.run(agent.run("go", conversation_id=conversation)).output, requests)
        spans, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(spans))
        traced = Instrumentation(settings=InstrumentationSettings(tracer_provider=provider))
        agent = Agent(model_of(script, requests), tools=tools, capabilities=[*([adapter] if adapter else []), traced])
        events: list[str] = []

        async def watch(_: Any, stream: Any) -> None:
            events.extend([str(event) async for event in stream])

        options: Any = {"conversation_id": conversation, "event_stream_handler": watch}
        result = asyncio.run(agent.run("go", **options)) if self.is_async else agent.run_sync("go", **options)
        traces = "\n".join(span.to_json() for span in spans.get_finished_spans())
        return Ran(result.output, requests, result.all_messages_json().decode(), "\n".join(events), traces)

    def image_tool(self, name: str, image: bytes) -> Any:
        def photo() -> Any:
            return BinaryContent(image, media_type="image/png")

        return Tool(photo, name=name, description="An image.")

    def passed_on(self, adapter: Any) -> tuple[object, object]:
        made = ToolReturn(small())

        async def handler(_: Any) -> Any:
            return made

        return made, asyncio.run(wrap(adapter, handler))

    def interrupted(self, adapter: Any) -> tuple[str, str]:
        requests: list[Request] = []
        script = calls_then_answers(Call("delete"))
        agent = Agent(model_of(script, requests), capabilities=[adapter], output_type=[str, DeferredToolRequests])

        @agent.tool
        def delete(ctx: RunContext[None]) -> str:
            """Delete everything."""
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"question": QUESTION})
            return DELETED

        first = agent.run_sync("go", conversation_id="c1")
        assert isinstance(first.output, DeferredToolRequests)
        agreed = DeferredToolResults(approvals={"call-1": True})
        agent.run_sync(message_history=first.all_messages(), deferred_tool_results=agreed)
        return str(first.output.metadata), requests[-1].results["call-1"].text


def wrap(adapter: Any, handler: Any, **definition: Any) -> Any:
    ctx: Any = SimpleNamespace(conversation_id="c1", run_id="r1")
    tool_def: Any = SimpleNamespace(name="small", tool_kind=None, **definition)
    call = ToolCallPart("small", {}, "call-1")
    return adapter.wrap_tool_execute(ctx, call=call, tool_def=tool_def, args={}, handler=handler)


class TestSync(Contract):
    framework = PydanticAI(is_async=False)


class TestAsync(Contract):
    framework = PydanticAI(is_async=True)


FRAMEWORK = PydanticAI(is_async=False)


@requirement("adapter:structured")
def test_both_values_of_a_tool_return_are_kept_and_what_is_for_the_application_stays(tmp_path: Path) -> None:
    def report() -> Any:
        """Report."""
        return ToolReturn(big(), content=big().replace(NEEDLE, "other"), metadata={"for": "the application"})

    adapter = FRAMEWORK.adapter(tmp_path)
    requests: list[Request] = []
    agent = Agent(model_of(calls_then_answers(Call("report")), requests), tools=[report], capabilities=[adapter])
    result = agent.run_sync("go", conversation_id="c1")
    adapter.close()
    parts = [part for message in result.all_messages() for part in message.parts]
    returned = next(part for part in parts if isinstance(part, ToolReturnPart))
    beside = [part for part in parts if isinstance(part, UserPromptPart)][-1]
    assert returned.metadata == {"for": "the application"}
    assert handle_in(str(returned.content)) != handle_in(str(beside.content))


@requirement("adapter:same-object")
def test_a_tool_that_another_tool_calls_returns_its_value(tmp_path: Path) -> None:
    """As the code of a code mode does: it would compute with a notice."""
    adapter = FRAMEWORK.adapter(tmp_path)
    requests: list[Request] = []
    agent = Agent(model_of(calls_then_answers(Call("code")), requests), tools=[fetch], capabilities=[adapter])

    @agent.tool
    async def code(ctx: RunContext[None]) -> int:
        """Run code."""
        manager: Any = ctx.tool_manager
        return len(await manager.handle_call(ToolCallPart("fetch", {}, "inner")))

    agent.run_sync("go", conversation_id="c1")
    adapter.close()
    assert requests[-1].results["call-1"].text == str(len(big()))


@requirement("adapter:needle")
def test_a_result_that_another_capability_gives_in_place_of_the_tool_is_kept(tmp_path: Path) -> None:
    class Cached(AbstractCapability[Any]):
        async def before_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            raise SkipToolExecution(big())

    adapter = FRAMEWORK.adapter(tmp_path)
    requests: list[Request] = []
    model = model_of(calls_then_answers(Call("small")), requests)
    Agent(model, tools=[small], capabilities=[adapter, Cached()]).run_sync("go", conversation_id="c1")
    adapter.close()
    assert kept(tmp_path, "conversation:c1", handle_in(requests[-1].results["call-1"].text)) == big().encode()


@requirement("adapter:same-object")
def test_beside_the_limits_of_the_harness_it_refuses_to_run(tmp_path: Path) -> None:
    class ToolOutputLimits(AbstractCapability[Any]):
        """By its name: that of pydantic-ai-harness needs one exact version of pydantic-ai."""

    adapter = FRAMEWORK.adapter(tmp_path)
    agent = Agent(model_of(finds_the_needle(fetch), []), tools=[fetch], capabilities=[adapter, ToolOutputLimits()])
    with pytest.raises(UsageError, match="ToolOutputLimits"):
        agent.run_sync("go")
    adapter.close()


@requirement("adapter:conversations")
def test_the_session_can_be_found_in_the_context(tmp_path: Path) -> None:
    adapter = Holdall(home=str(tmp_path), session=lambda ctx: f"user {ctx.deps}", settings=Settings())
    agent = Agent(model_of(finds_the_needle(fetch), []), tools=[fetch], capabilities=[adapter], deps_type=int)
    assert NEEDLE in agent.run_sync("go", deps=7).output
    assert adapter.conversations.pool.open_names == ("user 7",)
    adapter.close()


@requirement("way:nothing-lost-silently")
def test_a_file_that_is_masked_is_given_with_the_note_beside_it() -> None:
    """As the bag gives it: the environment of these tests has no rules for secrets."""
    file, shown = (
        BinaryContent(b"key", media_type="text/plain"),
        [[{"type": "text", "text": "[masked]"}, {"type": "file", "data": b"***"}]],
    )
    [masked, note] = _with_outputs(file, list(shown))
    assert (masked.data, masked.media_type, note) == (b"***", "text/plain", "[masked]")
    assert _with_outputs([file, [1]], [*shown, [1]]) == [masked, note, [1]]


@requirement("adapter:needle")
def test_the_page_of_the_framework_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))
    names = example("pydantic_ai", model=model_of(finds_the_needle(fetch), []), fetch=fetch)
    assert NEEDLE in names["result"].output


@requirement("adapter:interrupts")
def test_a_large_retry_reaches_the_model_as_a_notice(tmp_path: Path) -> None:
    def refuses() -> str:
        """Never takes it."""
        raise ModelRetry(big())

    requests: list[Any] = []
    agent = Agent(
        model_of(calls_then_answers(Call("refuses", {}, "call-1")), requests),
        tools=[refuses],
        capabilities=[Holdall(home=str(tmp_path))],
    )
    result = agent.run_sync("go", conversation_id="c1")
    assert max(len(one.text) for one in requests) < 20_000
    assert len(result.all_messages_json()) < 20_000
