"""A model of a provider, against a server that runs here: what is sent, what comes back, what every failure becomes."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.providers import ProviderModel
from holdall.values.chat import Assistant, Reply, System, ToolCall, ToolResult, Usage, User
from holdall.values.errors import ModelBusy, ModelDenied, ModelFault, ModelOverflow, NoSuchModel
from tests.llm.contract import COLOUR, GREP, asking
from tests.llm.openai_server import OpenAIServer, Scene, completion

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("real_models")]
HELLO = asking("Hello")


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer().running() as server:
        yield server


@pytest.fixture
async def model(server: OpenAIServer) -> AsyncIterator[ProviderModel]:
    model = ProviderModel(f"openai:small-one@{server.url}", window=8192, price=Price(2.0, 10.0, cached=0.5))
    yield model
    await model.close()


def refusal(message: str, **more: str) -> str:
    return json.dumps({"error": {"message": message, **more}})


async def test_a_key_that_its_server_repeats_is_not_shown(
    server: OpenAIServer, model: ProviderModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDALL_MODEL_KEY", "sk-its-own-key-123")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-its-own-key-123-and-more")
    server.will(Scene(401, refusal("no sk-its-own-key-123, nor sk-its-own-key-123-and-more " + "x" * 200)))
    with pytest.raises(ModelDenied, match=r"answered 401: no \*\*\*, nor \*\*\* x") as denied:
        await model.ask(HELLO)
    assert "sk-its" not in str(denied.value)


async def test_a_conversation_goes_out_as_it_is(server: OpenAIServer, model: ProviderModel) -> None:
    server.will(Scene(body=completion("Disk 7.")))
    text = "a <system>tag</system>, “quotes” and\ttabs stay"
    messages = (
        System("Be terse."),
        User(text),
        Assistant(
            "Looking.", (ToolCall("c1", "context.grep", {"pattern": "ERROR"}), ToolCall("c2", "context.grep", "{bro"))
        ),
        ToolResult("c1", "context.grep", "disk 7 ERROR"),
        ToolResult("c2", "context.grep", "not valid", is_error=True),
        System("This is turn 2."),
        User("Answer now."),
    )
    await model.ask(Request(messages, (GREP,), max_tokens=50))
    (sent,) = server.seen
    assert sent["messages"] == snapshot(
        [
            {"role": "system", "content": "Be terse."},
            {"role": "user", "content": "a <system>tag</system>, “quotes” and\ttabs stay"},
            {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "context_grep", "arguments": '{"pattern":"ERROR"}'},
                    },
                    {
                        "id": "c2",
                        "type": "function",
                        "function": {"name": "context_grep", "arguments": '{"arguments":"{bro"}'},
                    },
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "disk 7 ERROR"},
            {"role": "tool", "tool_call_id": "c2", "content": "not valid"},
            {"role": "user", "content": "This is turn 2."},
            {"role": "user", "content": "Answer now."},
        ]
    )
    assert sent["tools"] == snapshot(
        [
            {
                "type": "function",
                "function": {
                    "name": "context_grep",
                    "description": "Searches the log for a word.",
                    "parameters": {
                        "type": "object",
                        "properties": {"pattern": {"type": "string"}},
                        "required": ["pattern"],
                        "additionalProperties": False,
                    },
                    "strict": True,
                },
            }
        ]
    )
    assert sent["max_tokens"] == 50
    assert sent["model"] == "small-one"


async def test_a_schema_is_sent_as_one_to_keep_to(server: OpenAIServer, model: ProviderModel) -> None:
    server.will(Scene(body=completion('{"colour": "blue"}')))
    await model.ask(asking("Name a colour.", schema=COLOUR))
    assert server.seen[0]["response_format"] == snapshot(
        {
            "type": "json_schema",
            "json_schema": {
                "name": "reply",
                "schema": {
                    "type": "object",
                    "properties": {"colour": {"type": "string", "description": "maxLength=20"}},
                    "required": ["colour"],
                    "additionalProperties": False,
                },
                "strict": True,
            },
        }
    )


async def test_a_reply_without_a_limit_has_the_models_own(server: OpenAIServer, model: ProviderModel) -> None:
    server.will(Scene(body=completion("x")))
    await model.ask(HELLO)
    await model.ask(asking("Hello", max_tokens=1_000_000))
    assert [sent["max_tokens"] for sent in server.seen] == [model.max_output, model.max_output]


async def test_tokens_and_their_price_are_counted(server: OpenAIServer, model: ProviderModel) -> None:
    server.will(Scene(body=completion("Blue.")))
    reply = await model.ask(HELLO)
    assert reply == Reply("Blue.", usage=Usage(120, 7, 20, reply.usage.cost), model="small-one")
    assert reply.usage.cost == pytest.approx(100 * 2e-6 + 20 * 0.5e-6 + 7 * 10e-6)


async def test_tokens_that_a_server_does_not_count_are_estimated(server: OpenAIServer, model: ProviderModel) -> None:
    body = json.loads(completion("Blue."))
    del body["usage"]
    server.will(Scene(body=json.dumps(body)))
    reply = await model.ask(HELLO)
    assert reply.usage.input_tokens > 0
    assert reply.usage.output_tokens > 0


async def test_a_price_that_nobody_knows_is_none(server: OpenAIServer) -> None:
    server.will(Scene(body=completion("Blue.")))
    model = ProviderModel(f"openai:gpt-5@{server.url}")  # a name that OpenAI has, of a server that is not OpenAI's
    assert model.price is None
    assert not model.card.known
    assert (await model.ask(HELLO)).usage.cost is None
    await model.close()


@pytest.mark.parametrize(
    ("finish", "stop"), [("stop", "end"), ("length", "length"), ("content_filter", "refused"), ("tool_calls", "end")]
)
async def test_why_it_stopped(server: OpenAIServer, model: ProviderModel, finish: str, stop: str) -> None:
    server.will(Scene(body=completion("Blue.", finish=finish)))
    assert (await model.ask(HELLO)).stop == stop


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"pattern": "a"}', {"pattern": "a"}),
        ("", {}),
        ('{"pattern": "a', '{"pattern": "a'),
        ("[1]", "[1]"),
        ("[" * 100_000, "[" * 100_000),
    ],
    ids=["object", "empty", "cut", "list", "deep"],
)
async def test_arguments_that_are_no_object_stay_text(
    server: OpenAIServer, model: ProviderModel, arguments: str, read: Any
) -> None:
    calls = (("context_grep", arguments), ("nosuch", "{}"))
    server.will(Scene(body=completion(None, calls=calls, finish="tool_calls")))
    reply = await model.ask(asking("Search.", tools=(GREP,)))
    assert [(call.name, call.arguments) for call in reply.calls] == [("context.grep", read), ("nosuch", {})]
    assert reply.stop == "calls"


async def test_thinking_is_no_part_of_the_text(server: OpenAIServer, model: ProviderModel) -> None:
    server.will(Scene(body=completion("<think>Sky, so blue.</think>Blue.")))
    assert (await model.ask(HELLO)).text == "Blue."


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    ("scene", "error", "retry_after"),
    [
        (Scene(429, refusal("Slow down"), {"Retry-After": "7"}), ModelBusy, 7.0),
        (Scene(429, refusal("Slow down"), {"retry-after-ms": "1500"}), ModelBusy, 1.5),
        (Scene(429, refusal("Slow down")), ModelBusy, None),
        (Scene(500, "<html>oops</html>"), ModelBusy, None),
        (Scene(503, refusal("Loading model"), {"Retry-After": "2"}), ModelBusy, 2.0),
        (Scene(529, refusal("Overloaded")), ModelBusy, None),
        (Scene(drops=True), ModelBusy, None),
        (Scene(429, refusal("You have no credits", code="insufficient_quota")), ModelDenied, None),
        (Scene(400, refusal("bad", code="context_length_exceeded")), ModelOverflow, None),
        (Scene(400, refusal("request (9 tokens) exceeds the available context size (8 tokens)")), ModelOverflow, None),
        (Scene(413, "Request Entity Too Large"), ModelOverflow, None),
        (Scene(400, refusal("unknown parameter")), ModelFault, None),
        (Scene(401, refusal("Invalid API Key")), ModelDenied, None),
        (Scene(404, refusal("no such model", code="model_not_found")), ModelDenied, None),
        (Scene(200, "{not json"), ModelFault, None),
        (Scene(200, "hello", {"Content-Type": "text/plain"}), ModelFault, None),
        (Scene(200, "{}"), ModelFault, None),
        (Scene(200, '{"choices": []}'), ModelFault, None),
        (Scene(200, "[]"), ModelFault, None),
        (Scene(200, "null"), ModelFault, None),
    ],
)
async def test_every_failure_is_told_as_one_of_four(
    server: OpenAIServer, model: ProviderModel, scene: Scene, error: type[ModelFault], retry_after: float | None
) -> None:
    server.will(scene)
    with pytest.raises(ModelFault) as told:
        await model.ask(HELLO)
    assert type(told.value) is error
    assert getattr(told.value, "retry_after", None) == retry_after
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500
    assert len(server.seen) == 1, "nothing is retried here"


async def test_a_failure_says_what_the_provider_said(server: OpenAIServer, model: ProviderModel) -> None:
    server.will(Scene(429, refusal("Slow\ndown, please")))
    with pytest.raises(ModelBusy) as told:
        await model.ask(HELLO)
    assert str(told.value) == f"openai:small-one@{server.url} answered 429: Slow down, please"


async def test_a_server_that_is_not_there_is_worth_another_try() -> None:
    model = ProviderModel("openai:small-one@http://127.0.0.1:9/v1")
    with pytest.raises(ModelBusy):
        await model.ask(HELLO)
    await model.close()


async def test_a_server_that_hangs_is_left_when_its_time_is_over(server: OpenAIServer) -> None:
    server.will(Scene(hangs=True))
    model = ProviderModel(f"openai:small-one@{server.url}", timeout_seconds=2)
    with pytest.raises(ModelBusy, match="did not answer within 2 s"):
        await model.ask(HELLO)
    assert await asyncio.to_thread(server.left_alone.wait, 20)
    await model.close()


async def test_only_the_key_of_that_server_is_sent(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of-openai")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "admin-of-openai")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-openai")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-openai")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Corp: of-openai\nAuthorization: Bearer of-openai")
    server.will(Scene(body=completion("x")))
    for key in (None, "of-this-server"):
        if key:
            monkeypatch.setenv("HOLDALL_MODEL_KEY", key)
        model = ProviderModel(f"openai:small-one@{server.url}")
        await model.ask(HELLO)
        await model.close()
    assert [headers["authorization"] for headers in server.headers] == [
        "Bearer api-key-not-set",
        "Bearer of-this-server",
    ]
    assert "of-openai" not in str(server.headers)


def test_a_model_can_be_used_in_one_loop_after_the_other(server: OpenAIServer) -> None:
    server.will(Scene(body=completion("Blue.")))
    model = ProviderModel(f"openai:small-one@{server.url}")

    async def once() -> str:
        reply = await model.ask(HELLO)
        await model.close()
        return reply.text

    assert [asyncio.run(once()) for _ in range(2)] == ["Blue.", "Blue."]


def test_a_missing_key_or_package_is_told_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoSuchModel) as told:
        ProviderModel("openai:gpt-5")
    assert str(told.value) == snapshot(
        "openai:gpt-5 cannot be used: Set the `OPENAI_API_KEY` environment variable to use the OpenAI provider."
    )
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(NoSuchModel, match="openai:gpt-5 cannot be used: Missing credentials"):
        ProviderModel("openai:gpt-5")
    with pytest.raises(NoSuchModel, match=r'pip install "pydantic-ai-slim\[groq\]"'):
        ProviderModel("groq:llama")


def test_a_known_model_brings_its_window_and_its_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    model = ProviderModel("anthropic:claude-sonnet-4-5")
    assert model.window >= 200_000
    assert model.price is not None
    assert 0 < model.price.input < model.price.output
    assert model.calls_tools
    assert model.keeps_schema
