"""What tools return, in the forms that APIs have: fields, content blocks, tool results in messages; taken apart into
the text that a model would read and what is not text, and put together again.
"""

import base64
import binascii
import contextlib
import copy
import dataclasses
import json
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, cast

from holdall.text.excerpt import byte_count
from holdall.text.marks import Mark
from holdall.values.chat import Assistant, ToolResult
from holdall.values.outputs import RawResult
from holdall.values.record import record

# The fields of what tools return: dictionaries, pydantic models, dataclasses, anything with attributes.
#
# A value is never changed; `with_field` gives a copy. Nothing here knows what a field means.


def field(value: object, *names: str) -> object:
    """The first of these fields that is there; None if there is none."""
    for name in names:
        if isinstance(value, dict | Mapping):  # the first is far quicker, and a result may have 500,000
            found: object = cast("Mapping[str, object]", value).get(name)
        else:
            try:
                found = getattr(value, name, None)
            except Exception:  # a property of a foreign object may do anything, and the clamp must hold
                found = None
        if found is not None:
            return found
    return None


def fields_of(value: object) -> tuple[str, ...]:
    """The names of what an object holds, where it has any of its own; of a dataclass those that are private, too."""
    declared = dataclasses.fields(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else ()
    return tuple(dict.fromkeys([*_members(value), *(one.name for one in declared)]))


def with_field(value: object, name: str, new: object) -> object:
    """A copy of `value` in which this field is `new`, read again to be sure; all others are the same objects.

    Of an object that does not take it a dictionary: the field and what else is short, since the text may be in more
    than one place of it.
    """
    if isinstance(value, Mapping):
        mapping = cast("Mapping[str, object]", value)
        copied = copy.copy(mapping) if isinstance(mapping, MutableMapping) else dict(mapping)
        cast("MutableMapping[str, object]", copied)[name] = new
        return copied
    for copied in _copies(value, name, new):
        if copied is not value and _is_same(field(copied, name), new):
            return copied
    short = {other: one for other, one in _members(value).items() if isinstance(one, bool | int | float)}
    short |= {other: one for other, one in _members(value).items() if isinstance(one, str) and len(one) <= _SHORT}
    return {**short, name: new}


def left_out(came: object, given: object, text: str | None) -> dict[str, object]:
    """What an object held beside `text` that the dictionary in its place does not; see `with_field`."""
    if isinstance(came, Mapping) or not isinstance(given, dict):
        return {}
    given = cast("dict[str, object]", given)
    return {name: one for name, one in _members(came).items() if name not in given and not _repeats(one, text or "")}


def _repeats(member: object, text: str) -> bool:
    """Whether it is this text once more, or the lines or blocks of it."""
    pieces = cast("Sequence[object]", member) if isinstance(member, list | tuple) else (member,)
    texts = [text_of(one) for one in pieces]
    joined = None if None in texts else _BETWEEN.join(cast("list[str]", texts))
    return joined == text or joined == text.removesuffix(_BETWEEN)


def _copies(value: Any, name: str, new: object) -> Iterator[object]:
    """In each of the ways that there are; a copy may be unchanged all the same, if its field is made of others."""
    with contextlib.suppress(Exception):  # an object of the tool's own may do anything
        if callable(getattr(value, "model_copy", None)):  # pydantic
            yield value.model_copy(update={name: new})
    with contextlib.suppress(Exception):
        if callable(getattr(value, "_replace", None)):  # named tuples
            yield value._replace(**{name: new})
    with contextlib.suppress(Exception):
        copied = copy.copy(value)
        object.__setattr__(copied, name, new)  # a frozen dataclass refuses its own way of setting
        yield copied


def _is_same(found: object, new: object) -> bool:
    try:
        return found is new or bool(found == new)
    except Exception:
        return False


# Content blocks: which are text, what the others carry, and a text block that can stand in the place of one.
#
# The blocks of MCP, Anthropic, OpenAI and Bedrock, as dictionaries or as objects. Nothing is changed in place.


TEXT_TYPES = ("text", "input_text", "output_text")
KNOWN_TYPES = frozenset(
    (*TEXT_TYPES, "image", "image_url", "input_image", "audio", "input_audio", "resource", "resource_link", "document",
     "file", "input_file", "search_result", "tool_reference", "video", "refusal")
)  # fmt: skip
_MEDIA = ("mimeType", "mime_type", "media_type", "mediaType", "format", "image_mimetype")
_URLS = ("url", "uri", "image_url")  # a payload only where it is a data URL
_PAYLOADS = ("data", "base64", "blob", "bytes", "file_data", "image", "audio", "video", *_URLS)
_HOLDERS = (
    "source",
    "resource",
    "file",
    "document",
    "input_audio",
    "inline_data",
    "image",
    "audio",
    "video",
    "image_url",
)
_UNKNOWN = "application/octet-stream"
_PLAIN = {"type", "block_type", "text"}  # all that most text blocks have
_OF_TEXT = _PLAIN | {"annotations", "citations", "cache_control", "logprobs", "_meta", "meta"}  # all that an API has
_NOTHING = object()
_SHORT = 200
_NO_BLANKS = dict.fromkeys(map(ord, " \t\r\n"))  # base64 may be in lines
_NO_LINES = dict.fromkeys(map(ord, "\r\n"))
_DEEPEST = 3  # where a block has its text or its payload


@record
class Payload:
    """What a block carries that is not text: its own bytes where they can be told, and what they are."""

    media_type: str
    data: bytes | None  # None if it should be base64 and is not
    as_text: int = 0  # bytes that its text could hold: blanks in it pass as they came


@record
class Note:
    """In the place of a block that was set aside, until the text of the others is settled: then `block` is there.

    It is a block, and no text: what is done with the text of a result neither joins it, nor cuts it, nor leaves it out.
    """

    block: object


def is_block(value: object) -> bool:
    if isinstance(value, str):
        return False
    return isinstance(value, Note) or text_of(value) is not None or isinstance(field(value, "type", "block_type"), str)


def is_known_block(value: object) -> bool:
    """Whether it is a block of an API by itself. A row of data may have a type and a text, too: it has other fields."""
    if isinstance(value, Note):
        return True
    kind = field(value, "type")
    if kind in TEXT_TYPES and isinstance(field(value, "text"), str):
        return _members(value).keys() <= _OF_TEXT
    return kind in KNOWN_TYPES


def text_of(block: object) -> str | None:
    """The text of a block that has some; None for images, links and whatever else there is."""
    if isinstance(block, str):
        return block
    kind = field(block, "type")
    holder = field(block, "resource") if kind == "resource" else block
    text = field(holder, "text") if kind is None or kind == "resource" or kind in TEXT_TYPES else None
    return text if isinstance(text, str) else None


def with_text(block: object, text: str) -> object:
    if isinstance(block, str):
        return text
    if field(block, "type") == "resource":
        return with_field(block, "resource", with_field(field(block, "resource"), "text", text))
    return with_field(block, "text", text)


def json_of(block: object) -> object:
    """The value of a block that holds nothing else, as Bedrock's do; None for all others."""
    fields = _members(block)
    return fields["json"] if isinstance(block, Mapping) and set(fields) == {"json"} else None


def payload_of(block: object) -> Payload | None:
    """What a block carries as base64, as a data URL or as bytes; None if it carries none of these."""
    media, found = _found(block)
    if not found or field(field(block, "source"), "type") == "text":
        return None
    if isinstance(found, bytes) and field(block, "block_type") is None:
        return Payload(media, found)
    text = found.decode("latin-1") if isinstance(found, bytes) else found  # LlamaIndex has base64 as bytes
    head, comma, rest = text.partition(",") if text.startswith("data:") else ("", "", text)
    media = head[5:].split(";")[0] or media if comma else media
    if comma and not head.endswith(";base64"):
        from urllib.parse import unquote_to_bytes  # noqa: PLC0415 - seldom

        return Payload(media, unquote_to_bytes(rest))
    is_text = media == _UNKNOWN or media.startswith("text/")  # it may well be: words are base64 but for their blanks
    try:
        data = base64.b64decode(rest.translate(_NO_LINES if is_text else _NO_BLANKS), validate=True)
        return Payload(media, data, len(rest) * 3 // 4)
    except (binascii.Error, ValueError):
        return None if is_text else Payload(media, None)


_BASE64 = {"blob", "data"}


def _strings(value: object) -> Iterator[tuple[str | None, str]]:
    """All that are in it, in order and however deep, each with the name that it has. A name itself has none, nor has
    what stands in one as base64.
    """
    left: list[tuple[str | None, object]] = [("", value)]
    while left:
        name, one = left.pop()
        if isinstance(one, str):
            yield name, one
        elif isinstance(one, dict):
            members = cast("dict[str, object]", one)
            for key, part in reversed(members.items()):
                left += ((key, part), (None, key))
            for key in _BASE64 & members.keys():  # a client may show it as the text that it is
                payload = payload_of({"mimeType": members.get("mimeType"), key: members[key]})
                left.append((None, payload.data.decode("utf-8", "ignore") if payload and payload.data else ""))
        elif isinstance(one, list):
            left += ((name, part) for part in reversed(cast("list[object]", one)))


def bears(value: object, marks: Mark) -> bool:
    """Whether the mark is in a value, names and all. It may be in several strings of it, too: a client shows all, or
    those of one name, one behind the other.
    """
    named: defaultdict[str, list[str]] = defaultdict(list)
    every = list[str]()
    for name, text in _strings(value):
        if marks.is_in(text):
            return True
        if name is not None:
            every.append(text)
            named[name].append(text)
    groups = [one for one in (every, *named.values()) if len(one) > 1]
    return any(marks.is_in("\n".join(one)) for one in groups)


def extra_fields(block: object) -> object:
    """What a block has beside its text or its payload, as plain data; None if that is its type and no more."""
    members = _members(block)
    if members.keys() <= _PLAIN:
        return None
    if text_of(block) is None:
        return _without(members, _found(block)[1], _DEEPEST)
    inner = field(block, "resource") if field(block, "type") == "resource" else None
    if inner is not None:
        members = {**members, "resource": {name: one for name, one in _members(inner).items() if name != "text"}}
    return _without({name: one for name, one in members.items() if name != "text"}, _NOTHING, _DEEPEST)


def told_fields(block: object) -> Mapping[str, object]:
    """The fields of a block that say something: not what its text or its payload says, nor which of them it is."""
    if (fields := extra_fields(block)) is None:
        return {}
    known = _PLAIN if text_of(block) is not None else {*_PLAIN, *_MEDIA} - {"text"}
    return _telling(cast("Mapping[str, object]", fields), known, _DEEPEST) if isinstance(fields, Mapping) else {}


def _telling(members: Mapping[str, object], known: Collection[str], depth: int) -> dict[str, object]:
    """The same without fields of these names, also of what holds a text or a payload, and without those that hold
    nothing.
    """
    told: dict[str, object] = {}
    for name, one in members.items():
        if depth > 1 and name in _HOLDERS and isinstance(one, Mapping):
            one = _telling(cast("Mapping[str, object]", one), known, depth - 1)  # noqa: PLW2901
        if name not in known and one is not None and not (isinstance(one, list | dict) and not one):
            told[name] = cast("object", one)
    return told


def have_own_fields(blocks: Iterable[object]) -> bool:
    """Whether one text block for all of these, with the fields of the first, would say less than they do."""
    fields = (told_fields(block) for block in blocks if text_of(block) is not None)
    first = next(fields, None)
    return any(one is not first and not _is_same(one, first) for one in fields)


def text_block(instead_of: object, text: str) -> object:
    """A text block for the place of another, of the same family."""
    kind = field(instead_of, "type")
    if isinstance(instead_of, Mapping):
        if kind is None:
            return {"text": text}  # Bedrock's have no type
        like = str(kind)
        family = like if like in TEXT_TYPES else "input_text" if like.startswith("input_") else "text"
        return {"type": family, "text": text}
    if type(instead_of).__name__ == "Part":
        return cast("Any", type(instead_of))(text=text)
    if type(instead_of).__name__ == "BinaryContent":
        return text
    # The module that made the block has the text block too; nothing is imported for it.
    module = sys.modules.get(type(instead_of).__module__)
    maker = getattr(module, "TextContent", None) or getattr(module, "TextBlock", None)
    return {"type": "text", "text": text} if maker is None else maker(type="text", text=text)


def _found(block: object) -> tuple[str, str | bytes]:
    """The media type that a block names, and the largest of what may be its payload."""
    media = _UNKNOWN
    found: bytes | str = b""
    for name, value in _leaves(block, depth=_DEEPEST):
        if name in _MEDIA and isinstance(value, str):
            media = value
        elif name in _PAYLOADS and isinstance(value, str | bytes) and len(value) > len(found):
            if name in _URLS and not (isinstance(value, str) and value.startswith("data:")):
                continue
            found = value
    return media, found


def _leaves(value: object, *, depth: int, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, str | bytes):
        yield name, value
    elif depth:
        for inner, member in _members(value).items():
            yield from _leaves(member, depth=depth - 1, name=inner)


def _without(value: object, taken: object, depth: int) -> object:
    members = _members(value) if depth else None
    if not members:
        return value
    return {name: _without(member, taken, depth - 1) for name, member in members.items() if member is not taken}


def _members(value: object) -> Mapping[str, object]:
    """The fields of a dictionary or an object; none where it has none of its own to tell."""
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value)
    if isinstance(value, str | bytes):
        return {}
    found: dict[str, object] = {}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {one.name: field(value, one.name) for one in dataclasses.fields(value)}  # one with slots has no more
    for more in (field(value, "__dict__"), field(value, "__pydantic_extra__")):
        found |= cast("dict[str, object]", more) if isinstance(more, dict) else {}
    return {name: member for name, member in found.items() if member is not None and not name.startswith("_")}


# What tools return, taken apart: the text that a model would read, what is not text, and how to put it back.
#
# Known are texts, lists of content blocks, and the envelopes that hold such a list: MCP's results, Anthropic's
# `tool_result`, OpenAI's tool messages and `function_call_output`, Bedrock's `toolResult`; as dictionaries or as
# objects. Whatever else there is, is a value and not taken apart: `take_apart` gives None. Nothing is ever changed in
# place.


# An envelope has these fields and no others: a JSON value that merely has a `content` is a value.
_ENVELOPE = frozenset(
    ("content", "isError", "is_error", "structuredContent", "structured_content", "_meta", "meta", "type", "role",
     "name", "id", "tool_use_id", "tool_call_id", "toolCallId", "toolName", "toolUseId", "call_id", "status", "output",
     "cache_control", "resultType", "details", "timestamp")
)  # fmt: skip

_BETWEEN = "\n"
_STARTS_TOLD = 20


@record
class Parts:
    """`blocks` is None if the result, or its field, is a plain text."""

    whole: object
    path: tuple[str, ...]  # from the result to the text or the blocks
    blocks: tuple[object, ...] | None
    text: str | None  # of all text blocks, joined by newlines; None if there is none
    is_error: bool = False
    alone: bool = False  # the result is one block, in no list

    @property
    def notes(self) -> tuple[str, ...]:
        """What joining has changed, for the facts."""
        texts = [text for text in map(text_of, self.blocks or ()) if text is not None]
        if len(texts) < 2:
            return ()
        starts, at = [0], 0
        for text in texts[: _STARTS_TOLD - 1]:
            at += byte_count(text) + len(_BETWEEN)
            starts.append(at)
        places = ", ".join(f"{start:,}" for start in starts[: len(texts)])
        more = "" if len(texts) <= _STARTS_TOLD else ", …"
        return (f"{len(texts):,} text blocks joined by newlines; they start at bytes {places}{more}",)

    def with_blocks(self, new: Mapping[int, Sequence[object]]) -> "Parts":
        """The same with others in the places of these blocks."""
        blocks = tuple(block for at, old in enumerate(self.blocks or ()) for block in new.get(at, (old,)))
        return replace(self, blocks=blocks, whole=self._rebuilt(blocks))

    def with_text(self, text: str) -> object:
        """The result with `text` for all of its text: in place of the first text block; the others are in it.

        Whatever is not text stays, and so does a `Note` of what was set aside. Fields stay if all blocks have the same.
        """
        if self.blocks is None:
            return self._rebuilt(text)
        placing = text_block if have_own_fields(self.blocks) else with_text
        kept: list[object] = []
        placed = False
        for block in self.blocks:
            if text_of(block) is None:
                kept.append(block)
            elif not placed:
                kept.append(placing(block, text))
                placed = True
        return self._rebuilt(tuple(kept))

    def with_note(self, text: str) -> "Parts":
        """The same with one more text: behind the last text block, or first where there is none."""
        content = _at(self.whole, self.path)
        if isinstance(content, str):
            return replace(self, whole=self._rebuilt(f"{content}{_BETWEEN}{text}"))
        blocks = list(self._shown())
        behind = next((at + 1 for at in range(len(blocks) - 1, -1, -1) if text_of(blocks[at]) is not None), 0)
        like = blocks[behind - 1] if behind else {"type": "text"} if isinstance(self.whole, Mapping) else self.whole
        return replace(self, whole=self._rebuilt((*blocks[:behind], text_block(like, text), *blocks[behind:])))

    def fields_left_out(self, *, placed: bool) -> list[dict[str, object]]:
        """What the text blocks that came have beside their texts, where `whole` has fewer of them by now.

        `placed`: with the bytes of their texts in that of all.
        """
        texts = [(text, block) for block in self.blocks or () if (text := text_of(block)) is not None]
        shown = sum(text_of(block) is not None for block in self._shown())
        if shown >= len(texts) or not have_own_fields(self.blocks or ()):
            return []
        told: list[dict[str, object]] = []
        start = 0
        for text, block in texts:
            end = start + byte_count(text)
            if fields := told_fields(block):
                told.append({**({"bytes": f"{start}:{end}"} if placed else {}), "fields": fields})
            start = end + len(_BETWEEN)
        return told

    def _shown(self) -> Sequence[object]:
        content = _at(self.whole, self.path)
        return cast("Sequence[object]", content) if isinstance(content, list | tuple) else (content,)

    def with_notes(self) -> "Parts":
        """The same with the block of each `Note` in its place."""
        blocks = self._shown()
        if not any(isinstance(one, Note) for one in blocks):
            return self
        return replace(self, whole=self._rebuilt(tuple(one.block if isinstance(one, Note) else one for one in blocks)))

    def _rebuilt(self, content: str | Sequence[object]) -> object:
        if self.alone and not isinstance(content, str):
            return content[0] if len(content) == 1 else list(content)

        def inside(value: object, path: tuple[str, ...]) -> object:
            if not path:
                as_list = not isinstance(content, str) and not isinstance(value, tuple)
                return list(content) if as_list else content
            return with_field(value, path[0], inside(field(value, path[0]), path[1:]))

        return inside(self.whole, self.path)


def take_apart(result: object) -> Parts | None:
    if isinstance(result, str):
        return Parts(result, (), None, result)
    path = path_to_content(result)
    if path is None:
        return Parts(result, (), (result,), text_of(result), alone=True) if _is_lone_block(result) else None
    content = _at(result, path)
    if isinstance(content, str):
        return Parts(result, path, None, content, is_error(result))
    blocks = tuple(cast("Sequence[object]", content))
    texts = [text for text in map(text_of, blocks) if text is not None]
    return Parts(result, path, blocks, _BETWEEN.join(texts) if texts else None, is_error(result))


# Which result it is, and whether it is an error; what it was called with; and what others say of it.
_WHICH = frozenset(
    ("type", "kind", "role", "name", "id", "tool_name", "tool_use_id", "tool_call_id", "toolCallId", "toolName",
     "toolUseId", "call_id", "timestamp", "part_kind", "raw_input", "isError", "is_error", "structuredContent",
     "structured_content")
)  # fmt: skip
_STATUS, _PLAIN_STATUS = ("status", "resultType", "result_type"), ("success", "completed", "complete", "error")


def fields_beside(parts: Parts, also: Iterable[str] = ()) -> dict[str, object]:
    """What a result holds beside its content and its structured twin: metadata, what only its framework reads.

    `also` are fields that an object may have without showing them. Nothing is asked whether it is true: a table of
    pandas raises.
    """
    if not parts.path:
        return {}
    found: dict[str, object] = {}
    members = {**_members(_at(parts.whole, parts.path[:-1])), **{name: field(parts.whole, name) for name in also}}
    for name, one in members.items():
        empty = one is None or (isinstance(one, bool | str | list | tuple | dict) and not one)
        repeated = _repeats(cast("object", one), parts.text or "") or (name in _STATUS and one in _PLAIN_STATUS)
        made = name == "data" and structured_of(parts.whole) is not None  # what a client of FastMCP makes of that
        if not (empty or repeated or made or name in _WHICH or name in parts.path):
            found[name] = cast("object", one)
    return found


# What most results are: looked at in a few steps, because nearly every call gives one of these.

_MAY_HOLD_CONTENT = ("content", "output", "toolResult", "blocks")
_PLAIN_RESULT = frozenset(("content", "isError", "is_error", "structuredContent"))
_PLAIN_BEDROCK = frozenset(("content", "status", "toolUseId"))
_BESIDE_TEXT = ("structuredContent", "_meta", "details", "isError", "is_error", "blocks")
_AROUND = 1000  # bytes around a text and its structured twin, whose characters have up to 6 each
_PLAIN_META = (None, {"fastmcp": {"wrap_result": True}})  # of nearly every result of FastMCP


def is_plain_value(output: object) -> bool:
    """Whether it is a dictionary that cannot be a result of an API: a value, told as its JSON."""
    if type(output) is not dict:
        return False
    return not any(name in cast("dict[object, object]", output) for name in _MAY_HOLD_CONTENT)


def plain_text(result: object) -> str | None:
    """All that a model reads of a result which is text and no more, and no error; None for what needs a closer look."""
    if type(result) is dict or type(result) is RawResult:
        table = cast("dict[str, object]", result)
        if table.keys() == _PLAIN_BEDROCK:
            return plain_content(table["content"]) if table["status"] == "success" else None
        if not table.keys() <= _PLAIN_RESULT or table.get("isError") or table.get("is_error") or len(table) < 2:
            return None
        text = plain_content(table.get("content"))
        if text is None or (isinstance(table, RawResult) and len(table.raw) > 12 * len(text) + _AROUND):
            return None  # a name that comes twice hides the first
        return text if "structuredContent" not in table or _is_repeated(text, table["structuredContent"]) else None
    table = cast("dict[str, object] | None", getattr(result, "__dict__", None))
    if table is None or "content" not in table or table.get("status") == "error":
        return None
    if table.get("type") != "tool" and "is_error" not in table and "isError" not in table:
        return None
    if any(map(table.get, _BESIDE_TEXT)) or table.get("meta") not in _PLAIN_META:
        return None
    text, structured = plain_content(table["content"]), table.get("structured_content")
    return text if structured is None or _is_repeated(text, structured) else None


def _is_repeated(text: str | None, structured: object) -> bool:
    return text is not None and wrapped_text(structured) == text


def plain_content(content: object) -> str | None:
    """The text of what is a text, or one block of text and nothing else; None for what needs a closer look."""
    if type(content) is str:
        return content
    if type(content) is not list or len(blocks := cast("list[object]", content)) != 1:
        return None
    block = blocks[0]
    table = cast("dict[str, object]", block if type(block) is dict else getattr(block, "__dict__", None) or {})
    text, kind = table.get("text"), table.get("type")  # blocks of Bedrock name no type
    if type(text) is not str or kind not in (None, "text"):
        return None
    return text if sum(one is not None for one in table.values()) == 1 + (kind is not None) else None


def is_error(result: object) -> bool:
    """Whether a result, or what holds one, says so: MCP and Anthropic by a flag, Bedrock by its status."""
    inner = field(result, "toolResult") if _names(result) is not None else None
    flags = (field(result, "isError"), field(result, "is_error"))
    return any(map(bool, flags)) or "error" in (field(result, "status"), field(inner, "status"))


def structured_of(result: object) -> object:
    """The structured twin of a result's text, or None."""
    if isinstance(result, str | bytes):
        return None
    return field(result, "structuredContent", "structured_content") if path_to_content(result) is not None else None


def wrapped_text(structured: object) -> str | None:
    """The text that structured content wraps, where that is all there is: `{"result": "…"}`, which servers write around
    any text. Another name says something, that it was rejected or is a password, and stays with it."""
    if isinstance(structured, Mapping) and len(table := cast("Mapping[object, object]", structured)) == 1:
        structured = table.get("result")
    return structured if isinstance(structured, str) else None


def path_to_content(result: object) -> tuple[str, ...] | None:
    if isinstance(result, list | tuple):
        blocks = cast("Sequence[object]", result)
        return () if _is_bare_content(blocks) else None
    names = _names(result)
    if names == {"toolResult"}:
        inner = field(result, "toolResult")
        return ("toolResult", "content") if _holds_content(field(inner, "content"), of_result=True) else None
    if names == {"result"}:  # what ADK makes of a tool's text
        return ("result",) if isinstance(field(result, "result"), str) else None
    if names is None and field(result, "kind") == "tool-return":  # Pydantic AI
        content = field(result, "return_value")
        is_list = isinstance(content, list | tuple)
        known = _is_bare_content(cast("Sequence[object]", content)) if is_list else isinstance(content, str)
        return ("return_value",) if known else None
    if not _is_envelope(result, names):
        return None
    name = "output" if field(result, "type") in _ITEMS else "content"
    if names is None and _is_made_of_blocks(result):
        name = "blocks"
    named = names is not None and ("toolUseId" in names or field(result, "type") == "tool_result")
    return (name,) if _holds_content(field(result, name), of_result=named) else None


def _is_bare_content(blocks: Sequence[object]) -> bool:
    """Records of any kind may have a `type`: of a list that nothing else names a result only blocks of the APIs count.

    Beside an image a text is one of them, whatever else it has.
    """
    if not all(isinstance(block, Note) or field(block, "type") in KNOWN_TYPES for block in blocks):
        return False
    known = [is_known_block(block) for block in blocks]
    if not all(known) and any(known):
        return any(payload_of(block) is not None for block in blocks if text_of(block) is None)
    return bool(known) and all(known)


def _is_lone_block(value: object) -> bool:
    """A content block that a tool returned without a list around it: of MCP and the model APIs, a `Part` of Gemini, a
    `BinaryContent` of Pydantic AI. A record that only looks like one carries neither text nor data.
    """
    if isinstance(value, str | bytes | list | tuple):
        return False
    of_framework = (type(value).__name__, field(value, "kind")) in (("Part", None), ("BinaryContent", "binary"))
    if of_framework or is_known_block(value):
        return text_of(value) is not None or payload_of(value) is not None
    return False


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = field(value, name)
    return value


def _names(result: object) -> set[str] | None:
    """The keys of a dictionary; None for anything else."""
    return set(cast("Mapping[str, object]", result)) if isinstance(result, Mapping) else None


def _is_envelope(result: object, names: set[str] | None) -> bool:
    if names is not None:
        marked = not names.isdisjoint(("type", "role", "isError", "is_error", "structuredContent", "_meta"))
        return names <= _ENVELOPE and (marked or not isinstance(field(result, "content"), str))
    # Of objects, those that say whether they are an error: a foreign class with a `content` may be anything.
    kind = field(result, "type", "role")
    says = any(hasattr(type(result), name) or name in _fields(result) for name in ("isError", "is_error"))
    return says or (isinstance(kind, str) and kind in ("tool", "tool_result", "toolResult", *_ITEMS))


def _is_made_of_blocks(result: object) -> bool:
    """LlamaIndex's: `content` is only the text of its blocks, and setting it drops those that are none."""
    fields = _fields(result)
    return "blocks" in fields and "content" not in fields


def _fields(value: object) -> Mapping[str, object]:
    found: object = getattr(type(value), "model_fields", None) or getattr(value, "__dict__", {})
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}


