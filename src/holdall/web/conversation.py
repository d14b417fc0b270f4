"""What was sent and what came back, for one row of a session's timeline; and every message that has some words.

The transcript has it, to the letter. Where there is none, the record of an output and the note beside it have a part;
the rest was not recorded, and is said not to be. The logs are gone over once for each answer, and only what is shown of
them is held.
"""

import asyncio
import contextlib
import itertools
import json
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdall.agent.transcript import Beside, Replaced, entry_in
from holdall.bag import Holdall
from holdall.policy.folds import Tree
from holdall.text.escape import named
from holdall.text.numbers import whole
from holdall.values.chat import Assistant, Message, System, ToolCall, ToolResult, User
from holdall.values.errors import HoldallError, UsageError
from holdall.values.events import Event
from holdall.values.record import record
from holdall.web.figures import in_address, words_in
from holdall.web.output_page import announced_text, noticed_text
from holdall.web.state import ViewerState, render, state_of
from holdall.web.timeline import DRAWN_BYTES, turn_places

MESSAGES = 40  # of one answer
LONGEST = 16_000  # characters of a text that come at once
_MOST_INDENTED = 4_000_000  # characters times brackets
_AROUND = 120  # characters on each side of what was found
_LONGEST_SEARCH = 200
MOST_COUNTED = 1000  # times that a message has the words
_LOST = 8  # replies in a row that a killed process did not save
_Role = Literal["system", "user", "model", "tool", "notice", "arguments"]


@record
class Call:
    """A call that the model asked for."""

    name: str
    arguments: "Text"


@record
class Text:
    """A text from character `start` on, after which `left` more follow."""

    role: _Role
    text: str
    name: str = ""
    line: int = -1  # of the transcript; -1 where it is from elsewhere
    part: int = -1  # which of the calls of that line, where it is the arguments of one
    start: int = 0
    left: int = 0
    is_error: bool = False
    calls: tuple[Call, ...] = ()

    @property
    def next(self) -> int:
        return self.start + len(self.text)


@record
class Exchange:
    """A request and its reply. `sent` are messages from number `first` on, of `total`."""

    sent: Sequence[Text]
    first: int
    total: int
    notice: Text | None  # at the end of the request; it is in no other one
    tools: Sequence[str] | None
    reply: Text | None
    replaced: bool  # the messages before were replaced since the last request


@record
class Asked:
    """A call of the model as the log has it; `replied` is false for one that failed."""

    began: float
    messages: int
    calls: int
    reply_bytes: int
    replied: bool

    @staticmethod
    def of(event: Event) -> "Asked | None":
        data = event.data
        if event.kind != "asked" or data.get("purpose") != "turn":
            return None
        sizes = whole(data.get("messages")), whole(data.get("calls")), whole(data.get("reply_bytes"))
        return Asked(event.at - event.seconds, *sizes, not data.get("why"))

    def is_reply(self, index: int, said: Assistant) -> bool:
        """Whether this message, the one with this index, is what came back: the request ended before it."""
        size = len(said.text.encode("utf-8", "replace"))
        return self.replied and (self.messages - 1, self.calls, self.reply_bytes) == (index, len(said.calls), size)


