"""The one place that decides what a model gets of an output, for every kind of tool: shown as it came, kept with a
notice in its place, or shown in part where the store refuses.
"""

import asyncio
import contextlib
import hashlib
import json
import sys
import threading
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdall.background import is_cancelled
from holdall.bag import streams
from holdall.bag.core import NO_POLICY, Core, in_thread
from holdall.bag.journal import since
from holdall.bag.records import Noticed, announced_key, noticed_key, quoting_key
from holdall.bag.streams import closed, discard, value_text, with_an_end
from holdall.formats.registry import format_of
from holdall.policy.decide import Decision, Fits, Keep, Limits, decide
from holdall.store.ids import new_fence_tag, new_tag
from holdall.store.protocol import OutputReader, Progress
from holdall.store.sources import (
    CHANGED,
    MUCH,
    Cancelled,
    Pump,
    Source,
    check_repeats,
    holds_much,
    is_file,
    json_text,
    png_of,
    shows_png,
    surrogate_notes,
)
from holdall.text.escape import OTHER_FIELDS, on_one_line, reason_in
from holdall.text.json import equal
from holdall.text.numbers import plural
from holdall.text.utf8 import Surrogates, decode, encode
from holdall.values.answers import Answer, Difference
from holdall.values.errors import (
    TOOL_SAID_FAILED,
    EndlessValue,
    HoldallError,
    NeverStored,
    PathGiven,
    StoreFault,
    ToolRaised,
)
from holdall.values.outputs import (
    FAILED,
    Facts,
    Inline,
    Kept,
    LargeJson,
    Origin,
    RawResult,
    Running,
    State,
    Taken,
    Unkept,
)
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.verbs.preview import notice_view, whole_text, with_paragraphs
from holdall.wire.answers import StillRunning, line_of, tag_for
from holdall.wire.clamp import (
    MAX_BYTES,
    MAX_LINES,
    clamp_error,
    clamp_result,
    clamp_text,
    fitted,
    lines_shown,
    suffix_for,
    traceback_of,
    with_structured_content,
)
from holdall.wire.dialect import PREVIEW_BYTES, Cut, View, without_foreign_mark
from holdall.wire.dialects import DIALECTS
from holdall.wire.notes import (
    STRUCTURED,
    blob_note,
    fields_named,
    fields_shown,
    is_kept_in_part,
    is_note,
    not_base64,
    not_text,
    not_utf8,
    others_note,
    part_kept_note,
    part_note,
    path_note,
    says_masked,
    stopped_short,
    structure_as_text,
    structure_notice,
    structured_not_kept,
    structured_note,
    two_handles,
    why_not_kept,
    with_end,
    without_mark,
)
from holdall.wire.results import (
    Note,
    Parts,
    bears,
    extra_fields,
    fields_beside,
    have_own_fields,
    is_plain_value,
    json_of,
    left_out,
    payload_of,
    plain_text,
    structured_of,
    take_apart,
    text_block,
    text_of,
    told_fields,
    with_field,
    wrapped_text,
)
from holdall.wire.results import field as field_of
from holdall.wire.system_notice import FailedTool, ReadyTool, RunningTool, Work

if TYPE_CHECKING:
    from holdall.bag.redaction import LookTime

# Every byte of an output into the store, whatever its form; cancelled or not, what has come is kept.


def _is_path(value: object) -> bool:
    """Of `pathlib`, which takes a tenth of the time of our own import: who has a path has imported it."""
    known = sys.modules.get("pathlib")
    return known is not None and isinstance(value, known.PurePath)


def _until(stopped: threading.Event, given: Iterator[object]) -> Iterator[object]:
    """An iterator without an end would fill the disk for nobody once its call is cancelled."""
    for one in given:
        yield one
        if stopped.is_set():
            raise Cancelled


async def keep(
    core: Core,
    output: object,
    origin: Origin,
    *,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
    then: Callable[[Facts], object] | None = None,
    look_time: "LookTime | None" = None,
) -> Facts:
    """On return it is durable and has a handle. `then` gets its facts in the thread that stored it. `look_time` is what
    there is for looking it through for secrets, if that has begun.

    A call that comes again, by its id, its tool and every byte of its output, has the handle that it had. Raises
    NeverStored for a tool whose outputs must not be, whoever asks, and UsageError for a path.
    """
    core.check_open()
    if core.policy_of(origin.tool).store == "never":
        raise NeverStored(origin.tool)
    if isinstance(output, Awaitable):
        output = await cast("Awaitable[object]", output)
    output, origin = _error_as_text(output, origin)
    if _is_path(output):
        raise PathGiven(str(output))
    pump: Pump | None = None
    given = output
    if isinstance(output, AsyncIterable):
        pump = Pump(streams.steady_later(cast("AsyncIterable[object]", output)), asyncio.get_running_loop())
        output = iter(pump)
    redaction, hidden, stopped = core.redaction_of(origin.tool), [0], threading.Event()
    look_time = look_time or (redaction.look_time() if redaction is not None else None)

    def store() -> Facts:
        content, by = output, origin
        if redaction is not None:
            by = redaction.origin(origin)
            if isinstance(content, (str, *_BYTES)):  # seen as a whole: also before the place that gives a value away
                content, hidden[0] = redaction.value(cast("object", content), look_time)
        if (known := _kept_before(core, content, by)) is not None:
            if then is not None:
                then(known)
            return known
        if pump is None and isinstance(content, Iterator) and not is_file(cast("object", content)):
            content = _until(stopped, cast("Iterator[object]", content))
        source = Source(cast("object", content))
        chunks = source if redaction is None else redaction.chunks(source, hidden.append, look_time)

        def told() -> tuple[str, ...]:
            if redaction is None:
                return (*notes, *source.notes)
            masked = [redaction.text(note) for note in (*notes, *source.notes)]
            told_already = any(map(says_masked, masked))  # nines that stand for a number are found once more
            return (*masked, *([redaction.note(sum(hidden))] if any(hidden) and not told_already else []))

        facts = core.store.put(
            core.session, chunks, by, notes=told, surrogates=source.surrogates, tokenizer=core.tokenizer,
            progress=progress,
        )  # fmt: skip
        if then is not None:
            then(facts)
        return facts

    work = asyncio.ensure_future(asyncio.to_thread(store))
    try:
        facts = await asyncio.shield(work)
    except asyncio.CancelledError:
        # Keep what has arrived before the cancellation continues: there may never be more.
        stopped.set()
        if pump is not None:
            pump.stop()
        await asyncio.wait([work])
        if not work.cancelled() and work.exception() is None:  # its call may come again
            _can_be_fetched(core, work.result(), is_told=False)
        raise
    finally:
        await closed(given)  # one that was refused has more to give
    return _can_be_fetched(core, facts)


def _error_as_text(output: object, origin: Origin) -> tuple[object, Origin]:
    """An exception as its message; all else as it is."""
    if not isinstance(output, BaseException):
        return output, origin
    origin = replace(origin, is_error=True, traceback=traceback_of(output))
    return clamp_error(output, _NO_LIMITS), origin


def _can_be_fetched(core: Core, facts: Facts, *, is_told: bool = True) -> Facts:
    core.kept[facts.handle] = facts
    (core.untold.discard if is_told else core.untold.add)(facts.handle)
    return facts


def _kept_before(core: Core, content: object, origin: Origin) -> Facts | None:
    """The same output of the same call: a retry, a step that a graph runs again, a transcript that is guarded again.

    The last may not know the arguments.
    """
    if not (origin.call_id or origin.part_of) or not isinstance(content, (str, *_BYTES)) or core.has_new_calls:
        return None

    def call(one: Origin) -> tuple[object, ...]:
        return one.call_id, one.part_of, one.tool, one.server, one.is_error

    def fits(one: Origin) -> bool:
        return call(one) == call(origin) and (
            None in (one.arguments, origin.arguments) or _json(one.arguments) == _json(origin.arguments)
        )

    found = [one for one in list(core.kept.values()) if fits(one.origin) and one.state == "ready"]
    if not found:
        return None
    data = encode(content)[0] if isinstance(content, str) else b"".join(Source(cast("object", content)))
    same = [one for one in found if one.measure.bytes == len(data)]
    if not same or same[-1].measure.sha256 != hashlib.sha256(data).hexdigest():
        return None
    with contextlib.suppress(HoldallError, OSError):  # it may have been removed since
        return known if (known := core.store.resolve(core.session, same[-1].handle)).state == "ready" else None
    return None


# What notices are built from: of one output, read once while it is open; of the session, what can be fetched.


_MAX_LISTED = 20


async def view_of(core: Core, handle: str, room: int | None = None, *, alone: bool = False) -> View:
    """`room` is what the notice may take, where that is less than notices may take anyway; one `alone` tells of no
    other output."""
    return await core.on(handle, partial(_look, core, room, alone=alone))


def view_now(core: Core, facts: Facts, room: int | None) -> View | None:
    """The same in this thread, of what was kept a moment ago; None if that failed; the next attempt reports why."""
    try:
        return core.at(facts.handle, partial(_look, core, room), facts)
    except (StoreFault, OSError):
        return None


def _look(core: Core, room: int | None, reader: OutputReader, *, alone: bool = False) -> View:
    most = core.settings.notice_max_tokens
    difference = None if alone else _difference(core, reader)
    # Of what is masked as it is stored, the texts inside of binary data are not: their notice only says what it is.
    is_sealed = reader.facts.origin.masked and format_of(reader.facts.measure.kind).is_binary
    view = notice_view(
        reader,
        new_fence_tag,
        outlined=core.dialect.outlined and difference is None and not is_sealed,
        tokenizer=core.tokenizer,
        most_tokens=most if room is None else min(most, room),
        long_handle=core.dialect.long_handles,
        extracts=core.models.configured,
        ends=max(PREVIEW_BYTES, core.settings.snippet_bytes) if core.dialect.paragraphs else PREVIEW_BYTES,
    )
    view = marked_view(core, replace(view, head=b"", tail=b"") if is_sealed else view)
    if difference is not None:
        return replace(view, difference=difference, tag=tag_for(repr(difference), new_fence_tag))
    return with_paragraphs(reader, view, new_fence_tag) if core.dialect.paragraphs else view


