"""Which exceptions mean that a request was too long: of the providers' libraries, of HTTP clients, of our own."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic_ai import exceptions as pydantic_ai

from holdall import Holdall
from holdall.guard.recovery import Overflow, compact, is_overflow
from holdall.values.chat import Message, User
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow, StoreFull
from holdall.wire.agent_texts import compacted_in
from tests.requirements import requirement

if TYPE_CHECKING:
    import anthropic  # these two take seconds, in every process that collects the tests
    import openai

REQUEST = httpx2.Request("POST", "https://api.example.com/v1/chat/completions")


def response(status: int, body: object) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx2.Response(status, content=content, request=REQUEST)


def raised_by_openai(status: int, body: Mapping[str, Any]) -> "openai.APIStatusError":
    """As the client makes it: the body is what stands under `error`."""
    import openai

    return openai.OpenAI(api_key="x")._make_status_error_from_response(response(status, body))  # pyright: ignore[reportPrivateUsage]


def raised_by_anthropic(status: int, body: Mapping[str, Any]) -> "anthropic.APIStatusError":
    import anthropic

    return anthropic.Anthropic(api_key="x")._make_status_error_from_response(response(status, body))  # pyright: ignore[reportPrivateUsage]


class FakeClientError(Exception):
    """As botocore's ClientError: a dict, and the status deep inside of it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"An error occurred ({code}) when calling the Converse operation: {message}")
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }


