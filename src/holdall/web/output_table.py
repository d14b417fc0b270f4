"""A table as a page shows it: lines of CSV as cells, and the rows that SQL answers.

CSV is cut at line ends, so that any part of it costs the same. A quoted field that goes on over several lines is put
together from lines before the window; where that fails, or a line has another number of columns than the first one, it
is marked and shown as it stands. `query` reads the whole and knows better. A long cell says how much of it is left, and
a table with very many columns how many there are.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdall.formats.kinds import delimiter_of
from holdall.values.answers import Table
from holdall.web.output_rows import Reader, lines_from
from holdall.web.output_text import Run, runs_of

_BACK = 32  # lines before a window in which a quoted field may have begun
_LINE_BYTES = 16 * 1024
_CELL = 300  # characters
_SAMPLE = 50
MOST_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class Columns:
    names: tuple[str, ...]
    sign: str


def columns_of(reader: Reader) -> Columns | None:
    """By the first lines; None where they are no table."""
    texts = [_text(reader, start, end) for _, start, end in _lines(reader, 1, _SAMPLE)]
    if not texts:
        return None
    texts[0] = texts[0].removeprefix("\ufeff")
    sign = delimiter_of([text for text in texts if text.strip()])
    if sign is None:
        return None
    names, _ = next(_records(texts[:1], sign))
    return Columns(tuple(names), sign)


def table_rows(reader: Reader, columns: Columns, first: int, count: int) -> list[dict[str, Any]]:
    """A row for each line from `first` on. A line that goes on a field of the one before has no cells of its own."""
    begin = max(1, first - _BACK)
    lines = list(_lines(reader, begin, count + first - begin))
    texts = [_text(reader, start, end) for _, start, end in lines]
    rows: list[dict[str, Any]] = []
    for fields, taken in _records(texts, columns.sign):
        for offset in range(taken):
            number, start, end = lines[len(rows)]
            row: dict[str, Any] = {"n": number, "at": start, "end": end}
            if offset:
                row["goes_on"] = True
            elif len(fields) == len(columns.names):
                row["cells"] = [cell_of(field) for field in fields[:MOST_COLUMNS]]
            else:
                row["odd"] = cell_of(texts[len(rows)])
            rows.append(row)
    return rows[first - begin :]


def answer_of(table: Table) -> dict[str, Any]:
    return {
        "columns": [runs_of(name.encode("utf-8", "surrogatepass")) for name in table.columns],
        "types": list(table.types),
        "rows": [[cell_of(value) for value in row] for row in table.rows],
        "shown": len(table.rows),
        "total": table.total,
        "more": table.next is not None,
        "notes": list(table.notes),
    }


def cell_of(value: object) -> dict[str, Any]:
    """What stands in it, and of what kind it is."""
    match value:
        case None:
            return {"t": ["NULL"], "k": "null"}
        case bool() | int() | float():
            return {"t": [json.dumps(value)], "k": "number"}
        case str():
            text = value
        case _:
            text = json.dumps(value, ensure_ascii=False, default=str)
    shown: list[Run] = runs_of(text[:_CELL].encode("utf-8", "surrogatepass"))
    left = len(text) - _CELL
    return {"t": shown, "k": "text", **({"left": left} if left > 0 else {})}


def _lines(reader: Reader, first: int, count: int) -> Iterator[tuple[int, int, int]]:
    for row in lines_from(reader, first, count, most=1):
        yield row.number, row.start, row.end


def _text(reader: Reader, start: int, end: int) -> str:
    return reader.read(start, min(end, start + _LINE_BYTES)).decode("utf-8", "replace")


def _records(texts: Sequence[str], sign: str) -> Iterator[tuple[list[str], int]]:
    """The fields of each record, and how many lines it takes."""
    at = 0
    while at < len(texts):
        reader = csv.reader((text.replace("\0", "\\0") for text in texts[at:]), delimiter=sign)
        taken = 0
        try:
            for fields in reader:
                yield fields, reader.line_num - taken
                taken = reader.line_num
            at = len(texts)
        except csv.Error:  # a field that is longer than the reader takes
            yield [], 1
            taken += 1
            at += taken
