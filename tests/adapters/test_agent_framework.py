"""Microsoft Agent Framework: agents with the provider, streamed and not; approvals, compaction, other middleware."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddleware,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ContextProvider,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionMiddleware,
    FunctionTool,
    Message,
    MiddlewareTermination,
    ResponseStream,
    ToolResultCompactionStrategy,
    tool,
)
from agent_framework.observability import OBSERVABILITY_SETTINGS, enable_instrumentation
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdall.adapters.agent_framework import _outputs, _Results, _Run, _with_outputs, provider
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
def spans() -> Iterator[None]:
    """With all that the framework can tell of a call."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(SPANS))
    trace.set_tracer_provider(made)
    enable_instrumentation(enable_sensitive_data=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OBSERVABILITY_SETTINGS, "otel_semconv_stability_opt_in", "gen_ai_latest_experimental")
        yield


class Scripted(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """The model of the contract; it notes down each request."""

    def __init__(self, script: Script, requests: list[Request]) -> None:
        super().__init__()
        self.script, self.requests = script, requests

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        def contents() -> list[Content]:
            self.requests.append(seen(messages, options))
            says = self.script(self.requests)
            if isinstance(says, str):
                return [Content.from_text(says)]
            return [Content.from_function_call(one.id, one.tool, arguments=dict(one.arguments)) for one in says]

        async def whole() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", contents())])

        async def updates() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(contents=contents(), role="assistant")

        return ResponseStream(updates(), finalizer=ChatResponse.from_updates) if stream else whole()


def seen(messages: Sequence[Message], options: Mapping[str, Any]) -> Request:
    contents = [one for message in messages for one in message.contents]
    results = {str(one.call_id): got(one) for one in contents if one.type == "function_result"}
    tools = tuple(one.name for one in options.get("tools") or ())
    text = "\n".join([*(one.text or "" for one in contents), *(one.text for one in results.values())])
    return Request(results, tools, options.get("instructions") or "", text)


def got(result: Content) -> Got:
    items = result.items or []
    texts = [one.text or "" for one in items if one.type == "text"] or [str(result.result or "")]
    return Got("\n".join(texts), result.exception is not None, tuple(map(image_of, filter(is_data, items))))


def is_data(content: Content) -> bool:
    return content.type == "data"


def image_of(content: Content) -> bytes:
    return base64.b64decode(str(content.uri).partition(",")[2])


class Nothing(ContextProvider):
    """For the benchmark: what the framework itself takes for hooks that do nothing."""

    def __init__(self) -> None:
        super().__init__("nothing")

    async def before_run(self, *, context: Any, **_: Any) -> None:
        class Functions(FunctionMiddleware):
            async def process(self, context: Any, call_next: Any) -> None:
                await call_next()

        class Requests(ChatMiddleware):
            async def process(self, context: Any, call_next: Any) -> None:
                await call_next()

        context.extend_middleware("nothing", [Functions(), Requests()])


class AgentFramework:
    is_lean = False
    limits: Mapping[Limit, str] = {
        "traces": "a function writes its span, with its result where sensitive data is on, before any middleware",
    }

    def __init__(self, *, is_async: bool) -> None:
        self.is_async = is_async

    def adapter(self, home: Path, **options: Any) -> Any:
        return provider(home=str(home), **options)

    def close(self, adapter: Any) -> None:
        adapter.close()

    def nothing(self) -> Any:
        return Nothing()

    def run(self, adapter: Any, script: Script, tools: Sequence[Any], *, conversation: str = "c1") -> Ran:
        requests: list[Request] = []
        SPANS.clear()
        agent, session = agent_of(adapter, script, requests, tools), AgentSession(session_id=conversation)

        async def run() -> tuple[Any, list[Any]]:
            if not self.is_async:
                return await agent.run("go", session=session), []
            stream = agent.run("go", session=session, stream=True)
            updates = [update async for update in stream]
            return await stream.get_final_response(), updates

        response, updates = asyncio.run(run())
        if self.is_lean:
            return Ran(response.text, requests)
        traces = "\n".join(span.to_json() for span in SPANS.get_finished_spans())
        events = json.dumps([one.to_dict() for one in [*updates, *response.messages]], default=str)
        return Ran(response.text, requests, json.dumps(session.to_dict(), default=str), events, traces)

    def image_tool(self, name: str, image: bytes) -> Any:
        def photo() -> Any:
            return [Content.from_text("a picture:"), Content.from_data(image, "image/png")]

        return FunctionTool(name=name, description="An image.", func=photo)

    def passed_on(self, adapter: Any) -> tuple[object, object]:
        made = [Content.from_text(small())]
        context = FunctionInvocationContext(FunctionTool(name="small", func=small), {})

        async def call() -> None:
            context.result = made

        asyncio.run(_Results(_Run(adapter.conversations, "c1")).process(context, call))
        return made, context.result

    def interrupted(self, adapter: Any) -> tuple[str, str]:
        @tool(approval_mode="always_require")
        def delete(why: str) -> str:
            """Delete everything."""
            return DELETED

        requests: list[Request] = []
        script = calls_then_answers(Call("delete", {"why": QUESTION}))
        agent, session = agent_of(adapter, script, requests, [delete]), AgentSession(session_id="c1")

        async def both() -> str:
            first = await agent.run("go", session=session)
            [asked] = first.user_input_requests
            await agent.run(Message("user", [asked.to_function_approval_response(approved=True)]), session=session)
            return str(asked.function_call.arguments)

        return asyncio.run(both()), requests[-1].results["call-1"].text


def agent_of(adapter: Any, script: Script, requests: list[Request], tools: Sequence[Any]) -> Any:
    made = [one if isinstance(one, FunctionTool) else tool(one) for one in tools]
    providers = [adapter] if adapter else []
    return Agent(Scripted(script, requests), "Be brief.", tools=made, context_providers=providers)


class TestPlain(Contract):
    framework = AgentFramework(is_async=False)


class TestStreamed(Contract):
    framework = AgentFramework(is_async=True)


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[Any]:
    made = provider(home=str(tmp_path))
    yield made
    made.close()


@requirement("adapter:needle")
@pytest.mark.parametrize("ends", [False, True])
def test_a_result_that_other_middleware_gives_in_place_of_the_tool_is_kept(
    adapter: Any, tmp_path: Path, ends: bool
) -> None:
    class Cached(FunctionMiddleware):
        async def process(self, context: FunctionInvocationContext, call_next: Any) -> None:
            context.result = big()
            if ends:
                raise MiddlewareTermination

    class Behind(ContextProvider):
        async def before_run(self, *, context: Any, **_: Any) -> None:
            context.extend_middleware(self.source_id, [Cached()])

    agent = agent_of(adapter, calls_then_answers(Call("small")), [], [small])
    agent.context_providers.append(Behind("behind"))
    session = AgentSession(session_id="c1")
    asyncio.run(agent.run("go", session=session))
    saved = json.dumps(session.to_dict(), default=str)
    assert "name 64321" not in saved
    assert kept(tmp_path, "conversation:c1", handle_in(saved.replace("\\n", "\n"))) == big().encode()


@requirement("adapter:saved-state")
def test_beside_the_compaction_of_results_handles_stay_in_the_request(adapter: Any) -> None:
    def script(requests: list[Request]) -> Any:
        now = requests[-1]
        if len(requests) == 1:
            return [Call("fetch")]
        if len(requests) == 2:
            assert not now.results
            return [Call("context_grep", {"handle": handle_in(now.text), "pattern": NEEDLE}, "call-2")]
        return now.text

    agent = agent_of(adapter, script, [], [fetch])
    agent.client.compaction_strategy = ToolResultCompactionStrategy(keep_last_tool_call_groups=0)
    response = asyncio.run(agent.run("go", session=AgentSession(session_id="c1")))
    assert NEEDLE in response.text


@requirement("adapter:conversations")
def test_runs_without_a_session_are_apart(adapter: Any) -> None:
    for _ in range(2):
        response = asyncio.run(agent_of(adapter, finds_the_needle(fetch), [], [fetch]).run("go"))
        assert NEEDLE in response.text
    assert len(adapter.conversations.pool.open_names) == 2


@requirement("adapter:beside")
def test_a_tool_that_is_called_like_one_of_ours_is_never_called(adapter: Any) -> None:
    @tool
    def context_grep(handle: str = "", pattern: str = "") -> str:
        """Of a server."""
        raise AssertionError

    response = asyncio.run(agent_of(adapter, finds_the_needle(fetch), [], [fetch, context_grep]).run("go"))
    assert NEEDLE in response.text


@requirement("way:nothing-lost-silently")
def test_what_is_masked_is_given_with_the_note_beside_it() -> None:
    """As the bag gives it: the environment of these tests has no rules for secrets."""
    file, url = Content.from_data(b"key", media_type="text/plain"), "data:text/plain;base64,Kioq"
    blocks = [{"type": "text", "text": "[masked]"}, {"type": "file", "url": url}]
    [masked, note] = _with_outputs([file], [blocks])
    assert (masked.uri, note.text) == (url, "[masked]")
    error = Content.from_error(message="key")
    output: Any = _outputs(error)[0]
    [masked] = _with_outputs(error, [{**output, "message": "***"}])
    assert masked.message == "***"
    assert _with_outputs(error, [output]) == [error]


@requirement("clamp:budget-shared")
def test_the_parts_of_a_result_share_its_limits(adapter: Any) -> None:
    """Of a server with many text blocks: each by itself would pass, however many they are."""

    @tool(approval_mode="never_require")
    def many() -> list[Content]:
        """Many parts."""
        picture = Content.from_data(b"\x89PNG", "image/png")
        return [*(Content.from_text(f"{number} row of text here\n" * 1_500) for number in range(20)), picture]

    @tool(approval_mode="never_require")
    def few() -> list[Content]:
        """Two parts."""
        return [Content.from_text("one"), Content.from_text("two")]

    requests: list[Request] = []
    script = calls_then_answers(Call("many", {}, "call-1"), Call("few", {}, "call-2"))
    asyncio.run(agent_of(adapter, script, requests, [many, few]).run("go", session=AgentSession(session_id="c1")))
    assert "many returned 585,019 bytes" in requests[1].results["call-1"].text
    assert len(requests[1].results["call-1"].text) < 5_000
    assert requests[1].results["call-2"].text.split() == ["one", "two"]


@requirement("adapter:needle")
def test_the_page_of_the_framework_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))
    names = example("agent_framework", client=Scripted(finds_the_needle(fetch), []), fetch=fetch)
    assert NEEDLE in names["text"]
