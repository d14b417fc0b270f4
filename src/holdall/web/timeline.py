"""The operations of a session as rows of a picture, and its report with links to what it rests on. Pure."""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Any, cast
from urllib.parse import quote

from holdall.agent.transcript import Beside, Replaced
from holdall.policy.folds import APART, Operation, Run, RunSaid, Tasks, unpriced_calls
from holdall.text.escape import named, one_line
from holdall.text.numbers import grouped, money, number, plural, roughly, size, whole
from holdall.values.chat import Assistant, Message, System, ToolResult, User
from holdall.values.events import Event
from holdall.values.handles import MEMBER, is_uuid
from holdall.values.outputs import FAILED
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.web.figures import in_address

# The operations of a session as rows of a picture: what, when, how long, and where it leads. Pure.
#
# Times are drawn on a scale from 0 to 1,000, which is the width of every lane. What is shown of arguments is a preview.


TIMELINE_PAGE = 200  # rows of each list that are shown at once
DRAWN_BYTES = 8 * 1024 * 1024  # of the log; of a longer one, the newest
SCALE = 1000.0
_LEAST = 3.0  # or a short call could not be seen
_PREVIEW = 160
_MAX_SEEN = 500
_TOLD_WITHIN = 1.0  # seconds: a call is logged when the others of its turn have ended too
LONGEST_TEXT = 20_000  # characters of a task or a report; the transcript has the rest
_END_OF_LINE = 2  # bytes
_WHAT = {"turn": "turn", "model": "model", "tool": "tool", "agent": "agent", "extraction": "question"}


@record
class Quote:
    """A piece of an output that an answer rests on, as the event has it. `words` are the model's, of one that is
    nowhere in the output, or that it changed.
    """

    handle: str
    start: int
    end: int
    check: str
    words: str = ""


@record
class Row:
    """One operation. `x` and `width` are on the scale: of time, and for a turn of the tokens that it began with.

    `behind` is the width of what continued in the background.
    """

    id: str
    depth: int
    kind: str
    name: str
    began: float  # seconds from the start of the session
    seconds: float
    x: float
    width: float
    behind: float = 0.0
    href: str = ""
    leads_to: str = ""  # the words of that link
    detail: str = ""
    preview: str = ""  # of its arguments
    figures: tuple[str, ...] = ()
    failed: str = ""  # or how it ended instead
    runs: bool = False
    opens: str = ""  # what is asked for when it is opened
    quotes: tuple[Quote, ...] = field(default=())
    is_apart: bool = False  # no part of the run: a person asked
    at_least: bool = False  # it was killed: no more is known of how long it ran

    @property
    def what(self) -> str:
        return _WHAT.get(self.kind, self.kind)


@record
class Known:
    """What rows are made with beside the tree: the log, and the arguments that calls were made with."""

    session: str
    kept: Mapping[str, Mapping[str, Any]]  # by handle: what the log says of an output that was kept
    ended: Mapping[str, float]  # by handle: how long a call took that went to the background
    shown: Mapping[tuple[str, str], list[tuple[float, int, int]]]  # what a fetch showed first, by handle and tool
    arguments: Mapping[str, str]  # by call id
    counted: Collection[str]  # handles of outputs whose tokens were counted, and not estimated

    @staticmethod
    def of(session: str, events: Iterable[Event], arguments: Mapping[str, str], counted: Collection[str]) -> "Known":
        kept: dict[str, Mapping[str, Any]] = {}
        ended: dict[str, float] = {}
        shown: dict[tuple[str, str], list[tuple[float, int, int]]] = {}
        for event in events:
            if event.kind == "kept":
                kept[event.handle] = event.data
            elif event.kind == "ended":
                ended[event.handle] = number(event.seconds)
                kept.setdefault(event.handle, event.data)
            elif event.kind == "retrieved" and (spans := event.spans("shown")):
                first = _first_stretch(sorted(spans, key=lambda span: span.start))
                key = (event.handle, str(event.data.get("name", "")))
                shown.setdefault(key, []).append((event.at, first.start, first.end))
        for looks in shown.values():
            looks.sort()
        return Known(session, kept, ended, shown, arguments, counted)


