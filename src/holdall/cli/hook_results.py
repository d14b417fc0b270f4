"""The results of a coding agent's own tools: what each holds, where it was saved, and what the agent is told then.

Where the agent has saved a result to a file before we are asked, the file is kept; where it has saved less than all,
the result stays as it is. A path that stands in a text is believed only inside the folder of the conversation's own
results: the text may come from a server.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping
from typing import IO, Any, cast

from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.settings import Settings

_SAVED = lazy_pattern(
    r"Error: result \(([\d,]+) characters[^)\n]*\) exceeds maximum allowed tokens\. "
    r"Output has been saved to (/[^\n]+)\.\n"
)
_LOST = ("persistedOutputPath", "persistedOutputSize", "stdoutHoldsOutputEnd")
_PREFIX = "mcp__"


@record
class Result:
    """`value` is what the tool gave, or a file with it; `changed` is what the agent is told to put in its place."""

    tool: str
    server: str
    arguments: Any
    call_id: str
    session: str
    value: str | list[object] | IO[bytes]
    changed: Callable[[object], object]

    def __enter__(self) -> "Result":
        return self

    def __exit__(self, *_: object) -> None:
        if not isinstance(self.value, str | list):
            self.value.close()


def result_of(agent: str, event: Mapping[str, Any]) -> Result | None:
    """None where the result is small, has no text, or is of a tool that is not known here."""
    prefix, reads = _AGENTS[agent]
    found = reads(event)
    if found is None:
        return None
    session = "".join(one for one in str(event.get("session_id")).removeprefix("ses_") if one.isalnum())[:8]
    arguments, call = event.get("tool_input"), str(event.get("tool_use_id") or "")
    tool, server, value, changed = found
    return Result(tool, server, arguments, call, f"{prefix}-{session}", value, changed)


_Value = str | list[object] | IO[bytes]
_Found = tuple[_Value, Callable[[object], object]]
_Read = tuple[str, str, _Value, Callable[[object], object]]


# Claude Code: a copy of the result, in the form of its tool.


def _of_claude(event: Mapping[str, Any]) -> _Read | None:
    if event.get("hook_event_name") != "PostToolUse":
        return None
    name, given = str(event.get("tool_name")), event.get("tool_response")
    server, _, tool = name.removeprefix(_PREFIX).partition("__") if name.startswith(_PREFIX) else ("", "", name)
    found = _of_server(event, given) if server else _of_tool(name, given)
    if found is None:
        return None
    value, changed = found

    def told(new: object) -> object:
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": changed(new)}}

    return tool or name, server, value, told


def _of_tool(name: str, given: object) -> _Found | None:
    if not isinstance(given, dict):
        return None
    response = cast("dict[str, Any]", given)
    if name == "Bash":
        return _of_shell(response)
    if name == "WebFetch" and isinstance(text := response.get("result"), str):
        return text, lambda new: {**response, "result": new}
    file = response.get("file")
    if name == "Read" and response.get("type") == "text" and isinstance(file, dict):
        about = cast("dict[str, Any]", file)
        if isinstance(text := about.get("content"), str):
            return text, lambda new: {**response, "file": _file(about, str(new))}
    return None


def _file(about: Mapping[str, Any], text: str) -> dict[str, Any]:
    lines = text.count("\n") + 1
    return {**about, "content": text, "startLine": 1, "numLines": lines, "totalLines": lines}


def _of_shell(response: Mapping[str, Any]) -> _Found | None:
    if response.get("isImage") or response.get("structuredContent"):
        return None
    plain = {key: one for key, one in response.items() if key not in _LOST}
    out, err = str(response.get("stdout") or ""), str(response.get("stderr") or "")
    if (path := response.get("persistedOutputPath")) is not None:
        file = _opened(str(path), int(response.get("persistedOutputSize") or 0))
        return None if file is None else (file, lambda new: {**plain, "stdout": new})
    return f"{out}\n{err}" if out and err else out or err, lambda new: {**plain, "stdout": new, "stderr": ""}


def _of_server(event: Mapping[str, Any], given: object) -> _Found | None:
    if isinstance(given, list):
        return cast("list[object]", given), lambda new: new
    if not isinstance(given, str):
        return None
    if (saved := _SAVED.match(given)) is None:
        return given, lambda new: new
    folder = os.path.join(str(event.get("transcript_path")).removesuffix(".jsonl"), "tool-results")
    if os.path.dirname(saved[2]) != folder:
        return None
    file = _opened(saved[2], int(saved[1].replace(",", "")))
    return None if file is None else (file, lambda new: new)


# Gemini CLI: a text in place of the result, which the agent shows its model as an error.


_WRAPPED = lazy_pattern(r"<untrusted_context>\n(.*)\n</untrusted_context>\s*", re.DOTALL)


def _of_gemini(event: Mapping[str, Any]) -> _Read | None:
    given = event.get("tool_response")
    if event.get("hook_event_name") != "AfterTool" or not isinstance(given, dict):
        return None
    response = cast("dict[str, Any]", given)
    content: object = response.get("llmContent")
    parts = cast("list[object]", content) if isinstance(content, list) else [content]
    texts = [_text_of(one) for one in parts]
    if response.get("error") or None in texts:
        return None
    text = "".join(filter(None, texts))
    wrapped = _WRAPPED.fullmatch(text)
    about = event.get("mcp_context")
    server = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    tool = str(server.get("tool_name") or event.get("tool_name"))
    value = wrapped[1] if wrapped is not None else text
    return tool, str(server.get("server_name") or ""), value, lambda new: {"decision": "deny", "reason": new}


def _text_of(part: object) -> str | None:
    """None for an image, and for what else is no text."""
    if isinstance(part, dict):
        about = cast("dict[str, object]", part)
        part = about["text"] if set(about) == {"text"} else None
    return part if isinstance(part, str) else None


# opencode: our plugin brings the result, and puts what it is told into it.


def _of_opencode(event: Mapping[str, Any]) -> _Read | None:
    name, given = str(event.get("tool_name")), event.get("tool_response")
    response = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if isinstance(content := response.get("content"), list):
        server, _, tool = name.partition("_")
        return tool or name, server if tool else "", cast("list[object]", content), lambda new: {"content": new}
    text, about = response.get("output"), response.get("metadata")
    metadata = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    if isinstance(path := metadata.get("outputPath"), str):
        file = _opened(path, 0)
        return None if file is None else (name, "", file, lambda new: {"output": new})
    if not isinstance(text, str) or metadata.get("truncated"):  # cut, and nobody says where the rest is
        return None
    return name, "", text, lambda new: {"output": new}


# By agent: what the names of its sessions begin with, and how its results are read.
_AGENTS: dict[str, tuple[str, Callable[[Mapping[str, Any]], _Read | None]]] = {
    "claude-code": ("cc", _of_claude),
    "gemini": ("gc", _of_gemini),
    "opencode": ("oc", _of_opencode),
}


def _opened(path: str, least: int) -> IO[bytes] | None:
    """A file of the user's own, with at least so many bytes in it; no link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_size < least:
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")


