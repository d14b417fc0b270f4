"""What an agent's runtime stores in its session besides outputs: the transcript, the operation tree, a lease.

It never reads or shows an output.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, field
from typing import Any

from holdall.bag.core import Core
from holdall.bag.journal import believed, logged_events
from holdall.policy.folds import MOST_OPERATIONS, OF_TOOL_CALLS, Counters, Coverage, Operation, Tree
from holdall.store.owners import process_mark
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.store.records import sealed, unsealed
from holdall.text.numbers import whole
from holdall.values.errors import HoldallError
from holdall.values.events import Event
from holdall.values.handles import MEMBER, is_uuid
from holdall.values.outputs import RUNNING, UNTIMED, Facts
from holdall.values.record import record


@record
class Noticed:
    """A notice as a model got it: `text`, and before it the first `after` bytes of the output.

    `mark` is that of the session it was written in: one that came with a bundle has another, or none.
    """

    at: float
    dialect: str
    text: str
    after: int = 0
    mark: str = ""

    def to_line(self) -> bytes:
        return sealed(json.dumps(asdict(self), ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n")

    @staticmethod
    def in_line(line: bytes) -> "Noticed | None":
        """None if the line is not as it was written: a power cut may take a part of a note that is not synced."""
        with contextlib.suppress(KeyError, TypeError, ValueError, OverflowError, RecursionError):
            flat: dict[str, Any] = json.loads(unsealed(line))
            told = str(flat["dialect"]), str(flat["text"]), int(flat["after"]), str(flat.get("mark", ""))
            return Noticed(float(flat["at"]), *told)
        return None


def noticed_key(facts: Facts) -> tuple[str, str]:
    """What a notice is remembered under: the content and, because outputs of the same content have each its own, the
    output itself."""
    return facts.measure.sha256, _digits(facts)


def announced_key(facts: Facts) -> tuple[str, str]:
    """What is remembered of the moment in which a call went to the background: its content is not known then."""
    return _digits(facts), _digits(facts)


def quoting_key(facts: Facts, other: Facts) -> tuple[str, str]:
    """What a notice is remembered under that quotes another output: it goes with either of them."""
    return _digits(facts), _digits(other)


def _digits(facts: Facts) -> str:
    return facts.id.replace("-", "")


class Records:
    """`bag.records`: what is recorded of a session beside its outputs, and what an agent's runtime keeps there."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def lease(self, holder: str) -> AbstractContextManager[None]:
        """Hold the session's transcript while the block runs. Raises SessionLocked if another agent does."""
        return self._core.store.lease(self._core.session, holder)

    def append_transcript(self, lines: bytes) -> None:
        """Whole lines; they survive the process."""
        self._core.store.append_transcript(self._core.session, lines)

    def transcript(self) -> bytes:
        """The conversation so far: one JSON object a line."""
        return believed(self._core.store.transcript(self._core.session), "transcript")

    def noticed(self, handle: str) -> Noticed | None:
        """What a model got in place of this output; None if it got all of it, or nobody noted it down."""
        store, session = self._core.store, self._core.session
        facts = store.resolve(session, handle)
        keys = [noticed_key(facts)] if facts.measure.sha256 else []
        keys += [(one.content, one.key) for one in store.notes(session) if one.content == _digits(facts) != one.key]
        return next((found for key in keys if (found := Noticed.in_line(store.recall(session, *key) or b""))), None)

    def announced(self, handle: str) -> Noticed | None:
        """What a model got when the call of this output went to the background; None if it did not."""
        facts = self._core.store.resolve(self._core.session, handle)
        return Noticed.in_line(self._core.store.recall(self._core.session, *announced_key(facts)) or b"")

    def transcript_lines(self) -> Iterator[bytes]:
        """The lines of the transcript, however many they are."""
        for found in self._core.store.log_lines(self._core.session, "transcript"):
            yield from believed(found, "transcript").split(b"\n")

    def history(self) -> list[Event]:
        """Every event of the session so far, by any process."""
        self._core.check_open()
        return list(self.events())

    def events(self, newest_bytes: int | None = None) -> Iterator[Event]:
        """The events of the session one by one, however many they are; or those in the last bytes of the log."""
        return self._core.journal.events(newest_bytes)

    def log_bytes(self) -> int:
        """How long the log of events is."""
        return self._core.store.log_length(self._core.session, "events")

    def seen(self) -> dict[str, float]:
        """Of each output that can be fetched, the share that was shown to the model."""
        kept = dict(self._core.kept)
        found = self._core.journal.coverages(kept)
        return {
            # Nothing was seen of a call that has written nothing yet, or was interrupted before it did.
            handle: found[handle].share(facts.measure.bytes) if facts.measure.bytes or facts.is_whole else 0.0
            for handle, facts in kept.items()
        }

    def used(self) -> dict[str, dict[str, float]]:
        """Of each output that can be fetched, the shares that were shown, scanned by a verb, searched by a question."""
        kept = {handle: facts.measure.bytes for handle, facts in dict(self._core.kept).items()}
        found = self._core.journal.coverages(kept)
        return {
            handle: {way: round(found[handle].share_of(way, size), 6) for way in ("shown", "scanned", "searched")}
            for handle, size in kept.items()
            if size
        }

    async def coverage(self, handle: str) -> Coverage:
        """The ledger of one output or member, as it is now: what was shown to the model, scanned for it, passed on by
        reference.
        """
        self._core.check_open()
        outer, mark, member = handle.partition(MEMBER)
        facts = await asyncio.to_thread(self._core.resolve, outer)
        return await asyncio.to_thread(self._core.journal.coverage_so_far, f"{facts.handle}{mark}{member}")

    async def counters(self) -> Counters:
        """What this session has done so far, by every process that works in it. It does not change afterwards."""
        self._core.check_open()
        return await asyncio.to_thread(self._core.journal.counters)

    def tree(self) -> Tree:
        """The operation tree as the events tell it now."""
        tree = Tree.of(self._core.session.name, self.with_lost_ends(self.events()))
        _count_unended(self._core.store, self._core.session, tree.root, {self._core.session.id})
        tree.add_unlogged(self._core.store.outputs(self._core.session))
        self._time_commands(tree)
        self._go_on(tree)
        return tree

    def _go_on(self, tree: Tree) -> None:
        store, session, running = self._core.store, self._core.session, set[str]()
        is_led, is_known = store.is_leased(session.id), False

        def still_runs(one: Operation) -> bool:
            nonlocal running, is_known
            if one.kind == "agent" and "turns" not in one.data and is_led:
                child = str(one.data.get("session", ""))
                return is_uuid(child) and store.is_leased(child)
            if one.kind != "tool" or one.data.get("state"):
                return False
            if one.data.get("outcome") == "running" and not is_known:
                running = {facts.handle for facts in store.outputs(session) if facts.state in RUNNING}
                is_known = True
            return one.data.get("outcome") == "begun" or one.data.get("handle") in running

        tree.go_on(self._core.journal.now(), still_runs, is_led=is_led)

    def with_lost_ends(self, events: Iterable[Event]) -> Iterator[Event]:
        """These events, then an end for each call whose process was killed before it logged one, in the background or
        while it was waited for: it ran at least until the last of what that process logged.
        """
        running, alive, waiting = dict[str, Event](), dict[str, float](), _Waiting()
        for event in events:
            yield from waiting.add(event)
            if event.kind == "running" and len(running) < MOST_OPERATIONS:
                running[event.handle] = event
                alive.setdefault(event.by, event.at)
            elif event.kind == "ended":
                running.pop(event.handle, None)
            if event.by in alive:
                alive[event.by] = max(event.at, alive[event.by])
            yield event
        yield from waiting.ends()
        for facts in self._core.store.outputs(self._core.session) if running else ():
            if facts.handle in running and facts.state == "interrupted":
                # The record only says when it was noticed. Of a writer without a name there is no telling.
                of = running[facts.handle]
                last = alive[of.by] if of.by else of.at
                yield Event(
                    last, "ended", of.handle, of.tool, of.call_id, of.seconds + last - of.at,
                    data={"state": facts.state, "why": facts.error, "bytes": facts.measure.bytes,
                          "tokens": facts.measure.tokens, "at_least": True},
                )  # fmt: skip

    def _time_commands(self, tree: Tree) -> None:
        """The log has a command when it had ended, with the time that keeping took; its record knows when it ran."""
        kept = {one.data["handle"]: one for one in tree.outputs if one.data.get("outcome") == "kept"}
        for facts in self._core.store.outputs(self._core.session) if kept else ():
            if (one := kept.get(facts.handle)) is not None and facts.ended and facts.state not in UNTIMED:
                one.seconds = max(one.seconds, facts.ended - facts.created)
                one.at = min(one.at, facts.created)

    def save_tree(self) -> None:
        """Write a snapshot of the operation tree: one file, never half."""
        self._core.store.save_tree(
            self._core.session, json.dumps(self.tree().to_json(), ensure_ascii=True).encode("ascii")
        )


