"""The page of one output, and what its scripts ask for. Everything is a GET that changes nothing.

A page is small and the same for every size: rows, trees and tables come as they are looked at. Answers for scripts are
JSON in ASCII; a refusal has the message of the error. The bytes themselves are only ever sent as a download.
"""

import asyncio
import contextlib
import functools
import json
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Literal, NamedTuple, TypeVar, cast
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from holdall.agent.transcript import entry_in
from holdall.bag import Holdall
from holdall.formats.kinds import PACKED
from holdall.formats.registry import format_of
from holdall.policy.folds import PERSON, Coverage
from holdall.policy.folds import WAYS as USED
from holdall.text.escape import named
from holdall.text.numbers import number, whole
from holdall.text.ranges import whole_number
from holdall.values.chat import ToolResult
from holdall.values.errors import BadRange, HoldallError, NothingFound, StoreFault, UnknownHandle
from holdall.values.events import Event
from holdall.values.extraction import Check
from holdall.values.handles import MEMBER
from holdall.values.outputs import RUNNING, UNTIMED, Facts
from holdall.values.record import record
from holdall.values.spans import Span, Totals
from holdall.web import figures
from holdall.web import output_data as asking
from holdall.web.output_rows import WAYS, By, Place, Reader
from holdall.web.state import render, state_of
from holdall.web.timeline import asked_of, member_in_address, output_address
from holdall.wire.answers import told_difference
from holdall.wire.verbs import WAIT

# A tool call as the model saw it.
#
# An agent's transcript, or else the note beside the output, has the very text that went to the model. Where there is
# neither, nothing stands for it: what is built now would not be what the model got.


_LONGEST = 64 * 1024  # characters on the page: what went to a model is seldom longer


@record
class Notice:
    """`kept`: from the transcript. `noted`: from the note beside the output. `whole`: the model got the output itself.
    `unrecorded`: nobody wrote it down. `part`: it is a part of an output, which has the notice.
    """

    text: str
    how: Literal["kept", "noted", "whole", "running", "unrecorded", "missing", "part"]
    later: str = ""  # what stands in its place since messages were replaced
    left: int = 0  # characters that are not on the page
    for_person: bool = False  # it was shown to a person, on the command line, and to no model
    announced: str = ""  # what the model was given when the call went to the background
    for_nobody: bool = False  # it is, or was, written by a command or a program: no call of it went to the background


async def notice_of(bag: Holdall, facts: Facts) -> Notice:
    """Never raises for an output that cannot be read: then there is no notice, and it says why."""
    if MEMBER in facts.handle:
        return Notice("", "part")
    if facts.origin.call_id:
        told = await asyncio.to_thread(_in_transcript, bag, facts.origin.call_id)
        if told:
            last = told[-1] if told[-1] != told[0] else ""
            return Notice(told[0][:_LONGEST], "kept", last[:_LONGEST], max(0, len(told[0]) - _LONGEST))
    try:
        announced = await announced_text(bag, facts)
        if facts.state in RUNNING:
            went = announced or await asyncio.to_thread(_is_of_model, bag, facts)
            return Notice("", "running", announced=announced, for_nobody=not went)
        was_whole, for_person, for_nobody = await asyncio.to_thread(_shown_as, bag, facts)
        if noted := await noticed_text(bag, facts):
            return Notice(noted[:_LONGEST], "noted", "", max(0, len(noted) - _LONGEST), for_person, announced)
        how = "whole" if was_whole else "unrecorded"
        return Notice("", how, for_person=for_person, announced=announced, for_nobody=for_nobody)
    except HoldallError as problem:
        return Notice(str(problem), "missing")


def _shown_as(bag: Holdall, facts: Facts) -> tuple[bool, bool, bool]:
    """Whether it was shown as it is when it came, and kept as well; whether that was to a person, and no model; and
    whether it was written bit by bit with no call that a model could be told of.
    """
    whole = (Span(0, facts.measure.bytes),)
    events = [one for one in bag.records.events() if one.handle == facts.handle and one.kind in ("kept", "running")]
    kept = [one for one in events if one.kind == "kept"]
    for_person = bool(events) and all(one.data.get("reader") == PERSON for one in events)
    for_nobody = not events and facts.ended != facts.created and facts.state != "expired"
    return any(not one.data.get("replaced") and one.spans("shown") == whole for one in kept), for_person, for_nobody


