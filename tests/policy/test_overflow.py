"""The real sentences of the providers, on both sides: what says that a request is too long, and what only sounds like it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.policy import overflow
from holdall.policy.overflow import CODES, WORDINGS, Overflow, in_one_line, overflow_in, says_rate_limit
from tests.requirements import requirement

# Provider, message, tokens asked, tokens allowed: as users have reported them.
TOO_LONG: list[tuple[str, str, int | None, int | None]] = [
    ("OpenAI", "This model's maximum context length is 128000 tokens. However, your messages resulted in 202868 tokens (202767 in the messages, 101 in the functions). Please reduce the length of the messages or functions.", 202868, 128000),
    ("OpenAI", "This model's maximum context length is 4097 tokens, however you requested 6539 tokens (6283 in your prompt; 256 for the completion). Please reduce your prompt; or completion length.", 6539, 4097),
    ("OpenAI", "This model's maximum context length is 65536 tokens. However, you requested 95436 tokens (87244 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.", 95436, 65536),
    ("OpenAI", "This model's maximum context length is 128000 tokens. Please reduce the length of the prompt", None, 128000),
    ("OpenAI", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 428548 tokens. Please reduce the length of the messages.", 428548, 272000),
    ("OpenAI", "Input tokens exceed the configured limit of this model.", None, None),
    ("OpenAI", "Your input exceeds the context window of this model. Please adjust your input and try again.", None, None),
    ("OpenAI", "Invalid 'input[0].content': string too long. Expected a string with maximum length 10485760, but got a string with length 62114761 instead.", None, None),
    ("OpenAI", "Invalid 'messages[17].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1744259 instead.", None, None),
    ("OpenAI", '{"error":{"message":"Something new","code":"context_length_exceeded"}}', None, None),
    ("OpenRouter", 'This endpoint\'s maximum context length is 131072 tokens. However, you requested about 139521 tokens (138021 of text input, 1500 in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.', 139521, 131072),
    ("Poolside", "Provider returned error: Input length 131393 exceeds the maximum allowed input length of 131040 tokens.", 131393, 131040),
    ("vLLM", "This model's maximum context length is 200 tokens. However, your request has 203 input tokens. Please reduce the length of the input messages. None", 203, 200),
    ("vLLM", "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum context length is 1000 tokens and your request has 203 input tokens (1000 > 1000 - 203). None", 1203, 1000),
    ("vLLM", "You passed 131073 input tokens and requested 1024 output tokens. However, the model's context length is only 131072 tokens, resulting in a maximum input length of 130048 tokens. Please reduce the length of the input prompt.", 132097, 131072),
    ("vLLM", "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.", 5000, 4096),
    ("vLLM", "The prompt (total length 25938) is too long to fit into the model (context length 4096). Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.", 25938, 4096),
    ("SGLang", "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 140000 tokens: 130000 tokens from the input messages and 10000 tokens for the completion.", 140000, 131072),
    ("SGLang", "Requested token count exceeds the model's maximum context length.", None, None),
    ("SGLang", "400 The input (516368 tokens) is longer than the model's context length (262144 tokens).", 516368, 262144),
    ("OpenAI-compatible", "Error: 400 Input length (265330) exceeds model's maximum context length (262144).", 265330, 262144),
    ("Anthropic", "prompt is too long: 208656 tokens > 200000 maximum", 208656, 200000),
    ("Anthropic", "Prompt is too long", None, None),
    ("Anthropic", "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again", 242959, 200000),
    ("Anthropic", "input length and max_tokens exceed context limit: 184915 +\n20000 > 204648, decrease input length or max_tokens and try again", 204915, 204648),
    ("Anthropic", '{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}', None, None),
    ("Anthropic", "Request exceeds the maximum size", None, None),
    ("Anthropic", "Request exceeds the maximum allowed number of bytes. The maximum request size is 32 MB", None, None),
    ("Fireworks", "The prompt is too long: 267657, model maximum context length: 262143", 267657, 262143),
    ("Google", "The input token count (1054016) exceeds the maximum number of tokens allowed (1048576).", 1054016, 1048576),
    ("Google", "Unable to submit request because the input token count is 3601938 but model only supports up to 1000000. Reduce the input token count and try again.", 3601938, 1000000),
    ("Google", "The input token count exceeds the maximum number of tokens allowed 1048576.", None, None),
    ("Google", "400 INVALID_ARGUMENT. {'error': {'code': 400, 'message': 'Request payload size exceeds the limit: 314572800 bytes.', 'status': 'INVALID_ARGUMENT'}}", None, None),
    ("Bedrock", "An error occurred (ValidationException) when calling the InvokeModel operation: Input is too long for requested model.", None, None),
    ("Bedrock", "The model returned the following errors: Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input to try again.", None, None),
    ("Bedrock", "400 Bad Request: Too many input tokens. Max input tokens: 4096, request input token count: 7262 ", 7262, 4096),
    ("Bedrock", "messages: too many total text bytes: 10245687 > 9000000", None, None),
    ("Bedrock", "Malformed input request: expected maxLength: 42000, actual: 46735, please reformat your input and try again.", None, None),
    ("Bedrock", "1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have length less than or equal to 25000000", None, None),
    ("Mistral", "Prompt contains 40687 tokens and 0 draft tokens, too large for model with 32768 maximum context length", 40687, 32768),
    ("Mistral", "Prompt contains 65673 tokens, too large for model with 32768 maximum context length", 65673, 32768),
    ("OpenAI-compatible", "400: context length exceeded", None, None),
    ("OpenAI-compatible", "Input exceeds model context window", None, None),
    ("OpenAI-compatible", "Prompt too long.", None, None),
    ("OpenAI-compatible", "tool output too large", None, None),
    ("OpenAI-compatible", "messages.7: tool_result too large", None, None),
    ("HTTP", "Request too large: 413", None, None),
    ("Ollama", "400 `prompt too long; exceeded max context length by 100918 tokens`", None, None),
    ("Ollama", "the input length exceeds the context length", None, None),
    ("llama.cpp", "request (5120 tokens) exceeds the available context size (4096 tokens), try increasing it", 5120, 4096),
    ("llama.cpp", '{"error":{"code":500,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":1407,"n_ctx":256}}', 1407, 256),
    ("llama.cpp", "the request exceeds the available context size, try increasing it", None, None),
    ("llama.cpp", "input (5120 tokens) is larger than the max context size (4096 tokens). skipping", 5120, 4096),
    ("llama.cpp", "Context size has been exceeded.", None, None),
    ("llama-cpp-python", "Requested tokens (2285) exceed context window of 2048", 2285, 2048),
    ("LM Studio", "The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length, or provide a shorter input", None, None),
    ("LM Studio", "The number of tokens to keep from the initial prompt (9800) is greater than the context length (8192).", None, None),
    ("LM Studio", "Trying to keep the first 4000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.", None, 4096),
    ("Cerebras", "400 Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000", 42328, 40000),
    ("Groq", "Please reduce the length of the messages or completion.", None, None),
    ("xAI", "This model's maximum prompt length is 500000 but the request contains 907154 tokens.", 907154, 500000),
    ("GitHub Copilot", "prompt token count of 140000 exceeds the limit of 128000", 140000, 128000),
    ("GitHub Models", "Request body too large for gpt-4o model. Max size: 8000 tokens.", None, 8000),
    ("Cohere", "too many tokens: size limit exceeded by 12345 tokens. Try using shorter or fewer inputs.", None, None),
    ("Cohere", "too many tokens: total number of tokens in the prompt exceeds the limit of 4081. Try using a shorter prompt", None, 4081),
    ("Moonshot", "Your request exceeded model token limit: 262144 (requested: 300000)", 300000, 262144),
    ("Moonshot", "Invalid request: Your request exceeded model token limit: 8192", None, None),
    ("DashScope", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", None, 129024),
    ("MiniMax", "invalid params, context window exceeds limit (2013)", None, None),
    ("Zhipu", "Prompt exceeds max length", None, None),
    ("Volcengine", "Total tokens of image and text exceed max message tokens. Request id: 0217", None, None),
    ("Cloudflare", "5021: The estimated number of input and maximum output tokens (155740) exceeded this model context window limit (128000).", 155740, 128000),
    ("watsonx", "Invalid input argument for Model 'meta-llama/llama-2-70b-chat': the number of input tokens 4098 cannot exceed the total tokens limit 4096 for this model", 4098, 4096),
    ("TGI", "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 2048. Given: 3474 `inputs` tokens and 60 `max_new_tokens`", 3534, 2048),
    ("TGI", "Input validation error: `inputs` must have less than 1024 tokens. Given: 3474", 3474, 1024),
    ("HTTP", "<html><head><title>413 Request Entity Too Large</title></head><center>nginx</center></html>", None, None),
    ("HTTP", "Payload Too Large", None, None),
    ("HTTP", "413 Content Too Large", None, None),
    ("HTTP", "http: request body too large", None, None),
]  # fmt: skip

# Status, message: refusals that a shorter request does not mend, or whose words are only near.
OTHERS: list[tuple[int, str]] = [
    (429, "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 28000, Requested 4000. Please try again in 4s. Visit https://platform.openai.com/account/rate-limits to learn more."),
    (429, "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 342389. The input or output tokens must be reduced in order to run successfully."),
    (413, "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size and try again. Need more tokens? Upgrade to Dev Tier today"),
    (413, '{"error":{"message":"Request too large","type":"tokens","code":"rate_limit_exceeded"}}'),
    (429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute."),
    (400, "ThrottlingException: Too many tokens, please wait before trying again."),
    (429, "You exceeded your current quota, please check your plan and billing details."),
    (400, "Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_input_token_count, limit: 250000"),
    (429, "prompt is too long: 208656 tokens > 200000 maximum"),
    (401, "Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com/account/api-keys."),
    (403, "Payload Too Large"),
    (400, "max_tokens: 10000 > 4096, which is the maximum allowed number of output tokens for claude-3-5-sonnet-20240620"),
    (400, "max_tokens is too large: 6000. This model supports at most 4096 completion tokens, whereas you provided 6000."),
    (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    (200, "Could not parse response content as the length limit was reached - CompletionUsage(completion_tokens=4096, prompt_tokens=120, total_tokens=4216)"),
    (200, "Model token limit (4096) exceeded before any response was generated. Increase the `max_tokens` model setting, or simplify the prompt to result in a shorter response that will fit within the limit."),
    (200, "finish_reason: length"),
    (200, "stop_reason: model_context_window_exceeded"),
    (400, "Invalid 'input[95].call_id': string too long. Expected a string with maximum length 64, but got a string with length 116 instead."),
    (400, "Invalid 'tools[3].function.name': string too long. Expected a string with maximum length 64, but got a string with length 80 instead."),
    (400, "messages.1.content.0.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"),
    (400, "The long context beta is not yet available for this subscription."),
    (400, "Unsupported parameter: context. Remove it and try again."),
    (400, "Invalid schema for function 'read_file': 'object' schema missing properties."),
    (400, "messages: text content blocks must be non-empty"),
    (404, "The model `gpt-9` does not exist or you do not have access to it."),
    (400, "Your credit balance is too low to access the Anthropic API."),
    (500, "model requires more system memory (12.0 GiB) than is available (8.0 GiB)"),
    (529, "Overloaded"),
    (500, "model runner crashed unexpectedly"),
    (414, "URI Too Long"),
    (400, "400 status code (no body)"),
    (400, ""),
]  # fmt: skip


@requirement("budget:overflow-by-message")
@pytest.mark.parametrize(("provider", "message", "asked", "allowed"), TOO_LONG)
def test_the_words_of_each_provider_are_recognised_with_their_numbers(
    provider: str, message: str, asked: int | None, allowed: int | None
) -> None:
    expected = Overflow(provider, in_one_line(message), asked, allowed)
    for status in (None, 400, 413, 500):
        assert overflow_in(message, status=status) == expected


@pytest.mark.parametrize(("status", "message"), OTHERS)
def test_other_refusals_are_not_taken_for_it(status: int, message: str) -> None:
    assert overflow_in(message, status=status) is None
    if status not in (401, 403, 429):  # those are told by their status
        assert overflow_in(message) is None


@pytest.mark.parametrize("gone", range(len(WORDINGS)), ids=lambda at: f"{at}-{WORDINGS[at][0]}")
def test_every_wording_of_the_table_is_needed(monkeypatch: pytest.MonkeyPatch, gone: int) -> None:
    """Without it a real message would be missed, or told with less. One that nothing needs was never seen."""
    kept = [one for at, one in enumerate(vars(overflow)["_patterns"]()) if at != gone]
    monkeypatch.setattr(overflow, "_patterns", lambda: kept)
    found = [overflow_in(message) for _, message, _, _ in TOO_LONG]
    assert found != [Overflow(who, in_one_line(said), asked, most) for who, said, asked, most in TOO_LONG]


@requirement("budget:overflow-by-code")
@pytest.mark.parametrize("code", CODES)
def test_a_code_is_enough_whatever_the_sentence(code: str) -> None:
    found = overflow_in("Bad Request", status=400, codes=["invalid_request_error", code])
    assert found == Overflow(CODES[code], "Bad Request")
    assert overflow_in("", codes=[code.upper()]) == Overflow(CODES[code], code)
    assert overflow_in("Bad Request", status=400, codes=["invalid_request_error"]) is None
    assert overflow_in("Bad Request", status=400, codes=[code, "rate_limit_exceeded"]) is None


@requirement("budget:overflow-by-413")
@pytest.mark.parametrize("said", ["", "413 status code (no body)", "Error code: 413", "nginx says no", "HTTP 413"])
def test_the_status_413_is_enough_whatever_the_sentence(said: str) -> None:
    found = overflow_in(said, status=413)
    assert found == Overflow("", said or "HTTP status 413")
    if "413" in said:
        assert overflow_in(said) == found
    assert overflow_in(said.replace("413", "400"), status=400) is None


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_numbers_are_read_with_and_without_separators(asked: int, allowed: int) -> None:
    for wording in ("prompt is too long: {} tokens > {} maximum", "Prompt contains {} tokens, too large for model with {} maximum context length"):  # fmt: skip
        for shown in ("{}", "{:,}"):
            found = overflow_in(wording.format(shown.format(asked), shown.format(allowed)))
            assert found is not None
            assert (found.tokens_asked, found.tokens_allowed) == (asked, allowed)


@given(st.text(), st.sampled_from(TOO_LONG), st.text())
def test_a_recognised_sentence_is_recognised_inside_any_other_text(
    before: str, case: tuple[str, str, int | None, int | None], after: str
) -> None:
    text = f"{before}\n{case[1]}\n{after}"
    assert (overflow_in(text) is None) is says_rate_limit(text)


@given(st.text(), st.none() | st.integers(100, 599), st.lists(st.text(), max_size=3))
def test_any_text_gives_an_answer_and_one_line(said: str, status: int | None, codes: list[str]) -> None:
    found = overflow_in(said, status=status, codes=codes)
    if found is not None:
        assert len(found.message) <= 300
        assert "\n" not in found.message


def test_an_error_that_repeats_the_whole_request_is_read_in_time_and_shown_in_part() -> None:
    found = overflow_in("prompt is too long: 9 tokens > 8 maximum " + "maximum context length is " * 1_000_000)
    assert found is not None
    assert (found.provider, len(found.message), found.message[-1]) == ("Anthropic", 300, "…")
    assert overflow_in("maximum context " * 1_000_000 + "prompt is too long") is None, "only the beginning is read"
