"""A call of a tool: ours by the bag, anybody else's by its server and then through the bag; what the client gets of it;
and reads of what is kept.
"""

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from holdall.bag import Holdall
from holdall.bag.core import Core
from holdall.mcp.client import codec
from holdall.mcp.client.codec import only_text, plain
from holdall.mcp.client.connection import Connection
from holdall.mcp.client.routes import weight
from holdall.mcp.client.spec import configured_name
from holdall.mcp.gateway import messages
from holdall.mcp.gateway.client_side import ClientRequest
from holdall.mcp.gateway.messages import INVALID_PARAMS, RESOURCE_NOT_FOUND, Refusal, entries, table
from holdall.mcp.gateway.relay import Relay
from holdall.text.escape import for_people, one_line
from holdall.text.numbers import plural
from holdall.values.answers import Answer
from holdall.values.errors import HoldallError, StoreFault, UpstreamFault, UpstreamRefused
from holdall.values.outputs import Inline, Kept, RawResult, Running, Taken, Unkept
from holdall.wire.notes import (
    SCHEME,
    is_note,
    link,
    link_parts,
    media_type_of,
    running_note,
    structured_not_kept,
    structured_note,
    with_notice,
)

if TYPE_CHECKING:
    from holdall.bag.redaction import Redaction

# What a client gets of a tool's result: the result itself, or the notice in its place, in the form that MCP has.
#
# Pure: the bag has decided and stored. Whatever else a result carried, unknown fields included, stays in it.


_STRUCTURED = "structuredContent"
_ENVELOPE = ("content", _STRUCTURED, "isError")
_MAX_LINKS = 5


def as_bag_result(result: Mapping[str, Any]) -> object:
    """The part of a result that the bag knows: its blocks, its structured twin, whether it is an error."""
    missing: dict[str, Any] = {"content": []} if "content" not in result and _STRUCTURED in result else {}
    if not isinstance(result.get("content"), list) and not missing:
        return plain(result)
    envelope = missing | {name: result[name] for name in _ENVELOPE if name in result}
    if len(envelope) == len(result) and not missing:
        return result
    known = {"isError": False, **envelope}
    beside = {name: one for name, one in messages.without_usual(result).items() if name not in _ENVELOPE}
    return RawResult(known, result.raw if isinstance(result, RawResult) else b"", beside)


def as_client_result(
    core: Core,
    taken: Taken,
    original: dict[str, Any] | None,
    *,
    revision: str,
    has_schema: bool | None,
    masks: bool = False,
) -> dict[str, Any]:
    """`original` is what the server answered; None if it did not. `has_schema` is None of a tool that is not listed.

    With `masks` the original has no secrets any more, and neither has what was taken.
    """
    wanted = has_schema or (has_schema is None and _STRUCTURED in (original or {}))
    match taken:
        case Inline(content=content):
            whole = original is not None and not isinstance(content, str)
            if whole and masks and not isinstance(content, bytes):
                return _merged(original, content, taken.is_error)  # the bag says there what is masked
            return plain(original) if whole else text(content, taken.is_error)
        case Running(content=content, handle=handle):
            # Of a tool that is not listed yet its client may know, a moment later, that it has a schema.
            note = running_note(core.shown_handle(handle)) if wanted or has_schema is None else None
            return _with_structure(text(content), note)
        case Kept(content=content, artifact=facts):
            result = _merged(original, content, taken.is_error)
            if _is_whole(result, content, original):
                return _with_links(result, taken, revision)
            found = result.get(_STRUCTURED)
            note = found if is_note(found) else structured_note(facts, core.handle_of(facts))
            result = _with_structure(result, note if wanted and not taken.is_error else None)
            return _with_links(result, taken, revision)
        case Unkept(content=content, fault=fault):
            result = _merged(original, content, taken.is_error)
            if _is_whole(result, content, original):
                return result
            found, large = result.get(_STRUCTURED), only_text(original or {})
            size = len(text_in(original or result).encode("utf-8", "replace")) if large is None else len(large.data)
            note = found if is_note(found) else structured_not_kept(size, str(fault))
            return _with_structure(result, note if wanted and not taken.is_error else None)


def of_answer(answer: Answer) -> dict[str, Any]:
    """The answer of one of our own tools."""
    return text(answer.text, answer.is_error)


def text(said: object, is_error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(said)}]} | ({"isError": True} if is_error else {})


def of_refusal(refusal: Refusal) -> dict[str, Any]:
    """An error of the protocol as a result, all of which the bag can keep: its message, and its data after that."""
    said = text(refusal.message, is_error=True)
    if refusal.data is not None:
        said["content"].append({"type": "text", "text": data_of(refusal)})
    return said