def _difference(core: Core, reader: OutputReader) -> Difference | None:
    """To the last output of the same tool and arguments; None where there is none that can be read, or too much."""
    facts = reader.facts
    if core.dialect.differs is None or not core.settings.difference_notices or not facts.measure.bytes:
        return None
    if facts.state != "ready" or facts.error or facts.measure.notes or not (earlier := earlier_of(core, facts)):
        return None
    from holdall.verbs.diff import near_difference  # noqa: PLC0415 - only where there are two of the same call

    with contextlib.suppress(HoldallError, OSError), core.shared.readers.lease(core.session, earlier) as before:
        return near_difference(before, reader)
    return None


def earlier_of(core: Core, facts: Facts, states: Collection[str] = ("ready",)) -> str:
    """The handle of the last output before this one of the same tool and arguments; empty if there is none."""
    origin = facts.origin
    if not origin.tool:
        return ""
    is_before = facts.handle not in core.kept
    for one in reversed(list(core.kept.values())):
        if not is_before:
            is_before = one.handle == facts.handle
            continue
        by = one.origin
        same = by.tool == origin.tool and by.server == origin.server and one.handle not in core.untold
        if same and one.state in states and _are_same(by.arguments, origin.arguments):
            return one.handle
    return ""


def _are_same(one: object, other: object) -> bool:
    """As JSON: there true is not 1."""
    return one == other and (not one or value_text(one)[0] == value_text(other)[0])


def marked_view(core: Core, view: View) -> View:
    """The same with the mark of the session, where the dialect has its place for it, and nowhere else."""
    ends = {"snippet_lines": core.settings.snippet_lines, "snippet_bytes": core.settings.snippet_bytes}
    view = without_foreign_mark(view, core.marks)
    return replace(view, mark=core.mark_text, prefix=core.shown_handle(""), shell=core.shell, **ends)


def work_of(core: Core, running: Sequence[StillRunning], in_background: Collection[str], *, listed: bool) -> Work:
    """What went to the background is ready to be retrieved once it has ended; in some dialects all that is kept is.
    A call that another process had there, and that ended with it, has failed: nobody else tells of that.

    `listed` lists what is kept, too.
    """
    in_all = core.dialect.all_kept_is_ready
    now, rule = core.journal.now(), core.session.retention
    for one in [one for one in core.kept.values() if one.state == "running" and one.handle not in in_background]:
        with contextlib.suppress(HoldallError, OSError):  # another process has it, and may have ended it
            core.kept[one.handle] = core.store.resolve(core.session, one.handle)
    kept = list(core.kept.values())
    # Every turn asks: as long as the time of the first is not over, no other's is.
    if kept and rule.expires_at(min([one.ended or one.created for one in kept])) <= now:
        kept = [one for one in kept if not (rule.is_over(one, now) and _has_expired(core, one))]
    if any(one.state == "interrupted" for one in kept):
        elsewhere = {*core.journal.background_elsewhere()}
        lost = [one.handle for one in kept if one.state == "interrupted" and one.handle in elsewhere]
        in_background = {*in_background, *lost}
    ended = [one for one in kept if one.state not in ("running", "queued") and (in_all or one.handle in in_background)]
    failed = [one for one in ended if one.state != "ready" or one.origin.is_error]
    whole = [one for one in ended if one.state == "ready" and not one.origin.is_error]
    if not in_all:  # what a wait, or any other tool, has just shown is no news
        seen = core.journal.coverages(one.handle for one in ended)
        whole = [one for one in whole if not seen[one.handle].is_told(one.measure.bytes)]
        failed = [one for one in failed if not seen[one.handle].is_asked]  # each answer says how it failed
    ready, more_ready = _newest(core, whole, in_use=listed and in_all)
    failed, more_failed = _newest(core, failed)
    # Where all that is kept is ready or has failed, it is listed already.
    every, more_kept = _newest(core, kept, in_use=True) if listed and not in_all else ([], 0)
    return Work(
        running=[
            RunningTool(one.tool, core.shown_handle(one.handle), one.seconds) for one in running if not one.queued
        ],
        queued=[RunningTool(one.tool, core.shown_handle(one.handle), one.seconds) for one in running if one.queued],
        ready=[_ready(core, facts) for facts in ready],
        failed=[_failed(core, facts) for facts in failed],
        kept=[line_of(facts, core.handle_of(facts)) for facts in every],
        more_ready=more_ready, more_failed=more_failed, more_kept=more_kept,
    )  # fmt: skip


