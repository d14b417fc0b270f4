"""A conversation that a provider finds too long: recognised, and made shorter without losing any of it."""

import itertools
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from holdall.bag import Holdall
from holdall.bag.take import notice_of, record_replaced, shared_beginning, shorten_by, value_as_text
from holdall.policy.decide import Limits
from holdall.policy.overflow import Overflow, in_one_line, overflow_in, words_in
from holdall.store.ids import new_fence_tag
from holdall.values.chat import Assistant, Message, System, ToolResult, User
from holdall.values.errors import HoldallError, ModelOverflow, NeverStored, StoreFault
from holdall.values.outputs import Facts
from holdall.values.spans import Span
from holdall.wire.agent_texts import compacted, compacted_in
from holdall.wire.answers import tag_for
from holdall.wire.dialect import Cut

# Whether an exception means that the request was too long for the model, any library raised it.
#
# It looks at what errors of HTTP clients and of the providers' libraries carry (a status, a code, a body, a response),
# at their causes and at the members of groups, and imports none of these libraries. What the words mean is decided by
# `policy.overflow`. Nothing here is raised, changed or asked again.


_MAX_ERRORS = 32  # of a chain
_MAX_VALUES = 200  # of a body
_DEEPEST = 8
_LONGEST = 16 * 1024
_STATUS = ("status_code", "status", "http_status", "code")
_CODE = ("code", "type", "error_code", "provider_error_code", "provider_error_type", "reason")
_WORDS = ("message", "body", "details", "detail", "error", "response")
_TEXTS = ("message", "Message", "detail", "error", "Error")  # where a body has its sentence


def is_overflow(error: BaseException) -> Overflow | None:
    """What it says of the length; None if it is about something else. A cancellation is never one."""
    if not isinstance(error, Exception):
        return None
    for one in itertools.islice(_chain(error), _MAX_ERRORS):
        if found := _judged(one):
            return found
    return None


def _judged(error: BaseException) -> Overflow | None:
    if isinstance(error, ModelOverflow):
        return overflow_in(str(error)) or Overflow("", in_one_line(str(error)))
    carried = [value for name in _WORDS if (value := _attribute(error, name)) is not None]
    values = list(itertools.islice(itertools.chain.from_iterable(map(_flat, carried)), _MAX_VALUES))
    said = "\n".join([_text_of(error)[:_LONGEST], *(f"{name}: {value}" for name, value in values)])
    codes = [*_codes(error), *(value for name, value in values if name.lower() in _CODE)]
    found = overflow_in(said, status=_status(error), codes=codes)
    if found is None:
        return None
    sentences = [text for value in carried if (text := _sentence(value))] or [_text_of(error)]
    # A value of a body before the error's own message: some versions of a library put the whole body into that.
    others = [value for _, value in sorted(values, key=lambda one: not one[0])]
    shown = next((text for text in (*sentences, *others) if words_in(text)), sentences[0])
    return replace(found, message=in_one_line(shown) or found.message)


# What an error carries


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, the members of a group, and what each came from, every one once."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if before is not None:
            waiting.append(before)


def _status(error: BaseException) -> int | None:
    response = _attribute(error, "response")
    for holder in (error, response):
        for name in _STATUS:
            value = _attribute(holder, name)
            if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
                return value
    metadata = _member(_member(response, "ResponseMetadata"), "HTTPStatusCode")  # AWS
    return metadata if isinstance(metadata, int) else None


def _codes(error: BaseException) -> list[str]:
    names = [one.__name__ for one in type(error).__mro__]
    given = (_attribute(error, name) for name in _CODE)
    return [*(value for value in given if isinstance(value, str) and value), *names]


def _sentence(body: object, depth: int = 0) -> str:
    """What the provider says, without what is around it; empty if the body is not an object with such a sentence."""
    inner = [value for name in _TEXTS if (value := _member(body, name)) is not None] if depth < _DEEPEST else []
    texts = (value if isinstance(value, str) else _sentence(value, depth + 1) for value in inner)
    return next((text for text in texts if text), "")


