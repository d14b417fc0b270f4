"""What a model reads where its call could not be carried out: what is wrong, and what to do instead."""

from collections.abc import Sequence

from holdall.values.errors import (
    AnchorNotFound,
    HoldallError,
    NoModel,
    NotReady,
    OutputExpired,
    QueryMissing,
    TooLargeForRaw,
    UnknownHandle,
)
from holdall.wire.tool import Ask


def plain_refusal(error: HoldallError, _ask: Ask) -> str:
    """Our own words, for any dialect: no tool is named, for it may not be there.

    What is meant for somebody at a command line is said for a model.
    """
    if isinstance(error, UnknownHandle):
        known = ", ".join(error.known[:8]) or "nothing yet"
        more = f" and {len(error.known) - 8} more" if len(error.known) > 8 else ""
        return f'No output is kept under "{error.shown}". Kept: {known}{more}.'
    return _sentence(str(error))


def own_refusal(error: HoldallError, ask: Ask) -> str:
    """The same in our own dialect, whose tools are known."""
    told = plain_refusal(error, ask)
    return f"{told} context_read() without a handle lists them." if isinstance(error, UnknownHandle) else told


def s3_refusal(error: HoldallError, _ask: Ask) -> str:
    """S3's words, to the letter, where it has some."""
    if isinstance(error, UnknownHandle):
        return f"Unknown tool ID: {error.shown}"
    if isinstance(error, NotReady):
        return "Tool not ready. Use wait_for_tool_output."
    if isinstance(error, TooLargeForRaw):
        return f"Response too large ({error.bytes} bytes, ~{error.tokens} tokens). Use extract or slice mode."
    if isinstance(error, QueryMissing):
        return "Query required for extract mode."
    if isinstance(error, AnchorNotFound):
        return "Anchor not found in content"
    if isinstance(error, OutputExpired):
        return "Tool output expired"
    return _sentence(str(error))


def s0_refusal(error: HoldallError, ask: Ask) -> str:
    """S0's failure format, to the letter."""
    mode = str(ask.options.get("mode", "auto"))
    tool = getattr(error, "tool", "") or "UNKNOWN"
    message = _sentence(str(error))
    if isinstance(error, NoModel):  # one of the modes asks none
        message = f'{error} mode="truncate" works without one: it shows the beginning and the end.'
    return f"TOOL_OUTPUT FAILED FOR {tool} WITH HANDLE {ask.handle}, STRATEGY:{mode}:\n\n{message}"


NOTHING_RUNS = "No async tools running."  # S3's words for a wait that has nothing to wait for


def no_such_tool(name: str, known: Sequence[str]) -> str:
    return f"There is no tool {name[:60]!r}. Tools are: {', '.join(known) or 'none'}."


def not_json(problem: Exception) -> str:
    return f"The arguments are not valid JSON: {problem}."


NOT_AN_OBJECT = "The arguments must be a JSON object."


# Advice in errors is for whoever types commands; a model has tools and arguments instead.
_FOR_A_MODEL = (
    (" with --group", " with group=true"),
    (" `holdall verify` lists what is damaged.", ""),
    (" (`holdall ls` lists them.)", ""),
)


def _sentence(text: str) -> str:
    for commands, arguments in _FOR_A_MODEL:
        text = text.replace(commands, arguments)
    return text[:1].upper() + text[1:]
