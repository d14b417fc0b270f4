"""What the verbs answer. Each answer states its range, the whole it is a part of, and how to continue.

`to_json` of each class is the stable form that `--json` prints. The bytes themselves are kept beside the
decoded text, so that a command can print exactly what is stored.
"""

import base64
from dataclasses import field, replace
from typing import Any

from holdall.values.outputs import State
from holdall.values.record import record
from holdall.values.spans import Span, Totals


@record
class Passage:
    """A run of stored bytes, as read, tail and slice return it.

    `lines` are the first and the last line that it touches, from 1. `next` is the range that follows, as the same verb
    takes it (`lines=201:400`), empty at the end. Not `exact`: the bytes are not UTF-8, and `text` has U+FFFD for them.
    """

    handle: str
    data: bytes = field(repr=False)  # a notebook shows the text
    text: str
    bytes: Span
    chars: Span
    lines: Span | None  # None if the passage is empty
    total: Totals
    state: State = "ready"
    next: str = ""
    exact: bool = True
    past_end: bool = False
    notes: tuple[str, ...] = ()
    of_messages: bool = False  # of what a call has said that has no output
    scanned: Span | None = None  # to find it
    # Bytes before its first whole character that continue an earlier one, and those up to its end of one that goes on.
    split: tuple[int, int] = (0, 0)

    def to_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "handle": self.handle,
            "text": self.text,
            "bytes": self.bytes.as_list(),
            "chars": self.chars.as_list(),
            "lines": self.lines.as_list() if self.lines else None,
            "total": self.total.as_dict(),
            "state": self.state,
            "next": self.next or None,
            "past_end": self.past_end,
            "exact": self.exact,
            "notes": list(self.notes),
        }
        if not self.exact:
            shown["base64"] = base64.b64encode(self.data).decode("ascii")
        return shown


UNCHECKED = "without checking checksums"  # what a note says of a search: programs and people may want to know


@record
class Match:
    """A line that matches: where its first match is, what that is, and the text around it.

    `text` is the line, or a window around the match where the line is long; `text_byte` is where that text starts, and
    `text_end` where it ends. `others` are further matches that begin in that text. `before` and `after` are whole
    context lines, cut likewise. No line is in two of these.
    """

    line: int
    byte: int
    end: int
    char: int
    text: str
    text_byte: int
    match: str
    cut_left: bool = False
    cut_right: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    context: tuple[Span, ...] = ()  # where `before` and `after` stand, as far as they are shown
    text_end: int = 0
    others: tuple[Span, ...] = ()

    def without_lines_from(self, byte: int) -> "Match":
        """Without the lines after it that begin at `byte` or later."""
        above, below = self.context[: len(self.before)], self.context[len(self.before) :]
        kept = sum(line.start < byte for line in below)
        return self if kept == len(below) else replace(self, after=self.after[:kept], context=(*above, *below[:kept]))

    def to_json(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "byte": self.byte,
            "end": self.end,
            "char": self.char,
            "text": self.text,
            "text_byte": self.text_byte,
            "match": self.match,
            "others": [span.as_list() for span in self.others],
            "cut": [self.cut_left, self.cut_right],
            "before": list(self.before),
            "after": list(self.after),
        }


@record
class Group:
    """One captured value and how often it occurs."""

    value: str
    count: int

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "count": self.count}


@record
class Found:
    """What grep answers. `total` counts every match, shown or not, and `lines` the lines that hold one; `next` is the
    byte to continue from, with `last` that before which to continue, of values the number of the next one."""

    handle: str
    matches: tuple[Match, ...]
    total: int
    totals: Totals
    groups: tuple[Group, ...] = ()
    distinct: int = 0  # with `group`: how many different values there are
    skipped: int = 0  # of them, before the first that is in `groups`
    next: int | None = None
    engine: str = "ripgrep"
    unit: str = "matches"  # "lines" where the pattern can match nothing at all, as ^$ does
    state: State = "ready"
    notes: tuple[str, ...] = ()
    of_messages: bool = False  # as in a Passage
    lines: int = 0
    last: bool = False  # the last matches are shown, not the first
    damage: tuple[Span, ...] = ()  # what cannot be trusted, of what was searched
    spread: tuple[int, ...] = ()  # the parts of the output in which matches begin, where that was asked; for pages

    def to_json(self) -> dict[str, Any]:
        return {
            "handle": self.handle,
            "matches": [match.to_json() for match in self.matches],
            "total": self.total,
            "lines": self.lines,
            "unit": self.unit,
            "groups": [group.to_json() for group in self.groups],
            "distinct": self.distinct,
            "next": self.next,
            "output": self.totals.as_dict(),
            "engine": self.engine,
            "state": self.state,
            "notes": list(self.notes),
        }


