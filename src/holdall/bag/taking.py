"""The one place that decides what a model gets of an output, for every kind of tool.

In two steps, because the room of a turn is shared only when all of its calls have ended: `prepare` measures, `settle`
decides, stores and words. Neither raises for the store's sake, and nothing is lost silently.
"""

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import cast

from holdall.bag import streams
from holdall.bag.core import Core
from holdall.policy.decide import Decision, Fits, Keep, Limits, decide
from holdall.store.sources import Source, json_text
from holdall.values.errors import HoldallError
from holdall.values.outputs import Facts, Origin
from holdall.wire.clamp import clamp_error, traceback_of
from holdall.wire.notes import unreadable
from holdall.wire.results import Parts, take_apart

_NO_LIMITS = Limits()
_MOST_HELD = 1024 * 1024  # of a stream whose limits do not bound its bytes
_BYTES = (bytes, bytearray, memoryview)
_SCALARS = (bool, int, float, type(None))


@dataclass(frozen=True, slots=True)
class Prepared:
    """An output that has been measured: what it is, whether it fits by itself, and what is stored if it does not."""

    output: object  # the object that came; a stream joined, an error as its message
    origin: Origin
    limits: Limits
    decision: Decision
    text: str | None  # what a model would read of it; None for bytes that are no text, or go to the store unread
    source: object
    parts: Parts | None = None
    notes: tuple[str, ...] = ()
    is_error: bool = False
    is_part: bool = False  # `text` is only the beginning of a stream that goes on
    stored: Facts | None = None  # what is in the store already
    fault: Exception | None = None  # why what there was could not be stored
    total: int | None = None  # bytes in all, where `text` is only the beginning of them
    started: float = field(default_factory=time.perf_counter)


async def prepare(core: Core, output: object, origin: Origin) -> Prepared:
    limits = core.limits_for(origin.tool)
    started = time.perf_counter()
    value = output
    if isinstance(output, BaseException):
        origin = replace(origin, is_error=True, traceback=traceback_of(output))
        value = clamp_error(output, _NO_LIMITS)
    elif _is_stream(value):
        gathered = await _gathered(value, limits)
        if isinstance(gathered, streams.Rest):
            head = gathered.head
            return Prepared(head, origin, limits, Keep("bytes"), head, gathered.parts, is_part=True, started=started)
        value = gathered.value
    return _measured(core, value, origin, limits, started)


def stored(core: Core, facts: Facts, origin: Origin) -> Prepared:
    """An output that went to the store while it came, because it was too large to be held."""
    return Prepared("", origin, core.limits_for(origin.tool), Keep("bytes"), "", b"", stored=facts)


def text_of(output: object) -> str:
    """What a model would read of a value that stands beside other text."""
    parts = _apart(output)
    if parts is not None:
        return parts.text or ""
    if isinstance(output, bytes):
        return output.decode("utf-8", "replace")
    return value_text(output)[0]


def value_text(value: object) -> tuple[str, tuple[str, ...]]:
    """Any value as text, and what is to be said of that. Never raises, whatever the value does when it is looked at."""
    try:
        return "".join(json_text(value)), ()
    except Exception as problem:  # what JSON cannot say is told as Python tells it
        note = str(problem) if isinstance(problem, HoldallError) else f"{type(problem).__name__}: {problem}"
    try:
        return repr(value), (note,)
    except Exception as problem:
        return unreadable(value, problem), (note,)


def with_text(prepared: Prepared) -> Prepared:
    """The same with the text of large bytes that were on their way to the store; bytes that are none stay without."""
    if prepared.text is not None or not isinstance(prepared.source, bytes):
        return prepared
    try:
        return replace(prepared, text=prepared.source.decode("utf-8"))
    except UnicodeDecodeError:
        return prepared


def tokens_of(core: Core, prepared: Prepared) -> int:
    """What it costs to show it whole."""
    if prepared.text is not None:
        return core.count(prepared.text)
    return len(cast("bytes", prepared.source))


def _apart(output: object) -> Parts | None:
    try:
        return take_apart(output)
    except Exception:  # an object of the tool's own may do anything when it is looked at: then it is a value
        return None


def _is_stream(value: object) -> bool:
    try:
        return streams.is_stream(value)
    except Exception:
        return False


async def _gathered(output: object, limits: Limits) -> streams.Whole | streams.Rest:
    most = limits.bytes or _MOST_HELD
    later = streams.asynchronous(output)
    if later is not None:
        return await streams.gathered(aiter(later), most)
    parts = streams.parts_of(output)
    return await asyncio.to_thread(streams.gathered_sync, parts, most)


def _measured(core: Core, output: object, origin: Origin, limits: Limits, started: float) -> Prepared:
    def fits(text: str) -> Decision:
        return decide(text, limits=limits, tokenizer=core.tokenizer)

    if isinstance(output, _SCALARS):
        text, notes = value_text(output)
        return Prepared(output, origin, limits, Fits(), text, text if notes else output, notes=notes, started=started)
    if isinstance(output, _BYTES):
        return replace(_measured_bytes(core, cast("bytes", output), origin, limits), started=started)
    parts = _apart(output)
    if parts is not None:
        text = parts.text or ""
        if parts.is_error and not origin.is_error:
            origin = replace(origin, is_error=True)
        return Prepared(
            output, origin, limits, fits(text), text, text, parts, parts.notes, origin.is_error, started=started
        )
    text, notes = value_text(output)
    return Prepared(output, origin, limits, fits(text), text, text, None, notes, started=started)


def _measured_bytes(core: Core, data: bytes, origin: Origin, limits: Limits) -> Prepared:
    whole = data if type(data) is bytes else b"".join(Source(data))
    if core.dialect.shorten is None and limits.bytes is not None and len(whole) > max(limits.bytes, _MOST_HELD):
        # A notice shows nothing of it but what is read back from the store: it is never made a text, which may be four
        # times as large.
        return Prepared(data, origin, limits, Keep("bytes"), None, whole)
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError:
        # A byte that is no text costs about a token: it is judged by its size alone.
        over = [most for most in (limits.bytes, limits.tokens) if most is not None and len(whole) > most]
        return Prepared(data, origin, limits, Keep("bytes") if over else Fits(), None, whole)
    decision = decide(text, limits=limits, tokenizer=core.tokenizer)
    return Prepared(data, origin, limits, decision, text, whole)
