"""OpenAI Agents SDK: agents, those they hand off to, streams, approvals, saved runs."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    ToolOutputImage,
    function_tool,
    handoff,
    set_trace_processors,
)
from agents.extensions import ToolOutputTrimmer
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.testing.model import ModelStep
from agents.tool_context import ToolContext
from agents.tracing import TracingProcessor
from openai.types.responses import ResponseFunctionToolCall

from holdall.adapters.openai_agents import agent as with_holdall
from tests.adapters.contract import (
    BROKEN,
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
    as_tool,
    big,
    calls_then_answers,
    example,
    fetch,
    finds_the_needle,
    handle_in,
    small,
)
from tests.requirements import requirement

pytestmark = pytest.mark.adapters


class Watches(TracingProcessor):
    """What a processor of traces is told at the end of each span."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def on_span_end(self, span: Any) -> None:
        self.told.append(json.dumps(span.export()))

    def on_trace_start(self, trace: Any) -> None: ...
    def on_trace_end(self, trace: Any) -> None: ...
    def on_span_start(self, span: Any) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


@pytest.fixture(autouse=True)
def no_traces() -> Iterator[None]:
    yield
    set_trace_processors([])


@contextmanager
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """`run_sync` takes the loop of the thread, ends its generators, and leaves it open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    loop.close()
    asyncio.set_event_loop(None)


MOST_TURNS = 30


def model_of(script: Script, requests: list[Request]) -> ScriptedModel:
    def respond(call: Any) -> Any:
        requests.append(seen(call))
        says = script(requests)
        if isinstance(says, str):
            return [assistant_message(says)]
        return [function_call(one.tool, dict(one.arguments), call_id=one.id) for one in says]

    return ScriptedModel(ModelStep(responder=respond) for _ in range(MOST_TURNS))


def seen(call: Any) -> Request:
    items = call.input if isinstance(call.input, list) else [{"content": call.input}]
    results = {one["call_id"]: got(one["output"]) for one in items if one.get("type") == "function_call_output"}
    text = "\n".join([call.system_instructions or "", *map(str, items)])
    return Request(results, tuple(tool.name for tool in call.tools), call.system_instructions or "", text)


def got(output: Any) -> Got:
    if isinstance(output, str):
        return Got(output)
    texts = [one["text"] for one in output if one["type"] == "input_text"]
    images = [one["image_url"].partition(",")[2] for one in output if one["type"] == "input_image"]
    return Got("\n".join(texts), images=tuple(map(base64.b64decode, images)))


class OpenAIAgents:
    limits: Mapping[Limit, str] = {}
    is_lean = False

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async

    def adapter(self, home: Path, **options: Any) -> Any:
        """An agent has its tools when it is copied: here with those of the run."""
        return Adapter({"home": str(home), **options})

    def close(self, adapter: Any) -> None:
        adapter.close()

    def run(self, adapter: Any, script: Script, tools: Sequence[Any], *, conversation: str = "c1") -> Ran:
        requests: list[Request] = []
        watches = Watches()
        set_trace_processors([] if self.is_lean else [watches])
        made = [one if isinstance(one, FunctionTool) else function_tool(one) for one in tools]
        agent: Any = Agent("tester", instructions="Be brief.", tools=made, model=model_of(script, requests))
        agent = adapter.copy(agent) if adapter else agent
        session, config = SQLiteSession(conversation), RunConfig(group_id=conversation)
        events: list[str] = []

        if self.is_lean:
            run = Runner.run(agent, "go", run_config=config, max_turns=MOST_TURNS)
            return Ran(str(asyncio.run(run).final_output), requests)

        async def stream() -> Any:
            result = Runner.run_streamed(agent, "go", session=session, run_config=config)
            events.extend([str(event) async for event in result.stream_events()])
            return result, await session.get_items()

        if self.is_async:
            result, items = asyncio.run(stream())
        else:
            with own_loop():
                result = Runner.run_sync(agent, "go", session=session, run_config=config)
            items = asyncio.run(session.get_items())
        session.close()
        saved = str(items) + json.dumps(result.to_state().to_json())
        new_items = "\n".join(map(str, [*events, *result.new_items]))
        return Ran(str(result.final_output), requests, saved, new_items, "\n".join(watches.told))

    def image_tool(self, name: str, image: bytes) -> Any:
        url = f"data:image/png;base64,{base64.b64encode(image).decode()}"

        def photo() -> Any:
            return ToolOutputImage(image_url=url)

        return function_tool(photo, name_override=name, description_override="An image.")

    def passed_on(self, adapter: Any) -> tuple[object, object]:
        made = {"words": small()}

        async def invoke(context: Any, arguments: str) -> Any:
            return made

        tool = FunctionTool("small", "", {"type": "object", "properties": {}}, invoke, strict_json_schema=False)
        agent = adapter.copy(Agent("tester", tools=[tool]))

        async def called() -> object:
            [copied] = await agent.get_all_tools(RunContextWrapper(None))
            return await copied.on_invoke_tool(SimpleNamespace(tool_call_id="call-1", run_config=None), "{}")

        return made, asyncio.run(called())

    def interrupted(self, adapter: Any) -> tuple[str, str]:
        requests: list[Request] = []
        asked: list[str] = []

        async def needs(context: Any, arguments: Any, call_id: str) -> bool:
            asked.append(f"{QUESTION} {arguments}")
            return True

        @function_tool(needs_approval=needs)
        def delete(path: str) -> str:
            """Delete everything."""
            return f"{DELETED}: {path}"

        script = calls_then_answers(Call("delete", {"path": "/"}))
        agent = adapter.copy(Agent("tester", tools=[delete], model=model_of(script, requests)))

        async def both() -> None:
            first = await Runner.run(agent, "go")
            state = await RunState.from_json(agent, first.to_state().to_json())  # as another process does
            state.approve(state.get_interruptions()[0])
            await Runner.run(agent, state)

        asyncio.run(both())
        return asked[0], requests[-1].results["call-1"].text


class Adapter:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.copies: list[Any] = []

    def copy(self, agent: Agent[Any]) -> Any:
        self.copies.append(with_holdall(agent, **self.options))
        return self.copies[-1]

    def close(self) -> None:
        for copied in self.copies:
            copied.holdall.close()


class TestSync(Contract):
    framework = OpenAIAgents(is_async=False)


class TestAsync(Contract):
    framework = OpenAIAgents(is_async=True)


FRAMEWORK = OpenAIAgents(is_async=True)


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Adapter]:
    adapter = Adapter({"home": str(tmp_path)})
    yield adapter
    adapter.close()


@requirement("adapter:needle")
def test_agents_that_hand_off_to_each_other_share_the_session(adapter: Adapter) -> None:
    requests: list[Request] = []

    def script(seen: list[Request]) -> Any:
        now = seen[-1]
        if len(seen) == 1:
            return [Call("transfer_to_reader")]
        if len(seen) == 2:
            return [Call("fetch", id="call-2")]
        if len(seen) == 3:
            return [Call("transfer_to_triage", id="call-3")]
        if len(seen) == 4:
            asked = {"handle": handle_in(now.results["call-2"].text), "pattern": NEEDLE}
            return [Call("context_grep", asked, "call-4")]
        return now.results["call-4"].text

    model = model_of(script, requests)
    triage: Any = Agent("triage", model=model)
    reader: Any = Agent("reader", model=model, tools=[function_tool(fetch)], handoffs=[triage])
    triage.handoffs = [handoff(reader)]
    result = asyncio.run(Runner.run(adapter.copy(triage), "go"))
    assert NEEDLE in result.final_output
    assert result.last_agent.name == "triage"
    assert len(triage.tools) == 0
    assert type(triage) is Agent


@requirement("adapter:conversations")
def test_runs_without_a_name_are_apart_and_session_can_find_one_in_the_context(tmp_path: Path) -> None:
    made = [function_tool(as_tool(fetch, is_async=True))]
    named = Adapter({"home": str(tmp_path), "session": lambda run: f"chat {run.context}"})
    for one, opened in ((Adapter({"home": str(tmp_path)}), 2), (named, 1)):
        for _ in range(2):
            model = model_of(finds_the_needle(fetch), [])
            agent = one.copies[-1] if one.copies else one.copy(Agent("tester", tools=made))
            result = asyncio.run(Runner.run(agent, "go", context=7, run_config=RunConfig(model=model)))
            assert NEEDLE in result.final_output
        names = one.copies[0].holdall.pool.open_names
        assert len(names) == opened
        one.close()
    assert names == ("chat 7",)


@requirement("adapter:interrupts")
@pytest.mark.parametrize("arguments", [{"path": "/"}, {"path": "/", "force": False}])
def test_an_approval_looks_at_the_same_arguments_as_without_the_adapter(adapter: Adapter, arguments: Any) -> None:
    """The SDK asks a person where validation would add to what a policy was shown."""

    async def needs(context: Any, arguments: Any, call_id: str) -> bool:
        return False

    @function_tool(needs_approval=needs, strict_mode=False)
    def delete(path: str, force: bool = True) -> str:
        """Delete everything."""
        return f"{DELETED} {path} {force}"

    def outcome(copied: bool) -> Any:
        requests: list[Request] = []
        model = model_of(calls_then_answers(Call("delete", arguments)), requests)
        agent: Any = Agent("tester", tools=[delete], model=model)
        result = asyncio.run(Runner.run(adapter.copy(agent) if copied else agent, "go"))
        return len(result.interruptions), [one.results for one in requests]

    assert outcome(copied=True) == outcome(copied=False)


@requirement("adapter:interrupts")
def test_an_error_that_is_to_end_the_run_ends_it(adapter: Adapter) -> None:
    @function_tool(failure_error_function=None)
    def fails() -> str:
        """It always fails."""
        raise RuntimeError(BROKEN)

    model = model_of(calls_then_answers(Call("fails")), [])
    with pytest.raises(Exception, match=BROKEN):
        asyncio.run(Runner.run(adapter.copy(Agent("tester", tools=[fails], model=model)), "go"))


class Stars:
    """In place of the rules for secrets."""

    def masked(self, value: Any) -> Any:
        return value.replace("secret", "******")


@requirement("adapter:same-object", "store:tool-redacts")
def test_an_output_that_has_a_schema_stays_for_programs_without_its_secrets(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = json.dumps({"text": f"secret {big()}"})

    async def invoke(context: Any, arguments: str) -> Any:
        return whole

    schema: Any = {"type": "object", "properties": {"text": {"type": "string"}}}
    tool = FunctionTool(
        "programs", "", {"type": "object", "properties": {}}, invoke, strict_json_schema=False,
        output_json_schema=schema,
    )  # fmt: skip

    async def called(caller: Any) -> Any:
        copied, *_ = await adapter.copy(Agent("tester", tools=[tool])).get_all_tools(RunContextWrapper(None))
        call = ResponseFunctionToolCall(
            name="programs", arguments="{}", call_id="c1", type="function_call", caller=caller
        )
        context = ToolContext(None, tool_name="programs", tool_call_id="c1", tool_arguments="{}", tool_call=call)
        return await copied.on_invoke_tool(context, "{}")

    program = {"type": "program", "caller_id": "p1"}
    assert asyncio.run(called(program)) == whole
    assert asyncio.run(called(None)).startswith("programs returned ")
    monkeypatch.setattr("holdall.bag.core.Core.redaction_of", lambda *_: Stars())
    assert asyncio.run(called(program)) == whole.replace("secret", "******")


@requirement("adapter:beside")
def test_a_tool_that_is_called_like_one_of_ours_is_left_out_aloud(adapter: Adapter) -> None:
    def context_grep(handle: str = "", pattern: str = "") -> str:
        """Of a server."""
        raise AssertionError

    requests: list[Request] = []
    model = model_of(finds_the_needle(fetch), requests)
    tools: Any = [function_tool(fetch), function_tool(context_grep)]
    agent = adapter.copy(Agent("tester", tools=tools, model=model))
    with pytest.warns(UserWarning, match="Left out.*context_grep"):
        ran = asyncio.run(Runner.run(agent, "go"))
    assert NEEDLE in str(ran.final_output)
    assert [request.tools.count("context_grep") for request in requests] == [0, 1, 1]


@requirement("adapter:saved-state")
def test_beside_a_trimmer_of_every_tool_it_warns(adapter: Adapter) -> None:
    def run(trimmer: ToolOutputTrimmer) -> None:
        model = model_of(calls_then_answers(Call("small")), [])
        agent = adapter.copy(Agent("tester", tools=[function_tool(small)], model=model))
        asyncio.run(Runner.run(agent, "go", run_config=RunConfig(call_model_input_filter=trimmer)))

    with pytest.warns(UserWarning, match="trimmable_tools"):
        run(ToolOutputTrimmer())
    run(ToolOutputTrimmer(trimmable_tools=["other"]))


@requirement("adapter:conversations")
def test_a_name_that_is_lost_with_tracing_is_told(adapter: Adapter) -> None:
    model = model_of(calls_then_answers(Call("small")), [])
    agent = adapter.copy(Agent("tester", tools=[function_tool(small)], model=model))
    config = RunConfig(group_id="chat 7", tracing_disabled=True)
    with pytest.warns(UserWarning, match="session="):
        asyncio.run(Runner.run(agent, "go", run_config=config))


@requirement("adapter:needle")
def test_an_agent_that_is_used_as_a_tool_is_copied_before(adapter: Adapter) -> None:
    inner: Any = Agent("reader", tools=[function_tool(fetch)], model=model_of(finds_the_needle(fetch), []))
    tool = adapter.copy(inner).as_tool("ask_reader", "Ask the reader.")
    requests: list[Request] = []
    model = model_of(calls_then_answers(Call("ask_reader", {"input": "go"})), requests)
    asyncio.run(Runner.run(adapter.copy(Agent("tester", tools=[tool], model=model)), "go"))
    assert NEEDLE in requests[-1].results["call-1"].text


@requirement("adapter:needle")
def test_the_page_of_the_framework_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))
    with own_loop():
        names = example("openai_agents", model=model_of(finds_the_needle(fetch), []), fetch=fetch)
    assert NEEDLE in names["result"].final_output
