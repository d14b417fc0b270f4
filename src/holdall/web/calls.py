"""The calls of a session as a list: shown whole, kept, refused or in the background, by any agent, client or program.

It is made of the log, gone over once for each page; only the rows of the page are held. The search over all sessions
looks into logs, transcripts and, where a person asks for it, all outputs, for as long as a person waits, and continues
where it stopped.
"""

import asyncio
import heapq
import json
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdall.agent.transcript import entry_in
from holdall.bag import Holdall
from holdall.bag.journal import events_in
from holdall.bag.overview import Mention, Summary
from holdall.policy.folds import is_of_call, unlogged
from holdall.text.escape import as_written, one_line
from holdall.text.numbers import number, whole
from holdall.values.chat import Assistant
from holdall.values.errors import BadPattern, HoldallError, UsageError
from holdall.values.events import Event
from holdall.values.outputs import FAILED, RUNNING, UNTIMED, Facts
from holdall.values.record import record
from holdall.web.conversation import anchor_of, around, parts_of
from holdall.web.figures import in_address, words_in
from holdall.web.output_data import search, totals
from holdall.web.state import ViewerState, render, state_of
from holdall.wire.notes import UNKNOWN_OUTPUT

PAGE = 100  # calls of one answer
_MOST_CALLS = 50_000  # whose arguments a transcript may have
_SHORT = 500  # characters of arguments and of reasons
_LONGEST_SEARCH = 200
_MOST_INSIDE = 20  # outputs of one answer
_SECONDS_INSIDE = 2.0  # of one answer, and what the last output takes
VERDICTS = {
    "shown whole": "its result went to the model as it is",
    "kept": "its result is stored, and the model got a notice with a handle",
    "in the background": "it was slow, or a program wrote it bit by bit: there was a handle while it ran",
    "running": "it has not ended yet",
    "answered": "a question about an output that is kept, and its answer",
    "refused": "a question about an output that was not answered; why, is beside it",
    "not kept": "its result could not be stored; why, is beside it",
    "no answer": "its process ended before anything came back, or it is still waited for",
    "passed on": "an output that is kept went into the arguments of another call",
    "failed": "its result is an error",
    "timed out": "it was ended after its time",
    "cancelled": "its caller, or a person, ended it",
    "interrupted": "its process was killed",
}
_CHARS_OF_TOKEN = 4  # about
_SPAWN = "spawn_agent"
_WAIT = "wait_for_tool_output"
# Its words may be from an output that is gone: they are in no log.
_OF_NO_OUTPUT = "it named no output that is kept"
_UNASKED = "; which one, and what it asked, is not recorded"
_NO_ANSWER = "its process ended before it answered, or runs on another machine; what it gave is not kept"
SORTS = ("newest", "longest", "largest")
_VERDICT = {
    "inline": "shown whole", "kept": "kept", "running": "in the background", "unkept": "not kept",
    "retrieved": "answered", "refused": "refused", "passed": "passed on", "answer": "answered",
    "interrupted": "no answer",
}  # fmt: skip


@record
class Row:
    """One call. `bytes` is what its output has, `chars` what the model got where that was all of it."""

    at: float
    tool: str
    verdict: str
    server: str = ""
    arguments: str = ""
    seconds: float = 0.0
    bytes: int = 0
    chars: int = 0
    tokens: int = 0
    handle: str = ""
    call_id: str = ""
    why: str = ""
    failed: bool = False
    runs: bool = False
    ended: str = "failed"  # how, where it failed
    is_over: bool = False  # it is known to have ended, which not every event tells
    at_least: bool = False  # it was killed: no more is known of how long it took
    opens: str = ""  # of a call of an agent: what its row in the timeline opens to, as an address

    @property
    def size(self) -> int:
        """To compare it with others. Of what was answered outside of an agent only the tokens are known."""
        return self.bytes or self.chars or _CHARS_OF_TOKEN * self.tokens

    @property
    def told(self) -> str:
        """What became of it so far; how it failed stands beside it."""
        if self.runs:
            return "running"
        was_slow = self.verdict == "in the background" and self.is_over and not self.failed
        return "kept, in the background" if was_slow else self.verdict

    @property
    def is_about_output(self) -> bool:
        """It asked an output that was there; else it is the call that made it."""
        return self.verdict in ("answered", "refused", "passed on")

    def has(self, text: str, verdict: str) -> bool:
        """Whether it is among those that are asked for; `text` is in lower case."""
        if verdict and verdict not in (self.verdict, *self.told.split(", "), self.failed and self.ended):
            return False
        ended = self.ended if self.failed else ""
        said = (self.tool, self.server, self.arguments, self.why, self.handle, self.told, ended)
        # A client may number its calls, and the list does not show that: a part of it would be found everywhere.
        return text in ("", self.call_id.lower()) or any(
            form in one.lower() for form in as_written(text) for one in said
        )