def data_of(refusal: Refusal) -> str:
    data = refusal.data
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=repr)


def refused(core: Core, taken: Taken, refusal: Refusal) -> Refusal:
    """An error of the protocol that was too long: the notice is its message. People read it, too."""
    if isinstance(taken, Inline):
        return refusal
    blocks = cast("list[dict[str, Any]]", _merged(None, taken.content, True)["content"])
    shown = "\n".join(str(block["text"]) for block in blocks if "text" in block)
    data = None
    if isinstance(taken, Kept):
        data = structured_note(taken.artifact, core.handle_of(taken.artifact))
    if isinstance(taken, Unkept) and refusal.data is not None:
        data = structured_not_kept(len(data_of(refusal).encode("utf-8", "replace")), str(taken.fault))
    return Refusal(refusal.code, for_people(shown), data)


def _is_whole(result: Mapping[str, Any], content: object, original: dict[str, Any] | None) -> bool:
    """Whether it is shown as it came, though it is kept: the bag makes a new list where it replaces anything."""
    if original is None or isinstance(content, bytes):
        return isinstance(content, bytes)
    return result["content"] is original["content"] if "content" in original else not result["content"]


def _with_structure(result: dict[str, Any], note: Mapping[str, Any] | None) -> dict[str, Any]:
    """The text speaks. Where structured content has to be, it says all that the text says."""
    if note is not None:
        return _unwrapped({**result, _STRUCTURED: with_notice(note, text_in(result))})
    return {name: value for name, value in result.items() if name != _STRUCTURED}


def _unwrapped(result: dict[str, Any]) -> dict[str, Any]:
    """FastMCP says there that the structured content is {"result": …}; its client would look for that in a note."""
    meta = table(result.get("_meta"))
    wraps = table(meta.get("fastmcp"))
    if "wrap_result" not in wraps:
        return result
    left = {name: value for name, value in wraps.items() if name != "wrap_result"}
    return {**result, "_meta": {name: value for name, value in meta.items() if name != "fastmcp"}
            | ({"fastmcp": left} if left else {})}  # fmt: skip


def text_in(result: Mapping[str, Any]) -> str:
    """What its text blocks say."""
    texts = [table(block).get("text") for block in entries(result.get("content"))]
    return "\n".join(one for one in texts if isinstance(one, str))


def _with_links(result: dict[str, Any], kept: Kept, revision: str) -> dict[str, Any]:
    if not messages.supports_links(revision):
        return result
    links = [link(one) for one in (kept.artifact, *kept.others)[:_MAX_LINKS]]
    return {**result, "content": [*result.get("content", ()), *links]}


def _merged(original: dict[str, Any] | None, content: object, is_error: bool) -> dict[str, Any]:
    if original is not None and only_text(original) is not None:
        if isinstance(content, bytes):
            return plain(original)  # shown as it is
        block = next(iter(original["content"]), {"type": "text"})
        shown = {name: value for name, value in original.items() if name != _STRUCTURED}  # which is the same
        return {**shown, "content": [{**block, "text": str(content)}]}
    shown = dict(cast("Mapping[str, Any]", content)) if isinstance(content, Mapping) else {}
    if not isinstance(shown.get("content"), list):
        return text(cast("object", content), is_error)
    if original is None:
        return shown
    # In the order of the original, and with nothing that we added for the bag.
    return {name: shown.get(name, value) for name, value in original.items()} | {"content": shown["content"]}


# `resources/read` of what is kept: `holdall://SESSION/HANDLE`, whole or a range of it, in the client's own session.
#
# A link into another session and one to nothing get the same answer.


MAX_BYTES = 32 * 1024 * 1024
"""Of one answer: more has to be asked for in ranges."""


def is_ours(uri: object) -> bool:
    return isinstance(uri, str) and uri.lower().startswith(f"{SCHEME}:")


async def read(bag: Holdall, uri: str) -> dict[str, Any]:
    """Raises Refusal."""
    try:
        session, handle, ranges = link_parts(uri) or ("", "", {})
    except ValueError as problem:
        raise Refusal(INVALID_PARAMS, str(problem), {"uri": uri[:500]}) from problem
    if session != bag.session.id or not handle:
        raise _unknown(uri)
    try:
        facts = await bag.show(handle)
    except StoreFault as fault:
        raise Refusal(RESOURCE_NOT_FOUND, str(fault), {"uri": uri[:500]}) from fault
    except HoldallError as problem:
        raise _unknown(uri) from problem
    try:
        found = await bag.fetch.find(handle, **(ranges or {"bytes": ":"}))
        size = found.bytes.end - found.bytes.start
        if size > MAX_BYTES:
            raise too_large_for_one_answer(uri, size, MAX_BYTES, "one answer")
        data = b"".join([chunk async for chunk in bag.fetch.stream(handle, found.bytes)])
    except StoreFault as fault:
        raise Refusal(RESOURCE_NOT_FOUND, str(fault), {"uri": uri[:500]}) from fault
    except HoldallError as problem:
        raise Refusal(INVALID_PARAMS, str(problem), {"uri": uri[:500]}) from problem
    content = await asyncio.to_thread(_content, data, bag.core.imitates)
    return {"contents": [{"uri": uri, "mimeType": media_type_of(facts), **content}]}


