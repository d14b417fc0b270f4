"""A conversation that a provider finds too long, made shorter without losing any of it.

First lossless: results that are too large are kept, and a notice stands in their place. Then the older half is kept as
one output, and what it was about stands in its place. Whoever calls it checks that each round made it smaller.
"""

import json
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace

from holdall.bag import Holdall
from holdall.bag.take import text_beside
from holdall.policy.decide import Limits
from holdall.values.chat import Message, Returned, Said, System, User
from holdall.values.errors import HoldallError, StoreFault
from holdall.wire.agent_texts import compacted
from holdall.wire.dialect import Cut
from holdall.wire.dialects.cutting import clamped

MOST_ROUNDS = 3
_SHARE = 0.3  # of the window; a result that is larger is too large for it
_BYTES, _LINES = 50 * 1024, 2000
_STAYS = 4  # of the newest messages, at least
_SUMMARY = (
    "Summarise this conversation so that its work can go on without it: what was asked, what was done, what was "
    "found (with handles, names and numbers), what was decided, what is still open."
)


async def put_notices(bag: Holdall, transcript: list[Message], window: int) -> int:
    """Keep the results that are too large and put in their place what the dialect has for that. How many that were."""
    done = 0
    for at, message in enumerate(transcript):
        if not isinstance(message, Returned) or not _too_large(bag, message.text, window):
            continue
        if len(shorter := await _in_place_of(bag, message, window)) < len(message.text):
            transcript[at] = replace(message, text=shorter)
            done += 1
    return done


async def _in_place_of(bag: Holdall, message: Returned, window: int) -> str:
    """The notice; in a dialect that has none, the beginning of the result, and the handle where the dialect stores."""
    handle, why = "", ""
    if bag.dialect.stores:
        try:
            facts = await bag.keep(message.text, tool=message.name, call_id=message.call_id)
        except StoreFault as fault:
            why = str(fault)
        else:
            handle = bag.handle_of(facts)
            if bag.dialect.shorten is None:
                return await bag.notice(facts.handle)
    shorten = bag.dialect.shorten or clamped
    most = Limits(bytes=min(_BYTES, int(_SHARE * window)), lines=_LINES)  # a token is hardly ever shorter than a byte
    return text_beside(
        shorten(Cut(message.text, most, most, room=True, handle=handle, why=why, tag=secrets.token_hex(4)))
    )


async def compact(
    bag: Holdall, transcript: list[Message], summarise: Callable[[str], Awaitable[str]] | None = None
) -> bool:
    """Keep the older half as one output and put what it was about in its place; False where there is too little."""
    start = next((at for at, one in enumerate(transcript) if not isinstance(one, System)), len(transcript))
    first = start + 1 if start < len(transcript) and isinstance(transcript[start], User) else start
    end = _border(transcript, first)
    if end - first < 2:
        return False
    old = transcript[first:end]
    text = "".join(json.dumps(_flat(message), ensure_ascii=False, default=str) + "\n" for message in old)
    facts = await bag.keep(text, tool="conversation")
    summary = ""
    if summarise is not None:
        try:
            summary = await summarise(facts.handle)
        except HoldallError:
            summary = ""  # the handle is enough to go on
    handle = bag.handle_of(facts)
    go_on = bag.dialect.go_on("read", handle, {})
    transcript[first:end] = [User(compacted(handle, len(old), summary, f"Next: {go_on}" if go_on else ""))]
    return True


def summary_by_model(bag: Holdall) -> Callable[[str], Awaitable[str]]:
    """The model reads what was left out, chunk by chunk: it fits, however long it is."""

    async def summarise(handle: str) -> str:
        found = await bag.extract(handle, _SUMMARY, mode="full-chunked")
        return found.answer if found.strategy != "truncate" else ""

    return summarise


def _too_large(bag: Holdall, text: str, window: int) -> bool:
    size = len(text.encode("utf-8", "replace"))
    return size > _BYTES or text.count("\n") > _LINES or (size > _SHARE * window and bag.count(text) > _SHARE * window)


def _border(transcript: list[Message], first: int) -> int:
    """About the middle, never between a call and what it returned."""
    last = len(transcript) - _STAYS
    end = min(last, first + max(2, (len(transcript) - first) // 2))
    while end > first and isinstance(transcript[end], Returned):
        end -= 1
    return end


def _flat(message: Message) -> dict[str, object]:
    match message:
        case System(text):
            return {"role": "system", "content": text}
        case User(text):
            return {"role": "user", "content": text}
        case Said(text, calls):
            made = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
            return {"role": "assistant", "content": text, "tool_calls": made}
        case Returned(call_id, name, text, is_error):
            return {"role": "tool", "tool_call_id": call_id, "name": name, "content": text, "is_error": is_error}