def exchange(lines: Iterable[bytes], asked: Sequence[Asked], wanted: int, first: int | None) -> Exchange | None:
    """The call `asked[wanted]`. Its messages from `first` on; None for those that no call before it had.

    The log and the transcript are in the same order: a reply is the message whose index is the length of the request.
    """
    pending, index, since, was_replaced = 0, 0, 0, False
    sent: list[Text] = []
    beside: tuple[int, Beside] | None = None
    tools: Sequence[str] | None = None

    def made(reply: Text | None) -> Exchange:
        notice = _text("notice", beside[1].notice, beside[0]) if beside else None
        return Exchange(sent, since if first is None else first, index, notice, tools, reply, was_replaced)

    for number, line in enumerate(itertools.chain(lines, (b'{"again":true}',))):
        match entry := entry_in(line):
            case None:
                continue
            case Replaced():
                goal = asked[wanted]
                if not goal.replied and pending <= wanted and index == goal.messages - 1:
                    return made(None)
                index, since, was_replaced, sent = 0, 0, True, []
                continue
            case Beside():
                beside, tools = (number, entry), tools if entry.tools is None else entry.tools
                continue
            case Assistant():
                near = range(pending, min(pending + _LOST, len(asked)))
                at = next((at for at in near if asked[at].is_reply(index, entry)), None)
                if at == wanted:
                    return made(_of_message(entry, number))
                if at is not None:
                    pending, beside, was_replaced = at + 1, None, False
                if first is None:  # it is the reply of another row, and what is before it went with that
                    index, since, sent = index + 1, index + 1, []
                    continue
            case _:
                pass
        if len(sent) < MESSAGES and index >= (since if first is None else first):
            sent.append(_of_message(entry, number))
        index += 1
    return None


def answers_of(lines: Iterable[bytes], call_id: str) -> tuple[Text | None, list[Text]]:
    """The arguments of a call, and what the model was given for it: first, and last where that was replaced."""
    name = json.dumps(call_id).encode("ascii")
    arguments: Text | None = None
    told: list[Text] = []
    for number, line in enumerate(lines):
        if name not in line:
            continue
        match entry_in(line):
            case Assistant(calls=calls):
                for call in calls:
                    if call.id == call_id and arguments is None:
                        arguments = _text("arguments", written(call.arguments), number)
            case ToolResult() as said if said.call_id == call_id:
                text = _of_message(said, number)
                if not told:
                    told = [text]
                else:
                    told[1:] = [text] if (text.text, text.left) != (told[0].text, told[0].left) else []
            case _:
                pass
    return arguments, told


def written(arguments: object) -> str:
    if arguments is None:
        return ""
    if isinstance(arguments, str):
        return arguments
    flat = json.dumps(arguments, ensure_ascii=False, default=str)
    # A line for each value, each as far in as it is deep: of some, a thousand times as long.
    deep = flat.count("[") + flat.count("{")
    return (
        flat if len(flat) * deep > _MOST_INDENTED else json.dumps(arguments, indent=2, ensure_ascii=False, default=str)
    )


def _of_message(said: Message, line: int) -> Text:
    match said:
        case System(text):
            return _text("system", text, line)
        case User(text):
            return _text("user", text, line)
        case Assistant(text, calls):
            return _text(
                "model", text, line, calls=tuple(_call(one, line, at) for at, one in enumerate(calls[:MESSAGES]))
            )
        case ToolResult(_, name, text, is_error):
            return _text("tool", text, line, name=name, is_error=is_error)


def _call(call: ToolCall, line: int, part: int) -> Call:
    return Call(call.name, _text("arguments", written(call.arguments), line, part=part))


def _text(role: _Role, text: str, line: int = -1, start: int = 0, **more: Any) -> Text:
    shown = text[start : start + LONGEST]
    return Text(role, shown, line=line, start=start, left=max(0, len(text) - start - len(shown)), **more)


def _rest(lines: Iterable[bytes], number: int, part: int, start: int) -> Text:
    """More of a text that was too long to be shown at once."""
    match entry_in(next(itertools.islice(lines, number, None), b"")):
        case Assistant(calls=calls) if 0 <= part < len(calls):
            return _text("arguments", written(calls[part].arguments), number, start, part=part)
        case Beside(notice):
            return _text("notice", notice, number, start)
        case System() | User() | Assistant() | ToolResult() as said:
            return _text(_of_message(said, number).role, said.text, number, start)
        case _:
            raise HTTPException(404)


# Searching what was said.


@record
class Turn:
    number: str
    href: str  # of its row in the timeline


@record
class Mentioned:
    """A message that has what was searched for, `count` times, or `MOST_COUNTED` and more. `around` is the text around
    the first.
    """

    line: int  # of the transcript
    who: str
    around: str
    count: int
    turn: Turn | None  # the one that sent it, or in which it came back
    anchor: str = ""


