"""The text of an answer, taken apart again as a model reads it: how many there are, what is shown, where it stands.

The searcher and the judge both read answers through this, and through nothing else.
"""

import json
import re
from dataclasses import dataclass

_TOTAL = re.compile(r"(?:^| · )([\d,]+) (match|matches|matching line|matching lines|row|rows|value|values)\b")
_LINES = re.compile(r"(?:^| · )[\d,]+ match(?:es)? on ([\d,]+) of ")
_DISTINCT = re.compile(r" · ([\d,]+) different values?\b")
_HIT = re.compile(r"^L([\d,]+)(?: \(byte ([\d,]+)\))?  (.*)$")  # the byte only where a line is cut
_GROUP = re.compile(r"^([\d,]+) × (.*)$")


@dataclass(frozen=True, slots=True)
class Hit:
    line: int
    byte: int
    text: str

    @property
    def is_cut(self) -> bool:
        return self.text.startswith("…") or self.text.endswith("…")


@dataclass(frozen=True, slots=True)
class Reply:
    """One call and what came back."""

    tool: str
    arguments: dict[str, object]
    text: str
    is_error: bool = False

    @property
    def head(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def body(self) -> list[str]:
        """The lines between the fences."""
        lines = self.text.split("\n")
        fences = [at for at, line in enumerate(lines) if re.fullmatch(r"</?\d{3,}>", line)]
        return lines[fences[0] + 1 : fences[-1]] if len(fences) > 1 else []

    @property
    def total(self) -> int:
        """How many matches, values or rows there are in the whole output, shown or not; 0 for any other answer."""
        found = _TOTAL.search(self.head)
        return number(found[1]) if found and not self.is_error else 0

    @property
    def hits(self) -> list[Hit]:
        found = [_HIT.match(line) for line in self.body]
        return [Hit(number(hit[1]), number(hit[2] or "0"), hit[3]) for hit in found if hit]

    @property
    def groups(self) -> list[tuple[int, str]]:
        """How often each value occurs, the most frequent first."""
        if not self.arguments.get("group"):
            return []
        found = [_GROUP.match(line) for line in self.body]
        return [(number(group[1]), group[2]) for group in found if group]

    @property
    def rows(self) -> list[list[str]]:
        """The cells that SQL gave, row by row, without the numbers of lines: those are places, not values."""
        if "sql" not in self.arguments:
            return []
        columns, *rows = [line.split(" | ") for line in self.body] or [[]]
        return [[cell for at, cell in enumerate(row) if columns[at : at + 1] != ["line_no"]] for row in rows]

    @property
    def lines(self) -> list[tuple[int, str]]:
        """Lines of the output that SQL gave by number and text; where the text may be JSON, in both readings."""
        if self.body[:1] != ["line_no | text"] or "sql" not in self.arguments:
            return []
        cells = [line.partition(" | ") for line in self.body[1:]]
        return [(int(at), text) for at, _, cell in cells if at.isdigit() for text in {cell, _unquoted(cell)}]

    @property
    def figures(self) -> set[int]:
        """Every number that the tool itself has counted."""
        counted = {count for count, _ in self.groups}
        counted |= {
            number(found[1]) for found in (one.search(self.head) for one in (_TOTAL, _LINES, _DISTINCT)) if found
        }
        return counted | {int(cell) for row in self.rows for cell in row if cell.isdigit()}


def _unquoted(cell: str) -> str:
    """A cell that could be misread is written as a JSON text."""
    try:
        value = json.loads(cell) if cell.startswith('"') else cell
    except ValueError:
        return cell
    return value if isinstance(value, str) else cell


def number(text: str) -> int:
    return int(text.replace(",", ""))