def row_of(event: Event) -> Row | None:
    """The call that an event tells of; None if it is about something else."""
    data = event.data
    verdict = _VERDICT.get(str(data.get("outcome")) if event.kind == "called" else event.kind)
    if verdict is None or is_of_call(event) or data.get("op"):
        return None
    is_ours = event.kind in ("retrieved", "refused")
    name = str(data.get("name") or data.get("verb") or "") if is_ours else event.tool
    why, arguments = str(data.get("why") or ""), _arguments(data)
    if event.kind == "refused" and not event.handle and why in ("", UNKNOWN_OUTPUT):
        why = _OF_NO_OUTPUT + ("" if arguments else _UNASKED)
    ended = _ended(data.get("state"))
    return Row(
        event.at - event.seconds, name[:200], verdict, str(data.get("server") or "")[:200], arguments,
        number(event.seconds), whole(data.get("bytes")), whole(data.get("chars")), whole(data.get("tokens")),
        event.handle, event.call_id[:200], why[:_SHORT], data.get("is_error") is True, ended=ended,
        opens=_opens(event),
    )  # fmt: skip


def _opens(event: Event) -> str:
    is_recorded = event.kind == "called" and event.call_id
    return in_address({"tool": event.call_id, "at": repr(event.at - event.seconds)}) if is_recorded else ""


def _arguments(data: Mapping[str, Any]) -> str:
    given = data.get("arguments") if data.get("arguments") is not None else data.get("asked")
    return "" if given in (None, {}) else _short(given)


def _short(given: object) -> str:
    return (given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str))[:_SHORT]


def rows_of(  # noqa: PLR0913 - what the page asks, and what it knows
    events: Iterable[Event], arguments: Mapping[str, str], text: str, verdict: str, before: int | None, *,
    sort: str = "newest", kept: Mapping[str, Facts] | None = None, lost: Mapping[str, Event] | None = None,
    running: list[Row] | None = None,
) -> tuple[list[Row], int]:  # fmt: skip
    """The first that are asked for: the newest of those before number `before`, or by `sort`; and how many are left.
    `running` gets those that have not ended, whatever is asked for.

    An agent notes a call when its turn has ended, after what became of its result: these are one. `lost` are the ends,
    by handle, of those whose process was killed.
    """
    count, now, text = 0, time.time(), text.lower()
    # What a call writes is kept while it is waited for, where that is much.
    written = {(one.origin.call_id, one.origin.tool) for one in (kept or {}).values() if one.origin.call_id}

    def matching() -> Iterator[Row]:
        nonlocal count
        for row in _joined(events, arguments):
            end = (lost or {}).get(row.handle) if row.verdict == "in the background" else None
            known = row if end is None else _completed(row, end)
            if row.tool == _WAIT and row.handle not in (kept or {}):  # a model may ask for what there is not
                known = replace(known, handle="")
            one = _with_facts(known, (kept or {}).get(row.handle), now)
            if row.verdict == "no answer" and (row.call_id, row.tool) in written:
                continue
            if one.runs and running is not None:
                running.append(one)
            if one.has(text, verdict):
                if before is not None and count >= before:
                    break
                count += 1
                yield one

    if sort == "newest":
        found = sorted(deque(matching(), maxlen=PAGE), key=lambda one: one.at)[::-1]
    else:
        found = heapq.nlargest(PAGE, matching(), key=lambda one: one.seconds if sort == "longest" else one.size)
    return found, count - len(found)