def _newest(core: Core, outputs: Sequence[Facts], *, in_use: bool = False) -> tuple[list[Facts], int]:
    """Those that are shown, oldest first, and how many are not; what is empty comes last. Of what is ready, what the
    model never looked at goes before the rest; a model that has lost its transcript works with what it looked at,
    which has half of the places where it is `in_use`.

    Only what is shown is looked up: that reads a record each, and a notice is written every turn.
    """
    shown = range(len(outputs))
    if len(outputs) > _MAX_LISTED:
        seen = core.journal.coverages(one.handle for one in outputs)
        empty = [not one.measure.bytes for one in outputs]
        looked_at = [seen[one.handle].retrievals > 0 for one in outputs]
        shown = sorted(shown, key=lambda at: (empty[at], looked_at[at] and not in_use, -at))
        first = [at for at in shown if looked_at[at]][: _MAX_LISTED // 2] if in_use else []
        shown = sorted(list(dict.fromkeys([*first, *shown]))[:_MAX_LISTED])
    return [outputs[at] for at in shown if not _has_expired(core, outputs[at])], len(outputs) - len(shown)


def _has_expired(core: Core, facts: Facts) -> bool:
    """Whether retention, carried out by any process, has taken an output that was there before."""
    try:
        gone = core.store.resolve(core.session, facts.handle).state == "expired"
    except (HoldallError, OSError):
        return False  # whoever asks for it is told why it cannot be read
    if gone:
        core.drop(facts.handle)
    return gone


def _failed(core: Core, facts: Facts) -> FailedTool:
    reason = facts.error or (TOOL_SAID_FAILED if facts.state == "ready" else facts.state)
    return FailedTool(facts.origin.tool, core.handle_of(facts), reason)


def _ready(core: Core, facts: Facts) -> ReadyTool:
    limit = core.limits_for(facts.origin.tool).tokens
    exceeds = limit is not None and facts.measure.tokens > limit
    retrievals = core.journal.coverage(facts.handle).retrievals
    return ReadyTool(facts.origin.tool, core.handle_of(facts), facts.measure.tokens, exceeds, retrievals)


# In two steps, because the room of a turn is shared only when all of its calls have ended: `prepare` measures, `settle`
# decides, stores and words. Neither raises because of the store, and nothing is lost silently.


_NO_LIMITS = Limits()
_MARKER_TOKENS = 40  # of what says how much is gone
_MAX_HELD = 1024 * 1024  # of a stream whose limits do not bound its bytes
_BYTES = (bytes, bytearray, memoryview)
_PNG = "image/png"
_SCALARS = (bool, int, float, type(None))
_OF_AN_ERROR = ("failed", "timed out", "cancelled")  # an interrupted one may lack only what the store refused


@record
class Prepared:
    """An output that has been measured: what it is, whether it fits by itself, and what is stored if it does not."""

    output: object  # the object that came; a stream joined, an error as its message
    origin: Origin
    limits: Limits
    decision: Decision
    text: str | None  # what a model would read of it; None for bytes that are not text, or go to the store unread
    source: object
    parts: Parts | None = None
    notes: tuple[str, ...] = ()
    is_error: bool = False
    ended: str = ""  # how its call failed, after what it had written
    # What it had written goes to the store as that of a call which failed; None if the store refuses.
    keep_failed: Callable[[], Facts | None] | None = None
    is_part: bool = False  # `text` is only the beginning of a stream that goes on
    broken: "streams.Remainder | None" = None  # of a stream that broke: its own text, and its parts with the error
    stored: Facts | None = None  # what is in the store already
    at_rest: bool = False  # it was kept earlier, and is shown because somebody asks
    fault: Exception | None = None  # why what there was could not be stored
    total: int | None = None  # bytes in all, where `text` is only the beginning of them
    came: object = None  # the result that `parts` are of, as it came
    masked: str = ""  # the note of what is masked in it by the policy of its tool
    seen: bool = False  # the model has it already: it comes from a transcript
    read: bool = False  # and has answered since: it has seen all of it
    for_text: tuple[str, ...] = ()  # handles of what is in the content, too
    is_structure: bool = False  # `text` is its structured content: it has no other
    look_time: "LookTime | None" = None  # what is left for looking it through for secrets, where that is done
    started: float = field(default_factory=time.perf_counter)


_T = TypeVar("_T")


async def prepare(core: Core, output: object, origin: Origin, told: str | None = None) -> Prepared:
    """`told` is the JSON of a value, where somebody has written it already."""
    limits = core.limits_for(origin.tool)
    redaction = core.redaction_of(origin.tool)
    started = time.perf_counter()
    value = await _awaited(cast("Awaitable[object]", output)) if isinstance(output, Awaitable) else output
    broken: streams.Remainder | None = None
    # First: what was a secret in the arguments is one in what came of them.
    origin = origin if redaction is None else cast("Origin", await in_thread(redaction.origin, {"origin": origin}))
    if isinstance(value, BaseException):
        value, origin = _error_as_text(value, origin)
    elif _is_path(value):
        value = path_note(str(value))
    elif _is_stream(value):
        read_ahead = await _gathered(value, limits, stores=core.may_store(origin.tool))
        if read_ahead.read_as:
            origin = replace(origin, read_as=read_ahead.read_as)
        if isinstance(read_ahead, streams.Remainder) and read_ahead.problem is not None and read_ahead.is_text:
            # What came before it broke is its output; how it broke is told after it.
            broken, problem = read_ahead, read_ahead.problem
            origin = replace(origin, is_error=True, traceback=traceback_of(problem))
            said = str(problem) if isinstance(problem, ToolRaised) else clamp_error(problem, _NO_LIMITS)
            read_ahead = streams.Whole(f"{read_ahead.head}\n[{said}]")
        if isinstance(read_ahead, streams.Remainder):
            head = read_ahead.head
            if redaction is not None:
                head = cast("str", await in_thread(redaction.text, {"text": head}))
            return Prepared(head, origin, limits, Keep("bytes"), head, read_ahead.parts, is_part=True, started=started)
        value = read_ahead.value
    image, png = value, await in_thread(png_of, {"value": value}) if shows_png(value) else None
    if png is not None:
        value = png
    # A large value in a thread of its own: reading and writing it takes seconds, in which the loop goes on.
    elsewhere = told is None and streams.is_large(value)
    if told is None:
        value = await _done(partial(with_an_end, value), elsewhere=elsewhere)

    async def measured(value: object, origin: Origin, told: str | None = None) -> Prepared:
        measure = partial(_measured, core, value, origin, limits, started, told)
        found = await _done(measure, elsewhere=elsewhere)
        if elsewhere and any(CHANGED in note for note in found.notes):
            found = measure()
        return replace(found, broken=broken)

    if redaction is None:
        found = await measured(value, origin, told)
        return found if png is None else replace(found, output=image)
    # In threads of their own: masking may take seconds, and the others of the pool are for everybody.
    failed = (parts := _apart(value)) is not None and parts.is_error  # also where all of it is withheld
    look_time = redaction.look_time()
    value, hidden = cast(
        "tuple[object, int]", await in_thread(redaction.value, {"output": value, "look_time": look_time})
    )
    origin = replace(origin, traceback=cast("str", await in_thread(redaction.text, {"text": origin.traceback})))
    origin = replace(origin, is_error=origin.is_error or failed)
    if broken is not None:
        broken = replace(broken, head=cast("str", await in_thread(redaction.text, {"text": broken.head})))
    prepared = replace(await measured(value, origin), look_time=look_time)
    if not hidden:
        return prepared
    note = redaction.note(hidden)
    return replace(prepared, notes=(*prepared.notes, note), masked=note)


async def _done(work: Callable[[], _T], *, elsewhere: bool) -> _T:
    """Here, too, where the program changes its value meanwhile: it cannot while it waits for us."""
    if elsewhere:
        with contextlib.suppress(Exception):
            return cast("_T", await in_thread(work, {}))
    return work()


def stored(core: Core, facts: Facts, origin: Origin) -> Prepared:
    """An output that went to the store while it came, because it was too large to be held."""
    core.kept[facts.handle] = facts
    return Prepared("", origin, core.limits_for(origin.tool), Keep("bytes"), "", b"", stored=facts)


def running_notice(core: Core, facts: Facts) -> Running:
    """What a model gets of a call that goes on in the background."""
    state: State = "queued" if core.is_queued(facts.handle) else "running"
    view = View(replace(facts, state=state), b"", b"", "", long_handle=core.dialect.long_handles)
    return Running(core.issue(core.running(marked_view(core, view))), facts.handle)


def shown_running(core: Core, facts: Facts) -> Running:
    """The same once more; its output is counted when it has ended."""
    running = running_notice(core, facts)
    origin, tokens = facts.origin, core.count(running.content)
    core.journal.record(
        "retrieved", handle=facts.handle, tool=origin.tool, call_id=origin.call_id, verb="shown", tokens=tokens
    )
    return running


async def kept_earlier(core: Core, facts: Facts, *, ending: bool) -> Prepared:
    """An output that somebody wants to see as the model would get it; `ending`: with how its call failed behind it."""
    origin, limits = facts.origin, core.limits_for(facts.origin.tool)
    text = await core.on(facts.handle, lambda reader: whole_text(reader, limits, core.tokenizer))
    decision = Keep("bytes") if text is None else Fits()
    if ending and text is not None and facts.state in FAILED and facts.error != TOOL_SAID_FAILED:
        failed = f"[{without_mark(facts.error or facts.state, core.marks)}]"
        text = f"{text}\n{failed}" if text else failed
    return Prepared(text or "", origin, limits, decision, text or "", b"", stored=facts, at_rest=True)


def value_as_text(output: object) -> str:
    """What a model would read of a value that stands beside other text."""
    text, notes = text_and_notes(output)
    return "\n".join([text, *(f"[{note}]" for note in notes)])


def content_as_text(content: object, notes: Mapping[int, str] | None = None) -> str:
    """What a model gets, for an API that takes only a string: notes say what is not text.

    `notes` are those of blocks that are kept for this, by their identity.
    """
    parts = _apart(content)
    if parts is None:
        return value_as_text(content)
    if parts.blocks is None:
        return parts.text or ""
    told = [(notes or {}).get(id(block)) or _told_block(block) for block in parts.blocks]
    structured = structured_of(content)
    if structured is None or is_note(structured):
        return "\n".join(told)
    if not told:
        return value_text(structured)[0]
    structure = cast("_Structure", _structure_of(content))
    if not structure.repeats(parts.text):
        told.append(structure_as_text(structure.shown))
    return "\n".join(told)


def _told_text(block: object) -> str:
    """The text of a block, below what else the block says: the address of a resource, for instance."""
    text, fields = text_of(block) or "", told_fields(block)
    return f"{fields_shown(value_text(fields)[0])}\n{text}" if fields else text


def _told_block(block: object) -> str:
    if text_of(block) is not None:
        return _told_text(block)
    payload = payload_of(block)
    if payload is None:
        value = json_of(block)
        return value_text(block if value is None else value)[0]
    note = not_text(payload.media_type, payload.as_text if payload.data is None else len(payload.data))
    fields = told_fields(block)  # what else the block says: its address, for instance
    return f"{note}\n{fields_shown(value_text(fields)[0], is_text=False)}" if fields else note


def text_and_notes(output: object) -> tuple[str, tuple[str, ...]]:
    """A value as text, and what is to be said of that."""
    parts = _apart(output)
    if parts is not None:
        return parts.text or "", ()
    if isinstance(output, _BYTES):
        data = bytes(cast("bytes", output))
        text, exact = decode(data)
        return (not_text("binary data", len(data)), ()) if not exact and 0 in data else (text, not_utf8(exact=exact))
    if (png := png_of(output)) is not None:
        return not_text(_PNG, len(png)), ()
    return (path_note(str(output)), ()) if _is_path(output) else value_text(output)


def with_text(prepared: Prepared) -> Prepared:
    """The same with the text of large bytes that were on their way to the store; bytes that are none stay without."""
    if prepared.text is not None or not isinstance(prepared.source, bytes):
        return prepared
    try:
        text = prepared.source.decode("utf-8")
    except UnicodeDecodeError:
        return prepared
    output = prepared.output if prepared.parts is None else prepared.parts.with_text(text)
    return replace(prepared, text=text, output=output)


def tokens_of(core: Core, prepared: Prepared) -> int:
    """What it costs to show it whole."""
    if prepared.text is not None:
        return core.count(prepared.text)
    return len(cast("bytes", prepared.source))


def tokens_if_cut(core: Core, prepared: Prepared) -> int | None:
    """What the beginning, or both ends, of an output cost that is not stored, as long as its limits allow; None for
    one that is.
    """
    if prepared.stored is not None or core.may_store(prepared.origin.tool):
        return None
    if isinstance(prepared.decision, Fits):
        return tokens_of(core, prepared)
    text, limits = with_text(prepared).text or "", prepared.limits
    most = min(limits.bytes or MAX_BYTES, limits.chars or MAX_BYTES, len(text))
    tokens = max(core.count(text[:most]), core.count(text[: most // 2] + text[-most // 2 :]))
    return min(tokens + _MARKER_TOKENS, limits.tokens or sys.maxsize)


def _apart(output: object) -> Parts | None:
    try:
        return take_apart(output)
    except Exception:  # an object of the tool's own may do anything when it is looked at: then it is a value
        return None


async def _awaited(output: Awaitable[object]) -> object:
    """What it gives, or the error that it raised: a tool may have forgotten to await."""
    try:
        return await output
    except (Exception, SystemExit) as problem:
        return problem
    except asyncio.CancelledError as problem:
        if is_cancelled():
            raise
        return problem


def _is_stream(value: object) -> bool:
    try:
        return streams.is_stream(value)
    except Exception:
        return False


async def _gathered(output: object, limits: Limits, *, stores: bool) -> streams.Whole | streams.Remainder:
    # What may not be stored can only be shown from memory: with it as a whole, its end too.
    most = (limits.bytes or _MAX_HELD) if stores else _MAX_WHOLE
    later = streams.asynchronous(output)
    if later is not None:
        return await streams.read_ahead(streams.steady_later(later), most)
    parts = streams.steady(streams.parts_of(output))
    return await asyncio.to_thread(streams.read_ahead_sync, parts, most)


def _measured(
    core: Core, output: object, origin: Origin, limits: Limits, started: float, told: str | None = None
) -> Prepared:
    def fits(text: str) -> Decision:
        return decide(text, limits=limits, tokenizer=core.tokenizer)

    if isinstance(output, _SCALARS):
        text, notes = value_text(output)
        return Prepared(output, origin, limits, Fits(), text, text if notes else output, notes=notes, started=started)
    if isinstance(output, _BYTES):
        return replace(_measured_bytes(core, cast("bytes", output), origin, limits), started=started)
    parts = _apart(output)
    if parts is not None:
        parts = _json_as_text(core, parts, fits)
        text = parts.text or ""
        if parts.is_error and not origin.is_error:
            origin = replace(origin, is_error=True)
        if not text and (alone := _measured_structure(core, output, parts, origin, limits)) is not None:
            return replace(alone, started=started)
        return Prepared(
            parts.whole, origin, limits, fits(text), text, text, parts, parts.notes, origin.is_error, came=output,
            started=started,
        )  # fmt: skip
    text, notes = value_text(output) if told is None else (told, ())
    return Prepared(output, origin, limits, fits(text), text, text, None, notes, started=started)


def _json_as_text(core: Core, parts: Parts, fits: Callable[[str], Decision]) -> Parts:
    """The same with a text block for the one block of JSON that is all there is to read, where it is not shown: it gets
    the notice of a text."""
    blocks = parts.blocks or ()
    values = [(at, value) for at, block in enumerate(blocks) if (value := json_of(block)) is not None]
    if parts.text is not None or len(values) != 1:
        return parts
    [(at, value)] = values
    text, _ = value_text(value)
    if isinstance(fits(text), Fits) and not core.imitates(text):
        return parts
    return take_apart(parts.with_blocks({at: (text_block(blocks[at], text),)}).whole) or parts


def _measured_structure(core: Core, output: object, parts: Parts, origin: Origin, limits: Limits) -> Prepared | None:
    """Of a result without text the structured content, as its text; None if there is none, or it is shown."""
    structured = structured_of(output)
    if structured is None or not _structure_is_over(core, structured, limits):
        return None
    data = cast("_Structure", _structure_of(output)).data
    if isinstance(data, bytes):
        measured = _measured_bytes(core, data, origin, limits)
    else:
        measured = Prepared(data, origin, limits, decide(data, limits=limits, tokenizer=core.tokenizer), data, data)
    decision = measured.decision if isinstance(measured.decision, Keep) else Keep("bytes")
    text = measured.text or ""
    whole = parts.with_note(text).whole if parts.text is None else parts.with_text(text)
    return replace(
        measured, output=whole, decision=decision, parts=take_apart(whole), came=output, is_structure=True,
        is_error=origin.is_error,
    )  # fmt: skip


def _measured_bytes(core: Core, data: bytes, origin: Origin, limits: Limits) -> Prepared:
    whole = data if type(data) is bytes else b"".join(Source(data))
    if core.dialect.shorten is None and limits.bytes is not None and len(whole) > max(limits.bytes, _MAX_HELD):
        # A notice shows nothing of it but what is read back from the store: it is never made a text, which may be four
        # times as large.
        return Prepared(data, origin, limits, Keep("bytes"), None, whole)
    try:
        text = whole.decode("utf-8")
    except UnicodeDecodeError:
        # A byte that is not text costs about a token: it is judged by its size alone.
        over = [most for most in (limits.bytes, limits.tokens) if most is not None and len(whole) > most]
        return Prepared(data, origin, limits, Keep("bytes") if over else Fits(), None, whole)
    decision = decide(text, limits=limits, tokenizer=core.tokenizer)
    return Prepared(data, origin, limits, decision, text, whole)


# What a result carries beside its text: images, blobs, other blocks, structured content. Each has a limit of its own.
#
# What is over it is stored by itself, and a note with its type, size and handle stands in its place. All else stays
# where it is, as the same object. Blocks that are no blobs have the same limit once more for all of them together.


@record
class _Carried:
    """What a block carries that is not text, as it is stored where it is too large."""

    what: str
    data: bytes
    is_too_large: bool
    is_blob: bool = False


_BLOCKS_AT_ONCE = 500
_MOST_APART = 50  # parts of one result that are kept each by itself
_MOST_BLOBS, _BLOBS_TOGETHER = 100, 10  # of one result: more of them are kept, and more than so many times the limit


class _FieldsShown:
    """The fields of blobs that are set aside, as long as all that are shown are few."""

    def __init__(self, core: Core) -> None:
        self._core, self._left = core, _MAX_OTHERS

    def of(self, block: object) -> str | None:
        """Empty if it has none; None if there is no room for them."""
        fields = told_fields(block)
        if not fields:
            return ""
        text = value_text(fields)[0]
        told = fields_shown(text, is_text=False, new_tag=_tags_for(self._core, text))
        self._left -= len(told.encode("utf-8", "replace"))
        return told if self._left >= 0 else None


def _tags_for(core: Core, text: str) -> Callable[[], str]:
    """Of fences. Nobody who does not know the session can foretell them; yet they are the same when a call comes again,
    since what a note stands in may be kept and is compared by its bytes then.
    """
    state = hashlib.sha256(f"{core.session.name}\n{core.signature}\n{text}".encode("utf-8", "replace"))

    def new_tag() -> str:
        state.update(b".")
        return f"{int.from_bytes(state.digest()[:8]) % 1000:03}"

    return new_tag


async def keep_large_parts(
    core: Core, parts: Parts, origin: Origin, limits: Limits, *, joined: bool, called: bool
) -> tuple[Parts, tuple[Facts, ...], str]:
    """The parts with notes in place of what is too large, what was stored, and why something could not be.

    `called`: the id of the call leads to them, since its text is not kept.

    The notes are not text yet, so that they outlast whatever becomes of the text: see `keep_beside`. `joined`: there
    will be one text for all text blocks, and their fields are kept together then.
    """
    kept: list[Facts] = []
    new: dict[int, tuple[object, ...]] = {}
    lost = ""

    shown = _FieldsShown(core)

    async def put(at: int, block: object, what: str, data: bytes, *, is_payload: bool = False) -> None:
        nonlocal lost
        told = shown.of(block) if is_payload else ""
        if told is None:  # too much to show: then it is kept with them
            what, data, told = "block", _json(block), ""
        facts, why = await _stored(core, data, origin, (part_note(what),), called=called)
        kept.extend([facts] if facts else [])
        lost = lost or why
        note = blob_note(what, len(data), handle=core.handle_of(facts) if facts else "", why=why)
        note = core.issue(f"{note}\n{told}" if told else note)
        new[at] = (*_text_alone(block), Note(text_block(block, note)))

    most = _most(core, limits)
    # Of what is read like a text, the fields of text blocks and other blocks, and of blobs, all of each together.
    left = {"read": most, "blob": _BLOBS_TOGETHER * core.settings.max_inline_blob_bytes}
    crowds: dict[str, list[tuple[int, object, bytes]]] = {kind: [] for kind in ("fields", "block", "blob")}
    blobs = 0
    blocks = parts.blocks or ()
    for first in range(0, len(blocks), _BLOCKS_AT_ONCE):
        some = blocks[first : first + _BLOCKS_AT_ONCE]
        # Many take long, and others wait for the loop.
        looks = partial(_all_carried, core, limits, some)
        found = await asyncio.to_thread(looks) if len(blocks) > _BLOCKS_AT_ONCE else looks()
        for at, (block, carried) in enumerate(zip(some, found, strict=True), first):
            kind = "blob" if carried.is_blob else "block" if text_of(block) is None else "fields"
            if carried.is_too_large and len(kept) < _MOST_APART:
                await put(at, block, carried.what, carried.data, is_payload=carried.is_blob)
            elif carried.data:
                blobs += carried.is_blob
                of = "blob" if carried.is_blob else "read"
                left[of] -= 0 if joined and kind == "fields" else len(carried.data)
                if carried.is_too_large or left[of] < 0 or (kind == "blob" and blobs > _MOST_BLOBS):
                    crowds[kind].append((at, block, _json(block) if carried.is_blob else carried.data))
    for kind, crowd in crowds.items():
        new |= {at: _text_alone(block) for at, block, _ in crowd}
        for at, block, _ in crowd[:1]:
            what = fields_named(len(crowd)) if kind == "fields" else plural(len(crowd), "block")
            await put(at, block, what, b"[" + b", ".join(data for *_, data in crowd) + b"]")
    return (parts.with_blocks(new) if new else parts), tuple(kept), lost


# Structured content says what the text says, in another form or not at all: it is kept once where it repeats the text.
#
# A client may show its model only one of the two. So as soon as anything else of a result is replaced by a notice,
# structured content does not stay beside that: the text then says everything, and where all else is.


_NOTHING = ("", "{}", b"{}")  # structured content that says none
_IN_RESULT, _IN_RESULT_BYTES = lazy_pattern(r'\{\s*"result"\s*:'), lazy_pattern(rb'\{\s*"result"\s*:')


@record
class _Structure:
    """As it is stored: the text that it wraps, else its exact JSON."""

    data: str | bytes
    is_text: bool = False

    @property
    def size(self) -> int:
        return len(self.data if isinstance(self.data, bytes) else encode(self.data)[0])

    @property
    def text(self) -> str:
        return self.data if isinstance(self.data, str) else self.data.decode("utf-8", "replace")

    @property
    def shown(self) -> str:
        """In a sentence of ours."""
        return self.text if self.is_text else on_one_line(self.text)

    def repeats(self, text: str | None) -> bool:
        """Whether a text says the same; as JSON, whatever its spaces, its escapes and the order of its names are."""
        if self.data in (("",) if self.is_text else _NOTHING):
            return True
        if text is None:
            return False
        if self.is_text:
            return text == self.data
        return _says(text, self.data) or ((inner := _in_result(self.data)) is not None and _says(text, inner))


def _says(text: str, data: str | bytes) -> bool:
    if equal.is_same(text, data):
        return True
    if isinstance(data, bytes) and len(data) > _MAX_HELD:
        return False  # values of so much JSON would take many times its size
    try:
        return _in_order(text) == _in_order(data)
    except (ValueError, RecursionError):
        return False


def _in_result(data: str | bytes) -> str | bytes | None:
    """What stands in `{"result": …}`, which servers write around any value; more than one value where it has others."""
    found = _IN_RESULT_BYTES.match(data) if isinstance(data, bytes) else _IN_RESULT.match(data)
    return data[found.end() : -1] if found is not None and data[-1:] in ("}", b"}") else None


def _in_order(text: str | bytes) -> str:
    """One spelling for all that say the same. Raises ValueError where a name comes twice: values lose one of them."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len(found := dict(pairs)) < len(pairs):
            raise ValueError("a name that comes twice")
        return found

    return json.dumps(json.loads(text, object_pairs_hook=unique), sort_keys=True)


def _structure_of(came: object) -> _Structure | None:
    """Of a result as it came."""
    structured = structured_of(came)
    if structured is None:
        return None
    exact = structured.data if isinstance(structured, LargeJson) else _structure_by_its_bytes(came)
    if exact is None or exact[:1] not in (b"{", b"[") or equal.is_one_text(exact, 0, len(exact)):
        value = structured.value() if isinstance(structured, LargeJson) else structured
        text = wrapped_text(value)
        if text is not None:
            return _Structure(text, is_text=True)
    return _Structure("".join(json_text(structured)) if exact is None else exact)


def _structure_by_its_bytes(came: object) -> bytes | None:
    """Numbers and names that come twice are not what they were once they have been read."""
    if not isinstance(came, RawResult) or not came.raw:
        return None
    from holdall.text.json.find import Hit, Scan  # noqa: PLC0415 - few results are kept whose structure is small
    from holdall.text.json.path import parse_path  # noqa: PLC0415

    raw = came.raw
    hits: list[Hit] = list(Scan(lambda start, end: raw[start:end], len(raw), parse_path("$.structuredContent")).hits())
    return b"".join(equal.readable(raw[hits[0].start : hits[0].end])) if len(hits) == 1 else None


def _structure_is_over(core: Core, structured: object, limits: Limits, beside: str = "") -> bool:
    if isinstance(structured, LargeJson):
        if limits.bytes is not None and len(structured.data) > limits.bytes:
            return True
        structured = structured.value()
        if isinstance(structured, str):
            return True  # nobody could read it, too deep for instance
    if limits.bytes is not None and holds_much(structured, limits.bytes):
        return True  # its JSON has more bytes than it holds values
    if beside and not core.marks.is_in(beside) and bears([beside, structured], core.marks):
        return True  # part of the mark may be in the text, and the rest here
    text = wrapped_text(structured)
    text = "".join(json_text(structured)) if text is None else text
    return isinstance(decide(text, limits=limits, tokenizer=core.tokenizer), Keep) or core.imitates(text)


async def keep_beside(
    core: Core, prepared: Prepared, parts: Parts, *, changed: bool, twin: Facts | None = None, fault: str = ""
) -> tuple[Parts, tuple[Facts, ...]]:
    """The parts with notes in place of structured content and of whatever is large beside it, and what was stored.

    `changed`: something else of the result is not as it was. `twin` is the kept text, `fault` why it is not kept. This
    is the last step: the text has been settled, and the notes of what was set aside become blocks.
    """
    parts, fields = await _keep_fields(core, prepared, parts, twin)
    parts, kept = await _keep_structure(core, prepared, parts.with_notes(), changed=changed, twin=twin, fault=fault)
    kept = (*fields, *kept)
    for name in _BESIDE if parts.path else ():
        member = field_of(parts.whole, name)
        data = b"" if member is None else _json(member)
        if len(data) <= core.settings.max_inline_blob_bytes and not core.imitates(data.decode()):
            continue
        facts, why = await _stored(core, data, prepared.origin, (part_note(name),))
        note = structured_note(facts, core.handle_of(facts)) if facts else structured_not_kept(len(data), why)
        said = core.issue(blob_note(name, len(data), handle=core.handle_of(facts) if facts else "", why=why))
        parts = replace(parts, whole=with_field(parts.whole, name, note)).with_note(said)
        kept = (*kept, facts) if facts else kept
    others = left_out(prepared.came, parts.whole, parts.text)
    data = _json(others) if others else b""
    if len(data) > _MAX_OTHERS or core.imitates(data.decode()):
        facts, why = await _stored(core, data, prepared.origin, (part_note(OTHER_FIELDS),))
        said = blob_note(OTHER_FIELDS, len(data), handle=core.handle_of(facts) if facts else "", why=why)
        return parts.with_note(core.issue(said)), (*kept, facts) if facts else kept
    if others:
        parts = replace(parts, whole={**json.loads(data), **cast("dict[str, object]", parts.whole)})
    return parts, kept


async def _keep_fields(
    core: Core, prepared: Prepared, parts: Parts, twin: Facts | None
) -> tuple[Parts, tuple[Facts, ...]]:
    """With the fields of all text blocks behind their text where there are fewer blocks now: shown, or kept."""
    told = parts.fields_left_out(placed=twin is not None)
    if not told:
        return parts, ()
    data = _json(told)
    if len(data) <= _MAX_OTHERS and not core.imitates(data.decode()):
        shown = fields_shown(data.decode(), len(told), new_tag=_tags_for(core, data.decode()))
        return parts.with_note(core.issue(shown)), ()
    what = fields_named(len(told))
    facts, why = await _stored(core, data, prepared.origin, (part_note(what),))
    said = blob_note(what, len(data), handle=core.handle_of(facts) if facts else "", why=why)
    return parts.with_note(core.issue(said)), (facts,) if facts else ()


_MAX_OTHERS = 2000  # bytes that are shown beside a notice


_BESIDE = ("_meta", "meta", "details")


async def _keep_structure(
    core: Core, prepared: Prepared, parts: Parts, *, changed: bool, twin: Facts | None, fault: str
) -> tuple[Parts, tuple[Facts, ...]]:
    """As it is if all of the result fits."""
    structured = structured_of(parts.whole)
    if structured is None:
        return parts, ()
    over = _structure_is_over(core, structured, prepared.limits, parts.text or "")
    if not over and not changed:
        return _with_value(parts, structured), ()
    structure = cast("_Structure", await asyncio.to_thread(_structure_of, prepared.came))
    if prepared.is_structure or await asyncio.to_thread(structure.repeats, parts.text):
        if twin is not None:
            return _with_structure(parts, structured_note(twin, core.handle_of(twin))), ()
        if fault:
            return _with_structure(parts, structured_not_kept(structure.size, fault)), ()
        shown = _with_value(parts, structured)  # all of it is in the text
        if not isinstance(structured_of(shown.whole), LargeJson):
            return shown, ()
    facts, why = None, fault
    if over or not fault:
        facts, why = await _stored(core, structure.data, prepared.origin, (part_note(STRUCTURED),))
    note = structured_note(facts, core.handle_of(facts)) if facts else structured_not_kept(structure.size, why)
    if facts is None:
        said = _unkept_structure(core, prepared, structure, why, over=over, changed=changed)
    elif twin is not None:
        said = two_handles(core.handle_of(twin), core.handle_of(facts), structure.size, is_text=structure.is_text)
    else:
        said = await _kept_structure(core, facts, over=over, changed=changed)
    return _with_structure(parts, note).with_note(said), (facts,) if facts else ()


async def _kept_structure(core: Core, facts: Facts, *, over: bool, changed: bool) -> str:
    """What is said of it where the text beside it is shown, whole or in part."""
    what, size, handle = STRUCTURED, facts.measure.bytes, core.handle_of(facts)
    if not over:
        return part_kept_note(what, size, handle=handle)
    if changed or core.dialect.shorten is not None:
        return core.issue(blob_note(what, size, handle=handle))
    if notice := _told_before(core, facts, None):
        return core.issue(structure_notice(core.issue(notice)))
    view = await view_of(core, facts.handle)
    view = replace(view, imitates=core.imitates(view.head.decode("utf-8", "replace")))
    notice = core.issue(core.written(view)[0])
    note_down(core, facts, notice, view)
    return core.issue(structure_notice(notice))


def _unkept_structure(
    core: Core, prepared: Prepared, structure: _Structure, why: str, *, over: bool, changed: bool
) -> str:
    if not over:
        return structure_as_text(structure.shown)
    if changed:  # of the text, too, there is only a part
        return blob_note(STRUCTURED, structure.size, why=why)
    alone = replace(prepared, output=structure.text, text=structure.text, parts=None)
    return value_as_text(shorten_by(core, both_ends=True)(_cut(core, alone, Keep("bytes"), None, why=why)))


def _with_structure(parts: Parts, new: object) -> Parts:
    return replace(parts, whole=with_structured_content(parts.whole, new))


def _with_value(parts: Parts, structured: object) -> Parts:
    """The same object where it is one already, or cannot be one: it is too deep, for instance."""
    value = structured.value() if isinstance(structured, LargeJson) else structured
    return parts if value is structured or isinstance(value, str) else _with_structure(parts, value)


async def flattened(core: Core, parts: Parts, origin: Origin) -> str | bytes:
    """A result as the text that its handle will hold, with a note for each thing in it that is none; those are kept."""
    said: list[str] = [] if parts.blocks is not None else [parts.text or ""]
    limits = core.limits_for(origin.tool)
    shown = _FieldsShown(core)
    for block in parts.blocks or ():
        text, carried = text_of(block), _carried(core, limits, block)
        if text is not None:
            said.append(text if carried.is_too_large else _told_text(block))
        if carried.is_blob:
            told = shown.of(block)
            what, data = (carried.what, carried.data) if told is not None else ("block", _json(block))
            said += [await _kept_apart(core, origin, what, data), *([told] if told else [])]
        elif text is not None and carried.is_too_large:
            said.append(await _kept_apart(core, origin, carried.what, carried.data))
        elif text is None:
            said.append(carried.data.decode())
    structure = await asyncio.to_thread(_structure_of, parts.whole)
    if structure is None or await asyncio.to_thread(structure.repeats, parts.text):
        return "\n".join(said)
    if not parts.text:
        return "\n".join([structure.text, *said]) if any(said) else structure.data
    return "\n".join([*said, await _kept_apart(core, origin, STRUCTURED, structure.data)])


async def kept_fields(core: Core, parts: Parts, origin: Origin) -> tuple[str, ...]:
    """The note for the facts of a flattened result that has fields beside its content: for clients, not for models."""
    members = fields_beside(parts, also=_BESIDE)
    members |= parts.whole.beside if isinstance(parts.whole, RawResult) else {}
    if not members:
        return ()
    data = await asyncio.to_thread(_json, members)
    if len(data) <= _MAX_FIELDS and data.isascii() and not core.marks.is_in(data.decode()):
        return (others_note(data.decode()),)
    facts, why = await _stored(core, data, origin, (part_note(OTHER_FIELDS),))
    return (others_note("", handle=core.handle_of(facts) if facts else "", why=why),)


_MAX_FIELDS = 60  # bytes that a note can show


async def text_of_result(core: Core, taken: Taken | Answer, tool: str, call_id: str) -> str:
    """What was taken, for a model that reads only text: what else is in it is kept, whatever its size."""
    if isinstance(taken, Kept):
        return taken.text
    content, origin = taken.content, Origin(tool=tool, call_id=call_id)
    parts = None if isinstance(content, str) else _apart(content)
    if parts is not None:
        if not isinstance(taken, Inline):  # its structured content stands for what is kept
            parts = replace(parts, whole=None)
        content = await flattened(core, parts, origin)
    if isinstance(content, bytes | bytearray | memoryview):
        data = bytes(cast("bytes", content))
        text, exact = decode(data)
        return text if exact else await _kept_apart(core, origin, "binary data", data)
    if (png := png_of(content)) is not None:
        return await _kept_apart(core, origin, _PNG, png)
    return _encodable(value_as_text(content))


def _encodable(text: str) -> str:
    """For an API: no UTF-8 holds a lone surrogate."""
    lone = Surrogates()
    said = lone.encode(text).decode()
    return "\n".join([said, *(f"[{note}]" for note in surrogate_notes(lone))])


async def _kept_apart(core: Core, origin: Origin, media: str, data: str | bytes) -> str:
    """The note that stands for what is no text in a result."""
    facts, why = await _stored(core, data, origin, (part_note(media),))
    size = len(data if isinstance(data, bytes) else encode(data)[0])
    return part_kept_note(media, size, handle=core.handle_of(facts) if facts else "", why=why)


async def _stored(
    core: Core, data: object, origin: Origin, notes: Sequence[str], *, called: bool = False
) -> tuple[Facts | None, str]:
    """The facts, or why there are none. The call's id leads to its text where that is kept; else it is `called` so."""
    if not core.may_store(origin.tool):
        return None, str(NeverStored(origin.tool, by_dialect=not core.dialect.stores))
    call = encode(origin.call_id)[0]
    part_of = hashlib.sha256(call).hexdigest()[:16] if call else ""
    try:
        origin = origin if called else replace(origin, call_id="", part_of=part_of)
        return await keep(core, data, origin, notes=notes), ""
    except (StoreFault, OSError) as fault:
        return None, str(fault)


def _all_carried(core: Core, limits: Limits, blocks: Sequence[object]) -> list[_Carried]:
    return [_carried(core, limits, block) for block in blocks]


def _carried(core: Core, limits: Limits, block: object) -> _Carried:
    most = _most(core, limits)
    beside = extra_fields(block)

    def is_over(data: bytes) -> bool:
        if len(data) > most or core.imitates(text := data.decode()):
            return True
        return len(data) > _MAX_OTHERS and isinstance(decide(text, limits=limits, tokenizer=core.tokenizer), Keep)

    if text_of(block) is not None:
        data = b"" if beside is None else _json(beside)
        return _Carried(fields_named(), data, is_over(data))
    value = json_of(block)
    if value is not None:  # it is read like a text
        data = _json(value)
        return _Carried("json", data, is_over(data))
    payload = payload_of(block)
    fields = b"" if payload is None else _json(beside)
    if payload is None or payload.data is None or len(fields) > most or core.imitates(fields.decode()):
        data = _json(block)
        named = "block" if payload is None or payload.data is not None else not_base64(payload.media_type)
        return _Carried(named, data, is_over(data))
    too_large = max(len(payload.data), payload.as_text) > core.settings.max_inline_blob_bytes
    text = payload.data.decode("utf-8", "ignore")
    if payload.media_type.startswith("text/"):  # a model may be shown it as such
        too_large = too_large or isinstance(decide(text, limits=limits, tokenizer=core.tokenizer), Keep)
    too_large = too_large or core.imitates(text)
    return _Carried(payload.media_type, payload.data, too_large, is_blob=True)


def _text_alone(block: object) -> tuple[object, ...]:
    """What stays of a block whose fields are set aside: nothing of one that has no text."""
    text = text_of(block)
    return () if text is None else (text_block(block, text),)


def _most(core: Core, limits: Limits) -> int:
    """Bytes of what is read like a text, where a dialect counts only tokens: a token has about four."""
    return limits.bytes or min(core.settings.max_inline_blob_bytes, 4 * (limits.tokens or sys.maxsize))


def _json(block: object) -> bytes:
    # In JSON a lone surrogate can only be in a string, and there its escape says the same.
    return value_text(block)[0].encode("utf-8", "backslashreplace")


def shared_beginning(text: str, content: str) -> tuple[Span, ...]:
    """The bytes of `text` that are at the beginning of what is shown of it."""
    least = min(len(text), len(content))
    shared = next((at for at, (one, other) in enumerate(zip(text, content, strict=False)) if one != other), least)
    return (Span(0, len(encode(text[:shared])[0])),) if shared else ()


def note_down(core: Core, facts: Facts, notice: str, view: View | None, begins_with: Sequence[Span] = ()) -> None:
    """Remember what the model got in place of an output, as far as that is not the beginning of the output itself.

    Not in its event, because the log has no content, and not in its record, which is written before the notice. A note
    goes with its output, and with the one whose lines it shows. One that the store refuses is missed by nobody but the
    viewer.
    """
    after = begins_with[0].end if begins_with else 0
    text = encode(notice)[0][after:].decode("utf-8") if after else notice
    difference = view.difference if view is not None else None
    with contextlib.suppress(HoldallError, OSError):
        key = noticed_key(facts)
        if difference is not None and difference.changes:
            other = core.kept.get(difference.other) or core.store.resolve(core.session, difference.other)
            key = quoting_key(facts, other)
        _remember(core, key, text, after)


def note_announced(core: Core, facts: Facts, text: str) -> None:
    """The same for what the model got when the call went to the background."""
    with contextlib.suppress(StoreFault, OSError):
        _remember(core, announced_key(facts), text)


def _remember(core: Core, key: tuple[str, str], text: str, after: int = 0) -> None:
    told = Noticed(core.journal.now(), core.dialect.name, text, after, core.mark if core.signature else "")
    core.store.remember(core.session, *key, told.to_line(), durable=False)


# What becomes of a measured output: shown as it came, kept with a notice in its place, or shown in part.
#
# `settle` is the only way to a `Taken`. Where the disk refuses, the model still gets what can be shown, with the
# reason.


_TRACEBACK_BYTES = 64 * 1024
_LONGEST_NOTICE = 32 * 1024  # characters
_MAX_WHOLE = 64 * 1024 * 1024  # of an output that is to be shortened; of a longer one only the beginning is read
_MIN_BYTES = 256  # are shown, however few tokens there is room for


async def settle(core: Core, prepared: Prepared, *, room: int | None = None, notice_room: int | None = None) -> Taken:
    """`room` is what this output may take of its turn; `notice_room` what a notice in its place may."""
    notes: dict[int, str] = {}
    # Of a stream it is not known before its end whether it came before, and nobody waits for that.
    waits = not prepared.is_part and prepared.stored is None
    async with core.call_alone(prepared.origin) if waits else contextlib.nullcontext():
        taken = await _settled(core, prepared, room, notice_room, notes)
    if not taken.as_text and (not isinstance(taken.content, str) or encode(taken.content)[1]):
        said = content_as_text(taken.content, notes)
        if prepared.masked and prepared.parts is None:  # a value has no place for it
            said = f"{said}\n[{prepared.masked}]"
        taken = replace(taken, as_text=_encodable(said))
    if not isinstance(taken, Inline):
        core.given.append(hash(taken.text))  # it may be over the limits by what it says of itself
    return taken


def _with_end(prepared: Prepared, problem: Exception | None) -> Prepared:
    """That of a stream which broke."""
    if problem is None:
        return prepared
    origin = replace(prepared.origin, is_error=True, traceback=traceback_of(problem))
    return replace(prepared, origin=origin, ended=clamp_error(problem, _NO_LIMITS))


async def _settled(
    core: Core, prepared: Prepared, room: int | None, notice_room: int | None, notes: dict[int, str]
) -> Taken:
    """`notes` gets those of blocks that are kept because a text cannot show them, by their identity."""
    prepared = _with_short_traceback(prepared)
    aside: tuple[Facts, ...] = ()
    changed, lost = False, ""
    decision = _with_room(core, prepared, room)
    if prepared.parts is not None:
        joined = isinstance(decision, Keep) and core.dialect.shorten is None
        joined = joined and have_own_fields(prepared.parts.blocks or ())
        parts, aside, lost = await keep_large_parts(
            core, prepared.parts, prepared.origin, prepared.limits, joined=joined, called=isinstance(decision, Fits)
        )
        if changed := parts is not prepared.parts:
            prepared = replace(prepared, parts=parts, output=parts.whole)
        pictures = await _keep_for_text(core, prepared, parts, notes)
        prepared = replace(prepared, for_text=tuple(one.handle for one in pictures)) if pictures else prepared
        aside = (*aside, *pictures)
    if isinstance(decision, Fits) and prepared.fault is not None:
        decision = Keep("bytes")  # it is only the beginning of what there was
    if isinstance(decision, Fits):
        return await _shown(core, prepared, aside, changed=changed, lost=lost)
    if (broken := prepared.broken) is not None:  # its own bytes are kept, and beside them how it ended
        head, origin = broken.head, replace(prepared.origin, is_error=False)
        prepared = replace(prepared, output=head, text=head, source=broken.parts, origin=origin)
    if prepared.stored is None and not core.may_store(prepared.origin.tool):
        fault = NeverStored(prepared.origin.tool, by_dialect=not core.dialect.stores)
        at_hand = None, broken.problem if broken is not None else None
        total, problem = await discard(prepared.source) if prepared.is_part else at_hand
        return await _unkept(core, _with_end(prepared, problem), fault, decision, room, total)
    if prepared.keep_failed is not None and (facts := await asyncio.to_thread(prepared.keep_failed)) is not None:
        # As one that went to the store while it came: its own bytes, and beside them how its call ended.
        prepared = replace(stored(core, facts, prepared.origin), started=prepared.started)
    if prepared.stored is not None and core.dialect.shorten is not None:
        prepared = await _with_head(core, prepared, prepared.stored)
    views: list[View | None] = []
    told = ""

    def look(facts: Facts) -> None:
        nonlocal told
        if core.dialect.shorten is None:
            told = _told_before(core, facts, notice_room) if facts.handle in core.kept else ""
            views.append(view_now(core, facts, notice_room))

    try:
        if prepared.fault is not None:
            raise prepared.fault
        facts = prepared.stored or await keep(
            core, prepared.source, prepared.origin, notes=prepared.notes, then=look, look_time=prepared.look_time
        )
    except (StoreFault, OSError) as problem:
        fault = problem if isinstance(problem, HoldallError) else StoreFault(str(problem))
        prepared = _with_end(prepared, prepared.broken.problem if prepared.broken is not None else None)
        return await _unkept(core, prepared, fault, decision, room, prepared.total)
    view = next(iter(views), None) or (None if core.dialect.shorten else await view_of(core, facts.handle, notice_room))
    if view is not None and prepared.stored is not None and stopped_short(facts):
        view = replace(view, facts=replace(view.facts, error=facts.error))  # a full disk may not have taken that
    if view is not None and decision.reason == "mark":
        view = replace(view, imitates=True)
    return await _noticed(core, prepared, facts, aside, decision, view, told)


def _is_kept_for_text(core: Core, prepared: Prepared) -> bool:
    """Whether what is no text is kept though it fits: who sends `text` has nothing of it otherwise."""
    return not (core.only_content or prepared.seen) and core.may_store(prepared.origin.tool)


async def _keep_for_text(core: Core, prepared: Prepared, parts: Parts, notes: dict[int, str]) -> tuple[Facts, ...]:
    """Images and other payloads that stay in the content: the handles of what only a text has to name."""
    kept: list[Facts] = []
    shown = _FieldsShown(core)
    for block in (parts.blocks or ()) if _is_kept_for_text(core, prepared) else ():
        if text_of(block) is not None or payload_of(block) is None:
            continue
        carried = _carried(core, prepared.limits, block)
        what, data, told = carried.what, carried.data, shown.of(block) if carried.is_blob else ""
        if told is None:
            what, data, told = "block", _json(block), ""
        facts, why = await _stored(core, data, prepared.origin, (part_note(what),))
        handle = core.handle_of(facts) if facts else ""
        note = part_kept_note(what, len(data), handle=handle, why=why)
        notes[id(block)] = f"{note}\n{told}" if told else note
        kept += [facts] if facts else []
    return tuple(kept)


def _told_before(core: Core, facts: Facts, room: int | None) -> str:
    """The notice that the model has of it, to the letter: a request that begins as the last one did costs less."""
    with contextlib.suppress(StoreFault, OSError):
        noticed = Noticed.in_line(core.store.recall(core.session, *noticed_key(facts)) or b"")
        if noticed is None or noticed.dialect != core.dialect.name or noticed.after:
            return ""
        # One without the mark of this session came with a bundle, and whoever made that could have written it. The
        # signature alone proves nothing: that of some dialects is the id of the session, which comes with a bundle.
        if core.signature and noticed.mark == core.mark:
            return noticed.text if room is None or core.count(noticed.text) <= room else ""
    return ""


async def keep_as_well(core: Core, prepared: Prepared) -> None:
    """Keep what was shown: perhaps nobody has seen it."""
    origin = prepared.origin
    if not core.may_store(origin.tool):
        return
    source = prepared.source if prepared.parts is None else await flattened(core, prepared.parts, origin)
    try:
        facts = await keep(core, source, origin, notes=prepared.notes, look_time=prepared.look_time)
    except (StoreFault, OSError) as problem:
        core.journal.record("unkept", tool=origin.tool, call_id=origin.call_id, why=str(problem), shown_whole=True)
    else:
        _record_kept(core, prepared, facts, reason="always", content_tokens=0, replaced=False)


def is_small_text(core: Core, output: object, tool: str) -> bool:
    """Whether it is a text that fits, of a tool without its own policy."""
    if type(output) is not str or core.policy_of(tool) is not NO_POLICY:
        return False
    return isinstance(decide(output, limits=core.limits_for(""), tokenizer=core.tokenizer), Fits)


_PLAIN_JSON = json.JSONEncoder(ensure_ascii=False)  # as `value_text` writes it; a value with objects in it needs more


def take_small(core: Core, output: object, origin: Origin, started: float | None = None) -> Inline | str | None:
    """Fast path, for a text, a value or a result of text that fits: the same object. Of a value that does not, its
    JSON; None for all that needs a closer look. `started` is when its call was made, where we made it.
    """
    is_value = False
    if isinstance(output, str):
        text: str | None = output
    elif is_value := is_plain_value(output):
        try:
            if not check_repeats(output, MUCH):
                return None
            text = _PLAIN_JSON.encode(output)
        except (TypeError, ValueError, RecursionError, EndlessValue):
            return None
    else:
        text = plain_text(output)
    if text is None or not is_small_text(core, text, origin.tool) or core.imitates(text):
        return text if is_value else None
    if not text.isascii() and encode(text)[1]:
        return None
    seconds = 0.0 if started is None else time.perf_counter() - started
    core.journal.shown_whole(origin.tool, origin.call_id, seconds, len(text), asked_with(core, origin))
    return Inline(output) if text is output else Inline(output, as_text=text)


def asked_with(core: Core, origin: Origin) -> dict[str, Any]:
    """The server of a call and the beginning of its arguments, for its event: most results have no record of their own.

    What must not reach a disk, and what a policy masks, does not do so by this way: to look through arguments takes
    its time, and everybody would wait for it here.
    """
    found: dict[str, Any] = {"server": origin.server} if origin.server else {}
    policy, arguments = core.policy_of(origin.tool), origin.arguments
    if arguments is None or policy.store == "never" or policy.redact or not core.dialect.stores:
        return found
    with contextlib.suppress(TypeError, ValueError, RecursionError):
        if _is_short(arguments):
            return {**found, "arguments": _ARGUMENTS.encode(arguments)[:_MAX_ARGUMENTS]}
        found["arguments"] = ""
        for piece in (arguments,) if isinstance(arguments, str) else _ARGUMENTS.iterencode(arguments):
            found["arguments"] += piece[:_MAX_ARGUMENTS]
            if len(found["arguments"]) >= _MAX_ARGUMENTS:
                break
    return found


def _is_short(arguments: object) -> bool:
    """Most are: then all of them are written at once, which takes a tenth of the time."""
    if type(arguments) is not dict or len(cast("dict[object, object]", arguments)) > _FEW:
        return False
    values = cast("dict[object, object]", arguments).values()
    return all(
        value is None or type(value) in (bool, int, float) or (type(value) is str and len(value) <= _MAX_ARGUMENTS)
        for value in values
    )


_FEW = 16


def _named(argument: object) -> str:
    return repr(with_an_end(argument))


_ARGUMENTS = json.JSONEncoder(ensure_ascii=False, default=_named)
_MAX_ARGUMENTS = 500  # characters in an event, roughly; the record of an output has more


def _is_ours(core: Core, prepared: Prepared, reason: str) -> bool:
    """Whether what comes from a transcript is a notice, or was shortened: it is not kept or shortened once more."""
    text, mark = prepared.text or "", core.signature
    if mark:
        return mark in text and len(text) <= _LONGEST_NOTICE + 2 * core.settings.snippet_bytes
    return reason == "lines" and lines_shown(text) <= (prepared.limits.lines or 0)  # the suffix has some, too


def _with_room(core: Core, prepared: Prepared, room: int | None) -> Decision:
    if prepared.seen and isinstance(prepared.decision, Keep) and _is_ours(core, prepared, prepared.decision.reason):
        return Fits()
    if isinstance(prepared.decision, Fits) and not prepared.seen and core.imitates(prepared.text):
        return Keep("mark")
    if isinstance(prepared.decision, Keep) or room is None or not core.dialect.counts_room:
        return prepared.decision
    return Keep("room") if tokens_of(core, prepared) > room else prepared.decision


async def _shown(core: Core, prepared: Prepared, aside: tuple[Facts, ...], *, changed: bool, lost: str = "") -> Taken:
    """`lost`: why something of it could not be kept."""
    origin = prepared.origin
    if prepared.masked and prepared.parts is not None:  # nobody takes a mask for what the tool said
        parts = prepared.parts.with_note(f"[{prepared.masked}]")
        prepared = replace(prepared, parts=parts, output=parts.whole)
    if prepared.parts is not None:
        parts, more = await keep_beside(core, prepared, prepared.parts, changed=changed)
        if parts is not prepared.parts:
            prepared, aside = replace(prepared, output=parts.whole), (*aside, *more)
            lost = lost or why_not_kept(structured_of(parts.whole))
    is_binary = prepared.text is None and _is_kept_for_text(core, prepared)
    if prepared.at_rest or is_binary or core.policy_of(origin.tool).store == "always":
        try:
            facts = prepared.stored or await _as_it_came(core, prepared)
        except (StoreFault, OSError) as problem:
            core.journal.record("unkept", tool=origin.tool, call_id=origin.call_id, why=str(problem), shown_whole=True)
        else:
            whole = [] if is_binary else [[0, facts.measure.bytes]]  # nobody knows which of the two is sent
            reason = "binary" if is_binary else "always"
            _record_kept(core, prepared, facts, reason=reason, content_tokens=0, replaced=False, shown=whole)
            failed = origin.is_error or facts.state in _OF_AN_ERROR
            return Kept(
                prepared.output,
                facts,
                aside,
                failed,
                as_text=await _binary_text(core, prepared, facts) if is_binary else "",
            )
    for facts in aside:
        _record_kept(core, prepared, facts, reason="attachment", content_tokens=0, replaced=True)
    if aside:
        return Kept(prepared.output, aside[0], aside[1:], origin.is_error)
    if lost:
        is_never = not core.may_store(origin.tool)
        fault = NeverStored(origin.tool, by_dialect=not core.dialect.stores) if is_never else StoreFault(lost)
        return _told_unkept(core, prepared, fault, prepared.output)
    if not prepared.seen:  # it was counted when it came
        core.journal.record(
            "inline", tool=origin.tool, call_id=origin.call_id, seconds=since(prepared.started),
            chars=len(prepared.text or ""), is_error=origin.is_error, **asked_with(core, origin),
        )  # fmt: skip
    return Inline(prepared.output, origin.is_error, origin.traceback)


async def _as_it_came(core: Core, prepared: Prepared) -> Facts:
    """What is shown may end with how its call failed: that is no part of what it wrote."""
    if prepared.keep_failed is not None and (facts := await asyncio.to_thread(prepared.keep_failed)) is not None:
        return facts
    source, origin = prepared.source, prepared.origin
    if prepared.broken is not None:
        source, origin = prepared.broken.parts, replace(origin, is_error=False)
    return await keep(core, source, origin, notes=prepared.notes, look_time=prepared.look_time)


async def _binary_text(core: Core, prepared: Prepared, facts: Facts) -> str:
    """Of what fits and is no text: its notice; of what is nearly a text that, and where it is as it came."""
    note = part_kept_note("binary data", facts.measure.bytes, handle=core.handle_of(facts))
    if 0 not in (data := cast("bytes", prepared.source)):
        return f"{value_as_text(data)}\n{note}"
    if core.dialect.shorten is None:
        with contextlib.suppress(StoreFault, OSError):
            return (await notice_of(core, facts))[0]
    return note


async def _noticed(
    core: Core,
    prepared: Prepared,
    facts: Facts,
    aside: tuple[Facts, ...],
    decision: Keep,
    view: View | None,
    told: str = "",
) -> Taken:
    """`told` is the notice that it has already: its call has come again."""
    handle = core.handle_of(facts)
    if view is None:
        if prepared.text is None:
            content: object = blob_note("binary data", facts.measure.bytes, handle=handle)
        else:
            beginning_only = prepared.at_rest and prepared.is_part
            cut = replace(_cut(core, prepared, decision, None, handle=handle), in_part=is_kept_in_part(facts))
            content = shorten_by(core, both_ends=not beginning_only)(cut)
            content = with_end(content, facts) if isinstance(content, str) else content
            content = _with_ended(prepared, content)
        text = value_as_text(content)
        shown = shared_beginning(prepared.text or "", text)
    else:
        text, shown = (told, ()) if told else core.written(view)
        core.issue(text)
        content = prepared.parts.with_text(text) if prepared.parts is not None else text
    if prepared.parts is not None:
        parts = replace(prepared.parts, whole=content)
        parts, more = await keep_beside(core, prepared, parts, changed=True, twin=facts)
        content, aside = parts.whole, (*aside, *more)
    if told:
        return Kept(content, facts, aside, prepared.origin.is_error or facts.state in _OF_AN_ERROR)
    spans = [[0, facts.measure.bytes]] if prepared.read else [span.as_list() for span in shown]
    _record_kept(
        core, prepared, facts, reason=decision.reason, content_tokens=core.count(text), replaced=True, shown=spans
    )
    note_down(core, facts, text, view, shown if view is None else ())
    for other in aside:
        _record_kept(core, prepared, other, reason="attachment", content_tokens=0, replaced=True)
    return Kept(content, facts, aside, prepared.origin.is_error or facts.state in _OF_AN_ERROR)


def _with_ended(prepared: Prepared, content: object) -> object:
    """With how the call failed: that stands behind what it wrote, of which the end may be missing."""
    reason = reason_in(prepared.ended)
    return f"{content}\n[{reason}]" if reason and isinstance(content, str) and reason not in content else content


def shorten_by(core: Core, *, both_ends: bool = True) -> Callable[[Cut], object]:
    """The dialect's own way, or the plain one that shows a beginning."""
    from holdall.wire.dialects.cutting import clamped  # noqa: PLC0415 - few outputs are shortened

    own = core.dialect.shorten
    if not both_ends or own is None:
        return clamped
    if core.dialect.name in DIALECTS:
        return own
    return lambda cut: core.checked(
        lambda: own(cut), cut.handle, lambda: clamped(cut), text_of=value_as_text, most=cut.limits.bytes or 0
    )


async def _unkept(
    core: Core, prepared: Prepared, fault: HoldallError, decision: Keep, room: int | None, total: int | None = None
) -> Unkept:
    prepared, content = await asyncio.to_thread(_shortened, core, with_text(prepared), fault, decision, room, total)
    if prepared.parts is not None:
        parts = replace(prepared.parts, whole=content)
        parts, aside = await keep_beside(core, prepared, parts, changed=True, fault=str(fault))
        content = parts.whole
        for facts in aside:
            _record_kept(core, prepared, facts, reason="attachment", content_tokens=0, replaced=True)
    return _told_unkept(core, prepared, fault, content)


def _shortened(
    core: Core, prepared: Prepared, fault: HoldallError, decision: Keep, room: int | None, total: int | None
) -> tuple[Prepared, object]:
    """What is shown of it. In a thread: it may be hundreds of megabytes."""
    if decision.reason == "mark" or (not prepared.seen and core.imitates(prepared.text)):
        said = without_mark(prepared.text or "", core.marks)
        prepared = replace(prepared, text=said, output=prepared.parts.with_text(said) if prepared.parts else said)
    if decision.reason == "mark":
        return prepared, prepared.output
    if prepared.text is None:
        return prepared, blob_note("binary data", tokens_of(core, prepared), why=str(fault))
    # Of a stream only the beginning is at hand: there are no two ends to show.
    shorten = shorten_by(core, both_ends=not _is_incomplete(prepared))
    cut = _cut(core, prepared, decision, room, why=str(fault))
    content: object = shorten(cut if total is None else replace(cut, total_bytes=total))
    return prepared, _with_ended(replace(prepared, ended=without_mark(prepared.ended, core.marks)), content)


def _told_unkept(core: Core, prepared: Prepared, fault: HoldallError, content: object) -> Unkept:
    origin = prepared.origin
    core.journal.record(
        "unkept", tool=origin.tool, call_id=origin.call_id, seconds=since(prepared.started), why=str(fault),
        fault=type(fault).__name__, is_error=origin.is_error, **asked_with(core, origin),
    )  # fmt: skip
    return Unkept(content, fault, origin.is_error, origin.traceback)


def _cut(core: Core, prepared: Prepared, decision: Keep, room: int | None, *, handle: str = "", why: str = "") -> Cut:
    """How much of it may be shown, in bytes and lines, even if the limit that it exceeds is in tokens."""
    limits, text = prepared.limits, prepared.text or ""
    result = prepared.output if take_apart(prepared.output) is not None else text
    most = min(limits.bytes or MAX_BYTES, limits.chars or MAX_BYTES)
    tokens = min((n for n in (limits.tokens, room) if n is not None), default=None)
    tokens_over: Callable[[str], float] | None = None
    if tokens is not None and decision.reason in ("tokens", "room", "bytes"):
        tokens_over = partial(_tokens_over, core, tokens)
        # From its own size on: down from a far larger one all tries would give the whole.
        most = _within_tokens(
            core, min(most, len(encode(text)[0])), tokens,
            lambda most: clamp_text(text, max_bytes=most, max_lines=None, suffix="").text,
        )[0]  # fmt: skip
    shown = replace(limits, bytes=most, chars=None, tokens=None)
    incomplete = _is_incomplete(prepared)
    is_room = decision.reason == "room"
    return Cut(
        result, shown, limits, is_room, handle, why, new_tag(), incomplete=incomplete, tokens_over=tokens_over,
        total_bytes=None if handle or incomplete else len(encode(text)[0]),
    )  # fmt: skip


def update_within_limits(core: Core, partial: object, tool: str) -> object:
    """A partial update, or less of its text: within the limits of a result, and S4's where a dialect has none."""
    limits = core.limits_for(tool)
    most = min(limits.bytes or MAX_BYTES, limits.chars or MAX_BYTES)
    lines, tag = limits.lines or MAX_LINES, new_tag()
    suffix = suffix_for(limits.bytes or MAX_BYTES, lines, max_chars=limits.chars, max_tokens=limits.tokens)

    apart = take_apart(partial)
    is_value = apart is None or any(json_of(block) is not None for block in apart.blocks or ())
    if is_value and not _is_within(core, value_text(partial)[0], limits):
        partial = value_text(partial)[0]  # of a value a part is no value

    def clamped(most: int) -> tuple[object, str]:
        shown = clamp_result(partial, Limits(bytes=most, lines=lines), suffix=suffix, tag=tag)
        parts = None if isinstance(shown, str) else take_apart(shown)
        return shown, shown if isinstance(shown, str) else (parts.text or "") if parts is not None else ""

    if limits.tokens is None:
        return clamped(most)[0]
    over = limits.tokens
    return fitted(most, least=256, make=clamped, over=lambda made: core.count(made[1]) / over)[1][0]


def _is_within(core: Core, text: str, limits: Limits) -> bool:
    lines, size = limits.lines or MAX_LINES, limits.bytes or MAX_BYTES
    bounds = replace(limits, bytes=min(size, limits.chars or size), lines=lines)
    return isinstance(decide(text, limits=bounds, tokenizer=core.tokenizer), Fits)


def _is_incomplete(prepared: Prepared) -> bool:
    return prepared.is_part or prepared.fault is not None


async def _with_head(core: Core, prepared: Prepared, facts: Facts) -> Prepared:
    """With as much of what is in the store already as a dialect shows that shows the beginning.

    What came from a call is too large to be held; what was kept earlier is read whole, if it is not too large.
    """
    size = facts.measure.bytes
    if not facts.measure.utf8:
        return replace(prepared, text=None)
    most = min(prepared.limits.bytes or MAX_BYTES, size)
    if prepared.at_rest:
        most = size if size <= _MAX_WHOLE else most + 4  # a char that is cut in two is behind what is shown
    head = await core.on(facts.handle, lambda reader: reader.read(0, most))
    text = head.decode("utf-8", "replace")
    return replace(prepared, output=text, text=text, is_part=most < size)


def _within_tokens(core: Core, most: int, tokens: int | None, cut: Callable[[int], str]) -> tuple[int, str]:
    """How many bytes may be shown so that they have at most this many tokens, and what `cut` makes of them."""
    return fitted(
        most, least=_MIN_BYTES, make=cut, over=lambda text: 0.0 if tokens is None else _tokens_over(core, tokens, text)
    )


def _tokens_over(core: Core, most: int, text: str) -> float:
    return core.count(text) / max(1, most)


def _record_kept(
    core: Core, prepared: Prepared, facts: Facts, *, reason: str, content_tokens: int, replaced: bool,
    shown: Sequence[Sequence[int]] | None = None,
) -> None:  # fmt: skip
    more = {} if shown is None else {"shown": shown}
    if prepared.at_rest and core.journal.coverage(facts.handle).kept:  # it was counted when it was kept
        core.journal.record(
            "retrieved", handle=facts.handle, tool=prepared.origin.tool, call_id=prepared.origin.call_id,
            seconds=since(prepared.started), verb="shown", tokens=content_tokens, **more,
        )  # fmt: skip
        return
    core.journal.record(
        "kept", handle=facts.handle, tool=prepared.origin.tool, call_id=prepared.origin.call_id,
        seconds=since(prepared.started), reason="command" if prepared.at_rest else reason, bytes=facts.measure.bytes,
        tokens=facts.measure.tokens, content_tokens=content_tokens,
        replaced=replaced and facts.handle not in prepared.for_text,
        is_error=prepared.origin.is_error, **asked_with(core, prepared.origin), **more,
        **({} if facts.state == "ready" else {"state": facts.state}),
    )  # fmt: skip


async def notice_of(core: Core, facts: Facts) -> tuple[str, tuple[Span, ...]]:
    """The notice of a kept output, and the bytes that are in it. It stands alone: where it is needed, the output that
    it could be compared with may be gone from the conversation."""
    text, shown = core.written(await view_of(core, facts.handle, alone=True))
    return core.issue(text), shown


def record_replaced(core: Core, facts: Facts, text: str, shown: Sequence[Span] | None, *, reason: str) -> None:
    """That `text` is now in the place of an output which was in the conversation. `shown` are the bytes of it that the
    model has seen; None for all.
    """
    whole = (Span(0, facts.measure.bytes),)
    core.journal.record(
        "kept", handle=facts.handle, tool=facts.origin.tool, call_id=facts.origin.call_id, reason=reason,
        bytes=facts.measure.bytes, tokens=facts.measure.tokens, content_tokens=core.count(text), replaced=True,
        shown=[span.as_list() for span in (whole if shown is None else shown)],
    )  # fmt: skip
    note_down(core, facts, text, None)


def _with_short_traceback(prepared: Prepared) -> Prepared:
    trace = prepared.origin.traceback
    if len(trace) <= _TRACEBACK_BYTES:
        return prepared
    return replace(prepared, origin=replace(prepared.origin, traceback=_short(trace)))


def short_traceback(problem: BaseException) -> str:
    return _short(traceback_of(problem))


def _short(trace: str) -> str:
    return (
        clamp_text(trace, max_bytes=_TRACEBACK_BYTES, max_lines=None).text if len(trace) > _TRACEBACK_BYTES else trace
    )
