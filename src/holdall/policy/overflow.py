"""Whether a provider says "your request is too long", told from its words, its code and its status.

Providers share no code for this, so WORDINGS holds their sentences as they write them. `{asked}` and `{allowed}` stand
for the numbers of tokens in them, `{reply}` for what was asked for the reply on top, `…` for anything between, `→` for
what is between a field and its value. A limit on tokens per minute, a reply that became too long and every other
refusal are not this, whatever they say of tokens. This module reads text; `guard.recovery` walks exceptions.
"""

import functools
import re
from collections.abc import Iterable

from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

_LONGEST_READ = 32 * 1024  # of what was said: some errors repeat the whole request after their own words
_LONGEST_SHOWN = 300
_TOO_LARGE = 413
_NEVER = (401, 402, 403, 429)  # who asks, who pays, how often: a shorter request changes none of them

# Machine-readable, whatever the sentence beside it says. To whom each belongs.
CODES = {
    "context_length_exceeded": "OpenAI",
    "request_too_large": "Anthropic",
    "exceed_context_size_error": "llama.cpp",
    "tokens_limit_reached": "GitHub Models",
    "model_max_prompt_tokens_exceeded": "GitHub Copilot",
    "contextwindowexceedederror": "LiteLLM",
    "modelcontextwindowexceedederror": "Pydantic AI",
    "contextwindowoverflowexception": "Strands",
}

# The first that is found names the provider, so a longer sentence is before a shorter one that it contains. Many others
# repeat the words of OpenAI, vLLM and llama.cpp: the provider is whose words they are.
WORDINGS: tuple[tuple[str, str], ...] = (
    ("OpenRouter", "maximum context length is {allowed} tokens… you requested about {asked} tokens"),
    ("vLLM", ("too large: {reply}. This model's maximum context length is {allowed} tokens and your request has "
             "{asked} input tokens")),
    ("vLLM", "maximum context length is {allowed} tokens… your request has {asked} input tokens"),
    ("vLLM", ("You passed {asked} input tokens and requested {reply} output tokens. However, the model's context "
             "length is only {allowed} tokens")),
    ("vLLM", "prompt (length {asked}) is longer than the maximum model length of {allowed}"),
    ("vLLM", "prompt (total length {asked}) is too long to fit into the model (context length {allowed})"),
    ("OpenAI", "maximum context length is {allowed} tokens… resulted in {asked} tokens"),
    ("OpenAI", "maximum context length is {allowed} tokens… you requested {asked} tokens"),
    ("OpenAI", "maximum context length is {allowed} tokens"),
    ("OpenAI", "Input tokens exceed the configured limit of {allowed} tokens… resulted in {asked} tokens"),
    ("OpenAI", "Input tokens exceed the configured limit"),
    ("OpenAI", "exceeds the context window"),
    ("SGLang", "exceeds the model's maximum context length of {allowed} tokens… requested a total of {asked} tokens"),
    ("SGLang", "exceeds the model's maximum context length"),
    ("SGLang", "({asked} tokens) is longer than the model's context length ({allowed} tokens)"),
    ("OpenAI-compatible", "Input length ({asked}) exceeds model's maximum context length ({allowed})"),
    ("Poolside", "Input length {asked} exceeds the maximum allowed input length of {allowed} tokens"),
    ("Anthropic", "prompt is too long: {asked} tokens > {allowed} maximum"),
    ("Fireworks", "prompt is too long: {asked}, model maximum context length: {allowed}"),
    ("Anthropic", "prompt is too long"),
    ("Anthropic", "input length and `max_tokens` exceed context limit: {asked} + {reply} > {allowed}"),
    ("Anthropic", "Request exceeds the maximum size"),
    ("Anthropic", "Request exceeds the maximum allowed number of bytes"),
    ("Google", "input token count ({asked}) exceeds the maximum number of tokens allowed ({allowed})"),
    ("Google", "input token count is {asked} but model only supports up to {allowed}"),
    ("Google", "exceeds the maximum number of tokens allowed"),
    ("Google", "Request payload size exceeds the limit"),
    ("Bedrock", "Input is too long for requested model"),
    ("Bedrock", "Number of input tokens exceeds maximum length"),
    ("Bedrock", "Too many input tokens. Max input tokens: {allowed}, request input token count: {asked}"),
    ("Bedrock", "too many total text bytes"),
    ("Bedrock", "Malformed input request: expected maxLength"),
    ("Bedrock", "Value at 'body' failed to satisfy constraint: Member must have length less than or equal to"),
    ("Mistral", "Prompt contains {asked} tokens… too large for model with {allowed} maximum context length"),
    ("Ollama", "prompt too long; exceeded max context length"),
    ("Ollama", "input length exceeds the context length"),
    ("llama.cpp", "({asked} tokens) exceeds the available context size ({allowed} tokens)"),
    ("llama.cpp", "exceeds the available context size… n_prompt_tokens→{asked}… n_ctx→{allowed}"),
    ("llama.cpp", "exceeds the available context size"),
    ("llama.cpp", "({asked} tokens) is larger than the max context size ({allowed} tokens)"),
    ("llama.cpp", "Context size has been exceeded"),
    ("llama-cpp-python", "Requested tokens ({asked}) exceed context window of {allowed}"),
    ("LM Studio", "tokens to keep from the initial prompt… is greater than the context length"),
    ("LM Studio", "loaded with context length of only {allowed} tokens, which is not enough"),
    ("Cerebras", "reduce the length of the messages or completion. Current length is {asked} while limit is {allowed}"),
    ("Groq", "reduce the length of the messages or completion"),
    ("xAI", "maximum prompt length is {allowed} but the request contains {asked} tokens"),
    ("GitHub Copilot", "prompt token count of {asked} exceeds the limit of {allowed}"),
    ("GitHub Models", "Request body too large for… Max size: {allowed} tokens"),
    ("Cohere", "too many tokens: size limit exceeded by"),
    ("Cohere", "too many tokens: total number of tokens in the prompt exceeds the limit of {allowed}"),
    ("Moonshot", "exceeded model token limit: {allowed} (requested: {asked})"),
    ("Moonshot", "exceeded model token limit"),
    ("DashScope", "Range of input length should be [1, {allowed}]"),
    ("MiniMax", "context window exceeds limit"),
    ("Zhipu", "Prompt exceeds max length"),
    ("Volcengine", "Total tokens of image and text exceed max message tokens"),
    ("Cloudflare", "input and maximum output tokens ({asked}) exceeded this model context window limit ({allowed})"),
    ("watsonx", "number of input tokens {asked} cannot exceed the total tokens limit {allowed}"),
    ("TGI", ("`inputs` tokens + `max_new_tokens` must be <= {allowed}. Given: {asked} `inputs` tokens and {reply} "
             "`max_new_tokens`")),
    ("TGI", "`inputs` must have less than {allowed} tokens. Given: {asked}"),
    ("OpenAI-compatible", "context length exceeded"),
    ("OpenAI-compatible", "exceeds model context window"),
    ("OpenAI-compatible", "prompt too long"),
    ("OpenAI-compatible", "tool output too large"),
    ("OpenAI-compatible", "tool_result too large"),
    ("HTTP", "Request too large: 413"),
    ("HTTP", "Request Entity Too Large"),
    ("HTTP", "Payload Too Large"),
    ("HTTP", "Content Too Large"),
    ("HTTP", "Request body too large"),
)  # fmt: skip