def rows_of(root: Operation, known: Known, *, now: float, is_running: bool) -> list[Row]:
    """Depth first, in the order of the log. `now` ends what still runs; nothing does where the session does not."""
    total = max(number(root.seconds), 0.001)
    most = max((whole(one.data.get("tokens")) for one in root.children if one.kind == "turn"), default=0)
    return list(_below(root, known, _Place(number(root.at), total, now, max(1, most), is_running), 0))


def turn_places(root: Operation) -> dict[float, str]:
    """By when a turn began: what follows the address of its session to get to its row."""
    found: dict[float, str] = {}
    rows = 0
    for at, one in enumerate(root.children):
        if one.kind == "turn":
            page = rows // TIMELINE_PAGE * TIMELINE_PAGE
            found[one.at] = f"?from={page}#op-{at}" if page else f"#op-{at}"
        waiting = [one]
        while waiting:
            rows += 1
            waiting += waiting.pop().children
    return found


@record
class _Place:
    start: float
    total: float
    now: float
    most: int  # tokens that any turn began with
    is_running: bool

    def x(self, at: float) -> float:
        return round(min(SCALE - _LEAST, max(0.0, (at - self.start) / self.total * SCALE)), 2)

    def share(self, tokens: int) -> float:
        return round(min(SCALE, max(_LEAST, tokens / self.most * SCALE)), 2)

    def width(self, at: float, seconds: float) -> float:
        room = SCALE - self.x(at)
        return round(min(room, max(_LEAST, seconds / self.total * SCALE)), 2)


def _below(parent: Operation, known: Known, place: _Place, depth: int, prefix: str = "op") -> Iterator[Row]:
    began = parent.at
    for at, one in enumerate(parent.children):
        id = f"{prefix}-{at}"
        if parent.kind == "turn" and one.kind == "model":
            began = one.at + one.seconds
        # The calls of a turn begin side by side, when the model has asked for them, and are logged when all have ended.
        start = min(one.at, began) if parent.kind == "turn" and one.kind == "tool" else one.at
        yield _row(one, known, place, depth, id, number(start))
        yield from _below(one, known, place, depth + 1, id)


def _row(one: Operation, known: Known, place: _Place, depth: int, id: str, at: float) -> Row:
    data, handle = one.data, str(one.data.get("handle", ""))
    state = str(data.get("state", "")) if one.kind == "tool" else ""
    is_open = (one.kind == "agent" and "turns" not in data) or (
        data.get("outcome") in ("running", "begun") and not state
    )
    runs = is_open and place.is_running
    failed = "interrupted" if is_open and not runs else state if state in FAILED else ""
    if not failed and (data.get("is_error") or (data.get("why") and one.kind == "model")):
        failed = "failed"
    seconds = max(0.0, place.now - at) if runs else number(one.seconds)
    behind = known.ended.get(handle, 0.0) if data.get("outcome") == "running" else 0.0
    return Row(
        id, depth, one.kind, one.name, max(0.0, at - place.start), max(seconds, behind),
        0.0 if one.kind == "turn" else place.x(at),
        place.share(whole(data.get("tokens"))) if one.kind == "turn" else place.width(at, seconds),
        behind=place.width(at, behind) if behind > seconds else 0.0,
        href=_href(one, known, handle), leads_to="its session" if one.kind == "agent" else handle,
        detail=_detail(one, known, handle),
        preview=known.arguments.get(str(data.get("call_id", "")), str(data.get("question", ""))),
        figures=tuple(_figures(one)), failed=failed,
        runs=runs, opens=_opens(one), quotes=tuple(quotes_in(one)), is_apart=bool(data.get(APART)),
        at_least=bool(data.get("at_least")),
    )  # fmt: skip


def _href(one: Operation, known: Known, handle: str) -> str:
    if one.kind == "agent":
        session = str(one.data.get("session", ""))
        return f"/s/{session}" if is_uuid(session) else ""
    if not handle:
        return ""
    looks = known.shown.get((handle, one.name), ()) if one.data.get("outcome") == "answer" else ()
    # Its answer was noted down before it was logged, perhaps by the time that the other calls of its turn took.
    at = bisect_right(looks, (one.at + one.seconds + 0.001, math.inf, math.inf)) - 1
    is_its = at >= 0 and looks[at][0] >= one.at - _TOLD_WITHIN
    return output_address(known.session, handle, *(looks[at][1:] if is_its else ()))