def _holds_content(content: object, *, of_result: bool) -> bool:
    """A text or a list of blocks. What is named a result may have blocks without a type, as Bedrock's are."""
    if isinstance(content, str):
        return True
    if not isinstance(content, list | tuple):
        return False
    blocks = cast("Sequence[object]", content)
    return all(is_block(block) or (of_result and isinstance(block, Mapping)) for block in blocks)


# The tool results in the messages of a transcript: what each holds, whose it is, and the message with another.
#
# Known are the messages of OpenAI (`role: tool`, `function_call_output`), of Anthropic (`tool_result` blocks), of
# Bedrock (`toolResult` blocks) and of pi and OpenClaw (`role: toolResult`), as dictionaries or objects; and
# `ToolResult`, our own.


_MESSAGES = ("tool", "function", "toolResult")
_ITEMS = ("function_call_output", "custom_tool_call_output")


@record
class Result:
    """One result: its text or blocks, and how to put another content in its place."""

    content: object
    tool: str
    call_id: str
    is_error: bool
    replaced: Callable[[object, object], object]  # the message and the new content


class CallsBefore:
    """Tool and arguments of the calls that messages made, by their ids: most results have only that. They are told in
    their order, since ids repeat: some servers count anew in each message, or give none.
    """

    def __init__(self) -> None:
        self._made: dict[str, deque[tuple[str, object]]] = {}

    def tell(self, message: object) -> None:
        made: dict[str, deque[tuple[str, object]]] = {}
        holders: list[object] = [message]
        for part in ("tool_calls", "calls", "content"):
            held = field(message, part)
            holders += cast("Sequence[object]", held) if isinstance(held, list | tuple) else ()
        for holder in holders:
            call = holder if isinstance(holder, str) else field(holder, "toolUse") or holder
            call_id, name = field(call, "call_id", "toolUseId", "toolCallId", "id"), field(call, "name", "toolName")
            function = call if name else field(call, "function", "custom")
            name = name or field(function, "name")
            if isinstance(call_id, str) and isinstance(name, str):
                made.setdefault(call_id, deque()).append((name, field(function, "arguments", "input", "args")))
        self._made |= made

    def answered(self, call_id: str) -> tuple[str, Any]:
        """The last call of this id; of several in one message the first that has no answer yet."""
        made = self._made.get(call_id)
        if made is None:
            return "", None
        tool, given = made.popleft() if len(made) > 1 else made[0]
        return tool, _arguments(given)


