"""grep: where a pattern matches, how often, how often each captured value occurs, and what is shown of each match. Also
whether a pattern is in an output that is still being written.

A match is shown as its line, or as a window where the line is long; the answer states all that there are, shown or not.
ripgrep only says where: every byte that is shown is read again, through the reader, which checks it. Nothing found is
an answer.
"""

import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice, takewhile
from math import inf, isfinite
from typing import Any

from holdall.formats.kinds import PACKED_STREAMS
from holdall.formats.registry import format_of
from holdall.search.pattern import Pattern, read_pattern
from holdall.search.ripgrep import (
    LONG_VALUE,
    MAX_VALUES,
    LastPlaces,
    Places,
    Spread,
    Stats,
    Tally,
    Want,
    command_for,
    first_bytes,
    number_in,
    output_of,
    values_in,
    written,
)
from holdall.store.deadline import check, renew, within
from holdall.store.protocol import OutputReader
from holdall.store.reader import byte_of_line, char_of_byte, damage_in, is_list, line_of_byte
from holdall.text.escape import ended_as
from holdall.text.excerpt import around, beginning
from holdall.text.ranges import whole_number
from holdall.text.utf8 import REPLACEMENT, decode
from holdall.values.answers import UNCHECKED, Found, Group, Match
from holdall.values.errors import BadRange, HoldallError, OutputDamaged
from holdall.values.record import record
from holdall.values.settings import Settings
from holdall.values.spans import BLOCK, Span
from holdall.verbs.read import Bounds
from holdall.wire.verbs import MAX_CONTEXT, MAX_SHOWN

DEFAULT_SHOWN = 100
GROUPS_SHOWN = 20  # to a model that gives no limit: what is most frequent says most, and each value costs tokens
_SMALLEST_ROOM = 200  # bytes: less cannot hold one match with anything around it


def grep(  # noqa: PLR0913 - the options of one question; a value for them would only be unpacked here again
    reader: OutputReader,
    pattern: str,
    *,
    ignore_case: bool = False,
    literal: bool = False,
    context: int = 0,
    before: int | None = None,
    after: int | None = None,
    limit: int | None = None,
    count: bool = False,
    group: bool = False,
    last: bool = False,
    spread: int = 0,
    start: int = 0,
    max_bytes: int | None = 16384,
    total_bytes: int | None = None,
    seconds: float = 60.0,
    each: Callable[[Found], object] | None = None,
    whole: bool = False,
) -> Found:
    """Search all of an output.

    `total` counts every match, `lines` every line that holds one. At most `limit` lines (100) are shown, the first that
    match at byte `start` or later, or with `last` the last (before byte `start`), in at most `max_bytes` of text;
    `next` is where to continue. A line is shown once. `before` and `after` are lines of context, `context` both of
    them. `count` shows none. `group` shows how often each captured value (or each match, where nothing is captured)
    occurs instead, the most frequent first; `start` and `next` are then numbers of values. `spread`: the answer says in
    which of so many equal parts of the output matches begin, without `last`, `count` and `group`.
    `total_bytes`: so many for all that is shown, where only one match has to fit into `max_bytes`. `each` gets all
    matches in parts, as they are found; the answer then has none. With `whole` no `limit` means all of them.
    """
    around = _number("context", context, 0, MAX_CONTEXT)
    room = None if max_bytes is None else whole_number(max_bytes, name="max_bytes", least=_SMALLEST_ROOM)
    shown = _number("limit", DEFAULT_SHOWN if limit is None else limit, 1, MAX_SHOWN)
    sought = read_pattern(pattern, literal=literal, ignore_case=ignore_case)
    search = _Search(
        reader,
        sought,
        wanted=pattern,
        before=around if before is None else _number("before", before, 0, MAX_CONTEXT),
        after=around if after is None else _number("after", after, 0, MAX_CONTEXT),
        limit=None if each or (whole and limit is None) else shown,
        last=last,
        spread=spread,
        start=whole_number(start, name="start"),
        room=room,
        total_room=room if room is None else max(room, total_bytes or 0),
        seconds=_seconds(seconds),
        each=each,
    )
    with within(search.seconds):
        search.pattern, search.returns = _without_ends(sought, reader)
        if group:
            return search.groups(shown=not count)
        return search.count() if count else search.matches()