def _joined(events: Iterable[Event], arguments: Mapping[str, str]) -> Iterator[Row]:
    """Calls in order, each as soon as all of it is known: few are open at a time. Then those that have no answer."""
    waiting: deque[Row] = deque()
    begun = dict[tuple[str, int], Event]()
    for event in events:
        number = event.by, whole(event.data.get("number"))
        if event.kind == "begun" and len(begun) < _MOST_CALLS:
            begun[number] = event
        elif event.kind == "over":
            of = begun.pop(number, None)
            if of is not None and event.data.get("state"):  # its process was killed
                waiting.append(_with_arguments(_unanswered(of, event), arguments))
        if event.kind in ("called", "ended"):
            at = next((at for at, one in enumerate(waiting) if _is_of(event, one)), None)
            if at is not None:
                waiting[at] = _with_arguments(_completed(waiting[at], event), arguments)
                continue
        if (at := _wait_of(event, waiting)) is not None:
            one, tokens = waiting[at], whole(event.data.get("tokens"))
            waiting[at] = replace(one, handle=one.handle or event.handle, tokens=one.tokens + tokens)
        row = row_of(event)
        if row is not None:
            waiting.append(_with_arguments(_with_waited(row, event), arguments))
        while len(waiting) > PAGE:
            yield waiting.popleft()
    yield from waiting
    for event in begun.values():
        yield _with_arguments(_unanswered(event, None), arguments)


def _unanswered(event: Event, end: Event | None) -> Row:
    """A call that was waited for when this was logged. Without an end it still is."""
    data, began, runs = event.data, event.at - event.seconds, end is None
    return Row(
        began, event.tool, "no answer", str(data.get("server") or "")[:200], _arguments(data),
        time.time() - began if end is None else number(end.seconds), call_id=event.call_id[:200],
        why="" if runs else _NO_ANSWER, failed=not runs, runs=runs, ended="interrupted", at_least=not runs,
    )  # fmt: skip


def _wait_of(event: Event, waiting: Sequence[Row]) -> int | None:
    """Where the wait is that showed this output: its own event comes before."""
    if event.kind != "retrieved" or event.data.get("verb") != "wait" or not event.handle:
        return None
    return next((at for at in reversed(range(len(waiting))) if waiting[at].tool == _WAIT), None)


def _with_waited(row: Row, event: Event) -> Row:
    """A wait for one output leads to it."""
    asked: object = event.data.get("asked")
    if row.tool != _WAIT or row.handle or not isinstance(asked, Mapping):
        return row
    return replace(row, handle=str(cast("Mapping[str, object]", asked).get("handle") or ""))


def _with_arguments(row: Row, said: Mapping[str, str]) -> Row:
    given = said.get(row.call_id, "")
    return replace(row, arguments=given, why=row.why.removesuffix(_UNASKED)) if given and not row.arguments else row


def _is_of(event: Event, row: Row) -> bool:
    if event.kind == "ended":
        return row.handle == event.handle and row.verdict == "in the background"
    if event.data.get("outcome") == "answer":
        # A wait is noted without an output, and a refusal has none for the model.
        is_refusal = row.verdict == "refused" and event.data.get("is_error") is True
        is_same = row.handle in ("", event.handle) or ((is_refusal or row.tool == _WAIT) and not event.handle)
        return is_same and row.tool == event.tool and row.is_about_output and not row.call_id
    # The output of an agent that a call started has the name of the agent.
    is_named = event.tool in (row.tool, _SPAWN) or bool(event.handle and row.handle == event.handle)
    return bool(event.call_id) and row.call_id == event.call_id[:200] and is_named