def _is_of_model(bag: Holdall, facts: Facts) -> bool:
    """Whether it went to the background in a call that a model made."""
    told = (one for one in bag.records.events() if one.kind == "running" and one.handle == facts.handle)
    return any(one.data.get("reader") != PERSON for one in told)


async def announced_text(bag: Holdall, facts: Facts) -> str:
    """What was noted down when its call went to the background; "" if nothing was."""
    noted = await asyncio.to_thread(bag.records.announced, facts.handle)
    return noted.text[:_LONGEST] if noted is not None else ""


async def noticed_text(bag: Holdall, facts: Facts) -> str:
    """What was noted down when the model got it; "" if nothing was. Its beginning may be that of the output."""
    noted = await asyncio.to_thread(bag.records.noticed, facts.handle)
    if noted is None:
        return ""
    after = min(max(noted.after, 0), 4 * _LONGEST)  # a note may have come with a bundle
    beginning = await bag.core.on(facts.handle, lambda reader: reader.read(0, after)) if after else b""
    return _text(beginning) + noted.text


def _in_transcript(bag: Holdall, call_id: str) -> list[str]:
    """The first and the last text that the model was given for this call: recovery may have replaced the first one."""
    name = json.dumps(call_id).encode("ascii")
    told: list[str] = []
    for line in bag.records.transcript_lines():
        if name not in line:
            continue
        try:
            flat: object = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(flat, Mapping):
            message = cast("Mapping[str, Any]", flat)
            if message.get("role") == "tool" and message.get("call_id") == call_id:
                text = str(message.get("text", ""))
                told[1:] = [text] if told and told[0] != text else []
                told = told or [text]
    return told


# What models have quoted from an output, and whether it is there.
#
# The events of a session tell of each question where its quotes stand and how sure that is. The words are read from the
# stored bytes, which are checked: what is shown as verified is there now. A quote that is nowhere, or that the model
# changed, has the model's own words, from the event.


Badge = Literal["verified", "near", "unverified"]
_MAX_QUESTIONS = 50  # the newest
_MAX_QUOTES = 40  # of one question
_QUOTE_BYTES = 600
_QUESTION = 4000  # characters of a question, and of a model's own words
_ASKED = ("question", "strategy", "model", "found", "snippets", "verified", "quotes", "member")
_THERE = ("exact", "loose", "near")
_BADGES: dict[Check, Badge] = {"exact": "verified", "loose": "verified", "near": "near", "none": "unverified"}


@record
class Quote:
    text: str
    check: Check
    span: Span | None  # None if it is nowhere; then the words are the model's
    left: int = 0  # bytes that are not in `text`
    said: str = ""  # the model's words, where it changed them

    @property
    def badge(self) -> Badge:
        return _BADGES[self.check]


@record
class Question:
    """`missing` quotes were counted when it was asked, and their words were not kept."""

    at: float
    text: str
    strategy: str
    model: str
    found: bool | None  # None where no model could look
    quotes: Sequence[Quote]
    missing: int = 0
    unverified: int = 0  # of those that are missing
    of: str = ""  # the handle whose bytes the quotes are: of an output, or of what is packed in it


def _about(events: Iterable[Event], handle: str) -> Iterator[Event]:
    """Those of an output, or of a member of it: the log has its name and its bytes with the handle of what it is in."""
    outer, mark, member = handle.partition(MEMBER)
    for event in events:
        if event.handle != outer:
            continue
        if not mark:
            yield event
        elif event.data.get("member") == member or event.kind == "called":
            inside: object = event.data.get("in_member")
            own = cast("dict[str, Any]", inside) if isinstance(inside, dict) else {}
            yield replace(event, data={**event.data, **{way: own.get(way) for way in USED}})


