"""Claude Agent SDK: tool results that do not fit become notices, for `query` and `ClaudeSDKClient`.

    async for message in query(prompt="…", options=options(my_options)): ...

Servers in this process are guarded where they answer. For tools of Claude Code and of other servers a hook replaces
what is too large; what Claude Code has saved to a file by then is read from there. Its session names ours: a hook tells
it before each call. Claude Code itself refuses to read files of more than 256 KB.
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import copy
import io
import json
import os
import re
import stat
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdall import OutputStore, Settings
from holdall.adapters import Conversations
from holdall.bag.core import in_thread
from holdall.values.errors import MissingExtra
from holdall.wire.notes import withheld_note

try:
    from claude_agent_sdk import ClaudeAgentOptions, HookMatcher
    from mcp.server import Server
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool
except ImportError as missing:
    raise MissingExtra(
        missing.name or "claude_agent_sdk", "claude-agent", "the adapter for the Claude Agent SDK"
    ) from missing

_NAME = "holdall"
_PREFIX = f"mcp__{_NAME}__"
_CALL_ID = "claudecode/toolUseId"  # in what Claude Code sends beside the arguments of a call
_LOADED = {"anthropic/alwaysLoad": True}  # else a model has to search for our tools first
_MOST_CALLS = 1000
_BUFFER = 64 * 1024 * 1024  # of one message of Claude Code; the SDK ends a run that has a longer one
_SAVED = re.compile(r"Error: result \([\d,]+ characters[^)\n]*\) exceeds .*?Output has been saved to (/[^\n]+)\.\n")
_OF_FILE = ("persistedOutputPath", "persistedOutputSize", "stdoutHoldsOutputEnd")
_TEXTS = {"Bash": ("stdout", "stderr"), "Grep": ("content",), "WebFetch": ("result",)}  # what of theirs a model reads


def options(
    options: ClaudeAgentOptions | None = None,
    *,
    settings: Settings | None = None,
    home: str | None = None,
    store: OutputStore | None = None,
    session: str | Callable[[str], str] | None = None,
    background: bool = True,
) -> ClaudeAgentOptions:
    """The same options, with which tool outputs are kept whole; what does not fit reaches the model as a notice.

    `session` may make a name of the session id of Claude Code.
    """
    conversations = Conversations(
        settings=settings, home=home, store=store, session=session, background=background, prefix=_PREFIX
    )
    return _Adapter(conversations).options(options or ClaudeAgentOptions())


class _Adapter:
    def __init__(self, conversations: Conversations) -> None:
        self.conversations = conversations
        self._sessions: OrderedDict[str, str] = OrderedDict()  # by the id of a call
        self._told: set[str] = set()  # sessions whose model knows what handles are
        self._guarded_tools: set[str] = set()  # whose answers need nothing more, by their whole names

    def options(self, old: ClaudeAgentOptions) -> ClaudeAgentOptions:
        unnamed = old.session_id or old.resume or str(uuid.uuid4())  # of a call that no hook has told of
        servers = {name: self._guarded(name, one, unnamed) for name, one in _servers(old.mcp_servers).items()}
        hooks: dict[Any, list[HookMatcher]] = dict(old.hooks or {})
        hooks["PreToolUse"] = [*hooks.get("PreToolUse", ()), HookMatcher("mcp__.*", [self._before])]
        hooks["PostToolUse"] = [*hooks.get("PostToolUse", ()), HookMatcher(None, [self._after])]
        own: Any = {"type": "sdk", "name": _NAME, "instance": self._server(unnamed)}
        made: Any = replace(
            old, mcp_servers={**servers, _NAME: own}, hooks=hooks, max_buffer_size=old.max_buffer_size or _BUFFER,
        )  # fmt: skip
        made.holdall = self.conversations  # `close` gives back its threads and files; no session ends by it
        return made

    # Servers in this process

    def _name(self, params: Any, unnamed: str) -> str:
        call = (params.meta or {}).get(_CALL_ID, "")
        session = self._sessions.get(call, unnamed)
        return self.conversations.name(session, lambda: session)

    def _server(self, unnamed: str) -> Server[Any]:
        async def listed(_context: Any, _params: Any) -> ListToolsResult:
            made = [{**spec.mcp(), "name": spec.plain_name, "_meta": _LOADED} for spec in self.conversations.specs()]
            return ListToolsResult(tools=[Tool.model_validate(one) for one in made])

        async def call(_context: Any, params: Any) -> CallToolResult:
            answer = await self.conversations.answer(self._name(params, unnamed), params.name, params.arguments or {})
            return _result(answer.text, is_error=answer.is_error)

        return Server(_NAME, on_list_tools=listed, on_call_tool=call)

    def _guarded(self, name: str, config: Any, unnamed: str) -> Any:
        """A copy of a server in this process; others are left to the hook."""
        entry = config["instance"].get_request_handler("tools/call") if config.get("type") == "sdk" else None
        if entry is None:
            return config

        async def call(context: Any, params: Any) -> Any:
            # By what was called, not by the server: one of another process may be called `{name}__x`.
            self._guarded_tools.add(f"mcp__{name}__{params.name}")
            return await self.conversations.result(
                self._name(params, unnamed), lambda: entry.handler(context, params), tool=params.name, running=_result,
                arguments=params.arguments, call_id=(params.meta or {}).get(_CALL_ID, ""),
            )  # fmt: skip

        server: Any = copy.copy(config["instance"])
        server._request_handlers = dict(server._request_handlers)
        server.add_request_handler("tools/call", entry.params_type, call)
        return {**config, "instance": server}

    # Hooks

    async def _before(self, event: Any, call_id: str | None, _context: Any) -> Any:
        """Of tools of servers, which are not told the session themselves. Ours only read, so nobody has to be asked."""
        self._sessions[call_id or ""] = event["session_id"]
        while len(self._sessions) > _MOST_CALLS:
            self._sessions.popitem(last=False)
        if not self._is_own(event["tool_name"]):
            return {}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}

    def _is_own(self, tool: str) -> bool:
        return tool in {_PREFIX + spec.plain_name for spec in self.conversations.specs()}

    async def _after(self, event: Any, call_id: str | None, _context: Any) -> Any:
        session, tool, given = event["session_id"], event["tool_name"], event["tool_response"]
        name, said = self.conversations.name(session, lambda: session), dict[str, Any]()
        if not self._is_own(tool) and tool not in self._guarded_tools:
            shown = await self._shown(name, event, call_id or "")
            said |= {} if shown is given else {"updatedToolOutput": shown}
        if name not in self._told:
            async with self.conversations.of(name) as bag:
                if bag.tools():  # something is kept, so it is the time to say what handles are
                    self._told.add(name)
                    said["additionalContext"] = bag.instructions()
        return {"hookSpecificOutput": {"hookEventName": "PostToolUse", **said}} if said else {}

    async def _shown(self, name: str, event: Any, call_id: str) -> Any:
        """The same object where it stays. Of a tool with `redact` all of it is looked through, or withheld."""
        tool, given = event["tool_name"], event["tool_response"]
        async with self.conversations.of(name) as bag:
            redaction = bag.core.redaction_of(tool)
        try:
            shown = await self._taken(name, event, call_id)
            masked = shown if redaction is None else await in_thread(redaction.masked, {"value": shown})
        except Exception as problem:
            if redaction is None:
                raise
            masked = withheld_note(type(problem).__name__)
        return _as_text(event, masked) if isinstance(masked, str) and not isinstance(given, str) else masked

    async def _taken(self, name: str, event: Any, call_id: str) -> Any:
        outputs = _outputs(event)
        try:
            return await self.conversations.result(
                name, lambda: asyncio.sleep(0, event["tool_response"]), tool=event["tool_name"], running=str,
                arguments=event["tool_input"], call_id=call_id, take=lambda _: outputs,
                put=lambda _, new: _with_outputs(event, new),
            )  # fmt: skip
        finally:
            for file in outputs:
                if isinstance(file, io.BufferedReader):
                    file.close()


def _servers(given: Any) -> dict[str, Any]:
    """Those of a file, or of its text, are read here: ours has to stand beside them."""
    if isinstance(given, Mapping):
        return dict(given)
    text = str(given) if str(given).lstrip().startswith("{") else Path(given).read_text(encoding="utf-8")
    return dict(json.loads(text).get("mcpServers", {}))


def _result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=is_error)


def _outputs(event: Mapping[str, Any]) -> list[object]:
    """The texts that the model reads of a result, or the file that Claude Code has saved it to."""
    tool, given = event["tool_name"], event["tool_response"]
    if isinstance(given, str):
        folder = os.path.join(str(event.get("transcript_path")).removesuffix(".jsonl"), "tool-results")
        saved = _SAVED.match(given) if tool.startswith("mcp__") else None
        # A path in a text may come from a server: it is believed in the folder of this conversation only.
        file = _opened(saved[1]) if saved is not None and os.path.dirname(saved[1]) == folder else None
        return [given if file is None else file]
    if not isinstance(given, dict):
        return [given] if tool.startswith("mcp__") else []
    if tool.startswith("mcp__"):  # a server can put anything there, paths of the user's files too
        return [given]
    if "persistedOutputPath" in given:
        file = _opened(given["persistedOutputPath"])
        return [] if file is None else [file]
    if tool == "Read":
        return [given["file"]["content"]] if given.get("type") == "text" else []
    return [given[key] for key in _TEXTS.get(tool, ()) if isinstance(given.get(key), str)]


def _with_outputs(event: Mapping[str, Any], shown: list[Any]) -> Any:
    """The same in the form that the tool has, else Claude Code takes the one that it had."""
    tool, given = event["tool_name"], event["tool_response"]
    texts = [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in shown]
    if not isinstance(given, dict) or tool.startswith("mcp__"):
        return texts[0]
    if tool == "Read":
        lines = texts[0].count("\n") + 1
        about = {**given["file"], "content": texts[0], "startLine": 1, "numLines": lines, "totalLines": lines}
        return {**given, "file": about}
    plain = {key: one for key, one in given.items() if key not in _OF_FILE}
    keys = [key for key in _TEXTS.get(tool, ("stdout",)) if isinstance(given.get(key), str)]
    return {**plain, **dict(zip(keys, texts, strict=False))}


_ONE_LINE = {"startLine": 1, "numLines": 1, "totalLines": 1}


def _as_text(event: Mapping[str, Any], text: str) -> Any:
    """A text alone, in the form that the tool has."""
    forms: dict[str, Any] = {
        "Bash": {"stdout": text, "stderr": "", "interrupted": False, "isImage": False},
        "Grep": {"mode": "content", "numFiles": 0, "filenames": [], "content": text, "numLines": text.count("\n") + 1},
        "WebFetch": {"bytes": 0, "code": 200, "codeText": "", "result": text, "durationMs": 0, "url": ""},
        "Read": {
            "type": "text",
            "file": {"filePath": "", "content": text, "startLine": 1, "numLines": 1, "totalLines": 1},
        },
    }
    return forms.get(event["tool_name"], text)


def _opened(path: str) -> Any:
    """A file of the user's own, and no link to another."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
        os.close(descriptor)
        return None
    return os.fdopen(descriptor, "rb")