def _unknown(uri: str) -> Refusal:
    """Made where it is raised: one that a frame holds as well would hold the frame, with all that the client sent."""
    return Refusal(RESOURCE_NOT_FOUND, "Resource not found", {"uri": uri[:500]})


def too_large_for_one_answer(uri: str, size: int, most: int, holder: str) -> Refusal:
    """`most` is how large a range may be."""
    words = f"{plural(size, 'byte')} are more than {holder} holds ({most:,}). Read it in ranges: ?bytes=0:{most}"
    return Refusal(INVALID_PARAMS, words, {"uri": uri[:500], "size": size})


def _content(data: bytes, imitates: Callable[[str], bool]) -> dict[str, str]:
    """As text, where it is that; one that could pass for a notice is no text for a model, and every byte is there."""
    with contextlib.suppress(UnicodeDecodeError):  # it is not text, or the range cuts through a character
        if not imitates(text := data.decode("utf-8")):
            return {"text": text}
    return {"blob": base64.b64encode(data).decode()}


# Every call ends in one answer: a result, the notice of one that is kept, or that it continues in the background.


_TOO_LATE = "asks its user something first, and the call had gone to the background by then"
_AGAIN = "Call it again, or let its calls wait (never_async)."
_LONGEST_CALL_ID = 200  # signs; longer ones are nobody's id
_CALL_IDS = ("toolUseId", "toolCallId", "tool_use_id", "tool_call_id")  # how the keys of clients end
_MAX_TASK = 4096  # bytes of a task
_MAX_MESSAGE = 300  # signs of a message, and of data: in what is one line. More than that is an output
_MAX_BESIDE = 1024 * 1024  # bytes of a result beside its content that pass as they are
_MAX_WRITTEN = 10 * _MAX_MESSAGE  # as much where each of them is an escape


async def _with_bounded_members(result: dict[str, Any]) -> dict[str, Any]:
    """The same, or where much stands beside its content, all of it as one text, which the bag can keep."""
    if isinstance(result, RawResult) and len(result.raw) <= _MAX_BESIDE:
        return result
    beside = {name: value for name, value in result.items() if name not in ("content", _STRUCTURED)}
    if weight(beside, 2 * _MAX_BESIDE) <= 2 * _MAX_BESIDE and len(messages.encode(beside)) <= _MAX_BESIDE:
        return result
    whole = await asyncio.to_thread(lambda: json.dumps(plain(result), ensure_ascii=False, default=str))
    return text(whole, is_error=bool(result.get("isError")))


def _call_id(asked: ClientRequest) -> str:
    """Under which the client's model knows the call, where the client says so; else the id of the request."""
    named = (value for name, value in asked.meta.items() if name.endswith(_CALL_IDS) and isinstance(value, str))
    return next((value for value in named if value), str(asked.id))[:_LONGEST_CALL_ID]


class Begun(NamedTuple):
    """Which tool of which server is called, under which name for the client, and with what."""

    server: str
    tool: str
    shown: str
    arguments: dict[str, Any]


def task_in(result: Mapping[str, Any]) -> str:
    """The id of the task that stands in place of a result; empty if it is a result."""
    task = table(result.get("task")).get("taskId") if "content" not in result else None
    return task if isinstance(task, str) else ""


def with_masked_status(found: Mapping[str, Any], redaction: "Redaction") -> dict[str, Any]:
    """A task, or a list of them, in which nothing but the ids is as the server wrote it."""
    masked = redaction.masked(codec.plain(dict(found)))
    tasks = [
        {**cast("Mapping[str, Any]", new), "taskId": cast("Mapping[str, Any]", old).get("taskId")}
        for old, new in zip(entries(found.get("tasks")), entries(masked.get("tasks")), strict=True)
        if isinstance(old, Mapping) and isinstance(new, Mapping)
    ]
    return masked | ({"tasks": tasks} if tasks else {}) | ({"taskId": found["taskId"]} if "taskId" in found else {})


