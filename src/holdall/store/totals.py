"""What every store can say of itself by its own listing: totals, whether there is room for more, what is over, and
whether every byte is as it came.
"""

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Protocol

from holdall.policy.measure import checksum
from holdall.store.protocol import (
    BadLine,
    Log,
    LogLines,
    OutputStore,
    Progress,
    Quota,
    SessionInfo,
    Stats,
    Verdict,
)
from holdall.store.records import LOGS
from holdall.text.numbers import size
from holdall.values.errors import MAKE_ROOM, HoldallError, OutputDamaged, QuotaReached
from holdall.values.outputs import Facts, Measure
from holdall.values.retention import Retention
from holdall.values.spans import BLOCK, BlockTable, Totals

Listing = Callable[[SessionInfo], Sequence[Facts]]  # of a store that knows of what is past its time, but still there


def stats_of(store: OutputStore, sessions: Iterable[Sequence[Facts]]) -> Stats:
    """Of the outputs of sessions, one session after the other."""
    total = Stats()
    for outputs in sessions:
        total.sessions += 1
        files, due = dict[str, int](), dict[str, int]()
        for facts in outputs:
            total.by_state["removed" if facts.is_removed else facts.state] += 1
            if facts.state == "expired":
                total.removed += facts.is_removed
                total.expired += not facts.is_removed
                if facts.file:
                    due[facts.file] = facts.measure.bytes
                continue
            measured = so_far(store, facts) if facts.state == "running" else facts.measure
            total.outputs += 1
            total.bytes += measured.bytes
            total.lines += measured.lines
            total.tokens += facts.measure.tokens
            total.by_kind["running" if facts.state == "running" else facts.measure.kind] += 1
            total.by_tool[facts.origin.tool or "(none)"] += 1
            files[facts.file or facts.handle] = measured.bytes
        total.stored_bytes += sum((due | files).values())
        total.due_bytes += sum(count for file, count in due.items() if file not in files)
    return total


def so_far(store: OutputStore, facts: Facts) -> Totals | Measure:
    """How much there is of an output that is being written."""
    with suppress(HoldallError, OSError), closing(store.open(facts)) as reader:
        return reader.totals
    return facts.measure


_MAX_BAD_LINES = 100  # told of one log


class Logged(Protocol):
    def log_lines(self, session: SessionInfo, log: Log, at: int = 0) -> Iterator[LogLines]: ...


def bad_lines_of(store: Logged, session: SessionInfo) -> Iterator[tuple[Log, BadLine]]:
    """Lines of the session's logs that are not as they were written: the first ones, and how many there are more."""
    for log in ("events", "transcript"):
        number = 0
        last: BadLine | None = None
        for piece in store.log_lines(session, log):
            for last in piece.bad:
                number += 1
                if number <= _MAX_BAD_LINES:
                    yield log, last
        if last is not None and number > _MAX_BAD_LINES:
            between = number - _MAX_BAD_LINES - 1
            more = f"; so it is with {between:,} lines before it that are not listed" if between else ""
            yield log, last._replace(why=last.why + more)


def used_bytes_of(store: OutputStore, session: SessionInfo | None = None, stored: Listing | None = None) -> int:
    if session is None:
        return sum(used_bytes_of(store, one, stored) for one in store.sessions())
    outputs = (stored or store.outputs)(session)
    return sum({facts.file: facts.measure.bytes for facts in outputs if facts.file}.values())


def room_for(quota: Quota, used_here: int, used_in_all: int, *, what: str = "an output") -> Callable[[int], None]:
    """Asked before each chunk with the bytes taken so far; refuses as soon as a quota would be passed."""

    def room(taken: int) -> None:
        check_room(quota, used_here, used_in_all, taken, what)

    return room


def check_room(quota: Quota, used_here: int, used_in_all: int, taken: int, what: str = "an output") -> None:
    session = "session", "session_quota_bytes", quota.session_bytes, used_here
    for where, setting, limit, used in (session, ("store", "quota_bytes", quota.store_bytes, used_in_all)):
        if limit is not None and used + taken > limit:
            raise QuotaReached(
                f"the quota of this {where} is {size(limit)} and {size(used)} of it are used: {what} with "
                f"at least {size(taken)} has no room. Raise {setting}, or {MAKE_ROOM}."
            )