def taken(result: Result) -> object | None:
    """The result with a notice in it; None if it stays as it is."""
    from holdall import config

    found = config.load(session=result.session)
    if isinstance(result.value, str) and _fits(result.value, found.settings):
        return None
    import asyncio

    return asyncio.run(_taken(result, found))


def _fits(text: str, settings: Settings) -> bool:
    """Whether no limit could be met, told without counting tokens: then nothing has to be opened."""
    from holdall.policy.decide import limits_of
    from holdall.wire.dialects import dialect_of

    if settings.tools:  # a tool with a table of its own may have any rule
        return False
    limits = limits_of(settings, dialect_of(settings).limits)
    size = len(text.encode("utf-8", "surrogatepass"))
    known = (limits.bytes, limits.chars, limits.tokens)  # a token has a byte or more
    return all(one is None or size <= one for one in known) and (
        limits.lines is None or text.count("\n") < limits.lines
    )


async def _taken(result: Result, found: Any) -> object | None:
    from dataclasses import replace

    from holdall.bag import Holdall
    from holdall.text.escape import shell_quoted
    from holdall.values.outputs import Inline, Kept, Unkept
    from holdall.wire.dialects import dialect_of

    settings = found.settings
    # Nobody announces a mark to the model of an agent, so its notices have none.
    dialect = replace(dialect_of(settings), keeps_for_session=False, marked_by="")
    async with Holdall.open(home=found.home, session=found.session, settings=settings, dialect=dialect) as bag:
        bag.core.ends_session = False
        bag.core.shell = f" -s {shell_quoted(found.session)}"
        new = await bag.take(
            result.value, tool=result.tool, server=result.server, arguments=result.arguments, call_id=result.call_id
        )
    if isinstance(new, Unkept):
        raise new.fault
    if isinstance(new, Kept | Inline) and new.content is not result.value:  # kept, masked, or read from a file
        content = new.content
        return result.changed(content.decode("utf-8", "replace") if isinstance(content, bytes) else content)
    return None
