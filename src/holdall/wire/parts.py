"""What tools return, taken apart: the text that a model would read, what is not text, and how to put it back.

Known are texts, lists of content blocks, and the envelopes that hold such a list: MCP's results, Anthropic's
`tool_result`, OpenAI's tool messages and `function_call_output`, Bedrock's `toolResult`; as dictionaries or as objects.
Whatever else there is, is a value and not taken apart: `take_apart` gives None. Nothing is ever changed in place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from holdall.text.excerpt import byte_count
from holdall.wire.blocks import Note, is_block, is_known_block, text_of, with_text
from holdall.wire.clamp_fields import field, with_field

# An envelope has these fields and no others: a JSON value that merely has a `content` is a value.
_ENVELOPE = frozenset(
    ("content", "isError", "is_error", "structuredContent", "structured_content", "_meta", "meta", "type", "role",
     "name", "id", "tool_use_id", "tool_call_id", "toolCallId", "toolName", "toolUseId", "call_id", "status", "output",
     "cache_control", "resultType", "details", "timestamp")
)  # fmt: skip
_ITEMS = ("function_call_output", "custom_tool_call_output")
_BETWEEN = "\n"
_STARTS_TOLD = 20


@dataclass(frozen=True, slots=True)
class Parts:
    """`blocks` is None where the result, or its field, is a plain text."""

    whole: object
    path: tuple[str, ...]  # from the result to the text or the blocks
    blocks: tuple[object, ...] | None
    text: str | None  # of all text blocks, joined by newlines; None where there is none
    is_error: bool = False

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

        Whatever is not text stays, and so does a `Note` of what was set aside.
        """
        if self.blocks is None:
            return self._rebuilt(text)
        kept: list[object] = []
        placed = False
        for block in self.blocks:
            if text_of(block) is None:
                kept.append(block)
            elif not placed:
                kept.append(with_text(block, text))
                placed = True
        return self._rebuilt(tuple(kept))

    def with_notes(self) -> "Parts":
        """The same with the block of each `Note` in its place."""
        content = _at(self.whole, self.path)
        blocks = cast("Sequence[object]", content) if isinstance(content, list | tuple) else ()
        if not any(isinstance(one, Note) for one in blocks):
            return self
        return replace(self, whole=self._rebuilt(tuple(one.block if isinstance(one, Note) else one for one in blocks)))

    def _rebuilt(self, content: str | Sequence[object]) -> object:
        def inside(value: object, path: tuple[str, ...]) -> object:
            if not path:
                as_list = not isinstance(content, str) and not isinstance(value, tuple)
                return list(content) if as_list else content
            return with_field(value, path[0], inside(field(value, path[0]), path[1:]))

        return inside(self.whole, self.path)


def take_apart(result: object) -> Parts | None:
    if isinstance(result, str):
        return Parts(result, (), None, result)
    path = _path(result)
    if path is None:
        return None
    content = _at(result, path)
    if isinstance(content, str):
        return Parts(result, path, None, content, is_error(result))
    blocks = tuple(cast("Sequence[object]", content))
    texts = [text for text in map(text_of, blocks) if text is not None]
    return Parts(result, path, blocks, _BETWEEN.join(texts) if texts else None, is_error(result))


def is_error(result: object) -> bool:
    """Whether a result, or what holds one, says so: MCP and Anthropic by a flag, Bedrock by its status."""
    inner = field(result, "toolResult") if _names(result) is not None else None
    return bool(field(result, "isError", "is_error")) or "error" in (field(result, "status"), field(inner, "status"))


def structured_of(result: object) -> object:
    """The structured twin of a result's text, or None."""
    if isinstance(result, str | bytes):
        return None
    return field(result, "structuredContent", "structured_content") if _path(result) is not None else None


def _path(result: object) -> tuple[str, ...] | None:
    if isinstance(result, list | tuple):
        blocks = cast("Sequence[object]", result)
        # Records of any kind may have a `type`: of a bare list only the types of content blocks count.
        return () if blocks and all(is_known_block(block) for block in blocks) else None
    names = _names(result)
    if names == {"toolResult"}:
        inner = field(result, "toolResult")
        return ("toolResult", "content") if _is_content(field(inner, "content"), of_result=True) else None
    if not _is_envelope(result, names):
        return None
    name = "output" if field(result, "type") in _ITEMS else "content"
    named = names is not None and ("toolUseId" in names or field(result, "type") == "tool_result")
    return (name,) if _is_content(field(result, name), of_result=named) else None


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


def _fields(value: object) -> Mapping[str, object]:
    found: object = getattr(type(value), "model_fields", None) or getattr(value, "__dict__", {})
    return cast("Mapping[str, object]", found) if isinstance(found, Mapping) else {}


def _is_content(content: object, *, of_result: bool) -> bool:
    """A text or a list of blocks. What is named a result may have blocks without a type, as Bedrock's are."""
    if isinstance(content, str):
        return True
    if not isinstance(content, list | tuple):
        return False
    blocks = cast("Sequence[object]", content)
    return all(is_block(block) or (of_result and isinstance(block, Mapping)) for block in blocks)