class Rooms:
    """What is being written through one store object: it counts against the quotas like what is stored."""

    def __init__(self, used_bytes: Callable[[SessionInfo | None], int], quota: Quota) -> None:
        self._used_bytes = used_bytes
        self._quota = quota
        self.lock = threading.Lock()
        self.open: dict[Room, None] = {}
        self.ended = 0  # so many: then what is stored is counted anew

    def of(self, session: SessionInfo) -> "Room | None":
        """For one more output; None if there is no quota: nothing is counted then."""
        quota = self._quota.strictest(session.quota)
        return Room(self, quota, session) if quota != Quota() else None

    def used(self, quota: Quota, session: SessionInfo) -> tuple[int, int]:
        in_all = self._used_bytes(None) if quota.store_bytes is not None else 0
        return self._used_bytes(session), in_all


class Room:
    """Called before each chunk of an output with the bytes taken so far; closed when it is stored, or is not."""

    def __init__(self, rooms: Rooms, quota: Quota, session: SessionInfo) -> None:
        self._rooms = rooms
        self._quota = quota
        self._session = session
        self._ended = -1
        self._used = (0, 0)
        self.session, self.taken = session.id, 0

    def __call__(self, taken: int) -> None:
        rooms = self._rooms
        while self._ended != (ended := rooms.ended):
            self._used, self._ended = rooms.used(self._quota, self._session), ended
        with rooms.lock:
            beside = [one for one in rooms.open if one is not self]
            here = sum(one.taken for one in beside if one.session == self.session)
            in_all = sum(one.taken for one in beside)
            check_room(self._quota, self._used[0] + here, self._used[1] + in_all, taken)
            self.taken = taken
            rooms.open[self] = None

    def check_again(self) -> None:
        """Before it is published: other processes may have kept something meanwhile."""
        self._used = self._rooms.used(self._quota, self._session)
        self(self.taken)

    def close(self) -> None:
        with self._rooms.lock:
            if self._rooms.open.pop(self, True) is None:
                self._rooms.ended += 1


def taken(name: str) -> str:
    return f'there is a session "{name}" already, and it is not touched. Choose another one with name=NAME.'


def bad_lines(store: Logged, session: SessionInfo) -> Iterator[Verdict]:
    """Lines of the session's logs that do not prove themselves."""
    for log, bad in bad_lines_of(store, session):
        problem = f"line {bad.number:,} (at byte {bad.start:,}): {bad.why}"
        yield Verdict(session.name, LOGS[log], 0, problem)


def is_over(session: SessionInfo, facts: Facts, now: float) -> bool:
    """Whether its bytes are to go by the rule of its session."""
    return session.retention.is_over(facts, now) or (facts.state == "expired" and bool(facts.file))


def in_time(outputs: Sequence[Facts], rule: Retention, now: float) -> list[Facts]:
    """Whose time is over has expired, for everybody, before `sweep` removes its bytes.

    Not with a rule of 0 days: what nobody could read would not have been kept.
    """
    if not rule.days:
        return list(outputs)
    return [
        replace(facts, state="expired", ended=rule.expires_at(facts.ended or facts.created),
                error=f"kept for {rule.told}") if rule.is_over(facts, now) else facts
        for facts in outputs
    ]  # fmt: skip


def would_free(outputs: Sequence[Facts], over: Sequence[Facts]) -> int:
    """What goes with these outputs of a session: bytes that another one has too stay."""
    going = {facts.handle for facts in over}
    staying = {facts.file for facts in outputs if facts.handle not in going}
    return sum({facts.file: facts.measure.bytes for facts in over if facts.file not in staying}.values())


_PLACES_TOLD = 20


def prove(
    facts: Facts, table: BlockTable, block: Callable[[int], bytes], progress: Progress | None = None, done: int = 0
) -> None:
    """Read every block again and compare every hash. Raises OutputDamaged where one byte is not as it came, with all
    places of the damage.

    `done` bytes of other outputs were read before.
    """
    digest = hashlib.sha256()
    damaged: list[list[int]] = []  # start and end, of neighbours together
    for index, proof in enumerate(table.checksums):
        data = block(index)
        digest.update(data)
        if checksum(data) != proof:
            start = index * BLOCK
            if damaged and damaged[-1][1] == start:
                damaged[-1][1] += len(data)
            else:
                damaged.append([start, start + len(data)])
        done += len(data)
        if progress is not None:
            progress(done)
    if damaged:
        places = ", ".join(f"{start:,} to {end:,}" for start, end in damaged[:_PLACES_TOLD])
        more = f", and {len(damaged) - _PLACES_TOLD:,} more" if len(damaged) > _PLACES_TOLD else ""
        raise OutputDamaged(facts.handle, f"checksum mismatch in bytes {places}{more}")
    if digest.hexdigest() != facts.measure.sha256:
        raise OutputDamaged(facts.handle, "sha256 mismatch")
