"""Every session of a store at a glance: newest first, with its outputs and its cost. Read-only.

A summary is made of a session's log and records once, and again when these have changed. Nothing here opens a session
that has not changed since, so a page of a list costs the same whatever the sessions hold.
"""

import contextlib
import hashlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from itertools import islice
from typing import Any, cast

from holdall.bag.journal import logged_events
from holdall.bag.records import is_alive
from holdall.policy.folds import MOST_OPERATIONS, PERSON, Counters, Operation, Runs, Tasks, Tree, has_failed
from holdall.store.opening import open_store
from holdall.store.protocol import Log, OutputStore, SavedSummary, SessionInfo, Stamp
from holdall.text.escape import as_written
from holdall.text.numbers import number, whole
from holdall.values.errors import StoreFault, StoreGone
from holdall.values.outputs import FAILED, Facts
from holdall.values.record import record
from holdall.values.settings import Settings

_MAX_TOOLS = 6  # named in a summary
_MAX_TASK = 300  # characters
_FIRST_MESSAGES = 8
_NOT_ASKED = (b'{"role":"assistant"', b'{"role":"tool"')
_MAX_DEPTH = 8  # agents of agents; a session that claims to be its own ancestor ends there too
_FEW = 4  # sessions that are looked at before others get their turn


@record
class Summary:
    """One session. `is_known` is false where only its name and its time were looked at so far."""

    id: str
    name: str
    created: float
    parent: str = ""
    is_known: bool = False
    outputs: int = 0
    bytes: int = 0
    failed: int = 0  # outputs that are errors, or whose call ended badly, and calls killed before they had one
    gone: int = 0  # outputs that were removed or have expired
    tokens_kept_out: int = 0
    model_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0  # calls of models whose price is not known
    people_cost: float = 0.0  # of what people asked models about the run of an agent, which is no part of it
    people_unpriced: int = 0
    turns: int = 0
    agents: int = 0
    tools: tuple[str, ...] = ()
    more_tools: int = 0  # that are not among them
    last: float = 0.0  # when something happened last
    status: str = ""  # of its report; empty if there is none
    running: int = 0  # outputs that are being written, and calls that are waited for
    is_open: bool = False  # an agent ran, and has not reported since
    is_led: bool = False  # an agent runs
    task: str = ""  # what its agent was asked last, the beginning
    tasks: int = 0
    model: str = ""  # that was asked last
    runs: int = 0  # of its agent: one that has ended may be continued
    unreported: int = 0  # of these, with the one that runs
    seconds: float = 0.0  # that they took; where there is none, from the first event to the last
    since: float = 0.0  # when it would have begun, had there been no time between its runs
    expires: float = 0.0  # when the next of its outputs does, which changes no file; 0 if none will

    @property
    def is_running(self) -> bool:
        return self.is_led or self.running > 0

    @property
    def at_least(self) -> bool:
        """A run was killed: no more is known of how long it took."""
        return self.unreported > self.is_timed

    @property
    def is_timed(self) -> bool:
        return self.is_open and self.is_running


@record
class Listed:
    """A page of the list. `total` are all that match; `unknown` of those shown have yet to be looked at."""

    sessions: tuple[Summary, ...]
    total: int
    start: int

    @property
    def unknown(self) -> int:
        return sum(not one.is_known for one in self.sessions)


@record
class Mention:
    """A line of a session's log or transcript that has what was searched for; `more`: there are others after it.

    With `output`, it is in the record of that output: what a command is called with is in no log.
    """

    session: Summary
    log: Log
    line: bytes
    more: bool = False
    output: Facts | None = None