def _without_ends(sought: Pattern, reader: OutputReader) -> tuple[Pattern, str]:
    """The pattern as meant where lines end in \\r\\n: no class takes that \\r. If there is one inside of lines too,
    which draws them anew, it has to be found: classes take each of them then, and the answer says so.
    """
    without = sought.without_return()
    if without == sought:
        return sought, ""
    try:
        head = reader.read(0, min(reader.totals.bytes, _LOOKED_AT_FOR_RETURN))
        if b"\r\n" not in head:
            return sought, ""
        return (sought, _RETURN_INSIDE) if _has_return_inside(reader) else (without, "")
    except (HoldallError, OSError):  # damaged: the search itself says so
        return sought, ""


def _has_return_inside(reader: OutputReader) -> bool:
    with reader.local_file() as descriptor:
        at, last = 0, b""
        while piece := os.pread(descriptor, _LOOKED_THROUGH, at):
            joined = last + piece
            ended = len(joined) - joined.endswith(b"\r")  # what stands behind that one is in the next piece
            if joined.count(b"\r", 0, ended) > joined.count(b"\r\n"):
                return True
            at, last = at + len(piece), joined[ended:]
            check()
    return bool(last)


_LOOKED_AT_FOR_RETURN, _LOOKED_THROUGH = 64 * 1024, 4 * 1024 * 1024
_RETURN_INSIDE = (
    "lines end in \\r\\n and some have \\r inside, so classes such as [^x] and \\s take the \\r of line ends too: "
    "write [^x\\r]"
)


def grep_bounded(reader: OutputReader, *, bounds: Bounds, **options: Any) -> Found:
    """The same within what a session allows."""
    seconds = (bounds.settings or Settings()).grep_seconds
    total = bounds.most_bytes if bounds.counted_later else None
    most = bounds.share(reader.facts.measure)
    options = {"total_bytes": total, "seconds": seconds, "each": bounds.each, "whole": bounds.whole, **options}
    if bounds.counted_later and options.get("group") and options.get("limit") is None:
        options["limit"] = GROUPS_SHOWN
    return grep(reader, max_bytes=most, **options)


def _number(name: str, value: object, least: int, most: int) -> int:
    number = whole_number(value, name=name, least=least)
    if number > most:
        raise BadRange(f"{name} must be from {least} to {most:,}, not {number:,}.")
    return number


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
        raise BadRange(f"seconds must be a number above 0, not {value!r:.60}.")
    return float(value)


