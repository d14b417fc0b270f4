"""The results of a coding agent's own tools: what each holds, where it was saved, and what the agent is told then.

Where the agent has saved a result to a file before we are asked, the file is kept; where it has saved less than all,
the result stays as it is. A path that stands in a text is believed only inside the folder of the conversation's own
results: the text may come from a server.

Of a tool with `redact` nothing stays as it was unless it was looked through: what has a form that is not known here is
masked as it is, and what cannot be looked through is withheld.
"""

import contextlib
import functools
import json
import os
import re
import select
import signal
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from holdall.values.patterns import lazy_pattern
from holdall.values.settings import Settings

if TYPE_CHECKING:
    from holdall.config import Configuration
    from holdall.values.outputs import Inline, Kept
    from holdall.values.settings import ToolPolicy

_SAVED = lazy_pattern(
    r"Error: result \(([\d,]+) characters[^)\n]*\) exceeds maximum allowed tokens\. "
    r"Output has been saved to (/[^\n]+)\.\n"
)
_LOST = ("persistedOutputPath", "persistedOutputSize", "stdoutHoldsOutputEnd")
_PREFIX = "mcp__"
_MOST_SECONDS = 45.0  # for what has to be looked through; the hooks that we install have 60
_Event = Mapping[str, Any]


class _Found(NamedTuple):
    """What a tool gave, or a file with it; `put` makes the response that has something else in its place.

    `put` is told the rest of the response beside it, which is masked by then where it has to be. `around` is the fence
    of the agent, which a notice does not need.
    """

    value: str | list[object] | IO[bytes]
    put: "_Put"
    around: tuple[str, str] = ("", "")


_Put = Callable[[object, Any], object]


def _under(key: str) -> _Put:
    def put(new: object, rest: Any) -> object:
        return {**rest, key: new}

    return put


class _Agent(NamedTuple):
    """How the results of an agent are read, and how it is told of another one."""

    prefix: str  # of the names of its sessions
    names: Callable[[_Event], Iterator[tuple[str, str]]]  # tool and server, as they may be meant; none: no result
    read: Callable[[_Event], _Found | None]  # None: nothing that is known here
    told: Callable[[_Event, Any], object]  # by a response in the form that its tool has
    as_text: Callable[[_Event, str], object]  # the same of a text alone


# Claude Code: a copy of the result, in the form of its tool.


def _claude_names(event: _Event) -> Iterator[tuple[str, str]]:
    if event.get("hook_event_name") == "PostToolUse":
        name = str(event.get("tool_name"))
        shown = name.removeprefix(_PREFIX)
        server, _, tool = shown.partition("__") if name.startswith(_PREFIX) else ("", "", "")
        yield name, server
        yield from ((one, server) for one in (tool, shown) if tool)


def _of_claude(event: _Event) -> _Found | None:
    name, given = str(event.get("tool_name")), event.get("tool_response")
    if name.startswith(_PREFIX):
        return _of_server(event, given)
    if not isinstance(given, dict):
        return None
    response = cast("dict[str, Any]", given)
    if name == "Bash":
        return _of_shell(response)
    if name == "WebFetch" and isinstance(text := response.get("result"), str):
        return _Found(text, _under("result"))
    file = response.get("file")
    if name == "Read" and response.get("type") == "text" and isinstance(file, dict):
        about = cast("dict[str, Any]", file)
        if isinstance(text := about.get("content"), str):
            return _Found(text, _read_file)
    return None


def _file(about: Mapping[str, Any], text: str) -> dict[str, Any]:
    first, number, total = (about.get(one) for one in ("startLine", "numLines", "totalLines"))
    if number == text.count("\n") + 1:  # the same lines, masked
        return {**about, "content": text}
    if isinstance(first, int) and isinstance(number, int) and isinstance(total, int) and number < total:
        from holdall.wire.notes import part_of_file

        text = f"{part_of_file(first, number, total)}\n{text}"
    lines = text.count("\n") + 1
    return {**about, "content": text, "startLine": 1, "numLines": lines, "totalLines": lines}