def _opens(one: Operation) -> str:
    """What a row asks for when it is opened: the part of an address after the question mark."""
    match one.kind:
        case "turn" | "model" | "extraction":
            return in_address({one.kind: repr(one.at)})
        case "tool" if one.data.get("call_id"):
            return in_address({"tool": str(one.data["call_id"]), "at": repr(one.at)})
        case "agent":
            return in_address({"agent": str(one.data.get("session", ""))})
        case _:
            return ""


def _first_stretch(spans: Sequence[Span]) -> Span:
    """What was shown first, with what follows it directly: lines of an answer have only their ends between them."""
    start, end = spans[0].start, spans[0].end
    for span in spans[1:]:
        if span.start > end + _END_OF_LINE:
            break
        end = max(end, span.end)
    return Span(start, end)


def output_address(session: str, handle: str, *span: int) -> str:
    """Of an output's page, at these bytes."""
    at = f"?byte={span[0]}&to={span[1]}" if len(span) == 2 else ""
    outer, mark, member = handle.partition(MEMBER)
    return f"/s/{session}/o/{outer}{mark}{member_in_address(member)}{at}"


def member_in_address(member: str) -> str:
    """Without slashes, and without the sign that servers and proxies quote or unquote once more."""
    return quote(member, safe="").replace("~", "%7E").replace("%", "~")


def asked_of(handle: str, data: Mapping[str, Any]) -> str:
    """Of which bytes an event is that names an output: of these, or of what is packed in it."""
    member: object = data.get("member")
    return f"{handle}{MEMBER}{member}" if isinstance(member, str) and handle and MEMBER not in handle else handle


def _detail(one: Operation, known: Known, handle: str) -> str:
    data = one.data
    match one.kind:
        case "turn":
            return f"the last one: {data['why']}" if data.get("why") else ""
        case "model":
            return f"failed: {data['why']}" if data.get("why") else ""
        case "tool":
            about = "" if handle in known.counted else "~"
            waits = data.get("outcome") == "begun" and not data.get("state")
            return "" if waits else _output_text(str(data.get("outcome", "")), known.kept.get(handle, {}), about)
        case "agent":
            return plural(whole(data["turns"]), "turn") if "turns" in data else ""
        case "extraction":
            whose = "by a person, " if data.get(APART) else ""
            return f"{whose}{named(data.get('strategy', ''))}, {_searched(data)}"
        case _:
            return ""


def _output_text(outcome: str, kept: Mapping[str, Any], about: str) -> str:
    match outcome:
        case "kept" | "running":
            tokens, stood = whole(kept.get("tokens")), whole(kept.get("content_tokens"))
            much = f"{size(whole(kept.get('bytes')))}, {about}{roughly(tokens)} tokens; " if kept else ""
            how = "went to the background" if outcome == "running" else f"{grouped(stood)} in the context"
            return f"{much}{how}"
        case "inline":
            return "shown whole"
        case "begun" | "interrupted":
            return "no answer"
        case "answer":
            return ""
        case other:
            return named(other)


def _searched(data: Mapping[str, Any]) -> str:
    chunks = whole(data.get("chunks_total"))
    return f"{whole(data.get('chunks_searched'))} of {plural(chunks, 'chunk')} read" if chunks else "read"


def _figures(one: Operation) -> Iterator[str]:
    data = one.data
    if one.kind == "turn":
        yield f"{grouped(whole(data.get('tokens')))} tokens in it"
    if one.kind in ("model", "agent"):
        used = grouped(whole(data.get("input_tokens")))
        is_open = data.get("so_far")
        yield f"{used} tokens so far" if is_open else f"{used} → {grouped(whole(data.get('output_tokens')))} tokens"
        cost, unknown = number(data.get("cost")), unpriced_calls(one.kind, data)
        if cost or unknown:
            yield money(cost or None, unknown if one.kind == "agent" else 0)
    if one.kind == "extraction" and (more := whole(data.get("snippets")) - sum(1 for _ in quotes_in(one))) > 0:
        yield f"{plural(more, 'quote')} not listed"