# What looks like a sentence of the table and is about how much in a minute or a day, not in one request.
_RATE = lazy_pattern(
    r"rate[ _-]?limit|(?:tokens|requests)[ _-]per[ _-](?:min|hour|day|sec|month)|\bTP[MD]\b|\bRP[MD]\b"
    r"|too many requests|throttl|quota|please wait|slow down|try again in \d",
    re.IGNORECASE,
)
# A single text of the request that is over OpenAI's limit for one: of a message, not of an id or a name.
_LONG_STRING = lazy_pattern(
    r"Invalid '(?:messages|input)(?:\[\d+\])?(?:\.content|\.output|\.text|\[\d+\])*': string too long", re.IGNORECASE
)
_STATUS_IN_WORDS = lazy_pattern(
    r"(?:\bHTTP|\bstatus(?: code)?|\berror code|\Aerror)[ :]{1,3}413\b|\A413 (?:status code|\{)", re.IGNORECASE
)
_NUMBER = r"(?P<{}>[0-9][0-9,]{{0,14}})"


@record
class Overflow:
    """`provider` is whose words they are, empty where only a status spoke. Numbers are there where a message has them.

    `tokens_asked` is the request, with what was asked for the reply where the provider counts that too.
    """

    provider: str
    message: str
    tokens_asked: int | None = None
    tokens_allowed: int | None = None


def overflow_in(said: str, *, status: int | None = None, codes: Iterable[str] = ()) -> Overflow | None:
    """What a refusal says of its length; None if it is about something else. `codes`: also names of errors."""
    text = said[:_LONGEST_READ]
    named = [code.strip() for code in codes]
    if status in _NEVER or any(map(says_rate_limit, (text, *named))):
        return None
    if found := words_in(text):
        return found
    for code, owner in CODES.items():
        if code in map(str.lower, named) or ("_" in code and code in text):
            return Overflow(owner, in_one_line(text) or code)
    if status == _TOO_LARGE or _STATUS_IN_WORDS.search(text):
        return Overflow("", in_one_line(text) or f"HTTP status {_TOO_LARGE}")
    return None


def says_rate_limit(said: str) -> bool:
    """Whether it is about how much in a minute or a day: what helps is to wait, or to pay."""
    return _RATE.search(said[:_LONGEST_READ]) is not None


def in_one_line(text: str) -> str:
    flat = " ".join(text[:_LONGEST_READ].split())
    return flat if len(flat) <= _LONGEST_SHOWN else flat[: _LONGEST_SHOWN - 1] + "…"


def words_in(said: str) -> Overflow | None:
    """What the sentences of the table find in it, without a look at anything else."""
    text = said[:_LONGEST_READ]
    for provider, pattern in _patterns():
        if match := pattern.search(text):
            numbers = {name: int(digits.replace(",", "")) for name, digits in match.groupdict().items() if digits}
            asked = numbers.get("asked")
            total = asked + numbers.get("reply", 0) if asked is not None else None
            return Overflow(provider, in_one_line(text), total, numbers.get("allowed"))
    return Overflow("OpenAI", in_one_line(text)) if _LONG_STRING.search(text) else None


@functools.cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Compiled when a first refusal is read: most programs never see one."""
    return tuple((provider, _pattern(wording)) for provider, wording in WORDINGS)


def _pattern(wording: str) -> re.Pattern[str]:
    """The sentence, whatever its case, its spaces and its quotes: it may be in JSON, or in a text in JSON."""
    pattern = re.escape(wording).replace(r"\ ", r"\s+").replace("`", "`?").replace("'", r"\\?['’]")
    for name in ("asked", "allowed", "reply"):
        pattern = pattern.replace(rf"\{{{name}\}}", _NUMBER.format(name))
    pattern = pattern.replace(r"…\s+", r".{0,160}?").replace("→", r"\W{1,6}")
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)
