"""The pages of sessions: the list of all, and one session with its report, its turns and its outputs."""

import asyncio
import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdall.agent.transcript import entry_in
from holdall.bag import Holdall
from holdall.bag.overview import Listed, Summary, added_up
from holdall.policy.folds import Ledger, Operation, Tree
from holdall.text.numbers import size
from holdall.values.errors import HoldallError, UsageError
from holdall.values.handles import is_uuid
from holdall.values.outputs import RUNNING, Facts
from holdall.values.record import record
from holdall.values.spans import Totals
from holdall.web import figures
from holdall.web import output_data as asking
from holdall.web import timeline as timeline_rows
from holdall.web.calls import SORTS, VERDICTS, asked_of_calls
from holdall.web.output_page import Seen, took
from holdall.web.state import render, state_of
from holdall.web.timeline import (
    DRAWN_BYTES,
    TIMELINE_PAGE,
    Piece,
    Proof,
    Quote,
    Reported,
    Row,
    Said,
    Task,
    linked,
    output_address,
    tasks_of,
)

# The first page: every session, newest first, a page at a time, with what it kept and what it took.
#
# The page asks every two seconds for what has changed; an unchanged list costs a look at the stamps of those shown.


SESSIONS_PAGE = 50
_AGAIN = 30.0  # seconds: of an output whose process was killed no file changes, and it is not so long ago any more
_LONGEST_SEARCH = 200


async def sessions(request: Request) -> Response:
    """What is not known yet of a session is fetched by the page itself, once it is shown."""
    stamp = await _stamp(request)
    listed, search = await _listed(request, seconds=0.02)
    is_inside = bool(request.query_params.get("inside"))
    return render(request, "sessions.html", **_session_values(listed, search, stamp), inside=is_inside)


async def rows(request: Request) -> Response:
    """The same list with everything that there is to know; nothing where it has not changed since (204). What has
    changes the totals too.
    """
    known = request.query_params.get("v")
    stamp = await _stamp(request)
    if known == stamp:
        return Response(status_code=204)
    listed, search = await _listed(request, seconds=math.inf)
    headers = {"hx-trigger": "sessions"} if known else None
    return render(request, "sessions_list.html", headers=headers, **_session_values(listed, search, stamp))


async def totals(request: Request) -> Response:
    total, unknown = await asyncio.to_thread(state_of(request).overview.totals)
    return render(request, "sessions_totals.html", total=total, unknown=unknown)


async def _listed(request: Request, *, seconds: float) -> tuple[Listed, str]:
    search = request.query_params.get("q", "")[:_LONGEST_SEARCH]
    page = _page(request.query_params.get("page", "1"))
    overview = state_of(request).overview
    listed = await asyncio.to_thread(
        overview.page, search=search, start=(page - 1) * SESSIONS_PAGE, count=SESSIONS_PAGE, seconds=seconds
    )
    return listed, search


async def _stamp(request: Request) -> str:
    """Of the list before it is looked at: which sessions there are, and what would change what is said of them."""
    listed, now = (await _listed(request, seconds=-1.0))[0], time.time()
    stamp = await asyncio.to_thread(state_of(request).overview.stamp_of, listed.sessions)
    over = sum(0.0 < one.expires <= now for one in listed.sessions)
    again = now // _AGAIN if any(one.is_running for one in listed.sessions) else 0.0
    return f"{listed.total} {over} {again:.0f} {stamp}"


def _session_values(listed: Listed, search: str, stamp: str) -> dict[str, Any]:
    page = listed.start // SESSIONS_PAGE + 1
    last = max(1, math.ceil(listed.total / SESSIONS_PAGE))
    return {
        "listed": listed, "search": search, "page": page, "last": last, "now": time.time(),
        "here": _address(search, page), "before": _address(search, page - 1) if page > 1 else "",
        "after": _address(search, page + 1) if page < last else "", "stamp": stamp, "end": _address(search, last),
    }  # fmt: skip


def _address(search: str, page: int) -> str:
    """What is after the question mark."""
    asked = {"q": search} if search else {}
    return urlencode(asked | ({"page": str(page)} if page > 1 else {}))