def anchor_of(parts: Sequence[tuple[str, str]]) -> str:
    """What an address has behind its # for a message: found without counting lines, and alike for the same words."""
    return f"said-{zlib.crc32(repr(parts).encode('utf-8', 'backslashreplace')):08x}"


def parts_of(entry: Message | Beside | Replaced | None) -> list[tuple[str, str]]:
    """The texts of a line of a transcript, each with whose it is."""
    match entry:
        case System(text):
            return [("system prompt", text)]
        case User(text):
            return [("user", text)]
        case Assistant(text, calls):
            return [("model", text), *(("calls", f"{call.name} {written(call.arguments)}") for call in calls)]
        case ToolResult(_, name, text):
            return [(name, text)]
        case Beside(notice):
            return [("notice at the end of a request", notice)]
        case _:
            return []


def around(text: str, hit: re.Match[str]) -> str:
    start = max(0, hit.start() - _AROUND)
    return f"{'… ' if start else ''}{text[start : hit.end() + _AROUND]}"


def mentioned(
    lines: Iterable[bytes], asked: Sequence[tuple[Asked, Turn | None]], words: str, first: int
) -> tuple[list[Mentioned], int, int | None]:
    """The messages that have these words from line `first` on; how many there are in all, and the line to go on at.

    Where the conversation was written anew, what it already had is not found twice.
    """
    pattern, found, total, following = words_in(words), list[Mentioned](), 0, None
    earlier, now = set[int](), set[int]()
    for number, line, entry, turn in _with_turns(lines, asked):
        if isinstance(entry, Replaced):
            earlier, now = earlier | now, set[int]()
            continue
        parts = parts_of(entry)
        hits = ((who, text, hit) for who, text in parts for hit in pattern.finditer(text))
        if (one := next(hits, None)) is None or hash(line) in earlier:
            continue
        now.add(hash(line))
        total += 1
        if number >= first and len(found) < MESSAGES:
            who, text, hit = one
            count = 1 + sum(1 for _ in itertools.islice(hits, MOST_COUNTED - 1))
            found.append(Mentioned(number, who, around(text, hit), count, turn, anchor_of(parts)))
        elif number >= first and following is None:
            following = number
    return found, total, following


_Placed = tuple[int, bytes, Message | Beside | Replaced, Turn | None]


def _with_turns(lines: Iterable[bytes], asked: Sequence[tuple[Asked, Turn | None]]) -> Iterator[_Placed]:
    """Each line of a transcript with its turn: of a reply and its results the one that asked, of all else the next."""
    pending, index, last = 0, 0, None
    for number, line in enumerate(lines):
        entry = entry_in(line)
        turn = asked[pending][1] if pending < len(asked) else last
        match entry:
            case None:
                continue
            case Replaced():
                index = 0
            case Assistant():
                near = range(pending, min(pending + _LOST, len(asked)))
                at = next((at for at in near if asked[at][0].is_reply(index, entry)), None)
                if at is not None:
                    pending, last = at + 1, asked[at][1]
                turn = last
            case ToolResult():
                turn = last
            case _:
                pass
        yield number, line, entry, turn
        index += not isinstance(entry, Beside | Replaced)


def _asked_in_turns(bag: Holdall) -> list[tuple[Asked, Turn | None]]:
    """The calls of the model, each with its turn."""
    drawn = bag.records.with_lost_ends(bag.records.events(DRAWN_BYTES))
    places = turn_places(Tree.of(bag.session.name, drawn).root)
    asked: list[tuple[Asked, Turn | None]] = []
    turn: Turn | None = None
    for event in bag.records.events():
        if event.kind == "turn":
            place = places.get(event.at, "")
            turn = Turn(named(event.data.get("number", "")), f"/s/{bag.session.id}{place}" if place else "")
        elif (call := Asked.of(event)) is not None:
            asked.append((call, turn))
    return asked


# The pages: one fragment for each kind of row, and the messages that have some words.