def _completed(row: Row, event: Event) -> Row:
    data = event.data
    if event.kind == "ended":
        failed = data.get("state") != "ready"
        sizes = {"bytes": whole(data.get("bytes")), "tokens": whole(data.get("tokens"))}
        why = str(data.get("why") or "")[:_SHORT]
        ended = _ended(data.get("state"), row.ended)
        at, seconds = min(row.at, event.at - event.seconds), number(event.seconds)
        at_least = data.get("at_least") is True
        return replace(
            row, at=at, seconds=seconds, failed=failed, ended=ended, why=why or row.why, at_least=at_least,
            is_over=True, **sizes,
        )  # fmt: skip
    is_known = row.at_least or (row.verdict == "in the background" and row.bytes)
    seconds = row.seconds if is_known else number(event.seconds)
    at = min(row.at, event.at - event.seconds)
    return replace(
        row, at=at, call_id=event.call_id[:200], seconds=seconds, chars=row.chars or whole(data.get("chars")),
        failed=row.failed or data.get("is_error") is True, opens=_opens(event), handle=row.handle or event.handle,
    )  # fmt: skip


def _said_arguments(bag: Holdall) -> dict[str, str]:
    """What an agent's transcript says that calls were made with."""
    found: dict[str, str] = {}
    for line in bag.records.transcript_lines():
        said = entry_in(line) if b'"assistant"' in line else None
        for call in said.calls if isinstance(said, Assistant) and len(found) < _MOST_CALLS else ():
            found[call.id] = _short(call.arguments)
    return found


async def calls(request: Request) -> Response:
    """The list of one session, as a page, or as the part of one that scripts ask for; nothing where it has not changed
    since (204).
    """
    text, verdict, before = _asked(request)
    viewer, session, sort = state_of(request), str(request.path_params["session"]), _sort(request)
    async with viewer.session(session) as bag:
        stamp = await asyncio.to_thread(viewer.overview.stamp, session)
        if stamp and request.query_params.get("v") == stamp:
            return Response(status_code=204)

        kept = {one.handle: one for one in await asyncio.to_thread(lambda: list(bag.store.outputs(bag.session)))}
        for one in [one for one in kept.values() if one.state in RUNNING]:
            so_far, _ = await totals(bag, one)
            kept[one.handle] = replace(one, measure=replace(one.measure, bytes=so_far.bytes))

        running: list[Row] = []

        def look() -> tuple[list[Row], int]:
            events = _with_commands(bag.records.with_lost_ends(bag.records.events()), kept)
            is_cut = any(one.state == "interrupted" for one in kept.values())
            every = bag.records.with_lost_ends(bag.records.events()) if is_cut else ()
            lost = {one.handle: one for one in every if one.data.get("at_least") is True}
            return rows_of(
                events, _said_arguments(bag), text, verdict, before, sort=sort, kept=kept, lost=lost, running=running
            )

        rows, older = await asyncio.to_thread(look)
        template = "calls_list.html" if "hx-request" in request.headers else "calls.html"
        more = urlencode({"q": text, "verdict": verdict, "sort": sort, "before": older})
        return render(
            request, template, session=bag.session, rows=rows, older=older, more=more, search=text, verdict=verdict,
            verdicts=VERDICTS, sort=sort, sorts=SORTS, is_rest=before is not None, stamp=stamp, running=running,
        )  # fmt: skip


def _with_commands(events: Iterable[Event], kept: Mapping[str, Facts]) -> Iterator[Event]:
    """With those of which no event tells: what writes to an output itself, as a command in the background does."""
    told: set[str] = set()
    for event in events:
        if event.handle and event.kind in ("kept", "running", "ended"):
            told.add(event.handle)
        yield event
    for one in sorted(kept.values(), key=lambda one: one.created):
        if one.handle not in told and not one.packed:
            yield unlogged(one)


def _with_facts(row: Row, facts: Facts | None, now: float) -> Row:
    """What the record of an output knows better than the log: how a command ended that was kept when it had."""
    if facts is None or row.verdict not in ("kept", "in the background"):
        return row
    given = row.arguments or ("" if facts.origin.arguments is None else _short(facts.origin.arguments))
    runs, ended = facts.state in RUNNING, facts.ended or facts.created
    at = min(row.at, facts.created)
    seconds = now - at if runs else 0.0 if facts.state in UNTIMED else ended - facts.created
    return replace(
        row, at=at, arguments=given, server=row.server or facts.origin.server[:200],
        bytes=row.bytes or facts.measure.bytes, seconds=max(row.seconds, seconds), runs=runs,
        failed=row.failed or facts.state in FAILED, why=row.why or facts.error[:_SHORT],
        ended=_ended(facts.state, row.ended), is_over=not runs,
    )  # fmt: skip


