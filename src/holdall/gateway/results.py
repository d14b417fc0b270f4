"""What a client gets of a tool's result: the result itself, or the notice in its place, in the form that MCP has.

Pure: the bag has decided and stored. Whatever else a result carried, unknown fields included, stays in it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from holdall.gateway import eras
from holdall.gateway.messages import Refusal
from holdall.text.escape import for_people
from holdall.upstream.large import only_text, plain
from holdall.values.answers import Answer
from holdall.values.facts import Facts
from holdall.values.taken import Inline, Kept, Running, Taken, Unkept
from holdall.wire.mcp_results import kept_note, link, running_note
from holdall.wire.notes import structured_gone

_ENVELOPE = ("content", "structuredContent", "isError")
_MOST_LINKS = 5


def for_the_bag(result: Mapping[str, Any]) -> object:
    """The part of a result that the bag knows: its blocks, its structured twin, whether it is an error."""
    if not isinstance(result.get("content"), list):
        return result
    envelope = {name: result[name] for name in _ENVELOPE if name in result}
    return result if len(envelope) == len(result) else {"isError": False, **envelope}


def for_the_client(taken: Taken, original: dict[str, Any] | None, *, revision: str, has_schema: bool) -> dict[str, Any]:
    """`original` is what the server answered; None where it did not."""
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


def refused(taken: Taken, refusal: Refusal) -> Refusal:
    """An error of the protocol whose message was too long: the notice stands in it. People read it, too."""
    if isinstance(taken, Inline):
        return refusal
    shown = _merged(None, taken.content, True)
    data = kept_note(taken.artifact) if isinstance(taken, Kept) else None
    return Refusal(refusal.code, for_people(str(shown["content"][0].get("text", ""))), data)


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