async def messages(request: Request) -> Response:
    """The list of one session, as a page, or as the part of one that htmx asks for."""
    words, first = request.query_params.get("q", "")[:_LONGEST_SEARCH], _number(request, "from")
    async with state_of(request).session(request.path_params["session"]) as bag:

        def look() -> tuple[list[Mentioned], int, int | None]:
            return mentioned(bag.records.transcript_lines(), _asked_in_turns(bag), words, first)

        found, total, following = await asyncio.to_thread(look) if words.strip() else ([], 0, None)
        more = urlencode({"q": words, "from": following}) if following is not None else ""
        return render(
            request, "messages.html" if not first else "messages_list.html", session=bag.session, found=found,
            total=total, search=words, more=more, most=MOST_COUNTED,
        )  # fmt: skip


async def message(request: Request) -> Response:
    """One message, whole, with the words marked."""
    async with state_of(request).session(request.path_params["session"]) as bag:
        line = _number(request, "line")
        text = await asyncio.to_thread(lambda: _whole(bag.records.transcript_lines(), line))
        words = request.query_params.get("q", "")[:_LONGEST_SEARCH]
        return render(request, "message.html", session=bag.session, text=text, search=words)


def _whole(lines: Iterable[bytes], number: int) -> Text:
    match entry_in(next(itertools.islice(lines, number, None), b"")):
        case Beside(notice):
            return _text("notice", notice, number)
        case System() | User() | Assistant() | ToolResult() as said:
            return _of_message(said, number)
        case _:
            raise HTTPException(404)


async def step(request: Request) -> Response:
    """What was sent and what came back in one row."""
    viewer, given = state_of(request), request.query_params
    kind = next((one for one in _STEPS if one in given), "")
    if not kind:
        raise UsageError("a row is named by turn=, model=, tool=, agent= or extraction=.")
    async with viewer.session(request.path_params["session"]) as bag:
        values = await _STEPS[kind](viewer, bag, given)
        return render(
            request, "step.html", kind=kind, session=bag.session, asked_for=urlencode({kind: given[kind]}),
            is_rest="from" in given, **values,
        )  # fmt: skip


async def said(request: Request) -> Response:
    """More of one text."""
    async with state_of(request).session(request.path_params["session"]) as bag:
        line, part, start = (_number(request, name) for name in ("line", "call", "from"))
        text = await asyncio.to_thread(lambda: _rest(bag.records.transcript_lines(), line, part - 1, start))
        words = request.query_params.get("q", "")[:_LONGEST_SEARCH]
        return render(request, "step_more.html", session=bag.session, text=text, search=words)


async def _request(_viewer: ViewerState, bag: Holdall, given: Mapping[str, str]) -> dict[str, Any]:
    """A turn opens to all of its request, a call of the model to what is new in it and what came back."""
    is_turn = "turn" in given
    at = given.get("turn", "") or given.get("model", "")
    first = _start(given) if is_turn or "from" in given else None

    def look() -> dict[str, Any]:
        asked, wanted, event = list[Asked](), -1, None
        for one in bag.records.events():
            if is_turn and one.kind == "turn" and repr(one.at) == at:
                event, wanted = one, len(asked)
            if (call := Asked.of(one)) is not None:
                asked.append(call)
            if not is_turn and one.kind == "asked" and repr(one.at - one.seconds) == at:
                event, wanted = one, len(asked) - 1 if call is not None else -1
        if event is None:
            raise HTTPException(404)
        found = exchange(bag.records.transcript_lines(), asked, wanted, first) if 0 <= wanted < len(asked) else None
        data = event.data
        is_question = event.kind == "asked" and data.get("purpose") != "turn"
        return {"exchange": found, "is_question": is_question, "why": str(data.get("why") or "")}

    return await asyncio.to_thread(look)