def quotes_in(one: Operation) -> Iterator[Quote]:
    handle, listed = asked_of(str(one.data.get("handle", "")), one.data), one.data.get("quotes")
    given: object
    for given in cast("list[object]", listed) if one.kind == "extraction" and isinstance(listed, list) else ():
        match given:
            case [int(start), int(end), str(check)] if 0 <= start <= end:
                yield Quote(handle, start, end, check)
            case [int(start), int(end), str(check), str(words)] if check in ("none", "near") and 0 <= start <= end:
                yield Quote(handle, start, end, check, words)
            case _:
                pass


def _arguments(arguments: object) -> str:
    """`pattern=E[0-9]+ handle=k3f9`, cut."""
    if isinstance(arguments, Mapping):
        pairs: Sequence[tuple[Any, Any]] = list(arguments.items())  # type: ignore[reportUnknownArgumentType]
        return one_line("  ".join(f"{name}={_plain(value)}" for name, value in pairs), _PREVIEW)
    return one_line(str(arguments), _PREVIEW)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


# The report of a session and what it rests on: handles and quotes in its text lead to the bytes. Pure.


_SHORTEST_QUOTE = 12  # characters; a shorter one stands everywhere
_MIN_WORDS = 4


@record
class Piece:
    """A piece of text; with `href`, a link."""

    text: str
    href: str = ""
    why: str = ""


@record
class Reported:
    """What the log says of the end of a run. `seen` are shares of outputs that the model had seen by then."""

    status: str
    synthetic: bool
    why: str
    seen: Mapping[str, float]  # of the first some hundred

    @staticmethod
    def of(data: object) -> "Reported | None":
        if not isinstance(data, Mapping):
            return None
        given = cast("Mapping[str, Any]", data)
        shares: object = given.get("seen")
        seen: Mapping[str, Any] = shares if isinstance(shares, Mapping) else {}  # type: ignore[reportUnknownVariableType]
        return Reported(
            str(given.get("status", "")), bool(given.get("synthetic")), str(given.get("why", "")),
            {handle: number(share) for handle, share in islice(seen.items(), _MAX_SEEN)},
        )  # fmt: skip


@record
class Proof:
    """A quote of an extraction with the words that were read from the output now; empty if they are not there."""

    quote: Quote
    text: str
    href: str

    @property
    def verified(self) -> bool:
        return self.quote.check in ("exact", "loose") and bool(self.text)


def counted(row: Row, proofs: Mapping[Quote, Proof]) -> Row:
    """With how many of its quotes are there: the number in the event is a claim, which a bundle may have brought."""
    known = [proofs[one] for one in row.quotes if one in proofs]
    if not known:
        return row
    verified = f"{sum(one.verified for one in known)} of {plural(len(known), 'quote')} verified"
    return replace(row, figures=(verified, *row.figures))


@record
class Said:
    """What a page shows of a transcript. The rest is passed over as it is read, however long it is."""

    runs: Sequence[RunSaid] = ()
    reports: Mapping[int, str] = field(default_factory=dict[int, str])  # by run; the newest one of each
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])  # by call id

    @staticmethod
    def of(entries: Iterable[Message | Beside | Replaced | None], wanted: Collection[str]) -> "Said":
        """`wanted` are the calls whose arguments are shown."""
        tasks, reports, arguments = Tasks(), dict[int, str](), dict[str, str]()
        for one in entries:
            match one:
                case None:
                    continue
                case Replaced():
                    tasks.add("again", "")
                case Beside():
                    tasks.add("request", "")
                case System(text):
                    tasks.add("system", text)
                case User(text):
                    tasks.add("user", text[:LONGEST_TEXT])
                case ToolResult():
                    tasks.add("tool", "")
                case Assistant():
                    tasks.add("assistant", "")
                    # A model without tools reports in plain text.
                    if not tasks.was_said and (report := _reported(one)[:LONGEST_TEXT]):
                        reports[tasks.left_out + len(tasks.runs) - 1] = report
                    arguments |= {call.id: _arguments(call.arguments) for call in one.calls if call.id in wanted}
        tasks.settle()
        return Said(
            tasks.runs, {at - tasks.left_out: text for at, text in reports.items()}, arguments,
        )  # fmt: skip