@record
class Table:
    """What SQL answers. `total` counts every row of the result, shown or not, or is the least that there are where
    `is_least`; `next` is the OFFSET to continue with. `offset` and `limit` are those that the SQL has already: None for
    an offset that is no plain number, and then `next` is one of the result as a whole."""

    handle: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    total: int
    totals: Totals
    next: int | None = None
    notes: tuple[str, ...] = ()
    also: tuple[tuple[str, int], ...] = ()  # further outputs that were scanned, as handle and bytes
    is_least: bool = False
    offset: int | None = 0
    limit: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "handle": self.handle,
            **({"also": [handle for handle, _ in self.also]} if self.also else {}),
            "columns": list(self.columns),
            "types": list(self.types),
            "rows": [list(row) for row in self.rows],
            "total": self.total,
            "next": self.next,
            "output": self.totals.as_dict(),
            "notes": list(self.notes),
        }


@record
class Node:
    """One JSON value that a path names: its place, and its bytes exactly as they are stored."""

    path: str
    bytes: Span
    lines: Span | None
    text: str
    cut: bool = False  # the value is longer than `text`; read the rest by its bytes
    parts: tuple[Span, ...] = ()  # of a long container, for a model: the bytes in `text`, which has … between them

    def to_json(self) -> dict[str, Any]:
        lines = self.lines.as_list() if self.lines else None
        return {"path": self.path, "bytes": self.bytes.as_list(), "lines": lines, "text": self.text, "cut": self.cut}


@record
class Nodes:
    """What a JSONPath or a JSON Pointer answers. `total` counts every value found, shown or not."""

    handle: str
    nodes: tuple[Node, ...]
    total: int
    totals: Totals
    next: int | None = None  # how many values to skip to continue
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "handle": self.handle,
            "nodes": [node.to_json() for node in self.nodes],
            "total": self.total,
            "next": self.next,
            "output": self.totals.as_dict(),
            "notes": list(self.notes),
        }


@record
class Side:
    """A part of one of two outputs that differ: where it is, and what is there, as far as it is shown."""

    bytes: Span
    lines: Span | None
    text: str
    cut: bool = False
    exact: bool = True  # False where the text is not what is stored there
    left: int = 0  # bytes that are not shown

    def to_json(self) -> dict[str, Any]:
        lines = self.lines.as_list() if self.lines else None
        return {
            "bytes": self.bytes.as_list(), "lines": lines, "text": self.text, "cut": self.cut, "left_out": self.left
        }  # fmt: skip


@record
class Change:
    """What is in place of what: lines, or the value or row of a name. Without `before` it was added, without `after`
    removed."""

    before: Side | None
    after: Side | None
    name: str = ""  # the path of a value, the key of a row

    def to_json(self) -> dict[str, Any]:
        sides = {"before": self.before, "after": self.after}
        return {"name": self.name} | {which: side.to_json() if side else None for which, side in sides.items()}


