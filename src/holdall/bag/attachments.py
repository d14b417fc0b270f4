"""What a result carries beside its text: images, blobs, other blocks, structured content. Each has a limit of its own.

What is over it is stored by itself, and a note with its type, size and handle stands in its place. All else stays where
it is, as the same object. Blocks that are no blobs have the same limit once more for all of them together.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdall.bag.core import Core
from holdall.bag.keeping import keep
from holdall.bag.taking import value_text
from holdall.policy.decide import Keep, Limits, decide
from holdall.store.sources import json_text
from holdall.text.json import same
from holdall.text.numbers import plural
from holdall.values.errors import NeverStored, StoreFault
from holdall.values.outputs import Facts, LargeJson, Origin
from holdall.wire.clamp import with_structured_content
from holdall.wire.notes import aside_note, blob_note, fields_named, part_note, structured_gone, structured_note
from holdall.wire.results import Note, Parts, fields_beside, json_of, payload_of, structured_of, text_block, text_of


@dataclass(frozen=True, slots=True)
class _Carried:
    """What a block carries that is no text, as it is stored where it is too large."""

    what: str
    data: bytes
    is_too_large: bool
    is_blob: bool = False


async def set_aside(core: Core, parts: Parts, origin: Origin, limits: Limits) -> tuple[Parts, tuple[Facts, ...]]:
    """The parts with notes in place of what is too large, and what was stored.

    The notes are no text yet, so that they outlast whatever becomes of the text: see `set_structure_aside`.
    """
    kept: list[Facts] = []
    new: dict[int, tuple[object, ...]] = {}

    async def put(at: int, block: object, what: str, data: bytes) -> None:
        facts, why = await _stored(core, data, origin, (part_note(what),))
        kept.extend([facts] if facts else [])
        note = blob_note(what, len(data), handle=core.handle_of(facts) if facts else "", why=why)
        new[at] = (*_text_alone(block), Note(text_block(block, note)))

    most = _most(core, limits)
    left = {True: most, False: most}  # of the fields of text blocks, and of other blocks
    crowds: dict[bool, list[tuple[int, object, bytes]]] = {True: [], False: []}
    for at, block in enumerate(parts.blocks or ()):
        carried = _carried(core, block, limits)
        if carried.is_too_large:
            await put(at, block, carried.what, carried.data)
        elif carried.data and not carried.is_blob:
            of_text = text_of(block) is not None
            left[of_text] -= len(carried.data)
            if left[of_text] < 0:
                crowds[of_text].append((at, block, carried.data))
    for of_text, crowd in crowds.items():
        new |= {at: _text_alone(block) for at, block, _ in crowd}
        for at, block, _ in crowd[:1]:
            what = fields_named(len(crowd)) if of_text else plural(len(crowd), "block")
            await put(at, block, what, b"[" + b", ".join(data for *_, data in crowd) + b"]")
    return (parts.with_blocks(new) if new else parts), tuple(kept)


async def set_structure_aside(
    core: Core, parts: Parts, origin: Origin, limits: Limits, twin: Facts | None
) -> tuple[Parts, tuple[Facts, ...]]:
    """The same for structured content. Where the kept text is the same JSON, it is stored once.

    This is the last step: the text has been settled, and the notes of what was set aside become blocks.
    """
    parts = parts.with_notes()
    structured = structured_of(parts.whole)
    if structured is None:
        return parts, ()
    if isinstance(structured, LargeJson) and not (limits.bytes is not None and len(structured.data) > limits.bytes):
        value = structured.value()
        if not isinstance(value, str):  # else nobody could read it, too deep for instance: it is kept
            structured = value
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

    said: list[str] = [] if parts.blocks is not None else [parts.text or ""]
    limits = core.limits_for(origin.tool)
    for block in parts.blocks or ():
        text, carried = text_of(block), _carried(core, block, limits)
        said += [text] if text is not None else []
        if carried.is_blob or (text is not None and carried.is_too_large):
            said.append(await noted(carried.what, carried.data))
        elif text is None:
            said.append(carried.data.decode())
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


def _carried(core: Core, block: object, limits: Limits) -> _Carried:
    most = _most(core, limits)
    beside = fields_beside(block)
    if text_of(block) is not None:
        data = b"" if beside is None else _json(beside)
        return _Carried(fields_named(), data, len(data) > most)
    value = json_of(block)
    if value is not None:  # it is read like a text
        data = _json(value)
        kept = len(data) > most or isinstance(decide(data.decode(), limits=limits, tokenizer=core.tokenizer), Keep)
        return _Carried("json", data, kept)
    payload = payload_of(block)
    if payload is None or len(_json(beside)) > most:
        data = _json(block)
        return _Carried("block", data, len(data) > most)
    too_large = len(payload.data) > core.settings.max_inline_blob_bytes
    return _Carried(payload.media_type, payload.data, too_large, is_blob=True)


def _text_alone(block: object) -> tuple[object, ...]:
    """What stays of a block whose fields are set aside: nothing of one that has no text."""
    text = text_of(block)
    return () if text is None else (text_block(block, text),)


def _most(core: Core, limits: Limits) -> int:
    return limits.bytes or core.settings.max_inline_blob_bytes


def _json(block: object) -> bytes:
    return value_text(block)[0].encode("utf-8", "replace")


def _is_same(text: str | None, structured: object) -> bool:
    if text is None:
        return False
    if isinstance(structured, LargeJson):
        return same.is_same(text, structured.data)
    try:
        return json.loads(text) == structured
    except (ValueError, RecursionError):
        return False
