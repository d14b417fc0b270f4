"""How things look: bytes to a pipe as they are, to a terminal escaped; everything about them on standard error.

Nothing here decides what is shown; it only prints.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdall.text.escape import for_people, one_line, without_passwords
from holdall.text.numbers import grouped, plural

if TYPE_CHECKING:
    from holdall.values.answers import Difference, Found, Match, Nodes, Passage, Table
    from holdall.values.spans import Span

Rows = Callable[..., None]
"""Prints a table, the names of its columns first unless `with_names` is False."""

_ESCAPES = "backslashreplace"
_LINE_END = 2  # bytes at most
_MOST_SPANS = 20_000  # that the ledger is told of one answer
_CODES = {"dim": "2", "bold": "1", "red": "1;31", "green": "32", "yellow": "33", "cyan": "36"}


def is_terminal(stream: Any) -> bool:
    return bool(stream.isatty()) and os.environ.get("TERM") != "dumb"


def is_utf8(stream: Any) -> bool:
    return codecs.lookup(stream.encoding).name == "utf-8"


def encoded(text: str) -> bytes:
    """Text that is no content of an output, as standard output is encoded."""
    return text.encode("utf-8", "replace") if is_utf8(sys.stdout) else text.encode(sys.stdout.encoding, _ESCAPES)


def paint(text: str, colour: str, stream: Any = None) -> str:
    """`text` in a colour where a person looks and has not asked for none."""
    wanted = is_terminal(stream or sys.stdout) and "NO_COLOR" not in os.environ
    return f"\x1b[{_CODES[colour]}m{text}\x1b[0m" if wanted else text


def content(data: bytes) -> None:
    """Bytes of an output: exactly as they are, unless a person would see them raw on a terminal."""
    if is_terminal(sys.stdout):
        sys.stdout.write(for_people(data.decode("utf-8", "replace")))
        sys.stdout.flush()
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def end_line(data: bytes) -> None:
    """On a terminal, content that ends inside a line must not run into the prompt."""
    if data and not data.endswith(b"\n") and is_terminal(sys.stdout):
        sys.stdout.write(paint("⏎\n", "dim"))


def about(text: str) -> None:
    sys.stdout.flush()  # where both streams go to one place, the content comes first
    print(paint(for_people(without_passwords(text)), "dim", sys.stderr), file=sys.stderr)


def as_json(value: Any) -> None:
    print(json_text(value), flush=True)


def json_text(value: Any) -> str:
    # On a terminal no sign may move the cursor; and where not every sign can be written, JSON has its own escapes.
    escaped = is_terminal(sys.stdout) or not is_utf8(sys.stdout)
    text = json.dumps(value, ensure_ascii=escaped, default=str)
    return text.encode("utf-8", "replace").decode("utf-8")


def range_of(passage: Passage, command: str = "read", flags: str = "") -> str:
    """`lines 1–50 of 7,121 · bytes 0–4,812 of 797,637 · next: holdall read k3f9 --lines 51:`

    `flags` are those that a command for the same session needs.
    """
    total = passage.total
    if passage.past_end:
        return (
            f"nothing there: the output ends at line {grouped(total.lines)}, byte {grouped(total.bytes)}, "
            f"char {grouped(total.chars)}"
        )
    lines = f"lines {_range(passage.lines.start, passage.lines.end)}" if passage.lines else "no lines"
    parts = [
        f"{lines} of {grouped(total.lines)}",
        f"bytes {_range(passage.bytes.start, passage.bytes.end)} of {grouped(total.bytes)}",
        f"chars {_range(passage.chars.start, passage.chars.end)} of {grouped(total.chars)}",
    ]
    if passage.next:
        parts.append(f"next: holdall {command} {passage.handle} {flags_of(passage.next)}{flags}")
    return " · ".join([*parts, *passage.notes])


def flags_of(following: str) -> str:
    """`lines=51:` as the command line takes it: `--lines 51:`."""
    return " ".join("--" + part.replace("=", " ", 1) for part in following.split(" "))


def percent(share: float) -> str:
    """`1.2 %`: never 0 for what is a little, never 100 for what is not all."""
    if share >= 1:
        return "100 %"
    return "<0.1 %" if 0 < share < 0.001 else f"{min(share * 100, 99.9):.1f} %"


def byte_ranges(ranges: Sequence[Sequence[int]], most: int = 6) -> str:
    """`0–32, 97–140 and 12 more ranges`"""
    told = ", ".join(_range(start, end) for start, end in ranges[:most])
    return told + (f" and {plural(len(ranges) - most, 'more range')}" if len(ranges) > most else "")


def matches(found: Found, *, name: str = "", in_groups: bool = False, last: int | None = None) -> int | None:
    """All of them with one call: a pipe may get millions, some at a time. The number of the last line.

    `name` goes before each line, as that of a file does in grep. `in_groups`: with a line between two that do not
    follow each other, as grep has it; `last` is of what came before.
    """
    for_a_person, told = is_terminal(sys.stdout), list[str]()
    for match in found.matches:
        above = len(match.before)
        if in_groups and last is not None and match.line - above != last + 1:
            told.append(paint("--", "dim"))
        last = match.line + len(match.after)
        if above:
            told += _context(match.line - above, match.before, match.context[:above], for_a_person, name)
        where = f"{name and f'{name}:'}{match.line}:{match.byte}:"
        told.append(
            paint(where, "cyan") + _marked(match) if for_a_person
            else f"{where}{'…' if match.cut_left else ''}{match.text}{'…' if match.cut_right else ''}"
        )  # fmt: skip
        if match.after:
            told += _context(match.line + 1, match.after, match.context[above:], for_a_person, name)
    if told:
        print("\n".join(told))
    return last


def _context(number: int, lines: Sequence[str], places: Sequence[Span], for_a_person: bool, name: str) -> Iterator[str]:
    """Lines around a match, with the sign of grep for them: `12-345-text`."""
    for at, (line, place) in enumerate(zip(lines, places, strict=True), number):
        yield paint(f"{name and f'{name}-'}{at}-{place.start}-{for_people(line) if for_a_person else line}", "dim")


def _marked(match: Match) -> str:
    """The text around a match for a person, the match itself in colour; cut ends are marked."""
    left, right = "…" if match.cut_left else "", "…" if match.cut_right else ""
    before, sign, after = match.text.partition(match.match)
    if not match.match or not sign:
        return f"{left}{for_people(match.text)}{right}"
    return f"{left}{for_people(before)}{paint(for_people(sign), 'red')}{for_people(after)}{right}"


def groups(found: Found, name: str = "") -> None:
    for_a_person = is_terminal(sys.stdout)
    counts = [grouped(group.count) if for_a_person else str(group.count) for group in found.groups]
    width = max(map(len, counts), default=1)
    for count, group in zip(counts, found.groups, strict=True):
        print(
            f"{name and f'{name}:'}{count:>{width}}  {one_line(group.value, 100_000) if for_a_person else group.value}"
        )


class Stream:
    """What grep and query find, printed as it comes, with flat memory; as JSON one object, whose list comes first."""

    def __init__(self, *, as_json: bool, rows: Rows, name: str = "", in_groups: bool = False) -> None:
        self.number = 0  # of what was printed
        self.first: Nodes | None = None
        self.last: Found | Table | Nodes | None = None
        self.shown: list[Span] = []  # bytes that were printed, neighbouring lines as one
        self._as_json = as_json
        self._rows = rows
        self._name = name
        self._in_groups = in_groups
        self._last_line: int | None = None
        self._began = False

    def add(self, part: Found | Table | Nodes) -> None:
        from holdall.values.answers import Found, Table, shown_by
        from holdall.values.spans import Span

        name, items = _items(part)
        if self._as_json:
            sys.stdout.write("" if self._began else f'{{"{name}": [')
            between = ", " if self.number else ""
            for one in part.to_json()[name]:
                sys.stdout.write(between + json_text(one))
                between = ", "
        elif isinstance(part, Found):
            self._last_line = matches(part, name=self._name, in_groups=self._in_groups, last=self._last_line)
        elif isinstance(part, Table):
            self._rows(part, with_names=not self._began)
        else:
            nodes(part)
            self.first = self.first or part
        self._began = True
        self.number += len(items)
        self.last = part
        for span in sorted(shown_by(part), key=lambda span: span.start):
            if self.shown and span.start <= self.shown[-1].end + (_LINE_END if isinstance(part, Found) else 0):
                self.shown[-1] = Span(self.shown[-1].start, max(self.shown[-1].end, span.end))
            elif len(self.shown) < _MOST_SPANS:
                self.shown.append(span)

    def end(self, found: Any) -> None:
        """The rest of the JSON."""
        name, _ = _items(found)
        rest = {key: value for key, value in found.to_json().items() if key != name} | {"more": has_more(found)}
        begin = "]" if self._began else f'{{"{name}": []'
        print(f"{begin}, {json_text(rest)[1:]}", flush=True)


def _items(found: Any) -> tuple[str, Sequence[Any]]:
    """What it lists, by its name in JSON."""
    return next((name, getattr(found, name)) for name in ("matches", "rows", "nodes") if hasattr(found, name))


def has_more(found: Any) -> bool:
    """Whether there is more than the answer shows."""
    groups = getattr(found, "groups", ())
    return found.next is not None or (bool(groups) and found.distinct > len(groups))


def all_in_a_pipe() -> str:
    return "; a pipe gets all: | less" if sys.stdout.isatty() else ""


def found_in_all(found: Found, start: int = 0, shown: int = 0) -> str:
    """`start` is the byte from which on matches were asked for, `shown` the number of lines that were printed."""
    from holdall.wire.answers import matches_and_lines

    parts = [f"{matches_and_lines(found)}, {plural(found.totals.bytes, 'byte')}"]
    if found.groups:
        parts.append(f"{plural(found.distinct, 'different value')}, {len(found.groups):,} shown")
        parts[-1] += all_in_a_pipe() if has_more(found) else ""
    elif found.matches and found.next is not None:
        which = "the last " if found.last else ""
        parts.append(f"{which}{len(found.matches):,} shown; go on with --from {found.next}{all_in_a_pipe()}")
    elif found.total and start and not shown:
        where = f"before byte {grouped(start)}" if found.last else f"at byte {grouped(start)} or after it"
        parts.append(f"none of them {where}")
    return " · ".join([*parts, *found.notes])


def changes(found: Difference) -> None:
    from holdall.wire.answers import told_change, told_difference

    for change in found.changes:
        for line in told_change(change, whole=not sys.stdout.isatty()).split("\n"):
            shown = for_people(line) if is_terminal(sys.stdout) else line
            print(paint(shown, {"-": "red", "+": "green"}.get(line[:1], "dim")))
    parts = [f"{told_difference(found)} (from {found.other} to {found.handle})"]
    parts += [note.replace("(with key=", "(with --key ") for note in found.notes]
    if found.next is not None:
        parts.append(f"{len(found.changes):,} of {plural(found.total, 'change')} shown; go on with --skip {found.next}")
        parts[-1] += all_in_a_pipe()
    elif any(side.cut for change in found.changes for side in (change.before, change.after) if side):
        parts[-1] += all_in_a_pipe()
    about(" · ".join(parts))


def rows(table: Table, *, with_names: bool = True) -> None:
    """Aligned for a person, tab-separated for a pipe; the names of the columns are the first line."""
    cells = [[_cell(value) for value in row] for row in table.rows]
    if not is_terminal(sys.stdout):
        for row in [table.columns, *cells] if with_names else cells:
            print("\t".join(cell.replace("\t", "\\t").replace("\n", "\\n") for cell in row))
        return
    columns([one_line(name, 80) for name in table.columns], [[one_line(cell, 80) for cell in row] for row in cells])


def csv_rows(table: Table, *, with_names: bool = True) -> None:
    """As CSV (RFC 4180) with the line ends of a shell. An empty text has quotes, which a missing value has not."""
    for row in [table.columns, *table.rows] if with_names else table.rows:
        cells = ["" if value is None else _csv_cell(_cell(value)) for value in row]
        line = ",".join(cells) or '""'  # a line of nothing would be no row
        print(for_people(line) if is_terminal(sys.stdout) else line)


def _csv_cell(text: str) -> str:
    quoted = not text or any(sign in text for sign in ',"\r\n')
    return '"' + text.replace('"', '""') + '"' if quoted else text


def columns(names: Sequence[str], cells: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A plain table: as wide as its widest cell."""
    widths = [max(len(row[at]) for row in [names, *cells]) for at in range(len(names))]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(padded).rstrip()

    print(paint(line(names), "bold"))
    for row in cells:
        print(line(row))


def nodes(found: Nodes) -> None:
    for node in found.nodes:
        text = for_people(node.text) if is_terminal(sys.stdout) else node.text
        print(text + ("…" if node.cut else ""))


def places(found: Nodes | None, total: int, most: int = 5) -> list[str]:
    """Where the first values stand: `$['items'][2] at line 1, bytes 96–143`."""
    if found is None:
        return []
    told = [
        f"{one_line(node.path, 200)} at line {node.lines.start if node.lines else 1:,}, "
        f"bytes {_range(node.bytes.start, node.bytes.end)}"
        for node in found.nodes[:most]
    ]
    return told + (["the places of all of them: --json"] if total > len(told) else [])


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _range(start: int, end: int) -> str:
    return f"{start:,}–{end:,}"