class FakeGoogleError(Exception):
    """As google.genai's ClientError: `code` is the status, `status` is the code."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(f"{code} {status}.")
        self.code = code
        self.status = status
        self.details = {"error": {"code": code, "message": message, "status": status}}


@requirement("budget:overflow-by-code", "budget:overflow-by-message")
def test_an_error_of_openai_says_its_sentence_and_its_numbers() -> None:
    body = {
        "error": {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }
    assert is_overflow(raised_by_openai(400, body)) == snapshot(
        Overflow(
            provider="OpenAI",
            message="This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens. Please reduce the length of the messages.",
            tokens_asked=8227,
            tokens_allowed=8192,
        )
    )
    body["error"]["message"] = "Something that nobody has seen yet."
    assert is_overflow(raised_by_openai(400, body)) == snapshot(
        Overflow(
            provider="OpenAI",
            message="Something that nobody has seen yet.",
        )
    )


@pytest.mark.in_full(one_in=3)
@requirement("budget:overflow-by-413")
@pytest.mark.parametrize("body", [{}, {"error": {"message": "no"}}, {"detail": "too big"}])
def test_the_status_413_is_enough_in_every_library(body: Mapping[str, Any]) -> None:
    for error in (
        raised_by_openai(413, body),
        raised_by_anthropic(413, body),
        httpx2.HTTPStatusError("no", request=REQUEST, response=response(413, body)),
        pydantic_ai.ModelHTTPError(413, "x", body),
        FakeClientError("Oops", "no", 413),
        FakeGoogleError(413, "OOPS", "no"),
    ):
        assert is_overflow(error) is not None


def test_errors_of_the_other_libraries() -> None:
    found = [
        is_overflow(error)
        for error in (
            raised_by_anthropic(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 208656 tokens > 200000 maximum"}}),
            raised_by_anthropic(413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
            FakeClientError("ValidationException", "Input is too long for requested model."),
            FakeGoogleError(400, "INVALID_ARGUMENT", "The input token count (1054016) exceeds the maximum number of tokens allowed (1048576)."),
            raised_by_openai(400, {"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}}),
            raised_by_openai(400, {"object": "error", "message": "This model's maximum context length is 200 tokens. However, your request has 203 input tokens.", "code": 400}),
            raised_by_openai(400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": json.dumps({"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}), "provider_name": "Anthropic"}}}),
            httpx2.HTTPStatusError("Client error '400 Bad Request'", request=REQUEST, response=response(400, b"Prompt contains 65673 tokens, too large for model with 32768 maximum context length")),
            pydantic_ai.ModelHTTPError.for_category(pydantic_ai.ModelContextWindowExceededError, status_code=400, model_name="x", body={"message": "no"}),
            ValueError("Requested tokens (2285) exceed context window of 2048"),
        )
    ]  # fmt: skip
    assert found == snapshot(
        [
            Overflow(
                provider="Anthropic",
                message="prompt is too long: 208656 tokens > 200000 maximum",
                tokens_asked=208656,
                tokens_allowed=200000,
            ),
            Overflow(provider="Anthropic", message="Request exceeds the maximum size"),
            Overflow(provider="Bedrock", message="Input is too long for requested model."),
            Overflow(
                provider="Google",
                message="The input token count (1054016) exceeds the maximum number of tokens allowed (1048576).",
                tokens_asked=1054016,
                tokens_allowed=1048576,
            ),
            Overflow(
                provider="llama.cpp",
                message="the request exceeds the available context size, try increasing it",
                tokens_asked=1407,
                tokens_allowed=256,
            ),
            Overflow(
                provider="vLLM",
                message="This model's maximum context length is 200 tokens. However, your request has 203 input tokens.",
                tokens_asked=203,
                tokens_allowed=200,
            ),
            Overflow(
                provider="Anthropic",
                message='{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}',
                tokens_asked=9,
                tokens_allowed=8,
            ),
            Overflow(
                provider="Mistral",
                message="Prompt contains 65673 tokens, too large for model with 32768 maximum context length",
                tokens_asked=65673,
                tokens_allowed=32768,
            ),
            Overflow(provider="Pydantic AI", message="no"),
            Overflow(
                provider="llama-cpp-python",
                message="Requested tokens (2285) exceed context window of 2048",
                tokens_asked=2285,
                tokens_allowed=2048,
            ),
        ]
    )


GROQ = {"error": {"message": "Request too large for model `llama-3.1-8b-instant` in organization `org_x` on tokens per minute (TPM): Limit 6000, Requested 12328, please reduce your message size and try again.", "type": "tokens", "code": "rate_limit_exceeded"}}  # fmt: skip


def test_other_errors_are_not_taken_for_it() -> None:
    import openai

    for error in (
        raised_by_openai(429, {"error": {"message": "Rate limit reached on tokens per min (TPM): Limit 30000, Requested 342389.", "type": "tokens", "code": "rate_limit_exceeded"}}),
        raised_by_openai(413, GROQ),
        pydantic_ai.ModelHTTPError(413, "groq:llama", GROQ["error"]),
        pydantic_ai.ModelHTTPError.for_category(pydantic_ai.ModelRateLimitError, status_code=413, model_name="x", body={"message": "Payload Too Large"}),
        FakeClientError("ThrottlingException", "Too many tokens, please wait before trying again.", 429),
        FakeGoogleError(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: free_tier_input_token_count, limit: 250000"),
        raised_by_openai(401, {"error": {"message": "Incorrect API key provided"}}),
        raised_by_openai(400, {"error": {"message": "Invalid schema for function 'f'", "code": "invalid_function_parameters"}}),
        raised_by_anthropic(400, {"type": "error", "error": {"type": "invalid_request_error", "message": "max_tokens: 10000 > 4096, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20240620"}}),
        raised_by_anthropic(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
        pydantic_ai.UnexpectedModelBehavior("Model token limit (4096) exceeded before any response was generated. Increase the `max_tokens` model setting, or simplify the prompt to result in a shorter response that will fit within the limit."),
        openai.APITimeoutError(request=REQUEST),
        ModelBusy("openai:x answered 429: tokens per minute", retry_after=3),
        ModelFault("openai:x answered 400: no such model"),
        StoreFull("no space left"),
        ValueError(413),
    ):  # fmt: skip
        assert is_overflow(error) is None, error


def test_our_own_error_is_one_whatever_it_says() -> None:
    assert is_overflow(ModelOverflow("x: no")) == Overflow("", "x: no")
    said = "openai:x answered 400: prompt is too long: 9 tokens > 8 maximum"
    assert is_overflow(ModelOverflow(said)) == Overflow("Anthropic", said, 9, 8)
    assert is_overflow(ModelOverflow("x answered 413: too much for one minute: rate limit")) is not None


def chained(make: Callable[[Exception], None], first: Exception) -> Exception:
    with pytest.raises(RuntimeError) as caught:
        make(first)
    return caught.value


def from_a_cause(first: Exception) -> None:
    raise RuntimeError("the model did not answer") from first


def from_a_context(first: Exception) -> None:
    try:
        raise first
    except Exception:
        raise RuntimeError("the model did not answer")  # noqa: B904


def from_nothing(first: Exception) -> None:
    try:
        raise first
    except Exception:
        raise RuntimeError("the model did not answer") from None


def test_causes_and_contexts_are_looked_at_unless_they_were_put_aside() -> None:
    first = ValueError("prompt is too long: 9 tokens > 8 maximum")
    expected = Overflow("Anthropic", "prompt is too long: 9 tokens > 8 maximum", 9, 8)
    assert is_overflow(chained(from_a_cause, first)) == expected
    assert is_overflow(chained(from_a_context, ValueError(*first.args))) == expected
    assert is_overflow(chained(from_nothing, ValueError(*first.args))) is None
    assert is_overflow(ExceptionGroup("two", [KeyError("x"), chained(from_a_cause, first)])) == expected


def test_a_cancellation_is_never_one() -> None:
    cancelled = asyncio.CancelledError()
    cancelled.__context__ = ValueError("prompt is too long")
    assert is_overflow(cancelled) is None
    assert is_overflow(BaseExceptionGroup("x", [KeyboardInterrupt(), ValueError("prompt is too long")])) is None


def test_a_chain_that_is_a_circle_or_endless_comes_to_an_end() -> None:
    one, other = ValueError("a"), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    assert is_overflow(one) is None
    last = top = ValueError("top")
    for _ in range(100_000):
        last.__cause__ = last = ValueError("next")
    last.__cause__ = ValueError("prompt is too long")
    assert is_overflow(top) is None


class Broken(Exception):
    """Nothing of it can be read."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    @property
    def body(self) -> object:
        raise RuntimeError("no body")