def _ended(state: object, otherwise: str = "failed") -> str:
    """The word that the table of outputs has too."""
    return str(state) if state in FAILED else otherwise


@record
class Hit:
    """Something in a session that has what was searched for: a call, or a piece of what was said, or asked about an
    output.
    """

    session: Summary
    call: Row | None = None
    role: str = ""
    text: str = ""
    anchor: str = ""  # of what was said
    about: str = ""  # the handle of the output that was asked about
    more: bool = False  # there are others in this session, which are not looked at here


async def everywhere(request: Request) -> Response:
    """The calls and the words of all sessions that have this text."""
    text, _, start = _asked(request)
    overview, low = state_of(request).overview, text.lower()
    found, after, said = list[Mention](), None, set[tuple[str, str]]()

    def is_meant(one: Mention) -> bool:
        """The same words lead to the same place: a run that goes on with a conversation has written it once more."""
        hit = _hit(one, low)
        if hit is None or (one.session.id, hit.anchor) in said:
            return False
        if hit.anchor:
            said.add((one.session.id, hit.anchor))
        return True

    if text.strip():
        found, after = await asyncio.to_thread(overview.search, text, start=start or 0, is_meant=is_meant)
    hits = _hits(found, low)
    more = urlencode({"q": text, "before": after}) if after is not None else ""
    return render(request, "found.html", hits=hits, search=text, more=more)


def _hits(found: Iterable[Mention], text: str) -> list[Hit]:
    """A call of an agent is in the log twice: with what became of it, and when its turn has ended. One that kept
    something may be in a record only: what a command was called with, and what is too long for the log.
    """
    mentions = list(found)
    logged = {
        (one.session.id, event.handle)
        for one in mentions
        for event in (events_in(one.line) if one.log == "events" else ())
        if event.kind in ("kept", "running")
    }
    hits: list[Hit] = []
    for one in mentions:
        if one.output is not None:
            if (one.session.id, one.output.handle) not in logged:
                row = cast("Row", row_of(unlogged(one.output)))
                hits.append(Hit(one.session, _with_facts(row, one.output, time.time())))
            continue
        events = events_in(one.line) if one.log == "events" else ()
        is_known = any(
            hit.session.id == one.session.id and hit.call is not None and _is_of(event, hit.call)
            for event in events
            if event.kind == "called"
            for hit in hits
        )
        if not is_known and (hit := _hit(one, text)) is not None:
            hits.append(hit)
        if one.more and hits and hits[-1].session.id == one.session.id:
            hits[-1] = replace(hits[-1], more=True)
    return hits


def _hit(found: Mention, text: str) -> Hit | None:
    """None where the text is in a part of the line that nobody reads."""
    if found.log == "events":
        rows = (row_of(event) for event in events_in(found.line))
        row = next((one for one in rows if one is not None and one.has(text, "")), None)
        return Hit(found.session, row) if row is not None else _asked_about(found, text)
    parts = parts_of(entry_in(found.line))
    for role, words in parts:
        if (hit := words_in(text).search(words)) is not None:
            return Hit(found.session, None, one_line(role, 80), around(words, hit), anchor_of(parts))
    return None


def _asked_about(found: Mention, text: str) -> Hit | None:
    for event in events_in(found.line):
        for role in ("question", "answer") if event.kind == "extracted" and event.handle else ():
            words = str(event.data.get(role) or "")
            if (hit := words_in(text).search(words)) is not None:
                return Hit(found.session, None, f"{role} about", around(words, hit), about=event.handle)
    return None


@record
class Inside:
    """An output that has what was searched for: how often, and the text around the first; or why it could not be
    searched; or what of it is damaged, so that more may have been there.
    """

    session: Summary
    handle: str = ""
    tool: str = ""
    total: int = 0
    around: tuple[str, ...] = ()
    problem: str = ""
    damage: str = ""