def _read_file(new: object, rest: Any) -> object:
    return {**rest, "file": _file(rest["file"], str(new))}


def _of_shell(response: Mapping[str, Any]) -> _Found | None:
    if response.get("isImage") or response.get("structuredContent"):
        return None

    out, err = str(response.get("stdout") or ""), str(response.get("stderr") or "")
    if (path := response.get("persistedOutputPath")) is not None:
        file = _opened(str(path), int(response.get("persistedOutputSize") or 0))
        return None if file is None else _Found(file, _shell_file)
    return _Found(f"{out}\n{err}" if out and err else out or err, _shell_text)


def _shell_file(new: object, rest: Any) -> dict[str, Any]:
    return {**{key: one for key, one in rest.items() if key not in _LOST}, "stdout": new}


def _shell_text(new: object, rest: Any) -> object:
    return {**_shell_file(new, rest), "stderr": ""}


def _of_server(event: _Event, given: object) -> _Found | None:
    if isinstance(given, list):
        return _Found(cast("list[object]", given), _alone)
    if not isinstance(given, str):
        return None
    folder = os.path.join(str(event.get("transcript_path")).removesuffix(".jsonl"), "tool-results")
    if (saved := _SAVED.match(given)) and os.path.dirname(saved[2]) == folder:
        file = _opened(saved[2], int(saved[1].replace(",", "")))
        return None if file is None else _Found(file, _alone)
    return _Found(given, _alone)


def _alone(new: object, _: Any) -> object:
    return new


def _claude_told(_: _Event, response: Any) -> object:
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": response}}


def _claude_text(event: _Event, text: str) -> object:
    name = str(event.get("tool_name"))
    forms: dict[str, Any] = {
        "Bash": {"stdout": text, "stderr": "", "interrupted": False, "isImage": False},
        "WebFetch": {"bytes": 0, "code": 200, "codeText": "", "result": text, "durationMs": 0, "url": ""},
        "Read": {"type": "text", "file": _file({"filePath": ""}, text)},
    }
    return _claude_told(event, forms.get(name, text))


# Gemini CLI: a text in place of the result, which the agent shows its model as an error.


_FENCE = ("<untrusted_context>\n", "\n</untrusted_context>")
_WRAPPED = lazy_pattern(rf"{_FENCE[0]}(.*){_FENCE[1]}\s*", re.DOTALL)


def _gemini_names(event: _Event) -> Iterator[tuple[str, str]]:
    if event.get("hook_event_name") == "AfterTool":
        about = event.get("mcp_context")
        server = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
        place, own = str(server.get("server_name") or ""), server.get("tool_name")
        yield str(event.get("tool_name")), place
        yield from ((name, place) for name in ((own, f"{place}__{own}") if isinstance(own, str) else ()))


def _of_gemini(event: _Event) -> _Found | None:
    given = event.get("tool_response")
    if not isinstance(given, dict):
        return None
    content: object = cast("dict[str, Any]", given).get("llmContent")
    parts = cast("list[object]", content) if isinstance(content, list) else [content]
    blocks = [_block_of(one) for one in parts]
    texts = [one["text"] for one in blocks if one["type"] == "text"]
    if len(texts) < len(blocks):
        return _Found(cast("list[object]", blocks), _under("llmContent")) if texts else None
    text = "".join(texts)
    if (wrapped := _WRAPPED.fullmatch(text)) is not None:
        return _Found(wrapped[1], _under("llmContent"), _FENCE)
    return _Found(text, _under("llmContent"))