@record
class Difference:
    """What diff answers: how output `handle` differs from `other`, the earlier of the two.

    `bag.diff(a, b)` tells how b differs from a: then `handle` is b.

    `changed`, `added` and `removed` count lines, values or rows; `total` counts changes, shown or not: lines that
    follow each other are one. Not `complete`: there may be more than was found.
    """

    handle: str
    other: str
    unit: str  # "line", "value" or "row"
    changes: tuple[Change, ...]
    totals: Totals
    other_totals: Totals
    total: int = 0
    changed: int = 0
    added: int = 0
    removed: int = 0
    moved: int = 0  # of the lines that were removed, those that were added elsewhere
    of: int | None = None  # lines or rows of the earlier one
    same_bytes: bool = False
    complete: bool = True
    next: int | None = None  # how many changes to skip to continue
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        told = ("unit", "total", "changed", "added", "removed", "moved", "of", "same_bytes", "complete", "next")
        return {
            "handle": self.handle,
            "other": self.other,
            **{name: getattr(self, name) for name in told},
            "changes": [change.to_json() for change in self.changes],
            "output": self.totals.as_dict(),
            "other_output": self.other_totals.as_dict(),
            "notes": list(self.notes),
        }

    def shown_of(self, handle: str) -> tuple[Span, ...]:
        """The bytes of one of the two that are in it."""
        sides = [change.after if handle == self.handle else change.before for change in self.changes]
        return tuple(
            Span(side.bytes.start, min(side.bytes.end, side.bytes.start + len(side.text.encode("utf-8", "replace"))))
            for side in sides
            if side is not None and side.exact
        )

    def scanned_of(self, handle: str) -> tuple[Span, ...]:
        return (Span(0, (self.totals if handle == self.handle else self.other_totals).bytes),)


Fetched = Passage | Found | Table | Nodes | Difference


@record
class Answer:
    """What a tool of ours answers a model: a text within the bounds, and which bytes of which output it shows."""

    text: str
    is_error: bool = False
    handle: str = ""
    spans: tuple[Span, ...] = ()

    @property
    def content(self) -> str:
        """The same under the name that a taken output has."""
        return self.text


def shown_by(answer: Fetched) -> tuple[Span, ...]:
    """The bytes of the output that are in an answer as they are stored."""
    match answer:
        case Passage(of_messages=True) | Found(of_messages=True):
            return ()
        case Passage():
            return (answer.bytes,) if answer.bytes.start < answer.bytes.end else ()
        case Found():
            texts = [Span(match.text_byte, match.text_end) for match in answer.matches]
            return (*texts, *(span for match in answer.matches for span in match.context))
        case Nodes():
            return tuple(span for node in answer.nodes for span in node.parts or (_beginning(node),))
        case Table():
            return ()
        case Difference():
            return answer.shown_of(answer.handle)


def items_of(answer: Fetched) -> int:
    """How many matches, values or rows are in it; a passage has none."""
    match answer:
        case Passage():
            return 0
        case Found():
            return len(answer.groups) or len(answer.matches)
        case Table():
            return len(answer.rows)
        case Nodes():
            return len(answer.nodes)
        case Difference():
            return len(answer.changes)


def fewer(answer: Fetched, number: int, *, skipped: int = 0) -> Fetched:
    """With only the first `number` of them, and where to continue. `skipped` were left out before the first one."""
    if number >= items_of(answer):
        return answer
    match answer:
        case Passage():
            return answer
        case Found() if answer.groups:
            return replace(answer, groups=answer.groups[:number], next=answer.skipped + number)
        case Found(last=True):
            return replace(answer, matches=answer.matches[-number:], next=answer.matches[-number].byte)
        case Found():
            return replace(answer, matches=answer.matches[:number], next=answer.matches[number].byte)
        case Table():
            return replace(answer, rows=answer.rows[:number], next=(answer.offset or 0) + number)
        case Nodes():
            return replace(answer, nodes=answer.nodes[:number], next=skipped + number)
        case Difference():
            return replace(answer, changes=answer.changes[:number], next=skipped + number)


def scanned_by(answer: Fetched) -> tuple[Span, ...]:
    """The bytes that were gone over to make an answer, beside those that it shows."""
    match answer:
        case Passage():
            return (answer.scanned,) if answer.scanned is not None else ()
        case Found(of_messages=True):
            return ()
        case Found() | Nodes() | Table() | Difference():
            return (Span(0, answer.totals.bytes),)


def _beginning(node: Node) -> Span:
    start, end = node.bytes.start, node.bytes.end
    return Span(start, min(end, start + len(node.text.encode("utf-8", "replace"))))