def _page(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= len(text) <= 6 or int(text) < 1:
        raise UsageError("a page is a number, from 1.")
    return int(text)


sessions_routes = [
    Route("/", sessions, name="sessions"),
    Route("/sessions/rows", rows, name="sessions_rows"),
    Route("/sessions/totals", totals, name="sessions_totals"),
]


# One session: its report and what that rests on, what happened turn by turn, every output and what was seen of it.
#
# While the session runs, the page asks once a second for what has changed; an unchanged session costs one look.


_LONGEST_QUOTE = 600  # bytes
_MAX_QUOTES = 200
_MOST_TASKS = 50  # of a session that was continued, the newest
_MOST_AGENTS = 50  # that run at once, whose changes a page follows


async def timeline(request: Request) -> Response:
    values = asked_of_calls(request) | await _timeline_values(request)
    return render(request, "timeline.html", **values, verdicts=VERDICTS, sorts=SORTS)


async def live(request: Request) -> Response:
    """The part of the page that changes; nothing if it has not (204)."""
    viewer, session = state_of(request), request.path_params["session"]
    async with viewer.session(session):
        stamp = await asyncio.to_thread(viewer.overview.stamp, session, *_followed(request))
    if stamp and request.query_params.get("v") == stamp:
        return Response(status_code=204)
    return render(request, "timeline_live.html", **await _timeline_values(request))


def _followed(request: Request) -> list[str]:
    """The agents that ran when the page was made: it changes when one of them does."""
    return [one for one in request.query_params.get("agents", "").split()[:_MOST_AGENTS] if is_uuid(one)]


async def _timeline_values(request: Request) -> dict[str, Any]:
    viewer, session, now = state_of(request), str(request.path_params["session"]), time.time()
    async with viewer.session(session) as bag:
        stamp = await asyncio.to_thread(viewer.overview.stamp, session, *_followed(request))
        summary = await asyncio.to_thread(viewer.overview.one, session)
        if summary is None:
            raise HTTPException(404)
        agents = await asyncio.to_thread(viewer.overview.agents, session)
        values = await asyncio.to_thread(
            _session_values_now, bag, summary, agents, _start(request, "from"), _start(request, "outputs")
        )
        proofs = await _proofs(bag, values.pop("quotes"))
        outputs, ledger, logged = (values.pop(name) for name in ("shown_outputs", "ledger", "took"))
        totals = [(await asking.totals(bag, one))[0] if one.state in RUNNING else _total(one) for one in outputs]
    return {
        **values,
        "outputs": [
            Seen.of(one, of, ledger.of(one.handle), now, logged.get(one.handle))
            for one, of in zip(outputs, totals, strict=True)
        ],
        "stamp": stamp,
        "proofs": proofs,
        "rows": [timeline_rows.counted(row, proofs) for row in values["rows"]],
        "tasks": _told_tasks(values, proofs, session),
        "parent": await asyncio.to_thread(viewer.overview.one, summary.parent) if summary.parent else None,
        "children": [one for one in agents if one.parent == summary.id],
        "followed": " ".join([one.id for one in agents if one.is_running][:_MOST_AGENTS]),
        "now": now,
    }


def _total(facts: Facts) -> Totals:
    return Totals(facts.measure.bytes, facts.measure.chars, facts.measure.lines)


def _count_agents(root: Operation, agents: Sequence[Summary]) -> None:
    """What the agents have used so far that have not ended, with those that they started: the log has it of one that
    has ended.
    """
    known, families = {one.id: one for one in agents}, dict[str, list[Summary]]()
    for one in agents:
        first = one
        while first.parent in known:
            first = known[first.parent]
        families.setdefault(first.id, []).append(one)
    waiting = [root]
    while waiting:
        one = waiting.pop()
        waiting += one.children
        if one.kind == "agent" and "turns" not in one.data:
            used = added_up(families.get(str(one.data.get("session", "")), ()))
            one.data |= {"so_far": True, "input_tokens": used.model_tokens}  # which of them is what is not known
            one.data |= {"cost": used.cost, "unpriced_calls": used.unpriced}


def _session_values_now(
    bag: Holdall, summary: Summary, agents: Sequence[Summary], first_row: int, first_output: int
) -> dict[str, Any]:
    """Everything that the log, the transcript and the records say."""
    left_out = max(0, bag.records.log_bytes() - DRAWN_BYTES)
    events = list(bag.records.with_lost_ends(bag.records.events(DRAWN_BYTES)))
    wanted = {event.call_id for event in events if event.call_id}
    said = Said.of(map(entry_in, bag.records.transcript_lines()), wanted)
    tree = Tree.of(bag.session.name, events)
    root = tree.root
    _count_agents(root, agents)
    outputs = list(bag.store.outputs(bag.session))[::-1]
    tree.add_unlogged(() if left_out else outputs[::-1])
    counted = {one.handle for one in outputs if one.measure.tokens_exact}
    known = timeline_rows.Known.of(bag.session.id, events, said.arguments, counted)
    rows = timeline_rows.rows_of(root, known, now=time.time(), is_running=summary.is_running)
    ledger = Ledger()
    for event in bag.records.events() if left_out else events:
        ledger.add(event)
    told = [f"The log is long: its first {size(left_out)} are not drawn."] if left_out else []
    return {
        "session": bag.session, "summary": summary, "root": root, "totals": root.totals(),
        "own": replace(root, children=[*root.children, *tree.outputs]).totals(agents=False),
        "lists_calls": bool(tree.outputs) or not rows,
        "rows": rows[first_row : first_row + TIMELINE_PAGE], "first_row": first_row, "row_count": len(rows),
        "shown_outputs": outputs[first_output : first_output + TIMELINE_PAGE], "ledger": ledger, "took": took(events),
        "first_output": first_output, "output_count": len(outputs), "page_size": TIMELINE_PAGE,
        "tool_of": {one.handle: one.origin.tool for one in outputs}, "chart": figures.context_chart(events),
        "tasks": tasks_of(said, tree.runs.all), "reported": Reported.of(root.data.get("reported")),
        "quotes": _quotes(rows), "own_rows": [row for row in rows if row.quotes and not row.is_apart],
        "bad_lines": [*told, *bag.care.bad_lines()],
    }  # fmt: skip


def _quotes(rows: Sequence[Row]) -> list[Quote]:
    return [quote for row in rows for quote in row.quotes][:_MAX_QUOTES]


async def _proofs(bag: Holdall, quotes: Sequence[Quote]) -> dict[Quote, Proof]:
    """The quotes with their words, read from the output: what is shown is what is there."""
    found: dict[Quote, Proof] = {}
    for quote in quotes:
        text, href = "", ""
        if quote.end > quote.start:
            href = output_address(bag.session.id, quote.handle, quote.start, quote.end)
            end = min(quote.end, quote.start + _LONGEST_QUOTE)
            with contextlib.suppress(HoldallError):  # expired or damaged: the link says more
                text = (await bag.read(quote.handle, bytes=(quote.start, end), bounded=False)).text
        found[quote] = Proof(quote, text, href)
    return found


@record
class ToldTask:
    """A task with its report, each handle and quote in that a link, and the quotes that were found meanwhile."""

    task: Task
    number: int
    report: Sequence[Piece]
    proofs: Sequence[Proof]


def _told_tasks(values: dict[str, Any], proofs: dict[Quote, Proof], session: str) -> list[ToldTask]:
    """The newest first."""
    tasks: list[Task] = values["tasks"]
    rows: list[Row] = values.pop("own_rows")
    told, end = list[ToldTask](), math.inf
    for number, task in list(enumerate(tasks, 1))[: -_MOST_TASKS - 1 : -1]:
        began = task.began - values["root"].at if number > 1 else -math.inf
        quotes = dict.fromkeys(quote for row in rows if began <= row.began < end for quote in row.quotes)
        own = [proofs[quote] for quote in quotes if quote in proofs]
        is_told = task.reported is not None and not task.reported.synthetic
        pieces = linked(task.report, session, values["tool_of"], proofs.values()) if is_told else []
        told.append(ToldTask(task, number, pieces, own))
        end = min(end, began) if math.isfinite(began) else end
    return told


def _start(request: Request, name: str) -> int:
    text = request.query_params.get(name, "0")
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{name} is a number, from 0.")
    return int(text)


timeline_routes = [
    Route("/s/{session}", timeline, name="timeline"),
    Route("/s/{session}/live", live, name="timeline_live"),
]
