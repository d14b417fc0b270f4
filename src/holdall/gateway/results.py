"""What a client gets of a tool's result: the result itself, or the notice in its place, in the form that MCP has.

Pure: the bag has decided and stored. Whatever else a result carried, unknown fields included, stays in it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from holdall.gateway import eras
from holdall.gateway.messages import Refusal
from holdall.text.escape import for_people
from holdall.upstream.large import only_text, plain
from holdall.values.answers import Answer
from holdall.values.outputs import Facts, Inline, Kept, Running, Taken, Unkept
from holdall.wire.notes import blob_note, kept_note, link, running_note, structured_gone

_ENVELOPE = ("content", "structuredContent", "isError")
_MOST_LINKS = 5


def for_the_bag(result: Mapping[str, Any]) -> object:
    """The part of a result that the bag knows: its blocks, its structured twin, whether it is an error."""
    if not isinstance(result.get("content"), list):
        return plain(result)
    envelope = {name: result[name] for name in _ENVELOPE if name in result}
    return result if len(envelope) == len(result) else {"isError": False, **envelope}


def for_the_client(
    taken: Taken,
    original: dict[str, Any] | None,
    *,
    revision: str,
    has_schema: bool,
    handle_of: Callable[[Facts], str] = lambda facts: facts.handle,
) -> dict[str, Any]:
    """`original` is what the server answered; None where it did not. `handle_of` is how handles are written."""
    match taken:
        case Inline(content=content):
            whole = original is not None and not isinstance(content, str)
            return plain(original) if whole else text(content, taken.is_error)
        case Running(content=content, handle=handle):
            more = {"structuredContent": running_note(handle)} if has_schema else {}
            return {**text(content), **more}
        case Kept(content=content, artifact=facts, others=others):
            result = _merged(original, content, taken.is_error)
            wanted = has_schema or "structuredContent" in (original or {})
            if wanted and not taken.is_error and "structuredContent" not in result:
                result["structuredContent"] = kept_note(facts)
            result["content"] = _with_note(result, (facts, *others), handle_of)
            if eras.knows_links(revision):
                result["content"] = [*result["content"], *_links(facts, others)]
            return result
        case Unkept(content=content, fault=fault):
            result = _merged(original, content, taken.is_error)
            if (large := only_text(original or {})) is not None and "structuredContent" in (original or {}):
                result["structuredContent"] = structured_gone(len(large.data), str(fault))
            return result


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


def refused(taken: Taken, refusal: Refusal) -> Refusal:
    """An error of the protocol that was too long: the notice is its message. People read it, too."""
    if isinstance(taken, Inline):
        return refusal
    blocks = cast("list[dict[str, Any]]", _merged(None, taken.content, True)["content"])
    shown = "\n".join(str(block["text"]) for block in blocks if "text" in block)
    data = kept_note(taken.artifact) if isinstance(taken, Kept) else None
    if isinstance(taken, Unkept) and refusal.data is not None:
        data = structured_gone(len(data_of(refusal).encode("utf-8", "replace")), str(taken.fault))
    return Refusal(refusal.code, for_people(shown), data)


def _with_note(
    result: Mapping[str, Any], kept: Sequence[Facts], handle_of: Callable[[Facts], str]
) -> list[dict[str, Any]]:
    """The blocks. Who shows only text is told of structured content that is kept by itself."""
    blocks = cast("list[dict[str, Any]]", result["content"])
    places = [at for at, block in enumerate(blocks) if isinstance(block.get("text"), str)]
    aside = next((one for one in kept if kept_note(one) == result.get("structuredContent")), None)
    if aside is None or any(handle_of(aside) in blocks[at]["text"] for at in places):
        return blocks
    note = blob_note("structured content", aside.measure.bytes, handle=handle_of(aside))
    behind = places[-1] + 1 if places else 0
    return [*blocks[:behind], {"type": "text", "text": note}, *blocks[behind:]]


def _merged(original: dict[str, Any] | None, content: object, is_error: bool) -> dict[str, Any]:
    if original is not None and only_text(original) is not None:
        if isinstance(content, bytes):
            return plain(original)  # shown as it is
        block = {**original["content"][0], "text": str(content)}
        shown = {name: value for name, value in original.items() if name != "structuredContent"}  # which is the same
        return {**shown, "content": [block]}
    shown = dict(cast("Mapping[str, Any]", content)) if isinstance(content, Mapping) else {}
    if not isinstance(shown.get("content"), list):
        return text(cast("object", content), is_error)
    if original is None:
        return shown
    # In the order of the original, and with nothing that we added for the bag.
    return {name: shown.get(name, value) for name, value in original.items()}


def _links(facts: Facts, others: Sequence[Facts]) -> list[dict[str, Any]]:
    return [link(one) for one in (facts, *others)[:_MOST_LINKS]]