@record(frozen=False)
class _Search:
    reader: OutputReader
    pattern: Pattern
    wanted: str
    before: int
    after: int
    limit: int | None
    last: bool
    spread: int
    start: int
    room: int | None  # for one match
    total_room: int | None
    seconds: float
    each: Callable[[Found], object] | None = None
    returns: str = ""  # what has to be said of \\r in it
    damage: Sequence[Span] | None = None  # known when it was searched

    def matches(self) -> Found:
        answer, stats = _Answer(self), Stats()
        spread = Spread(self.spread, self.reader.totals.bytes) if self.spread and not self.last else None
        if self.last and self.limit is not None:
            places = LastPlaces(end=self.start or inf, most=self.limit + _IN_A_LINE)
        elif self.last:  # all of them, before where it says
            places = Places(start=0, takes=lambda place: place.start < (self.start or inf) and answer.takes(place))
        else:
            places = Places(start=self.start, takes=answer.takes, spread=spread)
        with closing(self._output("places")) as pieces:
            for piece in stats.taken_from(pieces):
                places.feed(piece)
        if isinstance(places, LastPlaces):
            answer.take_last(places)
        answer.pass_on(held=0)
        return replace(
            self._found(places.total, stats, *answer.notes()),
            matches=answer.shown(),
            next=answer.next,
            last=self.last,
            spread=tuple(spread.found) if spread else (),
        )

    def count(self) -> Found:
        stats = Stats()
        with closing(self._output("count")) as pieces:
            return self._found(number_in(stats.taken_from(pieces)), stats)

    def groups(self, *, shown: bool) -> Found:
        tally, stats = Tally(), Stats()
        with closing(self._output("values")) as pieces:
            for values in values_in(stats.taken_from(pieces), without_return=self.pattern.takes_return):
                tally.add(values)
        found = replace(self._found(tally.total, stats), distinct=len(tally.counts))
        if not shown:
            return found
        listed, notes = _shown_groups(tally, self.start, self.limit, self.room, self.total_room)
        end = self.start + len(listed)
        following = end if listed and end < found.distinct else None
        return replace(found, groups=tuple(listed), skipped=self.start, next=following, notes=(*found.notes, *notes))

    def _output(self, want: Want) -> Generator[bytes]:
        """What ripgrep prints. An empty output has no line, so nothing matches in it."""
        size = self.reader.totals.bytes
        with self.reader.local_file() as descriptor:
            there = os.fstat(descriptor).st_size
            if there < size:
                ends = f"its file ends at byte {there:,} of {size:,} (truncated)"
                raise OutputDamaged(self.reader.facts.handle, ends)
            self.damage = damage_in(self.reader, descriptor)
            growing = there > size or self.reader.facts.state == "running"
            source = first_bytes(descriptor, size) if growing else descriptor
            if size:
                yield from output_of(command_for(self.pattern, want, source, stats=True))

    def _found(self, total: int, stats: Stats, *notes: str) -> Found:
        totals, facts = self.reader.totals, self.reader.facts
        state, ended = facts.state, ended_as(facts.state, facts.error)
        if state == "running":
            searched = "still running: searched what is there so far"
        elif self.damage is None:
            searched = f"searched {UNCHECKED}"
        else:
            searched = _damage_note(self.damage)
        is_odd = not total and not facts.measure.utf8 and not format_of(facts.measure.kind).is_binary
        stray = f"no pattern matches bytes that are not UTF-8, shown as {REPLACEMENT}: search for what is beside them"
        listed = "" if total or not is_list(self.reader) else _LISTED
        all_ascii = totals.chars == totals.bytes
        escaped = "" if total else _escaped_note(self.wanted, facts.measure.kind, all_ascii=all_ascii)
        by_line = "lines are counted, for the pattern can match nothing at all" if self.pattern.can_be_empty else ""
        return Found(
            handle=self.reader.facts.handle,
            matches=(),
            total=total,
            lines=stats.lines,
            totals=totals,
            damage=tuple(self.damage or ()),
            unit="lines" if self.pattern.can_be_empty else "matches",
            state=state,
            notes=tuple(
                filter(
                    None,
                    (
                        *ended,
                        searched,
                        _packed_note(facts.measure.kind),
                        listed,
                        by_line,
                        self.returns,
                        escaped,
                        stray if is_odd else "",
                        *notes,
                    ),
                )
            ),
        )


_LISTED = "this is the list of the files, not what is in them: search HANDLE!NAME"


def _escaped_note(pattern: str, kind: str, *, all_ascii: bool) -> str:
    """Many programs write JSON so: a name that is there is not found by its letters."""
    sign = next((char for char in pattern if not char.isascii()), "")
    if not sign or not all_ascii or kind not in ("json", "ndjson"):
        return ""
    return (
        f"this JSON is all ASCII and writes other characters as escapes, such as {json.dumps(sign)[1:-1]}: "
        "search for the escape as literal text, or ask by SQL"
    )


