"""Google ADK: runners with the plugin, without and with a loop; confirmations, workflows, agents as tools."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import AgentTool, FunctionTool, ToolContext
from google.adk.tools.base_tool import BaseTool
from google.adk.workflow import START, Workflow
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdall.adapters.google_adk import _outputs, _with_outputs, plugin
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

APP, USER = "app", "user"


@pytest.fixture(scope="module", autouse=True)
def spans() -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(provider)


SPANS = InMemorySpanExporter()


class Scripted(BaseLlm):
    """The model of the contract; it notes down each request."""

    model: str = "scripted"
    script: Any
    requests: Any

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        self.requests.append(seen(llm_request))
        says = self.script(self.requests)
        if isinstance(says, str):
            parts = [types.Part(text=says)]
        else:
            calls = [types.FunctionCall(id=one.id, name=one.tool, args=dict(one.arguments)) for one in says]
            parts = [types.Part(function_call=call) for call in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def seen(request: LlmRequest) -> Request:
    parts = [part for content in request.contents for part in content.parts or ()]
    answers = [part.function_response for part in parts if part.function_response is not None]
    results = {str(one.id): got(one) for one in answers}
    declared = [
        one for tool in request.config.tools or () for one in getattr(tool, "function_declarations", None) or ()
    ]
    text = "\n".join([*(part.text or "" for part in parts), *(one.text for one in results.values())])
    system = str(request.config.system_instruction or "")
    return Request(results, tuple(str(one.name) for one in declared), system, text)


def got(answer: types.FunctionResponse) -> Got:
    said = answer.response or {}
    [text] = said.values() if set(said) in ({"result"}, {"error"}) else [None]
    text = text if isinstance(text, str) else json.dumps(said)
    images = [one.inline_data.data for one in answer.parts or () if one.inline_data is not None]
    return Got(text, "error" in said, tuple(image for image in images if image is not None))


class GoogleADK:
    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async
        here: dict[Limit, str] = {"background": "a plain function is called on the loop itself"}
        self.limits: Mapping[Limit, str] = {} if is_async else here

    def adapter(self, home: Path, **options: Any) -> Any:
        return plugin(home=str(home), **options)

    def close(self, adapter: Any) -> None:
        asyncio.run(adapter.close())

    def run(self, adapter: Any, script: Script, tools: Sequence[Any], *, conversation: str = "c1") -> Ran:
        requests: list[Request] = []
        SPANS.clear()
        agent = LlmAgent(name="tester", model=Scripted(script=script, requests=requests), tools=list(tools))
        events, session = Turns(agent, adapter, conversation, is_async=self.is_async).run("go")
        answer = "".join(part.text or "" for part in events[-1].content.parts)
        traces = "\n".join(span.to_json() for span in SPANS.get_finished_spans())
        return Ran(answer, requests, session.model_dump_json(), "\n".join(map(str, events)), traces)

    def image_tool(self, name: str, image: bytes) -> Any:
        def photo() -> Any:
            """An image."""
            return types.Part.from_bytes(data=image, mime_type="image/png")

        photo.__name__ = name
        return photo

    def passed_on(self, adapter: Any) -> tuple[object, object]:
        made = {"words": small()}

        class Small(BaseTool):
            async def run_async(self, *, args: Any, tool_context: Any) -> Any:
                return made

        class Context:
            session, function_call_id = SimpleNamespace(app_name=APP, user_id=USER, id="c1"), "call-1"

        context: Any = Context()
        tool = Small(name="small", description="")
        request = LlmRequest(tools_dict={"small": tool})

        async def called() -> object:
            await adapter.before_model_callback(callback_context=context, llm_request=request)
            return await request.tools_dict["small"].run_async(args={}, tool_context=context)

        return made, asyncio.run(called())

    def interrupted(self, adapter: Any) -> tuple[str, str]:
        def delete(tool_context: ToolContext) -> dict[str, str]:
            """Delete everything."""
            if tool_context.tool_confirmation is None:
                tool_context.request_confirmation(hint=QUESTION)
                return {"status": "pending"}
            return {"result": DELETED}

        asked, requests = confirmed(adapter, delete, is_async=self.is_async)
        return asked, requests[-1].results["call-1"].text


class Turns:
    """One session of a runner, with what a person says in it."""

    def __init__(self, agent: Any, adapter: Any, conversation: str, *, is_async: bool) -> None:
        self.sessions, self.conversation, self.is_async = InMemorySessionService(), conversation, is_async
        app = App(name=APP, root_agent=agent, plugins=[adapter] if adapter else [])
        self.runner = Runner(app=app, session_service=self.sessions)
        asyncio.run(self.sessions.create_session(app_name=APP, user_id=USER, session_id=conversation))

    def run(self, *said: str | types.Part) -> tuple[list[Any], Any]:
        parts = [types.Part(text=one) if isinstance(one, str) else one for one in said]
        given: Any = {
            "user_id": USER, "session_id": self.conversation, "new_message": types.Content(role="user", parts=parts),
        }  # fmt: skip

        async def run() -> list[Any]:
            return [event async for event in self.runner.run_async(**given)]

        events = asyncio.run(run()) if self.is_async else list(self.runner.run(**given))
        got = self.sessions.get_session(app_name=APP, user_id=USER, session_id=self.conversation)
        return events, asyncio.run(got)


def confirmed(adapter: Any, function: Any, *, is_async: bool) -> tuple[str, list[Request]]:
    """What the person is asked, and the requests to the model when it was agreed to."""
    requests: list[Request] = []
    model = Scripted(
        script=calls_then_answers(Call(getattr(function, "name", "") or function.__name__)), requests=requests
    )
    turns = Turns(LlmAgent(name="tester", model=model, tools=[function]), adapter, "c1", is_async=is_async)
    events, _ = turns.run("go")
    calls = [call for event in events for call in event.get_function_calls()]
    asked = next(call for call in calls if call.name == "adk_request_confirmation")
    yes = types.FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
    turns.run(types.Part(function_response=yes))
    return str(asked.args), requests


class TestSync(Contract):
    framework = GoogleADK(is_async=False)
    session = f"conversation:{APP}/{USER}/c1"


class TestAsync(Contract):
    framework = GoogleADK(is_async=True)
    session = f"conversation:{APP}/{USER}/c1"


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Any]:
    made = plugin(home=str(tmp_path))
    yield made
    asyncio.run(made.close())


@requirement("adapter:needle", "adapter:interrupts")
def test_what_a_tool_returns_after_it_was_confirmed_is_kept(adapter: Any, tmp_path: Path) -> None:
    """It is called before there is a request to the model."""
    asked, requests = confirmed(adapter, FunctionTool(fetch, require_confirmation=True), is_async=True)
    assert "fetch" in asked
    assert kept(tmp_path, TestAsync.session, handle_in(requests[-1].results["call-1"].text)) == big().encode()


@pytest.mark.filterwarnings("ignore:The `plugins` argument")  # the ADK's own call
@requirement("adapter:conversations")
def test_an_agent_that_is_a_tool_keeps_its_outputs_in_a_session_of_its_own(adapter: Any) -> None:
    inner: list[Request] = []
    reader = LlmAgent(name="reader", model=Scripted(script=finds_the_needle(fetch), requests=inner), tools=[fetch])
    requests: list[Request] = []
    script = calls_then_answers(Call("reader", {"request": "go"}))
    agent = LlmAgent(name="tester", model=Scripted(script=script, requests=requests), tools=[AgentTool(reader)])
    Turns(agent, adapter, "c1", is_async=True).run("go")
    assert NEEDLE not in inner[1].text
    assert NEEDLE in requests[-1].results["call-1"].text
    assert requests[-1].tools == ("reader",)


@requirement("adapter:same-object")
def test_a_tool_that_is_a_node_of_a_workflow_returns_its_value(adapter: Any) -> None:
    found: list[int] = []

    def begin(node_input: Any) -> dict[str, Any]:
        return {}

    def count(node_input: Any) -> str:
        found.append(len(node_input))
        return "counted"

    flow = Workflow(name="flow", edges=[(START, begin, FunctionTool(fetch), count)])
    Turns(flow, adapter, "c1", is_async=True).run("go")
    assert found == [len(big())]


@requirement("adapter:same-object")
def test_other_callbacks_still_see_results_and_may_replace_them(adapter: Any) -> None:
    seen_there: list[Any] = []

    def after(tool: Any, args: Any, tool_context: Any, tool_response: Any) -> Any:
        seen_there.append(tool_response)
        return {"result": "replaced"}

    requests: list[Request] = []
    model = Scripted(script=calls_then_answers(Call("small")), requests=requests)
    agent = LlmAgent(name="tester", model=model, tools=[small], after_tool_callback=after)
    Turns(agent, adapter, "c1", is_async=True).run("go")
    assert seen_there == [small()]
    assert requests[-1].results["call-1"].text == "replaced"


@requirement("adapter:needle")
def test_a_result_that_another_callback_gives_in_place_of_the_tool_is_kept(adapter: Any, tmp_path: Path) -> None:
    requests: list[Request] = []
    model = Scripted(script=calls_then_answers(Call("small")), requests=requests)
    agent = LlmAgent(
        name="tester", model=model, tools=[small], before_tool_callback=lambda **_: {"result": big()}
    )  # fmt: skip
    Turns(agent, adapter, "c1", is_async=True).run("go")
    assert kept(tmp_path, TestAsync.session, handle_in(requests[-1].results["call-1"].text)) == big().encode()


@requirement("adapter:conversations")
def test_users_whose_names_have_slashes_are_apart(adapter: Any) -> None:
    sessions = [SimpleNamespace(app_name="a", user_id=user, id=name) for user, name in (("b/c", "d"), ("b", "c/d"))]
    assert len({adapter.name_of(SimpleNamespace(session=one)) for one in sessions}) == 2


@requirement("way:nothing-lost-silently")
def test_parts_are_outputs_and_a_file_that_is_masked_is_given_with_the_note_beside_it() -> None:
    """As the bag gives it: the environment of these tests has no rules for secrets."""
    shown: list[Any] = [[{"type": "text", "text": "[masked]"}, {"type": "file", "data": b"***"}]]
    file = types.Part(inline_data=types.Blob(data=b"key", mime_type="text/plain"))
    [masked, note] = _with_outputs(file, list(shown))
    assert (masked.inline_data.data, note) == (b"***", "[masked]")
    text = types.Part(text="key")
    assert _outputs({"result": text}) == ["key"]
    assert _with_outputs({"result": text}, ["***"])["result"].text == "***"
    blob = types.FunctionResponseBlob(data=b"key", mime_type="text/plain")
    response = types.FunctionResponse(response={"a": 1}, parts=[types.FunctionResponsePart(inline_data=blob)])
    given = _outputs(response)
    assert len(given) == 2
    made = _with_outputs(response, [given[0], *shown])
    assert (made.response, made.parts[0].inline_data.data) == ({"a": 1, "notes": ["[masked]"]}, b"***")


@requirement("adapter:needle")
def test_the_page_of_the_framework_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))
    names = example("google_adk", model=Scripted(script=finds_the_needle(fetch), requests=[]), fetch=fetch)
    assert NEEDLE in str(names["events"][-1])