def _block_of(part: object) -> dict[str, str]:
    """A part as a content block."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    about = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
    if isinstance(text := about.get("text"), str):
        return {"type": "text", "text": text}
    if about.get("type") == "image":
        return about
    data: object = about.get("inlineData")
    image = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if isinstance(image.get("data"), str) and set(about) == {"inlineData"}:
        return {"type": "image", "data": image["data"], "mimeType": str(image.get("mimeType"))}
    return {"type": "text", "text": json.dumps(part, ensure_ascii=False)} if part is not None else {"type": "none"}


def _gemini_told(_: _Event, response: Any) -> object:
    from holdall.wire.notes import images_left_out

    content: object = (
        cast("Mapping[str, Any]", response).get("llmContent") if isinstance(response, Mapping) else response
    )
    if content is None:  # an error, for instance: then it is all that there is
        content = json.dumps(response, ensure_ascii=False, default=repr)
    parts = cast("list[object]", content) if isinstance(content, list) else [content]
    blocks = [_block_of(one) for one in parts]
    texts = [str(one["text"]) for one in blocks if one["type"] == "text"]
    if len(texts) < len(blocks):
        texts.append(f"\n{images_left_out(len(blocks) - len(texts))}")
    return {"decision": "deny", "reason": "".join(texts)}


# opencode: our plugin brings the result, and puts what it is told into it.


def _opencode_names(event: _Event) -> Iterator[tuple[str, str]]:
    """`server_tool`, where either may have the sign in its name."""
    name, given = str(event.get("tool_name")), event.get("tool_response")
    yield name, ""
    if isinstance(given, dict) and isinstance(cast("dict[str, Any]", given).get("content"), list):
        yield from ((name[at + 1 :], name[:at]) for at, sign in enumerate(name[:-1]) if sign == "_" and at)


def _of_opencode(event: _Event) -> _Found | None:
    given = event.get("tool_response")
    response = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    if isinstance(content := response.get("content"), list):
        return _Found(cast("list[object]", content), _under("content"))
    text, about = response.get("output"), response.get("metadata")
    metadata = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    if isinstance(path := metadata.get("outputPath"), str):  # which a server may have named
        data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
        is_own = os.path.dirname(path) == os.path.join(data, "opencode", "tool-output")
        file = _opened(path, 0) if is_own else None
        return None if file is None else _Found(file, _under("output"))
    if not isinstance(text, str) or metadata.get("truncated"):  # cut, and nobody says where the rest is
        return None
    return _Found(text, _under("output"))


def _opencode_told(_: _Event, response: Any) -> object:
    return {key: response[key] for key in ("output", "content") if response.get(key) is not None}


def _opencode_text(_: _Event, text: str) -> object:
    return {"output": text, "content": [{"type": "text", "text": text}]}


AGENTS: dict[str, _Agent] = {
    "claude-code": _Agent("cc", _claude_names, _of_claude, _claude_told, _claude_text),
    "gemini": _Agent("gc", _gemini_names, _of_gemini, _gemini_told, _gemini_told),
    "opencode": _Agent("oc", _opencode_names, _of_opencode, _opencode_told, _opencode_text),
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


# What becomes of a result


def answer(agent: str, told: bytes, may_redact: Callable[[], bool]) -> str:
    """What the agent is told of the result that it tells of; empty if it stays as it is.

    Raises where something goes wrong and it may stay: where its tool has no `redact`, or none can have.
    """
    from holdall import config

    by, event, masks = AGENTS[agent], cast("_Event", {}), None
    try:
        event = cast("_Event", json.loads(told))
        if not (names := list(by.names(event))):
            return ""
        session = "".join(one for one in str(event.get("session_id")).removeprefix("ses_") if one.isalnum())[:8]
        found = config.load(session=f"{by.prefix}-{session}")
        tool, server, policy = _meant(names, found.settings)
        masks = bool(policy and policy.redact)
        if policy is not None:
            found = replace(found, settings=replace(found.settings, tools={**found.settings.tools, tool: policy}))
        made = functools.partial(_answer, by, event, tool, server, found, masks=masks)
        new = _in_time(made) if masks else made()
    except Exception as problem:
        if not (may_redact() if masks is None else masks):
            raise
        from holdall.wire.notes import withheld_note

        new = by.as_text(event, withheld_note(type(problem).__name__))
    return "" if new is None else json.dumps(new)


def _in_time(work: Callable[[], object]) -> object:
    """What has to be looked through is withheld before the agent's own patience ends: it would go on with all of it.

    In a process of its own, since an engine of patterns hears of no deadline.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException), os.fdopen(writing, "w") as pipe:
            try:
                told: dict[str, object] = {"new": work()}
            except Exception as problem:
                told = {"failed": type(problem).__name__}
            json.dump(told, pipe)
        os._exit(0)
    os.close(writing)
    ended, data = time.monotonic() + _MOST_SECONDS, bytearray()
    try:
        while select.select([reading], [], [], max(0.0, ended - time.monotonic()))[0]:
            if not (piece := os.read(reading, 1 << 20)):
                told = json.loads(data)
                if "failed" in told:
                    raise type(str(told["failed"]), (Exception,), {})
                return told["new"]
            data += piece
        raise TimeoutError
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _meant(names: list[tuple[str, str]], settings: Settings) -> tuple[str, str, "ToolPolicy | None"]:
    """The tool, its server, and the strictest of what any of its names has, where one has a table of its own."""
    usual = names[min(1, len(names) - 1)]
    if not settings.tools:
        return *usual, None
    from holdall.bag.core import policies_of, policy_of
    from holdall.policy.setting_values import strictest

    policies = policies_of(settings)
    known = [(one, policy) for one in names if (policy := policy_of(policies, one[0])) != policy_of({}, "")]
    if not known:
        return *usual, None
    return *known[0][0], strictest([policy for _, policy in known])