def _packed_note(kind: str) -> str:
    """That what is packed is not found in its bytes. A tar has its files as they are."""
    if kind == "utf-16":
        return "these are the bytes of UTF-16, in which a pattern finds no letters: search HANDLE!, the text as UTF-8"
    if kind in PACKED_STREAMS or kind == "pdf":
        of_a_tar = ", or HANDLE!NAME of a tar in it" if kind in PACKED_STREAMS else ""
        return f"these are the bytes of a {kind}, not the text that it holds: search HANDLE!{of_a_tar}"
    if kind == "zip":
        return "these are the bytes of a zip, not its files: search HANDLE!NAME; HANDLE! is the list of them"
    return ""


def _damage_note(damage: Sequence[Span]) -> str:
    if not damage:
        return ""
    places = ", ".join(f"{one.start:,} to {one.end:,}" for one in damage[:3])
    more = f" and {len(damage) - 3:,} more places" if len(damage) > 3 else ""
    return f"damaged, so what they held may be missing here: bytes {places}{more}"


_AT_ONCE = 64  # matches that are passed on together
_IN_A_LINE = 256  # matches beside the first ones of their lines that are looked at, from the end


class _Answer:
    """The lines that are shown, as long as there is room: of a long line a window around its match, and another one for
    a match outside of that. A match in what is shown already costs nothing."""

    def __init__(self, search: _Search) -> None:
        self.matches: list[Match] = []
        self.next: int | None = None
        self._others: dict[int, list[Span]] = {}  # matches in the text of one that begins at this byte
        self._search = search
        self._used = 0
        self._context_is_whole = True
        self._number = 0  # of those that are shown, passed on or not
        self._has_bytes = False  # that are not text, in what was passed on
        self._windows = Windows(
            search.reader,
            size=Size.for_room(search.room),
            whole_lines=search.pattern.can_be_empty,
            takes_return=search.pattern.takes_return,
        )

    def takes(self, place: Span) -> bool:
        """Whether there is room for it. The first always is shown, with as much context as fits."""
        if self._has_shown(place):
            return True
        limit = self._search.limit
        if (limit is None or self._number < limit) and self._adds(self._windows.show(place, self._shown_to)):
            self._number += 1
            if len(self.matches) > _AT_ONCE:
                self.pass_on(held=1)  # the next one may take lines of context from the last
            return True
        self.next = place.start
        return False

    def take_last(self, places: LastPlaces) -> None:
        """The lines of the last ones, as many as there is room for; `next` is where the first of them begins, if there
        are more before it."""
        for place in places.last:
            if not self._has_shown(place):
                self.matches.append(self._windows.show(place, self._shown_to))
        left_out = places.before > len(places.last)
        # The first one may be in a line whose first match is left out.
        candidates = self.matches[1 if left_out and len(self.matches) > 1 else 0 :][-(self._search.limit or 0) :]
        left_out = left_out or len(candidates) < len(self.matches)
        number = len(candidates)
        while candidates:
            self.matches, self._used, self._context_is_whole = [], 0, True
            kept = candidates[-number:]
            if all(map(self._adds, kept)):
                break
            # What has not fitted stands at the end: as many again are left out at the beginning.
            number = len(self.matches)  # the first always fits
        self.next = self.matches[0].byte if left_out or number < len(candidates) else None

    def pass_on(self, *, held: int) -> None:
        """To who wants them as they come; the last `held` stay."""
        each, ready = self._search.each, len(self.matches) - held
        if each is None or ready <= 0:
            return
        part = self.shown()[:ready]
        self._has_bytes = self._has_bytes or self._shows_bytes()
        self.matches = self.matches[ready:]
        for one in part:
            self._others.pop(one.byte, None)
        reader = self._search.reader
        each(Found(reader.facts.handle, part, 0, reader.totals))
        renew()

    @property
    def _shown_to(self) -> int:
        return self.matches[-1].text_end if self.matches else 0

    def _has_shown(self, place: Span) -> bool:
        """Whether the match begins in the text that was shown last; then it is among the others of that."""
        if place.start >= self._shown_to:
            # The \r before a newline is not shown, and a match of it alone is on a line that was.
            ended = self.matches and place.start == self._shown_to and not self.matches[-1].cut_right
            return bool(ended and self._search.reader.read(place.start, place.start + 2) == b"\r\n")
        self._others.setdefault(self.matches[-1].byte, []).append(Span(place.start, self._windows.end_of(place)))
        return True

    def _adds(self, match: Match) -> bool:
        search, last, freed = self._search, self.matches[-1] if self.matches else None, 0
        is_whole = True
        if search.before or search.after:
            match, is_whole = self._windows.with_context(match, search.before, search.after, search.room, last)
            begin = self._windows.line_start(match.byte)
            if last is not None:  # a line is shown once
                shorter = last.without_lines_from(begin)
                freed = _cost(last) - _cost(shorter)
                last = shorter
        used = self._used - freed + _cost(match)
        if search.total_room is not None and used > search.total_room and self.matches:
            return False
        if last is not None:
            self.matches[-1] = last
        self._used = used
        self.matches.append(match)
        self._context_is_whole = self._context_is_whole and is_whole
        return True

    def shown(self) -> tuple[Match, ...]:
        others = self._others
        return tuple(replace(one, others=(*others[one.byte],)) if one.byte in others else one for one in self.matches)

    def notes(self) -> list[str]:
        notes = [] if self._context_is_whole else ["some context is cut or left out; read shows it whole"]
        if self._has_bytes or self._shows_bytes():
            notes.append(f"bytes that are not text are shown as {REPLACEMENT}")
        return notes

    def _shows_bytes(self) -> bool:
        return any(REPLACEMENT in text and not self._windows.is_text(span) for text, span in self._texts())

    def _texts(self) -> Iterator[tuple[str, Span]]:
        for match in self.matches:
            yield match.text, Span(match.text_byte, match.text_end)
            yield from zip((*match.before, *match.after), match.context, strict=True)