class Unread(Exception):
    """As an error of a streamed request: the text of its response was never read."""

    def __init__(self, status: int) -> None:
        super().__init__("no")
        self.response = httpx2.Response(status, stream=httpx2.ByteStream(b"prompt is too long"), request=REQUEST)


def test_what_cannot_be_read_is_passed_over() -> None:
    assert is_overflow(Broken()) is None
    assert is_overflow(Unread(400)) is None
    assert is_overflow(Unread(413)) == Overflow("", "no")


def test_a_body_of_any_size_and_depth_is_looked_at_in_part() -> None:
    deep: Any = "prompt is too long"
    for _ in range(50_000):
        deep = [deep]
    wide = {str(number): "x" * 100 for number in range(100_000)}
    for body in (deep, wide, {"a": deep, "b": wide}, b"\xff" * 10_000_000, "y" * 10_000_000):
        error = Exception("no")
        error.body = body  # pyright: ignore[reportAttributeAccessIssue]
        assert is_overflow(error) is None


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
NAMES = ("status_code", "code", "type", "message", "body", "response", "details", "error", "status")


@given(st.text(), st.dictionaries(st.sampled_from(NAMES), ANY))
def test_whatever_an_error_carries_there_is_an_answer(said: str, carried: dict[str, Any]) -> None:
    error = Exception(said)
    for name, value in carried.items():
        setattr(error, name, value)
    found = is_overflow(error)
    assert found is None or len(found.message) <= 300


@pytest.mark.anyio
async def test_what_is_left_out_a_second_time_counts_all_that_is_gone(tmp_path: Path) -> None:
    """It counted the line in the place of the first ten as one message."""
    async with Holdall.open(home=str(tmp_path)) as bag:
        said: list[Message] = [User("go"), *(User(f"message {number}") for number in range(12))]
        gone, line = 0, ""
        for _ in range(3):
            before = len(said)
            assert await compact(bag, said)
            gone += before - len(said) + (0 if gone else 1)
            line = next(one.text for one in said if isinstance(one, User) and compacted_in(one.text))
            assert compacted_in(line) == gone
            said += [User("more"), User("and more"), User("and yet more"), User("the last")]
        assert "; the oldest in the output that is named at its beginning." in line