def _asking(events: Iterable[Event], handle: str) -> Iterator[Event]:
    """The same, and each call that waited: it may tell several outputs, so it names none."""
    for event in events:
        waited = event.kind == "called" and event.tool == WAIT.tool and not event.handle
        yield from (event,) if waited else _about((event,), handle)


async def questions_about(bag: Holdall, facts: Facts) -> list[Question]:
    """Newest first."""
    asked = await asyncio.to_thread(lambda: _asked(_about(bag.records.events(), facts.handle)))
    return [await _question(bag, facts, event, shown) for event, shown in reversed(asked)]


def _asked(events: Iterable[Event]) -> Sequence[tuple[Event, Sequence[Span]]]:
    """The newest questions, each with what its answer showed: the event of the answer follows that of the question.

    Only what the page shows of an event is held: a log may have come with a bundle.
    """
    found: deque[tuple[Event, Sequence[Span]]] = deque(maxlen=_MAX_QUESTIONS)
    is_open = False
    for event in events:
        if event.kind == "extracted":
            found.append((replace(event, data={name: _short(event.data.get(name)) for name in _ASKED}), ()))
            is_open = True
        elif is_open and event.kind == "retrieved" and event.data.get("verb") == "extract":
            found[-1] = found[-1][0], event.spans("shown")[:_MAX_QUOTES]
            is_open = False
    return found


def _short(value: Any, levels: int = 2) -> Any:
    if isinstance(value, list):
        return [_short(one, levels - 1) for one in cast("list[object]", value)[:_MAX_QUOTES]] if levels else None
    return value[:_QUESTION] if isinstance(value, str) else value if isinstance(value, int | float) else None


async def _question(bag: Holdall, facts: Facts, event: Event, shown: Sequence[Span]) -> Question:
    data = event.data
    kept: object = data.get("quotes")
    whose = asked_of(facts.handle, data)
    total, proved = whole(data.get("snippets")), whole(data.get("verified"))

    def look(reader: Reader) -> list[Quote]:
        if isinstance(kept, list):
            found = [_checked(reader, one) for one in cast("list[object]", kept)[:_MAX_QUOTES]]
            return [one for one in found if one is not None]
        return [_read(reader, span, "exact") for span in shown[:_MAX_QUOTES]]

    try:
        quotes = await bag.core.on(whose, look)
    except HoldallError:  # the output is gone or damaged: nothing of it can be shown as proved
        quotes = []
    seen = sum(one.badge == "verified" for one in quotes)
    return Question(
        event.at, str(data["question"] or ""), named(data["strategy"] or ""), named(data["model"] or "", 200),
        data.get("found", True), quotes, max(0, total - len(quotes)),
        max(0, total - proved - (len(quotes) - seen)), whose,
    )  # fmt: skip


def _checked(reader: Reader, told: object) -> Quote | None:
    """As the event has it: `[start, end, check]`, and the model's words where it is nowhere, or the model changed it.
    None for anything else.
    """
    match told:
        case [int(), int(), "none", str(words)]:
            return Quote(words, "none", None)
        case [int(start), int(end), "near", str(words)] if 0 <= start < end <= reader.totals.bytes:
            return replace(_read(reader, Span(start, end), "near"), said=words)
        case [int(start), int(end), str(check)] if check in _THERE and 0 <= start < end <= reader.totals.bytes:
            return _read(reader, Span(start, end), cast("Check", check))
        case _:
            return None


def _read(reader: Reader, span: Span, check: Check) -> Quote:
    data = reader.read(span.start, min(span.end, span.start + _QUOTE_BYTES))
    return Quote(_text(data), check, span, max(0, span.end - span.start - len(data)))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


# What of an output was asked for, and which bytes the answers showed.


_RETRIEVALS = 40  # of one answer
_MAX_SPANS = 12  # of one retrieval
_EXCERPT = 300  # bytes
_ANSWER = 2000  # characters