def _cost(match: Match) -> int:
    return sum(len(text.encode()) for text in (match.text, *match.before, *match.after))


def _shown_groups(
    tally: Tally, start: int, limit: int | None, room: int | None, total_room: int | None
) -> tuple[list[Group], list[str]]:
    """The most frequent values from number `start` on, as many as are asked for and fit, and what has to be said about
    them.
    """
    groups: list[Group] = []
    longest = LONG_VALUE if room is None else min(LONG_VALUE, room // 3)
    used = cut = 0
    for key, number in islice(tally.most_frequent(), start, None if limit is None else start + limit):
        value = beginning(key, longest)
        used += len(value.text.encode())
        if groups and total_room is not None and used > total_room:
            break
        cut += value.cut_right
        groups.append(Group(value.text, number))
    notes: list[str] = []
    if cut:
        notes.append(f"long values are shown by their first {longest} bytes")
    if tally.full:
        notes.append(
            f"there are more than {MAX_VALUES:,} different values: the first of them are counted exactly, "
            "later ones only in the total"
        )
    return groups, notes


# What is shown of a match: its line where that is short, else a window around it; lines of context likewise.

_NEAR = 512  # most lines end within this


@record
class Size:
    """In bytes: a line up to this is shown whole, a longer one as so much on both sides; so much of a match."""

    line: int = 400
    reach: int = 160
    match: int = 400

    @staticmethod
    def for_room(room: int | None) -> "Size":
        """So that one match fits into `room`, even where each byte becomes a replacement character of three."""
        usual = Size()
        if room is None or room >= 4 * (usual.match + 2 * usual.reach + usual.match):
            return usual
        return Size(line=room // 8, reach=room // 32, match=room // 16)


class Windows:
    """Matches of one output, shown in ascending order."""

    def __init__(self, reader: OutputReader, *, size: Size, whole_lines: bool, takes_return: bool) -> None:
        self._reader = reader
        self._size = size
        self._whole_lines = whole_lines
        self._takes_return = takes_return
        self._place = (0, 1, 0)  # a byte, its line and its char
        self._held, self._held_at = b"", 0  # what was read last, and where it begins

    def show(self, place: Span, shown_to: int = 0) -> Match:
        """The match without lines of context, and without what was shown before it: that goes up to `shown_to`."""
        end = self._line_end(place.start) if self._whole_lines else self.end_of(place)
        found = 0 if self._whole_lines else min(end - place.start, self._size.match)
        line, data, begins, ends = self._around(place.start, place.start + found)
        if shown_to > line.start:
            data = data[shown_to - line.start :]
            line, begins = Span(shown_to, line.end), False
        at = place.start - line.start
        line_number, char = self._locate(place.start)
        if begins and ends and len(data) <= self._size.line:
            shown = around(data, at, at, reach=len(data), limit=len(data))
        else:
            reach = 2 * self._size.reach if self._whole_lines else self._size.reach
            shown = around(data, at, at + found, reach=reach, limit=found + 2 * reach)
        return Match(
            line=line_number,
            byte=place.start,
            end=end,
            char=char,
            text=shown.text,
            text_byte=line.start + shown.start,
            text_end=line.start + shown.end,
            match=beginning(data[at : at + found + 3], found).text,
            cut_left=shown.cut_left or not begins,
            cut_right=shown.cut_right or not ends,
        )

    def with_context(
        self, match: Match, before: int, after: int, room: int | None, last: Match | None
    ) -> tuple[Match, bool]:
        """`match` with up to so many lines on each side, the nearest first, in `room` bytes; none that `last` shows.

        And whether all of them are there and whole.
        """
        # What is left by the match, half of it for each side: an answer never goes to one side alone.
        side = None if room is None else (room - _cost(match)) // (2 if before and after else 1)
        shown_to = max(last.text_end, *(span.end for span in last.context), 0) if last else -1
        new = takewhile(lambda line: line.start > shown_to, self._lines_before(match.byte))
        above_texts, above, whole_above = self._lines(new, before, side)
        below_texts, below, whole_below = self._lines(self._lines_after(match.end), after, side)
        shown = replace(
            match, before=(*reversed(above_texts),), after=(*below_texts,), context=(*reversed(above), *below)
        )
        return shown, whole_above and whole_below

    def _lines(self, lines: Iterator[Span], number: int, room: int | None) -> tuple[list[str], list[Span], bool]:
        """The lines, where what is shown of them stands, and whether all of them are there and whole."""
        texts: list[str] = []
        spans: list[Span] = []
        whole = True
        for line in islice(lines, number):
            text = self._line(line)
            if room is not None:
                room -= len(text.encode())
                if room < 0:
                    return texts, spans, False
            whole = whole and line.end - line.start <= self._size.line
            texts.append(text)
            spans.append(Span(line.start, min(line.end, line.start + len(text.encode()))))
        return texts, spans, whole

    def _line(self, line: Span) -> str:
        if line.end - line.start <= self._size.line:
            return decode(self._reader.read(line.start, line.end).removesuffix(b"\r"))[0]
        most = 2 * self._size.reach
        return beginning(self._reader.read(line.start, line.start + most + 1), most).text

    def is_text(self, span: Span) -> bool:
        return decode(self._reader.read(span.start, span.end))[1]

    def _lines_before(self, byte: int) -> Iterator[Span]:
        end = self.line_start(byte) - 1
        while end >= 0:
            start = self.line_start(end)
            yield Span(start, end)
            end = start - 1

    def _lines_after(self, byte: int) -> Iterator[Span]:
        start = self._line_end(byte) + 1
        while start < self._reader.totals.bytes:
            end = self._line_end(start)
            yield Span(start, end)
            start = end + 1

    def _around(self, start: int, end: int) -> tuple[Span, bytes, bool, bool]:
        """The line of a match as far as it is near, and its bytes; whether it begins and ends there."""
        low = max(0, start - self._size.line - 1)
        near = self._read(low, end + self._size.line + 1)
        newline = near.rfind(b"\n", 0, start - low)
        line_start, begins = low + newline + 1, newline >= 0 or low == 0
        newline = near.find(b"\n", end - low)
        line_end = low + (len(near) if newline < 0 else newline)
        ends = newline >= 0 or line_end == self._reader.totals.bytes
        if newline > end - low and near[newline - 1 : newline] == b"\r":
            line_end -= 1
        return Span(line_start, line_end), near[line_start - low : line_end - low], begins, ends

    def end_of(self, place: Span) -> int:
        """Without the \\r that `$` took along: it ends the line."""
        if not self._takes_return or place.end - place.start < 2:
            return place.end
        tail = self._reader.read(place.end - 1, place.end + 1)
        return place.end - 1 if tail in (b"\r", b"\r\n") else place.end

    def _locate(self, byte: int) -> tuple[int, int]:
        """Line and char of `byte`, counted on from the last one where both are in the same block."""
        known, line, char = self._place
        near = self._read(known, byte + 1) if known // BLOCK == byte // BLOCK and known <= byte else None
        if near is not None and near.isascii():
            line, char = line + near.count(b"\n", 0, byte - known), char + byte - known
        else:
            line, char = line_of_byte(self._reader, byte), char_of_byte(self._reader, byte)
        self._place = (byte, line, char)
        return line, char

    def _read(self, start: int, end: int) -> bytes:
        """The blocks that it is in: the next match is mostly near this one. No other, which may be damaged."""
        end = min(end, self._reader.totals.bytes)
        at = start - self._held_at
        if at < 0 or end > self._held_at + len(self._held):
            self._held, self._held_at, at = self._reader.read(start, -(-end // BLOCK) * BLOCK), start, 0
        return self._held[at : at + end - start]

    def line_start(self, byte: int) -> int:
        """Where the line that holds `byte` starts; a newline is in the line that it ends."""
        near = self._reader.read(byte - _NEAR, byte)
        newline = near.rfind(b"\n")
        if newline >= 0 or byte <= _NEAR:
            return byte - len(near) + newline + 1
        return byte_of_line(self._reader, line_of_byte(self._reader, byte))

    def _line_end(self, byte: int) -> int:
        """Where the newline that ends the line of `byte` stands; the end of the output if there is none."""
        total = self._reader.totals.bytes
        newline = self._reader.read(byte, byte + _NEAR).find(b"\n")
        if newline >= 0:
            return byte + newline
        line = line_of_byte(self._reader, byte)
        if byte + _NEAR >= total or line > self._reader.table.newlines[-1]:
            return total
        return byte_of_line(self._reader, line + 1) - 1


_PIECE = 1 << 20
_LONGEST_LINE = 1 << 20  # of a longer line that is not whole yet, only so much is looked at again
_GAP = 0.2  # seconds from one look to the next: each starts a process, and some tools write a thousand times a second
_LOOK_SECONDS = 60.0


class PatternWatch:
    """Looks for a pattern in what is new. Raises BadPattern if grep would.

    A look begins with the last line that was not whole at the look before, so a match that comes bit by bit is found.
    """

    def __init__(self, pattern: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._pattern = read_pattern(pattern)
        written(self._pattern)
        self._at = 0  # everything before this byte was searched
        self._clock = clock
        self._next_look = clock()

    @property
    def rest(self) -> float:
        """Seconds until the next look is due. Only a last look, at an output that has ended, need not wait for it."""
        return max(0.0, self._next_look - self._clock())

    def found(self, reader: OutputReader) -> bool:
        """Whether it is in what has come since."""
        total = reader.totals.bytes
        if self._at >= total:
            return False
        open_line = self._at  # where the line begins that is not whole yet

        def new() -> Iterator[bytes]:
            nonlocal open_line
            for at in range(self._at, total, _PIECE):
                piece = reader.read(at, min(at + _PIECE, total))
                if (newline := piece.rfind(b"\n")) >= 0:
                    open_line = at + newline + 1
                yield piece

        command = command_for(self._pattern, "any", new())
        with within(_LOOK_SECONDS), closing(output_of(command)) as pieces:
            if number_in(pieces):
                return True
        self._at = max(open_line, total - _LONGEST_LINE)
        self._next_look = self._clock() + _GAP
        return False