async def _tool(_viewer: ViewerState, bag: Holdall, given: Mapping[str, str]) -> dict[str, Any]:
    call_id, at = given["tool"], given.get("at", "")

    def look() -> tuple[Event | None, Text | None, list[Text]]:
        named = in_address(call_id)
        calls = (
            one for one in bag.records.events() if one.kind in ("called", "begun") and in_address(one.call_id) == named
        )
        event = next((one for one in calls if repr(one.at - one.seconds) == at), None)
        if event is None:
            return None, None, []
        # A call in a batch has the number of its place after the id of the batch.
        batch = event.call_id.rpartition(".")[0]
        found = answers_of(bag.records.transcript_lines(), event.call_id)
        return event, *(found if any(found) or not batch else answers_of(bag.records.transcript_lines(), batch))

    event, arguments, told = await asyncio.to_thread(look)
    if event is None:
        raise HTTPException(404)
    if not told and event.handle and event.data.get("outcome") in ("kept", "running"):
        with contextlib.suppress(HoldallError):
            facts = await bag.show(event.handle)
            arguments = arguments or _text("arguments", written(facts.origin.arguments))
            noted = await (announced_text if event.data["outcome"] == "running" else noticed_text)(bag, facts)
            told = [_text("tool", noted, name=event.tool)] if noted else []
    if arguments is None and event.data.get("arguments"):
        arguments = _text("arguments", written(event.data["arguments"]))
    was_whole, chars = event.data.get("outcome") == "inline", whole(event.data.get("chars"))
    return {"arguments": arguments, "told": told, "was_whole": was_whole, "chars": chars}


async def _agent(viewer: ViewerState, _bag: Holdall, given: Mapping[str, str]) -> dict[str, Any]:
    """The task of a sub-agent and its report, from its own session."""
    async with viewer.session(given["agent"]) as child:

        def look() -> tuple[Text | None, Text | None]:
            task = reply = None
            for number, line in enumerate(child.records.transcript_lines()):
                match entry_in(line):
                    case User(text) if task is None:
                        task = _text("user", text, number)
                    case Assistant() as said:
                        reply = _of_message(said, number)
                    case _:
                        pass
            return task, reply

        task, reply = await asyncio.to_thread(look)
        return {"child": child.session, "task": task, "reply": reply}


async def _extraction(_viewer: ViewerState, bag: Holdall, given: Mapping[str, str]) -> dict[str, Any]:
    def look() -> Event | None:
        asked = (one for one in bag.records.events() if one.kind == "extracted")
        return next((one for one in asked if repr(one.at - one.seconds) == given["extraction"]), None)

    event = await asyncio.to_thread(look)
    if event is None:
        raise HTTPException(404)
    data, spans = event.data, event.spans("searched")
    patterns: object = data.get("patterns")
    return {
        "handle": event.handle, "question": str(data.get("question") or ""), "answer": str(data.get("answer") or ""),
        "found": data.get("found", True), "verified": whole(data.get("verified")),
        "quotes": whole(data.get("snippets")),
        "model": named(data.get("model") or "", 80), "cached": bool(data.get("cached")),
        "why": str(data.get("why") or ""), "spans": spans[:MESSAGES], "more": len(spans) - MESSAGES,
        "patterns": [str(one) for one in cast("list[object]", patterns)[:20]] if isinstance(patterns, list) else [],
    }  # fmt: skip


_Step = Callable[[ViewerState, Holdall, Mapping[str, str]], Awaitable[dict[str, Any]]]
_STEPS: Mapping[str, _Step] = {
    "turn": _request, "model": _request, "tool": _tool, "agent": _agent, "extraction": _extraction,
}  # fmt: skip


def _start(given: Mapping[str, str]) -> int:
    text = given.get("from", "0")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise UsageError("from is a number, from 0.")
    return int(text)


def _number(request: Request, name: str) -> int:
    return _start({"from": request.query_params.get(name, "0")})


routes = [
    Route("/s/{session}/step", step, name="step"),
    Route("/s/{session}/said", said, name="said"),
    Route("/s/{session}/messages", messages, name="messages"),
    Route("/s/{session}/message", message, name="message"),
]