@record
class Retrieval:
    """`asked` are the options. `told` is the answer where a transcript has it; else `excerpt` is what it showed. Of a
    diff the answer is with one of its two outputs: for the other one that is the one `beside` it.
    """

    at: float
    kind: str
    name: str
    seconds: float
    tokens: int
    asked: Sequence[tuple[str, str]] | None
    why: str
    shown: Sequence[Span]
    more: int  # ranges that are not listed
    scanned: int  # bytes
    call_id: str = ""
    told: str = ""
    left: int = 0  # characters of the answer that are not in `told`
    excerpt: str = ""
    excerpt_left: int = 0  # bytes that were shown and are not in `excerpt`
    beside: str = ""


async def retrievals_of(bag: Holdall, facts: Facts, before: int | None) -> tuple[list[Retrieval], int]:
    """The newest first, those before number `before`; and how many are older."""

    def gathered() -> tuple[list[Retrieval], int]:
        found, older = _retrievals(bag.records.events(), facts.handle, before)
        return _with_answers(bag, found), older

    found, older = await asyncio.to_thread(gathered)

    def look(reader: Reader) -> list[Retrieval]:
        return [one if one.told or not one.shown else _with_excerpt(reader, one) for one in found]

    with contextlib.suppress(HoldallError):  # the output is gone: what was asked is still known
        return await bag.core.on(facts.handle, look), older
    return found, older


def _retrievals(events: Iterable[Event], handle: str, before: int | None) -> tuple[list[Retrieval], int]:
    """An agent's log has a call after what it retrieved, in the same order."""
    count = 0
    found: deque[Retrieval] = deque(maxlen=_RETRIEVALS)
    for event in _asking(events, handle):
        if event.kind in ("retrieved", "refused", "passed"):
            if before is not None and count >= before:
                if count >= before + _RETRIEVALS:
                    break
            else:
                found.append(_retrieval(event))
            count += 1
        elif event.kind == "called" and event.data.get("outcome") == "answer" and event.call_id:
            at = next(
                (at for at, one in enumerate(found) if one.name == event.tool and not (one.call_id or one.beside)), None
            )
            if at is not None:
                # Its answer is noted down when the room of its turn is shared, after the slowest of the other calls.
                found[at] = replace(found[at], call_id=event.call_id, seconds=number(event.seconds))
    shown = count if before is None else min(count, before)
    return [*reversed(found)], shown - len(found)


def _with_answers(bag: Holdall, found: Sequence[Retrieval]) -> list[Retrieval]:
    """With what the transcript says that each call was answered: the first time, in one pass."""
    wanted = {one.call_id for one in found if one.call_id}
    told: dict[str, str] = {}
    for line in bag.records.transcript_lines() if wanted else ():
        said = entry_in(line) if b'"tool"' in line else None
        if isinstance(said, ToolResult) and said.call_id in wanted:
            told.setdefault(said.call_id, said.text)
    return [
        replace(one, told=text[:_ANSWER], left=max(0, len(text) - _ANSWER))
        for one in found
        for text in (told.get(one.call_id, ""),)
    ]


def _retrieval(event: Event) -> Retrieval:
    data, shown = event.data, event.spans("shown") or event.spans("passed")
    options: object = data.get("asked")
    asked = cast("Mapping[str, object]", options) if isinstance(options, Mapping) else None
    name = str(data.get("name") or data.get("verb") or "")
    return Retrieval(
        event.at, event.kind, name[:100] or event.tool[:100], number(event.seconds), whole(data.get("tokens")),
        None if asked is None else [(str(key)[:40], _option(value)) for key, value in list(asked.items())[:20]],
        str(data.get("why") or "")[:_QUESTION], shown[:_MAX_SPANS], len(shown[_MAX_SPANS:]),
        sum(span.end - span.start for span in event.spans("scanned")),
        beside=str((asked or {}).get("other") or "")[:_LONGEST_HANDLE] if data.get("part") else "",
    )  # fmt: skip


def _option(value: object) -> str:
    return value[:_QUESTION] if isinstance(value, str) else json.dumps(value, default=str)[:_QUESTION]


def _with_excerpt(reader: Reader, one: Retrieval) -> Retrieval:
    span, total = one.shown[0], sum(span.end - span.start for span in one.shown)
    data = reader.read(span.start, min(span.end, span.start + _EXCERPT))
    return replace(one, excerpt=_text(data), excerpt_left=total - len(data))


