"""What a result carries beside its text: images, blobs, other blocks, structured content. Each has a limit of its own.

What is over it is stored by itself, and a note with its type, size and handle stands in its place. All else stays where
it is, as the same object.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace

from holdall.bag.core import Core
from holdall.bag.keeping import keep
from holdall.policy.decide import Keep, decide
from holdall.policy.limits import Limits
from holdall.store.sources import json_text
from holdall.text import json_same
from holdall.values.errors import NeverStored, StoreFault
from holdall.values.facts import Facts, Origin
from holdall.values.large import LargeJson
from holdall.wire.blocks import payload_of, text_block, text_of
from holdall.wire.clamp import with_structured_content
from holdall.wire.notes import aside_note, blob_note, part_note, structured_gone, structured_note
from holdall.wire.parts import Parts, structured_of


async def set_aside(core: Core, parts: Parts, origin: Origin, limits: Limits) -> tuple[Parts, tuple[Facts, ...]]:
    """The parts with notes in place of what is too large, and what was stored."""
    kept: list[Facts] = []
    new: dict[int, object] = {}
    for at, block in parts.others():
        payload = payload_of(block)
        if payload is not None:
            media, data, most = payload.media_type, payload.data, core.settings.max_inline_blob_bytes
        else:
            media, data, most = "block", _json(block), limits.bytes or core.settings.max_inline_blob_bytes
        if len(data) > most:
            facts, why = await _stored(core, data, origin, (part_note(media),))
            kept += [facts] if facts else []
            note = blob_note(media, len(data), handle=core.handle_of(facts) if facts else "", why=why)
            new[at] = text_block(block, note)
    return (parts.with_blocks(new) if new else parts), tuple(kept)


async def set_structure_aside(
    core: Core, parts: Parts, origin: Origin, limits: Limits, twin: Facts | None
) -> tuple[Parts, tuple[Facts, ...]]:
    """The same for structured content. Where the kept text is the same JSON, it is stored once."""
    structured = structured_of(parts.whole)
    if structured is None:
        return parts, ()
    if isinstance(structured, LargeJson) and not (limits.bytes is not None and len(structured.data) > limits.bytes):
        structured = structured.value()
        parts = replace(parts, whole=with_structured_content(parts.whole, structured))
    if isinstance(structured, LargeJson):
        text: str | bytes = structured.data
    else:
        text = "".join(json_text(structured))
        if not isinstance(decide(text, limits=limits, tokenizer=core.tokenizer), Keep):
            return parts, ()
    if twin is not None and await asyncio.to_thread(_is_same, parts.text, structured):
        return replace(parts, whole=with_structured_content(parts.whole, structured_note(twin))), ()
    facts, why = await _stored(core, text, origin, (part_note("structured content"),))
    note = structured_note(facts) if facts else structured_gone(len(text), why)
    return replace(parts, whole=with_structured_content(parts.whole, note)), (facts,) if facts else ()


async def flattened(core: Core, parts: Parts, origin: Origin) -> str | bytes:
    """A result as the text that its handle will hold, with a note for each thing in it that is none; those are kept."""

    async def noted(media: str, data: bytes) -> str:
        facts, why = await _stored(core, data, origin, (part_note(media),))
        return aside_note(media, len(data), handle=core.handle_of(facts) if facts else "", why=why)

    said: list[str] = []
    for block in parts.blocks or ():
        text = text_of(block)
        payload = payload_of(block) if text is None else None
        if text is None:
            text = await noted(payload.media_type, payload.data) if payload else _json(block).decode()
        said.append(text)
    structured = structured_of(parts.whole)
    if structured is not None and not await asyncio.to_thread(_is_same, parts.text, structured):
        data = structured.data if isinstance(structured, LargeJson) else _json(structured)
        if not said:
            return data
        said.append(await noted("structured content", data))
    return "\n".join(said)


async def _stored(core: Core, data: object, origin: Origin, notes: Sequence[str]) -> tuple[Facts | None, str]:
    """The facts, or why there are none. The call's id leads to its text: what is set aside has none."""
    policy = core.policy_of(origin.tool)
    if policy.store == "never" or not core.dialect.stores:
        return None, str(NeverStored(origin.tool, by_dialect=not core.dialect.stores))
    try:
        return await keep(core, data, replace(origin, call_id=""), notes=notes), ""
    except (StoreFault, OSError) as fault:
        return None, str(fault)


def _json(block: object) -> bytes:
    try:
        return "".join(json_text(block)).encode("utf-8", "replace")
    except (ValueError, TypeError, RecursionError):
        return repr(block).encode("utf-8", "replace")


def _is_same(text: str | None, structured: object) -> bool:
    if text is None:
        return False
    if isinstance(structured, LargeJson):
        return json_same.is_same(text, structured.data)
    try:
        return json.loads(text) == structured
    except (ValueError, RecursionError):
        return False
