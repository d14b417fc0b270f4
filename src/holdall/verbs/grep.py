"""grep: where a pattern matches, how often, and how often each captured value occurs.

A match is shown as its line, or as a window where the line is long; the answer states all that there are, shown or
not. A search engine only says where: what is shown is read again and checked. Nothing found is an answer.
"""

import os
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from math import isfinite
from typing import Literal

from holdall.search import translate
from holdall.search.engine import (
    LONG_VALUE,
    MOST_VALUES,
    Places,
    Tally,
    Task,
    Want,
    choose,
    command_for,
    number_in,
    output_of,
    values_in,
)
from holdall.search.translate import Pattern
from holdall.store.protocol import OutputReader
from holdall.text.excerpt import beginning
from holdall.text.numbers import plural
from holdall.text.ranges import whole_number
from holdall.values.answers import Found, Group, Match
from holdall.values.errors import BadRange, OutputDamaged
from holdall.values.spans import Span
from holdall.verbs.windows import Size, Windows

MOST_CONTEXT = 1000
MOST_SHOWN = 100_000
_SMALLEST_ROOM = 200  # bytes: less cannot hold one match with anything around it


def grep(  # noqa: PLR0913 - the options of one question; a value for them would only be unpacked here again
    reader: OutputReader,
    pattern: str,
    *,
    ignore_case: bool = False,
    literal: bool = False,
    context: int = 0,
    limit: int = 100,
    count: bool = False,
    group: bool = False,
    start: int = 0,
    max_bytes: int | None = 16384,
    seconds: float = 60.0,
    engine: Literal["auto", "ripgrep", "re2"] = "auto",
) -> Found:
    """Search all of an output.

    `total` counts every match; at most `limit` of those that start at byte `start` or later are shown, in at most
    `max_bytes` of text, and `next` is where the first one starts that was left out. `count` shows none. `group`
    shows how often each captured value (or each match, where nothing is captured) occurs instead.
    """
    search = _Search(
        reader,
        translate(pattern, literal=literal, ignore_case=ignore_case),
        context=_number("context", context, 0, MOST_CONTEXT),
        limit=_number("limit", limit, 1, MOST_SHOWN),
        start=whole_number(start, name="start"),
        room=None if max_bytes is None else whole_number(max_bytes, name="max_bytes", least=_SMALLEST_ROOM),
        seconds=_seconds(seconds),
        engine=choose(engine),
    )
    if group:
        return search.groups(shown=not count)
    return search.count() if count else search.matches()


def _number(name: str, value: object, least: int, most: int) -> int:
    number = whole_number(value, name=name, least=least)
    if number > most:
        raise BadRange(f"{name} must be from {least} to {most:,}, not {number:,}.")
    return number


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise BadRange(f"seconds must be a number above 0, not {value!r:.60}.")
    return float(value)


@dataclass(frozen=True, slots=True)
class _Search:
    reader: OutputReader
    pattern: Pattern
    context: int
    limit: int
    start: int
    room: int | None
    seconds: float
    engine: Literal["ripgrep", "re2"]

    def matches(self) -> Found:
        places = Places(start=self.start, most=self.limit + 1)
        with closing(self._output("places")) as pieces:
            for piece in pieces:
                places.feed(piece)
        answer = _Answer(self)
        left_out = next((place for place in places.found if not answer.takes(place)), None)
        return replace(
            self._found(places.total, *answer.notes()),
            matches=tuple(answer.matches),
            next=left_out.start if left_out else None,
        )

    def count(self) -> Found:
        with closing(self._output("count")) as pieces:
            return self._found(number_in(pieces))

    def groups(self, *, shown: bool) -> Found:
        tally = Tally()
        with closing(self._output("values")) as pieces:
            for values in values_in(pieces, without_return=self.pattern.takes_return):
                tally.add(values)
        listed, notes = _shown_groups(tally, self.limit, self.room) if shown else ([], [])
        return replace(self._found(tally.total, *notes), groups=tuple(listed), distinct=len(tally.counts))

    def _output(self, want: Want) -> Generator[bytes]:
        """What the engine prints. An empty output has no line, so nothing matches in it."""
        size = self.reader.totals.bytes
        if not size:
            return
        there = os.fstat(self.reader.fileno()).st_size
        if there < size:
            raise OutputDamaged(self.reader.facts.handle, f"its file ends at byte {there:,} of {size:,} (truncated)")
        growing = there > size or self.reader.facts.state == "running"
        task = Task(self.pattern, want, self.reader.fileno(), size, growing)
        yield from output_of(command_for(self.engine, task), seconds=self.seconds)

    def _found(self, total: int, *notes: str) -> Found:
        totals, state = self.reader.totals, self.reader.facts.state
        if state == "running":
            searched = "all that is there so far was searched"
        else:
            searched = "searched without checking checksums"
        by_line = "the pattern can match nothing at all, so lines are counted and not matches"
        return Found(
            handle=self.reader.facts.handle,
            matches=(),
            total=total,
            totals=totals,
            engine=self.engine,
            unit="lines" if self.pattern.can_be_empty else "matches",
            state=state,
            notes=(searched, *([by_line] if self.pattern.can_be_empty else []), *notes),
        )


class _Answer:
    """The matches that are shown, as long as there is room."""

    def __init__(self, search: _Search) -> None:
        self.matches: list[Match] = []
        self._search = search
        self._left = search.room
        self._context_is_whole = True
        self._windows = Windows(
            search.reader,
            size=Size.for_room(search.room),
            whole_lines=search.pattern.can_be_empty,
            takes_return=search.pattern.takes_return,
        )

    def takes(self, place: Span) -> bool:
        """Whether the match at `place` was added. The first always is, with as much context as fits."""
        if len(self.matches) == self._search.limit:
            return False
        match, context_is_whole = self._windows.show(place), True
        if self._search.context:
            # Half of what is left by the match for each side: an answer never goes to one side alone.
            room = None if self._search.room is None else (self._search.room - _cost(match)) // 2
            match, context_is_whole = self._windows.with_context(match, self._search.context, room)
        if self._left is not None:
            self._left -= _cost(match)
            if self._left < 0 and self.matches:
                return False
        self.matches.append(match)
        self._context_is_whole = self._context_is_whole and context_is_whole
        return True

    def notes(self) -> list[str]:
        cut = "some lines of context are cut, or left out where they do not fit; read shows them whole"
        return [] if self._context_is_whole else [cut]


def _cost(match: Match) -> int:
    return sum(len(text.encode()) for text in (match.text, match.match, *match.before, *match.after))


def _shown_groups(tally: Tally, limit: int, room: int | None) -> tuple[list[Group], list[str]]:
    """The most frequent values, as many as are asked for and fit, and what has to be said about the others."""
    groups: list[Group] = []
    longest = LONG_VALUE if room is None else min(LONG_VALUE, room // 3)
    used = cut = 0
    for key, number in tally.most_frequent()[:limit]:
        value = beginning(key, longest)
        used += len(value.text.encode())
        if groups and room is not None and used > room:
            break
        cut += value.cut_right
        groups.append(Group(value.text, number))
    notes: list[str] = []
    if hidden := len(tally.counts) - len(groups):
        notes.append(f"{plural(hidden, 'rarer value')} not shown")
    if cut:
        notes.append(f"{plural(cut, 'value')} shown by the first {longest} bytes")
    if tally.full:
        notes.append(
            f"there are more than {MOST_VALUES:,} different values: the first of them are counted exactly, "
            "later ones only in the total"
        )
    return groups, notes