async def inside(request: Request) -> Response:
    """The outputs of all sessions that have this text: the newest session first, in it the oldest output."""
    text, _, start = _asked(request)
    at, skip, hits, is_over = start or 0, _number(request, "skip"), list[Inside](), not text.strip()
    viewer, deadline, now_at, is_late = state_of(request), time.monotonic() + _SECONDS_INSIDE, "", False
    while not (is_over or is_late or len(hits) >= _MOST_INSIDE):
        listed = await asyncio.to_thread(viewer.overview.page, start=at, count=_MOST_INSIDE, seconds=-1.0)
        for one in listed.sessions:
            looked, is_all = await _inside(viewer, one, text, skip, deadline, _MOST_INSIDE - len(hits))
            hits += [hit for hit in looked if hit is not None]
            at, skip, now_at = at + is_all, 0 if is_all else skip + len(looked), one.name
            is_late = time.monotonic() > deadline
            if not is_all or is_late or len(hits) >= _MOST_INSIDE:
                break
        else:  # some may be gone by now
            at = listed.start + _MOST_INSIDE
        is_over = at >= listed.total
    more = "" if is_over else urlencode({"q": text, "before": at, "skip": skip})
    is_full = len(hits) >= _MOST_INSIDE
    return render(request, "inside.html", hits=hits, search=text, more=more, is_full=is_full, now_at=now_at)


async def _inside(
    viewer: ViewerState, one: Summary, text: str, skip: int, deadline: float, most: int
) -> tuple[list[Inside | None], bool]:
    """Of each output from number `skip` on what was found in it, None for nothing; and whether that are all. At least
    one is searched, however late it is.
    """
    looked: list[Inside | None] = []
    try:
        async with viewer.session(one.id) as bag:
            outputs = (await asyncio.to_thread(bag.store.outputs, bag.session))[skip:]
            for facts in outputs:
                looked.append(await _inside_one(bag, one, facts, text))
                found = sum(hit is not None for hit in looked)
                if len(looked) < len(outputs) and (found >= most or time.monotonic() > deadline):
                    return looked, False
    except BadPattern:
        raise
    except HoldallError as problem:
        looked.append(Inside(one, problem=str(problem)))
    return looked, True


async def _inside_one(bag: Holdall, one: Summary, facts: Facts, text: str) -> Inside | None:
    if facts.state == "expired":  # its page says since when it is gone
        return None
    try:
        found = await search(bag, facts.handle, text, ignore_case=True, literal=True, start=0, most=1)
    except BadPattern:
        raise
    except HoldallError as problem:
        return Inside(one, facts.handle, facts.origin.tool, problem=str(problem))
    damage = found["damage"]
    if not found["matches"]:
        return Inside(one, facts.handle, facts.origin.tool, damage=damage) if damage else None
    first = found["matches"][0]
    around = ["".join(run if isinstance(run, str) else run[0] for run in part) for part in first["t"]]
    if first.get("cut"):
        around[0] = f"… {around[0]}"
    return Inside(one, facts.handle, facts.origin.tool, found["total"], tuple(around), damage=damage)


def _asked(request: Request) -> tuple[str, str, int | None]:
    given = request.query_params
    before, verdict = _number(request, "before") if given.get("before") else None, given.get("verdict", "")
    if verdict and verdict not in VERDICTS:
        raise UsageError(f"a verdict is one of: {', '.join(VERDICTS)}.")
    return given.get("q", "")[:_LONGEST_SEARCH], verdict, before


def asked_of_calls(request: Request) -> dict[str, Any]:
    """Of the list on the page of a session: what its address has of the search."""
    text, verdict, _ = _asked(request)
    return {"search": text, "verdict": verdict, "sort": _sort(request)}


def _sort(request: Request) -> str:
    sort = request.query_params.get("sort") or SORTS[0]
    if sort not in SORTS:
        raise UsageError(f"calls are sorted by one of: {', '.join(SORTS)}.")
    return sort


def _number(request: Request, name: str) -> int:
    text = request.query_params.get(name) or "0"
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{name} is a number, from 0.")
    return int(text)


routes = [
    Route("/s/{session}/calls", calls, name="calls"),
    Route("/calls", everywhere, name="everywhere"),
    Route("/inside", inside, name="inside"),
]