@record(frozen=False)
class _Waiting:
    """The calls that are waited for, or were when their process was killed: a fold over the events of a session."""

    begun: dict[tuple[str, int], Event] = field(default_factory=dict[tuple[str, int], Event])
    alive: dict[str, float] = field(default_factory=dict[str, float])  # when their writers wrote last

    def add(self, event: Event) -> Iterator[Event]:
        """The ends of those that it tells to have been interrupted: whoever resumed says so, and knows no times."""
        number = event.by, whole(event.data.get("number"))
        if event.kind == "begun" and len(self.begun) < MOST_OPERATIONS:
            self.begun[number] = event
            self.alive.setdefault(event.by, event.at)
        elif event.kind == "over":
            self.begun.pop(number, None)
        elif event.kind == "called" and event.data.get("outcome") == "interrupted":
            for told in [one for one, of in self.begun.items() if of.call_id == event.call_id]:
                yield self._end(told)
        if event.by in self.alive:
            self.alive[event.by] = max(event.at, self.alive[event.by])

    def ends(self) -> Iterator[Event]:
        """Of those whose process is gone."""
        for number, of in list(self.begun.items()):
            if not is_alive(whole(of.data.get("process")), str(of.data.get("process_mark") or "")):
                yield self._end(number)

    def _end(self, number: tuple[str, int]) -> Event:
        of = self.begun.pop(number)
        last = self.alive[of.by] if of.by else of.at  # of a writer without a name there is no telling
        return Event(
            last, "over", "", of.tool, of.call_id, of.seconds + last - of.at, of.by,
            {"number": number[1], "state": "interrupted", "at_least": True},
        )  # fmt: skip


def is_alive(process: int, mark: str) -> bool:
    """Whether the process of this number is still the one that had this mark, on this machine, in this container."""
    return bool(mark) and process_mark(process) == mark


def _count_unended(store: OutputStore, session: SessionInfo, root: Operation, counted: set[str]) -> None:
    """What agents have used that run or were killed: only of one that has ended the log of the session has it.

    Each is counted once: a log from elsewhere may name any session, as often as it likes.
    """
    waiting = [root]
    while waiting:
        one = waiting.pop()
        waiting += one.children
        id = str(one.data.get("session", ""))
        if one.kind != "agent" or "turns" in one.data or id in counted or not is_uuid(id):
            continue
        counted.add(id)
        with contextlib.suppress(HoldallError, OSError):
            child = store.find_session(f"session-{id}")
            if child is not None and child.parent == session.id:
                below = Tree.of(child.name, logged_events(store, child))
                _count_unended(store, child, below.root, counted)
                used = below.totals()
                one.data |= {name: used[name] for name in _USED} | {"calls": used["model_calls"]}


_USED = ("input_tokens", "output_tokens", "cost", "unpriced_calls", *OF_TOOL_CALLS)
