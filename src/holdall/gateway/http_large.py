"""An answer that is too large for an event of a stream, as one that fits.

Official clients of the handshake era read at most 1 MiB of an event, and an answer is one event. Where an answer comes
first it is plain JSON, of any size; this is for what comes after something else. What a link leads to can be read in
ranges; of a tool's result the largest parts are kept, and links lead to them. Anything else goes as it is.
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from holdall.bag import Holdall
from holdall.bag.take import keep
from holdall.gateway import eras, kept, messages
from holdall.gateway.messages import Message, table
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts, Origin
from holdall.wire.notes import blob_note, link, part_note, structured_note
from holdall.wire.results import payload_of, text_of

MOST_BYTES = 1_000_000
"""Of a message in an event; there are a few more around it."""

_RANGE = 128 * 1024  # of which every byte may be an escape of six
_STRUCTURED = "structuredContent"


def is_too_large(message: Message) -> bool:
    return len(messages.encode(message)) > MOST_BYTES


async def lighter(bag: Holdall, request: Message, answer: Message, *, revision: str) -> Message:
    """The answer to `request` in a form that fits; the same where there is none."""
    params, result = table(request.get("params")), table(answer.get("result"))
    if request.get("method") == "resources/read" and kept.is_ours(params.get("uri")) and result:
        refusal = kept.only_in_ranges(str(params["uri"]), _bytes_in(result), _RANGE, "an event of this stream")
        return messages.error(answer["id"], refusal)
    if request.get("method") == "tools/call" and isinstance(result.get("content"), list):
        name = str(params.get("name"))
        if bag.dialect.stores and bag.policy_of(name).store != "never":
            return {**answer, "result": await _with_links(bag, Origin(tool=name), result, revision)}
    return answer


def _bytes_in(result: Mapping[str, Any]) -> int:
    content = table(cast("list[object]", result["contents"])[0])
    text = content.get("text")
    return len(text.encode()) if isinstance(text, str) else len(str(content.get("blob"))) // 4 * 3


async def _with_links(bag: Holdall, origin: Origin, result: dict[str, Any], revision: str) -> dict[str, Any]:
    """With notes in place of as many of the largest parts as it takes."""
    blocks: list[Any] = list(result["content"])
    sizes = {at: _size(block) for at, block in enumerate(blocks)} | {-1: _size(result.get(_STRUCTURED))}
    over = _size(result) - MOST_BYTES
    links: list[Facts] = []
    for at in sorted(sizes, key=lambda one: sizes[one], reverse=True):
        if over <= 0:
            break
        what, data = _carried(result[_STRUCTURED] if at < 0 else blocks[at], is_block=at >= 0)
        try:
            facts = await keep(bag, data, origin, notes=(part_note(what),))
        except (StoreFault, OSError):  # then it goes as it is, and many clients can read it
            return result
        links.append(facts)
        over -= sizes[at]
        if at < 0:
            result = {**result, _STRUCTURED: structured_note(facts)}
        else:
            blocks[at] = {"type": "text", "text": blob_note(what, len(data), handle=bag.handle_of(facts))}
    shown = [link(one) for one in links] if eras.knows_links(revision) else []
    return {**result, "content": [*blocks, *shown]}


def _carried(part: object, *, is_block: bool) -> tuple[str, bytes]:
    if not is_block:
        return "structured content", _json(part)
    if (text := text_of(part)) is not None:
        return "text", text.encode("utf-8", "replace")
    payload = payload_of(part)
    return ("block", _json(part)) if payload is None else (payload.media_type, payload.data)


def _size(value: object) -> int:
    return len(_json(value))


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