def _flat(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Every text and number of a body with its name. Of a response, its text; of all other objects, nothing."""
    if depth > _DEEPEST or value is None:
        return
    if isinstance(value, str | int | float):
        yield name, str(value)[:_LONGEST]
    elif isinstance(value, bytes | bytearray):
        yield name, bytes(value[:_LONGEST]).decode("utf-8", "replace")
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            yield from _flat(inner, str(key)[:100], depth + 1)
    elif isinstance(value, Sequence):
        for inner in cast("Sequence[object]", value):
            yield from _flat(inner, name, depth + 1)
    elif depth == 0 and isinstance(text := _attribute(value, "text"), str):
        yield name, text[:_LONGEST]


def _member(value: object, name: str) -> object:
    return cast("Mapping[str, object]", value).get(name) if isinstance(value, Mapping) else None


def _attribute(holder: object, name: str) -> Any:
    """None if it is not there or cannot be read: the body of a stream that nobody has read raises."""
    try:
        return getattr(holder, name, None)
    except Exception:
        return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # str() of an error may raise; ignore that here
        return ""


# First lossless: results that are too large are kept, and a notice stands in their place. Then the older half is kept
# as one output, and what it was about stands in its place. The caller checks that each round made it smaller.


MAX_ROUNDS = 3
_SHARE = 0.3  # of the window; a result that is larger is too large for it
_BYTES, _LINES = 50 * 1024, 2000
_LEAST = 1024  # bytes of a result that a dialect without notices shows
_NEWEST_KEPT = 4  # of the newest messages, at least
_SUMMARY = (
    "Summarise this conversation so that its work can go on without it: what was asked, what was done, what was "
    "found (with handles, names and numbers), what was decided, what is still open."
)


async def replace_large_results(bag: Holdall, transcript: list[Message], window: int) -> int:
    """Keep the results that are too large and put in their place what the dialect has for that. How many that were."""
    most = min(_BYTES, int(_SHARE * window))  # a token is hardly ever shorter than a byte
    large = [
        at
        for at, message in enumerate(transcript)
        if isinstance(message, ToolResult) and _too_large(bag, message.text, window)
    ]
    return sum([await _replaced(bag, transcript, at, most) > 0 for at in large])


async def replace_largest_results(bag: Holdall, transcript: list[Message], excess: int) -> int:
    """The same for results that are under these limits, where the provider says that it is too long all the same: the
    largest first, until there are about `excess` tokens less. Notices and answers of our own stay.
    """
    done, least, mark = 0, 2 * bag.settings.notice_max_tokens, bag.core.signature
    sizes = [
        (bag.core.count(one.text), at)
        for at, one in enumerate(transcript)
        if isinstance(one, ToolResult) and not bag.owns(one.name) and not (mark and mark in one.text)
    ]
    for size, at in sorted(sizes, reverse=True):
        if excess <= 0 or size <= least:
            break
        gained = await _replaced(bag, transcript, at, max(_LEAST, len(transcript[at].text) // 4))
        excess -= gained
        done += gained > 0
    return done


async def _replaced(bag: Holdall, transcript: list[Message], at: int, most: int) -> int:
    """Replace one result; how many tokens less there are. `most` bytes are shown by a dialect that has no notices."""
    message = cast("ToolResult", transcript[at])
    members = _members(message)
    least = 2 * bag.settings.notice_max_tokens if members else 0
    told, mark = list[str](), bag.core.signature
    for one in members or [message]:
        told.append(one.text)
        is_ours = bool(members) and (bag.owns(one.name) or (mark and mark in one.text))
        if is_ours or bag.core.count(one.text) <= least:
            continue
        facts, shorter, shown = await _replacement_for(bag, one, max(_LEAST, most // len(members or "1")))
        if len(shorter) >= len(one.text):
            continue
        told[-1] = shorter
        if facts is not None:
            seen = None if at < _last_answer(transcript) else shown
            record_replaced(bag.core, facts, shorter, seen, reason="recovery")
    text = _with_results(message, told) if members else told[0]
    if len(text) >= len(message.text):
        return 0
    transcript[at] = replace(message, text=text)
    return max(1, bag.core.count(message.text) - bag.core.count(text))


def _members(message: ToolResult) -> list[ToolResult]:
    """The results in the envelope of a batch, which is never stored itself; none if it is not one."""
    shown, saved = _envelope(message.text), _envelope(message.text_to_save)
    if message.name != "batch" or len(shown) != len(saved):
        return []
    return [
        ToolResult(
            f"{message.call_id}.{number}", one["tool"], one["result"], bool(one.get("is_error")),
            None if one == kept else kept["result"],
        )
        for number, (one, kept) in enumerate(zip(shown, saved, strict=True))
    ]  # fmt: skip


def _envelope(text: str) -> list[dict[str, Any]]:
    try:
        parts: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = cast("list[Any]", parts) if isinstance(parts, list) else []
    is_one = all(isinstance(_member(one, "tool"), str) and isinstance(_member(one, "result"), str) for one in found)
    return found if is_one else []


def _with_results(message: ToolResult, results: Sequence[str]) -> str:
    parts = zip(_envelope(message.text), results, strict=True)
    return json.dumps([{**one, "result": result} for one, result in parts], ensure_ascii=False)


async def _replacement_for(
    bag: Holdall, message: ToolResult, most_bytes: int
) -> tuple[Facts | None, str, tuple[Span, ...]]:
    """The notice; in a dialect that has none, the beginning of the result, and the handle where the dialect stores.
    With the facts of what was stored, and the bytes that the text shows of it.
    """
    facts, handle, why = None, "", ""
    if bag.dialect.shorten is not None and message.text_to_save != message.text:
        why = str(NeverStored(message.name))  # a part of it, and who reads the handle would miss that
    elif bag.dialect.stores:
        try:
            facts = await bag.keep(message.text_to_save, tool=message.name, call_id=message.call_id)
        except StoreFault as fault:
            why = str(fault)
        else:
            handle = bag.core.handle_of(facts)
            if bag.dialect.shorten is None:
                return facts, *await notice_of(bag.core, facts)
    shorten = shorten_by(bag.core)
    most = Limits(bytes=most_bytes, lines=_LINES)
    text = value_as_text(
        shorten(Cut(message.text, most, most, room=True, handle=handle, why=why, tag=secrets.token_hex(4)))
    )
    return facts, text, shared_beginning(message.text_to_save, text)


async def compact(
    bag: Holdall, transcript: list[Message], summarise: Callable[[str], Awaitable[str]] | None = None
) -> bool:
    """Keep the older half as one output and put what it was about in its place; False if there is too little."""
    start = next((at for at, one in enumerate(transcript) if not isinstance(one, System)), len(transcript))
    first = start + 1 if start < len(transcript) and isinstance(transcript[start], User) else start
    end = _border(transcript, first)
    if end - first < 2:
        return False
    old = transcript[first:end]
    text = "".join(json.dumps(_flat_text(message), ensure_ascii=False, default=str) + "\n" for message in old)
    facts = await bag.keep(text, tool="conversation")
    summary = ""
    if summarise is not None:
        try:
            summary = await summarise(facts.handle)
        except HoldallError:
            summary = ""  # the handle is enough to continue
    handle = bag.core.handle_of(facts)
    go_on = bag.dialect.go_on("read", handle, {}) or bag.dialect.go_on("extract", handle, {})
    not_stored = sum(isinstance(one, ToolResult) and one.saved is not None for one in old)
    before = compacted_in(old[0].text) if isinstance(old[0], User) else 0
    count = len(old) - 1 + before if before else len(old)
    tag = tag_for(summary, new_fence_tag)
    told = compacted(
        handle, count, summary, f"Next: {go_on}" if go_on else "", tag, not_stored=not_stored,
        mark=bag.core.mark_text, again=bool(before),
    )  # fmt: skip
    record_replaced(bag.core, facts, told, None if end <= _last_answer(transcript) else (), reason="compaction")
    transcript[first:end] = [User(told)]
    return True


def summary_by_model(bag: Holdall) -> Callable[[str], Awaitable[str]]:
    """The model reads what was left out, chunk by chunk: it fits, however long it is."""

    async def summarise(handle: str) -> str:
        found = await bag.extract(handle, _SUMMARY, mode="full-chunked")
        return found.answer if found.strategy != "truncate" else ""

    return summarise


def _last_answer(transcript: Sequence[Message]) -> int:
    """Where the last message of the model's is: it has seen all that is before that. -1 if there is none."""
    return max((at for at, one in enumerate(transcript) if isinstance(one, Assistant)), default=-1)


def _too_large(bag: Holdall, text: str, window: int) -> bool:
    size = len(text.encode("utf-8", "replace"))
    return (
        size > _BYTES
        or text.count("\n") + (not text.endswith("\n")) > _LINES
        or (size > _SHARE * window and bag.core.count(text) > _SHARE * window)
    )


def _border(transcript: list[Message], first: int) -> int:
    """About the middle, never between a call and what it returned."""
    last = len(transcript) - _NEWEST_KEPT
    end = min(last, first + max(2, (len(transcript) - first) // 2))
    while end > first and isinstance(transcript[end], ToolResult):
        end -= 1
    return end


def _flat_text(message: Message) -> dict[str, object]:
    match message:
        case System(text):
            return {"role": "system", "content": text}
        case User(text):
            return {"role": "user", "content": text}
        case Assistant(text, calls):
            made = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
            return {"role": "assistant", "content": text, "tool_calls": made}
        case ToolResult(call_id, name, is_error=is_error):
            return {
                "role": "tool",
                "tool_call_id": call_id,
                "name": name,
                "content": message.text_to_save,
                "is_error": is_error,
            }