class Overview:
    """Safe to use from many threads; it blocks. Close it."""

    def __init__(self, home: str, settings: Settings | None = None) -> None:
        self._home = home
        self._settings = settings
        self._opened: OutputStore | None = None
        self._known: dict[str, tuple[str, Summary]] | None = None
        self._unreadable: dict[str, str] = {}  # stamps of folders that hold no session which can be read
        self._lock = threading.RLock()

    def page(self, *, search: str = "", start: int = 0, count: int = 50, seconds: float = 0.02) -> Listed:
        """Those whose name holds `search`. What is not known yet is looked at for as long as `seconds` allow."""
        with self._lock:
            wanted = search.casefold().strip()
            matching = [one for one in self._identified() if wanted in one.name.casefold() or wanted == one.id]
            shown = self._fresh(matching[start : start + count], time.monotonic() + seconds)
            return Listed(tuple(shown), len(matching), start)

    def totals(self, *, seconds: float = 0.4) -> tuple[Summary, int]:
        """All sessions added up, as far as that goes in this time, and how many are not among them yet.

        A few at a time, so that requests for a page need not wait for all of them.
        """
        deadline, inspected = time.monotonic() + seconds, set[str]()
        while True:
            with self._lock:
                every = self._identified()
                stamps = self._store.session_stamps(one.id for one in every)
                stale = [one for one in every if one.id not in inspected and self._is_stale(one, stamps)]
                if not stale or time.monotonic() > deadline:
                    return added_up(every), sum(not one.is_known for one in every)
                self._fresh(stale[:_FEW], deadline)
                inspected |= {one.id for one in stale[:_FEW]}

    def one(self, session: str) -> Summary | None:
        with self._lock:
            known = [one for one in self._identified() if one.id == session]
            return next(iter(self._fresh(known, float("inf"))), None)

    def stamp(self, session: str, *agents: str) -> str:
        """Changes whenever the session, or one of these, does; the ends of agents and of outputs are changes."""
        with self._lock:
            found = self._store.session_stamps([session, *agents])
            told = [f"{found[id].text}:{self._store.is_leased(id):d}" for id in (session, *agents) if id in found]
            return " ".join(told) if session in found else ""

    def stamp_of(self, sessions: Sequence[Summary]) -> str:
        """Changes whenever one of these does, or another one is in its place; short, however many there are."""
        with self._lock:
            found = self._store.session_stamps(one.id for one in sessions)
            told = [
                f"{one.id}:{found[one.id].text}:{(one.is_open or one.is_running) and self._store.is_leased(one.id):d}"
                for one in sessions
                if one.id in found
            ]
        return hashlib.sha256(" ".join(told).encode()).hexdigest()[:16]

    def agents(self, session: str) -> list[Summary]:
        """The sessions that agents of this one started, and those that they started, oldest first."""
        with self._lock:
            every, found, last = self._identified(), set[str](), {session}
            while last and len(found) < len(every):
                last = {one.id for one in every if one.parent in last} - found - {session}
                found |= last
            return self._fresh([one for one in every if one.id in found], float("inf"))

    def search(
        self,
        text: str,
        *,
        start: int = 0,
        most: int = 50,
        of_each: int = 5,
        seconds: float = 1.5,
        is_meant: Callable[[Mention], bool] = lambda _: True,
    ) -> tuple[list[Mention], int | None]:
        """Lines of logs and transcripts, and records of outputs, that have this text, whatever its case, in the
        sessions from number `start` on.

        At most so many, `of_each` session; then the number of the session at which to continue, None at the end. A
        line may have it in a part that nobody means, such as a checksum, or only without its quotes, backslashes and
        spaces, which JSON writes in many ways: those that are not meant do not count.
        """
        deadline, found = time.monotonic() + seconds, list[Mention]()
        with self._lock:
            sessions = self._identified()
        for at, one in enumerate(sessions[start:], start):
            if len(found) >= most or (at > start and time.monotonic() > deadline):
                return found, at
            with self._lock, contextlib.suppress(StoreFault):
                found += _mentions(self._store, one, text.lower(), of_each, is_meant)
        return found, None

    def close(self) -> None:
        with self._lock:
            self._close()

    # Inside

    @property
    def _store(self) -> OutputStore:
        """Open it, again if the store was removed or replaced since: a viewer that runs for days shows the current
        store.
        """
        if self._opened is not None:
            try:
                self._opened.session_stamps([])
            except StoreGone:
                self._close()
        if self._opened is None:
            self._opened = open_store(self._home, read_only=True, settings=self._settings)
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _identified(self) -> list[Summary]:
        """Every session by name and time, newest first. Neither ever changes, so an old row is good for that."""
        store = self._store
        known, there = self._rows(), store.session_stamps()
        if unknown := {id: stamp for id, stamp in there.items() if id not in known}:
            self._name(unknown)
        if gone := [id for id in known if id not in there]:
            for id in gone:
                del known[id]
            with contextlib.suppress(StoreFault):  # they are not listed all the same
                store.forget_summaries(gone)
        return _families({id: one for id, (_, one) in known.items()})

    def _name(self, unknown: Mapping[str, Stamp]) -> None:
        """Read who they are. A folder that holds no session is looked at again when it has changed."""
        if all(self._unreadable.get(id) == stamp.text for id, stamp in unknown.items()):
            return
        known = self._rows()
        store = self._store
        for info in store.sessions():
            known.setdefault(info.id, ("", Summary(info.id, info.name, info.created, info.parent)))
        self._unreadable = {id: stamp.text for id, stamp in unknown.items() if id not in known}
        store.save_summaries([SavedSummary(id, "", asdict(known[id][1])) for id in unknown if id in known])

    def _fresh(self, sessions: Sequence[Summary], deadline: float) -> list[Summary]:
        """The same, those that have changed looked at again, until the deadline."""
        store = self._store
        known, stamps = self._rows(), store.session_stamps(one.id for one in sessions)
        found = [one for one in sessions if one.id in stamps]
        stale = [at for at, one in enumerate(found) if self._is_stale(one, stamps)]
        self._refresh(found, stale, stamps, deadline)
        for at, one in enumerate(found):
            if one.is_open and known[one.id][0] == stamps[one.id].text:
                found[at] = replace(one, is_led=store.is_leased(one.id))
        return found

    def _is_stale(self, one: Summary, stamps: Mapping[str, Stamp]) -> bool:
        """One that is gone is not: there is nothing to look at."""
        is_over = 0.0 < one.expires <= time.time()
        return one.id in stamps and (self._rows()[one.id][0] != stamps[one.id].text or one.is_running or is_over)

    def _refresh(self, found: list[Summary], stale: Sequence[int], stamps: Mapping[str, Stamp], by: float) -> None:
        known, store = self._rows(), self._store
        saved: list[SavedSummary] = []
        for at in stale:
            if time.monotonic() > by:
                break
            one, stamp = found[at], stamps[found[at].id]
            with contextlib.suppress(StoreFault):
                info = store.open_session(f"session-{one.id}")
                made = found[at] = replace(_summary(store, info), is_led=store.is_leased(one.id))
                known[one.id] = (stamp.text if stamp.is_settled else "", made)
                if stamp.is_settled:
                    saved.append(SavedSummary(one.id, stamp.text, asdict(made)))
        if saved:
            store.save_summaries(saved)

    def _rows(self) -> dict[str, tuple[str, Summary]]:
        if self._known is None:
            self._known = {}
            for id, stamp, flat in self._store.summaries():
                with contextlib.suppress(TypeError, KeyError):
                    values: dict[str, Any] = {one.name: flat[one.name] for one in fields(Summary)}
                    values["tools"] = tuple(values["tools"])
                    self._known[id] = (stamp, Summary(**values))
        return self._known


