"""What the events of a session come to: the ledger of what a model has seen, the counters, the operation tree.

All are folds over the log. Nothing here reads or writes it.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Literal, cast

from holdall.text.numbers import number, whole
from holdall.values.events import Event
from holdall.values.handles import MEMBER
from holdall.values.outputs import FAILED, RUNNING, UNTIMED, Facts
from holdall.values.record import record
from holdall.values.spans import Span

# How much of each output a model has seen: a fold over the events of a session.
#
# `shown` are bytes that was in an answer or a notice, `scanned` those that a verb went over on the model's behalf,
# `passed` those that went to another tool by reference, `searched` those that a model extracted from. Ranges are merged
# as they come: a thousand answers about one output cost little more than one.


MOST_OUTPUTS = 200_000  # in a ledger; a log from elsewhere may name millions
PERSON = "person"
APART = "apart"  # in the data of an operation that is no part of the run of an agent: a person asked
OF_READERS = ("kept", "running", "ended", "retrieved", "scanned", "extracted", "asked", "called")  # for whom: `reader`
_OF_OUTPUTS = ("kept", "running", "ended", "retrieved", "scanned", "passed", "extracted")
WAYS = ("shown", "scanned", "searched", "passed")


@record(frozen=False)
class Ranges:
    """A set of bytes as ranges that neither touch nor overlap, in order."""

    starts: list[int] = field(default_factory=list[int])
    ends: list[int] = field(default_factory=list[int])

    def add(self, *spans: Span) -> None:
        """Those of an event in one step: an event that somebody forged may have a million of them."""
        new = sorted((span.start, span.end) for span in spans if span.start < span.end)
        if not new:
            return
        first = bisect_left(self.ends, new[0][0])
        last = bisect_right(self.starts, max(end for _, end in new))
        if first < last:
            new = sorted([*new, *zip(self.starts[first:last], self.ends[first:last], strict=True)])
        starts, ends = [new[0][0]], [new[0][1]]
        for start, end in new[1:]:
            if start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        self.starts[first:last], self.ends[first:last] = starts, ends

    def covers(self, span: Span) -> bool:
        at = bisect_right(self.starts, span.start) - 1
        return span.start >= span.end or (at >= 0 and self.ends[at] >= span.end)

    def bytes(self, total: int | None = None) -> int:
        end = float("inf") if total is None else total
        return int(sum(min(b, end) - a for a, b in zip(self.starts, self.ends, strict=True) if a < end))

    def copy(self) -> "Ranges":
        return Ranges(self.starts[:], self.ends[:])

    def as_lists(self) -> list[list[int]]:
        return [[start, end] for start, end in zip(self.starts, self.ends, strict=True)]


@record(frozen=False)
class Coverage:
    """One output: its ranges by the way in which they were used, and how often it was asked."""

    ranges: dict[str, Ranges] = field(default_factory=lambda: {way: Ranges() for way in WAYS})
    retrievals: int = 0
    at_end: int = 0  # how many of them came before its call had ended in the background
    kept: bool = False  # whether an event has counted it as kept
    began: float = math.inf  # when the call began that went to the background

    def runs_since(self, created: float) -> float:
        """When its call began, as far as that is known: its record begins when the call went to the background."""
        return min(created, self.began)

    @property
    def shown(self) -> Ranges:
        return self.ranges["shown"]

    @property
    def is_asked(self) -> bool:
        """Whether something of it was asked for since its call has ended."""
        return self.retrievals > self.at_end

    def is_told(self, total: int) -> bool:
        """Whether all of it was shown, and some of that since its call has ended."""
        return self.is_asked and self.share(total) == 1.0

    def share(self, total: int, plus: Iterable[Span] = ()) -> float:
        """The part of `total` bytes that was shown, with these ranges too."""
        shown = self.shown
        if plus := tuple(plus):
            shown = shown.copy()
            for span in plus:
                shown.add(span)
        return shown.bytes(total) / total if total else 1.0

    def share_of(self, way: str, total: int) -> float:
        """The part of `total` bytes that was used in this way."""
        return self.ranges[way].bytes(total) / total if total else 1.0

    def to_json(self, total: int) -> dict[str, Any]:
        ways = {way: ranges.as_lists() for way, ranges in self.ranges.items() if ranges.starts}
        return {"seen": round(self.share(total), 6), "retrievals": self.retrievals, **ways}


@record(frozen=False)
class Ledger:
    """By handle, of the first `MOST_OUTPUTS` that events are about: of any more nothing counts as seen."""

    by_handle: dict[str, Coverage] = field(default_factory=dict[str, Coverage])

    def of(self, handle: str) -> Coverage:
        return self.by_handle.get(handle) or Coverage()

    def add(self, event: Event) -> None:
        if not event.handle or event.kind not in _OF_OUTPUTS:
            return
        if event.data.get("reader") == PERSON and event.kind != "running":
            return
        coverage = self.by_handle.get(event.handle)
        if coverage is None:
            if len(self.by_handle) >= MOST_OUTPUTS:
                return
            coverage = self.by_handle[event.handle] = Coverage()
        if event.kind == "running":
            coverage.began = min(coverage.began, number(event.at - event.seconds) or math.inf)
            return
        for way in WAYS:
            coverage.ranges[way].add(*event.spans(way))
        coverage.retrievals += event.kind == "retrieved"
        coverage.at_end = coverage.retrievals if event.kind == "ended" else coverage.at_end
        coverage.kept |= event.kind == "kept" or (event.kind == "ended" and "bytes" in event.data)
        member, inside = event.data.get("member"), event.data.get("in_member")
        if isinstance(member, str) and isinstance(inside, Mapping):
            data = cast("Mapping[str, Any]", inside)
            self.add(
                replace(event, handle=f"{event.handle}{MEMBER}{member}", data={way: data.get(way) for way in WAYS})
            )


# What a session has done, in numbers: a fold over its events.


@record(frozen=False)
class Counters:
    """`tokens_kept_out` are those of the outputs that were kept, less those of what stood in their place.
    `retrieved_tokens` are those of the answers of tools, and of what the verbs of the library gave for a model; what a
    command printed is not in it.

    What was shown to a person is out of no model's context: of `kept`, `kept_for_people` are such. `turns` are those of
    agents that Holdall runs: it knows nothing of the turns of other loops.
    """

    inline: int = 0
    kept: int = 0
    kept_for_people: int = 0
    unkept: int = 0
    kept_bytes: int = 0
    tokens_kept_out: int = 0
    retrievals: Counter[str] = field(default_factory=Counter[str])
    retrieved_tokens: int = 0
    refused: int = 0
    passed_by_reference: int = 0
    background: int = 0
    extractions: Counter[str] = field(default_factory=Counter[str])  # by the strategy that gave the answer
    fallbacks: int = 0
    turns: int = 0
    agents: int = 0
    recoveries: int = 0
    model_calls: int = 0
    model_tokens: int = 0
    model_input_tokens: int = 0  # as the models counted them,
    estimated_tokens: int = 0  # and as we had before the same calls
    model_cost: float = 0.0
    unpriced_calls: int = 0  # of models whose price is not known

    def add(self, event: Event) -> None:
        if (name := _COUNTED.get(event.kind)) is not None:
            setattr(self, name, getattr(self, name) + 1)
        data = event.data
        match event.kind:
            case "kept":
                self.kept_bytes += whole(data.get("bytes"))
                out = whole(data.get("tokens")) - whole(data.get("content_tokens"))
                is_for_model = data.get("reader") != PERSON
                self.kept_for_people += not is_for_model
                self.tokens_kept_out += max(0, out) if data.get("replaced") and is_for_model else 0
            case "ended" if "bytes" in data:  # the only event for the output of a call in the background
                self.kept += 1
                self.kept_bytes += whole(data.get("bytes"))
                is_for_model = data.get("reader") != PERSON
                self.kept_for_people += not is_for_model
                self.tokens_kept_out += whole(data.get("tokens")) if is_for_model else 0
            case "retrieved" if not data.get("part"):
                verb = str(data.get("verb", "?"))
                # One wait has an event of its own, and one for each output that it shows.
                self.retrievals[verb] += not (verb == "wait" and event.handle)
                self.retrieved_tokens += whole(data.get("tokens"))
                # What stands in the place of the output of a call that has ended.
                if (verb == "wait" and event.handle) or verb == "shown":
                    self.tokens_kept_out = max(0, self.tokens_kept_out - whole(data.get("tokens")))
            case "asked":
                read = whole(data.get("input_tokens"))
                self.model_tokens += read + whole(data.get("output_tokens"))
                if (estimated := whole(data.get("estimated_tokens"))) and read:
                    self.estimated_tokens += estimated
                    self.model_input_tokens += read
                self.model_cost += number(data.get("cost"))
                self.unpriced_calls += unpriced_calls("model", data)
            case "extracted":
                self.extractions[str(data.get("strategy", "?"))] += 1
                self.fallbacks += data.get("reason") == "fallback"
            case _:
                pass

    def merge(self, other: "Counters") -> None:
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.retrievals.update(other.retrievals)
        self.extractions.update(other.extractions)

    def to_json(self) -> dict[str, Any]:
        return {
            "inline": self.inline,
            "kept": self.kept,
            "kept_for_people": self.kept_for_people,
            "unkept": self.unkept,
            "kept_bytes": self.kept_bytes,
            "tokens_kept_out": self.tokens_kept_out,
            "retrievals": dict(sorted(self.retrievals.items())),
            "retrieved_tokens": self.retrieved_tokens,
            "refused": self.refused,
            "passed_by_reference": self.passed_by_reference,
            "background": self.background,
            "extractions": dict(sorted(self.extractions.items())),
            "fallbacks": self.fallbacks,
            "turns": self.turns,
            "agents": self.agents,
            "recoveries": self.recoveries,
            "model_calls": self.model_calls,
            "model_tokens": self.model_tokens,
            "model_input_tokens": self.model_input_tokens,
            "estimated_tokens": self.estimated_tokens,
            "model_cost": round(self.model_cost, 6),
            "unpriced_calls": self.unpriced_calls,
        }


# Kinds of events that are counted one by one, and where.
_COUNTED: Mapping[str, str] = {
    "inline": "inline", "kept": "kept", "unkept": "unkept", "refused": "refused", "passed": "passed_by_reference",
    "running": "background", "turn": "turns", "spawned": "agents", "recovered": "recoveries", "asked": "model_calls",
}  # fmt: skip
_ADDED = (
    *_COUNTED.values(),
    "kept_for_people",
    "kept_bytes",
    "tokens_kept_out",
    "retrieved_tokens",
    "fallbacks",
    "model_tokens",
    "model_input_tokens",
    "estimated_tokens",
    "model_cost",
    "unpriced_calls",
)


def unpriced_calls(kind: str, data: Mapping[str, Any]) -> int:
    """Of a call of a model, or of an agent with all that it started: how many have a price that is not known."""
    if kind not in ("model", "agent"):
        return 0
    used = whole(data.get("input_tokens")) + whole(data.get("output_tokens"))
    unknown = int(data.get("cost") is None and used > 0)
    if kind == "agent":
        return whole(data.get("unpriced_calls", unknown * whole(data.get("calls"))))
    return unknown


# The runs of an agent in one session: what was asked, and how long it took. Who resumes it may do so days later.


MOST_RUNS = 1000  # a log from elsewhere may have millions; what is beyond is part of the last one


@record(frozen=False)
class Run:
    """One run as the log has it. `answered`: its model has replied; `reported` is the data of its end, if any."""

    began: float
    last: float  # when it did something last
    by: str
    answered: bool = False
    reported: Mapping[str, Any] | None = None


@record(frozen=False)
class Runs:
    """A fold over the log. What is before the first run, between two and after the last one is no part of any.

    A killed run has no end in the log: what another process writes is not part of it, and its next turn begins another
    run.
    """

    all: list[Run] = field(default_factory=list[Run])

    def add(self, event: Event) -> None:
        run = self.all[-1] if self.all else None
        is_its = run is not None and run.reported is None and run.by == event.by
        if event.kind == "turn" and not is_its and len(self.all) < MOST_RUNS:
            self.all.append(Run(event.at, event.at, event.by))
        elif run is not None and (is_its or event.kind == "turn"):
            run.last = max(run.last, event.at)
            if event.kind == "asked" and event.data.get("purpose") == "turn":
                run.answered = run.answered or not event.data.get("why")
            elif event.kind == "reported":
                run.reported = event.data
                run.answered = run.answered or not event.data.get("synthetic")

    @property
    def seconds(self) -> float:
        return number(sum(number(one.last) - number(one.began) for one in self.all))


@record(frozen=False)
class RunSaid:
    """One run as the transcript has it. `task` is empty where it went on with that of the run before."""

    task: str = ""
    replied: bool = False


@record(frozen=False)
class Tasks:
    """A fold over the lines of a transcript, each as its role and its text: `again` for what says that all before was
    replaced, `request` for what a request had beside its messages.

    A run that goes on writes the conversation anew, with a system prompt of its own, and at its end what it is asked.
    What is between that and its first request was said before, as is what a shorter conversation begins with.
    """

    runs: list[RunSaid] = field(default_factory=lambda: [RunSaid()])
    was_said: bool = False  # what comes now
    left_out: int = 0  # runs, the first ones
    _system: str = ""
    _last: tuple[str, str] = ("", "")
    _ended: tuple[str, str] = ("", "")  # what the run before said last
    _begins: bool = False

    def add(self, role: str, text: str) -> None:
        match role:
            case "again" | "request":
                self.settle()
                self._ended, self.was_said = self._last, role == "again"
            case "system":
                self._begins = self.was_said and text != self._system
                self._system = text
            case _:
                self._last = role, text
                if not self.was_said and role == "assistant":
                    self.runs[-1].replied = True
                elif not self.was_said and role == "user" and len(self.runs) == 1 and not self.left_out:
                    self.runs[0].task = self.runs[0].task or text

    def settle(self) -> None:
        """At the end of the transcript, too: a run may have been killed before it asked its model."""
        if self._begins:
            is_new = self._last[0] == "user" and self._last != self._ended
            self.runs.append(RunSaid(self._last[1] if is_new else ""))
            if len(self.runs) > MOST_RUNS:
                self.left_out += 1
                del self.runs[0]
        self._begins = False


# The operation tree: session, turns, and in them model calls, tool calls, sub-agents and extractions.
#
# A fold over the events of a session, and nothing else: the log is all that is needed. It holds sizes, counts and short
# previews, never the content of a request (S0 decision 24).


VERSION = 1
MOST_OPERATIONS = 200_000  # in a tree; a log from elsewhere may have millions. The totals are of all of them
OperationKind = Literal["session", "turn", "model", "tool", "agent", "extraction"]
OF_TOOL_CALLS = ("tool_calls", "refused", "failed")
_NUMBERS = ("input_tokens", "output_tokens", "bytes", "calls")
_NOTHING: Mapping[str, Any] = {
    "model_calls": 0, "input_tokens": 0, "output_tokens": 0, "cost": 0.0, "unpriced_calls": 0, "tool_calls": 0,
    "refused": 0, "failed": 0,
}  # fmt: skip


@record(frozen=False)
class Operation:
    """`at` is when it began. What it took is in `data`; what its children took is added up by `totals`."""

    kind: OperationKind
    name: str
    at: float
    seconds: float = 0.0
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    children: list["Operation"] = field(default_factory=list["Operation"])

    def totals(self, left_out: Mapping[str, Any] | None = None, *, agents: bool = True) -> dict[str, Any]:
        """Calls, tokens and cost of this operation and all below it, and of what was `left_out`; those of agents, too.

        `tool_calls` are those that ran; `refused` are those that did not, and `failed` those of both that went wrong.
        """
        found: dict[str, Any] = dict(left_out or _NOTHING)
        waiting = [self]
        while waiting:
            one = waiting.pop()
            if not one.data.get(APART) and (agents or one.kind != "agent"):
                waiting += one.children
                one.add_to(found)
        found["cost"] = round(found["cost"], 6)
        return found

    def add_to(self, found: dict[str, Any]) -> None:
        """What this operation took by itself."""
        if self.kind == "model":
            found["model_calls"] += 1
        elif self.kind == "tool":
            found["refused" if self.data.get("outcome") == "refused" else "tool_calls"] += 1
            found["failed"] += has_failed(self.data)
        if self.kind in ("model", "agent"):
            found["input_tokens"] += _number_in(self.data.get("input_tokens"))
            found["output_tokens"] += _number_in(self.data.get("output_tokens"))
            found["cost"] += _number_in(self.data.get("cost"))
            found["unpriced_calls"] += unpriced_calls(self.kind, self.data)
        if self.kind == "agent":
            found["model_calls"] += _number_in(self.data.get("calls"))
            for name in OF_TOOL_CALLS:
                found[name] += _number_in(self.data.get(name))

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"op": self.kind, "name": self.name, "at": self.at, "seconds": round(self.seconds, 6)}
        known = {*flat, "children"}  # an event from elsewhere may have such data, and does not become another operation
        flat |= {name: value for name, value in self.data.items() if name not in known and value not in (None, "", [])}
        if self.children:
            flat["children"] = [child.to_json() for child in self.children]
        return flat


def is_of_call(event: Event) -> bool:
    """Whether what was retrieved is told of in another event, too: of a diff there is one for each of its outputs, of
    a wait one for each that it shows. What a program shows its model once more was no call of the model.
    """
    verb = event.data.get("verb")
    return event.kind == "retrieved" and bool(
        event.data.get("part") or verb == "shown" or (verb == "wait" and event.handle)
    )


def unlogged(facts: Facts) -> Event:
    """In place of what the log should tell of an output. What has ended when it began was kept at once, by a program; a
    command whose process was killed before it logged its end was waited for; all else is, or was, written bit by bit.
    Of what is gone it is only known that it was kept.
    """
    runs, seconds = facts.state in RUNNING, 0.0
    if facts.ended and facts.state not in UNTIMED:
        seconds = facts.ended - facts.created
    was_waited_for = bool(facts.origin.process) and not runs
    kind = "kept" if facts.ended == facts.created or facts.state == "expired" or was_waited_for else "running"
    data: dict[str, Any] = {"bytes": facts.measure.bytes}
    if facts.state in FAILED or (kind == "running" and not runs):
        data |= {"state": facts.state, "at_least": facts.state in UNTIMED}
    return Event(
        facts.created + seconds, kind, facts.handle, facts.origin.tool, facts.origin.call_id, seconds, data=data
    )


def has_failed(data: Mapping[str, Any]) -> bool:
    """Whether a call of a tool was refused, or ended badly."""
    return bool(data.get("is_error")) or data.get("outcome") == "refused" or data.get("state") in FAILED


@record(frozen=False)
class Tree:
    """The tree of one session, as far as its events go. Events come in the order of the log.

    What comes after the first `MOST_OPERATIONS` has no place in it: it is counted, and is in the totals.
    """

    root: Operation
    left_out: int = 0
    runs: Runs = field(default_factory=Runs)
    _room: int = field(default_factory=lambda: MOST_OPERATIONS)
    _totals_left_out: dict[str, Any] = field(default_factory=lambda: dict(_NOTHING))
    _turn: Operation | None = None
    _run: Run | None = None  # that this turn is part of
    _questions: dict[str, list[Operation]] = field(default_factory=dict[str, list[Operation]])
    _agents: dict[str, Operation] = field(default_factory=dict[str, Operation])
    _calls: dict[str, Operation] = field(default_factory=dict[str, Operation])  # by handle, those in the background
    # Of these the log has nothing more where their agent was killed meanwhile.
    _begun: dict[str, tuple[Operation, Operation]] = field(default_factory=dict[str, tuple[Operation, Operation]])
    # Calls that are waited for, or whose process was killed meanwhile: by who wrote it, and its number.
    _waited_for: dict[tuple[str, int], tuple[Operation, Operation]] = field(
        default_factory=dict[tuple[str, int], tuple[Operation, Operation]]
    )
    # Calls whose agent does not wait any more, by their id: each has an event of its own, but for those that ended with
    # their agent.
    _left: dict[str, tuple[Operation, Operation]] = field(default_factory=dict[str, tuple[Operation, Operation]])
    _ended: dict[str, tuple[str, bool, float]] = field(default_factory=dict[str, tuple[str, bool, float]])
    # Where no agent of ours runs, nobody records calls: then they are those whose outputs came here, and those of ours.
    _outputs: list[Operation] | None = field(default_factory=list[Operation])
    _outputs_left_out: int = 0
    _totals_of_outputs: dict[str, Any] = field(default_factory=lambda: dict(_NOTHING))  # of those
    _running: dict[str, Operation] = field(default_factory=dict[str, Operation])  # by handle, of these
    _unanswered: dict[tuple[str, int], Operation] = field(default_factory=dict[tuple[str, int], Operation])  # likewise

    @staticmethod
    def of(name: str, events: Iterable[Event]) -> "Tree":
        tree: Tree | None = None
        for event in events:
            if tree is None:
                tree = Tree(Operation("session", name, event.at - event.seconds))
            tree.add(event)
            tree.add_output(event)
        tree = tree or Tree(Operation("session", name, 0.0))
        tree._settle()
        return tree

    def add(self, event: Event) -> None:
        began, data = event.at - event.seconds, dict(event.data)
        # What a person removes or asks, perhaps days later, is no part of an agent's run and does not make it longer.
        is_apart = event.kind == "removed" or (data.get("reader") == PERSON and self._turn is not None)
        self.root.seconds = max(self.root.seconds, 0.0 if is_apart else event.at - self.root.at)
        self.runs.add(event)
        match "" if self._waits(event) else event.kind:
            case "turn":
                self.root.data.pop("reported", None)  # of the run before
                self._end_turn()
                self._turn = Operation("turn", str(data.pop("number", "")), event.at, 0.0, data)
                self._run = self.runs.all[-1]
                self._place_under(self.root.children, self._turn)
            case "asked":
                model = Operation("model", str(data.get("model", "")), began, event.seconds, data)
                self._place_in(model)
            case "extracted":
                self._answer(event, data, is_apart=is_apart)
            case "called":
                self._call(event, data)
            case "running" if self._turn is not None and event.handle and event.handle not in self._calls:
                self._left.pop(event.call_id, None)
                data = {"outcome": "running", "handle": event.handle, "call_id": event.call_id}
                call = Operation("tool", event.tool, began, event.seconds, data)
                if len(self._begun) < MOST_OPERATIONS:
                    self._begun[event.handle] = self._turn, call
            case "ended" if len(self._ended) < MOST_OPERATIONS:
                self._ended[event.handle] = str(data.get("state", "")), data.get("at_least") is True, event.seconds
                self._end_call(event.handle)
            case "spawned":
                self._spawn(Operation("agent", event.tool, event.at, 0.0, data))
            case "joined":
                self._join(event, data)
            case "reported" | "recovered":
                self.root.data[event.kind] = data
            case _:
                pass  # of one output: the ledger has them

    def _call(self, event: Event, data: dict[str, Any]) -> None:
        self._left.pop(event.call_id, None)
        data |= {"handle": event.handle, "call_id": event.call_id}
        call = Operation("tool", event.tool, event.at - event.seconds, event.seconds, data)
        is_placed = self._place_in(call)
        if data.get("outcome") == "running" and event.handle:
            self._begun.pop(event.handle, None)
            if is_placed:
                self._calls[event.handle] = call
                self._end_call(event.handle)

    def _waits(self, event: Event) -> bool:
        """Whether it is about a call that is waited for, or was when its process was killed."""
        number, is_begun = (event.by, whole(event.data.get("number"))), event.kind == "begun"
        if event.kind == "over":
            self._end_waiting(number, event)
        elif is_begun and self._turn is not None and len(self._waited_for) < MOST_OPERATIONS:
            data = {**event.data, "outcome": "begun", "call_id": event.call_id}
            for name in ("number", "arguments", "process", "process_mark"):  # an agent's are in its transcript
                data.pop(name, None)
            call = Operation("tool", event.tool, event.at - event.seconds, event.seconds, data)
            self._waited_for[number] = self._turn, call
        elif event.kind == "called" and event.data.get("outcome") == "interrupted":  # it was told by whoever resumed
            if event.call_id in self._left:
                self._place_interrupted(*self._left.pop(event.call_id))
                return True
            return any(one.data["call_id"] == event.call_id for _, one in self._waited_for.values())
        return is_begun or event.kind == "over"

    def _end_waiting(self, number: tuple[str, int], event: Event) -> None:
        """It was answered, and has an event of its own; or, where this has a state, its process was killed."""
        if not (state := str(event.data.get("state") or "")):
            turn, call = self._waited_for.pop(number, (None, None))
            if turn is not None and call is not None and event.call_id:
                call.seconds = max(call.seconds, event.at - call.at)
                self._left[event.call_id] = turn, call
        elif number in self._waited_for:
            _, call = self._waited_for[number]
            call.data |= {"state": state, "is_error": True, "at_least": True}
            call.seconds = max(call.seconds, event.seconds)

    def _place_interrupted(self, turn: Operation, call: Operation) -> None:
        call.data |= {"state": "interrupted", "is_error": True, "at_least": True}
        self._place_under(turn.children, call)

    def _settle(self) -> None:
        """After the last event: calls that have no other, and the end of the last turn."""
        self._end_turn()
        for handle, (turn, call) in self._begun.items():
            if self._place_under(turn.children, call):
                self._calls[handle] = call
                self._end_call(handle)
        for turn, call in self._waited_for.values():
            self._place_under(turn.children, call)
        for turn, call in self._left.values():
            self._place_interrupted(turn, call)
        for call in self._unanswered.values():
            self._list_output(call)
        self._begun.clear()
        self._waited_for.clear()
        self._left.clear()
        self._unanswered.clear()

    def add_unlogged(self, kept: Iterable[Facts]) -> None:
        """Where nobody recorded a call: the outputs of which no event tells, whose writer was killed or logs none."""
        told = {one.data["handle"] for one in self.outputs if one.data["outcome"] in ("kept", "running")}
        for facts in kept if self._outputs is not None else ():
            if facts.handle not in told and not facts.packed:
                event = unlogged(facts)
                self.root.at = self.root.at or event.at - event.seconds
                self.add(event)
                self.add_output(event)

    @property
    def outputs(self) -> list[Operation]:
        """Where nobody recorded a call, those whose outputs came."""
        return self._outputs or []

    def go_on(self, now: float, still_runs: Callable[[Operation], bool], *, is_led: bool) -> None:
        """What runs has taken the time until now: its end is in no event. `is_led`: an agent runs in this session."""
        waiting, runs = [self.root, *self.outputs], False
        while waiting:
            one = waiting.pop()
            waiting += one.children
            if still_runs(one):
                runs, one.seconds = True, max(one.seconds, now - one.at)
        if is_led and self._run is not None and self._run.reported is None:
            runs, self._run.last = True, max(self._run.last, now)
            self._end_turn()
        if runs:
            self.root.seconds = max(self.root.seconds, now - self.root.at)

    def to_json(self, *, with_outputs: bool = False) -> dict[str, Any]:
        """With the totals of everything, and of what was asked and never came to an answer.

        `with_outputs`: where nobody recorded a call, those whose outputs came.
        """
        for asked in self._questions.values():
            self.root.children += asked
        self._questions.clear()
        if with_outputs and self._outputs is not None:
            self.root.children = sorted([*self.root.children, *self._outputs], key=lambda one: one.at)
            ended = max([self.root.at + self.root.seconds, *(one.at + one.seconds for one in self._outputs)])
            self.root.at = min([self.root.at, *(one.at for one in self._outputs)])
            self.root.seconds = ended - self.root.at
            self.left_out += self._outputs_left_out
            for name in OF_TOOL_CALLS:
                self._totals_left_out[name] += self._totals_of_outputs[name]
            self._outputs = None
        more: dict[str, Any] = {"left_out": self.left_out} if self.left_out else {}
        if self.runs.all:
            more |= {"runs": len(self.runs.all), "run_seconds": round(self.runs.seconds, 6)}
        if unreported := sum(one.reported is None for one in self.runs.all):
            more["unreported"] = unreported
        return {"version": VERSION, "totals": self.totals(), **more, **self.root.to_json()}

    def totals(self) -> dict[str, Any]:
        """What everything took, in the tree or not."""
        return self.root.totals(self._totals_left_out)

    def add_output(self, event: Event) -> None:
        """Of where no agent of ours runs: the output that came, or what was asked about one."""
        recorded = event.kind == "turn" or (event.kind == "called" and not event.data.get("op"))  # those of a question
        outputs = self._outputs = None if recorded else self._outputs
        if outputs is None:
            return
        data: dict[str, Any] = {"call_id": event.call_id, "handle": event.handle}
        for name in ("bytes", "chars", "tokens", "is_error", "state", "at_least"):
            data[name] = event.data.get(name) or None
        match event.kind:
            case "inline" | "kept" | "unkept" | "running" if event.tool:
                data["outcome"] = event.kind
                name = event.tool
            case "begun" | "over":
                self._add_unanswered(event, data)
                return
            case "ended":
                if (call := self._running.get(event.handle)) is not None:
                    call.data |= data
                    call.seconds = event.seconds
                return
            case "retrieved" if not is_of_call(event):
                name = str(event.data.get("name") or event.data.get("verb") or "")
                data["outcome"] = "about" if event.handle else ""
            case "refused":
                name = str(event.data.get("name") or event.data.get("verb") or "")
                data["outcome"] = "refused"
            case _:
                return
        operation = Operation("tool", name, event.at - event.seconds, event.seconds, data)
        self._list_output(operation)
        if event.kind == "running":
            self._running[event.handle] = operation

    def _add_unanswered(self, event: Event, data: dict[str, Any]) -> None:
        number = event.by, whole(event.data.get("number"))
        if event.kind == "begun" and event.tool and len(self._unanswered) < MOST_OPERATIONS:
            data["outcome"] = event.kind
            self._unanswered[number] = Operation("tool", event.tool, event.at - event.seconds, event.seconds, data)
        elif event.kind == "over" and (call := self._unanswered.get(number)) is not None:
            if not data["state"]:  # it was answered, and has an event of its own
                del self._unanswered[number]
            else:
                call.data |= {"state": data["state"], "is_error": True, "at_least": True}
                call.seconds = max(call.seconds, event.seconds)

    def _list_output(self, operation: Operation) -> None:
        if self._outputs is None:
            return
        if len(self._outputs) >= MOST_OPERATIONS:
            self._outputs_left_out += 1
            operation.add_to(self._totals_of_outputs)
        else:
            self._outputs.append(operation)

    def _place_in(self, operation: Operation) -> bool:
        """Under the question that it is part of, where it is: a call of its model, or of Read or Grep."""
        if op := str(operation.data.pop("op", "")):
            if self._room > 0:
                self._questions.setdefault(op, [])
            return self._place_under(self._questions.get(op, []), operation)
        return self._place(operation)

    def _place(self, operation: Operation, *, is_apart: bool = False) -> bool:
        turn = None if is_apart else self._turn
        if is_apart:
            operation.data[APART] = True
        if turn is not None:
            self._end_turn(operation.at + operation.seconds)
        return self._place_under((turn or self.root).children, operation)

    def _place_under(self, siblings: list[Operation], operation: Operation) -> bool:
        """False if there is no room: then only its figures count."""
        if self._room > 0:
            self._room -= 1
            siblings.append(operation)
            return True
        self.left_out += 1
        if not operation.data.get(APART):
            operation.add_to(self._totals_left_out)
        return False

    def _end_turn(self, at: float = float("inf")) -> None:
        """With its run, at the latest: the next one may begin days later. If that reported, with what it did last."""
        run = self._run
        if self._turn is not None and run is not None and (run.reported is None or at <= run.last):
            self._turn.seconds = max(self._turn.seconds, min(at, run.last) - self._turn.at)

    def _end_call(self, handle: str) -> None:
        """What became of a call in the background, and after how long: it may end before its turn does."""
        if handle in self._calls and handle in self._ended:
            call = self._calls.pop(handle)
            call.data["state"], at_least, seconds = self._ended.pop(handle)
            call.data |= {"at_least": True} if at_least else {}
            call.seconds = max(call.seconds, seconds)

    def _answer(self, event: Event, data: dict[str, Any], *, is_apart: bool) -> None:
        asked = self._questions.pop(str(data.pop("op", "")), [])
        scanned = sum(span.end - span.start for span in event.spans("scanned"))
        data |= {"handle": event.handle, "searched": len(event.spans("searched")), "scanned": scanned or None}
        for name in (*_NUMBERS[:2], "cost"):
            data.pop(name, None)  # they are those of its calls
        question = Operation("extraction", event.tool, event.at - event.seconds, event.seconds, data, asked)
        if not self._place(question, is_apart=is_apart):
            self.left_out += len(asked)
            for one in asked if not is_apart else ():
                one.add_to(self._totals_left_out)

    def _spawn(self, agent: Operation) -> None:
        if self._place(agent):
            self._agents[str(agent.data.get("session", ""))] = agent

    def _join(self, event: Event, data: dict[str, Any]) -> None:
        agent = self._agents.pop(str(data.get("session", "")), None)
        if agent is not None:
            agent.seconds = max(0.0, event.at - agent.at)
            agent.data |= data
        elif self.left_out:  # it may have been one of those
            Operation("agent", event.tool, event.at, 0.0, data).add_to(self._totals_left_out)


def _number_in(value: object) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18 else 0