@record
class Task:
    """What was asked, and what came of it in one run, or in several that went on with the same."""

    text: str = ""
    report: str = ""
    reported: Reported | None = None  # how its last run ended; None where that was killed, or runs
    began: float = -math.inf


def tasks_of(said: Said, runs: Sequence[Run]) -> list[Task]:
    """In the order in which they were asked. A long log has only its newest runs, and of a run that was killed before
    its model replied the log or the transcript may have nothing: both are gone through from their ends.
    """
    pairs, at, of = list[tuple[int, Run | None]](), len(said.runs) - 1, len(runs) - 1
    while at >= 0 or of >= 0:
        replied, answered = at >= 0 and said.runs[at].replied, of >= 0 and runs[of].answered
        takes_run = of >= 0 and (at < 0 or replied == answered or not answered)
        takes_said = at >= 0 and (of < 0 or replied == answered or answered)
        pairs.append((at if takes_said else -1, runs[of] if takes_run else None))
        at, of = at - takes_said, of - takes_run
    found = list[Task]()
    for place, run in reversed(pairs):
        text, report = (said.runs[place].task, said.reports.get(place, "")) if place >= 0 else ("", "")
        before = found.pop() if found and not text else Task(text)
        began = before.began if math.isfinite(before.began) or run is None else number(run.began)
        reported = Reported.of(run.reported) if run is not None else None
        found.append(replace(before, report=report, reported=reported, began=began))
    return [one for one in found if one.text or one.report or one.reported]


def _reported(one: Assistant) -> str:
    for call in one.calls:
        arguments: object = call.arguments
        if call.name == "final_report" and isinstance(arguments, Mapping):
            return str(cast("Mapping[str, Any]", arguments).get("report", ""))
    return one.text if one.text.strip() else ""


def linked(text: str, session: str, handles: Iterable[str], proofs: Iterable[Proof]) -> list[Piece]:
    """`text` in pieces. Where two links would overlap, the longer one stands."""
    found: list[tuple[int, int, str, str]] = []
    known = [handle for handle in handles if handle]
    if known:
        words = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
        named = re.compile(rf"(?<![\w-])({words})(?![\w-])")
        found += [(*hit.span(1), output_address(session, hit[1]), "this output") for hit in named.finditer(text)]
    for proof in proofs:
        if proof.verified and (place := _place_of(proof.text.strip(), text)) is not None:
            found.append((*place, proof.href, "a verified quote"))
    pieces: list[Piece] = []
    end = 0
    for start, stop, href, why in _apart(found):
        pieces += [Piece(text[end:start])] if start > end else []
        pieces.append(Piece(text[start:stop], href, why))
        end = stop
    return [*pieces, Piece(text[end:])] if end < len(text) else pieces


def _place_of(quote: str, text: str) -> tuple[int, int] | None:
    """Where the text repeats the quote, or a few words of it: quotes are whole lines, reports cite a part of one."""
    words = quote.split(" ")
    for first in range(max(1, len(words) - _MIN_WORDS + 1)):
        few = " ".join(words[first : first + _MIN_WORDS])
        at = text.find(few) if len(few) >= _SHORTEST_QUOTE else -1
        if at >= 0:
            inside = quote.find(few)
            start, end = at - _common(quote[:inside][::-1], text[:at][::-1]), at + _common(quote[inside:], text[at:])
            return start + len(text[start:end]) - len(text[start:end].lstrip()), start + len(text[start:end].rstrip())
    return None


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _apart(found: list[tuple[int, int, str, str]]) -> list[tuple[int, int, str, str]]:
    chosen: list[tuple[int, int, str, str]] = []
    for one in sorted(found, key=lambda one: (one[0] - one[1], one[0])):
        if all(one[1] <= other[0] or one[0] >= other[1] for other in chosen):
            chosen.append(one)
    return sorted(chosen)