@record
class Seen:
    """How much there is of an output, and how much of that a model has seen; of a running one, so far."""

    facts: Facts
    total: Totals
    bar: figures.CoverageBar
    seconds: float  # how long its call took, or runs
    at_least: bool = False  # no more is known of that

    @staticmethod
    def of(facts: Facts, total: Totals, coverage: Coverage, now: float, logged: "Took | None" = None) -> "Seen":
        """`logged` is how long the log says that its call took. Of a command the record knows more: the log has it when
        it had ended."""
        end = now if facts.state in RUNNING else facts.ended or facts.created
        took = 0.0 if facts.state in UNTIMED else end - coverage.runs_since(facts.created)
        logged = logged or Took()
        bar = figures.coverage_bar(coverage, total.bytes)
        return Seen(facts, total, bar, max(logged.seconds, took), logged.at_least)

    @property
    def runs(self) -> bool:
        return self.facts.state in RUNNING


@record
class Took:
    """How long a call took, as the log has it; `at_least` that long where its process was killed."""

    seconds: float = 0.0
    at_least: bool = False


def took(events: Iterable[Event]) -> dict[str, Took]:
    """By handle: how long calls took that went to the background, those of an agent, and all others that were kept."""
    known, kept = dict[str, Took](), dict[str, Took]()
    for event in events:
        if event.kind == "ended" or (event.kind == "called" and event.data.get("outcome") == "kept"):
            known[event.handle] = Took(number(event.seconds), event.data.get("at_least") is True)
        elif event.kind == "kept":
            kept[event.handle] = Took(number(event.seconds))
    return kept | known


_LONG_LINES = 1000  # bytes of an average line from which on an output is shown by bytes
_TREE_SECONDS, _MORE_SECONDS, _WAY_SECONDS = 2.0, 30.0, 5.0
_PIECE = 256 * 1024
_LONGEST_HANDLE = 300  # of one to compare it with
_OTHERS = 200  # outputs that it can be compared with by a choice
_ADDRESS = "/s/{session}/o/{handle}"
T = TypeVar("T")
_Ask = Callable[[Request, Holdall, str], Awaitable[dict[str, Any]]]


async def page(request: Request) -> Response:
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        coverage = await bag.records.coverage(facts.handle)
        total, gone = await asking.totals(bag, facts)
        logged = await asyncio.to_thread(lambda: took(bag.records.with_lost_ends(bag.records.events())))
        return render(
            request, "output.html", session=bag.session, facts=facts, total=total, gone=gone,
            by=_best_view(facts, total), views=[] if gone else await asking.views(bag, facts),
            seen=Seen.of(facts, total, coverage, time.time(), logged.get(facts.handle)),
            base=_base(request, bag, facts.handle),
            arguments=_written(facts.origin.arguments), expires=_expires(bag, facts),
            other=request.query_params.get("other", "")[:_LONGEST_HANDLE], is_packed=facts.measure.kind in PACKED,
            part=await _part(request, bag, facts) if MEMBER in facts.handle else None,
        )  # fmt: skip


class _Part(NamedTuple):
    outer: str
    href: str
    name: str  # where the handle has only its number


async def _part(request: Request, bag: Holdall, facts: Facts) -> _Part:
    """What a member is in, and its name."""
    outer, _, member = facts.handle.rpartition(MEMBER)
    name = ""
    try:
        around = await bag.show(outer)
    except HoldallError:  # the sign is in the name of the member
        around = await bag.show(outer.partition(MEMBER)[0])
    if member.startswith("#"):
        found, _, _ = await asking.members(bag, around)
        name = next((one.name for one in found if one.member == member), "")
    return _Part(around.handle, _base(request, bag, around.handle), name)


def _expires(bag: Holdall, facts: Facts) -> float:
    """When it goes by itself; 0 if it does not, or has."""
    if facts.state in ("expired", *RUNNING):
        return 0.0
    at = bag.session.retention.expires_at(facts.ended or facts.created)
    return at if math.isfinite(at) else 0.0


async def notice(request: Request) -> Response:
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        return render(request, "output_notice.html", facts=facts, notice=await notice_of(bag, facts))