class ToolCall:
    """One call of a server's tool, or the request for what a task of it has come to."""

    def __init__(self, relay: Relay, connection: Connection, asked: ClientRequest, begun: Begun) -> None:
        self._relay = relay
        self._connection = connection
        self._asked = asked
        self._tool = begun.tool
        self._shown = begun.shown
        self._arguments = begun.arguments
        self._original: dict[str, Any] | None = None
        self._untouched: dict[str, Any] | None = None
        self._refusal: Refusal | None = None

    async def run(self, bag: Holdall, listed: Mapping[str, Any]) -> dict[str, Any]:
        """`listed` is the tool as its server lists it; empty if it has not been listed."""
        schema = table(listed.get("inputSchema"))
        self._asked.messages = bag.jobs.messages(self._shown)
        taken = await bag.run(
            self._called, tool=self._shown, arguments=self._arguments, call_id=_call_id(self._asked),
            server=configured_name(self._connection.spec),
            schema=schema or None, messages=self._asked.messages,
            waits=lambda: self._relay.waits_for_client(self._connection.name),
        )  # fmt: skip
        if self._untouched is not None:  # also where it came in the moment in which the clock had won
            return self._untouched
        if isinstance(taken, Running):
            self._asked.open = False
        elif (refusal := self._refusal) is not None:
            self._refusal = None
            try:
                raise refused(bag.core, taken, refusal)
            finally:
                del refusal  # or it and this frame would hold each other
        revision, has_schema = self._relay.caller.revision, isinstance(listed.get("outputSchema"), Mapping)
        original, self._original = self._original, None  # it may be large, and is not needed any more
        result = as_client_result(
            bag.core, taken, original, revision=revision, has_schema=has_schema if listed else None,
            masks=self._asked.messages.masks,
        )  # fmt: skip
        return result if result is original else self._completed(result)

    async def _called(self, **arguments: Any) -> object:
        params = dict(self._asked.params)
        if self._asked.method == "tools/call":
            params |= {"name": self._tool, "arguments": arguments}
        try:
            result = await self._relay.forward(self._connection, self._asked, params)
        except Refusal as refusal:
            refusal.message, refusal.data = await self._masked([refusal.message, refusal.data])
            if not self._asked.open:
                return self._failed(refusal)
            self._refusal = Refusal(refusal.code, refusal.message, refusal.data)  # without the frames, which hold us
            return of_refusal(refusal)
        masks = self._asked.open and self._asked.messages is not None and self._asked.messages.masks
        if masks and (task := task_in(result)) and len(messages.encode(result)) <= _MAX_TASK:
            masked = await self._masked(codec.plain(result))
            self._untouched = {**masked, "task": {**table(masked.get("task")), "taskId": task}}
            return ""
        # Else only a question is no output. A kind that is still to come passes while it is small.
        if messages.is_question(result) and not result.keys() & set(_ENVELOPE):
            if not self._asked.open:
                raise UpstreamFault(self._connection.name, _TOO_LATE, advice=_AGAIN)
            self._untouched = await self._masked(codec.plain(result))
            return ""
        result = await _with_bounded_members(result)
        if (text := codec.only_text(result)) is not None:
            await self._remember(result)
            return text.data
        result = codec.plain_texts(result)
        await self._remember(result)
        return as_bag_result(result)

    def _failed(self, refusal: Refusal) -> dict[str, Any]:
        """In the background nobody is left to be refused: how the call failed is told in a line, or is its output."""
        data = "" if refusal.data is None else data_of(refusal)
        said = f"(code {refusal.code})"
        if len(refusal.message) > _MAX_MESSAGE or len(data) > _MAX_MESSAGE:
            return of_refusal(Refusal(refusal.code, f"{said} {refusal.message}", refusal.data))
        what = f'refused "{one_line(self._tool, 60)}": {one_line(refusal.message, _MAX_WRITTEN)} {said}'
        what += f", with the data {one_line(data, _MAX_WRITTEN)}" if data else ""
        raise UpstreamRefused(
            self._connection.name, what, code=refusal.code, reason=refusal.message, data=refusal.data
        ) from refusal

    async def _remember(self, result: dict[str, Any]) -> None:
        """Only while somebody waits: a call in the background is kept by its session, and so would this be."""
        if self._asked.open:
            self._original = await self._masked(result, is_output=True)

    async def _masked(self, value: Any, *, is_output: bool = False) -> Any:
        return await self._relay.masked(self._connection.name, value, self._asked, is_output=is_output)

    def _completed(self, result: dict[str, Any]) -> dict[str, Any]:
        if not self._relay.caller.modern:
            return result
        greeting = self._connection.greeting
        return messages.completed(self._asked.method, result, greeting.server if greeting is not None else {})
