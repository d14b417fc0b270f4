"""What becomes of a measured output: shown as it came, kept with a notice in its place, or shown in part.

`settle` is the only way to a `Taken`. Where the disk refuses, the model still gets what can be shown, with the reason.
"""

import time
from dataclasses import replace

from holdall.bag.attachments import set_aside, set_structure_aside
from holdall.bag.core import Core
from holdall.bag.keeping import keep
from holdall.bag.noticing import view_at_once, view_of
from holdall.bag.showing import shared_beginning
from holdall.bag.streams import drained
from holdall.bag.taking import Prepared, text_of, tokens_of, with_text
from holdall.policy.decide import Decision, Fits, Keep, decide
from holdall.store.ids import new_tag
from holdall.values.errors import HoldallError, NeverStored, StoreFault
from holdall.values.outputs import Facts, Inline, Kept, Origin, Taken, Unkept
from holdall.wire.clamp import MAX_BYTES, clamp_text
from holdall.wire.dialect import Cut, View
from holdall.wire.dialects.cutting import clamped
from holdall.wire.notes import blob_note
from holdall.wire.results import take_apart

_TRACEBACK_BYTES = 64 * 1024
_TRIES = 6  # each is a little under the proportional share, so two or three are enough


async def settle(core: Core, prepared: Prepared, *, room: int | None = None, notice_room: int | None = None) -> Taken:
    """`room` is what this output may take of its turn; `notice_room` what a notice in its place may."""
    prepared = _with_short_traceback(prepared)
    aside: tuple[Facts, ...] = ()
    if prepared.parts is not None:
        parts, aside = await set_aside(core, prepared.parts, prepared.origin, prepared.limits)
        if parts is not prepared.parts:
            prepared = replace(prepared, parts=parts, output=parts.whole)
    decision = _with_room(core, prepared, room)
    if isinstance(decision, Fits) and prepared.fault is not None:
        decision = Keep("bytes")  # it is only the beginning of what there was
    if isinstance(decision, Fits):
        return await _shown(core, prepared, aside)
    policy = core.policy_of(prepared.origin.tool)
    if policy.store == "never" or not core.dialect.stores:
        fault = NeverStored(prepared.origin.tool, by_dialect=not core.dialect.stores)
        total = await drained(prepared.source) if prepared.is_part else None
        return await _unkept(core, prepared, fault, decision, room, total)
    if prepared.stored is not None and core.dialect.shorten is not None:
        prepared = await _with_beginning(core, prepared, prepared.stored)
    views: list[View | None] = []

    def look(facts: Facts) -> None:
        if core.dialect.shorten is None:
            views.append(view_at_once(core, facts, notice_room))

    try:
        if prepared.fault is not None:
            raise prepared.fault
        facts = prepared.stored or await keep(core, prepared.source, prepared.origin, notes=prepared.notes, then=look)
    except (StoreFault, OSError) as problem:
        fault = problem if isinstance(problem, HoldallError) else StoreFault(str(problem))
        return await _unkept(core, prepared, fault, decision, room, prepared.total)
    view = next(iter(views), None) or (None if core.dialect.shorten else await view_of(core, facts, notice_room))
    return await _noticed(core, prepared, facts, aside, decision, view)


def quickly(core: Core, output: object, origin: Origin) -> Inline | None:
    """The common case by the shortest way: a small text of a tool that is like all others. None for anything else."""
    if type(output) is not str or origin.tool in core.settings.tools:
        return None
    if not isinstance(decide(output, limits=core.limits_for(""), tokenizer=core.tokenizer), Fits):
        return None
    core.journal.shown_whole(origin.tool, origin.call_id, len(output))
    return Inline(output)


def _with_room(core: Core, prepared: Prepared, room: int | None) -> Decision:
    if isinstance(prepared.decision, Keep) or room is None or not core.dialect.counts_room:
        return prepared.decision
    return Keep("room") if tokens_of(core, prepared) > room else prepared.decision


async def _shown(core: Core, prepared: Prepared, aside: tuple[Facts, ...]) -> Taken:
    origin = prepared.origin
    if prepared.parts is not None:
        parts, more = await set_structure_aside(core, prepared.parts, origin, prepared.limits, None)
        if parts is not prepared.parts:
            prepared, aside = replace(prepared, output=parts.whole), (*aside, *more)
    if core.policy_of(origin.tool).store == "always":
        try:
            facts = await keep(core, prepared.source, origin, notes=prepared.notes)
        except (StoreFault, OSError) as problem:
            core.journal.record("unkept", tool=origin.tool, call_id=origin.call_id, why=str(problem), shown_whole=True)
        else:
            whole = [[0, facts.measure.bytes]]
            _record_kept(core, prepared, facts, reason="always", content_tokens=0, replaced=False, shown=whole)
            return Kept(prepared.output, facts, aside, origin.is_error)
    for facts in aside:
        _record_kept(core, prepared, facts, reason="attachment", content_tokens=0, replaced=True)
    if aside:
        return Kept(prepared.output, aside[0], aside[1:], origin.is_error)
    core.journal.record(
        "inline", tool=origin.tool, call_id=origin.call_id, seconds=_since(prepared), chars=len(prepared.text or ""),
        is_error=origin.is_error,
    )  # fmt: skip
    return Inline(prepared.output, origin.is_error, origin.traceback)