def _arguments(given: object) -> Any:
    """As a mapping, which most are: chat completions write them as JSON."""
    if isinstance(given, str):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(given)
    return given


def is_of_model(message: object) -> bool:
    """Whether the model has said it: then it has read all that is before it."""
    return isinstance(message, Assistant) or field(message, "role") in ("assistant", "model")


def results_in(message: object) -> Iterator[Result]:
    if isinstance(message, ToolResult):
        own = message
        yield Result(own.text, own.name, own.call_id, own.is_error, lambda old, new: with_field(old, "text", new))
        return
    kind = field(message, "role", "type")
    if kind in _MESSAGES or kind in _ITEMS:
        name = "content" if kind in _MESSAGES else "output"
        content = field(message, name)
        if _is_content(content):
            yield _result(content, message, lambda old, new: with_field(old, name, new))
        return
    content = field(message, "content")
    if isinstance(content, list | tuple):
        for at, block in enumerate(cast("Sequence[object]", content)):
            yield from _in_block(block, at)


def _in_block(block: object, at: int) -> Iterator[Result]:
    kind = field(block, "type")
    inner = None if isinstance(block, str) else field(block, "toolResult")
    holder = block if isinstance(kind, str) and kind.endswith("tool_result") else inner
    content = field(holder, "content") if holder is not None else None
    if not _is_content(content):
        return

    def replaced(message: object, new: object) -> object:
        before = cast("Sequence[object]", field(message, "content"))
        blocks = list(before)
        old = blocks[at]
        if inner is None:
            blocks[at] = with_field(old, "content", new)
        else:
            blocks[at] = with_field(old, "toolResult", with_field(field(old, "toolResult"), "content", new))
        return with_field(message, "content", tuple(blocks) if isinstance(before, tuple) else blocks)

    yield _result(content, holder, replaced)


def _result(content: object, holder: object, replaced: Callable[[object, object], object]) -> Result:
    name = str(field(holder, "name", "toolName") or "")
    call_id = field(holder, "tool_call_id", "call_id", "tool_use_id", "toolCallId", "toolUseId")
    return Result(content, name, str(call_id or ""), is_error(holder), replaced)


def _is_content(content: object) -> bool:
    return isinstance(content, str | list | tuple)