async def quotes(request: Request) -> Response:
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        asked = [(one, _base(request, bag, one.of)) for one in await questions_about(bag, facts)]
        return render(request, "output_quotes.html", questions=asked, facts=facts)


async def seen_facts(request: Request) -> Response:
    """The facts of a running output that change: asked for again until it has ended."""
    return render(request, "output_seen.html", **await _seen_now(request))


async def table_row(request: Request) -> Response:
    """Its row in the list of outputs, likewise."""
    return render(request, "output_row.html", **await _seen_now(request))


async def _seen_now(request: Request) -> dict[str, Any]:
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        total, _ = await asking.totals(bag, facts)
        seen_now = Seen.of(facts, total, await bag.records.coverage(facts.handle), time.time())
        return {"seen": seen_now, "session": bag.session, "base": _base(request, bag, facts.handle)}


async def retrievals(request: Request) -> Response:
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        found, older = await retrievals_of(bag, facts, _number_asked(request, "before"))
        return render(
            request, "output_retrievals.html", found=found, older=older, base=_base(request, bag, facts.handle),
            pages={one.beside: _base(request, bag, one.beside) for one in found},
        )  # fmt: skip


async def compare(request: Request) -> Response:
    """How it differs from another output of its session: the last before it of the same tool, or one that is named."""
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        ended = [one for one in await bag.outputs() if one.state != "expired" and one.handle != facts.handle]
        same = [one for one in ended if one.origin.tool == facts.origin.tool]
        newest = sorted(ended, key=lambda one: one.place, reverse=True)
        others = sorted(newest, key=lambda one: one.origin.tool != facts.origin.tool)
        before = (one.handle for one in others[: len(same)] if one.place < facts.place)
        # The archive that a part is in, or another one, is no earlier version of it: somebody has to choose.
        likely = "" if MEMBER in facts.handle else next(before, same[0].handle if same else "")
        other = request.query_params.get("other") or likely
        found, problem = None, ""
        try:
            if other:
                pair = sorted((facts, await bag.show(other)), key=lambda one: one.place)
                skip = _number_asked(request, "skip", 0) or 0
                found = await _while_there(request, asking.difference(bag, pair[0].handle, pair[1].handle, skip))
        except HoldallError as problem_found:
            problem = str(problem_found)
        offered = others[:_OTHERS] + [one for one in others[_OTHERS:] if one.handle == other]
        return render(
            request, "output_compare.html", session=bag.session, facts=facts, others=offered, other=other,
            more=len(others) - len(offered), found=found, problem=problem,
            summary=told_difference(found) if found else "", is_rest="skip" in request.query_params,
            base=_base(request, bag, facts.handle),
        )  # fmt: skip


def _handle(request: Request) -> str:
    outer, mark, member = str(request.path_params["handle"]).partition(MEMBER)
    return f"{outer}{mark}{unquote(member.replace('~', '%'))}"


def _base(request: Request, bag: Holdall, handle: str) -> str:
    return f"{request.scope['root_path']}{output_address(bag.session.id, handle)}"


async def parts(request: Request) -> Response:
    """What is packed in it, each with a page of its own."""
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        found, total, problem = await asking.members(bag, facts)
        base = _base(request, bag, facts.handle)
        links = [(one.name or one.member, one.bytes, f"{base}{MEMBER}{member_in_address(one.member)}") for one in found]
        return render(request, "output_parts.html", parts=links, total=total, problem=problem)


async def raw(request: Request) -> Response:
    """The bytes exactly as they are kept, never as something that a browser would show."""
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        size = (await asking.so_far(bag, facts.handle)).bytes
    name = _file_name(_handle(request), facts)
    headers = {"content-disposition": f'attachment; filename="{name}"', "accept-ranges": "bytes"}
    try:
        asked = _range_of(request.headers.get("range", ""), size)
    except BadRange:
        return Response(status_code=416, headers=headers | {"content-range": f"bytes */{size}"})
    span = asked or Span(0, size)
    headers["content-length"] = str(span.end - span.start)
    if asked:
        headers["content-range"] = f"bytes {span.start}-{span.end - 1}/{size}"
    status = 206 if asked else 200
    if request.method == "HEAD" or span.start == span.end:
        return Response(status_code=status, headers=headers, media_type="application/octet-stream")
    return StreamingResponse(_bytes(request, facts, span), status, headers, media_type="application/octet-stream")


