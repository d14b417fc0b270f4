"""A kept output as the model would get it, for whoever keeps first and shows then: the command line.

It is an event like a taken output: what is shown of it is in the ledger, what is not counts as kept out.
"""

import time
from dataclasses import replace

from holdall.bag.core import Core
from holdall.bag.noticing import view_of
from holdall.policy.decide import Limits
from holdall.store.ids import new_tag
from holdall.values.outputs import Facts, Kept
from holdall.values.spans import Span
from holdall.verbs.glimpse import whole_text
from holdall.wire.clamp import MAX_BYTES
from holdall.wire.dialect import Cut
from holdall.wire.dialects.cutting import clamped
from holdall.wire.notes import blob_note

_MOST_WHOLE = 64 * 1024 * 1024  # of an output that is to be shortened; of a longer one only the beginning is read
_TRIES = 6


async def show_kept(core: Core, facts: Facts) -> Kept:
    """Whole where it fits, else its notice, or the part that the dialect shows instead."""
    started = time.perf_counter()
    limits = core.limits_for(facts.origin.tool)
    content = await core.on(facts.handle, lambda reader: whole_text(reader, limits, core.tokenizer))
    is_whole = content is not None
    spans: tuple[Span, ...] = (Span(0, facts.measure.bytes),)
    if content is None and core.dialect.shorten is not None:
        content, spans = await _shortened(core, facts, limits)
    elif content is None:
        view = await view_of(core, facts)
        content, spans = core.dialect.written(view)
    core.journal.record(
        "kept", handle=facts.handle, tool=facts.origin.tool, call_id=facts.origin.call_id,
        seconds=time.perf_counter() - started, reason="command", bytes=facts.measure.bytes,
        tokens=facts.measure.tokens, content_tokens=0 if is_whole else core.count(content), replaced=not is_whole,
        is_error=facts.origin.is_error, shown=[span.as_list() for span in spans],
    )  # fmt: skip
    return Kept(content, facts, is_error=facts.origin.is_error or facts.state == "failed")


async def _shortened(core: Core, facts: Facts, limits: Limits) -> tuple[str, tuple[Span, ...]]:
    """As `take` would have it, and the beginning that it shows.

    Its bytes are cut until its tokens are within their limit too, where there is one.
    """
    handle, size = core.handle_of(facts), facts.measure.bytes
    if not facts.measure.utf8:
        return blob_note("binary data", size, handle=handle), ()
    most = min(limits.bytes or MAX_BYTES, limits.chars or MAX_BYTES)
    shorten = core.dialect.shorten if core.dialect.shorten is not None and size <= _MOST_WHOLE else clamped
    read = size if size <= _MOST_WHOLE else most + 4  # the char that is cut in two is behind what is shown
    data = await core.on(facts.handle, lambda reader: reader.read(0, read))
    text, tag, content = data.decode("utf-8", "replace"), new_tag(), ""
    for _ in range(_TRIES):
        shown = replace(limits, bytes=most, chars=None, tokens=None)
        content = str(shorten(Cut(text, shown, limits, handle=handle, tag=tag)))
        counted = core.count(content)
        if limits.tokens is None or counted <= limits.tokens:
            break
        most = max(256, int(most * limits.tokens / counted * 0.95))
    return content, shared_beginning(text, content)


def shared_beginning(text: str, content: str) -> tuple[Span, ...]:
    """The bytes of `text` that stand at the beginning of what is shown of it."""
    least = min(len(text), len(content))
    shared = next((at for at, (one, other) in enumerate(zip(text, content, strict=False)) if one != other), least)
    return (Span(0, len(text[:shared].encode("utf-8", "replace"))),) if shared else ()