def _mentions(
    store: OutputStore, one: Summary, text: str, most: int, is_meant: Callable[[Mention], bool]
) -> list[Mention]:
    info = store.open_session(f"session-{one.id}")
    needle = _bare(json.dumps(text).encode("ascii"))
    found: list[Mention] = []
    for log in ("events", "transcript"):
        count = 0
        for piece in store.log_lines(info, log):
            if count > most:
                break
            bare = _bare(piece.lines)
            if needle not in bare:
                continue
            for line, words in zip(piece.lines.split(b"\n"), bare.split(b"\n"), strict=True):
                if count > most:
                    break
                if needle in words and is_meant(mention := Mention(one, log, line)):
                    count += 1
                    if count > most:
                        found[-1] = replace(found[-1], more=True)
                    else:
                        found.append(mention)
        if log == "events" and count <= most:
            recorded = (facts for facts in store.outputs(info) if _is_called(facts, text))
            found += [Mention(one, log, b"", output=facts) for facts in islice(recorded, most)]
    return found


def _bare(line: bytes) -> bytes:
    """A line of a log without what differs with how deep a text is in it: a string of JSON may be in a string of JSON,
    with more backslashes, and an object has spaces where it is shown.
    """
    return line.lower().translate(None, b'\\" ')


def _is_called(facts: Facts, text: str) -> bool:
    """Whether the call of an output has this text, which is in lower case."""
    origin = facts.origin
    call = [facts.handle, origin.tool, origin.server, origin.arguments]
    shown = json.dumps(call, ensure_ascii=False, default=str).lower()
    return any(form in shown for form in as_written(text))


def added_up(sessions: Iterable[Summary]) -> Summary:
    total = Summary("", "", 0.0, is_known=True)
    for one in sessions:
        total = replace(
            total, outputs=total.outputs + one.outputs, bytes=total.bytes + one.bytes, cost=total.cost + one.cost,
            tokens_kept_out=total.tokens_kept_out + one.tokens_kept_out, running=total.running + one.is_running,
            model_tokens=total.model_tokens + one.model_tokens, unpriced=total.unpriced + one.unpriced,
            people_cost=total.people_cost + one.people_cost,
            people_unpriced=total.people_unpriced + one.people_unpriced,
        )  # fmt: skip
    return total


def _families(sessions: Mapping[str, Summary]) -> list[Summary]:
    """Newest first; those that an agent started are after its own, oldest first."""

    def place(one: Summary) -> tuple[float, str, bool, float, str]:
        first, depth = one, 0
        while first.parent in sessions and depth < _MAX_DEPTH:
            first, depth = sessions[first.parent], depth + 1
        return -first.created, first.id, depth > 0, one.created, one.id

    return sorted(sessions.values(), key=place)