def _file_name(handle: str, facts: Facts) -> str:
    """Of a member its own; only what every system can have in a name."""
    outer, _, member = (facts.handle if MEMBER in facts.handle else handle).partition(MEMBER)
    if not member:
        return f"{facts.handle.rstrip(MEMBER)}.{format_of(facts.measure.kind).ending}"
    last = member.rstrip("/").rpartition("/")[2]
    plain = (sign if sign.isascii() and (sign.isalnum() or sign in "._-") else "_" for sign in last)
    return f"{outer}-{''.join(plain)[-80:]}"


async def _bytes(request: Request, facts: Facts, span: Span) -> AsyncIterator[bytes]:
    async with state_of(request).session(request.path_params["session"]) as bag:
        try:
            async for chunk in bag.fetch.stream(facts.handle, span):
                yield chunk
        except HoldallError as problem:  # the answer has begun: it can only be broken off, and the log says why
            raise ConnectionAbortedError(str(problem)) from None


async def _while_there(request: Request, work: Awaitable[T]) -> T | None:
    """What is done for one who has left, or asks something else by now, ends: the next question would wait for it."""

    async def left() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    asked, gone = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else None
    finally:
        for one in (asked, gone):
            one.cancel()
        await asyncio.wait((asked, gone))


def _told(ask: _Ask) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers in JSON, whatever happens."""

    @functools.wraps(ask)
    async def endpoint(request: Request) -> Response:
        try:
            async with state_of(request).session(request.path_params["session"]) as bag:
                facts = await bag.show(_handle(request))
                return _json(await _while_there(request, ask(request, bag, facts.handle)) or {})
        except (NothingFound, UnknownHandle) as problem:
            return _json({"error": str(problem)}, 404)
        except HoldallError as problem:
            return _json({"error": str(problem)}, 500 if isinstance(problem, StoreFault) else 400)

    return endpoint


@_told
async def rows(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    by = request.query_params.get("by", "lines")
    if by not in WAYS:
        raise BadRange(f"rows are shown by {', '.join(WAYS)}.")
    first, count, width = (_number_asked(request, *one) for one in (("from", 0), ("count", 100), ("width", 128)))
    return await asking.rows(bag, handle, cast("By", by), first or 0, count or 1, width or 1)


@_told
async def place(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.place(bag, handle, line=_number_asked(request, "line"), byte=_number_asked(request, "byte"))


@_told
async def search(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    asked = request.query_params
    return await asking.search(
        bag, handle, asked.get("q", ""), ignore_case="case" not in asked, literal="pattern" not in asked,
        start=_number_asked(request, "start", 0) or 0,
    )  # fmt: skip


@_told
async def changes(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.changes(bag, handle, _number_asked(request, "bytes", -1, least=-1) or 0)


@_told
async def seen(_request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.seen(bag, handle)


@_told
async def tree(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    seconds = _MORE_SECONDS if "patient" in request.query_params else _TREE_SECONDS
    return await asking.tree(bag, handle, _number_asked(request, "at"), _page_asked(request), seconds)


def _page_asked(request: Request) -> Place | None:
    byte, index = _number_asked(request, "after"), _number_asked(request, "index", 0)
    return None if byte is None else Place(byte, index or 0)


@_told
async def count(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    at, end = (_number_asked(request, name, 0) or 0 for name in ("at", "end"))
    return await asking.count(bag, handle, at, end, _WAY_SECONDS)


@_told
async def way(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    seconds = _MORE_SECONDS if "patient" in request.query_params else _WAY_SECONDS
    after = _page_asked(request)
    begin = None if after is None else (_number_asked(request, "at"), after)
    return await asking.way(bag, handle, _number_asked(request, "byte", 0) or 0, begin, seconds)


@_told
async def table(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.table(
        bag, handle, _number_asked(request, "from", 2) or 2, _number_asked(request, "count", 100) or 1
    )


@_told
async def query(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.query(bag, handle, _table_query(request))


@_told
async def columns(request: Request, bag: Holdall, handle: str) -> dict[str, Any]:
    return await asking.columns(bag, handle, request.query_params.get("at"))


async def csv(request: Request) -> Response:
    """The whole answer of SQL, as a download. The exact bytes of a table have the name without `-rows`."""
    async with state_of(request).session(request.path_params["session"]) as bag:
        facts = await bag.show(_handle(request))
        rows = await asking.csv_of(bag, facts.handle, replace(_table_query(request), skip=0))
    stem = _file_name(_handle(request), facts).partition(".")[0] if MEMBER in facts.handle else facts.handle
    headers = {"content-disposition": f'attachment; filename="{stem}-rows.csv"'}
    return StreamingResponse(_pieces(rows), headers=headers, media_type="text/csv")


async def _pieces(file: BinaryIO) -> AsyncIterator[bytes]:
    with file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _table_query(request: Request) -> asking.TableQuery:
    asked = request.query_params
    sort, skip = _number_asked(request, "sort", 0) or 0, _number_asked(request, "skip", 0) or 0
    return asking.TableQuery(asked.get("sql", ""), asked.get("at", ""), sort, "down" in asked, skip)


def _json(value: dict[str, Any], status: int = 200) -> Response:
    body = json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=str)
    return Response(body, status, media_type="application/json")


def _number_asked(request: Request, name: str, usual: int | None = None, *, least: int = 0) -> int | None:
    given = request.query_params.get(name)
    if given is None:
        return usual
    try:
        return whole_number(int(given[:20]), name=name, least=least)
    except ValueError:
        raise BadRange(f"{name} is a whole number, not {given[:40]!r}.") from None


def _range_of(header: str, size: int) -> Span | None:
    """One range of RFC 9110. None if there is none, or one that may be ignored. BadRange past the end."""
    unit, _, spec = header.partition("=")
    first, dash, last = spec.strip().partition("-")
    if (
        unit.strip() != "bytes"
        or not dash
        or not all(part.isascii() and (part.isdigit() or not part) for part in (first, last))
    ):
        return None
    if not first:
        if not last:
            return None
        span = Span(max(0, size - int(last[:18])), size)
    else:
        span = Span(int(first[:18]), min(size, int(last[:18]) + 1) if last else size)
        if last and int(last[:18]) < span.start:
            return None
    if span.start >= span.end:
        raise BadRange("the range is past the end.")
    return span


def _best_view(facts: Facts, total: Totals) -> str:
    """By lines where lines are what they should be."""
    is_long = total.bytes > _LONG_LINES * max(1, total.lines)
    return "bytes" if is_long or format_of(facts.measure.kind).is_binary else "lines"


def _written(arguments: object) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, indent=2, ensure_ascii=False, default=str)


_SCRIPTS = {
    "rows": rows, "place": place, "search": search, "changes": changes, "seen": seen, "tree": tree, "count": count,
    "way": way, "table": table, "query": query, "columns": columns,
}  # fmt: skip
routes = [
    Route(_ADDRESS, page, name="output"),
    Route(f"{_ADDRESS}/notice", notice, name="output_notice"),
    Route(f"{_ADDRESS}/quotes", quotes, name="output_quotes"),
    Route(f"{_ADDRESS}/parts", parts, name="output_parts"),
    Route(f"{_ADDRESS}/retrievals", retrievals, name="output_retrievals"),
    Route(f"{_ADDRESS}/compare", compare, name="output_compare"),
    Route(f"{_ADDRESS}/facts", seen_facts, name="output_facts"),
    Route(f"{_ADDRESS}/row", table_row, name="output_row"),
    Route(f"{_ADDRESS}/raw", raw, name="output_raw"),
    Route(f"{_ADDRESS}/csv", csv, name="output_csv"),
    *(Route(f"{_ADDRESS}/{name}", endpoint, name=f"output_{name}") for name, endpoint in _SCRIPTS.items()),
]