async def _noticed(
    core: Core, prepared: Prepared, facts: Facts, aside: tuple[Facts, ...], decision: Keep, view: View | None
) -> Taken:
    handle = core.handle_of(facts)
    if view is None:
        if prepared.text is None:
            content: object = blob_note("binary data", facts.measure.bytes, handle=handle)
        else:
            shorten = core.dialect.shorten or clamped
            content = shorten(_cut(core, prepared, decision, None, handle=handle))
        text = text_of(content)
        shown = shared_beginning(prepared.text or "", text)
    else:
        text, shown = core.dialect.written(view)
        content = prepared.parts.with_text(text) if prepared.parts is not None else text
    if prepared.parts is not None:
        parts = replace(prepared.parts, whole=content)
        parts, more = await set_structure_aside(core, parts, prepared.origin, prepared.limits, facts)
        content, aside = parts.whole, (*aside, *more)
    spans = [span.as_list() for span in shown]
    _record_kept(
        core, prepared, facts, reason=decision.reason, content_tokens=core.count(text), replaced=True, shown=spans
    )
    for other in aside:
        _record_kept(core, prepared, other, reason="attachment", content_tokens=0, replaced=True)
    return Kept(content, facts, aside, prepared.origin.is_error or facts.state == "failed")


async def _unkept(
    core: Core, prepared: Prepared, fault: HoldallError, decision: Keep, room: int | None, total: int | None = None
) -> Unkept:
    prepared = with_text(prepared)
    origin = prepared.origin
    if prepared.text is None:
        content: object = blob_note("binary data", tokens_of(core, prepared), why=str(fault))
    else:
        # Of a stream only the beginning is at hand: there are no two ends to show.
        shorten = clamped if _is_incomplete(prepared) else core.dialect.shorten or clamped
        content = shorten(replace(_cut(core, prepared, decision, room, why=str(fault)), total_bytes=total))
    if prepared.parts is not None:
        parts = replace(prepared.parts, whole=content)
        parts, aside = await set_structure_aside(core, parts, origin, prepared.limits, None)
        content = parts.whole
        for facts in aside:
            _record_kept(core, prepared, facts, reason="attachment", content_tokens=0, replaced=True)
    core.journal.record(
        "unkept", tool=origin.tool, call_id=origin.call_id, seconds=_since(prepared), why=str(fault),
        fault=type(fault).__name__, is_error=origin.is_error,
    )  # fmt: skip
    return Unkept(content, fault, origin.is_error, origin.traceback)


def _cut(core: Core, prepared: Prepared, decision: Keep, room: int | None, *, handle: str = "", why: str = "") -> Cut:
    """What may be shown of it: in bytes and lines, even where its tokens or the room of its turn are what is over."""
    limits, text = prepared.limits, prepared.text or ""
    result = prepared.output if take_apart(prepared.output) is not None else text
    most = min(limits.bytes or MAX_BYTES, limits.chars or MAX_BYTES)
    tokens = min((n for n in (limits.tokens, room) if n is not None), default=None)
    if tokens is not None and decision.reason in ("tokens", "room", "bytes"):
        most = _bytes_for(core, text, most, tokens)
    shown = replace(limits, bytes=most, chars=None, tokens=None)
    incomplete = _is_incomplete(prepared)
    return Cut(result, shown, limits, decision.reason == "room", handle, why, new_tag(), incomplete=incomplete)


def _is_incomplete(prepared: Prepared) -> bool:
    return prepared.is_part or prepared.fault is not None


async def _with_beginning(core: Core, prepared: Prepared, facts: Facts) -> Prepared:
    """With as much of what is in the store already as a dialect shows that shows the beginning."""
    most = min(prepared.limits.bytes or MAX_BYTES, facts.measure.bytes)
    head = await core.on(facts.handle, lambda reader: reader.read(0, most))
    text = head.decode("utf-8", "replace")
    return replace(prepared, output=text, text=text, is_part=most < facts.measure.bytes)


def _bytes_for(core: Core, text: str, most: int, tokens: int) -> int:
    for _ in range(_TRIES):
        counted = core.count(clamp_text(text, max_bytes=most, max_lines=None, suffix="").text)
        if counted <= tokens:
            break
        most = max(256, int(most * tokens / counted * 0.95))
    return most


def _record_kept(
    core: Core, prepared: Prepared, facts: Facts, *, reason: str, content_tokens: int, replaced: bool, **more: object
) -> None:
    core.journal.record(
        "kept", handle=facts.handle, tool=prepared.origin.tool, call_id=prepared.origin.call_id,
        seconds=_since(prepared), reason=reason, bytes=facts.measure.bytes, tokens=facts.measure.tokens,
        content_tokens=content_tokens, replaced=replaced, is_error=prepared.origin.is_error, **more,
    )  # fmt: skip


def _since(prepared: Prepared) -> float:
    return time.perf_counter() - prepared.started


def _with_short_traceback(prepared: Prepared) -> Prepared:
    trace = prepared.origin.traceback
    if len(trace) <= _TRACEBACK_BYTES:
        return prepared
    short = clamp_text(trace, max_bytes=_TRACEBACK_BYTES, max_lines=None).text
    return replace(prepared, origin=replace(prepared.origin, traceback=short))