def _answer(
    by: _Agent, event: _Event, tool: str, server: str, settings: "Configuration", *, masks: bool
) -> object | None:
    result = by.read(event)
    try:
        if not masks and (result is None or (isinstance(result.value, str) and _fits(result.value, settings.settings))):
            return None
        import asyncio

        return asyncio.run(_taken(by, event, result, tool, server, settings, masks=masks))
    finally:
        if result is not None and not isinstance(result.value, str | list):
            result.value.close()


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


async def _taken(
    by: _Agent, event: _Event, result: _Found | None, tool: str, server: str, found: "Configuration", *, masks: bool
) -> object | None:
    from holdall.bag import Holdall
    from holdall.text.escape import shell_quoted
    from holdall.values.outputs import Inline, Unkept
    from holdall.wire.dialects import dialect_of

    # Nobody announces a mark to the model of an agent, so its notices have none.
    dialect = replace(dialect_of(found.settings), keeps_for_session=False, marked_by="")
    response: Any = event.get("tool_response")
    async with Holdall.open(home=found.home, session=found.session, settings=found.settings, dialect=dialect) as bag:
        bag.core.only_look()
        bag.core.only_content = True
        bag.core.shell = f" -s {shell_quoted(found.session)}"
        redaction = bag.core.redaction_of(tool)
        rest: Any = response if redaction is None else redaction.masked(response)
        if isinstance(rest, str) and not isinstance(response, str):  # it says why nothing of it is shown
            return by.as_text(event, rest)
        if result is None:
            return None if rest is response else by.told(event, rest)
        call = str(event.get("tool_use_id") or "")
        new = await bag.take(result.value, tool=tool, server=server, arguments=event.get("tool_input"), call_id=call)
    if isinstance(new, Unkept) and not masks:
        raise new.fault
    content: Any = cast("Kept | Inline | Unkept", new).content
    if content is result.value:
        return None if rest is response else by.told(event, rest)
    if isinstance(content, bytes):  # read from a file
        content = content.decode("utf-8", "replace")
    if isinstance(new, Inline) and isinstance(content, str):
        content = content.join(result.around)
    return by.told(event, result.put(content, rest))