def _summary(store: OutputStore, info: SessionInfo) -> Summary:
    every = store.outputs(info)
    outputs = [facts for facts in every if facts.state != "expired"]
    counters, people, runs = Counters(), Counters(), Runs()
    status, model, is_open, first, last = "", "", False, math.inf, -math.inf
    unanswered: dict[tuple[str, int], tuple[int, str]] = {}  # by whose process
    tree = Tree(Operation("session", info.name, 0.0))
    for event in logged_events(store, info):
        if counters.turns and event.data.get("reader") == PERSON:
            with contextlib.suppress(ValueError, OverflowError):
                people.add(event)
            continue  # no part of the run of an agent
        with contextlib.suppress(ValueError, OverflowError):  # a number in a damaged log that is none
            counters.add(event)
        if math.isfinite(event.at) and event.kind != "removed":
            first, last = min(first, event.at - max(0.0, event.seconds)), max(last, event.at)
            runs.add(event)
        with contextlib.suppress(ValueError, OverflowError):
            tree.add_output(event)
        of = event.by, whole(event.data.get("number"))
        if event.kind == "begun" and len(unanswered) < MOST_OPERATIONS:
            unanswered[of] = whole(event.data.get("process")), str(event.data.get("process_mark") or "")
        elif event.kind == "over":
            unanswered.pop(of, None)
        if event.kind == "asked" and event.data.get("purpose") == "turn":
            model = str(event.data.get("model") or "")[:100]
        # How the last run reported, and whether one has begun since and has not.
        if event.kind == "turn":
            status, is_open = "", True
        elif event.kind == "reported":
            status, is_open = str(event.data.get("status", "")), False
    running = sum(facts.state == "running" for facts in outputs)
    waiting = 0 if counters.turns else sum(is_alive(*process) for process in unanswered.values())
    killed = 0 if counters.turns else len(unanswered) - waiting  # a resumed agent says itself what was interrupted
    failed = {facts.handle for facts in outputs if facts.origin.is_error or facts.state in FAILED}
    for number_of, one in enumerate(tree.outputs):  # as its page counts them: also those that were shown whole
        if has_failed(one.data):
            failed.add(str(one.data["handle"] or number_of))
    cost, of_people = (one.model_cost if math.isfinite(one.model_cost) else 0.0 for one in (counters, people))
    seconds = runs.seconds if runs.all else last - first if math.isfinite(last - first) else 0.0
    tasks = _tasks(store, info, is_continued=len(runs.all) > 1)
    tools = tuple(dict.fromkeys(facts.origin.tool[:100] for facts in outputs if facts.origin.tool))
    return Summary(
        info.id, info.name, info.created, info.parent, is_known=True,
        outputs=len(outputs), bytes=sum(facts.measure.bytes for facts in outputs),
        failed=killed + len(failed),
        gone=len(every) - len(outputs), tokens_kept_out=counters.tokens_kept_out, model_tokens=counters.model_tokens,
        cost=cost, unpriced=counters.unpriced_calls, people_cost=of_people, people_unpriced=people.unpriced_calls,
        turns=counters.turns, agents=counters.agents, running=running + waiting,
        tools=tools[:_MAX_TOOLS], more_tools=len(tools[_MAX_TOOLS:]),
        last=last if math.isfinite(last) else info.created,
        status=status, is_open=is_open, model=model, task=tasks[-1] if tasks else "", tasks=len(tasks),
        runs=len(runs.all), unreported=sum(one.reported is None for one in runs.all), seconds=seconds,
        since=number(runs.all[-1].last) - seconds if runs.all else 0.0, expires=_expires(info, outputs),
    )  # fmt: skip


def _expires(info: SessionInfo, outputs: Sequence[Facts]) -> float:
    ended = (facts.ended or facts.created for facts in outputs if facts.state != "running")
    first = min(map(info.retention.expires_at, ended), default=math.inf)
    return first if math.isfinite(first) else 0.0


def _tasks(store: OutputStore, info: SessionInfo, *, is_continued: bool) -> list[str]:
    """What was asked, in order. The first is among the first messages: no more is read where it is the only one."""
    found = Tasks()
    for piece in store.log_lines(info, "transcript"):
        for line in piece.lines.split(b"\n")[: None if is_continued else _FIRST_MESSAGES]:
            if line.startswith(_NOT_ASKED):  # nearly all, and the long ones
                found.add("assistant", "")
                continue
            with contextlib.suppress(ValueError, RecursionError):
                flat: object = json.loads(line)
                if isinstance(flat, dict):
                    said = cast("dict[str, Any]", flat)
                    found.add("again" if "again" in said else str(said.get("role")), str(said.get("text")))
        if not is_continued:
            break
    found.settle()
    return [run.task[:_MAX_TASK] for run in found.runs if run.task]
